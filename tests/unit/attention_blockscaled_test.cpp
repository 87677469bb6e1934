// SPDX-License-Identifier: Apache-2.0
// Attention over block-scaled operands is attention over what they dequantize to.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "stiletto/stiletto.hpp"
#include "unit/error_text.hpp"

namespace {

using stiletto::Array;
using stiletto::AttentionOptions;
using stiletto::AttentionResult;
using stiletto::BlockFormat;
using stiletto::BlockscaledArray;
using stiletto::Causal;
using stiletto::Shape;

struct BlockedQkv {
  BlockscaledArray q, k, v;
};

Array normal(const Shape& shape, unsigned seed) {
  std::mt19937 bits(seed);
  std::normal_distribution<float> numbers;
  std::vector<float> values(static_cast<std::size_t>(shape[0] * shape[1] * shape[2] * shape[3]));
  for (float& value : values) value = numbers(bits);
  return stiletto::from_data<float>(values, shape);
}

struct BlockedShape {
  std::int64_t heads = 4, heads_kv = 2, queries = 50, keys = 96, head_dim = 64, width = 32;
};

BlockedQkv blocked(const BlockedShape& s, const BlockFormat& format) {
  return {stiletto::quantize(normal({2, s.heads, s.queries, s.head_dim}, 1), format, -1),
          stiletto::quantize(normal({2, s.heads_kv, s.keys, s.head_dim}, 2), format, -1),
          stiletto::quantize(normal({2, s.heads_kv, s.keys, s.width}, 3), format, -2)};
}

/// Rows before heads.
Array plain(const BlockscaledArray& array) {
  return stiletto::transpose(stiletto::dequantize(array), {0, 2, 1, 3}).copy();
}

void expect_same(const Array& made, const Array& wanted) {
  ASSERT_EQ(made.shape(), wanted.shape());
  EXPECT_EQ(made.dtype(), stiletto::DType::float32);
  const auto a = made.to_vector<float>(), b = wanted.to_vector<float>();
  for (std::size_t i = 0; i < a.size(); ++i)
    ASSERT_TRUE(a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) << i << ": " << a[i] << ' ' << b[i];
}

void expect_plain_attention(const BlockedQkv& o, const AttentionOptions& options = {}) {
  const AttentionResult wanted = stiletto::attention_with_stats(plain(o.q), plain(o.k), plain(o.v), options);
  const AttentionResult made = stiletto::attention_with_stats(o.q, o.k, o.v, options);
  expect_same(made.out, wanted.out);
  expect_same(made.stats, wanted.stats);
  expect_same(stiletto::attention(o.q, o.k, o.v, options), wanted.out);
}

TEST(AttentionBlockscaled, is_that_of_the_dequantized_operands) {
  for (const BlockFormat& format :
       {BlockFormat::mxfp8_e4m3, BlockFormat::mxfp8_e5m2, BlockFormat::mxfp4, BlockFormat::nvfp4}) {
    SCOPED_TRACE(testing::PrintToString(format.block_size));
    expect_plain_attention(blocked({}, format));
  }
}

TEST(AttentionBlockscaled, takes_shapes_of_all_kinds) {
  for (const BlockedShape& shape : {BlockedShape{1, 1, 1, 32, 32, 1}, BlockedShape{6, 3, 129, 160, 96, 48},
                                    BlockedShape{2, 2, 3, 0, 32, 8}, BlockedShape{2, 2, 0, 32, 32, 8}})
    expect_plain_attention(blocked(shape, BlockFormat::mxfp8_e4m3));
}

TEST(AttentionBlockscaled, takes_masks_scales_windows_and_lengths) {
  const BlockedQkv o = blocked({}, BlockFormat::mxfp8_e4m3);
  expect_plain_attention(o, {.scale = 0.5F});
  for (const Causal causal : {Causal::top_left, Causal::bottom_right}) {
    expect_plain_attention(o, {.causal = causal});
    expect_plain_attention(o, {.causal = causal, .window = 7});
  }
  const auto lengths = [](std::int32_t a, std::int32_t b) {
    return stiletto::from_data<std::int32_t>(std::vector<std::int32_t>{a, b}, {2});
  };
  expect_plain_attention(o, {.seq_len_q = lengths(50, 3), .seq_len_kv = lengths(0, 33)});
}

TEST(AttentionBlockscaled, keeps_a_block_of_nan) {
  const BlockedShape s;
  Array v = normal({2, s.heads_kv, s.keys, s.width}, 3);
  v.data<float>()[5 * s.width + 7] = std::numeric_limits<float>::quiet_NaN();
  BlockedQkv o = blocked(s, BlockFormat::mxfp8_e4m3);
  o.v = stiletto::quantize(v, BlockFormat::mxfp8_e4m3, -2);
  const auto out = stiletto::attention(o.q, o.k, o.v).to_vector<float>();
  EXPECT_TRUE(std::isnan(out[7]));
  EXPECT_FALSE(std::isnan(out[6]));
  expect_plain_attention(o);
}

TEST(AttentionBlockscaled, is_one_value_of_traces) {
  const BlockedQkv o = blocked({}, BlockFormat::mxfp8_e5m2);
  const auto f = [](const BlockscaledArray& q, const BlockscaledArray& k, const BlockscaledArray& v) {
    return stiletto::relu(stiletto::attention(q, k, v));
  };
  expect_same(stiletto::compile(f, o.q, o.k, o.v)(o.q, o.k, o.v),
              stiletto::relu(stiletto::attention(plain(o.q), plain(o.k), plain(o.v))));
}

TEST(AttentionBlockscaled, refuses_in_words) {
  using unit::expect_text;
  const BlockedQkv o = blocked({}, BlockFormat::mxfp8_e4m3);
  const auto zeros = [](const Shape& shape, const BlockFormat& format, int axis) {
    return stiletto::quantize(stiletto::zeros(shape), format, axis);
  };
  expect_text(
      [&] { stiletto::attention(o.q, o.k, zeros({2, 3, 96, 32}, BlockFormat::mxfp8_e4m3, -2)); },
      "ShapeError: attention: q has shape (2, 4, 50, 64), k (2, 2, 96, 64) and v (2, 3, 96, 32); they "
      "have to be (batch, heads, seq_q, head_dim), (batch, heads_kv, seq_kv, head_dim) and (batch, "
      "heads_kv, seq_kv, width), heads_kv dividing heads");
  expect_text([&] { stiletto::attention(o.q, o.k, zeros({2, 2, 96, 32}, BlockFormat::mxfp8_e4m3, -1)); },
              "ShapeError: attention: q is blocked along axis 3, k along 3 and v along 3; products sum over "
              "blocks, so q and k have to be blocked along axis 3 and v along 2");
  expect_text([&] { stiletto::attention(o.q, o.k, zeros({2, 2, 96, 32}, BlockFormat::mxfp4, -2)); },
              "DTypeError: attention: q is mxfp8_e4m3, k mxfp8_e4m3 and v mxfp4; they have to be of one "
              "format: quantize them alike");
  expect_text([&] { stiletto::attention(o.q, o.k, o.v, {.bias = stiletto::zeros({1, 1, 50, 96})}); },
              "ShapeError: attention: does not take bias; leave it out, or dequantize q, k and v and call "
              "attention for arrays");
}

}  // namespace
