// SPDX-License-Identifier: Apache-2.0
// The canonical graph as the CPU evaluates it: composite operations spelled out in pointwise maps and the
// four basic reductions, each value with the register type that holds it.
#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "backends/cpu/kernels.hpp"
#include "compiler/canonical.hpp"

namespace stiletto::detail::cpu {

struct Expression {
  enum class Kind : std::uint8_t { tensor, scalar, literal, map, cast, reduce, matmul, structured, part };
  Kind kind = Kind::map;
  Op op = Op::copy;                // map
  Combine combine = Combine::sum;  // reduce
  DType dtype = DType::float32;    // logical; what a cast rounds to
  DType operand = DType::float32;  // map: the type its operands are converted to
  Register held = Register::f32;   // where the value lives
  bool rounds_when_used = false;   // rounded to the intermediate dtype where another operation reads it
  double coefficient = 0;          // map; literal: the value
  std::uint32_t source = 0;        // tensor, scalar: index in the graph; matmul, structured, part: the value
  std::array<std::uint32_t, max_operands> inputs{};
  std::uint8_t arity = 0;
  AxisMask axes = 0, contracted = 0;
};

struct Expressions {
  std::vector<Expression> list;         // topological
  std::vector<std::uint32_t> of_value;  // graph value → expression
  DType intermediate = DType::float32;

  /// The register that holds a dtype inside this graph.
  Register hold(DType dtype) const;
};

Expressions expand(const CanonicalGraph& graph);

}  // namespace stiletto::detail::cpu
