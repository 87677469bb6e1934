// SPDX-License-Identifier: Apache-2.0
// Building a plan for a GPU that is not here on a machine that has another: what goes to the plan builder and
// what comes back.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backends/cudnn/engine_graph.hpp"
#include "backends/cudnn/frontend.hpp"
#include "compiler/backend.hpp"

namespace stiletto::detail::cudnn {

struct PlanAnswer {
  std::unique_ptr<const BuiltGraph> plan;  // cannot execute; null: refused
  std::vector<EngineReason> reasons;
  std::optional<std::string> excluded_by;
};

/// DeviceError where the plan builder cannot be run.
PlanAnswer build_elsewhere(const EngineGraph& graph, const PlanOptions& options,
                           const TargetProperties& target);

}  // namespace stiletto::detail::cudnn
