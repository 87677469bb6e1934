// SPDX-License-Identifier: Apache-2.0
// The process's one set of libraries: opened at first use, never closed, since cuDNN and the CUDA runtime
// keep threads and exit handlers of their own.
#include "backends/cudnn/libraries.hpp"

#include <atomic>
#include <cstdlib>
#include <string>

#include "backends/cudnn/library_opening.hpp"
#include "core/tf32.hpp"
#include "stiletto/error.hpp"

namespace stiletto::detail::cudnn {

namespace {

std::atomic<bool>& stand_in_forced() {
  static std::atomic<bool> forced = false;
  return forced;
}

struct RealDriver {
  Library library;
  int version = 0;
};

/// Looked for once: after the stand-in is loaded, the driver's name leads to the stand-in.
const RealDriver& real_driver() {
  static const RealDriver& driver = *[] {
    auto* found = new RealDriver;
    found->library = open_driver(search_folders(), found->version);
    return found;
  }();
  return driver;
}

/// There is no option of cuDNN's for it: its libraries read the environment.
void hand_over_tf32() {
  const bool allowed = settle_tf32();
  if (allowed == environment_allows_tf32()) return;
  if (allowed)
    unsetenv("NVIDIA_TF32_OVERRIDE");
  else
    setenv("NVIDIA_TF32_OVERRIDE", "0", 1);
}

Libraries open_all(bool stand_in) {
  hand_over_tf32();
  const SearchFolders folders = search_folders();
  Libraries libraries;
  for (const std::string& folder : folders.before)
    libraries.searched.push_back(folder + " (STILETTO_CUDA_LIBRARIES)");
  for (const std::string& folder : folders.absent)
    libraries.searched.push_back(folder + " (STILETTO_CUDA_LIBRARIES; no such folder)");
  libraries.searched.emplace_back("the dynamic loader");
  libraries.searched.insert(libraries.searched.end(), folders.after.begin(), folders.after.end());
  libraries.stand_in = stand_in;
  if (stand_in) {
    libraries.driver = open_stand_in();
  } else {
    libraries.driver = real_driver().library;
    libraries.driver_version = real_driver().version;
  }
  open_toolkit(folders, libraries);
  // cudnn-frontend would take the first of libcudart.so.12 and .13 that the loader knows, and could thus mix
  // two versions of CUDA in one process. A choice that the user has made stays.
  if (!libraries.runtime.path.empty())
    setenv("CUDNN_FRONTEND_CUDART_LIB_NAME", libraries.runtime.path.c_str(), 0);
  return libraries;
}

struct Opened {
  Libraries libraries;
  std::string problem;
  explicit Opened(bool stand_in) : libraries(open_all(stand_in)), problem(first_problem(libraries)) {}
};

const Libraries& usable(const Opened& opened) {
  if (!opened.problem.empty()) throw DeviceError(opened.problem);
  return opened.libraries;
}

const Opened& with_driver() {
  static const Opened& opened = *new Opened(false);
  return opened;
}

const Opened& with_stand_in() {
  static const Opened& opened = *new Opened(true);
  return opened;
}

}  // namespace

void force_stand_in() { stand_in_forced() = true; }

bool has_driver() { return !stand_in_forced() && real_driver().library.handle != nullptr; }

const Libraries& libraries_for_device() {
  // Without a driver nothing is worth opening, and a later stand-in should find the process untouched.
  if (stand_in_forced())
    throw DeviceError("CUDA: this process builds plans with the driver stand-in and cannot use a GPU");
  if (!has_driver()) throw DeviceError(real_driver().library.problem);
  return usable(with_driver());
}

const Libraries& libraries_for_planning() { return usable(has_driver() ? with_driver() : with_stand_in()); }

Libraries survey_libraries() { return with_driver().libraries; }

}  // namespace stiletto::detail::cudnn
