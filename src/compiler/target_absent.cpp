// SPDX-License-Identifier: Apache-2.0
// Target in builds without the cuDNN backend: every function says that there are no GPUs to build for.
#ifndef STILETTO_HAS_CUDNN
#include <utility>

#include "core/text.hpp"
#include "stiletto/compile.hpp"
#include "stiletto/error.hpp"

namespace stiletto {

namespace {

[[noreturn]] void refuse(const char* function) {
  throw DeviceError(detail::text("Target::", function,
                                 ": this build has no cuDNN backend, so there is no GPU to build plans for; "
                                 "configure with -DSTILETTO_CUDA=ON (scripts/bootstrap.sh --cuda fetches the "
                                 "headers)"));
}

}  // namespace

Target Target::named(const std::string&) { refuse("named"); }
Target Target::from_file(const std::filesystem::path&) { refuse("from_file"); }
Target Target::current(int) { refuse("current"); }
std::vector<std::string> Target::names() { refuse("names"); }
std::string Target::to_json() const { refuse("to_json"); }
bool Target::operator==(const Target& other) const { return properties_ == other.properties_; }
Target::Target(std::shared_ptr<const detail::TargetProperties> properties)
    : properties_(std::move(properties)) {}

}  // namespace stiletto
#endif
