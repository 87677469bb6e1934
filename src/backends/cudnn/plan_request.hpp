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

struct ElsewhereResult {
  std::unique_ptr<const BuiltGraph> plan;  // cannot execute; null: refused
  std::vector<EngineReason> reasons;
  std::optional<std::string> excluded_by;
};

/// DeviceError where the plan builder cannot be run.
ElsewhereResult build_elsewhere(const EngineGraph& graph, const PlanOptions& options,
                                const TargetProperties& target);

/// What the plan builder does with a request of build_elsewhere.
std::string answer_plan_request(const std::string& bytes);

}  // namespace stiletto::detail::cudnn
