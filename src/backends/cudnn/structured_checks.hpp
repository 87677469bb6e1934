// SPDX-License-Identifier: Apache-2.0
// What cuDNN does not do with structured operations, said before it is asked: its own messages speak of
// descriptors, not of what the caller could change.
#pragma once
#include "compiler/canonical.hpp"

namespace stiletto::detail::cudnn {

/// Throws NotLowered. `index`: the structured value of the graph.
void check_structured(const CanonicalGraph& graph, std::uint32_t index);

}  // namespace stiletto::detail::cudnn
