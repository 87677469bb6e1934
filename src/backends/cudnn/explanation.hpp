// SPDX-License-Identifier: Apache-2.0
// A refusal's way out: the option to lift, or what the diagnosis finds.
#pragma once
#include <functional>
#include <memory>

#include "backends/cudnn/diagnosis.hpp"
#include "compiler/backend.hpp"

namespace stiletto::detail::cudnn {

/// The plan of the refused graph under other options, or null.
using UnderOptions = std::function<std::unique_ptr<const Plan>(const PlanOptions&)>;

/// Fills in hint and part, and excluded_by where an option turns out to be in the way. Takes the time that
/// diagnosis_seconds() allows; with 0 it asks nothing and names the general way out.
void explain(const CanonicalGraph& graph, const PlanOptions& options, const Questions& questions,
             const UnderOptions& under, Refusal& refusal);

}  // namespace stiletto::detail::cudnn
