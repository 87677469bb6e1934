// SPDX-License-Identifier: Apache-2.0
// A library that says about itself what a driver, NVRTC, CUDA runtime, cuBLASLt and cuDNN of some version
// say, and can do nothing else. FAKE_CUDA is CUDA's version (13000), FAKE_CUDNN cuDNN's, FAKE_STATUS what
// calls return.
#include <cstddef>

#define FAKE extern "C" __attribute__((visibility("default")))

FAKE int cuDriverGetVersion(int* version) {
  *version = FAKE_CUDA;
  return FAKE_STATUS;
}
FAKE int nvrtcVersion(int* major, int* minor) {
  *major = FAKE_CUDA / 1000;
  *minor = FAKE_CUDA % 1000 / 10;
  return FAKE_STATUS;
}
FAKE int cudaRuntimeGetVersion(int* version) {
  *version = FAKE_CUDA;
  return FAKE_STATUS;
}
FAKE std::size_t cublasLtGetVersion() { return FAKE_CUDA / 1000 * 10000; }
FAKE std::size_t cudnnGetVersion() { return FAKE_CUDNN; }
FAKE std::size_t cudnnGetCudartVersion() { return FAKE_CUDA; }
