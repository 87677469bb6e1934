// SPDX-License-Identifier: Apache-2.0
// A library that says about itself what a driver, NVRTC, CUDA runtime, cuBLASLt and cuDNN of some version
// say, has some GPUs, and can do nothing else. FAKE_CUDA is CUDA's version (13000), FAKE_CUDNN cuDNN's,
// FAKE_GPUS how many GPUs there are, FAKE_STATUS what calls return that ask for a version or describe a GPU.
#include <cstddef>
#include <cstdint>
#include <cstring>

#define FAKE extern "C" __attribute__((visibility("default")))

namespace {

constexpr char properties[] =
    R"({"maxGridSize":[1,1,1],"maxBlockSize":[1,1,1],"regsPerBlock":1,"multiProcessorCount":2,"warpSize":32,)"
    R"("maxSharedMemoryPerBlock":1,"maxSharedMemoryPerBlockOptin":1,"reservedSharedMemoryPerBlock":1,)"
    R"("maxRegistersPerSM":1,"maxCtasPerSM":1,"maxThreadsPerBlock":1,"maxThreadsPerSM":1,"pciDeviceId":0,)"
    R"("isTccDriver":0,"supportCoopLaunch":1,"totalGlobalMem":1,"smClockRateKHz":1,"memClockRateKHz":1,)"
    R"("l2CacheSize":1,"cudaDeviceId":1,"deviceVer":750,"driverVer":13000,"deviceName":"a fake GPU"})";

int descriptor;

}  // namespace

// The driver
FAKE int cuDriverGetVersion(int* version) {
  *version = FAKE_CUDA;
  return FAKE_STATUS;
}
FAKE int cuInit(unsigned) { return FAKE_GPUS > 0 ? 0 : 100; }
FAKE int cuDeviceGetCount(int* count) {
  *count = FAKE_GPUS;
  return 0;
}
FAKE int cuDeviceGetName(char* name, int size, int) {
  std::strncpy(name, "a fake GPU", static_cast<std::size_t>(size));
  return 0;
}
FAKE int cuDeviceTotalMem_v2(std::size_t* bytes, int) {
  *bytes = std::size_t{1} << 30;
  return 0;
}
FAKE int cuDeviceGetAttribute(int* value, int attribute, int) {
  *value = attribute == 75 ? 7 : attribute == 76 ? 5 : 2;  // 75 and 76 are the compute capability
  return 0;
}
FAKE int cuGetErrorName(int, const char** name) {
  *name = "A_FAKE_ERROR";
  return 0;
}

// NVRTC, the CUDA runtime and cuBLASLt
FAKE int nvrtcVersion(int* major, int* minor) {
  *major = FAKE_CUDA / 1000;
  *minor = FAKE_CUDA % 1000 / 10;
  return FAKE_STATUS;
}
FAKE int cudaRuntimeGetVersion(int* version) {
  *version = FAKE_CUDA;
  return FAKE_STATUS;
}
FAKE int cudaGetDeviceCount(int* count) {
  *count = FAKE_GPUS;
  return FAKE_GPUS > 0 ? 0 : 100;
}
FAKE const char* cudaGetErrorString(int) { return "a fake error"; }
FAKE std::size_t cublasLtGetVersion() { return FAKE_CUDA / 1000 * 10000; }

// cuDNN
FAKE std::size_t cudnnGetVersion() { return FAKE_CUDNN; }
FAKE std::size_t cudnnGetCudartVersion() { return FAKE_CUDA; }
FAKE const char* cudnnGetErrorString(int) { return "a fake status"; }
FAKE int cudnnBackendCreateDescriptor(int, void** result) {
  *result = &descriptor;
  return 0;
}
FAKE int cudnnBackendDestroyDescriptor(void*) { return 0; }
FAKE int cudnnBackendSetAttribute(void*, int, int, std::int64_t, const void*) { return 0; }
FAKE int cudnnBackendFinalize(void*) { return FAKE_STATUS; }
FAKE int cudnnBackendGetAttribute(void*, int, int, std::int64_t requested, std::int64_t* count, void* bytes) {
  *count = sizeof properties;  // with the end of the text, as cuDNN counts
  if (bytes != nullptr) std::memcpy(bytes, properties, static_cast<std::size_t>(requested));
  return 0;
}
