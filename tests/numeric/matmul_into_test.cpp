// SPDX-License-Identifier: Apache-2.0
// matmul_into: alpha and beta, destinations of every layout, untouched memory beside them, an old value that
// is not read when beta is 0, empty contractions, and the destinations it refuses.
#include <gtest/gtest.h>

#include "support/cases.hpp"

namespace {

using namespace support;

/// A destination of one layout whose storage is known.
Operand destination(Random& random, DType dtype, const Extents& shape, Layout layout) {
  return operand(random, dtype, shape, layout, {-3, 3});
}

Tensor accumulate(const Tensor& c, const Tensor& product, Real alpha, Real beta) {
  return map(c.dtype, {c, product},
             [&](const Real* v) { return alpha * v[1] + (beta == 0 ? 0 : beta * v[0]); });
}

void into(Mode mode, const Array& c, const Array& a, const Array& b, double alpha, double beta) {
  if (mode == Mode::eager) return stiletto::matmul_into(c, a, b, alpha, beta);
  auto f = [&](const Array& z, const Array& x, const Array& y) {
    stiletto::matmul_into(z, x, y, alpha, beta);
  };
  if (mode == Mode::jit) return stiletto::jit(f, c, a, b);
  stiletto::compile(f, c, a, b)(c, a, b);
}

class MatmulInto : public testing::TestWithParam<DType> {};

TEST_P(MatmulInto, alpha_and_beta_into_every_layout) {
  const DType dtype = GetParam();
  Random random(61);
  Failures failures;
  int number = 0;
  for (Layout layout : layouts) {
    if (layout == Layout::broadcast) continue;
    for (const auto& [a_shape, b_shape, c_shape] :
         std::vector<std::array<Extents, 3>>{{Extents{5, 9}, {9, 7}, {5, 7}},
                                             {Extents{2, 5, 9}, {9, 3}, {2, 5, 3}},
                                             {Extents{3, 0}, {0, 4}, {3, 4}},
                                             {Extents{0, 3}, {3, 4}, {0, 4}},
                                             {Extents{1, 33}, {33, 1}, {1, 1}},
                                             {Extents{2, 1, 3, 4}, {3, 4, 5}, {2, 3, 3, 5}}})
      for (const auto& [alpha, beta] : std::vector<std::pair<double, double>>{
               {1, 0}, {1, 1}, {2, 0}, {-1, 3}, {0, 2}, {0, 0}, {0.5, -0.25}}) {
        const DType out = matmul_dtype(dtype, dtype);
        if (is_exact(out) && (alpha != std::floor(alpha) || beta != std::floor(beta))) continue;
        const Operand a = operand(random, dtype, a_shape, layouts[++number % 8]);
        const Operand b = operand(random, dtype, b_shape, layouts[(number * 3) % 8]);
        const Operand c = destination(random, out, c_shape, layout);
        const Tensor before = read(c.storage);
        const Tensor expected = accumulate(c.values, matmul(a.values, b.values), alpha, beta);
        const Mode mode = number % 5 == 0 ? Mode::eager : number % 3 == 0 ? Mode::compiled : Mode::jit;
        const std::string where = std::string("\n  in ") + describe(a_shape) + describe(b_shape) + " into " +
                                  to_string(layout) + ", alpha " + std::to_string(alpha) + ", beta " +
                                  std::to_string(beta) + ", " + to_string(mode);
        try {
          into(mode, c.array, a.array, b.array, alpha, beta);
        } catch (const std::exception& error) {
          if (!failures.expect(testing::AssertionFailure() << "threw: " << error.what() << where)) return;
          continue;
        }
        const Real terms = static_cast<Real>(a_shape.back()) + 1;
        if (!failures.expect(agrees(c.array, expected, {.terms = terms, .factor = 2}) << where)) return;
        if (!failures.expect(beside_is_untouched(c, before) << " beside the destination" << where)) return;
      }
  }
}

TEST_P(MatmulInto, an_old_value_is_not_read_when_beta_is_0) {
  const DType dtype = GetParam();
  if (is_exact(dtype)) return;  // no NaN there
  Random random(62);
  for (Real poison : {not_a_number, infinity})
    for (std::int64_t n : {1, 16, 17, 33}) {
      const Operand a = operand(random, dtype, {n, n}, Layout::contiguous);
      const Operand b = operand(random, dtype, {n, n}, Layout::contiguous);
      const Array c = to_array(tabulate(dtype, {n, n}, [&](const Extents&) { return poison; }));
      into(Mode::jit, c, a.array, b.array, 1, 0);
      EXPECT_TRUE(agrees(c, matmul(a.values, b.values), {.terms = static_cast<Real>(n)}));
    }
}

INSTANTIATE_TEST_SUITE_P(numeric, MatmulInto,
                         testing::Values(DType::int8, DType::int32, DType::int64, DType::float16,
                                         DType::bfloat16, DType::float32, DType::float64),
                         [](const auto& info) { return std::string(stiletto::to_string(info.param)); });

// Narrow operands may go to a wider destination and the reverse: the value is cast to the destination's type.
TEST(MatmulIntoTypes, destination_of_another_type) {
  Random random(63);
  for (DType dtype : {DType::bfloat16, DType::float16, DType::float32})
    for (DType out : float_dtypes)
      for (double beta : {0.0, 1.0}) {
        const Operand a = operand(random, dtype, {5, 8}, Layout::contiguous, {-1, 1});
        const Operand b = operand(random, dtype, {8, 6}, Layout::transposed, {-1, 1});
        const Operand c = destination(random, out, {5, 6}, Layout::offset);
        Tensor expected = accumulate(c.values, matmul(a.values, b.values), 1, beta);
        into(Mode::jit, c.array, a.array, b.array, 1, beta);
        // A float64 destination of a narrower product holds the product's own precision.
        const Real factor = out == DType::float64 ? 1e9L : 3;
        EXPECT_TRUE(agrees(c.array, expected, {.terms = 9, .factor = factor}))
            << stiletto::to_string(dtype) << " into " << stiletto::to_string(out);
      }
}

TEST(MatmulIntoChain, computed_operands_and_a_second_result) {
  Random random(64);
  const Operand a = operand(random, DType::float32, {5, 8}, Layout::contiguous, {-1, 1});
  const Operand b = operand(random, DType::float32, {8, 6}, Layout::contiguous, {-1, 1});
  const Operand c = destination(random, DType::float32, {5, 6}, Layout::transposed);
  auto f = [](const Array& z, const Array& x, const Array& y) {
    stiletto::matmul_into(z, stiletto::tanh(x), y, 2, 1);
    return stiletto::sum(x, 1);
  };
  const Tensor left = map(DType::float32, {a.values}, [](const Real* v) { return std::tanh(v[0]); });
  const Tensor expected = accumulate(c.values, matmul(left, b.values), 2, 1);
  const Array sums = stiletto::jit(f, c.array, a.array, b.array);
  EXPECT_TRUE(agrees(c.array, expected, {.terms = 9, .factor = 2}));
  EXPECT_TRUE(agrees(sums, reduce(Reduction::sum, a.values, {1}, false), {.terms = 8}));
}

TEST(MatmulIntoRefused, destinations) {
  auto ones = [](const Extents& shape) { return stiletto::ones(dims(shape), DType::float32, device()); };
  auto zeros = [](const Extents& shape) { return stiletto::zeros(dims(shape), DType::float32, device()); };
  const Array a = ones({3, 4}), b = ones({4, 5});
  const Array flat = zeros({5});
  auto f = [](const Array& z, const Array& x, const Array& y) { stiletto::matmul_into(z, x, y); };
  EXPECT_THROW(stiletto::jit(f, zeros({5, 3}), a, b), stiletto::ShapeError);
  EXPECT_THROW(stiletto::jit(f, zeros({1, 3, 5}), a, b), stiletto::ShapeError);
  EXPECT_THROW(stiletto::jit(f, stiletto::broadcast_to(flat, {3, 5}), a, b), stiletto::AliasError);
  EXPECT_TRUE(equals(flat, DType::float32, {5}, {0, 0, 0, 0, 0}));
  const Array square = ones({4, 4});
  EXPECT_THROW(stiletto::jit(f, square, square, square), stiletto::AliasError);
  EXPECT_THROW(stiletto::matmul_into(square, square, b), stiletto::Error);
}

}  // namespace
