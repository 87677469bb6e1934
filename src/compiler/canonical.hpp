// SPDX-License-Identifier: Apache-2.0
// The canonical graph, the only form a backend sees: index notation. The graph has loop axes; every value is
// defined over a set of them, every tensor in memory has a stride per axis, and broadcasting is the absence
// of an axis. Axes of extent 1 do not exist, axes that every tensor walks contiguously are one, and axis 0 is
// the outermost of the results.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "compiler/axis_mask.hpp"
#include "core/scalar_value.hpp"
#include "graph/attributes.hpp"
#include "graph/op.hpp"
#include "stiletto/dtype.hpp"

namespace stiletto::detail {

/// Memory that the graph reads or writes: a view of an argument, a capture or an output.
struct Tensor {
  enum class Home : std::uint8_t { argument, capture, output };
  Home home = Home::argument;
  std::uint32_t index = 0;  // which argument array, capture or allocated output
  std::int64_t offset = 0;  // elements from the first element of that array
  DType dtype = DType::float32;
  int alignment = 16;  // bytes, of the first element read or written; at most 16
  AxisMask axes = 0;
  std::vector<std::int64_t>
      strides;       // elements, one per axis of the graph; 0 where the tensor lacks the axis
  std::string name;  // "arg0", "capture1", "out0"
  bool operator==(const Tensor&) const = default;
};

using AxisList = std::vector<int>;

/// A value: a tensor read (`source` is its index), a number (`source` likewise), an operation on earlier
/// values, or a result (`source` counts them) of a graph that was not traced, which may depend on all that is
/// read. Those never reach a backend.
struct Value {
  enum class Kind : std::uint8_t { tensor, scalar, operation, foreign };
  Kind kind = Kind::operation;
  Op op = Op::copy;
  std::uint8_t arity = 0;
  DType dtype = DType::float32;  // logical; floating-point values are held at the graph's intermediate dtype
                                 // and rounded only by cast and by stores
  DType operand = DType::float32;  // the type in which a pointwise operation takes its operands
  std::uint32_t source = 0;
  std::array<std::uint32_t, max_operands> inputs{};
  AxisMask axes = 0;
  AxisMask contracted =
      0;  // axes a reduction or matmul sums over; softmax: the axis it runs along (and keeps)
  Attributes attributes;
  /// Of structured operations, and of their parts: for each axis of the result, then of each operand, the
  /// axis of the graph, −1 for an extent of 1. `contracted` has all that are not the result's.
  std::vector<AxisList> layouts;
  std::uint32_t trace_position = 0;  // where the trace has it; of merged values, the last

  bool is_leaf() const { return kind == Kind::tensor || kind == Kind::scalar; }
};

/// Writes `value` (over a subset of the tensor's axes: the rest broadcasts) to memory.
struct Store {
  std::uint32_t value = 0;
  Tensor tensor;  // home output: freshly allocated; else the caller's memory
  std::uint32_t trace_position =
      0;  // values recorded from here on come after it; an output comes after everything
};

/// Operations that a plan runs as one, for drawings.
struct Region {
  std::string label;                  // what the plan calls it, one line
  std::vector<std::uint32_t> values;  // ascending
};

struct CanonicalGraph {
  std::vector<std::int64_t> extents;  // per axis, none is 1; an extent of 0 never reaches a backend
  std::vector<Tensor> tensors;        // read
  std::vector<DType> scalars;         // numbers bound by value
  std::vector<Value> values;          // topological
  std::vector<Store> stores;          // program order; no two overlap
  DType intermediate_dtype = DType::float32;
  DType compute_dtype = DType::float32;

  std::int64_t size_of(const AxisMask& axes) const;   // product of the extents; fits 64 bits by construction
  std::string axes_text(const AxisMask& axes) const;  // "i,k"
  std::string to_string() const;
  std::string to_dot(const std::vector<Region>& regions = {}) const;
  std::string to_json() const;
};

}  // namespace stiletto::detail
