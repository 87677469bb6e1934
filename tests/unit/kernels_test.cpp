// SPDX-License-Identifier: Apache-2.0
// The pointwise CPU kernels of every instruction set that this machine has, against references in long double
// and in integers. Tests named case_N are the public fault reports of that number.
#include "backends/cpu/kernels.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <string>
#include <type_traits>
#include <vector>

#include "unit/kernels_support.hpp"

namespace {

using namespace kernels_support;

class PointwiseKernels : public CpuKernels {};
INSTANTIATE_TEST_SUITE_P(Sets, PointwiseKernels, testing::ValuesIn(available()),
                         [](const auto& set) { return std::string(set.param); });

/// Relative to the single result, which is stricter than the library's tolerance; `steps` of the smallest
/// subnormal.
template <class T>
bool agrees(T actual, Real reference, Real factor = 1, Real steps = 2) {
  const T rounded = static_cast<T>(reference);
  if (std::isnan(rounded) || std::isnan(actual)) return std::isnan(rounded) && std::isnan(actual);
  if (std::isinf(rounded) || std::isinf(actual)) return rounded == actual;
  const Real tolerance = sizeof(T) == 4 ? Real{1e-6L} : Real{4e-15L};
  const Real smallest = std::numeric_limits<T>::denorm_min();
  return std::fabs(actual - reference) <= tolerance * factor * std::fabs(reference) + steps * smallest;
}

// ---- pointwise operations on floats ----------------------------------------------------------------------

Real relu(Real x) { return x < 0 ? 0 : x; }
Real sigmoid(Real x) { return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x)); }
Real times(Real x, Real share) { return share == 0 ? 0 : x * share; }
Real gelu(Real x) { return times(x, std::erfc(-x * std::sqrt(Real{0.5})) / 2); }
Real gelu_tanh(Real x) {
  return times(x, sigmoid(2 * std::sqrt(2 / std::acos(Real{-1})) * (x + Real{0.044715L} * x * x * x)));
}
Real softplus(Real x) { return relu(x) + std::log1p(std::exp(-std::fabs(x))); }
Real maximum(Real a, Real b) { return std::isnan(a) || std::isnan(b) ? Real{quiet_nan} : std::max(a, b); }
Real minimum(Real a, Real b) { return std::isnan(a) || std::isnan(b) ? Real{quiet_nan} : std::min(a, b); }

struct UnaryCase {
  Op op;
  std::function<Real(Real)> reference;
  Real growth = 0;                 // of the tolerance with x²: the relative condition of the function itself
  bool subnormal_is_lost = false;  // of float: a result below the smallest normal number may be 0
};
const std::vector<UnaryCase>& unary_cases() {
  static const std::vector<UnaryCase> all = {
      {Op::negate, [](Real x) { return -x; }},
      {Op::copy, [](Real x) { return x; }},
      {Op::abs, [](Real x) { return std::fabs(x); }},
      {Op::exp, [](Real x) { return std::exp(x); }},
      {Op::log, [](Real x) { return std::log(x); }},
      {Op::sqrt, [](Real x) { return std::sqrt(x); }},
      {Op::rsqrt, [](Real x) { return 1 / std::sqrt(x); }},
      {Op::square, [](Real x) { return x * x; }},
      {Op::reciprocal, [](Real x) { return 1 / x; }},
      {Op::sin, [](Real x) { return std::sin(x); }},
      {Op::cos, [](Real x) { return std::cos(x); }},
      {Op::tan, [](Real x) { return std::tan(x); }},
      {Op::tanh, [](Real x) { return std::tanh(x); }},
      {Op::erf, [](Real x) { return std::erf(x); }},
      {Op::ceil, [](Real x) { return std::ceil(x); }},
      {Op::floor, [](Real x) { return std::floor(x); }},
      {Op::relu, relu},
      {Op::sigmoid, sigmoid},
      {Op::silu, [](Real x) { return times(x, sigmoid(x)); }},
      {Op::softplus, softplus},
      {Op::gelu, gelu, Real{0.5}, true},
      {Op::gelu_tanh, gelu_tanh, Real{0.5}},
  };
  return all;
}

