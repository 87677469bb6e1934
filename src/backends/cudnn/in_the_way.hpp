// SPDX-License-Identifier: Apache-2.0
// Whose memory keeps the axes of a graph apart. Engines take few dimensions, so what runs depends on which
// axes merge, and one operand of another order, with gaps or broadcast elsewhere keeps them from it for all.
#pragma once
#include <string>

#include "compiler/canonical.hpp"

namespace stiletto::detail::cudnn {

/// A clause that names the operands and destinations and says what to pass instead; empty where no copy of
/// any of them would let the axes merge into as many as engines take. `without`: the graph with the copies.
std::string in_the_way(const CanonicalGraph& graph, CanonicalGraph& without);

}  // namespace stiletto::detail::cudnn
