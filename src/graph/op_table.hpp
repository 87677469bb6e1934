// SPDX-License-Identifier: Apache-2.0
// One row per operation: its name, operands and the family whose shape and dtype rules it follows. Shape
// inference, printing, hashing and equality follow from the row; so does the list of cases the numeric tests
// run.
#pragma once
#include <array>
#include <span>

#include "graph/op.hpp"

namespace stiletto::detail {

/// Structured operations are not index notation: every axis of every operand is its own, engines of their own
/// compute them, and they may have further results, each a `part`. Their rows have the fewest operands.
enum class Family : std::uint8_t { leaf, pointwise, reduction, softmax, matmul, structured, part, layout };

/// How a pointwise operation or reduction chooses the dtype of its operands and its result.
enum class TypeRule : std::uint8_t {
  none,
  promote,    // the operands' common type, kept
  numeric,    // promote, but booleans are refused
  real,       // promote; integers and booleans become float32
  compare,    // operands promoted, result boolean
  logical,    // operands as booleans, result boolean
  select,     // the first operand is a boolean condition, the others promote
  cast,       // the attribute or result says
  total,      // reductions: float16, bfloat16 → float32; 8-bit integers and booleans → int32
  extremum,   // reductions: float16, bfloat16 → float32; integers and booleans stay
  real_total  // reductions: float16, bfloat16, integers and booleans → float32
};

struct OpRow {
  Op op;
  const char* name;
  std::uint8_t arity;
  Family family;
  TypeRule rule = TypeRule::none;
};

extern const std::array<OpRow, op_count> op_rows;  // in the order of Op

inline const OpRow& row_of(Op op) { return op_rows[static_cast<std::size_t>(op)]; }
/// How many results a structured operation has at most: see graph/attributes.hpp.
constexpr std::size_t results_of(Op op) {
  switch (op) {
    case Op::attention:
    case Op::attention_blockscaled:
    case Op::rms_norm:
    case Op::quantize:
      return 2;
    case Op::layer_norm:
    case Op::rms_norm_backward:
    case Op::layer_norm_backward:
    case Op::batch_norm_backward:
      return 3;
    case Op::attention_float8:
      return 4;
    case Op::attention_backward:
    case Op::batch_norm_training:
      return 5;
    default:
      return 1;
  }
}
/// Whose operands share the axes of the result, but for those of a scale's matrix, which come last.
constexpr bool is_block_scaling(Op op) { return op == Op::quantize || op == Op::dequantize; }
inline const char* name_of(Op op) { return row_of(op).name; }
inline std::span<const OpRow> op_table() { return op_rows; }

}  // namespace stiletto::detail
