// SPDX-License-Identifier: Apache-2.0
// matmul over types, layouts of both operands, odd, size-1 and zero extents, vectors and broadcast batches;
// mixed types and float8; with computed operands before it and a chain after it.
#include <gtest/gtest.h>

#include "support/cases.hpp"

namespace {

using namespace support;

const std::vector<DType> matmul_dtypes = {DType::int8,    DType::uint8,    DType::int32,   DType::int64,
                                          DType::float16, DType::bfloat16, DType::float32, DType::float64};

const Function product = [](const std::vector<Array>& a) { return stiletto::matmul(a[0], a[1]); };

struct Shapes {
  Extents a, b;
};
const std::vector<Shapes> shape_list = {{{3, 5}, {5, 7}},
                                        {{1, 1}, {1, 1}},
                                        {{17, 33}, {33, 9}},
                                        {{1, 64}, {64, 1}},
                                        {{64, 1}, {1, 31}},
                                        {{0, 4}, {4, 3}},
                                        {{4, 0}, {0, 3}},
                                        {{3, 4}, {4, 0}},
                                        {{5}, {5}},
                                        {{5}, {5, 7}},
                                        {{3, 5}, {5}},
                                        {{1}, {1, 1}},
                                        {{0}, {0}},
                                        {{2, 3, 5}, {2, 5, 4}},
                                        {{3, 2, 5}, {5, 5}},
                                        {{4, 3, 6}, {6, 4}},
                                        {{2, 3, 5}, {5, 4}},
                                        {{3, 5}, {2, 5, 4}},
                                        {{5}, {2, 5, 4}},
                                        {{2, 3, 5}, {5}},
                                        {{2, 1, 3, 5}, {4, 5, 2}},
                                        {{1, 3, 3, 5}, {2, 1, 5, 2}},
                                        {{0, 3, 5}, {0, 5, 4}},
                                        {{2, 1, 2, 1, 2, 1, 3, 2}, {1, 2, 1, 2, 1, 2, 2, 3}}};

Real depth_of(const Shapes& shapes) { return std::fmax(static_cast<Real>(shapes.a.back()), 1); }

testing::AssertionResult check_product(Random& random, DType a, DType b, const Shapes& shapes, Layout la,
                                       Layout lb, Mode mode) {
  const Operand x = operand(random, a, shapes.a, la, {-9, 9}), y = operand(random, b, shapes.b, lb, {-9, 9});
  const std::string where = std::string("\n  in ") + stiletto::to_string(a) + describe(shapes.a) + " " +
                            to_string(la) + " by " + stiletto::to_string(b) + describe(shapes.b) + " " +
                            to_string(lb) + ", " + to_string(mode);
  try {
    return agrees(run(product, {x.array, y.array}, mode), matmul(x.values, y.values),
                  {.terms = depth_of(shapes)})
           << where;
  } catch (const std::exception& error) {
    return testing::AssertionFailure() << "threw: " << error.what() << where;
  }
}

class Matmul : public testing::TestWithParam<DType> {};

TEST_P(Matmul, every_shape_and_layout) {
  Failures failures;
  Random random(41);
  int number = 0;
  for (const Shapes& shapes : shape_list)
    for (Layout la : layouts)
      for (Layout lb : layouts) {
        ++number;
        const Mode mode = number % 7 == 0 ? Mode::eager : number % 5 == 0 ? Mode::compiled : Mode::jit;
        if (!failures.expect(check_product(random, GetParam(), GetParam(), shapes, la, lb, mode))) return;
      }
}

TEST_P(Matmul, larger_than_a_block) {
  Random random(42);
  for (const Shapes& shapes :
       {Shapes{{130, 257}, {257, 66}}, Shapes{{1, 700}, {700, 65}}, Shapes{{3, 40, 70}, {70, 33}}})
    for (Layout layout : {Layout::contiguous, Layout::transposed, Layout::offset, Layout::reversed}) {
      EXPECT_TRUE(
          check_product(random, GetParam(), GetParam(), shapes, layout, Layout::contiguous, Mode::jit));
      EXPECT_TRUE(
          check_product(random, GetParam(), GetParam(), shapes, Layout::contiguous, layout, Mode::jit));
    }
}

TEST_P(Matmul, with_every_other_type) {
  Failures failures;
  Random random(43);
  for (DType other : matmul_dtypes)
    for (Layout layout : {Layout::contiguous, Layout::transposed, Layout::stepped})
      if (!failures.expect(
              check_product(random, GetParam(), other, {{2, 5, 9}, {9, 4}}, layout, layout, Mode::jit)))
        return;
}

INSTANTIATE_TEST_SUITE_P(numeric, Matmul, testing::ValuesIn(matmul_dtypes),
                         [](const auto& info) { return std::string(stiletto::to_string(info.param)); });

TEST(MatmulFloat8, gives_float32) {
  Random random(44);
  Failures failures;
  for (DType a : {DType::float8_e4m3, DType::float8_e5m2})
    for (DType b : {DType::float8_e4m3, DType::float8_e5m2})
      for (const Shapes& shapes :
           {Shapes{{5, 33}, {33, 7}}, Shapes{{2, 3, 8}, {8, 4}}, Shapes{{4, 0}, {0, 2}}})
        for (Layout layout : {Layout::contiguous, Layout::transposed, Layout::offset})
          failures.expect(check_product(random, a, b, shapes, layout, layout, Mode::jit));
}

TEST(MatmulIntegers, accumulate_exactly) {
  Random random(45);
  for (DType dtype : {DType::int8, DType::uint8, DType::int32, DType::int64}) {
    const Operand a = operand(random, dtype, {9, 301}, Layout::contiguous, {-2e9L, 2e9L});
    const Operand b = operand(random, dtype, {301, 5}, Layout::transposed, {-2e9L, 2e9L});
    EXPECT_TRUE(agrees(run(product, {a.array, b.array}, Mode::jit), matmul(a.values, b.values)))
        << stiletto::to_string(dtype);
  }
  const Operand a = operand(random, DType::int8, {5, 70}, Layout::contiguous, {-128, 127});
  const Operand b = operand(random, DType::uint8, {70, 6}, Layout::contiguous, {0, 255});
  EXPECT_TRUE(agrees(run(product, {a.array, b.array}, Mode::jit), matmul(a.values, b.values)));
  EXPECT_TRUE(agrees(run(product, {stiletto::transpose(b.array), stiletto::transpose(a.array)}, Mode::jit),
                     matmul(transposed(b.values), transposed(a.values))));
}

TEST(MatmulSpecials, nan_and_infinity_stay_in_their_row) {
  for (DType dtype : float_dtypes) {
    Tensor a(dtype, {3, 4}, {1, 2, 3, 4, 1, not_a_number, 3, 4, 1, infinity, 3, 4});
    Tensor b(dtype, {4, 2}, {1, 2, 1, -1, 1, 2, 1, 2});
    EXPECT_TRUE(agrees(run(product, {to_array(a), to_array(b)}, Mode::jit), matmul(a, b)))
        << stiletto::to_string(dtype);
  }
}

TEST(MatmulFused, bias_and_activation) {
  Random random(46);
  for (DType dtype : {DType::float32, DType::bfloat16, DType::float16, DType::float64})
    for (Layout layout : {Layout::contiguous, Layout::transposed, Layout::offset})
      for (const char* name :
           {"gelu", "gelu_tanh", "relu", "tanh", "sigmoid", "silu", "elu", "clipped_relu", "exp"}) {
        const Operand x = operand(random, dtype, {9, 17}, layout, {-1, 1});
        const Operand w = operand(random, dtype, {17, 13}, layout, {-1, 1});
        const Operand bias = operand(random, dtype, {13}, Layout::contiguous, {-1, 1});
        const Operation& activation = operation(name);
        const Function layer = [&](const std::vector<Array>& a) {
          return activation.call({stiletto::matmul(a[0], a[1]) + a[2]});
        };
        const Tensor sum =
            map(dtype, {matmul(x.values, w.values), bias.values}, [](const Real* v) { return v[0] + v[1]; });
        EXPECT_TRUE(agrees(run(layer, {x.array, w.array, bias.array}, Mode::jit), activation.reference({sum}),
                           {.terms = 17, .factor = 2}))
            << name << " " << stiletto::to_string(dtype) << " " << to_string(layout);
      }
}

TEST(MatmulFused, scalar_column_and_full_epilogues) {
  Random random(47);
  for (DType dtype : {DType::float32, DType::bfloat16, DType::float64}) {
    const Operand x = operand(random, dtype, {2, 6, 8}, Layout::contiguous, {-1, 1});
    const Operand w = operand(random, dtype, {8, 5}, Layout::contiguous, {-1, 1});
    const Operand column = operand(random, dtype, {6, 1}, Layout::contiguous);
    const Operand full = operand(random, dtype, {2, 6, 5}, Layout::transposed);
    const Function f = [](const std::vector<Array>& a) {
      return stiletto::maximum(stiletto::matmul(a[0], a[1]) * 0.5F - a[2], a[3]) + a[3] * 2;
    };
    const DType wide = promote_constant(dtype, Constant::real);
    const Tensor expected =
        map(wide, {matmul(x.values, w.values), column.values, full.values},
            [](const Real* v) { return scalar::maximum(v[0] / 2 - v[1], v[2]) + v[2] * 2; });
    EXPECT_TRUE(agrees(run(f, {x.array, w.array, column.array, full.array}, Mode::jit), expected,
                       {.terms = 8, .factor = 2}))
        << stiletto::to_string(dtype);
  }
}

// What is added or multiplied behind a product, over every shape and layout class of the product itself.
class MatmulBehind : public testing::TestWithParam<DType> {};

TEST_P(MatmulBehind, one_operand_behind_every_shape_and_layout) {
  const DType dtype = GetParam();
  Random random(51);
  Failures failures;
  for (const Shapes& shapes : shape_list)
    for (Layout layout : layouts)
      for (const char* name : {"add", "multiply", "maximum"})
        for (int kind = 0; kind < 6; ++kind) {
          const Operand x = operand(random, dtype, shapes.a, layout, {-2, 2});
          const Operand w = operand(random, dtype, shapes.b, kind < 3 ? Layout::contiguous : layout, {-2, 2});
          const Tensor product = matmul(x.values, w.values);
          Extents shape = product.shape;  // the whole shape, a row, or one element
          if (kind % 3 == 1 && !shape.empty()) shape = {shape.back()};
          if (kind % 3 == 2) shape.assign(shape.size(), 1);
          const Operand extra = operand(random, dtype, shape, Layout::contiguous, {-2, 2});
          const Operation& behind = operation(name);
          const Function f = [&](const std::vector<Array>& a) {
            return behind.call({stiletto::matmul(a[0], a[1]), a[2]});
          };
          testing::AssertionResult result = testing::AssertionSuccess();
          try {
            result = agrees(run(f, {x.array, w.array, extra.array}, Mode::jit),
                            behind.reference({product, cast_to(extra.values, product.dtype)}),
                            {.terms = depth_of(shapes), .factor = 2});
          } catch (const std::exception& error) {
            result = testing::AssertionFailure() << "threw: " << error.what();
          }
          if (!failures.expect(result << "\n  in " << name << describe(shapes.a) << describe(shapes.b) << " "
                                      << to_string(layout) << " with " << describe(shape)))
            return;
        }
}

INSTANTIATE_TEST_SUITE_P(numeric, MatmulBehind,
                         testing::Values(DType::float16, DType::bfloat16, DType::float32, DType::float64,
                                         DType::int8, DType::int32),
                         [](const auto& info) { return std::string(stiletto::to_string(info.param)); });

// A computed operand is rounded to its own type before the product.
TEST(MatmulFused, computed_operands) {
  Random random(48);
  for (DType dtype : {DType::float32, DType::bfloat16, DType::float16, DType::float64}) {
    const Operand x = operand(random, dtype, {7, 9}, Layout::offset, {-1, 1});
    const Operand w = operand(random, dtype, {9, 5}, Layout::transposed, {-1, 1});
    const Function f = [](const std::vector<Array>& a) {
      return stiletto::relu(stiletto::matmul(stiletto::tanh(a[0]) + a[0], stiletto::abs(a[1]))) - 1;
    };
    const Tensor left = map(dtype, {x.values}, [](const Real* v) { return std::tanh(v[0]) + v[0]; });
    const Tensor right = map(dtype, {w.values}, [](const Real* v) { return std::fabs(v[0]); });
    const Tensor expected = map(dtype, {matmul(cast_to(left, dtype), right)},
                                [](const Real* v) { return scalar::maximum(v[0], 0) - 1; });
    EXPECT_TRUE(agrees(run(f, {x.array, w.array}, Mode::jit), expected, {.terms = 9, .factor = 2}))
        << stiletto::to_string(dtype);
  }
}

TEST(MatmulFused, a_reduction_of_a_product) {
  Random random(49);
  const Operand x = operand(random, DType::float32, {7, 9}, Layout::contiguous);
  const Operand w = operand(random, DType::float32, {9, 5}, Layout::contiguous);
  const Function f = [](const std::vector<Array>& a) {
    return stiletto::softmax(stiletto::matmul(a[0], a[1]), 1);
  };
  EXPECT_TRUE(agrees(run(f, {x.array, w.array}, Mode::jit), softmax(matmul(x.values, w.values), 1),
                     {.terms = 9, .factor = 8}));
}

TEST(MatmulFused, one_array_as_both_operands) {
  Random random(50);
  const Operand x = operand(random, DType::float32, {7, 7}, Layout::contiguous);
  auto squared = [](const Array& a) { return stiletto::matmul(a, a); };
  EXPECT_TRUE(agrees(stiletto::jit(squared, x.array), matmul(x.values, x.values), {.terms = 7}));
  auto gram = [](const Array& a) { return stiletto::matmul(stiletto::transpose(a), a); };
  EXPECT_TRUE(agrees(stiletto::jit(gram, x.array), matmul(transposed(x.values), x.values), {.terms = 7}));
}

TEST(MatmulRefused, shapes) {
  auto f = [](const Array& a, const Array& b) { return stiletto::matmul(a, b); };
  for (const Shapes& shapes : {Shapes{{2, 3}, {4, 2}}, Shapes{{3}, {4}}, Shapes{{}, {2, 2}},
                               Shapes{{2, 2}, {}}, Shapes{{2, 2, 3}, {3, 3, 2}}, Shapes{{2, 3}, {2, 3}}}) {
    const Array a = stiletto::ones(dims(shapes.a), DType::float32, device());
    const Array b = stiletto::ones(dims(shapes.b), DType::float32, device());
    EXPECT_THROW(stiletto::jit(f, a, b), stiletto::ShapeError) << describe(shapes.a) << describe(shapes.b);
    EXPECT_THROW(f(a, b), stiletto::ShapeError);
  }
}

}  // namespace
