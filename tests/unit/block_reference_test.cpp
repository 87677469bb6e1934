// SPDX-License-Identifier: Apache-2.0
// The reference for block scaling against cases worked by hand.
#include "support/block_reference.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>
#include <vector>

namespace {

using block_reference::Block;
using block_reference::Format;
using block_reference::mxfp4;
using block_reference::mxfp8_e4m3;
using block_reference::mxfp8_e5m2;
using block_reference::nvfp4;
using Floats = std::vector<float>;
using Doubles = std::vector<double>;
using Codes = std::vector<std::uint8_t>;

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float largest = std::numeric_limits<float>::max();
constexpr float smallest = std::numeric_limits<float>::denorm_min();

Block quantized(const Floats& x, const Format& format) {
  return block_reference::quantize_block(std::span<const float>(x), format);
}
Doubles read_back(const Floats& x, const Format& format) {
  return block_reference::dequantize_block(quantized(x, format), format);
}
int scale_of(float magnitude, const Format& format) { return quantized({magnitude}, format).scale; }

TEST(BlockReference, e8m0_scales_are_rounded_up) {
  EXPECT_EQ(scale_of(448, mxfp8_e4m3), 127);
  EXPECT_EQ(scale_of(std::nextafter(448.0f, infinity), mxfp8_e4m3), 128);
  EXPECT_EQ(scale_of(std::nextafter(448.0f, 0.0f), mxfp8_e4m3), 127);
  EXPECT_EQ(scale_of(224, mxfp8_e4m3), 126);
  EXPECT_EQ(scale_of(957, mxfp8_e4m3), 129);
  EXPECT_EQ(scale_of(57344, mxfp8_e5m2), 127);
  EXPECT_EQ(scale_of(1, mxfp8_e5m2), 112);  // 57344 / 2^15 = 1.75
  EXPECT_EQ(scale_of(6, mxfp4), 127);
  EXPECT_EQ(scale_of(-7, mxfp4), 128);
}

TEST(BlockReference, a_maximum_of_957_reads_back_as_960) {
  const Block block = quantized({957, -480, 1, 0.007f, 0.001f}, mxfp8_e4m3);
  EXPECT_EQ(block.scale, 129);
  EXPECT_EQ(block.codes, (Codes{0x77, 0xEF, 0x28, 0x01, 0x00}));  // 240, −120, 1/4, 2^−9, 0
  EXPECT_EQ(block_reference::dequantize_block(block, mxfp8_e4m3), (Doubles{960, -480, 1, 0x1p-7, 0}));
}

TEST(BlockReference, elements_are_rounded_to_even) {
  EXPECT_EQ(read_back({448, 17, 19, -27}, mxfp8_e4m3), (Doubles{448, 16, 20, -28}));
  EXPECT_EQ(read_back({57344, 9, 11, -13}, mxfp8_e5m2), (Doubles{57344, 8, 12, -12}));
  EXPECT_EQ(read_back({6, 0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, -5}, mxfp4),
            (Doubles{6, 0, 1, 1, 2, 2, 4, -4}));
  EXPECT_EQ(quantized({7}, mxfp4).codes, Codes{0x06});  // 7 / 2 lies between 3 and 4
}

TEST(BlockReference, nvfp4_scales_are_rounded_to_nearest) {
  EXPECT_EQ(scale_of(6, nvfp4), 0x38);
  EXPECT_EQ(read_back({10, 2.4f}, nvfp4), (Doubles{9.75, 2.4375}));      // 10 / 6 to 1.625: 10 saturates
  EXPECT_EQ(read_back({10.5f, -2.4f}, nvfp4), (Doubles{10.5, -2.625}));  // 1.75
  EXPECT_EQ(scale_of(6 * 1.0625f, nvfp4), 0x38);                         // a tie
  EXPECT_EQ(scale_of(std::nextafter(6 * 1.0625f, infinity), nvfp4), 0x39);
  EXPECT_EQ(scale_of(2688, nvfp4), 0x7E);
  EXPECT_EQ(read_back({1e6f, -3000, 448}, nvfp4), (Doubles{2688, -2688, 448}));
}

TEST(BlockReference, an_nvfp4_scale_that_rounds_to_0_makes_zeros) {
  const float tie = 6 * 0x1p-10f;
  for (const float magnitude : {tie, 0.005f, smallest, 0.0f}) {
    const Block block = quantized({magnitude, -magnitude}, nvfp4);
    EXPECT_EQ(block.scale, 0) << magnitude;
    EXPECT_EQ(block.codes, (Codes{0x00, 0x08})) << magnitude;
  }
  EXPECT_EQ(read_back({std::nextafter(tie, 1.0f), -0x1p-9f}, nvfp4), (Doubles{3 * 0x1p-9, -0x1p-9}));
}

TEST(BlockReference, zeros_have_a_finite_scale) {
  for (const Format& format : {mxfp8_e4m3, mxfp8_e5m2, mxfp4, nvfp4}) {
    const Block block = quantized({0.0f, -0.0f}, format);
    EXPECT_EQ(block.scale, 0);
    const Doubles x = block_reference::dequantize_block(block, format);
    EXPECT_EQ(x, (Doubles{0, 0}));
    EXPECT_FALSE(std::signbit(x[0]));
    EXPECT_TRUE(std::signbit(x[1]));
  }
}

TEST(BlockReference, the_bottom_of_float32) {
  EXPECT_EQ(read_back({0x1p-126f, smallest}, mxfp8_e4m3), (Doubles{0x1p-126, 0}));
  EXPECT_EQ(scale_of(448 * 0x1p-127f, mxfp8_e4m3), 0);
  EXPECT_EQ(scale_of(449 * 0x1p-127f, mxfp8_e4m3), 1);
  EXPECT_EQ(read_back({0x1p-136f, 0x1p-137f, 0x1.8p-137f}, mxfp8_e4m3), (Doubles{0x1p-136, 0, 0x1p-136}));
  EXPECT_EQ(read_back({0x1p-143f, 0x1p-144f}, mxfp8_e5m2), (Doubles{0x1p-143, 0}));
  EXPECT_EQ(read_back({-0x1p-128f, 0x1p-129f}, mxfp4), (Doubles{-0x1p-128, 0}));
}

TEST(BlockReference, the_top_of_float32) {
  EXPECT_EQ(scale_of(largest, mxfp8_e4m3), 127 + 120);
  EXPECT_EQ(scale_of(largest, mxfp8_e5m2), 127 + 113);
  EXPECT_EQ(scale_of(largest, mxfp4), 127 + 126);
  EXPECT_EQ(read_back({largest, 0x1.Ep127f, -0x1.Dp127f}, mxfp8_e4m3),
            (Doubles{0x1p128, 0x1.Ep127, -0x1.Cp127}));
}

TEST(BlockReference, infinities_take_the_largest_scale) {
  EXPECT_EQ(quantized({infinity, -infinity, 0x1p127f, 1}, mxfp8_e4m3).codes, (Codes{0x7E, 0xFE, 0x38, 0x00}));
  EXPECT_EQ(quantized({infinity, -infinity, 0x1p127f, 1}, mxfp8_e5m2).codes, (Codes{0x7B, 0xFB, 0x3C, 0x00}));
  EXPECT_EQ(quantized({infinity, -infinity, 0x1p127f, 1}, mxfp4).codes, (Codes{0x07, 0x0F, 0x02, 0x00}));
  for (const Format& format : {mxfp8_e4m3, mxfp8_e5m2, mxfp4}) {
    EXPECT_EQ(scale_of(-infinity, format), 0xFE);
    EXPECT_GT(read_back({infinity}, format)[0], largest);
  }
  EXPECT_EQ(read_back({-infinity, 448}, nvfp4), (Doubles{-2688, 448}));
}

TEST(BlockReference, nan_reaches_the_whole_block) {
  for (const Format& format : {mxfp8_e4m3, mxfp8_e5m2, mxfp4, nvfp4}) {
    const Floats x = {1, infinity, -std::numeric_limits<float>::quiet_NaN(), 0};
    EXPECT_EQ(quantized(x, format).scale, format.size == 32 ? 0xFF : 0x7F);
    for (const double value : read_back(x, format)) EXPECT_TRUE(std::isnan(value));
  }
}

TEST(BlockReference, order_of_scales) {
  using block_reference::scale_offset;
  EXPECT_EQ(scale_offset(0, 0, 4), 0);
  EXPECT_EQ(scale_offset(0, 3, 4), 3);
  EXPECT_EQ(scale_offset(1, 0, 4), 16);
  EXPECT_EQ(scale_offset(32, 0, 4), 4);
  EXPECT_EQ(scale_offset(97, 2, 4), 30);
  EXPECT_EQ(scale_offset(127, 3, 4), 511);
  EXPECT_EQ(scale_offset(0, 4, 5), 512);
  EXPECT_EQ(scale_offset(128, 0, 5), 1024);
  EXPECT_EQ(block_reference::scale_bytes(129, 5), 2048);
  EXPECT_EQ(block_reference::scale_bytes(1, 1), 512);
  std::set<std::int64_t> seen;
  for (std::int64_t row = 0; row < 256; ++row)
    for (std::int64_t column = 0; column < 8; ++column) seen.insert(scale_offset(row, column, 8));
  EXPECT_EQ(seen.size(), 2048U);
  EXPECT_EQ(*seen.rbegin(), 2047);
}

}  // namespace
