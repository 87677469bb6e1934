// SPDX-License-Identifier: Apache-2.0
// Graphs around one structured operation, which is a node of cuDNN's own: its operands are memory, its
// results are memory, and pointwise operations may follow over the axes of its first result.
#pragma once
#include <vector>

#include "backends/cudnn/engine_graph.hpp"
#include "backends/cudnn/geometry.hpp"
#include "compiler/canonical.hpp"

namespace stiletto::detail::cudnn {

bool has_structured(const CanonicalGraph& graph);

/// The ways of lowering it. Their `space` is empty: operands have the dimensions that the operation gives
/// them.
std::vector<Geometry> structured_geometries(const CanonicalGraph& graph);

/// Throws NotLowered.
EngineGraph lower_structured(const CanonicalGraph& graph, const Geometry& geometry);

}  // namespace stiletto::detail::cudnn
