// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "compiler/canonical.hpp"

namespace stiletto::detail::cudnn {

/// Whether the graph multiplies the softmax of a product: attention in its parts, which has no engine.
bool has_attention_in_parts(const CanonicalGraph& graph);

}  // namespace stiletto::detail::cudnn