template <class T>
void check_coefficients(const std::function<std::vector<T>(Op, std::vector<T>, double)>& run) {
  const std::vector<T> x = grid<T>();
  for (const double c : {0.01, 2.5, -0.5}) {
    const std::vector<T> leaky = run(Op::leaky_relu, x, c), elu = run(Op::elu, x, c);
    const std::vector<T> clipped = run(Op::clipped_relu, x, std::fabs(c));
    const Real rounded = static_cast<T>(c);
    for (std::size_t i = 0; i < x.size(); ++i) {
      ASSERT_TRUE(agrees(leaky[i], x[i] > 0 ? Real{x[i]} : rounded * x[i])) << "leaky_relu " << x[i];
      ASSERT_TRUE(agrees(elu[i], x[i] > 0 ? Real{x[i]} : rounded * std::expm1(Real{x[i]}))) << "elu " << x[i];
      ASSERT_TRUE(agrees(clipped[i], minimum(relu(x[i]), std::fabs(rounded)))) << "clipped_relu " << x[i];
    }
  }
}

TEST_P(PointwiseKernels, unary_operations_on_floats) {
  const auto check = [this]<class T>(T) {
    const std::vector<T> x = grid<T>();
    for (const UnaryCase& c : unary_cases()) {
      const std::vector<T> result = map<T, T>(c.op, {x});
      for (std::size_t i = 0; i < x.size(); ++i) {
        const Real factor = 1 + c.growth * std::min<Real>(Real{x[i]} * x[i], 2000);
        const bool lost = c.subnormal_is_lost && sizeof(T) == 4 && x[i] < -1 && result[i] == 0;
        const Real steps = lost ? Real{1 << 23} : 2 + std::fabs(x[i]);
        ASSERT_TRUE(agrees(result[i], c.reference(x[i]), factor, steps))
            << "operation " << static_cast<int>(c.op) << " of " << x[i] << ", " << sizeof(T)
            << " bytes, gives " << result[i] << " instead of " << c.reference(x[i]);
      }
    }
    check_coefficients<T>([this](Op op, const std::vector<T>& v, double c) { return map<T, T>(op, {v}, c); });
  };
  check(float{});
  check(double{});
}

TEST_P(PointwiseKernels, binary_operations_on_floats) {
  const std::vector<std::pair<Op, std::function<Real(Real, Real)>>> cases = {
      {Op::add, std::plus<Real>()},
      {Op::subtract, std::minus<Real>()},
      {Op::multiply, std::multiplies<Real>()},
      {Op::divide, std::divides<Real>()},
      {Op::maximum, maximum},
      {Op::minimum, minimum},
      {Op::pow, [](Real a, Real b) { return std::pow(a, b); }},
      {Op::fmod, [](Real a, Real b) { return std::fmod(a, b); }},
      {Op::atan2, [](Real a, Real b) { return std::atan2(a, b); }}};
  const auto check = [&]<class T>(T) {
    const std::vector<std::vector<T>> v = pairs<T>();
    for (const auto& [op, reference] : cases) {
      const std::vector<T> result = map<T, T>(op, v);
      for (std::size_t i = 0; i < v[0].size(); ++i) {
        ASSERT_TRUE(agrees(result[i], reference(v[0][i], v[1][i])))
            << "operation " << static_cast<int>(op) << " of " << v[0][i] << " and " << v[1][i] << ", "
            << sizeof(T) << " bytes, gives " << result[i];
      }
    }
  };
  check(float{});
  check(double{});
}

// ---- comparisons, choice, integers, booleans -------------------------------------------------------------

