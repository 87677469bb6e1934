// SPDX-License-Identifier: Apache-2.0
// A plan of the CPU's beside which every cuDNN graph that the lowering made of the same canonical graph is
// interpreted, and held to the CPU's results.
#pragma once
#include <memory>
#include <vector>

#include "backends/cudnn/engine_graph.hpp"
#include "compiler/backend.hpp"

namespace support {

std::unique_ptr<const stiletto::detail::Plan> interpreted_plan(
    const stiletto::detail::CanonicalGraph& graph, std::vector<stiletto::detail::cudnn::EngineGraph> engines,
    std::unique_ptr<const stiletto::detail::Plan> plan);

}  // namespace support
