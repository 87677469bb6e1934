// SPDX-License-Identifier: Apache-2.0
// Block-scaled arrays as users meet them: their parts, products of them, and what traces make of them.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <random>
#include <tuple>
#include <vector>

#include "stiletto/stiletto.hpp"
#include "support/block_reference.hpp"

namespace {

namespace st = stiletto;
using st::Array;
using st::BlockFormat;
using st::BlockscaledArray;
using st::DType;
using st::Shape;

constexpr BlockFormat all_formats[] = {BlockFormat::mxfp8_e4m3, BlockFormat::mxfp8_e5m2, BlockFormat::mxfp4,
                                       BlockFormat::nvfp4};

std::int64_t count_of(const Shape& shape) {
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) count *= extent;
  return count;
}

Array normal(const Shape& shape, unsigned seed = 1) {
  std::mt19937 bits(seed);
  std::normal_distribution<float> numbers;
  std::vector<float> values(static_cast<std::size_t>(count_of(shape)));
  for (float& value : values) value = numbers(bits);
  return st::from_data<float>(values, shape);
}

/// In the order of memory, for dense arrays.
std::vector<std::uint8_t> bytes_of(const Array& array) {
  const auto* const first = static_cast<const std::uint8_t*>(array.raw_data());
  return {first, first + array.nbytes()};
}

void expect_equal(const BlockscaledArray& made, const BlockscaledArray& wanted) {
  EXPECT_EQ(made.shape(), wanted.shape());
  EXPECT_EQ(made.format(), wanted.format());
  EXPECT_EQ(made.axis(), wanted.axis());
  EXPECT_EQ(bytes_of(made.elements()), bytes_of(wanted.elements()));
  EXPECT_EQ(bytes_of(made.scales()), bytes_of(wanted.scales()));
}

// ---- parts ----

TEST(Blockscaled, has_its_scales_in_tiles) {
  for (const BlockFormat& format : all_formats)
    for (const int axis : {-1, -2}) {
      const Shape shape = axis == -1 ? Shape{2, 130, 160} : Shape{2, 160, 130};
      const BlockscaledArray x = st::quantize(normal(shape), format, axis);
      const std::int64_t lines = 130, blocks = 160 / format.block_size;
      const auto tiled = bytes_of(x.scales());
      const Array plain = x.plain_scales();
      const auto in_rows = bytes_of(plain);
      ASSERT_EQ(tiled.size(), 2 * static_cast<std::size_t>(block_reference::scale_bytes(lines, blocks)));
      for (std::int64_t b = 0; b < 2; ++b)
        for (std::int64_t line = 0; line < lines; ++line)
          for (std::int64_t block = 0; block < blocks; ++block) {
            const std::int64_t offset = block_reference::scale_offset(line, block, blocks);
            const std::uint8_t code =
                tiled[static_cast<std::size_t>(b * block_reference::scale_bytes(lines, blocks) + offset)];
            const std::int64_t row = axis == -1 ? line : block, column = axis == -1 ? block : line;
            ASSERT_EQ(x.scale_at({b, row, column}), block_reference::decode(code, format.scale));
            const std::int64_t at = (b * plain.dim(1) + row) * plain.dim(2) + column;
            ASSERT_EQ(in_rows[static_cast<std::size_t>(at)], code);
          }
      expect_equal(BlockscaledArray::from_plain_parts(x.elements(), plain, shape, format, axis), x);
    }
}

TEST(Blockscaled, shares_the_buffers_of_others) {
  const BlockscaledArray x = st::quantize(normal({64, 96}), BlockFormat::mxfp8_e4m3, -1);
  const Array flat_scales =
      st::wrap(x.scales().raw_data(), {x.scales().size()}, DType::uint8, st::Device::cpu());
  const Array bytes = st::wrap(x.elements().raw_data(), {64, 96}, DType::uint8, st::Device::cpu());
  for (const Array& elements : {x.elements(), bytes}) {
    const BlockscaledArray same =
        BlockscaledArray::from_parts(elements, flat_scales, {64, 96}, BlockFormat::mxfp8_e4m3, -1);
    expect_equal(same, x);
    EXPECT_EQ(same.elements().raw_data(), x.elements().raw_data());
    EXPECT_EQ(same.scales().raw_data(), x.scales().raw_data());
  }
}

