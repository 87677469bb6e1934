// SPDX-License-Identifier: Apache-2.0
// For tests: a CUDA that is not the machine's. Free of vendor headers.
#pragma once
#include "backends/cudnn/libraries.hpp"

namespace stiletto::detail::cudnn {

/// Libraries to look CUDA's functions up in, instead of what libraries_for_device() opens. Before first use.
void use_libraries(const Library& runtime, const Library& driver);

}  // namespace stiletto::detail::cudnn
