// SPDX-License-Identifier: Apache-2.0
// Looking up CUDA's functions, and the small things around calling them.
#include "backends/cudnn/cuda_runtime.hpp"

#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <thread>

#include "backends/cudnn/given_libraries.hpp"
#include "core/text.hpp"
#include "stiletto/error.hpp"

namespace stiletto::detail::cudnn {
namespace {

std::atomic<bool> gone{false};
pthread_t ending_thread{};  // written before gone

struct GivenLibraries {
  Library runtime, driver;
};
std::optional<GivenLibraries>& given_libraries() {
  static std::optional<GivenLibraries> given;
  return given;
}

template <class Function>
void look_up(Function& function, const Library& library, const char* name) {
  function = reinterpret_cast<Function>(dlsym(library.handle, name));
  if (function == nullptr)
    throw DeviceError(text(library.path, " (version ", library.version.empty() ? "unknown" : library.version,
                           ") has no function ", name, "; Stiletto needs CUDA ",
                           minimum_runtime_version / 1000, ".", minimum_runtime_version % 1000 / 10,
                           " or newer, driver and runtime"));
}

/// Handlers of exit run in the reverse order of their registration: this one, registered after the runtime
/// was opened, runs before the runtime's own.
void watch_for_the_end() {
  std::atexit([] {
    ending_thread = pthread_self();
    gone.store(true);
  });
  pthread_atfork(nullptr, nullptr, [] { gone.store(true); });
}

CudaRuntime open_runtime() {
  const std::optional<GivenLibraries>& given = given_libraries();
  const CudaRuntime table = given
                                ? load_runtime(given->runtime, given->driver)
                                : load_runtime(libraries_for_device().runtime, libraries_for_device().driver);
  watch_for_the_end();
  return table;
}

/// After these the process can use no GPU any more.
bool is_final(cudaError_t status) {
  switch (status) {
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchFailure:
    case cudaErrorLaunchTimeout:
    case cudaErrorMisalignedAddress:
    case cudaErrorIllegalInstruction:
    case cudaErrorECCUncorrectable:
    case cudaErrorHardwareStackError:
    case cudaErrorContained:
      return true;
    default:
      return false;
  }
}

}  // namespace

CudaRuntime load_runtime(const Library& runtime, const Library& driver) {
  CudaRuntime table;
#define STILETTO_CUDA_FUNCTION(name) look_up(table.name, runtime, "cuda" #name)
#include "backends/cudnn/cuda_functions.inc"
#undef STILETTO_CUDA_FUNCTION
  look_up(table.memset_16, driver, "cuMemsetD16Async");
  look_up(table.memset_32, driver, "cuMemsetD32Async");
  look_up(table.memset_2d_32, driver, "cuMemsetD2D32Async");
  look_up(table.stream_get_capture_info, driver, "cuStreamGetCaptureInfo_v2");
  return table;
}

void use_libraries(const Library& runtime, const Library& driver) { given_libraries() = {runtime, driver}; }

const CudaRuntime& cuda() {
  static const CudaRuntime table = open_runtime();  // what throws is tried again at the next use
  return table;
}

bool cuda_is_gone() { return gone.load(std::memory_order_relaxed); }

void check(cudaError_t status, const char* operation) {
  if (status == cudaSuccess) return;
  // The process is ending in another thread, and the driver is shutting down: an exception here would end it
  // by std::terminate on the way. This thread has nothing left to do.
  while (status == cudaErrorCudartUnloading && cuda_is_gone() &&
         pthread_equal(ending_thread, pthread_self()) == 0)
    std::this_thread::sleep_for(std::chrono::hours(1));
  const CudaRuntime& runtime = cuda();
  runtime.GetLastError();  // else the caller's own next check would find this error
  int device = 0;
  runtime.GetDevice(&device);
  throw DeviceError(text(operation, ": CUDA error ", static_cast<int>(status), " (",
                         runtime.GetErrorString(status), ") on ", Device::cuda(device),
                         is_final(status) ? "; work queued earlier failed, and this process can use the GPU "
                                            "no more: start it again, and look for the cause with "
                                            "compute-sanitizer"
                                          : ""));
}

CurrentDevice::CurrentDevice(int index) {
  check(cuda().GetDevice(&before_), "current device");
  if (before_ == index) return;
  check(cuda().SetDevice(index), "current device");
  changed_ = true;
}

CurrentDevice::~CurrentDevice() {
  if (changed_) cuda().SetDevice(before_);
}

Capture capture_of(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  const cudaError_t error = cuda().StreamIsCapturing(stream, &status);
  if (error == cudaSuccess) return status == cudaStreamCaptureStatusNone ? Capture::none : Capture::active;
  cuda().GetLastError();
  return error == cudaErrorStreamCaptureImplicit ? Capture::elsewhere : Capture::none;
}

}  // namespace stiletto::detail::cudnn