TEST(Blockscaled, takes_weights_as_pytorch_has_them) {
  const Array w = normal({48, 64}, 2), x = normal({5, 64}, 3);
  for (const BlockFormat& format : all_formats) {
    const BlockscaledArray rows = st::quantize(w, format, -1);
    const BlockscaledArray right =
        BlockscaledArray::from_parts(st::transpose(rows.elements()), rows.scales(), {64, 48}, format, -2);
    expect_equal(st::quantize(st::transpose(w), format, -2), right);
    const auto made = st::matmul(x, right).to_vector<float>();
    EXPECT_EQ(made, st::matmul(x, st::transpose(st::dequantize(rows))).to_vector<float>());
  }
}

TEST(Blockscaled, takes_packed_float4_as_bytes) {
  const BlockscaledArray x = st::quantize(normal({6, 64}), BlockFormat::nvfp4, -1);
  const Array bytes = st::wrap(x.elements().raw_data(), {6, 32}, DType::uint8, st::Device::cpu());
  expect_equal(BlockscaledArray::from_parts(bytes, x.scales(), {6, 64}, BlockFormat::nvfp4, -1), x);
  // The even element is in the low half.
  const auto codes = x.elements().to_vector<std::uint8_t>();
  const auto packed = bytes_of(x.elements());
  EXPECT_EQ(packed[0], codes[0] | codes[1] << 4);
}

// ---- products ----

/// |x̂ − x| for an element x of a block with largest magnitude m: see docs/blockscaled.md.
double element_error(double x, double scale, const BlockFormat& format) {
  const bool four = format.element == DType::float4_e2m1;
  const double unit = four ? 0.25 : format.element == DType::float8_e4m3 ? 0x1p-4 : 0x1p-3;
  const double smallest = four ? 0.5 : format.element == DType::float8_e4m3 ? 0x1p-9 : 0x1p-16;
  return unit * std::fabs(x) + smallest / 2 * scale;
}

TEST(Blockscaled, products_are_within_the_bound) {
  constexpr std::int64_t rows = 33, inner = 160, columns = 17;
  const Array a = normal({rows, inner}, 4), b = normal({inner, columns}, 5);
  const auto x = a.to_vector<float>(), y = b.to_vector<float>();
  for (const BlockFormat& format : all_formats) {
    const BlockscaledArray left = st::quantize(a, format, -1), right = st::quantize(b, format, -2);
    const auto made = st::matmul(left, right).to_vector<float>();
    double worst = 0;
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < columns; ++j) {
        double exact = 0, bound = 0, size = 0;
        for (std::int64_t k = 0; k < inner; ++k) {
          const double p = x[static_cast<std::size_t>(i * inner + k)],
                       q = y[static_cast<std::size_t>(k * columns + j)];
          const double dp = element_error(p, left.scale_at({i, k / format.block_size}), format),
                       dq = element_error(q, right.scale_at({k / format.block_size, j}), format);
          exact += p * q;
          size += (std::fabs(p) + dp) * (std::fabs(q) + dq);
          bound += std::fabs(p) * dq + dp * std::fabs(q) + dp * dq;
        }
        bound += size * inner * 0x1p-24;  // accumulation in float32
        const double error = std::fabs(made[static_cast<std::size_t>(i * columns + j)] - exact);
        ASSERT_LE(error, bound) << format << ' ' << i << ' ' << j;
        worst = std::max(worst, error / bound);
      }
    EXPECT_GT(worst, 0.02) << "the bound of " << format << " would hold whatever was computed";
  }
}

