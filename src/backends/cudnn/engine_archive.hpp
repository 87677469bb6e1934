// SPDX-License-Identifier: Apache-2.0
// The members of an engine graph, for saved plans and for the plan builder (core/archive.hpp).
#pragma once
#include "backends/cudnn/engine_graph.hpp"
#include "compiler/graph_archive.hpp"
#include "core/archive.hpp"

namespace stiletto::detail::cudnn {

template <class Archive, Archived<EngineTensor> T>
void archive(Archive& ar, T& t) {
  ar(t.role, t.source, t.dtype, t.dims, t.strides, t.alignment, t.value, t.tiled, t.offsets, t.rows);
}
template <class Archive, Archived<EngineNode> T>
void archive(Archive& ar, T& n) {
  ar(n.op, n.inputs, n.output, n.compute, n.coefficient, n.lower, n.attributes, n.further);
}
template <class Archive, Archived<EngineGraph> T>
void archive(Archive& ar, T& g) {
  ar(g.form, g.name, g.tensors, g.nodes);
}

}  // namespace stiletto::detail::cudnn
