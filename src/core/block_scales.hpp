// SPDX-License-Identifier: Apache-2.0
// Where the scales of a block-scaled matrix lie: cuDNN's order F8_128x4, which cuBLAS's documentation calls
// the layout of 1D block scaling factors.
#pragma once
#include <cstdint>

#include "core/float_bits.hpp"
#include "stiletto/dtype.hpp"

namespace stiletto::detail {

/// Of a scale's dtype, float8_e8m0 or float8_e4m3.
inline float decode_scale(DType dtype, std::uint8_t code) {
  return dtype == DType::float8_e8m0 ? decode_e8m0(code) : decode<e4m3_format>(code);
}

/// The scales of one matrix: `lines` along the axis that is not blocked, of `blocks` each.
struct ScaleGrid {
  std::int64_t lines = 0, blocks = 0;

  static constexpr std::int64_t tile_lines = 128, tile_blocks = 4;

  constexpr std::int64_t padded_lines() const { return padded(lines, tile_lines); }
  constexpr std::int64_t padded_blocks() const { return padded(blocks, tile_blocks); }
  constexpr std::int64_t count() const { return padded_lines() * padded_blocks(); }
  /// Of one scale, padding included, from the first. A tile's 32 rows of 16 bytes hold four lines each, 32
  /// apart, of four blocks.
  constexpr std::int64_t offset(std::int64_t line, std::int64_t block) const {
    constexpr std::int64_t rows = 32;
    const std::int64_t tile = line / tile_lines * (padded_blocks() / tile_blocks) + block / tile_blocks;
    const std::int64_t within = line % tile_lines;
    return tile * tile_lines * tile_blocks + within % rows * (tile_lines / rows) * tile_blocks +
           within / rows * tile_blocks + block % tile_blocks;
  }

 private:
  static constexpr std::int64_t padded(std::int64_t extent, std::int64_t tile) {
    return (extent + tile - 1) / tile * tile;
  }
};

}  // namespace stiletto::detail
