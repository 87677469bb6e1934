// SPDX-License-Identifier: Apache-2.0
// Nodes of an engine graph that quantize, dequantize or attend over blocks, by the reference for block
// scaling.
#pragma once
#include <vector>

#include "backends/cudnn/engine_graph.hpp"

namespace support {

/// `values`: per tensor of the graph, row-major over its dims; those of the node's results are filled.
void interpret_blocks(const stiletto::detail::cudnn::EngineGraph& graph,
                      const stiletto::detail::cudnn::EngineNode& node,
                      std::vector<std::vector<double>>& values);

/// Attention over blocks becomes attention over numbers: the values of q, k and v are those that their blocks
/// stand for, and the node returned has no scales.
stiletto::detail::cudnn::EngineNode without_blocks(const stiletto::detail::cudnn::EngineGraph& graph,
                                                   const stiletto::detail::cudnn::EngineNode& node,
                                                   std::vector<std::vector<double>>& values);

}  // namespace support
