// SPDX-License-Identifier: Apache-2.0
// The public elementwise operations: each is its row, applied.
#include "ops/apply.hpp"
#include "stiletto/ops.hpp"

namespace stiletto {

using detail::apply;
using detail::CoefficientAttributes;
using detail::Op;

Array operator+(const Array& a, const Array& b) { return apply(Op::add, {&a, &b}); }
Array operator-(const Array& a, const Array& b) { return apply(Op::subtract, {&a, &b}); }
Array operator*(const Array& a, const Array& b) { return apply(Op::multiply, {&a, &b}); }
Array operator/(const Array& a, const Array& b) { return apply(Op::divide, {&a, &b}); }
Array operator-(const Array& x) { return apply(Op::negate, {&x}); }
Array operator<(const Array& a, const Array& b) { return apply(Op::less, {&a, &b}); }
Array operator<=(const Array& a, const Array& b) { return apply(Op::less_equal, {&a, &b}); }
Array operator>(const Array& a, const Array& b) { return apply(Op::greater, {&a, &b}); }
Array operator>=(const Array& a, const Array& b) { return apply(Op::greater_equal, {&a, &b}); }
Array operator==(const Array& a, const Array& b) { return apply(Op::equal, {&a, &b}); }
Array operator!=(const Array& a, const Array& b) { return apply(Op::not_equal, {&a, &b}); }
Array logical_and(const Array& a, const Array& b) { return apply(Op::logical_and, {&a, &b}); }
Array logical_or(const Array& a, const Array& b) { return apply(Op::logical_or, {&a, &b}); }
Array logical_not(const Array& x) { return apply(Op::logical_not, {&x}); }
Array maximum(const Array& a, const Array& b) { return apply(Op::maximum, {&a, &b}); }
Array minimum(const Array& a, const Array& b) { return apply(Op::minimum, {&a, &b}); }
Array pow(const Array& a, const Array& b) { return apply(Op::pow, {&a, &b}); }
Array fmod(const Array& a, const Array& b) { return apply(Op::fmod, {&a, &b}); }
Array atan2(const Array& a, const Array& b) { return apply(Op::atan2, {&a, &b}); }
Array where(const Array& condition, const Array& a, const Array& b) {
  return apply(Op::where, {&condition, &a, &b});
}
Array clamp(const Array& x, const Array& low, const Array& high) {
  return apply(Op::clamp, {&x, &low, &high});
}
Array cast(const Array& x, DType dtype) { return detail::apply_cast(Op::cast, x, dtype); }
Array abs(const Array& x) { return apply(Op::abs, {&x}); }
Array exp(const Array& x) { return apply(Op::exp, {&x}); }
Array log(const Array& x) { return apply(Op::log, {&x}); }
Array sqrt(const Array& x) { return apply(Op::sqrt, {&x}); }
Array rsqrt(const Array& x) { return apply(Op::rsqrt, {&x}); }
Array square(const Array& x) { return apply(Op::square, {&x}); }
Array reciprocal(const Array& x) { return apply(Op::reciprocal, {&x}); }
Array sin(const Array& x) { return apply(Op::sin, {&x}); }
Array cos(const Array& x) { return apply(Op::cos, {&x}); }
Array tan(const Array& x) { return apply(Op::tan, {&x}); }
Array tanh(const Array& x) { return apply(Op::tanh, {&x}); }
Array erf(const Array& x) { return apply(Op::erf, {&x}); }
Array ceil(const Array& x) { return apply(Op::ceil, {&x}); }
Array floor(const Array& x) { return apply(Op::floor, {&x}); }
Array relu(const Array& x) { return apply(Op::relu, {&x}); }
Array leaky_relu(const Array& x, double negative_slope) {
  return apply(Op::leaky_relu, {&x}, CoefficientAttributes{{negative_slope}});
}
Array clipped_relu(const Array& x, double upper) {
  return apply(Op::clipped_relu, {&x}, CoefficientAttributes{{upper}});
}
Array sigmoid(const Array& x) { return apply(Op::sigmoid, {&x}); }
Array silu(const Array& x) { return apply(Op::silu, {&x}); }
Array softplus(const Array& x) { return apply(Op::softplus, {&x}); }
Array elu(const Array& x, double alpha) { return apply(Op::elu, {&x}, CoefficientAttributes{{alpha}}); }
Array gelu(const Array& x) { return apply(Op::gelu, {&x}); }
Array gelu_tanh(const Array& x) { return apply(Op::gelu_tanh, {&x}); }

}  // namespace stiletto
