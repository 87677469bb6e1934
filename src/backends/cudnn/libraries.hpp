// SPDX-License-Identifier: Apache-2.0
// Finding and opening what the cuDNN backend needs at run time: the driver, NVRTC, the CUDA runtime, cuBLASLt
// and cuDNN, from a toolkit, from Python's nvidia wheels, or from where STILETTO_CUDA_LIBRARIES says. Nothing
// is linked, so one binary serves machines with all of it and with none.
#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace stiletto::detail::cudnn {

/// A shared library as it was found, or why it was not.
struct Library {
  std::string name;        // "libcudnn.so.9"
  std::string path;        // the full path it was found at; empty when it was not found
  std::string version;     // "9.19.0"; empty where the library has no way to say
  std::string problem;     // a sentence with the way out, when it is missing or cannot be used
  void* handle = nullptr;  // null when it is missing or cannot be used
};

/// What this machine has. Looking opens nothing that would start a driver's context.
struct Libraries {
  Library driver, nvrtc_builtins, nvrtc, runtime;
  Library cublas_lt;  // opened by cuDNN, which ends the process when it is missing
  Library cudnn;
  bool stand_in = false;   // the driver is ours: plans can be built, nothing can run
  int driver_version = 0;  // as CUDA numbers them: 13000 is 13.0; 0 without a driver
  int runtime_version = 0;
  std::size_t cudnn_version = 0;      // 91900
  std::vector<std::string> searched;  // in order, in words
};

/// The oldest versions this backend was made for: below them a DeviceError names both versions.
inline constexpr int minimum_driver_version = 12000;
inline constexpr int minimum_runtime_version = 12000;
inline constexpr std::size_t minimum_cudnn_version = 91000;

/// For executing on a GPU. Opened once per process, in the order NVRTC's builtins, NVRTC, CUDA runtime,
/// cuBLASLt, cuDNN; throws DeviceError, the same one each time, that says what is missing or too old and what
/// to do.
const Libraries& libraries_for_device();

/// For building plans only. With a driver on the machine: as above. Without: the driver stand-in is opened
/// first, and the process can never use a real GPU afterwards.
const Libraries& libraries_for_planning();

/// For the plan builder, before anything is opened: planning uses the stand-in whatever the machine has.
void force_stand_in();

/// What would be opened, for `stiletto info`; never throws.
Libraries survey_libraries();

/// Whether a real NVIDIA driver can be opened on this machine (no GPU is touched).
bool has_driver();

}  // namespace stiletto::detail::cudnn
