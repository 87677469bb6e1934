// SPDX-License-Identifier: Apache-2.0
// The error that says why no engine takes a graph.
#include "compiler/backend.hpp"
#include "core/text.hpp"

namespace stiletto::detail {

void throw_unsupported(const CanonicalGraph& graph, Refusal refusal) {
  std::string what = text("no engine takes this graph on ", refusal.target, " with ", refusal.library);
  const bool one = refusal.reasons.size() == 1;
  if (one) what += ": " + refusal.reasons[0].reason;
  if (refusal.excluded_by) what += text(" (option ", *refusal.excluded_by, ")");
  if (!refusal.hint.empty()) what += "; " + refusal.hint;
  if (!refusal.part.empty()) what += "\n  smallest part refused: " + refusal.part;
  if (!one)
    for (const EngineReason& reason : refusal.reasons)
      what += text("\n  ", reason.engine, ": ", reason.reason);
  UnsupportedGraphError error(text(what, "\n", graph.to_string()));
  error.graph = graph.to_string();
  error.target = std::move(refusal.target);
  error.library = std::move(refusal.library);
  error.reasons = std::move(refusal.reasons);
  error.excluded_by = std::move(refusal.excluded_by);
  error.hint = std::move(refusal.hint);
  error.part = std::move(refusal.part);
  throw error;
}

std::optional<Refusal> refused_accumulation(const CanonicalGraph& graph, const char* engine) {
  if (graph.compute_dtype == DType::float32 || graph.compute_dtype == DType::float64) return {};
  return Refusal{{},
                 {},
                 {{engine, text("it accumulates in float32 or float64, not in ", graph.compute_dtype)}},
                 "compute_dtype",
                 "leave compute_dtype at float32"};
}

}  // namespace stiletto::detail
