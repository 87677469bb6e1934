// SPDX-License-Identifier: Apache-2.0
// A stand-in for NVIDIA's driver, libcuda.so.1, on machines without one. cuDNN compiles and serialises plans
// for a GPU that is described to it, but it refuses to while the driver is missing, or while loading the
// kernels it has just compiled fails. So here kernels are "loaded" and have plausible attributes, there is no
// GPU, and everything else refuses. A process that has loaded this can never use a real GPU.
//
// No CUDA header is included: under the C calling conventions of x86-64 and AArch64 a function may be defined
// with fewer parameters than its caller passes, and the refusals are defined with none.
#include "driver_stand_in.hpp"

#include <cstring>
#include <string>

#define STILETTO_DRIVER_ANSWER extern "C" __attribute__((visibility("default"))) int

namespace {

constexpr int success = 0;
constexpr int not_found = 500;

// Handles are never looked into; they only have to differ from null and from each other.
char library_handle, module_handle, kernel_handle, function_handle;

int give(void** place, char& handle) {
  *place = &handle;
  return success;
}

int give(int* place, int value) {
  *place = value;
  return success;
}

int refuse() { return stiletto_no_driver; }

void* find(const std::string& name) {
  for (const StilettoDriverFunction* row = stiletto_driver_functions; row->name != nullptr; ++row)
    if (name == row->name) return row->function;
  return nullptr;
}

}  // namespace

/// Tells this library from a real driver that is loaded under the same name.
STILETTO_DRIVER_ANSWER stiletto_driver_stand_in() { return 1; }

STILETTO_DRIVER_ANSWER cuDriverGetVersion(int* version) { return give(version, 13000); }
STILETTO_DRIVER_ANSWER cuDeviceGetCount(int* count) { return give(count, 0); }
STILETTO_DRIVER_ANSWER cuDeviceGetAttribute(int* value) { return give(value, 1); }
STILETTO_DRIVER_ANSWER cuCtxGetDevice(int* device) { return give(device, 0); }
STILETTO_DRIVER_ANSWER cuCtxGetCurrent(void** context) {
  *context = nullptr;
  return success;
}

STILETTO_DRIVER_ANSWER cuGetErrorString(int, const char** text) {
  *text = "there is no NVIDIA driver on this machine; Stiletto's stand-in only helps to build plans";
  return success;
}
STILETTO_DRIVER_ANSWER cuGetErrorName(int, const char** text) {
  *text = "CUDA_ERROR_STUB_LIBRARY";
  return success;
}

STILETTO_DRIVER_ANSWER cuLibraryLoadData(void** library) { return give(library, library_handle); }
STILETTO_DRIVER_ANSWER cuLibraryGetKernel(void** kernel) { return give(kernel, kernel_handle); }
STILETTO_DRIVER_ANSWER cuModuleLoadData(void** module) { return give(module, module_handle); }
STILETTO_DRIVER_ANSWER cuModuleLoadDataEx(void** module) { return give(module, module_handle); }
STILETTO_DRIVER_ANSWER cuModuleGetFunction(void** function) { return give(function, function_handle); }
STILETTO_DRIVER_ANSWER cuKernelGetFunction(void** function) { return give(function, function_handle); }

// Registers, shared memory and threads of a kernel: one number that is a sensible answer to each.
STILETTO_DRIVER_ANSWER cuKernelGetAttribute(int* value) { return give(value, 64); }
STILETTO_DRIVER_ANSWER cuFuncGetAttribute(int* value) { return give(value, 64); }

/// The driver answers with a function's newest form: cuStreamBeginCapture with cuStreamBeginCapture_v2. A
/// CUDA runtime newer than the cuda.h of this build asks for names that are not in the table; one that is
/// missing would stop the runtime altogether, so it gets a function that refuses.
STILETTO_DRIVER_ANSWER cuGetProcAddress_v2(const char* name, void** function, int, unsigned long long,
                                           int* status) {
  *function = nullptr;
  if (std::strncmp(name, "cu", 2) == 0) {
    for (const char* suffix : {"_v4", "_v3", "_v2", ""})
      if (*function == nullptr) *function = find(std::string(name) + suffix);
    if (*function == nullptr) *function = reinterpret_cast<void*>(&refuse);
  }
  const bool found = *function != nullptr;
  if (status != nullptr) *status = found ? 0 : 1;  // CU_GET_PROC_ADDRESS_SUCCESS, _SYMBOL_NOT_FOUND
  return found ? success : not_found;
}
STILETTO_DRIVER_ANSWER cuGetProcAddress(const char* name, void** function, int version,
                                        unsigned long long flags) {
  return cuGetProcAddress_v2(name, function, version, flags, nullptr);
}
