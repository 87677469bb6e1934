// SPDX-License-Identifier: Apache-2.0
// The CUDA runtime's functions that the backend calls, looked up in the library that was opened. Included
// inside src/backends/cudnn only.
#pragma once
#include <cuda_runtime_api.h>

namespace stiletto::detail::cudnn {

struct CudaRuntime {
#define STILETTO_CUDA_FUNCTION(name) decltype(&::cuda##name) name = nullptr
  STILETTO_CUDA_FUNCTION(GetDeviceCount);
  STILETTO_CUDA_FUNCTION(GetDevice);
  STILETTO_CUDA_FUNCTION(SetDevice);
  STILETTO_CUDA_FUNCTION(DeviceGetAttribute);
  STILETTO_CUDA_FUNCTION(GetErrorString);
  STILETTO_CUDA_FUNCTION(GetLastError);
  STILETTO_CUDA_FUNCTION(Malloc);
  STILETTO_CUDA_FUNCTION(Free);
  STILETTO_CUDA_FUNCTION(MallocFromPoolAsync);
  STILETTO_CUDA_FUNCTION(FreeAsync);
  STILETTO_CUDA_FUNCTION(MemPoolCreate);
  STILETTO_CUDA_FUNCTION(MemPoolSetAttribute);
  STILETTO_CUDA_FUNCTION(MemcpyAsync);
  STILETTO_CUDA_FUNCTION(Memcpy2DAsync);
  STILETTO_CUDA_FUNCTION(MemcpyPeerAsync);
  STILETTO_CUDA_FUNCTION(MemsetAsync);
  STILETTO_CUDA_FUNCTION(StreamCreateWithFlags);
  STILETTO_CUDA_FUNCTION(StreamDestroy);
  STILETTO_CUDA_FUNCTION(StreamSynchronize);
  STILETTO_CUDA_FUNCTION(StreamIsCapturing);
  STILETTO_CUDA_FUNCTION(StreamBeginCapture);
  STILETTO_CUDA_FUNCTION(StreamEndCapture);
  STILETTO_CUDA_FUNCTION(GraphInstantiate);
  STILETTO_CUDA_FUNCTION(GraphExecDestroy);
  STILETTO_CUDA_FUNCTION(GraphDestroy);
#undef STILETTO_CUDA_FUNCTION
};

/// Of libraries_for_device(), which it opens; DeviceError where there is no GPU to use.
const CudaRuntime& cuda();

/// Throws DeviceError with CUDA's own words: "to: CUDA error 2 (out of memory) ...".
void check(cudaError_t status, const char* operation);

/// Makes a device current on this thread while it lives.
class CurrentDevice {
 public:
  explicit CurrentDevice(int index);
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;
  ~CurrentDevice();

 private:
  int before_ = 0;
  bool changed_ = false;
};

}  // namespace stiletto::detail::cudnn