TEST(Blockscaled, multiplies_with_plain_operands) {
  const BlockscaledArray q = st::quantize(normal({2, 5, 64}), BlockFormat::mxfp8_e4m3, -1);
  const Array plain = st::dequantize(q);
  for (const DType dtype : {DType::float16, DType::bfloat16, DType::float32, DType::float64,
                            DType::float8_e4m3, DType::float8_e5m2}) {
    const Array w = st::cast(normal({2, 64, 5}, 6), dtype);
    const DType result = dtype == DType::float64 ? dtype : DType::float32;
    const Array wide = st::cast(w, result);
    const Array right = st::matmul(q, w), left = st::matmul(w, q);
    EXPECT_EQ(right.dtype(), result);
    const auto same = [&](const Array& made, const Array& wanted) {
      if (result == DType::float64)
        EXPECT_EQ(made.to_vector<double>(), wanted.to_vector<double>());
      else
        EXPECT_EQ(made.to_vector<float>(), wanted.to_vector<float>());
    };
    same(right, st::matmul(st::cast(plain, result), wide));
    same(left, st::matmul(wide, st::cast(plain, result)));
  }
}

TEST(Blockscaled, adds_to_and_scales_destinations) {
  const BlockscaledArray a = st::quantize(normal({4, 32}), BlockFormat::mxfp4, -1),
                         b = st::quantize(normal({32, 6}, 2), BlockFormat::nvfp4, -2);
  const Array x = st::dequantize(a), y = st::dequantize(b), c = normal({4, 6}, 3);
  const auto check = [&](const auto& left, const auto& right) {
    const Array made = c.copy(), wanted = c.copy();
    st::matmul_into(made, left, right, 2, 0.5);
    st::matmul_into(wanted, x, y, 2, 0.5);
    EXPECT_EQ(made.to_vector<float>(), wanted.to_vector<float>());
  };
  check(a, b), check(a, y), check(x, b);
}

TEST(Blockscaled, is_a_destination_of_products) {
  const BlockscaledArray a = st::quantize(normal({4, 32}), BlockFormat::mxfp8_e5m2, -1),
                         b = st::quantize(normal({32, 64}, 2), BlockFormat::mxfp8_e4m3, -2);
  const Array x = st::dequantize(a), y = st::dequantize(b);
  const BlockscaledArray wanted = st::quantize(st::matmul(x, y), BlockFormat::mxfp8_e4m3, -1);
  const auto check = [&](const auto& left, const auto& right) {
    const BlockscaledArray made = BlockscaledArray::empty({4, 64}, BlockFormat::mxfp8_e4m3, -1);
    st::matmul_into(made, left, right);
    expect_equal(made, wanted);
  };
  check(a, b), check(a, y), check(x, b), check(x, y);
}

// ---- traces ----

TEST(Blockscaled, is_quantized_before_results_are_rounded) {
  // 448.5 is 448 in bfloat16, which would have the scale 1.
  const Array x = st::full({2, 1}, 448.5F), row = st::ones({1, 32}, DType::bfloat16);
  const Array wide = st::cast(x, DType::float32);
  const auto f = [](const Array& a, const Array& b) {
    return st::quantize(st::matmul(st::cast(a, DType::bfloat16), b) + 0.5F, BlockFormat::mxfp8_e4m3, -1);
  };
  EXPECT_EQ(st::jit(f, wide, row).scale_at({0, 0}), 2);
  // A product of bfloat16 is held in float32 until it is stored.
  const Array p = st::from_data<float>(std::vector<float>{448, 0.5F}, {1, 2}),
              q = st::ones({2, 32}, DType::bfloat16);
  const auto product = [](const Array& a, const Array& b) {
    return st::quantize(st::matmul(a, b), BlockFormat::mxfp8_e4m3, -1);
  };
  EXPECT_EQ(st::jit(product, st::cast(p, DType::bfloat16), q).scale_at({0, 0}), 2);
}

