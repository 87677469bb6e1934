// SPDX-License-Identifier: Apache-2.0
// The pointwise operations on single numbers.
#include "graph/host_scalars.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/text.hpp"
#include "stiletto/error.hpp"

namespace stiletto::detail {
namespace {

double nan_max(double a, double b) { return std::isnan(a) || a > b ? a : b; }
double nan_min(double a, double b) { return std::isnan(a) || a < b ? a : b; }

double gelu_tanh(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}
double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double softplus(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }
/// f(x)·x where the factor vanishes at −∞ faster than x grows.
double vanishing(double x, double factor) {
  return x == -std::numeric_limits<double>::infinity() ? 0 : x * factor;
}

double real_unary(Op op, double x, double c) {
  switch (op) {
    case Op::negate:
      return -x;
    case Op::abs:
      return std::abs(x);
    case Op::exp:
      return std::exp(x);
    case Op::log:
      return std::log(x);
    case Op::sqrt:
      return std::sqrt(x);
    case Op::rsqrt:
      return 1 / std::sqrt(x);
    case Op::square:
      return x * x;
    case Op::reciprocal:
      return 1 / x;
    case Op::sin:
      return std::sin(x);
    case Op::cos:
      return std::cos(x);
    case Op::tan:
      return std::tan(x);
    case Op::tanh:
      return std::tanh(x);
    case Op::erf:
      return std::erf(x);
    case Op::ceil:
      return std::ceil(x);
    case Op::floor:
      return std::floor(x);
    case Op::relu:
      return nan_max(x, 0);
    case Op::leaky_relu:
      return x > 0 ? x : c * x;
    case Op::clipped_relu:
      return nan_min(nan_max(x, 0), c);
    case Op::sigmoid:
      return sigmoid(x);
    case Op::silu:
      return vanishing(x, sigmoid(x));
    case Op::softplus:
      return softplus(x);
    case Op::elu:
      return x > 0 ? x : c * std::expm1(x);
    case Op::gelu:
      return vanishing(x, 0.5 * std::erfc(-x / std::sqrt(2.0)));
    case Op::gelu_tanh:
      return x == -std::numeric_limits<double>::infinity() ? 0 : gelu_tanh(x);
    default:
      break;
  }
  throw InternalError(text("no host form of ", name_of(op), "; please report this"));
}

double real_binary(Op op, double a, double b) {
  switch (op) {
    case Op::add:
      return a + b;
    case Op::subtract:
      return a - b;
    case Op::multiply:
      return a * b;
    case Op::divide:
      return a / b;
    case Op::maximum:
      return std::isnan(b) ? b : nan_max(a, b);
    case Op::minimum:
      return std::isnan(b) ? b : nan_min(a, b);
    case Op::pow:
      return std::pow(a, b);
    case Op::fmod:
      return std::fmod(a, b);
    case Op::atan2:
      return std::atan2(a, b);
    default:
      break;
  }
  throw InternalError(text("no host form of ", name_of(op), "; please report this"));
}

using Integer = std::int64_t;
Integer wrap(std::uint64_t x) { return static_cast<Integer>(x); }

Integer integer_operation(Op op, Integer a, Integer b) {
  const auto ua = static_cast<std::uint64_t>(a), ub = static_cast<std::uint64_t>(b);
  switch (op) {
    case Op::negate:
      return wrap(-ua);
    case Op::abs:
      return a < 0 ? wrap(-ua) : a;
    case Op::square:
      return wrap(ua * ua);
    case Op::ceil:
    case Op::floor:
      return a;
    case Op::relu:
      return std::max<Integer>(a, 0);
    case Op::add:
      return wrap(ua + ub);
    case Op::subtract:
      return wrap(ua - ub);
    case Op::multiply:
      return wrap(ua * ub);
    case Op::maximum:
      return std::max(a, b);
    case Op::minimum:
      return std::min(a, b);
    case Op::fmod:
      return b == 0 || b == -1 ? 0 : a % b;
    default:
      break;
  }
  throw InternalError(text("no host form of ", name_of(op), " on integers; please report this"));
}

template <class T>
bool compare(Op op, T a, T b) {
  switch (op) {
    case Op::less:
      return a < b;
    case Op::less_equal:
      return a <= b;
    case Op::greater:
      return a > b;
    case Op::greater_equal:
      return a >= b;
    case Op::equal:
      return a == b;
    default:
      return a != b;
  }
}

bool logical(Op op, bool a, bool b) {
  if (op == Op::logical_not) return !a;
  return op == Op::logical_and ? a && b : a || b;
}

/// A value as one of `dtype`: rounded, truncated and saturated, or wrapped, as a cast of an array would be.
ScalarValue converted(const ScalarValue& v, DType dtype, bool weak) {
  if (dtype == DType::boolean) return ScalarValue::of(v.as_double() != 0);
  if (is_integer(dtype)) {
    Integer i = v.integer;
    const int bits = dtype == DType::uint8 ? 8 : bits_of(dtype) - 1;
    const double high = std::ldexp(1.0, bits), low = dtype == DType::uint8 ? 0 : -high;
    if (v.kind == ScalarValue::Kind::real) {
      const double t = std::trunc(v.real);
      const Integer top = dtype == DType::int64 ? INT64_MAX : static_cast<Integer>(high) - 1;
      i = std::isnan(t) ? 0 : t >= high ? top : t < low ? static_cast<Integer>(low) : static_cast<Integer>(t);
    }
    if (dtype == DType::int8) i = Integer{static_cast<std::int8_t>(i)};
    if (dtype == DType::uint8) i = static_cast<std::uint8_t>(i);
    if (dtype == DType::int32) i = static_cast<std::int32_t>(i);
    return ScalarValue::of(i);
  }
  double d = v.as_double();
  if (!weak && dtype == DType::float16) d = static_cast<float>(half(static_cast<float>(d)));
  if (!weak && dtype == DType::bfloat16) d = static_cast<float>(bfloat16(static_cast<float>(d)));
  if (!weak && dtype == DType::float32) d = static_cast<float>(d);
  return ScalarValue::of(d);
}

}  // namespace

ScalarValue evaluate_scalar(const Node& node, std::span<const ScalarValue> v) {
  const TypeRule rule = row_of(node.op).rule;
  const bool real = is_floating(node.operand);
  ScalarValue result;
  if (rule == TypeRule::cast) {
    result = v[0];
  } else if (node.op == Op::where) {
    result = v[0].as_double() != 0 ? v[1] : v[2];
  } else if (rule == TypeRule::logical) {
    result = ScalarValue::of(logical(node.op, v[0].as_double() != 0, v.size() > 1 && v[1].as_double() != 0));
  } else if (rule == TypeRule::compare) {
    result = ScalarValue::of(real ? compare(node.op, v[0].as_double(), v[1].as_double())
                                  : compare(node.op, v[0].integer, v[1].integer));
  } else if (node.op == Op::clamp) {
    Node step = node;
    step.op = Op::maximum;
    const ScalarValue raised[] = {evaluate_scalar(step, v.first(2)), v[2]};
    step.op = Op::minimum;
    return evaluate_scalar(step, raised);
  } else if (real) {
    const auto* c = std::get_if<CoefficientAttributes>(&node.attributes);
    result =
        ScalarValue::of(v.size() == 1 ? real_unary(node.op, v[0].as_double(), c ? c->coefficient.value : 0)
                                      : real_binary(node.op, v[0].as_double(), v[1].as_double()));
  } else {
    result = ScalarValue::of(integer_operation(node.op, v[0].integer, v.size() > 1 ? v[1].integer : 0));
  }
  return converted(result, node.dtype, node.weak);
}

}  // namespace stiletto::detail
