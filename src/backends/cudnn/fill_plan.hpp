// SPDX-License-Identifier: Apache-2.0
// Graphs that are constants: plain fills of memory, the one thing this backend does without cuDNN.
#pragma once
#include <memory>

#include "compiler/backend.hpp"

namespace stiletto::detail::cudnn {

/// Null unless every store of the graph writes a number.
std::unique_ptr<const Plan> fill_plan(const CanonicalGraph& graph, Device device, bool present);

}  // namespace stiletto::detail::cudnn
