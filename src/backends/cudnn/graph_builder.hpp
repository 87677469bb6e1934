// SPDX-License-Identifier: Apache-2.0
// Adds tensors and nodes to a cuDNN graph, with the compensations that make cuDNN's pointwise modes mean what
// ours mean. Measured on an H200 with cuDNN 9.19: MAX and MIN drop NaN, conversions to integers round to
// nearest, conversions to float8 turn what is out of range into NaN.
#pragma once
#include <initializer_list>
#include <optional>

#include "backends/cudnn/engine_graph.hpp"

namespace stiletto::detail::cudnn {

class GraphBuilder {
 public:
  /// `rank` of every tensor; floating-point values up to 32 bits are held at `intermediate` and computed in
  /// `compute`.
  GraphBuilder(std::size_t rank, DType intermediate, DType compute)
      : rank_(rank), intermediate_(intermediate), compute_(compute) {}

  std::uint32_t add(EngineTensor tensor);
  std::uint32_t number(std::uint32_t source);
  std::uint32_t constant(double value);
  const EngineTensor& at(std::uint32_t tensor) const { return graph_.tensors[tensor]; }
  EngineTensor& at(std::uint32_t tensor) { return graph_.tensors[tensor]; }

  /// A pointwise node as it is; dims are the operands' broadcast ones, and all of the graph's where that only
  /// adds batches and rows. The sum of two multiples of one product, on which cuDNN crashes (9.19, in its
  /// heuristics), gets a copy between.
  std::uint32_t pointwise(Op op, std::initializer_list<std::uint32_t> operands, DType dtype,
                          double coefficient = 0);
  /// Any node whose dims the caller knows.
  std::uint32_t node(Op op, std::vector<std::uint32_t> inputs, DType dtype, std::vector<std::int64_t> dims,
                     DType compute);

  /// x, which means a value of type `from`, as `to`, by our rules of rounding, truncation and saturation.
  std::uint32_t convert(std::uint32_t x, DType from, DType to);
  /// The greater or the lesser of two, NaN if either is.
  std::uint32_t extremum(bool greater, std::uint32_t x, std::uint32_t y, DType dtype);
  std::uint32_t select(std::uint32_t mask, std::uint32_t yes, std::uint32_t no, DType dtype);

  /// What a value of this dtype is held in.
  DType held(DType dtype) const;
  DType compute_of(DType dtype) const { return dtype == DType::float64 ? DType::float64 : compute_; }

  /// The dims that every value of a pointwise graph is to have: engines compute values over fewer at wrong
  /// places. Empty, which it is at first, for graphs with products or reductions.
  std::vector<std::int64_t> whole;
  /// Whether what is computed from this tensor alone has those dims.
  bool fills_rows(std::uint32_t tensor) const { return fills_rows(at(tensor).dims); }

  EngineGraph graph_;

 private:
  bool fills_rows(const std::vector<std::int64_t>& dims) const {
    return !whole.empty() && dims.back() == whole.back();
  }

  /// The product that a tensor is a multiple of.
  std::optional<std::uint32_t> multiplied_product(std::uint32_t tensor) const;

  std::size_t rank_;
  DType intermediate_, compute_;
};

}  // namespace stiletto::detail::cudnn
