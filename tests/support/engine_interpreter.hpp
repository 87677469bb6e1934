// SPDX-License-Identifier: Apache-2.0
// What a cuDNN graph means, node by node and slowly: dims of 1 broadcast, values are computed in the node's
// type and rounded to the tensor's, modes do what cuDNN's do. Written from docs/cudnn.md, cuDNN's
// documentation and what was measured on a GPU, and not from the lowering, which it is there to judge. What
// engines get wrong is not modelled: that is what lower_checks refuses.
#pragma once
#include "backends/cudnn/engine_graph.hpp"
#include "compiler/backend.hpp"

namespace support {

/// `exact` leaves values of float32 unrounded: what that changes is the error that float32 may be forgiven.
enum class Rounding { declared, exact };

/// Reads call.tensors, writes call.stores; returns whether a computed value was rounded, other than to codes
/// of blocks. Throws std::logic_error for a graph without a meaning.
bool interpret(const stiletto::detail::cudnn::EngineGraph& graph, const stiletto::detail::Invocation& call,
               Rounding rounding);

}  // namespace support
