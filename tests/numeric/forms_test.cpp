// SPDX-License-Identifier: Apache-2.0
// Graphs whose parts want different forms of a cuDNN graph: sums beside what they sum, results over different
// axes or of different types. Found by interpreting what the lowering makes of random graphs
// (STILETTO_TEST_DEVICE=interpreted).
#include <gtest/gtest.h>

#include <tuple>

#include "support/cases.hpp"

namespace {

using namespace support;

Array whole_numbers(DType dtype, const Extents& shape) {
  Random random(17);
  return to_array(tabulate(dtype, shape, [&](const Extents&) { return Real(random.below(9) - 4); }));
}

Tensor shifted(const Tensor& x, Real by) {
  Tensor y = x;
  y.dtype = DType::float32;
  for (Real& value : y.values) value += by;
  return y;
}

Real total(const Tensor& x) {
  Real sum = 0;
  for (const Real value : x.values) sum += value;
  return sum;
}

/// The axis is cut in two for the sum, and what is beside it needs it whole.
TEST(Forms, a_sum_beside_its_terms) {
  for (const std::int64_t size : {4, 64, 196, 4096}) {
    const Array x = whole_numbers(DType::float16, {size});
    const auto [sum, more] =
        stiletto::jit([](const Array& a) { return std::tuple(stiletto::sum(a), a + 1.0F); }, x);
    EXPECT_TRUE(equals(sum, DType::float32, {}, {total(read(x))})) << size;
    EXPECT_TRUE(agrees(more, shifted(read(x), 1))) << size;
    const Array rest = stiletto::jit([](const Array& a) { return a - stiletto::sum(a); }, x);
    EXPECT_TRUE(agrees(rest, shifted(read(x), -total(read(x))))) << size;
  }
}

TEST(Forms, sums_of_two_vectors) {
  const Array x = whole_numbers(DType::bfloat16, {16}), y = whole_numbers(DType::bfloat16, {16});
  const auto [a, b] = stiletto::jit(
      [](const Array& p, const Array& q) { return std::tuple(stiletto::sum(p), stiletto::sum(q)); }, x, y);
  EXPECT_TRUE(equals(a, DType::float32, {}, {total(read(x))}));
  EXPECT_TRUE(equals(b, DType::float32, {}, {total(read(y))}));
}

TEST(Forms, softmax_of_a_value_that_repeats) {
  const Array x = whole_numbers(DType::float32, {1}), y = whole_numbers(DType::float32, {5});
  const Array z = stiletto::jit(
      [](const Array& a, const Array& b) { return stiletto::softmax(stiletto::broadcast_to(a, {5})) * b; }, x,
      y);
  Tensor expected = read(y);
  for (Real& value : expected.values) value /= 5;
  EXPECT_TRUE(agrees(z, expected));
}

/// The narrower result must not narrow the wider one.
TEST(Forms, one_value_in_two_types) {
  const Array x = to_array(Tensor(DType::float32, {3}, {0.125L, 3.001953125L, -1.25L}));
  const Array wide = stiletto::zeros({3}, DType::float32, device());
  const Array narrow = stiletto::jit(
      stiletto::CompileOptions{.io_dtype = DType::bfloat16},
      [](const Array& a, const Array& d) {
        const Array b = a + 1;
        stiletto::assign(d, b);
        return b;
      },
      x, wide);
  EXPECT_EQ(narrow.dtype(), DType::bfloat16);
  EXPECT_TRUE(agrees(wide, shifted(read(x), 1)));
}

/// Four axes, none of which merge.
TEST(Forms, results_over_different_axes) {
  Random random(18);
  const Operand x = operand(random, DType::float32, {2, 5, 7}, Layout::stepped);
  const Array y = whole_numbers(DType::float32, {6});
  const auto [a, b] =
      stiletto::jit([](const Array& p, const Array& q) { return std::tuple(p + 1, q + 2); }, x.array, y);
  EXPECT_TRUE(agrees(a, shifted(x.values, 1)));
  EXPECT_TRUE(agrees(b, shifted(read(y), 2)));
}

}  // namespace