TEST(Blockscaled, goes_through_traces_in_structures) {
  const BlockscaledArray a = st::quantize(normal({8, 64}), BlockFormat::mxfp8_e4m3, -1),
                         b = st::quantize(normal({64, 32}, 2), BlockFormat::mxfp8_e4m3, -2);
  const auto f = [](const std::vector<BlockscaledArray>& list,
                    const std::tuple<Array, BlockscaledArray>& pair) {
    const Array y = st::gelu(st::matmul(list[0], std::get<1>(pair)) + std::get<0>(pair));
    return std::tuple(y, std::vector<BlockscaledArray>{st::quantize(y, BlockFormat::nvfp4, -1),
                                                       st::quantize(y, BlockFormat::mxfp4, -1)});
  };
  const std::vector<BlockscaledArray> list{a};
  const std::tuple<Array, BlockscaledArray> pair{normal({32}, 3), b};
  const Array y = st::gelu(st::matmul(a, b) + std::get<0>(pair));
  for (const bool compiled : {false, true}) {
    const auto made = compiled ? st::compile(f, list, pair)(list, pair) : st::jit(f, list, pair);
    EXPECT_EQ(std::get<0>(made).to_vector<float>(), y.to_vector<float>());
    expect_equal(std::get<1>(made)[0], st::quantize(y, BlockFormat::nvfp4, -1));
    expect_equal(std::get<1>(made)[1], st::quantize(y, BlockFormat::mxfp4, -1));
  }
}

TEST(Blockscaled, is_captured) {
  const BlockscaledArray w = st::quantize(normal({64, 32}), BlockFormat::mxfp4, -2);
  const Array x = normal({3, 64}, 2);
  const auto f = [&](const Array& v) { return st::matmul(v, w); };
  EXPECT_EQ(st::compile(f, x)(x).to_vector<float>(), st::matmul(x, st::dequantize(w)).to_vector<float>());
}

TEST(Blockscaled, can_be_stored_and_returned_more_than_once) {
  const Array x = normal({4, 64});
  for (const BlockFormat& format : all_formats) {
    const BlockscaledArray stored = BlockscaledArray::empty({4, 64}, format, -1),
                           wanted = st::quantize(x, format, -1);
    const auto f = [&](const BlockscaledArray& to, const Array& v) {
      st::quantize_into(to, v);
      const BlockscaledArray made = st::quantize(v, format, -1);
      return std::tuple(made, made, st::dequantize(made));
    };
    const auto made = st::compile(f, stored, x)(stored, x);
    for (const BlockscaledArray& each : {stored, std::get<0>(made), std::get<1>(made)})
      expect_equal(each, wanted);
    EXPECT_EQ(std::get<2>(made).to_vector<float>(), st::dequantize(wanted).to_vector<float>());
  }
}

TEST(Blockscaled, is_in_saved_plans) {
  const auto path = std::filesystem::temp_directory_path() / "stiletto_blockscaled_test.plan";
  const BlockscaledArray a = st::quantize(normal({8, 64}), BlockFormat::nvfp4, -1),
                         b = st::quantize(normal({64, 64}, 2), BlockFormat::nvfp4, -2);
  const auto f = [](const BlockscaledArray& x, const BlockscaledArray& y) {
    return st::quantize(st::matmul(x, y), BlockFormat::mxfp8_e5m2, -2);
  };
  const Array tall = normal({32, 64}, 3);
  const BlockscaledArray c = st::quantize(tall, BlockFormat::nvfp4, -1);
  st::compile(f, c, b).save(path);
  const auto loaded = st::load<BlockscaledArray(BlockscaledArray, BlockscaledArray)>(path);
  expect_equal(loaded(c, b), f(c, b));
  std::filesystem::remove(path);
}

TEST(Blockscaled, batches_merge) {
  const BlockscaledArray a = st::quantize(normal({2, 3, 4, 32}), BlockFormat::mxfp8_e4m3, -1),
                         b = st::quantize(normal({2, 3, 32, 5}, 2), BlockFormat::mxfp8_e4m3, -2);
  const auto f = [](const BlockscaledArray& x, const BlockscaledArray& y) { return st::matmul(x, y); };
  const auto compiled = st::compile(f, a, b);
  EXPECT_EQ(compiled(a, b).to_vector<float>(),
            st::matmul(st::dequantize(a), st::dequantize(b)).to_vector<float>());
  EXPECT_NE(compiled.graph().to_string().find("i=6"), std::string::npos) << compiled.graph().to_string();
}

}  // namespace
