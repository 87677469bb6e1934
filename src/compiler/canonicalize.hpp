// SPDX-License-Identifier: Apache-2.0
// From a trace to the canonical graph, together with what the caller's side of an execution needs: arithmetic
// among numbers, outputs to allocate, and where each result comes from.
#pragma once
#include <string>
#include <vector>

#include "compiler/canonical.hpp"
#include "graph/trace.hpp"
#include "stiletto/compile.hpp"

namespace stiletto::detail {

/// Numbers of one execution: each step is a number of the trace, a literal, or an operation on earlier steps.
struct HostScalars {
  struct Step {
    enum class Kind : std::uint8_t { trace, literal, operation };
    Kind kind = Kind::trace;
    std::uint32_t trace_scalar = 0;
    ScalarValue literal;
    Node node;  // operation; inputs are steps
  };
  /// A number meets an integer array and has to fit its dtype.
  struct FitCheck {
    std::uint32_t step;
    DType dtype;
    std::string operation;
  };
  std::vector<Step> steps;
  std::vector<std::uint32_t> slots;  // graph.scalars[i] is steps[slots[i]]
  std::vector<FitCheck> checks;

  /// Values of graph.scalars, from the numbers of a trace. DTypeError when one does not fit.
  void evaluate(std::span<const ScalarValue> trace_scalars, std::vector<ScalarValue>& scratch,
                std::vector<ScalarValue>& slots_out) const;
  /// The same for a number that takes the place of graph.scalars[slot].
  void check_slot(std::size_t slot, const ScalarValue& number) const;
};

/// A freshly allocated output: contiguous memory of this shape, with these strides laid over it.
struct OutputSpec {
  Shape shape;
  Strides strides;
  DType dtype = DType::float32;
};

/// Where one returned array comes from: a view of an argument or capture, or an output.
struct ResultSource {
  Tensor::Home home = Tensor::Home::output;
  std::uint32_t index = 0;
  bool whole = false;  // the argument or capture itself, not a view
  Shape shape;
  Strides strides;
  std::int64_t offset = 0;
};

struct Lowered {
  CanonicalGraph graph;
  HostScalars scalars;
  std::vector<OutputSpec> outputs;
  std::vector<ResultSource> results;
};

Lowered canonicalize(const Trace& trace, const CompileOptions& options);

/// Orders, flips, merges and renumbers the axes of a graph; drops those without use.
void canonicalize_axes(CanonicalGraph& graph);

/// Whether every use of a tensor read is elementwise, at the index at which the store writes.
bool reads_at_own_index(const CanonicalGraph& graph, std::size_t tensor, std::size_t store);

}  // namespace stiletto::detail
