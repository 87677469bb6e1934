// SPDX-License-Identifier: Apache-2.0
// The GPUs that a driver shows, asked of the driver itself: no CUDA runtime is needed and no memory is taken
// on any of them.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "backends/cudnn/libraries.hpp"

namespace stiletto::detail::cudnn {

struct Gpu {
  std::string name;    // "NVIDIA H200"
  int capability = 0;  // 90 for 9.0
  int multiprocessors = 0;
  std::uint64_t memory = 0;  // bytes
};

/// `problem` is a sentence where the driver is there and shows none.
std::vector<Gpu> survey_gpus(const Library& driver, std::string& problem);

}  // namespace stiletto::detail::cudnn