TEST_P(PointwiseKernels, comparisons_and_choices_on_every_register) {
  const auto check = [this]<class T>(T) {
    const std::vector<std::vector<T>> v = pairs<T>();
    const auto compare = [&](Op op, auto predicate) {
      const std::vector<Boolean> result = map<Boolean, T>(op, v);
      for (std::size_t i = 0; i < v[0].size(); ++i) {
        ASSERT_EQ(result[i], predicate(v[0][i], v[1][i]) ? 1 : 0)
            << "operation " << static_cast<int>(op) << " of " << +v[0][i] << " and " << +v[1][i];
      }
    };
    compare(Op::less, std::less<T>());
    compare(Op::less_equal, std::less_equal<T>());
    compare(Op::greater, std::greater<T>());
    compare(Op::greater_equal, std::greater_equal<T>());
    compare(Op::equal, std::equal_to<T>());
    compare(Op::not_equal, std::not_equal_to<T>());
    const std::vector<Boolean> condition = map<Boolean, T>(Op::less, v);
    const std::vector<T> chosen = map<T, T>(Op::where, v, 0, &condition),
                         copied = map<T, T>(Op::copy, {v[0]});
    const std::vector<T> clamped = map<T, T>(Op::clamp, {v[0], v[1], v[0]});
    for (std::size_t i = 0; i < v[0].size(); ++i) {
      const T expected = condition[i] != 0 ? v[0][i] : v[1][i];
      ASSERT_TRUE(same_bytes(&chosen[i], &expected, sizeof(T))) << +v[0][i] << " and " << +v[1][i];
      ASSERT_TRUE(same_bytes(&copied[i], &v[0][i], sizeof(T)));
      const Real bounded = minimum(maximum(v[0][i], v[1][i]), v[0][i]);
      ASSERT_TRUE(std::isnan(bounded) ? clamped[i] != clamped[i] : clamped[i] == bounded)
          << +v[0][i] << +v[1][i];
    }
  };
  check(float{}), check(double{}), check(std::int32_t{}), check(std::int64_t{}), check(Boolean{});
}

TEST_P(PointwiseKernels, integers_wrap) {
  const auto check = [this]<class T>(T) {
    using U = std::make_unsigned_t<T>;
    const std::vector<std::vector<T>> v = pairs<T>();
    const auto binary = [&](Op op, auto reference) {
      const std::vector<T> result = map<T, T>(op, v);
      for (std::size_t i = 0; i < v[0].size(); ++i) {
        ASSERT_EQ(result[i], reference(v[0][i], v[1][i]))
            << static_cast<int>(op) << ": " << v[0][i] << ", " << v[1][i];
      }
    };
    const auto unary = [&](Op op, auto reference, double coefficient = 0) {
      const std::vector<T> result = map<T, T>(op, {v[0]}, coefficient);
      for (std::size_t i = 0; i < v[0].size(); ++i) {
        ASSERT_EQ(result[i], reference(v[0][i])) << static_cast<int>(op) << ": " << v[0][i];
      }
    };
    binary(Op::add, [](T a, T b) { return static_cast<T>(static_cast<U>(a) + static_cast<U>(b)); });
    binary(Op::subtract, [](T a, T b) { return static_cast<T>(static_cast<U>(a) - static_cast<U>(b)); });
    binary(Op::multiply, [](T a, T b) { return static_cast<T>(static_cast<U>(a) * static_cast<U>(b)); });
    binary(Op::maximum, [](T a, T b) { return std::max(a, b); });
    binary(Op::minimum, [](T a, T b) { return std::min(a, b); });
    binary(Op::fmod, [](T a, T b) { return b == 0 || b == -1 ? T{0} : static_cast<T>(a % b); });
    unary(Op::negate, [](T x) { return static_cast<T>(-static_cast<U>(x)); });
    unary(Op::abs, [](T x) { return x < 0 ? static_cast<T>(-static_cast<U>(x)) : x; });
    unary(Op::square, [](T x) { return static_cast<T>(static_cast<U>(x) * static_cast<U>(x)); });
    unary(Op::relu, [](T x) { return std::max(x, T{0}); });
    unary(Op::clipped_relu, [](T x) { return std::clamp(x, T{0}, T{6}); }, 6.5);
    unary(Op::ceil, [](T x) { return x; });
    unary(Op::floor, [](T x) { return x; });
  };
  check(std::int32_t{}), check(std::int64_t{});
}

