// SPDX-License-Identifier: Apache-2.0
// Result types: every pair of types, every kind of C++ constant and scalar argument with every type, the
// types of reductions and products. The table here is semantics.md's, spelled out once more by
// support::promote.
#include <gtest/gtest.h>

#include <limits>

#include "support/cases.hpp"

namespace {

using namespace support;
using stiletto::bfloat16;
using stiletto::half;

Array small(DType dtype) { return stiletto::ones({2, 2}, dtype, device()); }

std::string pair_name(DType a, DType b) {
  return std::string(stiletto::to_string(a)) + " with " + stiletto::to_string(b);
}

// semantics.md's sentences as a table: row, column in the order of plain_dtypes.
TEST(Promotion, table_matches_the_sentences) {
  const DType b = DType::boolean, i8 = DType::int8, u8 = DType::uint8, i32 = DType::int32, i64 = DType::int64,
              h = DType::float16, bf = DType::bfloat16, f = DType::float32, d = DType::float64;
  const DType table[9][9] = {{b, i8, u8, i32, i64, h, bf, f, d},
                             {i8, i8, i32, i32, i64, h, bf, f, d},
                             {u8, i32, u8, i32, i64, h, bf, f, d},
                             {i32, i32, i32, i32, i64, h, bf, f, d},
                             {i64, i64, i64, i64, i64, h, bf, f, d},
                             {h, h, h, h, h, h, f, f, d},
                             {bf, bf, bf, bf, bf, f, bf, f, d},
                             {f, f, f, f, f, f, f, f, d},
                             {d, d, d, d, d, d, d, d, d}};
  for (std::size_t i = 0; i < 9; ++i)
    for (std::size_t j = 0; j < 9; ++j) EXPECT_EQ(promote(plain_dtypes[i], plain_dtypes[j]), table[i][j]);
}

TEST(Promotion, pairs_of_arrays) {
  for (DType a : plain_dtypes)
    for (DType b : plain_dtypes)
      for (Mode mode : {Mode::jit, Mode::eager}) {
        const DType expected = promote(a, b);
        auto result = [&](const char* name, const std::vector<Array>& operands) {
          return run(operation(name).call, operands, mode).dtype();
        };
        const Array x = small(a), y = small(b);
        SCOPED_TRACE(pair_name(a, b));
        EXPECT_EQ(result("add", {x, y}), expected);
        EXPECT_EQ(result("multiply", {x, y}), expected);
        EXPECT_EQ(result("maximum", {x, y}), expected);
        EXPECT_EQ(result("minimum", {x, y}), expected);
        EXPECT_EQ(result("where", {small(DType::boolean), x, y}), expected);
        EXPECT_EQ(result("less", {x, y}), DType::boolean);
        EXPECT_EQ(result("logical_or", {x, y}), DType::boolean);
        if (expected == DType::boolean) continue;
        EXPECT_EQ(result("subtract", {x, y}), expected);
        EXPECT_EQ(result("fmod", {x, y}), expected);
        EXPECT_EQ(result("divide", {x, y}), floating(expected));
        EXPECT_EQ(result("pow", {x, y}), floating(expected));
        EXPECT_EQ(result("atan2", {x, y}), floating(expected));
        EXPECT_EQ(result("clamp", {x, y, y}), expected);
      }
}

TEST(Promotion, rank_0_arrays_are_not_constants) {
  for (DType a : plain_dtypes)
    for (DType b : plain_dtypes) {
      const Array x = small(a), y = stiletto::ones({}, b, device());
      EXPECT_EQ(run(operation("add").call, {x, y}, Mode::jit).dtype(), promote(a, b)) << pair_name(a, b);
    }
}

template <class T>
void constant_with_arrays(T constant, Constant kind) {
  for (DType dtype : plain_dtypes) {
    const Array x = small(dtype);
    const DType expected = promote_constant(dtype, kind);
    SCOPED_TRACE(stiletto::to_string(dtype));
    EXPECT_EQ(stiletto::jit([&](const Array& a) { return a * constant; }, x).dtype(), expected);
    EXPECT_EQ(stiletto::jit([&](const Array& a) { return constant + a; }, x).dtype(), expected);
    EXPECT_EQ(stiletto::jit([&](const Array& a) { return stiletto::where(a > a, constant, a); }, x).dtype(),
              expected);
    EXPECT_EQ((x * constant).dtype(), expected);
    // A scalar argument counts like a constant of its C++ type.
    auto times = [](const Array& a, const Array& s) { return a * s; };
    EXPECT_EQ(stiletto::jit(times, x, constant).dtype(), expected);
    EXPECT_EQ(stiletto::compile(times, x, constant)(x, constant).dtype(), expected);
    if (expected == DType::boolean) continue;
    EXPECT_EQ(stiletto::jit([&](const Array& a) { return a / constant; }, x).dtype(), floating(expected));
  }
}

TEST(Promotion, constants) {
  constant_with_arrays(true, Constant::boolean);
  constant_with_arrays(2, Constant::integer);
  constant_with_arrays(std::int8_t{2}, Constant::integer);
  constant_with_arrays(std::uint8_t{2}, Constant::integer);
  constant_with_arrays(2U, Constant::integer);
  constant_with_arrays(2L, Constant::integer);
  constant_with_arrays(2ULL, Constant::integer);
  constant_with_arrays(2.0F, Constant::real);
  constant_with_arrays(2.0, Constant::real);
}

TEST(Promotion, half_constants_stay_in_half) {
  for (DType dtype : plain_dtypes) {
    const Array x = small(dtype);
    EXPECT_EQ(stiletto::jit([](const Array& a) { return a * half(2); }, x).dtype(),
              promote(dtype, DType::float16));
    EXPECT_EQ(stiletto::jit([](const Array& a) { return a * bfloat16(2); }, x).dtype(),
              promote(dtype, DType::bfloat16));
  }
}

TEST(Promotion, arithmetic_among_constants_stays_a_constant) {
  const Array x = small(DType::int8), h = small(DType::float16), d = small(DType::float64);
  EXPECT_EQ(stiletto::jit([](const Array& a) { return a + (Array(2) * 3 - 1); }, x).dtype(), DType::int8);
  EXPECT_EQ(stiletto::jit([](const Array& a) { return a * (Array(2) * 3); }, h).dtype(), DType::float16);
  EXPECT_EQ(stiletto::jit([](const Array& a) { return a * stiletto::sqrt(Array(2.0)); }, d).dtype(),
            DType::float64);
  EXPECT_EQ(stiletto::jit([](const Array& a) { return a * (Array(2.0) * 3); }, x).dtype(), DType::float32);
  auto scaled = [](const Array& a, const Array& s, const Array& t) { return a * (s + t); };
  EXPECT_EQ(stiletto::jit(scaled, x, 2, 3).dtype(), DType::int8);
  EXPECT_EQ(stiletto::jit(scaled, d, 2.0, 3).dtype(), DType::float64);
  EXPECT_EQ(stiletto::jit(scaled, h, 2.0, 3).dtype(), DType::float32);
}

TEST(Promotion, constants_keep_their_precision_beside_float64) {
  const Array d = small(DType::float64);
  const double tenth = 0.1;
  EXPECT_TRUE(equals(stiletto::jit([&](const Array& a) { return a * tenth; }, d), DType::float64, {2, 2},
                     {0.1, 0.1, 0.1, 0.1}));
  EXPECT_TRUE(equals(stiletto::jit([](const Array& a, const Array& s) { return a * s; }, d, tenth),
                     DType::float64, {2, 2}, {0.1, 0.1, 0.1, 0.1}));
}

TEST(Promotion, integers_that_do_not_fit) {
  auto add = [](auto constant) { return [constant](const Array& a) { return a + constant; }; };
  auto refused = [&](DType dtype, auto constant) {
    const Array x = small(dtype);
    EXPECT_THROW(stiletto::jit(add(constant), x), stiletto::DTypeError) << stiletto::to_string(dtype);
    EXPECT_THROW(x + constant, stiletto::DTypeError) << stiletto::to_string(dtype);
    EXPECT_THROW(stiletto::jit([](const Array& a, const Array& s) { return a + s; }, x, constant),
                 stiletto::DTypeError);
  };
  auto taken = [&](DType dtype, auto constant) {
    EXPECT_EQ(stiletto::jit(add(constant), small(dtype)).dtype(), dtype);
  };
  refused(DType::int8, 128);
  refused(DType::int8, -129);
  refused(DType::uint8, 256);
  refused(DType::uint8, -1);
  refused(DType::int32, 1LL << 31);
  refused(DType::int64, std::numeric_limits<unsigned long long>::max());
  taken(DType::int8, 127);
  taken(DType::int8, -128);
  taken(DType::uint8, 255);
  taken(DType::int64, 1LL << 40);
  taken(DType::float16, 1000);
  taken(DType::float32, 1LL << 40);
}

TEST(Promotion, reductions_and_products) {
  struct Row {
    DType x, sum, max, mean;
  };
  const Row rows[] = {{DType::boolean, DType::int32, DType::boolean, DType::float32},
                      {DType::int8, DType::int32, DType::int8, DType::float32},
                      {DType::uint8, DType::int32, DType::uint8, DType::float32},
                      {DType::int32, DType::int32, DType::int32, DType::float32},
                      {DType::int64, DType::int64, DType::int64, DType::float32},
                      {DType::float16, DType::float32, DType::float32, DType::float32},
                      {DType::bfloat16, DType::float32, DType::float32, DType::float32},
                      {DType::float32, DType::float32, DType::float32, DType::float32},
                      {DType::float64, DType::float64, DType::float64, DType::float64}};
  for (const Row& row : rows)
    for (Mode mode : {Mode::jit, Mode::eager}) {
      SCOPED_TRACE(stiletto::to_string(row.x));
      auto result = [&](auto f) {
        return run([&](const std::vector<Array>& a) { return f(a[0]); }, {small(row.x)}, mode).dtype();
      };
      EXPECT_EQ(result([](const Array& x) { return stiletto::sum(x, 0); }), row.sum);
      EXPECT_EQ(result([](const Array& x) { return stiletto::prod(x); }), row.sum);
      EXPECT_EQ(result([](const Array& x) { return stiletto::norm1(x, {0, 1}); }), row.sum);
      EXPECT_EQ(result([](const Array& x) { return stiletto::max(x, -1); }), row.max);
      EXPECT_EQ(result([](const Array& x) { return stiletto::min(x, 1, true); }), row.max);
      EXPECT_EQ(result([](const Array& x) { return stiletto::mean(x); }), row.mean);
      EXPECT_EQ(result([](const Array& x) { return stiletto::norm2(x); }), row.mean);
      EXPECT_EQ(result([](const Array& x) { return stiletto::logsumexp(x); }), row.mean);
      EXPECT_EQ(result([](const Array& x) { return stiletto::softmax(x); }), floating(row.x));
      if (row.x != DType::boolean) {
        EXPECT_EQ(result([](const Array& x) { return stiletto::abs_max(x, 0); }), row.max);
      }
    }
}

TEST(Promotion, matmul) {
  for (DType a : plain_dtypes)
    for (DType b : plain_dtypes) {
      if (a == DType::boolean || b == DType::boolean) {
        EXPECT_THROW(run([](const std::vector<Array>& x) { return stiletto::matmul(x[0], x[1]); },
                         {small(a), small(b)}, Mode::jit),
                     stiletto::DTypeError)
            << pair_name(a, b);
        continue;
      }
      const Array c = stiletto::jit([](const Array& x, const Array& y) { return stiletto::matmul(x, y); },
                                    small(a), small(b));
      EXPECT_TRUE(equals(c, matmul_dtype(a, b), {2, 2}, {2, 2, 2, 2})) << pair_name(a, b);
    }
}

}  // namespace
