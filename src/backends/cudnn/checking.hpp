// SPDX-License-Identifier: Apache-2.0
// The checking mode (environment variable STILETTO_CHECK=1): what cuDNN computes wrongly for some values of
// its operands is looked for before each launch, which then waits for the GPU.
#pragma once
#include <vector>

#include "backends/cudnn/engine_graph.hpp"

namespace stiletto::detail::cudnn {

/// Whether the variable asks for it; read once.
bool checking();

/// `pointers`: of the graph's tensors in order, without intermediates. Throws ArgumentError where attention
/// has lengths, places of packed sequences or page tables that reach outside of its operands; a sequence
/// without keys (cuDNN 9.19 makes its batch entry NaN, or writes none of its rows); infinity or NaN past a
/// length, which cuDNN multiplies by 0; or a scale_s with which exponentials saturate.
void check_values(const EngineGraph& graph, const std::vector<void*>& pointers, int device);

}  // namespace stiletto::detail::cudnn
