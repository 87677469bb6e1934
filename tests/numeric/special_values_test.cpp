// SPDX-License-Identifier: Apache-2.0
// NaN, infinities, signed zeros, subnormals and the largest values through every operation, in vectors long
// enough that vector bodies and tails both see each of them.
#include <gtest/gtest.h>

#include "support/cases.hpp"

namespace {

using namespace support;

std::vector<Real> special_values(DType dtype) {
  std::vector<Real> values = {not_a_number, infinity, -infinity, 0.0L, -0.0L, 1, -1, 0.5L, -2, 3};
  if (dtype == DType::float64) {
    values.insert(values.end(), {1e300L, -1e300L, 1e-300L, std::ldexp(Real{1}, -1074)});
  } else if (dtype == DType::float16) {
    values.insert(values.end(), {65504, -65504, std::ldexp(Real{1}, -24), std::ldexp(Real{-3}, -20)});
  } else {
    values.insert(values.end(),
                  {1e38L, -1e38L, 1e-37L, std::ldexp(Real{1}, -130), std::ldexp(Real{-1}, -133)});
  }
  for (Real& value : values) value = round_float(value, dtype);
  return values;
}

/// Operands whose definition at a special value is a matter of taste, or needs more than the type's range.
bool skipped(const std::string& name, DType dtype, const std::vector<Real>& v) {
  const bool infinite = std::isinf(v[0]);
  const bool huge = std::fabs(v[0]) > 60000;
  if ((name == "silu" || name == "gelu" || name == "gelu_tanh") && infinite && v[0] < 0) return true;  // −∞·0
  if (name == "gelu_tanh" && huge && dtype != DType::float16) return false;
  if ((name == "sin" || name == "cos" || name == "tan") && huge) return true;  // argument reduction: below
  return false;
}

class Specials : public testing::TestWithParam<std::size_t> {};

TEST_P(Specials, agree_with_the_reference) {
  const Operation& row = operations()[GetParam()];
  for (DType dtype : float_dtypes) {
    std::vector<std::vector<Real>> combinations;
    const std::vector<Real> specials = special_values(dtype);
    for (Real a : specials) {
      if (row.arity == 1) {
        combinations.push_back({a});
        continue;
      }
      for (Real b : specials) {
        if (row.arity == 2)
          combinations.push_back({a, b});
        else if (row.has_condition)
          combinations.push_back({static_cast<Real>(combinations.size() % 2), a, b});
        else
          combinations.push_back({a, -1, std::isnan(b) ? b : std::fabs(b)});
      }
    }
    std::erase_if(combinations, [&](const auto& v) { return skipped(row.name, dtype, v); });
    // One at a time, in each lane of a vector and its tail, so that the tolerance is that of its own
    // magnitude.
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < combinations.size() && wrong < 3; ++i) {
      std::vector<Array> arrays;
      std::vector<Tensor> tensors;
      for (std::size_t k = 0; k < row.arity; ++k) {
        const DType type = row.operand_dtype(k, dtype);
        tensors.push_back(tabulate(type, {37}, [&](const Extents&) { return combinations[i][k]; }));
        arrays.push_back(to_array(tensors.back()));
      }
      Tensor expected = row.reference(tensors);
      const Real value = expected.values[0];
      const Real least = std::ldexp(Real{1}, dtype == DType::float64 ? -1022 : -126);
      const Array actual = run(row.call, arrays, Mode::jit);
      testing::AssertionResult result = agrees(actual, expected, {.factor = 2});
      // Results below the smallest normal number may lose bits, but only there.
      if (!result && std::fabs(value) < least * 4 && std::fabs(read(actual).values[0]) < least * 4)
        result = testing::AssertionSuccess();
      EXPECT_TRUE(result) << row.name << " " << stiletto::to_string(dtype) << " of "
                          << static_cast<double>(combinations[i][0]) << ", "
                          << static_cast<double>(combinations[i].back());
      if (!result) ++wrong;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(numeric, Specials, testing::Range<std::size_t>(0, operations().size()),
                         [](const auto& info) { return operations()[info.param].name; });

TEST(SpecialReductions, nan_and_infinity) {
  const std::vector<Real> rows = {1,     2, not_a_number, 3,         infinity, 2, 1, 0, -infinity, 2,
                                  1,     5, infinity,     -infinity, 0,        1, 1, 2, 3,         4,
                                  -0.0L, 0, -0.0L,        0};
  for (DType dtype : float_dtypes) {
    const Tensor x(dtype, {6, 4}, rows);
    const Array array = to_array(x);
    struct {
      Reduction kind;
      Array (*call)(const Array&, stiletto::Axes, bool);
    } const table[] = {{Reduction::sum, stiletto::sum},         {Reduction::mean, stiletto::mean},
                       {Reduction::max, stiletto::max},         {Reduction::min, stiletto::min},
                       {Reduction::abs_max, stiletto::abs_max}, {Reduction::norm1, stiletto::norm1},
                       {Reduction::norm2, stiletto::norm2},     {Reduction::logsumexp, stiletto::logsumexp}};
    for (const auto& row : table)
      for (std::size_t axis : {0U, 1U}) {
        if (row.kind == Reduction::logsumexp && axis == 0) continue;
        auto f = [&](const Array& a) { return row.call(a, static_cast<std::int64_t>(axis), false); };
        EXPECT_TRUE(agrees(stiletto::jit(f, array), reduce(row.kind, x, {axis}, false), {.terms = 6}))
            << stiletto::to_string(dtype) << " kind " << static_cast<int>(row.kind) << " axis " << axis;
      }
    for (std::size_t axis : {0U, 1U})
      EXPECT_TRUE(agrees(
          stiletto::jit([&](const Array& a) { return stiletto::softmax(a, static_cast<int>(axis)); }, array),
          softmax(x, axis)))
          << stiletto::to_string(dtype);
  }
}

// NaN in each position of rows of several lengths, so that no lane drops it.
TEST(SpecialReductions, nan_in_every_position) {
  for (std::int64_t length : {1, 5, 8, 17, 33, 300})
    for (std::int64_t at = 0; at < length; at += length > 50 ? 23 : 1) {
      const Tensor x = tabulate(DType::float32, {2, length}, [&](const Extents& i) {
        return i[1] == at && i[0] == 1 ? not_a_number : static_cast<Real>(i[1]);
      });
      auto both = [](const Array& a) { return std::pair(stiletto::max(a, 1), stiletto::min(a, 1)); };
      const auto [top, bottom] = stiletto::jit(both, to_array(x));
      EXPECT_TRUE(equals(top, DType::float32, {2}, {static_cast<Real>(length - 1), not_a_number}));
      EXPECT_TRUE(equals(bottom, DType::float32, {2}, {0, not_a_number}));
      EXPECT_TRUE(std::isnan(stiletto::sum(to_array(x)).item<float>()));
    }
}

// Overflow-free over the whole range of finite values.
TEST(SpecialActivations, whole_range) {
  for (const char* name :
       {"softplus", "gelu", "gelu_tanh", "silu", "sigmoid", "tanh", "erf", "elu", "leaky_relu"})
    for (DType dtype : float_dtypes) {
      const Real top = dtype == DType::float16 ? 15 : dtype == DType::float64 ? 300 : 120;
      std::vector<Real> values;
      for (Real exponent = -10; exponent < top; exponent += 0.5L)
        for (Real sign : {1, -1}) values.push_back(round_float(sign * std::exp2(exponent), dtype));
      const auto count = static_cast<std::int64_t>(values.size());
      const Tensor x(dtype, {count}, values);
      const Tensor expected = operation(name).reference({x});
      const Tensor actual = read(run(operation(name).call, {to_array(x)}, Mode::jit));
      for (std::size_t i = 0; i < x.size(); ++i) {
        const Real e = expected.values[i], a = actual.values[i];
        EXPECT_LE(std::fabs(a - e), tolerance(dtype) * actual.slack.factor * std::fmax(std::fabs(e), 1))
            << name << " " << stiletto::to_string(dtype) << " of " << static_cast<double>(values[i]) << ": "
            << static_cast<double>(a);
      }
    }
}

TEST(SpecialTrigonometry, large_arguments) {
  for (const char* name : {"sin", "cos", "tan"})
    for (DType dtype : {DType::float32, DType::float64})
      for (Real scale : {1e2L, 1e3L, 1e4L, 1e5L}) {
        Random random(81);
        const Tensor x = random_tensor(random, dtype, {512}, {-scale, scale});
        Tensor expected = operation(name).reference({x});
        const Tensor actual = read(run(operation(name).call, {to_array(x)}, Mode::jit));
        for (std::size_t i = 0; i < x.size(); ++i) {
          const Real e = expected.values[i];
          // tan steepens near its poles
          const Real steep = std::string(name) == "tan" ? 1 + e * e : 1;
          ASSERT_LE(std::fabs(actual.values[i] - e), tolerance(dtype) * actual.slack.factor * steep)
              << name << " " << stiletto::to_string(dtype) << " of " << static_cast<double>(x.values[i]);
        }
      }
}

TEST(SpecialIntegers, the_ends_of_each_type) {
  for (DType dtype : {DType::int8, DType::uint8, DType::int32, DType::int64}) {
    const std::vector<Real> ends = {lowest_integer(dtype),      lowest_integer(dtype) + 1, 0, 1, 2, 3,
                                    highest_integer(dtype) - 1, highest_integer(dtype)};
    std::vector<Real> a, b;
    for (Real x : ends)
      for (Real y : ends) {
        a.push_back(x);
        b.push_back(y);
      }
    const Tensor x(dtype, {64}, a), y(dtype, {64}, b);
    for (const Operation& row : operations()) {
      if (row.arity > 2 || !(row.integer || row.result == Result::boolean)) continue;
      if (row.name == "fmod") continue;
      const std::vector<Tensor> tensors = row.arity == 1 ? std::vector{x} : std::vector{x, y};
      std::vector<Array> arrays;
      for (const Tensor& tensor : tensors) arrays.push_back(to_array(tensor));
      EXPECT_TRUE(agrees(run(row.call, arrays, Mode::jit), row.reference(tensors), {.exact = true}))
          << row.name << " " << stiletto::to_string(dtype);
    }
  }
}

TEST(SpecialIntegers, fmod) {
  for (DType dtype : {DType::int8, DType::int32, DType::int64}) {
    const Tensor a(dtype, {7}, {7, -7, 7, -7, 5, 0, lowest_integer(dtype)}),
        b(dtype, {7}, {3, 3, -3, -3, 0, 0, -1});
    EXPECT_TRUE(equals(run(operation("fmod").call, {to_array(a), to_array(b)}, Mode::jit), dtype, {7},
                       {1, -1, 1, -1, 0, 0, 0}))
        << stiletto::to_string(dtype);
  }
}

TEST(SpecialIntegers, wrap_when_they_leave_the_graph) {
  const Array x = to_array(Tensor(DType::int8, {3}, {100, -100, 127}));
  auto f = [](const Array& a) { return a + a; };
  EXPECT_TRUE(equals(stiletto::jit(f, x), DType::int8, {3}, {-56, 56, -2}));
  auto chain = [](const Array& a) { return (a * a - a) * 3 + a; };
  const Tensor expected = map_integer(DType::int8, {read(x)},
                                      [](const std::int64_t* v) { return (v[0] * v[0] - v[0]) * 3 + v[0]; });
  EXPECT_TRUE(agrees(stiletto::jit(chain, x), expected));
}

TEST(SpecialFmod, is_exact) {
  for (DType dtype : {DType::float32, DType::float64}) {
    Random random(82);
    const Tensor a = random_tensor(random, dtype, {500}, {-1e4L, 1e4L});
    const Tensor b = random_tensor(random, dtype, {500}, {0.01L, 10});
    EXPECT_TRUE(agrees(run(operation("fmod").call, {to_array(a), to_array(b)}, Mode::jit),
                       operation("fmod").reference({a, b}), {.exact = true}))
        << stiletto::to_string(dtype);
  }
}

}  // namespace
