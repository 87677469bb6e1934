// SPDX-License-Identifier: Apache-2.0
// Where shared libraries and our own companion files (the driver stand-in, the plan builder) may lie.
#pragma once
#include <string>
#include <vector>

namespace stiletto::detail::cudnn {

/// Folders in the order in which they are searched. The dynamic loader, with LD_LIBRARY_PATH and what the
/// process has loaded already, comes between the two lists.
struct SearchFolders {
  std::vector<std::string> before;  // of STILETTO_CUDA_LIBRARIES
  std::vector<std::string> absent;  // named there, and no folders
  std::vector<std::string> after;   // toolkits, then Python's wheels
  bool loader = true;               // tests leave it out
};

/// Of this machine and environment; only folders that exist.
SearchFolders search_folders();

/// The full path of a file installed beside the library ("stiletto_driver_stand_in.so") or made in its build
/// tree; empty when it is nowhere.
std::string find_companion(const std::string& name);

}  // namespace stiletto::detail::cudnn
