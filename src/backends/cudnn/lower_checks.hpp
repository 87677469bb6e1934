// SPDX-License-Identifier: Apache-2.0
// Graphs that cuDNN takes and gets wrong, measured on an H200 with cuDNN 9.19: they are refused.
#pragma once
#include "backends/cudnn/engine_graph.hpp"
#include "compiler/canonical.hpp"

namespace stiletto::detail::cudnn {

/// Throws NotLowered, which names the memory or the value that stands in the way.
void check_lowered(const EngineGraph& graph, const CanonicalGraph& canonical);

}  // namespace stiletto::detail::cudnn