TEST_P(PointwiseKernels, booleans) {
  const std::vector<Boolean> a = {0, 0, 1, 1}, b = {0, 1, 0, 1}, both = {0, 0, 0, 1}, either = {0, 1, 1, 1};
  const auto of = [&](Op op) { return map<Boolean, Boolean>(op, {a, b}); };
  for (const Op op : {Op::logical_and, Op::multiply, Op::minimum}) EXPECT_EQ(of(op), both);
  for (const Op op : {Op::logical_or, Op::add, Op::maximum}) EXPECT_EQ(of(op), either);
  EXPECT_EQ((map<Boolean, Boolean>(Op::logical_not, {a})), (std::vector<Boolean>{1, 1, 0, 0}));
  for (const Op op : {Op::abs, Op::square, Op::copy}) EXPECT_EQ((map<Boolean, Boolean>(op, {a})), a);
}

TEST_P(PointwiseKernels, the_result_may_replace_an_operand) {
  const std::vector<float> x = grid<float>();
  const std::vector<float> first(x.begin(), x.begin() + block_size), second(x.end() - block_size, x.end());
  for (const Op op : {Op::add, Op::pow, Op::maximum}) {
    const std::vector<float> expected = map<float, float>(op, {first, second});
    for (const bool replace_second : {false, true}) {
      Block<float> a(first), b(second);
      const void* in[] = {a.bytes, b.bytes};
      Block<float>& out = replace_second ? b : a;
      table.map[static_cast<std::size_t>(op)][index(Register::f32)](out.bytes, in, block_size, 0);
      EXPECT_TRUE(same_bytes(out.bytes, expected.data(), block_size * sizeof(float)));
    }
  }
}

// ---- public fault reports --------------------------------------------------------------------------------

TEST_P(PointwiseKernels, case_83_relu_keeps_nan) {
  const std::vector<float> y = map<float, float>(Op::relu, {{quiet_nan, -1, 2, -0.0f, infinity, -infinity}});
  EXPECT_TRUE(std::isnan(y[0]));
  EXPECT_EQ(std::vector<float>(y.begin() + 1, y.end()), (std::vector<float>{0, 2, 0, infinity, 0}));
}

TEST_P(PointwiseKernels, case_84_nan_in_either_operand) {
  for (const std::size_t n : {4, 5, 17}) {
    std::vector<float> a(n, 0), b(n, 0), zeros(n, 0), ones(n, 1);
    a[0] = quiet_nan, a[1] = 1, a[2] = quiet_nan, b[0] = 1, b[1] = quiet_nan, b[2] = quiet_nan;
    for (const Op op : {Op::maximum, Op::minimum}) {
      for (const auto& operands : {std::vector{a, b}, std::vector{b, a}}) {
        const std::vector<float> y = map<float, float>(op, operands);
        for (std::size_t i = 0; i < n; ++i) EXPECT_TRUE(i < 3 ? std::isnan(y[i]) : y[i] == 0) << i;
      }
    }
    const std::vector<float> y = map<float, float>(Op::clamp, {a, zeros, ones});
    EXPECT_TRUE(std::isnan(y[0]) && y[1] == 1 && std::isnan(y[2]) && y[3] == 0);
  }
}

TEST_P(PointwiseKernels, case_89_gelu_tanh_far_out) {
  const std::vector<float> y =
      map<float, float>(Op::gelu_tanh, {{8, 11, 15, 40, -40, 1e4f, infinity, -infinity}});
  EXPECT_EQ(y, (std::vector<float>{8, 11, 15, 40, 0, 1e4f, infinity, 0}));
}

}  // namespace
