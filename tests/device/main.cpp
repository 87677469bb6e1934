// SPDX-License-Identifier: Apache-2.0
// Tests on a real GPU. Without one the program says so and why, and ends with 77, which ctest shows as
// skipped; with STILETTO_REQUIRE_GPU=1 that is a failure.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "backends/cudnn/libraries.hpp"
#include "stiletto/error.hpp"
#include "support/cuda_api.hpp"

namespace support {
void* cuda_runtime_handle() { return stiletto::detail::cudnn::libraries_for_device().runtime.handle; }
}  // namespace support

namespace {

/// Empty when there is a GPU to use.
std::string why_not() {
  try {
    int count = 0;
    const int status = support::cuda_status("cudaGetDeviceCount", &count);
    if (status != 0) return "the CUDA runtime finds no GPU (error " + std::to_string(status) + ")";
    return count > 0 ? "" : "this machine has no NVIDIA GPU";
  } catch (const stiletto::Error& error) {
    return error.what();
  }
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const std::string reason = testing::GTEST_FLAG(list_tests) ? "" : why_not();
  if (reason.empty()) return RUN_ALL_TESTS();
  const char* const required = std::getenv("STILETTO_REQUIRE_GPU");
  const bool fail = required != nullptr && std::string(required) == "1";
  std::printf("%s: the device tests did not run: %s\n", fail ? "FAILED" : "SKIPPED", reason.c_str());
  return fail ? 1 : 77;
}
