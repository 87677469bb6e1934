// SPDX-License-Identifier: Apache-2.0
// What the C++ language has to accept and refuse: an array is no truth value, generic functions run with
// numbers and arrays, and options are told from functions.
#include <gtest/gtest.h>

#include <thread>

#include <cmath>
#include <type_traits>

#include "support/compare.hpp"
#include "support/reference.hpp"

namespace {

using namespace support;

// if (x), x && y, !x on an array do not compile.
static_assert(!std::is_constructible_v<bool, Array>);
static_assert(!std::is_convertible_v<Array, bool>);
template <class T>
concept Negatable = requires(const T& x) { !x; };
template <class T>
concept ChoosesBetween = requires(const T& x) { x ? 1 : 2; };
template <class T>
concept Conjoins = requires(const T& x) { x&& x; };
static_assert(!Negatable<Array> && !ChoosesBetween<Array> && !Conjoins<Array>);

// There is no +=, and no conversion to a number.
template <class T>
concept Accumulates = requires(T& x) { x += x; };
static_assert(!Accumulates<Array>);
static_assert(!std::is_convertible_v<Array, float> && !std::is_constructible_v<float, Array>);

// Numbers become arrays; pointers and strings do not.
static_assert(std::is_convertible_v<float, Array> && std::is_convertible_v<int, Array> &&
              std::is_convertible_v<bool, Array> && std::is_convertible_v<stiletto::half, Array> &&
              std::is_convertible_v<std::uint64_t, Array>);
static_assert(!std::is_convertible_v<const char*, Array> && !std::is_convertible_v<float*, Array> &&
              !std::is_convertible_v<std::nullptr_t, Array>);
static_assert(std::is_trivially_copyable_v<stiletto::half> && sizeof(stiletto::half) == 2 &&
              std::is_trivially_copyable_v<stiletto::bfloat16> && sizeof(stiletto::bfloat16) == 2 &&
              sizeof(stiletto::float8_e4m3) == 1 && sizeof(stiletto::float8_e5m2) == 1);
static_assert(!std::is_convertible_v<float, stiletto::half> && !std::is_convertible_v<stiletto::half, float>);
static_assert(stiletto::Traceable<Array (*)(const Array&)> &&
              !stiletto::Traceable<stiletto::CompileOptions&>);
static_assert(std::is_nothrow_move_constructible_v<Array> && std::is_copy_constructible_v<Array>);

// By value, as such functions are written for numbers.
template <class T>
T half_tanh(T x) {  // NOLINT(performance-unnecessary-value-param)
  using std::tanh;
  return tanh(x) / 2;
}

template <class T>
T every_function(const T& x) {
  using std::abs, std::atan2, std::ceil, std::cos, std::erf, std::exp, std::floor, std::fmod, std::log,
      std::pow, std::sin, std::sqrt, std::tan, std::tanh;
  const T y = abs(x) + 1;
  return sin(x) + cos(x) * tan(x / 4) - exp(-y) + log(y) / sqrt(y) + erf(x) * tanh(x) + ceil(x) -
         floor(x / 2) + fmod(y, T(2)) + pow(y, T(3)) * atan2(x, y);
}

TEST(Generic, functions_run_with_float_and_array) {
  EXPECT_FLOAT_EQ(half_tanh(0.5F), std::tanh(0.5F) / 2);
  const Array x = stiletto::full({3}, 0.5F);
  const Tensor expected(DType::float32, {3}, std::vector<Real>(3, half_tanh(Real{0.5})));
  EXPECT_TRUE(agrees(half_tanh(x), expected));
  EXPECT_TRUE(agrees(stiletto::jit(half_tanh<Array>, x), expected));
  EXPECT_TRUE(agrees(stiletto::compile(half_tanh<Array>, x)(x), expected));
  EXPECT_TRUE(agrees(stiletto::jit([](const auto& a) { return half_tanh(a); }, x), expected));
}

TEST(Generic, every_standard_function) {
  const Array x = to_array(Tensor(DType::float64, {4}, {-1.75L, -0.25L, 0.5L, 2.25L}));
  const Tensor expected = map(DType::float64, {read(x)}, [](const Real* v) { return every_function(v[0]); });
  EXPECT_TRUE(agrees(stiletto::jit(every_function<Array>, x), expected, {.factor = 4}));
  EXPECT_TRUE(agrees(every_function(x), expected, {.factor = 4}));
}

TEST(Generic, callables_of_every_kind) {
  struct Functor {
    Array operator()(const Array& a) const { return a + 1; }
  };
  const Array x = stiletto::ones({2});
  const std::function<Array(const Array&)> erased = Functor{};
  EXPECT_TRUE(equals(stiletto::jit(Functor{}, x), DType::float32, {2}, {2, 2}));
  EXPECT_TRUE(equals(stiletto::jit(erased, x), DType::float32, {2}, {2, 2}));
  EXPECT_TRUE(equals(stiletto::jit([n = 0](Array a) mutable { return std::move(a) + ++n; }, x),
                     DType::float32, {2}, {2, 2}));
  EXPECT_TRUE(equals(stiletto::jit(
                         [](Array& a) {
                           a = a + 1;
                           return a;
                         },
                         x),
                     DType::float32, {2}, {2, 2}));
  EXPECT_TRUE(equals(x, DType::float32, {2}, {1, 1}));
  EXPECT_TRUE(equals(stiletto::jit({.io_dtype = DType::float64}, Functor{}, x), DType::float64, {2}, {2, 2}));
  const stiletto::CompileOptions options{.io_dtype = DType::float16};
  EXPECT_TRUE(equals(stiletto::compile(options, Functor{}, x)(x), DType::float16, {2}, {2, 2}));
  EXPECT_TRUE(stiletto::supports(options, Functor{}, x).supported);
  EXPECT_TRUE(equals(2 * x + 1.0F - stiletto::where(x > 0, x, 0), DType::float32, {2}, {2, 2}));
}

TEST(LongFunctions, compile_at_any_length) {
  // Lowering walks chains without recursion: 20,000 operations fit the smallest stack a thread may have.
  const Array x = stiletto::ones({8});
  auto chain = [](const Array& a) {
    Array y = a;
    for (int i = 0; i < 10000; ++i) y = y * 0.5F + 0.5F;
    return y;
  };
  Array result;
  std::thread([&] { result = stiletto::jit(chain, x); }).join();
  EXPECT_EQ(result.at<float>({7}), 1);
}

TEST(LongFunctions, numbers_too) {
  const Array x = stiletto::ones({2});
  auto chain = [](const Array& a, Array number) {
    for (int i = 0; i < 20000; ++i) number = number + 1;
    return a * number;
  };
  EXPECT_EQ(stiletto::jit(chain, x, 1).at<float>({0}), 20001);
}

}  // namespace
