// SPDX-License-Identifier: Apache-2.0
// Every reduction, softmax and logsumexp over every type, layout and shape class and choice of axes; empty
// reductions; accumulation wider than the type; reductions inside chains.
#include <gtest/gtest.h>

#include "support/cases.hpp"

namespace {

using namespace support;
using stiletto::Axes;

struct Row {
  const char* name;
  Reduction kind;
  Array (*call)(const Array&, Axes, bool);
  Range range, integers;
};
const Row rows[] = {{"sum", Reduction::sum, stiletto::sum, {-3, 3}, {-1e18L, 1e18L}},
                    {"mean", Reduction::mean, stiletto::mean, {-3, 3}, {-100, 100}},
                    {"max", Reduction::max, stiletto::max, {-3, 3}, {-1e18L, 1e18L}},
                    {"min", Reduction::min, stiletto::min, {-3, 3}, {-1e18L, 1e18L}},
                    {"abs_max", Reduction::abs_max, stiletto::abs_max, {-3, 3}, {-127, 127}},
                    {"prod", Reduction::prod, stiletto::prod, {0.9L, 1.1L}, {-9, 9}},
                    {"norm1", Reduction::norm1, stiletto::norm1, {-3, 3}, {-127, 127}},
                    {"norm2", Reduction::norm2, stiletto::norm2, {-3, 3}, {-100, 100}},
                    {"logsumexp", Reduction::logsumexp, stiletto::logsumexp, {-9, 9}, {-9, 9}}};

bool refuses_empty(Reduction kind) {
  return kind == Reduction::max || kind == Reduction::min || kind == Reduction::abs_max;
}

/// Axis choices of a rank, each as non-negative axes; empty: all.
std::vector<std::vector<std::size_t>> axis_choices(std::size_t rank) {
  std::vector<std::vector<std::size_t>> choices = {{}};
  if (rank == 0) return choices;
  choices.push_back({rank - 1});
  if (rank > 1) choices.insert(choices.end(), {{0}, {rank - 1, 0}});
  if (rank > 2) choices.insert(choices.end(), {{1}, {0, 1}, {1, rank - 1}});
  if (rank > 4) choices.push_back({0, 2, 4});
  return choices;
}

Array call(const Row& row, const Array& x, const std::vector<std::size_t>& axes, bool keep, Mode mode) {
  std::vector<std::int64_t> signed_axes(axes.begin(), axes.end());
  for (std::size_t i = 1; i < axes.size(); i += 2) signed_axes[i] -= x.rank();  // some of them negative
  Axes list;
  if (axes.size() == 1) list = Axes(signed_axes[0]);
  if (axes.size() == 2) list = Axes{signed_axes[0], signed_axes[1]};
  if (axes.size() == 3) list = Axes{signed_axes[0], signed_axes[1], signed_axes[2]};
  return run([&](const std::vector<Array>& a) { return row.call(a[0], list, keep); }, {x}, mode);
}

Real terms_of(const Extents& shape, const std::vector<std::size_t>& axes) {
  Real terms = 1;
  if (axes.empty()) terms = static_cast<Real>(count_of(shape));
  for (std::size_t axis : axes) terms *= static_cast<Real>(shape[axis]);
  return std::fmax(terms, 1);
}

class Reductions : public testing::TestWithParam<Row> {};

TEST_P(Reductions, agrees_with_the_reference) {
  const Row& row = GetParam();
  Failures failures;
  Random random(21);
  std::uint64_t number = 0;
  for (DType dtype : plain_dtypes) {
    if (dtype == DType::boolean && row.kind == Reduction::abs_max) continue;
    for (const Extents& shape : shapes())
      for (Layout layout : layouts)
        for (const auto& axes : axis_choices(shape.size())) {
          ++number;
          if (shape.size() > 3 && number % 3 != 0) continue;
          if (terms_of(shape, axes) == 0 || count_of(shape) == 0) continue;  // below
          const Operand x = operand(random, dtype, shape, layout, is_exact(dtype) ? row.integers : row.range);
          const bool keep = number % 2 == 0;
          const Mode mode = number % 7 == 0 ? Mode::eager : number % 5 == 0 ? Mode::compiled : Mode::jit;
          const std::string where = std::string(row.name) + " " + stiletto::to_string(dtype) +
                                    describe(shape) + " " + to_string(layout) + " axes " +
                                    describe({axes.begin(), axes.end()}) + (keep ? " kept, " : ", ") +
                                    to_string(mode);
          testing::AssertionResult result = testing::AssertionSuccess();
          try {
            result = agrees(call(row, x.array, axes, keep, mode), reduce(row.kind, x.values, axes, keep),
                            {.terms = terms_of(shape, axes)});
          } catch (const std::exception& error) {
            result = testing::AssertionFailure() << "threw: " << error.what();
          }
          if (!failures.expect(result << "\n  in " << where)) return;
        }
  }
}

TEST_P(Reductions, empty) {
  const Row& row = GetParam();
  if (row.kind == Reduction::logsumexp) return;  // the specification is silent
  for (DType dtype : plain_dtypes) {
    if (dtype == DType::boolean && row.kind == Reduction::abs_max) continue;
    for (Mode mode : {Mode::jit, Mode::compiled, Mode::eager}) {
      SCOPED_TRACE(std::string(stiletto::to_string(dtype)) + " " + to_string(mode));
      const Tensor x(dtype, {2, 0, 3});
      // Over an axis with elements: no outputs, nothing to refuse.
      EXPECT_TRUE(
          agrees(call(row, to_array(x), {0}, false, mode), Tensor(reduced_dtype(row.kind, dtype), {0, 3})));
      for (const auto& axes : std::vector<std::vector<std::size_t>>{{1}, {}, {0, 1}}) {
        if (refuses_empty(row.kind))
          EXPECT_THROW(call(row, to_array(x), axes, false, mode), stiletto::ShapeError);
        else
          EXPECT_TRUE(agrees(call(row, to_array(x), axes, true, mode), reduce(row.kind, x, axes, true),
                             {.exact = true}));
      }
    }
  }
}

TEST_P(Reductions, long_axes) {
  const Row& row = GetParam();
  Random random(22);
  for (DType dtype : {DType::float32, DType::float16, DType::int32, DType::float64})
    for (const auto& [shape, axis] : std::vector<std::pair<Extents, std::size_t>>{
             {{50021}, 0}, {{7, 9001}, 1}, {{9001, 7}, 0}, {{3, 701, 11}, 1}}) {
      const Range narrow = row.kind == Reduction::prod ? Range{0.999L, 1.001L} : row.range;
      const Operand x =
          operand(random, dtype, shape, Layout::contiguous, is_exact(dtype) ? row.integers : narrow);
      EXPECT_TRUE(agrees(call(row, x.array, {axis}, false, Mode::jit),
                         reduce(row.kind, x.values, {axis}, false), {.terms = terms_of(shape, {axis})}))
          << stiletto::to_string(dtype) << describe(shape);
    }
}

TEST_P(Reductions, fused_with_a_chain_before_and_after) {
  const Row& row = GetParam();
  Random random(23);
  for (DType dtype : {DType::float32, DType::float64, DType::bfloat16, DType::float16})
    for (Layout layout : layouts)
      for (const auto& axes : axis_choices(3)) {
        const Operand x = operand(random, dtype, {5, 4, 7}, layout, row.range);
        std::vector<std::int64_t> list(axes.begin(), axes.end());
        const Function f = [&](const std::vector<Array>& a) {
          const Array before = stiletto::abs(a[0]) + 0.25F;
          Axes chosen;
          if (list.size() == 1) chosen = Axes(list[0]);
          if (list.size() == 2) chosen = Axes{list[0], list[1]};
          return before * stiletto::tanh(row.call(before, chosen, true) * 0.125F);
        };
        const DType wide = promote_constant(dtype, Constant::real);
        const Tensor before = map(wide, {x.values}, [](const Real* v) { return std::fabs(v[0]) + 0.25L; });
        const Tensor expected = map(wide, {before, reduce(row.kind, before, axes, true)},
                                    [](const Real* v) { return v[0] * std::tanh(v[1] * 0.125L); });
        EXPECT_TRUE(
            agrees(run(f, {x.array}, Mode::jit), expected, {.terms = terms_of({5, 4, 7}, axes), .factor = 3}))
            << stiletto::to_string(dtype) << " " << to_string(layout);
      }
}

INSTANTIATE_TEST_SUITE_P(numeric, Reductions, testing::ValuesIn(rows),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(Softmax, agrees_with_the_reference) {
  Failures failures;
  Random random(24);
  std::uint64_t number = 0;
  for (DType dtype : plain_dtypes) {
    if (dtype == DType::boolean) continue;
    for (const Extents& shape : shapes())
      for (Layout layout : layouts)
        for (std::size_t axis = 0; axis < shape.size(); ++axis) {
          ++number;
          const Operand x = operand(random, dtype, shape, layout, {-9, 9});
          const int named = static_cast<int>(axis) - (number % 2 == 0 ? static_cast<int>(shape.size()) : 0);
          const Mode mode = number % 7 == 0 ? Mode::eager : number % 5 == 0 ? Mode::compiled : Mode::jit;
          const Function f = [&](const std::vector<Array>& a) { return stiletto::softmax(a[0], named); };
          if (!failures.expect(agrees(run(f, {x.array}, mode), softmax(x.values, axis),
                                      {.terms = std::fmax(static_cast<Real>(shape[axis]), 1)})
                               << " in " << stiletto::to_string(dtype) << describe(shape) << " "
                               << to_string(layout) << " axis " << named))
            return;
        }
  }
}

// Values that both need, in types that are converted on the way in.
TEST(Softmax, beside_other_reductions_of_the_same_values) {
  Random random(27);
  for (DType dtype : plain_dtypes)
    for (std::size_t axis : {0U, 1U, 2U}) {
      const Operand x = operand(random, dtype, {4, 1, 7}, Layout::contiguous, {-3, 3});
      const auto named = static_cast<std::int64_t>(axis);
      auto f = [&](const Array& a) {
        const Array parts =
            stiletto::softmax(a, static_cast<int>(named)) + stiletto::logsumexp(a, named, true);
        return parts - stiletto::mean(a, named, true) +
               stiletto::cast(stiletto::max(a, named, true), DType::float32);
      };
      const DType wide = promote(floating(dtype), DType::float32);
      const Tensor expected = map(
          wide,
          {softmax(x.values, axis), reduce(Reduction::logsumexp, x.values, {axis}, true),
           reduce(Reduction::mean, x.values, {axis}, true), reduce(Reduction::max, x.values, {axis}, true)},
          [](const Real* v) { return v[0] + v[1] - v[2] + v[3]; });
      const Real factor = dtype == DType::float64 ? 1e8L : 4;  // max goes through float32
      EXPECT_TRUE(agrees(stiletto::jit(f, x.array), expected, {.terms = 7, .factor = factor}))
          << stiletto::to_string(dtype) << " axis " << axis;
      // A maximum over an extent of 1 is only a conversion.
      auto g = [&](const Array& a) {
        const Array m = stiletto::maximum(a, a * 0);
        return stiletto::softmax(stiletto::max(m, 1, true), 0) +
               stiletto::logsumexp(stiletto::cos(m), 1, true);
      };
      const Tensor m = map(dtype, {x.values}, [](const Real* v) { return scalar::maximum(v[0], 0); });
      const Tensor cosines = map(floating(dtype), {m}, [](const Real* v) { return std::cos(v[0]); });
      const Tensor top = reduce(Reduction::max, m, {1}, true);
      const Tensor both = map(floating(reduced_dtype(Reduction::max, dtype)),
                              {softmax(top, 0), reduce(Reduction::logsumexp, cosines, {1}, true)},
                              [](const Real* v) { return v[0] + v[1]; });
      EXPECT_TRUE(agrees(stiletto::jit(g, x.array), both, {.terms = 4, .factor = 4}))
          << stiletto::to_string(dtype);
    }
}

TEST(Softmax, long_and_extreme_rows) {
  Random random(25);
  for (DType dtype : float_dtypes)
    for (Range range : {Range{-9, 9}, Range{-30000, 30000}, Range{20000, 20001}}) {
      const Operand x = operand(random, dtype, {5, 9001}, Layout::contiguous, range);
      for (std::size_t axis : {0U, 1U})
        EXPECT_TRUE(
            agrees(stiletto::jit([&](const Array& a) { return stiletto::softmax(a, static_cast<int>(axis)); },
                                 x.array),
                   softmax(x.values, axis), {.terms = 9001}))
            << stiletto::to_string(dtype) << " up to " << static_cast<double>(range.high);
      EXPECT_TRUE(agrees(stiletto::jit([](const Array& a) { return stiletto::logsumexp(a, 1); }, x.array),
                         reduce(Reduction::logsumexp, x.values, {1}, false), {.terms = 9001}));
    }
}

TEST(Reduction, accumulates_wider_than_the_type) {
  for (DType dtype : {DType::float16, DType::bfloat16}) {
    const Array ones = stiletto::ones({4099}, dtype, device());
    EXPECT_TRUE(equals(stiletto::sum(ones), DType::float32, {}, {4099}));
    EXPECT_TRUE(equals(stiletto::mean(ones), DType::float32, {}, {1}));
  }
  const Array bytes = stiletto::full({1000}, 127, DType::int8, device());
  EXPECT_TRUE(equals(stiletto::sum(bytes), DType::int32, {}, {127000}));
  const Array flags = stiletto::ones({1000}, DType::boolean, device());
  EXPECT_TRUE(equals(stiletto::sum(flags), DType::int32, {}, {1000}));
}

// A mean of 40000 with a spread of a few float32 steps must not cancel.
TEST(Reduction, a_small_spread_around_a_large_mean) {
  Random random(26);
  const Tensor x = tabulate(DType::float32, {8, 512}, [&](const Extents&) {
    return 40000 + static_cast<Real>(random.below(7)) * std::ldexp(Real{1}, -8);
  });
  auto variance = [](const Array& a) {
    return stiletto::mean(stiletto::square(a - stiletto::mean(a, 1, true)), 1);
  };
  const Tensor centred = map(DType::float64, {x, reduce(Reduction::mean, x, {1}, true)},
                             [](const Real* v) { return (v[0] - v[1]) * (v[0] - v[1]); });
  Tensor expected = reduce(Reduction::mean, centred, {1}, false);
  expected.dtype = DType::float32;
  // The mean itself is rounded to a float32 step of 0.0039, which enters squared.
  EXPECT_TRUE(agrees(stiletto::jit(variance, to_array(x)), expected, {.factor = 3e5L}));
}

TEST(Reduction, axes_out_of_range_or_repeated) {
  const Array x = stiletto::ones({2, 3}, DType::float32, device());
  for (const Row& row : rows) {
    EXPECT_THROW(row.call(x, 2, false), stiletto::ShapeError) << row.name;
    EXPECT_THROW(row.call(x, -3, false), stiletto::ShapeError) << row.name;
    EXPECT_THROW(row.call(x, {0, 0}, false), stiletto::ShapeError) << row.name;
    EXPECT_THROW(row.call(x, {1, -1}, false), stiletto::ShapeError) << row.name;
  }
  EXPECT_THROW(stiletto::softmax(x, 2), stiletto::ShapeError);
  EXPECT_THROW(stiletto::softmax(x, -3), stiletto::ShapeError);
}

}  // namespace
