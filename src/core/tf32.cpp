// SPDX-License-Identifier: Apache-2.0
#include "core/tf32.hpp"

#include <cstdlib>
#include <mutex>
#include <string_view>

#include "stiletto/compile.hpp"
#include "stiletto/error.hpp"

namespace stiletto {
namespace {

struct Choice {
  std::mutex mutex;
  bool allowed = detail::environment_allows_tf32();
  bool settled = false;
};
Choice& choice() {
  static Choice choice;
  return choice;
}

}  // namespace

void set_allow_tf32(bool allow) {
  Choice& c = choice();
  const std::lock_guard lock(c.mutex);
  if (c.settled)
    throw DeviceError(
        "set_allow_tf32: the libraries for GPUs are open already, and read this as they open; call it at the "
        "start of the program, before any array, plan or target of a GPU");
  c.allowed = allow;
}

namespace detail {

bool environment_allows_tf32() {
  const char* const variable = std::getenv("NVIDIA_TF32_OVERRIDE");
  return variable == nullptr || std::string_view(variable) != "0";
}

bool tf32_allowed() {
  Choice& c = choice();
  const std::lock_guard lock(c.mutex);
  return c.allowed;
}

bool settle_tf32() {
  Choice& c = choice();
  const std::lock_guard lock(c.mutex);
  c.settled = true;
  return c.allowed;
}

}  // namespace detail
}  // namespace stiletto
