// SPDX-License-Identifier: Apache-2.0
// GPUs as cuDNN sees them when it chooses engines: the properties it serialises, shipped for some GPUs (files
// in targets/), read from a file, or taken from a GPU that is there.
#pragma once
#include <memory>
#include <string>

#include "stiletto/compile.hpp"
#include "stiletto/error.hpp"

namespace stiletto::detail {

struct TargetProperties {
  std::string name;  // "NVIDIA H200"
  int sm = 0;        // 90 for compute capability 9.0
  std::string json;  // as cuDNN deserialises it
};

struct TargetAccess {
  static const TargetProperties& properties(const Target& target) { return *target.properties_; }
};

/// What executing a plan for a GPU that is not in this machine throws.
[[noreturn]] inline void throw_absent_gpu() {
  throw DeviceError("this plan was built for a GPU that is not here; it can only be inspected");
}

}  // namespace stiletto::detail
