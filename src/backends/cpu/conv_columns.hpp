// SPDX-License-Identifier: Apache-2.0
// What a convolution multiplies as matrices: for a block of output positions, the input elements under each
// element of the window ("im2col"). The gradient by the data is the same with another map of positions.
#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "backends/cpu/conv_problem.hpp"
#include "backends/cpu/tensor_rows.hpp"

namespace stiletto::detail::cpu {

/// Spatial positions of one tensor for positions of another, axis by axis; leading axes of extent 1 where
/// there are fewer than three. Forward: where x lies under an element of the window, by y's position. For the
/// data gradient: where y lies, by x's position.
class ConvMap {
 public:
  ConvMap(const ConvProblem& problem, bool from_y);

  std::array<std::int64_t, 3> out, in, window;
  std::int64_t window_size() const { return window[0] * window[1] * window[2]; }
  std::int64_t out_size() const { return out[0] * out[1] * out[2]; }
  std::int64_t in_size() const { return in[0] * in[1] * in[2]; }
  /// −1 where there is nothing.
  std::int64_t source(std::size_t axis, std::int64_t tap, std::int64_t position) const {
    return sources_[axis][static_cast<std::size_t>(tap * out[axis] + position)];
  }
  const std::int64_t* sources_of_row(std::int64_t tap) const { return sources_[2].data() + tap * out[2]; }

 private:
  std::array<std::vector<std::int64_t>, 3> sources_;
};

/// An operand whose elements are T's: channels, then three spatial axes.
template <class T>
struct ConvOperand {
  const T* data;
  std::int64_t sample;
  std::int64_t channel;
  std::array<std::int64_t, 3> spatial;
};

struct ConvBlock {  // rows of output positions (all of the last axis), channels of the input
  std::int64_t first_row, rows, first_channel, channels;
};

/// columns[channel, element of the window][position of the block]
template <class T>
void fill_columns(T* columns, const ConvMap& map, const ConvOperand<T>& in, std::int64_t sample,
                  const ConvBlock& block) {
  const std::int64_t positions = block.rows * map.out[2];
  for (std::int64_t channel = 0; channel < block.channels; ++channel) {
    const T* const plane = in.data + sample * in.sample + (block.first_channel + channel) * in.channel;
    for (std::int64_t tap = 0; tap < map.window_size(); ++tap, columns += positions) {
      const std::int64_t tap_depth = tap / (map.window[1] * map.window[2]);
      const std::int64_t tap_height = tap / map.window[2] % map.window[1];
      const std::int64_t* const sources = map.sources_of_row(tap % map.window[2]);
      for (std::int64_t row = 0; row < block.rows; ++row) {
        T* const to = columns + row * map.out[2];
        const std::int64_t depth = map.source(0, tap_depth, (block.first_row + row) / map.out[1]);
        const std::int64_t height = map.source(1, tap_height, (block.first_row + row) % map.out[1]);
        if (depth < 0 || height < 0) {
          std::fill_n(to, map.out[2], T{});
          continue;
        }
        const T* const from = plane + depth * in.spatial[0] + height * in.spatial[1];
        for (std::int64_t i = 0; i < map.out[2]; ++i)
          to[i] = sources[i] < 0 ? T{} : from[sources[i] * in.spatial[2]];
      }
    }
  }
}

}  // namespace stiletto::detail::cpu
