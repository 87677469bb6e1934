// SPDX-License-Identifier: Apache-2.0
// Transposition between channels and positions, in square tiles that stay in registers.
#include "backends/cpu/channels_last.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <type_traits>
#include <utility>

#include "backends/cpu/instruction_sets.hpp"
#include "backends/cpu/tensor_rows.hpp"

namespace stiletto::detail::cpu {
namespace {

constexpr std::int64_t staged_channels = 16, staged = 64;  // channels and positions converted at a time

template <class T, int lanes>
using Vector [[gnu::vector_size(lanes * sizeof(T))]] = T;

/// Swaps the off-diagonal blocks of `step` by `step` of two rows that are `step` apart.
template <int step, int tile, class V, int... i>
[[gnu::always_inline]] inline void exchange(V& upper, V& lower, std::integer_sequence<int, i...>) {
  const V a = upper, b = lower;
  upper = __builtin_shufflevector(a, b, ((i & step) != 0 ? tile + i - step : i)...);
  lower = __builtin_shufflevector(a, b, ((i & step) != 0 ? tile + i : i + step)...);
}

template <int step, class V, int tile>
[[gnu::always_inline]] inline void exchange_all(V (&rows)[tile]) {
  if constexpr (step < tile)
#pragma GCC unroll 16
    for (int i = 0; i < tile; ++i)
      if ((i & step) == 0)
        exchange<step, tile>(rows[i], rows[i + step], std::make_integer_sequence<int, tile>());
}

/// out[column][row] = in[row][column]
template <class T>
struct Transpose {
  template <int bytes>
  [[gnu::always_inline]] static void run(T* out, std::int64_t out_stride, const T* in, std::int64_t in_stride,
                                         std::int64_t rows, std::int64_t columns) {
    constexpr int tile = bytes / 4;
    for (std::int64_t row = 0; row < rows; row += tile)
      for (std::int64_t column = 0; column < columns; column += tile) {
        T* const to = out + column * out_stride + row;
        const T* const from = in + row * in_stride + column;
        if (rows - row >= tile && columns - column >= tile)
          whole_tile<tile>(to, out_stride, from, in_stride);
        else
          part_of_tile(to, out_stride, from, in_stride, rows - row < tile ? rows - row : tile,
                       columns - column < tile ? columns - column : tile);
      }
  }

