// SPDX-License-Identifier: Apache-2.0
// Memory order of fresh outputs: elementwise operations take the axis order that all operands of the full
// shape share, else row-major; products and reductions are row-major; outputs have no gaps and positive
// strides.
#include <gtest/gtest.h>

#include "support/cases.hpp"

namespace {

using namespace support;
using stiletto::Dims;

Array made(const Extents& shape, Layout layout) {
  Random random(101);
  return operand(random, DType::float32, shape, layout).array;
}

const Extents shape = {3, 4, 5};
const Dims rows = {20, 5, 1}, columns = {1, 3, 12}, last = {20, 1, 4};

template <class F>
Dims strides_of(F f, const Array& x) {
  const Array y = stiletto::jit(f, x);
  EXPECT_EQ(stiletto::compile(f, x)(x).strides(), y.strides());
  EXPECT_EQ(f(x).strides(), y.strides());
  return y.strides();
}

TEST(MemoryOrder, of_one_operand) {
  auto f = [](const Array& a) { return stiletto::exp(a); };
  EXPECT_EQ(strides_of(f, made(shape, Layout::contiguous)), rows);
  EXPECT_EQ(strides_of(f, made(shape, Layout::transposed)), columns);
  EXPECT_EQ(strides_of(f, made(shape, Layout::channels_last)), last);
  EXPECT_EQ(strides_of(f, made(shape, Layout::offset)), rows);
  EXPECT_EQ(strides_of(f, made(shape, Layout::stepped)), rows);
  EXPECT_EQ(strides_of(f, made(shape, Layout::reversed)), rows);
}

TEST(MemoryOrder, is_shared_or_row_major) {
  const Array c = made(shape, Layout::contiguous), t = made(shape, Layout::transposed),
              l = made(shape, Layout::channels_last);
  auto add = [](const Array& a, const Array& b) { return a + b; };
  EXPECT_EQ(stiletto::jit(add, t, t).strides(), columns);
  EXPECT_EQ(stiletto::jit(add, l, l).strides(), last);
  EXPECT_EQ(stiletto::jit(add, t, c).strides(), rows);
  EXPECT_EQ(stiletto::jit(add, c, l).strides(), rows);
  EXPECT_EQ(stiletto::jit(add, t, l).strides(), rows);
}

TEST(MemoryOrder, operands_that_broadcast_have_no_say) {
  const Array t = made(shape, Layout::transposed), l = made(shape, Layout::channels_last);
  const Array row = made({5}, Layout::contiguous), channel = made({4, 1}, Layout::contiguous);
  auto add = [](const Array& a, const Array& b) { return a + b; };
  EXPECT_EQ(stiletto::jit(add, t, row).strides(), columns);
  EXPECT_EQ(stiletto::jit(add, channel, l).strides(), last);
  EXPECT_EQ(stiletto::jit([](const Array& a) { return 2 * a + 1; }, l).strides(), last);
  EXPECT_EQ(
      stiletto::jit(add, made({3, 1, 1}, Layout::contiguous), made({4, 5}, Layout::transposed)).strides(),
      rows);
}

TEST(MemoryOrder, goes_through_chains) {
  const Array l = made(shape, Layout::channels_last);
  auto chain = [](const Array& a) { return stiletto::relu(a * 2 + stiletto::mean(a, 1, true)) - a; };
  EXPECT_EQ(strides_of(chain, l), last);
  auto casts = [](const Array& a) { return stiletto::cast(a > 0, DType::int32); };
  EXPECT_EQ(strides_of(casts, l), last);
}

TEST(MemoryOrder, of_reductions_and_products_is_row_major) {
  for (Layout layout : {Layout::contiguous, Layout::transposed, Layout::channels_last}) {
    const Array x = made(shape, layout);
    EXPECT_EQ(strides_of([](const Array& a) { return stiletto::sum(a, 0); }, x), Dims({5, 1}));
    EXPECT_TRUE(strides_of([](const Array& a) { return stiletto::max(a, 1, true); }, x).size() == 3);
    EXPECT_TRUE(stiletto::jit([](const Array& a) { return stiletto::max(a, 1, true); }, x).is_contiguous());
    EXPECT_TRUE(stiletto::jit(
                    [](const Array& a) { return stiletto::matmul(a, stiletto::transpose(a, {0, 2, 1})); }, x)
                    .is_contiguous());
  }
}

TEST(MemoryOrder, extents_of_1_do_not_matter) {
  const Array base = made({64}, Layout::contiguous);
  const Array x = stiletto::as_strided(base, {1, 4, 1, 5}, {99 % 7, 5, 0, 1});
  const Array y = stiletto::jit([](const Array& a) { return a + 1; }, x);
  EXPECT_TRUE(y.is_contiguous());
}

TEST(MemoryOrder, copies_are_contiguous) {
  for (Layout layout : layouts) {
    Random random(102);
    const Operand x = operand(random, DType::float16, shape, layout);
    const Array y = x.array.copy();
    EXPECT_TRUE(y.is_contiguous());
    EXPECT_NE(y.raw_data(), x.array.raw_data());
    EXPECT_TRUE(agrees(y, x.values, {.exact = true})) << to_string(layout);
    EXPECT_TRUE(
        agrees(stiletto::jit([](const Array& a) { return a.copy(); }, x.array), x.values, {.exact = true}));
  }
}

TEST(MemoryOrder, outputs_of_rank_8) {
  const Extents eight = {2, 1, 2, 3, 1, 2, 1, 3};
  const Array x = made(eight, Layout::transposed);
  const Array y = stiletto::jit([](const Array& a) { return a * 2; }, x);
  // The strides of extents of 1 mean nothing; the others are those of the reversed order.
  for (int axis = 0; axis < 8; ++axis)
    if (y.dim(axis) != 1) {
      EXPECT_EQ(y.strides()[axis], x.strides()[axis]);
    }
}

}  // namespace
