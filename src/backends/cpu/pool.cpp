// SPDX-License-Identifier: Apache-2.0
// max_pool and avg_pool. A task takes one sample and a few channels: it converts their elements to the
// compute type, position by position, and combines whole rows of the output for one element of the window
// after another.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <limits>

#include "backends/cpu/instruction_sets.hpp"
#include "backends/cpu/tensor_rows.hpp"

namespace stiletto::detail::cpu {
namespace {

using Views = std::span<const TensorView>;
using Spatial = std::array<std::int64_t, 3>;

/// With leading spatial axes of extent 1 where there are fewer than three.
struct PoolShape {
  Spatial in{1, 1, 1}, out{1, 1, 1}, window{1, 1, 1}, stride{1, 1, 1}, padding{0, 0, 0};
  std::int64_t lanes = 1;  // adjacent channels
  bool maximum = true, include_padding = false;

  std::int64_t in_count() const { return in[0] * in[1] * in[2]; }
  std::int64_t out_count() const { return out[0] * out[1] * out[2]; }
};

PoolShape pool_shape(const PoolAttributes& attributes, const TensorView& x, const TensorView& y) {
  PoolShape shape;
  const std::size_t axes = attributes.window.size();
  for (std::size_t axis = 0; axis < axes; ++axis) {
    const std::size_t at = 3 - axes + axis;
    shape.in[at] = x.shape[2 + axis];
    shape.out[at] = y.shape[2 + axis];
    shape.window[at] = attributes.window[axis];
    shape.stride[at] = attributes.stride[axis];
    shape.padding[at] = attributes.pre_padding[axis];
  }
  shape.include_padding = attributes.include_padding;
  return shape;
}

struct Range {
  std::int64_t first, last;
};

/// The outputs along an axis for which this element of the window lies inside the input.
[[gnu::always_inline]] inline Range outputs_inside(const PoolShape& s, std::size_t axis,
                                                   std::int64_t element) {
  const std::int64_t shift = element - s.padding[axis], stride = s.stride[axis];
  const std::int64_t first = shift >= 0 ? 0 : (-shift + stride - 1) / stride;
  const std::int64_t beyond = s.in[axis] - shift;  // the first input position out of range
  const std::int64_t last = beyond <= 0 ? 0 : (beyond + stride - 1) / stride;
  return {first, last < s.out[axis] ? last : s.out[axis]};
}

/// The elements of the window that lie inside the input for this output.
[[gnu::always_inline]] inline Range elements_inside(const PoolShape& s, std::size_t axis,
                                                    std::int64_t output) {
  const std::int64_t start = output * s.stride[axis] - s.padding[axis];
  const std::int64_t end = s.in[axis] - start;
  return {start < 0 ? -start : 0, end < s.window[axis] ? end : s.window[axis]};
}

template <class T>
[[gnu::always_inline]] inline T lowest() {
  if constexpr (std::numeric_limits<T>::has_infinity)
    return -std::numeric_limits<T>::infinity();
  else
    return std::numeric_limits<T>::min();
}

/// A NaN is larger than every number, and stays.
template <class T, bool maximum>
[[gnu::always_inline]] inline T combined(T before, T value) {
  if constexpr (!maximum) return before + value;
  if constexpr (std::numeric_limits<T>::has_quiet_NaN)
    return before >= value || before != before ? before : value;
  else
    return before >= value ? before : value;
}

template <class T, bool maximum>
[[gnu::always_inline]] inline void combine_row(T* to, const T* from, std::int64_t n, std::int64_t step,
                                               std::int64_t lanes) {
  if (step == 1 || n == 1) {
    for (std::int64_t i = 0; i < n * lanes; ++i) to[i] = combined<T, maximum>(to[i], from[i]);
  } else if (lanes == 1) {
    for (std::int64_t i = 0; i < n; ++i) to[i] = combined<T, maximum>(to[i], from[i * step]);
  } else {
    for (std::int64_t i = 0; i < n; ++i, to += lanes, from += step * lanes)
      for (std::int64_t lane = 0; lane < lanes; ++lane) to[lane] = combined<T, maximum>(to[lane], from[lane]);
  }
}

/// One row of the output: its last axis by the lanes.
template <class T, bool maximum>
struct PoolRow {
  template <int bytes>
  [[gnu::always_inline]] static void run(T* to, const T* in, const PoolShape* shape, std::int64_t d,
                                         std::int64_t h) {
    const PoolShape& s = *shape;
    const T start = maximum ? lowest<T>() : T{};
    for (std::int64_t i = 0; i < s.out[2] * s.lanes; ++i) to[i] = start;
    const Range depths = elements_inside(s, 0, d), heights = elements_inside(s, 1, h);
    for (std::int64_t kd = depths.first; kd < depths.last; ++kd)
      for (std::int64_t kh = heights.first; kh < heights.last; ++kh) {
        const std::int64_t plane = d * s.stride[0] - s.padding[0] + kd;
        const std::int64_t row = plane * s.in[1] + h * s.stride[1] - s.padding[1] + kh;
        for (std::int64_t kw = 0; kw < s.window[2]; ++kw) {
          const Range inside = outputs_inside(s, 2, kw);
          const std::int64_t column = inside.first * s.stride[2] - s.padding[2] + kw;
          if (inside.first < inside.last)
            combine_row<T, maximum>(to + inside.first * s.lanes, in + (row * s.in[2] + column) * s.lanes,
                                    inside.last - inside.first, s.stride[2], s.lanes);
        }
      }
  }
};

template <class T>
void divide_row(T* to, const PoolShape& s, std::int64_t d, std::int64_t h) {
  const auto inside = [&](std::size_t axis, std::int64_t output) {
    const Range range = elements_inside(s, axis, output);
    return range.last - range.first;
  };
  const std::int64_t outer = inside(0, d) * inside(1, h), all = s.window[0] * s.window[1] * s.window[2];
  for (std::int64_t w = 0; w < s.out[2]; ++w) {
    const T count = static_cast<T>(s.include_padding ? all : outer * inside(2, w));
    for (std::int64_t lane = 0; lane < s.lanes; ++lane) to[w * s.lanes + lane] /= count;
  }
}

template <class T>
void pool_rows(T* out, const T* in, const PoolShape& s) {
  for (std::int64_t d = 0; d < s.out[0]; ++d)
    for (std::int64_t h = 0; h < s.out[1]; ++h, out += s.out[2] * s.lanes) {
      if (s.maximum) {
        run_best<PoolRow<T, true>>(out, in, &s, d, h);
      } else if constexpr (std::is_floating_point_v<T>) {
        run_best<PoolRow<T, false>>(out, in, &s, d, h);
        divide_row(out, s, d, h);
      }
    }
}

/// A tensor's spatial axes, innermost by some of its channels where they are adjacent.
AxisGroup positions(const TensorView& view, std::int64_t lanes) {
  Dims extents, strides;
  for (std::size_t axis = 2; axis < view.shape.size(); ++axis) {
    extents.push_back(view.shape[axis]);
    strides.push_back(view.strides[axis]);
  }
  extents.push_back(lanes);
  strides.push_back(view.strides[1]);
  return axis_group(extents, strides);
}

bool channels_are_innermost(const TensorView& view) {
  for (std::size_t axis = 2; axis < view.shape.size(); ++axis)
    if (view.shape[axis] > 1 && std::abs(view.strides[axis]) < std::abs(view.strides[1])) return false;
  return true;
}

/// So that what a task has at hand stays in a cache.
std::int64_t lanes_of_task(const PoolShape& shape, const TensorView& x) {
  if (!channels_are_innermost(x)) return 1;
  const std::int64_t fitting = (std::int64_t{1} << 16) / shape.in_count() / 16 * 16;
  return std::min(std::max<std::int64_t>(fitting, 16), x.shape[1]);
}

template <class T>
void pool(PoolShape shape, const TensorView& x, const TensorView& y) {
  const std::int64_t channels = x.shape[1], lanes = lanes_of_task(shape, x);
  const std::int64_t groups = ceil_divide(channels, lanes);
  for_each_piece(x.shape[0] * groups, lanes * shape.in_count(), [&](std::int64_t first, std::int64_t last) {
    T* const in = scratch<T>(ScratchPlace::task, (shape.in_count() + shape.out_count()) * lanes);
    T* const out = in + shape.in_count() * lanes;
    for (std::int64_t task = first; task < last; ++task) {
      const std::int64_t sample = task / groups, channel = task % groups * lanes;
      PoolShape here = shape;
      here.lanes = std::min(lanes, channels - channel);
      const AxisGroup from = positions(x, here.lanes), to = positions(y, here.lanes);
      const std::int64_t base = sample * x.strides[0] + channel * x.strides[1];
      const std::int64_t result = sample * y.strides[0] + channel * y.strides[1];
      T* const values = target(y, result, to, 0, out);
      pool_rows(values, read(x, base, from, 0, from.count, in), here);
      write(y, result, to, 0, to.count, values);
    }
  });
}

void pool(const Attributes& attributes, Views operands, Views results, bool maximum) {
  const TensorView &x = operands[0], &y = results[0];
  if (y.data == nullptr) return;
  PoolShape shape = pool_shape(std::get<PoolAttributes>(attributes), x, y);
  shape.maximum = maximum;
  switch (register_of(x.dtype)) {
    case Register::f64:
      return pool<double>(shape, x, y);
    case Register::i32:
      return pool<std::int32_t>(shape, x, y);
    case Register::i64:
      return pool<std::int64_t>(shape, x, y);
    default:
      return pool<float>(shape, x, y);
  }
}

}  // namespace

void max_pool(const Attributes& attributes, Views operands, Views results) {
  pool(attributes, operands, results, true);
}

void avg_pool(const Attributes& attributes, Views operands, Views results) {
  pool(attributes, operands, results, false);
}

}  // namespace stiletto::detail::cpu