 private:
  template <int tile>
  [[gnu::always_inline]] static void whole_tile(T* to, std::int64_t out_stride, const T* from,
                                                std::int64_t in_stride) {
    Vector<T, tile> values[tile];
#pragma GCC unroll 16
    for (int i = 0; i < tile; ++i) std::memcpy(&values[i], from + i * in_stride, sizeof values[i]);
    exchange_all<8>(values);
    exchange_all<4>(values);
    exchange_all<2>(values);
    exchange_all<1>(values);
#pragma GCC unroll 16
    for (int i = 0; i < tile; ++i) std::memcpy(to + i * out_stride, &values[i], sizeof values[i]);
  }
  [[gnu::always_inline]] static void part_of_tile(T* to, std::int64_t out_stride, const T* from,
                                                  std::int64_t in_stride, std::int64_t rows,
                                                  std::int64_t columns) {
    for (std::int64_t column = 0; column < columns; ++column)
      for (std::int64_t row = 0; row < rows; ++row)
        to[column * out_stride + row] = from[row * in_stride + column];
  }
};

template <class T>
void load(T* out, const TensorView& view, std::int64_t offset, std::int64_t stride, std::int64_t n) {
  if constexpr (std::is_same_v<T, float>)
    load_run(out, view.dtype, element(view, offset), stride, n);
  else
    kernels().gather[1](out, element(view, offset), stride, static_cast<std::size_t>(n));
}

template <class T>
void store(const TensorView& view, std::int64_t offset, std::int64_t stride, const T* values,
           std::int64_t n) {
  if constexpr (std::is_same_v<T, float>)
    store_run(view.dtype, element(view, offset), stride, values, n);
  else
    kernels().scatter[1](element(view, offset), stride, values, static_cast<std::size_t>(n));
}

template <class T>
constexpr DType type_of = std::is_same_v<T, float> ? DType::float32 : DType::bfloat16;

AxisGroup positions_of(const TensorView& view, std::int64_t rows) {
  Dims extents, strides;
  for (std::size_t axis = 2; axis < view.shape.size(); ++axis) {
    extents.push_back(axis == 2 ? rows : view.shape[axis]);
    strides.push_back(view.strides[axis]);
  }
  return axis_group(extents, strides);
}

bool channels_are_closest(const TensorView& view, std::int64_t position_stride) {
  return view.shape[1] > 1 && std::abs(view.strides[1]) <= std::abs(position_stride);
}

/// f(first position in the part, offset in the view, stride, positions) for runs of positions.
template <class F>
void for_each_run_of(const TensorView& view, const TensorPart& part, const F& f) {
  const AxisGroup positions = positions_of(view, part.rows);
  for (std::int64_t sample = 0; sample < part.samples; ++sample) {
    const std::int64_t base =
        (part.first_sample + sample) * view.strides[0] + part.first_row * view.strides[2];
    for_each_run(positions, 0, positions.count,
                 [&](std::int64_t done, std::int64_t offset, std::int64_t stride, std::int64_t n) {
                   f(sample * positions.count + done, base + offset, stride, n);
                 });
  }
}

/// f(channel, channels, position, positions) for the parts of a run that are converted at a time.
template <class F>
void for_each_stage(std::int64_t channels, std::int64_t positions, const F& f) {
  for (std::int64_t position = 0; position < positions; position += staged)
    for (std::int64_t channel = 0; channel < channels; channel += staged_channels)
      f(channel, std::min(staged_channels, channels - channel), position,
        std::min(staged, positions - position));
}

}  // namespace

ResultPart part_of(const Shape& shape, const TensorPart& part) {
  ResultPart result = ResultPart::whole(shape);
  result.first[0] = part.first_sample;
  result.last[0] = part.first_sample + part.samples;
  result.first[2] = part.first_row;
  result.last[2] = part.first_row + part.rows;
  return result;
}

bool is_channels_last(const Shape& shape, const Strides& strides) {
  std::int64_t expected = 1;
  const auto fits = [&](std::size_t axis) {
    const bool fit = shape[axis] == 1 || strides[axis] == expected;
    expected *= shape[axis];
    return fit;
  };
  bool result = fits(1);
  for (std::size_t axis = shape.size(); axis-- > 2;) result = fits(axis) && result;
  return fits(0) && result;
}

template <class T>
void pack_channels_last(T* out, const TensorView& view, const TensorPart& part) {
  const std::int64_t channels = view.shape[1], channel_stride = view.strides[1];
  for_each_run_of(
      view, part, [&](std::int64_t first, std::int64_t offset, std::int64_t stride, std::int64_t n) {
        T* const to = out + first * channels;
        if (view.dtype == type_of<T> && (stride == 1 || n == 1) && channel_stride > 0) {
          run_best<Transpose<T>>(to, channels, reinterpret_cast<const T*>(element(view, offset)),
                                 channel_stride, channels, n);
        } else if (channels_are_closest(view, stride)) {
          for (std::int64_t i = 0; i < n; ++i)
            load(to + i * channels, view, offset + i * stride, channel_stride, channels);
        } else {
          alignas(64) T stage[staged_channels * staged];
          for_each_stage(channels, n,
                         [&](std::int64_t channel, std::int64_t some, std::int64_t i, std::int64_t m) {
                           for (std::int64_t c = 0; c < some; ++c)
                             load(stage + c * staged, view,
                                  offset + (channel + c) * channel_stride + i * stride, stride, m);
                           run_best<Transpose<T>>(to + i * channels + channel, channels,
                                                  static_cast<const T*>(stage), staged, some, m);
                         });
        }
      });
}

template <class T>
void unpack_channels_last(const TensorView& view, const TensorPart& part, const T* values) {
  const std::int64_t channels = view.shape[1], channel_stride = view.strides[1];
  for_each_run_of(
      view, part, [&](std::int64_t first, std::int64_t offset, std::int64_t stride, std::int64_t n) {
        const T* const from = values + first * channels;
        if (view.dtype == type_of<T> && (stride == 1 || n == 1) && channel_stride > 0) {
          run_best<Transpose<T>>(reinterpret_cast<T*>(element(view, offset)), channel_stride, from, channels,
                                 n, channels);
        } else if (channels_are_closest(view, stride)) {
          for (std::int64_t i = 0; i < n; ++i)
            store(view, offset + i * stride, channel_stride, from + i * channels, channels);
        } else {
          alignas(64) T stage[staged_channels * staged];
          for_each_stage(
              channels, n, [&](std::int64_t channel, std::int64_t some, std::int64_t i, std::int64_t m) {
                run_best<Transpose<T>>(stage, staged, from + i * channels + channel, channels, m, some);
                for (std::int64_t c = 0; c < some; ++c)
                  store(view, offset + (channel + c) * channel_stride + i * stride, stride,
                        stage + c * staged, m);
              });
        }
      });
}

template void pack_channels_last(float*, const TensorView&, const TensorPart&);
template void pack_channels_last(std::uint16_t*, const TensorView&, const TensorPart&);
template void unpack_channels_last(const TensorView&, const TensorPart&, const float*);
template void unpack_channels_last(const TensorView&, const TensorPart&, const std::uint16_t*);

}  // namespace stiletto::detail::cpu
