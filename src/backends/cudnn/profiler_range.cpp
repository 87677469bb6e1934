// SPDX-License-Identifier: Apache-2.0
// The one translation unit that includes NVTX, where the build has it; see cmake/cuda.cmake.
#include "backends/cudnn/profiler_range.hpp"

#ifdef STILETTO_HAS_NVTX
#include <nvtx3/nvToolsExt.h>
#endif

namespace stiletto::detail::cudnn {

#ifdef STILETTO_HAS_NVTX
ProfilerRange::ProfilerRange(const char* name) { nvtxRangePushA(name); }
ProfilerRange::~ProfilerRange() { nvtxRangePop(); }
#else
ProfilerRange::ProfilerRange(const char*) {}
ProfilerRange::~ProfilerRange() = default;
#endif

}  // namespace stiletto::detail::cudnn
