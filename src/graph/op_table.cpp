// SPDX-License-Identifier: Apache-2.0
// The operation table.
#include "graph/op_table.hpp"

namespace stiletto::detail {
namespace {

using enum Family;

// In the order of Op, which a static_assert below holds it to.
constexpr std::array<OpRow, op_count> table{{
    {Op::argument, "argument", 0, leaf},
    {Op::capture, "capture", 0, leaf},
    {Op::scalar, "scalar", 0, leaf},
    {Op::view, "view", 1, leaf},

    {Op::negate, "negate", 1, pointwise, TypeRule::numeric},
    {Op::logical_not, "logical_not", 1, pointwise, TypeRule::logical},
    {Op::cast, "cast", 1, pointwise, TypeRule::cast},
    {Op::copy, "copy", 1, pointwise, TypeRule::cast},
    {Op::abs, "abs", 1, pointwise, TypeRule::numeric},
    {Op::exp, "exp", 1, pointwise, TypeRule::real},
    {Op::log, "log", 1, pointwise, TypeRule::real},
    {Op::sqrt, "sqrt", 1, pointwise, TypeRule::real},
    {Op::rsqrt, "rsqrt", 1, pointwise, TypeRule::real},
    {Op::square, "square", 1, pointwise, TypeRule::numeric},
    {Op::reciprocal, "reciprocal", 1, pointwise, TypeRule::real},
    {Op::sin, "sin", 1, pointwise, TypeRule::real},
    {Op::cos, "cos", 1, pointwise, TypeRule::real},
    {Op::tan, "tan", 1, pointwise, TypeRule::real},
    {Op::tanh, "tanh", 1, pointwise, TypeRule::real},
    {Op::erf, "erf", 1, pointwise, TypeRule::real},
    {Op::ceil, "ceil", 1, pointwise, TypeRule::numeric},
    {Op::floor, "floor", 1, pointwise, TypeRule::numeric},
    {Op::relu, "relu", 1, pointwise, TypeRule::numeric},
    {Op::leaky_relu, "leaky_relu", 1, pointwise, TypeRule::real},
    {Op::clipped_relu, "clipped_relu", 1, pointwise, TypeRule::real},
    {Op::sigmoid, "sigmoid", 1, pointwise, TypeRule::real},
    {Op::silu, "silu", 1, pointwise, TypeRule::real},
    {Op::softplus, "softplus", 1, pointwise, TypeRule::real},
    {Op::elu, "elu", 1, pointwise, TypeRule::real},
    {Op::gelu, "gelu", 1, pointwise, TypeRule::real},
    {Op::gelu_tanh, "gelu_tanh", 1, pointwise, TypeRule::real},

    {Op::add, "add", 2, pointwise, TypeRule::promote},
    {Op::subtract, "subtract", 2, pointwise, TypeRule::numeric},
    {Op::multiply, "multiply", 2, pointwise, TypeRule::promote},
    {Op::divide, "divide", 2, pointwise, TypeRule::real},
    {Op::less, "less", 2, pointwise, TypeRule::compare},
    {Op::less_equal, "less_equal", 2, pointwise, TypeRule::compare},
    {Op::greater, "greater", 2, pointwise, TypeRule::compare},
    {Op::greater_equal, "greater_equal", 2, pointwise, TypeRule::compare},
    {Op::equal, "equal", 2, pointwise, TypeRule::compare},
    {Op::not_equal, "not_equal", 2, pointwise, TypeRule::compare},
    {Op::logical_and, "logical_and", 2, pointwise, TypeRule::logical},
    {Op::logical_or, "logical_or", 2, pointwise, TypeRule::logical},
    {Op::maximum, "maximum", 2, pointwise, TypeRule::promote},
    {Op::minimum, "minimum", 2, pointwise, TypeRule::promote},
    {Op::pow, "pow", 2, pointwise, TypeRule::real},
    {Op::fmod, "fmod", 2, pointwise, TypeRule::numeric},
    {Op::atan2, "atan2", 2, pointwise, TypeRule::real},

    {Op::where, "where", 3, pointwise, TypeRule::select},
    {Op::clamp, "clamp", 3, pointwise, TypeRule::numeric},

    {Op::sum, "sum", 1, reduction, TypeRule::total},
    {Op::mean, "mean", 1, reduction, TypeRule::real_total},
    {Op::max, "max", 1, reduction, TypeRule::extremum},
    {Op::min, "min", 1, reduction, TypeRule::extremum},
    {Op::abs_max, "abs_max", 1, reduction, TypeRule::extremum},
    {Op::prod, "prod", 1, reduction, TypeRule::total},
    {Op::norm1, "norm1", 1, reduction, TypeRule::total},
    {Op::norm2, "norm2", 1, reduction, TypeRule::real_total},
    {Op::logsumexp, "logsumexp", 1, reduction, TypeRule::real_total},
    {Op::softmax, "softmax", 1, Family::softmax, TypeRule::real},

    {Op::matmul, "matmul", 2, Family::matmul},

    {Op::attention, "attention", 4, structured},
    {Op::attention_backward, "attention_backward", 7, structured},
    {Op::attention_float8, "attention_float8", 10, structured},
    {Op::attention_blockscaled, "attention_blockscaled", 7, structured},
    {Op::rms_norm, "rms_norm", 2, structured},
    {Op::rms_norm_backward, "rms_norm_backward", 4, structured},
    {Op::layer_norm, "layer_norm", 3, structured},
    {Op::layer_norm_backward, "layer_norm_backward", 5, structured},
    {Op::batch_norm_training, "batch_norm_training", 5, structured},
    {Op::batch_norm_backward, "batch_norm_backward", 5, structured},
    {Op::conv, "conv", 2, structured},
    {Op::conv_backward_data, "conv_backward_data", 2, structured},
    {Op::conv_backward_filter, "conv_backward_filter", 2, structured},
    {Op::max_pool, "max_pool", 1, structured},
    {Op::avg_pool, "avg_pool", 1, structured},
    {Op::quantize, "quantize", 1, structured},
    {Op::dequantize, "dequantize", 2, structured},
    {Op::part, "part", 1, Family::part},

    {Op::fill, "fill", 1, layout},
    {Op::permute, "permute", 1, layout},
    {Op::reshape, "reshape", 1, layout},
}};

constexpr bool in_order() {
  for (std::size_t i = 0; i < table.size(); ++i)
    if (static_cast<std::size_t>(table[i].op) != i) return false;
  return true;
}
static_assert(in_order(), "rows follow the order of Op");

}  // namespace

constinit const std::array<OpRow, op_count> op_rows = table;

}  // namespace stiletto::detail
