// SPDX-License-Identifier: Apache-2.0
// Opening the libraries found in given folders; libraries.cpp does it once for the process, tests for folders
// of their own.
#pragma once
#include <string>

#include "backends/cudnn/libraries.hpp"
#include "backends/cudnn/library_search.hpp"

namespace stiletto::detail::cudnn {

/// Opens a real driver; `problem` says why there is none.
Library open_driver(const SearchFolders& folders, int& version);

/// Opens our stand-in under the driver's name.
Library open_stand_in();

/// Opens NVRTC, the CUDA runtime, cuBLASLt and cuDNN, all for one major version of CUDA: the highest that
/// `driver_version` runs and of which all are there. What is missing or unfit has a `problem`.
void open_toolkit(const SearchFolders& folders, Libraries& libraries);

/// The first problem in the order in which they are opened; empty when all is well.
std::string first_problem(const Libraries& libraries);

/// "13.0" of 13000.
std::string cuda_version(int version);
/// "9.19.0" of 91900, "8.9.7" of 8907.
std::string cudnn_version(std::size_t version);

}  // namespace stiletto::detail::cudnn
