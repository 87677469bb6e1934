// SPDX-License-Identifier: Apache-2.0
// The operations a trace can hold. op_table.hpp has the one row that says everything about each.
#pragma once
#include <cstddef>
#include <cstdint>

namespace stiletto::detail {

enum class Op : std::uint8_t {
  // leaves
  argument,
  capture,
  scalar,  // a number: argument or literal, bound by value
  view,    // of an argument or capture
  // pointwise, one operand
  negate,
  logical_not,
  cast,
  copy,
  abs,
  exp,
  log,
  sqrt,
  rsqrt,
  square,
  reciprocal,
  sin,
  cos,
  tan,
  tanh,
  erf,
  ceil,
  floor,
  relu,
  leaky_relu,
  clipped_relu,
  sigmoid,
  silu,
  softplus,
  elu,
  gelu,
  gelu_tanh,
  // pointwise, two operands
  add,
  subtract,
  multiply,
  divide,
  less,
  less_equal,
  greater,
  greater_equal,
  equal,
  not_equal,
  logical_and,
  logical_or,
  maximum,
  minimum,
  pow,
  fmod,
  atan2,
  // pointwise, three operands
  where,
  clamp,
  // reductions
  sum,
  mean,
  max,
  min,
  abs_max,
  prod,
  norm1,
  norm2,
  logsumexp,
  softmax,
  // linear algebra
  matmul,
  // structured
  attention,
  attention_backward,
  attention_float8,
  attention_blockscaled,
  rms_norm,
  rms_norm_backward,
  layer_norm,
  layer_norm_backward,
  batch_norm_training,
  batch_norm_backward,
  conv,
  conv_backward_data,
  conv_backward_filter,
  max_pool,
  avg_pool,
  quantize,
  dequantize,
  part,  // a further result of one of these
  // another shape of a computed value
  fill,
  permute,
  reshape
};
/// Results of any operation, and operands.
inline constexpr std::size_t max_results = 5;
inline constexpr std::size_t max_operands = 17;
inline constexpr std::size_t op_count = static_cast<std::size_t>(Op::reshape) + 1;

}  // namespace stiletto::detail
