// SPDX-License-Identifier: Apache-2.0
#include "backends/cudnn/accurate.hpp"

namespace stiletto::detail::cudnn {
namespace {

/// Nodes of one dtype, written like arithmetic.
class Terms {
 public:
  Terms(GraphBuilder& builder, DType dtype) : builder_(builder), dtype_(dtype) {}
  std::uint32_t number(double value) { return builder_.constant(value); }
  std::uint32_t apply(Op op, std::uint32_t x) { return builder_.pointwise(op, {x}, dtype_); }
  std::uint32_t add(std::uint32_t x, std::uint32_t y) { return builder_.pointwise(Op::add, {x, y}, dtype_); }
  std::uint32_t subtract(std::uint32_t x, std::uint32_t y) {
    return builder_.pointwise(Op::subtract, {x, y}, dtype_);
  }
  std::uint32_t multiply(std::uint32_t x, std::uint32_t y) {
    return builder_.pointwise(Op::multiply, {x, y}, dtype_);
  }
  std::uint32_t divide(std::uint32_t x, std::uint32_t y) {
    return builder_.pointwise(Op::divide, {x, y}, dtype_);
  }
  std::uint32_t less(std::uint32_t x, std::uint32_t y) {
    return builder_.pointwise(Op::less, {x, y}, DType::boolean);
  }

 private:
  GraphBuilder& builder_;
  DType dtype_;
};

}  // namespace

std::uint32_t accurate_tanh(GraphBuilder& builder, std::uint32_t x, DType dtype) {
  Terms t(builder, dtype);
  // Away from 0 by its definition, 1 - 2/(1 + exp(2x)), whose infinities give the right limits; near 0, where
  // that cancels, by Cephes' polynomial in x² (tanhf.c, |x| < 0.625, error 1e-7).
  const std::uint32_t exponential = t.apply(Op::exp, t.add(x, x));
  const std::uint32_t far = t.subtract(t.number(1), t.divide(t.number(2), t.add(exponential, t.number(1))));
  static constexpr double coefficients[] = {2.06390887954e-2, -5.37397155531e-2, 1.33314422036e-1,
                                            -3.33332819422e-1};
  const std::uint32_t square = t.multiply(x, x);
  std::uint32_t sum = t.number(-5.70498872745e-3);
  for (double coefficient : coefficients) sum = t.add(t.multiply(sum, square), t.number(coefficient));
  const std::uint32_t near = t.add(t.multiply(t.multiply(sum, square), x), x);
  return builder.select(t.less(t.apply(Op::abs, x), t.number(0.625)), near, far, dtype);
}

std::uint32_t accurate_gelu_tanh(GraphBuilder& builder, std::uint32_t x, DType dtype) {
  Terms t(builder, dtype);
  // (1 + tanh u)/2 is the logistic function of 2u; u = sqrt(2/pi)·(x + 0.044715·x³).
  const std::uint32_t cubed = t.multiply(t.multiply(t.multiply(x, x), x), t.number(0.044715));
  const std::uint32_t twice_u = t.multiply(t.add(x, cubed), t.number(2 * 0.7978845608028654));
  return t.multiply(x, t.apply(Op::sigmoid, twice_u));
}

std::uint32_t reduced_trigonometric(GraphBuilder& builder, Op op, std::uint32_t x, DType dtype) {
  Terms t(builder, dtype);
  // The period in three parts (Cody and Waite), the first with so few bits that its multiples are exact.
  const bool whole = op != Op::tan;
  const double period = whole ? 6.283185307179586 : 3.141592653589793;
  const double first = whole ? 6.28125 : 3.140625;
  const double second = whole ? 1.93500518798828125e-3 : 9.67502593994140625e-4;
  const double third = period - first - second;
  const std::uint32_t turns = t.apply(Op::floor, t.add(t.multiply(x, t.number(1 / period)), t.number(0.5)));
  std::uint32_t rest = x;
  for (double part : {first, second, third}) rest = t.subtract(rest, t.multiply(turns, t.number(part)));
  return t.apply(op, rest);
}

std::uint32_t at_least(GraphBuilder& builder, std::uint32_t x, double lowest, DType dtype) {
  const std::uint32_t result = builder.pointwise(Op::relu, {x}, dtype);
  builder.graph_.nodes.back().lower = lowest;
  return result;
}

std::uint32_t bounded_activation(GraphBuilder& builder, Op op, std::uint32_t x, DType dtype) {
  const double bound = op == Op::silu ? -200 : -50;  // exp(-200) and erf(-50/sqrt 2) + 1 are 0 in float32
  const std::uint32_t bounded = at_least(builder, x, bound, dtype);
  return builder.pointwise(op, {bounded}, dtype);
}

}  // namespace stiletto::detail::cudnn
