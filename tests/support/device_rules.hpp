// SPDX-License-Identifier: Apache-2.0
// What is expected of the cuDNN backend for a graph: that it runs it, that it refuses it, or, where cuDNN's
// own answer depends on more than is known here, either. The rules are those of docs and measurements,
// written on the canonical graph and independently of the lowering; checked_backend.cpp holds the backend to
// them.
#pragma once
#include <string>

#include "compiler/canonical.hpp"
#include "support/device_results.hpp"

namespace support {

struct Expectation {
  enum class Kind { runs, refused, either };
  Kind kind = Kind::runs;
  std::string reason;  // why it is refused, or why either may happen
};
Expectation expectation(const stiletto::detail::CanonicalGraph& graph);

/// What the tolerances of semantics.md are widened by for results of this graph on a GPU.
Slack slack_of(const stiletto::detail::CanonicalGraph& graph);

/// The row and column of the table of results: "add", "matmul and pointwise", …; "float16", "float32 mixed",
/// ….
std::string row_label(const stiletto::detail::CanonicalGraph& graph);
std::string dtype_label(const stiletto::detail::CanonicalGraph& graph);
/// What distinguishes layouts to an engine: number of axes, broadcasting, gaps, order, direction.
std::string layout_label(const stiletto::detail::CanonicalGraph& graph);

}  // namespace support
