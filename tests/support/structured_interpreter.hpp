// SPDX-License-Identifier: Apache-2.0
// Structured nodes of an engine graph, computed by the CPU's kernels: what is tested is how their operands
// are described.
#pragma once
#include <cstdint>
#include <vector>

#include "backends/cudnn/engine_graph.hpp"

namespace support {

/// `values`: per tensor of the graph, row-major over its dims; those of the node's results are filled. They
/// are computed in float32, `exact` in float64.
void interpret_structured(const stiletto::detail::cudnn::EngineGraph& graph,
                          const stiletto::detail::cudnn::EngineNode& node,
                          std::vector<std::vector<double>>& values, bool exact);

}  // namespace support
