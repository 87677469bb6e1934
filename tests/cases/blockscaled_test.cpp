// SPDX-License-Identifier: Apache-2.0
// Public fault reports about block-scaled types: where the scales of a batch lie, and how scales are rounded.
#include <gtest/gtest.h>

#include "support/block_trial.hpp"
#include "support/operations.hpp"

namespace {

using namespace support;
using stiletto::dequantize;
using stiletto::quantize;

constexpr BlockFormat mxfp8 = BlockFormat::mxfp8_e4m3;

/// Ones, under scales of 1 in the first matrix of two and of 8 in the second.
Blocks ones_under_two_scales(const Extents& shape, int axis) {
  Blocks blocks = blocks_of(block_kinds[0], shape, axis);
  for (auto& code : blocks.codes) code = 0x38;
  for (std::size_t i = 0; i < blocks.scales.size(); ++i)
    blocks.scales[i] = i < blocks.scales.size() / 2 ? 127 : 130;
  return blocks;
}

// The scales' batch stride has n in it, not m.
TEST(PublicCases, case_27) {
  const BlockscaledArray a = to_blockscaled(ones_under_two_scales({2, 128, 128}, -1)),
                         b = to_blockscaled(ones_under_two_scales({2, 128, 256}, -2));
  ASSERT_EQ(b.scale_at({1, 3, 255}), 8);
  const auto f = [](const BlockscaledArray& x, const BlockscaledArray& y) { return stiletto::matmul(x, y); };
  const Tensor expected = tabulate(DType::float32, {2, 128, 256},
                                   [](const Extents& i) { return i[0] == 0 ? Real{128} : Real{8192}; });
  EXPECT_TRUE(agrees(stiletto::jit(f, a, b), expected, {.exact = true}));
  EXPECT_TRUE(agrees(stiletto::compile(f, a, b)(a, b), expected, {.exact = true}));
  EXPECT_TRUE(agrees(f(a, b), expected, {.exact = true}));
}

// A scale is rounded up, so that the largest element does not saturate: 957 becomes 960, not 896.
TEST(PublicCases, case_138) {
  Tensor x(DType::float32, {1, 32});
  for (std::size_t i = 0; i < 32; ++i) x.values[i] = static_cast<Real>(i);
  x.values[5] = 957;
  for (const Real largest : {Real{957}, Real{-960}}) {
    x.values[9] = largest;
    const BlockscaledArray q = quantize(to_array(x), mxfp8, -1);
    EXPECT_EQ(q.scale_at({0, 0}), 4);
    EXPECT_EQ(read(dequantize(q)).values[5], 960);
    const auto f = [](const Array& v) { return dequantize(quantize(v, mxfp8, -1)); };
    EXPECT_EQ(read(stiletto::jit(f, to_array(x))).values[5], 960);
  }
}

// The largest magnitude is taken in float32: in bfloat16 448.5 would be 448, and the scale 1.
TEST(PublicCases, case_140) {
  const Tensor x = tabulate(DType::float32, {1, 32}, [](const Extents& i) { return i[1] == 3 ? 448.5L : 1; });
  const BlockscaledArray q = quantize(to_array(x), mxfp8, -1);
  EXPECT_EQ(q.scale_at({0, 0}), 2);
  const auto f = [](const Array& v) { return quantize(v * 1.0F, mxfp8, -1); };
  EXPECT_EQ(stiletto::jit(f, to_array(x)).scale_at({0, 0}), 2);
  // So it is behind a product of bfloat16, whose sum is 448.5.
  const Tensor left = tabulate(DType::bfloat16, {1, 2}, [](const Extents&) { return 1; }),
               right = tabulate(DType::bfloat16, {2, 32},
                                [](const Extents& i) { return i[0] == 0 ? 448 : 0.5L; });
  const auto product = [](const Array& a, const Array& b) {
    return quantize(stiletto::matmul(a, b), mxfp8, -1);
  };
  EXPECT_EQ(stiletto::jit(product, to_array(left), to_array(right)).scale_at({0, 0}), 2);
}

}  // namespace
