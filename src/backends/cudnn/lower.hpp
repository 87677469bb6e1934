// SPDX-License-Identifier: Apache-2.0
// Canonical graph to cuDNN graph: one node per value, what cuDNN does differently from our rules put right by
// further nodes of the same graph, and what would come out wrong refused.
#pragma once
#include <string>

#include "backends/cudnn/engine_graph.hpp"
#include "backends/cudnn/geometry.hpp"
#include "compiler/canonical.hpp"

namespace stiletto::detail::cudnn {

/// Thrown inside the lowering, caught by the backend: `reason` says which rule of semantics.md or which limit
/// of cuDNN stands in the way.
struct NotLowered {
  std::string reason;
};

EngineGraph lower(const CanonicalGraph& graph, const Geometry& geometry);

}  // namespace stiletto::detail::cudnn
