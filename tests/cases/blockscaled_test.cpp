// SPDX-License-Identifier: Apache-2.0
// Public fault reports about block scaling: batch strides of scales, and how scales are rounded. Of GPUs only
// Blackwell computes it, so these run on the CPU; tests/plans has the plans.
#include <gtest/gtest.h>

#include <vector>

#include "stiletto/stiletto.hpp"

namespace {

using stiletto::Array;
using stiletto::BlockFormat;
using stiletto::BlockscaledArray;
using stiletto::DType;

/// Elements of 1 whose scales are 2^0 in the first batch entry and 2^3 in the second.
BlockscaledArray ones_by_batch(std::int64_t rows, std::int64_t columns, int axis) {
  const Array elements = stiletto::cast(stiletto::ones({2, rows, columns}), DType::float8_e4m3);
  const std::int64_t lines = axis == -1 ? rows : columns, blocks = (axis == -1 ? columns : rows) / 32;
  std::vector<std::uint8_t> codes(static_cast<std::size_t>(2 * lines * blocks), 127);
  std::fill(codes.begin() + static_cast<std::ptrdiff_t>(codes.size() / 2), codes.end(), std::uint8_t{130});
  const stiletto::Shape plain =
      axis == -1 ? stiletto::Shape{2, lines, blocks} : stiletto::Shape{2, blocks, lines};
  return BlockscaledArray::from_plain_parts(elements, stiletto::from_data<std::uint8_t>(codes, plain),
                                            {2, rows, columns}, BlockFormat::mxfp8_e4m3, axis);
}

TEST(PublicCases, case_27) {
  const BlockscaledArray a = ones_by_batch(128, 128, -1), b = ones_by_batch(128, 256, -2);
  const auto f = [](const BlockscaledArray& x, const BlockscaledArray& y) { return stiletto::matmul(x, y); };
  for (const Array& made : {f(a, b), stiletto::jit(f, a, b), stiletto::compile(f, a, b)(a, b)}) {
    const auto values = made.to_vector<float>();
    ASSERT_EQ(values.size(), 2U * 128 * 256);
    for (std::size_t i = 0; i < values.size(); ++i)
      ASSERT_EQ(values[i], i < values.size() / 2 ? 128 : 8192) << i;
  }
}

TEST(PublicCases, case_138) {
  std::vector<float> block(32, 1);
  block[3] = 960;
  block[17] = -957;
  const BlockscaledArray made =
      stiletto::quantize(stiletto::from_data<float>(block, {1, 32}), BlockFormat::mxfp8_e4m3, -1);
  EXPECT_EQ(made.scale_at({0, 0}), 4);
  const auto values = stiletto::dequantize(made).to_vector<float>();
  EXPECT_EQ(values[3], 960);
  EXPECT_EQ(values[17], -960);
  EXPECT_EQ(values[0], 1);
}

TEST(PublicCases, case_140) {
  for (const DType dtype : {DType::float32, DType::float64}) {
    const Array block = stiletto::full({1, 32}, 448.5, dtype);
    EXPECT_EQ(stiletto::quantize(block, BlockFormat::mxfp8_e4m3, -1).scale_at({0, 0}), 2);
  }
  // bfloat16 has no 448.5; 448 needs no larger scale.
  const Array rounded = stiletto::full({1, 32}, 448, DType::bfloat16);
  EXPECT_EQ(stiletto::quantize(rounded, BlockFormat::mxfp8_e4m3, -1).scale_at({0, 0}), 1);
}

}  // namespace
