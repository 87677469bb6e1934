// SPDX-License-Identifier: Apache-2.0
// The tests of GPU memory over a CUDA without a GPU (support/fake_cudart.cpp).
#include <gtest/gtest.h>

#include <cstdio>

#include "backends/cudnn/given_libraries.hpp"
#include "support/cuda_api.hpp"

namespace support {
void* cuda_runtime_handle() {
  static void* const handle = dlopen(STILETTO_FAKE_CUDART, RTLD_NOW);
  return handle;
}
}  // namespace support

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (support::cuda_runtime_handle() == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  stiletto::detail::cudnn::Library fake;
  fake.name = "fake_cudart";
  fake.path = STILETTO_FAKE_CUDART;
  fake.version = "13.0";
  fake.handle = support::cuda_runtime_handle();
  stiletto::detail::cudnn::use_libraries(fake, fake);
  return RUN_ALL_TESTS();
}
