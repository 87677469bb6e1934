// SPDX-License-Identifier: Apache-2.0
// io_dtype, intermediate_dtype and compute_dtype: which outputs they change, where values are rounded, and
// how sums and products are accumulated. Inputs are chosen so that each setting gives another number.
#include <gtest/gtest.h>

#include "support/cases.hpp"

namespace {

using namespace support;
using stiletto::CompileOptions;

const DType float32 = DType::float32;

Array of(DType dtype, std::vector<Real> values) {
  const auto count = static_cast<std::int64_t>(values.size());
  return to_array(Tensor(dtype, {count}, std::move(values)));
}

// ---- io_dtype ----

TEST(IoDtype, of_every_floating_output) {
  for (DType dtype : plain_dtypes)
    for (DType io : float_dtypes) {
      const Array x = stiletto::ones({3, 5}, dtype, device());
      auto f = [](const Array& a) {
        return std::tuple(a * 1, a > 0, stiletto::sum(a), stiletto::exp(a),
                          stiletto::cast(a, DType::bfloat16), stiletto::cast(a * 2, DType::float64));
      };
      const CompileOptions options{.io_dtype = io};
      const auto r = stiletto::jit(options, f, x);
      const auto c = stiletto::compile(options, f, x)(x);
      const DType kept = dtype == DType::boolean ? DType::int32 : dtype;
      for (const auto& results : {r, c}) {
        SCOPED_TRACE(std::string(stiletto::to_string(dtype)) + " at " + stiletto::to_string(io));
        EXPECT_EQ(std::get<0>(results).dtype(), is_float(dtype) ? io : kept);
        EXPECT_EQ(std::get<1>(results).dtype(), DType::boolean);
        EXPECT_EQ(std::get<2>(results).dtype(), is_float(dtype) ? io : accumulated(dtype));
        EXPECT_EQ(std::get<3>(results).dtype(), io);
        EXPECT_EQ(std::get<4>(results).dtype(), DType::bfloat16);
        EXPECT_EQ(std::get<5>(results).dtype(), DType::float64);
        EXPECT_TRUE(agrees(std::get<2>(results), Tensor(std::get<2>(results).dtype(), {}, {15})));
      }
    }
}

TEST(IoDtype, of_matmul_and_stores) {
  Random random(91);
  for (DType io : float_dtypes) {
    const Operand a = operand(random, DType::bfloat16, {5, 9}, Layout::contiguous, {-1, 1});
    const Operand b = operand(random, DType::bfloat16, {9, 3}, Layout::contiguous, {-1, 1});
    const Array y = stiletto::zeros({5, 3}, float32, device());
    auto f = [](const Array& d, const Array& p, const Array& q) {
      const Array c = stiletto::matmul(p, q);
      stiletto::assign(d, c);
      return c;
    };
    const Array c = stiletto::jit(CompileOptions{.io_dtype = io}, f, y, a.array, b.array);
    Tensor expected = matmul(a.values, b.values);
    expected.dtype = float32;
    EXPECT_TRUE(agrees(y, expected, {.terms = 9, .factor = 1e4L})) << stiletto::to_string(io);
    expected.dtype = io;
    // The value inside the graph is float32, whatever the outputs are.
    EXPECT_TRUE(agrees(c, expected, {.terms = 9, .factor = io == DType::float64 ? 1e9L : 1}))
        << stiletto::to_string(io);
  }
}

TEST(IoDtype, float32_shows_what_the_narrow_type_would_round) {
  EXPECT_TRUE(equals(stiletto::jit(
                         CompileOptions{.io_dtype = float32},
                         [](const Array& a) { return a + stiletto::half(0.5F); }, of(DType::float16, {1024})),
                     float32, {1}, {1024.5L}));
  EXPECT_TRUE(equals(stiletto::jit(
                         CompileOptions{.io_dtype = float32}, [](const Array& a) { return a * a; },
                         of(DType::float16, {1000})),
                     float32, {1}, {1e6L}));
  EXPECT_TRUE(equals(stiletto::jit([](const Array& a) { return a * a; }, of(DType::float16, {1000})),
                     DType::float16, {1}, {infinity}));
}

// ---- intermediate_dtype ----

TEST(IntermediateDtype, float32_by_default_even_between_half_values) {
  const Array x = of(DType::float16, {60000, 1});
  auto f = [](const Array& a) { return a + a - a; };  // 120000 in the middle
  EXPECT_TRUE(equals(stiletto::jit(f, x), DType::float16, {2}, {60000, 1}));
  auto tiny = [](const Array& a) { return (a + stiletto::half(1)) - stiletto::half(1); };
  EXPECT_TRUE(equals(stiletto::jit(tiny, of(DType::float16, {std::ldexp(Real{1}, -14)})), DType::float16, {1},
                     {std::ldexp(Real{1}, -14)}));
}

TEST(IntermediateDtype, narrow_rounds_after_every_operation) {
  struct Row {
    DType dtype;
    int bits;
  };
  for (const Row& row : {Row{DType::float16, 11}, Row{DType::bfloat16, 8}}) {
    const CompileOptions options{.intermediate_dtype = row.dtype};
    const Real tie = std::ldexp(Real{1}, -row.bits);  // half a step above 1
    const Array x = of(float32, {tie, 3 * tie, tie / 4, 2 * tie});
    auto f = [](const Array& a) { return (a + 1) - 1; };
    EXPECT_TRUE(agrees(stiletto::jit(options, f, x), Tensor(float32, {4}, {0, 4 * tie, 0, 2 * tie})))
        << stiletto::to_string(row.dtype);
    // Integers and float64 stay as they are.
    const Array whole = of(DType::int32, {4097});
    EXPECT_TRUE(equals(stiletto::jit(options, f, whole), DType::int32, {1}, {4097}));
    const Array wide = of(DType::float64, {std::ldexp(Real{1}, -40)});
    EXPECT_TRUE(equals(stiletto::jit(options, f, wide), DType::float64, {1}, {std::ldexp(Real{1}, -40)}));
  }
}

TEST(IntermediateDtype, float16_overflows_in_the_middle) {
  const Array x = of(float32, {60000, 1});
  auto f = [](const Array& a) { return a + a - a; };
  EXPECT_TRUE(equals(stiletto::jit(CompileOptions{.intermediate_dtype = DType::float16}, f, x), float32, {2},
                     {infinity, 1}));
}

TEST(IntermediateDtype, float64_keeps_more) {
  const Array x = of(float32, {1, 1024});
  auto f = [](const Array& a) { return ((a + 1e-9) - a) * 1e9; };
  EXPECT_TRUE(equals(stiletto::jit(f, x), float32, {2}, {0, 0}));
  const Tensor expected(float32, {2}, {1, 1});
  EXPECT_TRUE(agrees(stiletto::jit(CompileOptions{.intermediate_dtype = DType::float64}, f, x), expected,
                     {.factor = 1e3L}));
}

TEST(IntermediateDtype, a_chain_against_the_reference_that_rounds) {
  Random random(92);
  for (DType dtype : {DType::float16, DType::bfloat16}) {
    const Operand x = operand(random, float32, {40}, Layout::contiguous, {0.5L, 2});
    auto f = [](const Array& a) { return (a * 3 + a) * a - a; };
    auto r = [&](Real value) { return round_float(value, dtype); };
    const Tensor expected = map(float32, {x.values}, [&](const Real* v) {
      const Real a = v[0];  // what comes from memory and what goes there keep their own dtypes
      return r(r(r(a * 3) + a) * a) - a;
    });
    EXPECT_TRUE(agrees(stiletto::jit(CompileOptions{.intermediate_dtype = dtype}, f, x.array), expected))
        << stiletto::to_string(dtype);
  }
}

// ---- compute_dtype ----

TEST(ComputeDtype, float64_sums) {
  std::vector<Real> values(3000, 1);
  values[0] = 1e8L;
  values[2999] = -1e8L;
  const Array x = of(float32, values);
  const CompileOptions wide{.compute_dtype = DType::float64};
  EXPECT_TRUE(
      equals(stiletto::jit(wide, [](const Array& a) { return stiletto::sum(a); }, x), float32, {}, {2998}));
  EXPECT_TRUE(equals(stiletto::jit(
                         wide, [](const Array& a) { return stiletto::sum(a * 1, 0, true) - 2998; }, x),
                     float32, {1}, {0}));
}

TEST(ComputeDtype, float64_products) {
  Random random(93);
  const Operand a = operand(random, float32, {17, 600}, Layout::contiguous, {-1, 1});
  const Operand b = operand(random, float32, {600, 9}, Layout::transposed, {-1, 1});
  auto f = [](const Array& x, const Array& y) { return stiletto::matmul(x, y); };
  const Tensor expected = matmul(a.values, b.values);
  // One rounding to float32 at the end: half a unit in the last place.
  EXPECT_TRUE(agrees(stiletto::jit(CompileOptions{.compute_dtype = DType::float64}, f, a.array, b.array),
                     expected, {.factor = 0.06L}));
}

TEST(ComputeDtype, reductions_and_softmax_stay_right) {
  Random random(94);
  const Operand x = operand(random, float32, {6, 300}, Layout::contiguous, {-5, 5});
  const CompileOptions wide{.compute_dtype = DType::float64};
  for (std::size_t axis : {0U, 1U}) {
    const auto named = static_cast<int>(axis);
    EXPECT_TRUE(agrees(stiletto::jit(
                           wide, [&](const Array& a) { return stiletto::softmax(a, named); }, x.array),
                       softmax(x.values, axis)));
    EXPECT_TRUE(agrees(stiletto::jit(
                           wide, [&](const Array& a) { return stiletto::norm2(a, named); }, x.array),
                       reduce(Reduction::norm2, x.values, {axis}, false)));
    EXPECT_TRUE(agrees(stiletto::jit(
                           wide, [&](const Array& a) { return stiletto::logsumexp(a, named); }, x.array),
                       reduce(Reduction::logsumexp, x.values, {axis}, false)));
  }
}

TEST(Options, are_part_of_the_key) {
  const Array x = of(float32, {60000});
  auto f = [](const Array& a) { return a + a - a; };
  for (int round = 0; round < 2; ++round) {
    EXPECT_TRUE(equals(stiletto::jit(f, x), float32, {1}, {60000}));
    EXPECT_TRUE(equals(stiletto::jit(CompileOptions{.intermediate_dtype = DType::float16}, f, x), float32,
                       {1}, {infinity}));
    EXPECT_TRUE(equals(stiletto::jit(CompileOptions{.io_dtype = DType::float64}, f, x), DType::float64, {1},
                       {60000}));
  }
}

TEST(Options, results_are_bit_equal_from_run_to_run) {
  Random random(95);
  const Operand a = operand(random, float32, {300, 301}, Layout::contiguous);
  const Operand b = operand(random, float32, {301, 77}, Layout::contiguous);
  auto f = [](const Array& x, const Array& y) {
    return std::pair(stiletto::softmax(stiletto::matmul(x, y), 0), stiletto::sum(stiletto::exp(x) * x, 0));
  };
  const auto first = stiletto::jit(f, a.array, b.array);
  for (int i = 0; i < 10; ++i) {
    const auto next = stiletto::jit(f, a.array, b.array);
    EXPECT_TRUE(agrees(next.first, read(first.first), {.exact = true}));
    EXPECT_TRUE(agrees(next.second, read(first.second), {.exact = true}));
  }
}

}  // namespace
