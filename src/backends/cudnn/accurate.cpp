// SPDX-License-Identifier: Apache-2.0
#include "backends/cudnn/accurate.hpp"

#include <cmath>
#include <initializer_list>

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

/// An odd function near 0, x + x·z·P(z) with z = x²; the highest coefficient of P first.
std::uint32_t odd_polynomial(Terms& t, std::uint32_t x, std::initializer_list<double> coefficients) {
  const std::uint32_t square = t.multiply(x, x);
  const double* next = coefficients.begin();
  std::uint32_t sum = t.number(*next++);
  while (next != coefficients.end()) sum = t.add(t.multiply(sum, square), t.number(*next++));
  return t.add(t.multiply(t.multiply(sum, square), x), x);
}

}  // namespace

std::uint32_t accurate_tanh(GraphBuilder& builder, std::uint32_t x, DType dtype) {
  Terms t(builder, dtype);
  // Away from 0 by its definition, 1 - 2/(1 + exp(2x)), whose infinities give the right limits; near 0, where
  // that cancels, by Cephes' polynomial in x² (tanhf.c, |x| < 0.625, error 1e-7).
  const std::uint32_t exponential = t.apply(Op::exp, t.add(x, x));
  const std::uint32_t far = t.subtract(t.number(1), t.divide(t.number(2), t.add(exponential, t.number(1))));
  const std::uint32_t near = odd_polynomial(
      t, x, {-5.70498872745e-3, 2.06390887954e-2, -5.37397155531e-2, 1.33314422036e-1, -3.33332819422e-1});
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
  const std::uint32_t far = t.apply(op, rest);
  if (op == Op::cos) return far;
  // Near 0 the GPU's sine is off by 5e-7 however small the angle is: Cephes' polynomials instead (sinf.c,
  // tanf.c, up to π/4).
  const std::uint32_t near =
      op == Op::sin ? odd_polynomial(t, rest, {-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1})
                    : odd_polynomial(t, rest,
                                     {9.38540185543e-3, 3.11992232697e-3, 2.44301354525e-2, 5.34112807005e-2,
                                      1.33387994085e-1, 3.33331568548e-1});
  return builder.select(t.less(t.apply(Op::abs, rest), t.number(0.785)), near, far, dtype);
}

std::uint32_t accurate_quotient(GraphBuilder& builder, std::uint32_t x, std::uint32_t y, DType dtype) {
  Terms t(builder, dtype);
  constexpr double largest = 0x1p126;
  const EngineTensor& divisor = builder.at(y);
  const bool small = divisor.role == EngineTensor::Role::constant && std::fabs(divisor.value) <= largest;
  if (small || !builder.fills_rows(y)) return t.divide(x, y);
  // The GPU multiplies by the reciprocal, which above 2^126 is subnormal and taken for 0: a quarter of the
  // divisor, and then of the quotient.
  const std::uint32_t huge = t.less(t.number(largest), t.apply(Op::abs, y));
  const std::uint32_t quotient = t.divide(x, builder.select(huge, t.multiply(y, t.number(0.25)), y, dtype));
  return builder.select(huge, t.multiply(quotient, t.number(0.25)), quotient, dtype);
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
