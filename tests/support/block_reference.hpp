// SPDX-License-Identifier: Apache-2.0
// Block scaling by semantics.md, "Block scaling", one block at a time and slowly: every rounding is a search
// through the midpoints of a format's values, and every comparison is of numbers that float64 holds exactly.
//
// What that page leaves open is settled here:
// - The scale of a block of zeros is the smallest: 2^-127, and 0 in NVFP4.
// - A scale of 0 (NVFP4) makes zeros that keep their elements' signs, as rounding does everywhere else.
// - An infinity is the largest magnitude there is: its block gets the largest finite scale, and it saturates.
//   Under 2^127 it reads back beyond float32's range, so as an infinity there; in NVFP4 as 2688.
// - Dequantizing multiplies exactly. Elements just below 2^128 (from 0x1.Fp127 in e4m3) are rounded up to it,
//   which is infinite only once it is rounded to float32.
// - A block with NaN holds, under its NaN scale, what a cast makes of NaN. These codes cannot be read as
//   numbers, so they are no part of the rule.
#pragma once
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "support/numbers.hpp"

namespace block_reference {

using stiletto::DType;

struct Format {
  DType element, scale;
  std::size_t size;  // elements that share a scale
};
inline constexpr Format mxfp8_e4m3 = {DType::float8_e4m3, DType::float8_e8m0, 32};
inline constexpr Format mxfp8_e5m2 = {DType::float8_e5m2, DType::float8_e8m0, 32};
inline constexpr Format mxfp4 = {DType::float4_e2m1, DType::float8_e8m0, 32};
inline constexpr Format nvfp4 = {DType::float4_e2m1, DType::float8_e4m3, 16};

/// Codes are one to a byte, float4's too.
struct Block {
  std::vector<std::uint8_t> codes;
  std::uint8_t scale = 0;
};

/// From a table, because the searches below ask for every code.
inline double decode(std::uint8_t code, DType dtype) {
  static const auto values = [] {
    std::map<DType, std::array<double, 256>> all;
    for (const DType of : {DType::float8_e4m3, DType::float8_e5m2, DType::float8_e8m0, DType::float4_e2m1})
      for (unsigned i = 0; i < (of == DType::float4_e2m1 ? 16U : 256U); ++i)
        all[of][i] = static_cast<double>(support::decode_small(i, of));
    return all;
  }();
  return values.at(dtype).at(code);
}

inline std::uint8_t largest_code(DType dtype) {
  return dtype == DType::float4_e2m1 ? 0x07 : dtype == DType::float8_e4m3 ? 0x7E : 0x7B;
}
inline std::uint8_t nan_code(DType dtype) {
  switch (dtype) {
    case DType::float8_e8m0:
      return 0xFF;
    case DType::float8_e4m3:
      return 0x7F;
    case DType::float8_e5m2:
      return 0x7E;
    default:
      return 0x07;  // float4 has no NaN
  }
}

/// The code nearest to x / unit, without sign; the even one of two; the largest beyond the range. Midpoints
/// have 5 bits and units 4 at most, so their products are exact, which a quotient would not be.
inline std::uint8_t nearest_code(double x, double unit, DType dtype) {
  std::uint8_t code = 0;
  for (std::uint8_t low = 0; low < largest_code(dtype); ++low) {
    const double midpoint = (decode(low, dtype) + decode(low + 1, dtype)) / 2;
    const bool is_above = std::fabs(x) > midpoint * unit || (std::fabs(x) == midpoint * unit && low % 2 == 1);
    if (is_above) code = low + 1;
  }
  return code;
}

/// Of a block whose largest magnitude this is. An e8m0 scale is the smallest power of two under which nothing
/// is beyond the largest element.
inline std::uint8_t scale_code(double magnitude, const Format& format) {
  const double largest = decode(largest_code(format.element), format.element);
  if (format.scale == DType::float8_e4m3) return nearest_code(magnitude, largest, format.scale);
  std::uint8_t code = 0;
  while (code < 0xFE && magnitude > largest * decode(code, format.scale)) ++code;
  return code;
}

inline Block quantize_block(std::span<const double> x, const Format& format) {
  if (std::ranges::any_of(x, [](double value) { return std::isnan(value); }))
    return {std::vector<std::uint8_t>(x.size(), nan_code(format.element)), nan_code(format.scale)};
  double magnitude = 0;
  for (const double value : x) magnitude = std::max(magnitude, std::fabs(value));
  Block block{{}, scale_code(magnitude, format)};
  const double scale = decode(block.scale, format.scale);
  const std::uint8_t sign = format.element == DType::float4_e2m1 ? 0x08 : 0x80;
  for (const double value : x) {
    const std::uint8_t code = scale == 0 ? 0 : nearest_code(value, scale, format.element);
    block.codes.push_back(std::signbit(value) ? code | sign : code);
  }
  return block;
}
inline Block quantize_block(std::span<const float> x, const Format& format) {
  return quantize_block(std::vector<double>(x.begin(), x.end()), format);
}

/// Exact.
inline std::vector<double> dequantize_block(const Block& block, const Format& format) {
  std::vector<double> x(block.codes.size());
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = decode(block.codes[i], format.element) * decode(block.scale, format.scale);
  return x;
}

// ---- where cuDNN keeps a matrix's scales (its order F8_128x4, cuBLAS's "1D block scaling factors layout")
// ----

/// Bytes for the scales of `rows` rows of `columns` blocks each: whole tiles of 128 by 4.
inline std::int64_t scale_bytes(std::int64_t rows, std::int64_t columns) {
  return (rows + 127) / 128 * 128 * ((columns + 3) / 4 * 4);
}

/// Where the scale of block `column` of row `row` is. Tiles follow each other in row-major order; inside one,
/// byte 4i + j of line k (of 32, each of 16 bytes) belongs to row 32i + k and column j.
inline std::int64_t scale_offset(std::int64_t row, std::int64_t column, std::int64_t columns) {
  const std::int64_t tile = row / 128 * ((columns + 3) / 4) + column / 4;
  const std::int64_t r = row % 128, c = column % 4;
  return tile * 512 + r % 32 * 16 + r / 32 * 4 + c;
}

}  // namespace block_reference
