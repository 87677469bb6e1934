// SPDX-License-Identifier: Apache-2.0
// The functions of the CUDA runtime, and the few of the driver, that the backend calls: looked up in the
// libraries that were opened. Included inside src/backends/cudnn only.
#pragma once
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <optional>

#include "backends/cudnn/libraries.hpp"

namespace stiletto::detail::cudnn {

struct CudaRuntime {
// NOLINTNEXTLINE(bugprone-macro-parentheses): a declared name takes none
#define STILETTO_CUDA_FUNCTION(name) decltype(&::cuda##name) name = nullptr
#include "backends/cudnn/cuda_functions.inc"
#undef STILETTO_CUDA_FUNCTION
  // The driver's: the runtime fills bytes only, and its cudaStreamGetCaptureInfo has other parameters in
  // CUDA 13 than in 12.
  decltype(&::cuMemsetD16Async) memset_16 = nullptr;
  decltype(&::cuMemsetD32Async) memset_32 = nullptr;
  decltype(&::cuMemsetD2D32Async) memset_2d_32 = nullptr;
  CUresult (*stream_get_capture_info)(CUstream, CUstreamCaptureStatus*, cuuint64_t*, CUgraph*,
                                      const CUgraphNode**, std::size_t*) = nullptr;
};

/// Of libraries_for_device(), which it opens; DeviceError where there is no GPU to use.
const CudaRuntime& cuda();

/// Looks the functions up; DeviceError names the library, its version and the function it lacks.
CudaRuntime load_runtime(const Library& runtime, const Library& driver);

/// True once the process is ending, and in a child process made by fork: from then on memory is left to the
/// driver, whose own clean-up may already have run, and no CUDA function is called.
bool cuda_is_gone();

/// Throws DeviceError with CUDA's own words: "to: CUDA error 2 (out of memory) on cuda:0".
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

/// While it lives, calls on this thread that have nothing to do with a capture do not invalidate it: CUDA
/// counts allocations and the loading of kernels among what is unsafe beside a capture, in this thread or (in
/// its global mode) any other. In the thread-local mode only captures of other threads are left alone.
class BesideCapture {
 public:
  explicit BesideCapture(cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed) : mode_(mode) {
    cuda().ThreadExchangeStreamCaptureMode(&mode_);
  }
  BesideCapture(const BesideCapture&) = delete;
  BesideCapture& operator=(const BesideCapture&) = delete;
  ~BesideCapture() { cuda().ThreadExchangeStreamCaptureMode(&mode_); }

 private:
  cudaStreamCaptureMode mode_;
};

/// Ends the life of a plan of cuDNN's, which may unload kernels; `present`: of a GPU that is here.
template <class Owner>
void unload(Owner& owner, bool present) {
  std::optional<BesideCapture> beside;
  if (present && !cuda_is_gone()) beside.emplace();
  owner.reset();
}

enum class Capture {
  none,
  active,    // the stream's work is recorded; an invalidated capture counts until it is ended
  elsewhere  // the default stream while a blocking stream captures: nothing may be queued
};
Capture capture_of(cudaStream_t stream);

}  // namespace stiletto::detail::cudnn
