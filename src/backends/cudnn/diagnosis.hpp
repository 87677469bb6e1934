// SPDX-License-Identifier: Apache-2.0
// What to change of a graph that no engine takes: the smallest part of it that is refused, and the nearest
// variant that is accepted, found by asking again. A refusal costs a millisecond or two, a plan that is built
// 0.2 to 0.4 s (cuDNN 9.19), so what is asked first is whether cuDNN proposes any plan at all.
#pragma once
#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "compiler/canonical.hpp"

namespace stiletto::detail::cudnn {

/// How a backend answers. Exceptions that derive from std::exception count as no.
struct Questions {
  std::function<bool(const CanonicalGraph&)> proposes;  // quick; false where no plan can be built
  std::function<bool(const CanonicalGraph&)> accepts;   // whether a plan is built
};

struct Diagnosis {
  std::string part;     // the smallest refused part, as an expression; empty for a graph of one operation
  std::string variant;  // the nearest accepted variant and how to come to it, a clause; empty: none was found
  bool stopped = false;  // the time was up before everything had been asked
};

/// `graph` has been refused. Nothing is asked from `deadline` on; a question asked before is waited for.
Diagnosis diagnose(const CanonicalGraph& graph, const Questions& questions,
                   std::chrono::steady_clock::time_point deadline);

/// Seconds that a diagnosis may take: STILETTO_DIAGNOSIS (up to 10⁶), else 2; 0 is none at all.
double diagnosis_seconds();

}  // namespace stiletto::detail::cudnn
