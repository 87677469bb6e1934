// SPDX-License-Identifier: Apache-2.0
#include "backends/cudnn/explanation.hpp"

#include "backends/cudnn/attention_parts.hpp"
#include "backends/cudnn/in_the_way.hpp"
#include "core/text.hpp"

namespace stiletto::detail::cudnn {
namespace {

/// Which option to leave alone, a clause; empty where none is in the way or none alone.
std::string option_in_the_way(const PlanOptions& options, const UnderOptions& under, Refusal& refusal) try {
  PlanOptions others = options;
  if (refusal.excluded_by == "max_workspace") {
    others.max_workspace.reset();
    const auto plan = under(others);
    return plan ? text("allow max_workspace of ", plan->workspace()) : "";
  }
  if (refusal.excluded_by == "deterministic") {
    others.deterministic = false;
    return under(others) ? "leave deterministic at false" : "";
  }
  if (refusal.excluded_by || options.heuristics.empty()) return "";
  others.heuristics.clear();
  if (!under(others)) return "";
  refusal.excluded_by = "heuristics";
  return "leave heuristics at its default";
} catch (const std::exception&) {
  return "";  // the refusal is what the caller has to see
}

/// A backend that fails has not taken it.
bool takes(const Questions& questions, const CanonicalGraph& graph) try {
  return questions.proposes(graph) && questions.accepts(graph);
} catch (const std::exception&) {
  return false;
}

}  // namespace

void explain(const CanonicalGraph& graph, const PlanOptions& options, const Questions& questions,
             const UnderOptions& under, Refusal& refusal) {
  using Clock = std::chrono::steady_clock;
  const double seconds = diagnosis_seconds();
  const bool excluded = refusal.excluded_by.has_value();
  if (!excluded && has_attention_in_parts(graph)) {
    refusal.hint = "call attention, which is one operation and has engines for float16 and bfloat16";
    return;
  }
  CanonicalGraph copied;
  const std::string strides = excluded ? "" : in_the_way(graph, copied);
  refusal.hint = excluded ? "leave that option at its default"
                 : !strides.empty()
                     ? strides
                     : "compile parts of it to find the one without an engine (supports says so "
                       "without throwing), or run it on the CPU";
  if (seconds == 0) return;
  const Clock::time_point deadline =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  if (std::string option = option_in_the_way(options, under, refusal); !option.empty()) {
    refusal.hint = std::move(option);
    return;
  }
  Diagnosis found = diagnose(graph, questions, deadline);
  refusal.part = std::move(found.part);
  if (!found.variant.empty())
    refusal.hint = excluded ? text(refusal.hint, "; ", found.variant) : found.variant;
  else if (!excluded && !found.stopped && (strides.empty() || !takes(questions, copied)))
    refusal.hint =
        "no other alignment, layout, extents or dtype and no cut in two gives it a plan; run it on the CPU";
  if (found.stopped)
    refusal.hint += text("; the search stopped after ", seconds, " s, STILETTO_DIAGNOSIS=", 10 * seconds,
                         " gives it longer");
}

}  // namespace stiletto::detail::cudnn
