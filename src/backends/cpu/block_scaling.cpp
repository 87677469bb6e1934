// SPDX-License-Identifier: Apache-2.0
// quantize and dequantize. A task takes a few lines (runs along the blocked axis) of one matrix and a stretch
// of blocks of them, converts their elements to adjacent numbers, and works on those block by block.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "backends/cpu/instruction_sets.hpp"
#include "backends/cpu/tensor_rows.hpp"
#include "core/block_scales.hpp"

namespace stiletto::detail::cpu {
namespace {

using Views = std::span<const TensorView>;

constexpr std::int64_t task_lines = 16;     // divides a tile's, so that a task has whole lines of padding
constexpr std::int64_t task_blocks = 16;    // lines and blocks of numbers stay in the second cache
constexpr std::int64_t largest_block = 32;  // elements

/// The matrices of a tensor, which has no axes if nobody wants it: lines along the blocked axis.
struct Matrices {
  const TensorView& view;
  AxisGroup batch;
  std::int64_t lines = 0, length = 0;      // length: elements of a line
  std::int64_t line_stride = 0, step = 0;  // elements between lines, and along one
  Matrices(const TensorView& tensor, bool last) : view(tensor) {
    const std::size_t rank = tensor.shape.size();
    if (rank < 2) return;
    const std::size_t along = last ? rank - 1 : rank - 2, across = last ? rank - 2 : rank - 1;
    batch = axis_group(tensor, 0, rank - 2);
    lines = tensor.shape[across], length = tensor.shape[along];
    line_stride = tensor.strides[across], step = tensor.strides[along];
  }
  std::int64_t offset(std::int64_t entry, std::int64_t line, std::int64_t i) const {
    return batch.offset(entry) + line * line_stride + i * step;
  }
};

/// Some lines of a matrix, and elements `first` to first + length − 1 of each.
struct Stretch {
  std::int64_t entry, line, lines, first, length;
};

/// Whether runs go across the lines: where the elements of a line are further apart than lines are.
bool runs_across(const Matrices& m) { return m.step != 1 && std::abs(m.line_stride) < std::abs(m.step); }

/// To adjacent numbers, line after line.
template <class T>
void load(const Matrices& m, const Stretch& s, T* to) {
  const DType dtype = m.view.dtype;
  if (!runs_across(m)) {
    for (std::int64_t l = 0; l < s.lines; ++l)
      load_run(to + l * s.length, dtype, element(m.view, m.offset(s.entry, s.line + l, s.first)), m.step,
               s.length);
    return;
  }
  std::array<T, task_lines> row;
  for (std::int64_t i = 0; i < s.length; ++i) {
    load_run(row.data(), dtype, element(m.view, m.offset(s.entry, s.line, s.first + i)), m.line_stride,
             s.lines);
    for (std::int64_t l = 0; l < s.lines; ++l) to[l * s.length + i] = row[static_cast<std::size_t>(l)];
  }
}

template <class T>
void store(const Matrices& m, const Stretch& s, const T* from) {
  const DType dtype = m.view.dtype;
  if (!runs_across(m)) {
    for (std::int64_t l = 0; l < s.lines; ++l)
      store_run(dtype, element(m.view, m.offset(s.entry, s.line + l, s.first)), m.step, from + l * s.length,
                s.length);
    return;
  }
  std::array<T, task_lines> row;
  for (std::int64_t i = 0; i < s.length; ++i) {
    for (std::int64_t l = 0; l < s.lines; ++l) row[static_cast<std::size_t>(l)] = from[l * s.length + i];
    store_run(dtype, element(m.view, m.offset(s.entry, s.line, s.first + i)), m.line_stride, row.data(),
              s.lines);
  }
}

/// f(stretch, its numbers) for all of x, with room for those; behind(entry, line) once a task's lines are
/// done, of which there are up to `lines` in a matrix.
template <class T, class F, class Behind>
void for_each_stretch(const Matrices& x, std::int64_t lines, std::int64_t block, const F& f,
                      const Behind& behind) {
  const std::int64_t groups = ceil_divide(lines, task_lines);
  for_each_piece(x.batch.count * groups, task_lines * x.length, [&](std::int64_t first, std::int64_t last) {
    T* const values = scratch<T>(ScratchPlace::task, task_lines * task_blocks * largest_block);
    for (std::int64_t task = first; task < last; ++task) {
      Stretch s{task / groups, task % groups * task_lines, 0, 0, 0};
      s.lines = std::clamp<std::int64_t>(x.lines - s.line, 0, task_lines);
      for (; s.lines > 0 && s.first < x.length; s.first += s.length) {
        s.length = std::min(x.length - s.first, task_blocks * block);
        f(s, values);
      }
      behind(s.entry, s.line);
    }
  });
}

// ---- scales ----

/// The scales of a tensor's matrices, in F8_128x4.
class Scales {
 public:
  Scales(const TensorView& view, DType dtype, const Matrices& elements, std::int64_t block, bool last)
      : m_(view, last), dtype_(dtype), grid_{elements.lines, elements.length / block} {}

  bool wanted() const { return m_.view.data != nullptr; }
  const ScaleGrid& grid() const { return grid_; }
  /// A code where the view holds the scales themselves, else the number that the code stands for.
  void put(std::int64_t entry, std::int64_t line, std::int64_t block, std::uint8_t code) const {
    std::byte* const to = at(entry, line, block);
    if (m_.view.dtype == dtype_) {
      *to = static_cast<std::byte>(code);
    } else {
      const float value = decoded(code);
      store_run(m_.view.dtype, to, 1, &value, 1);
    }
  }
  float get(std::int64_t entry, std::int64_t line, std::int64_t block) const {
    const std::byte* const from = at(entry, line, block);
    if (m_.view.dtype == dtype_) return decoded(static_cast<std::uint8_t>(*from));
    float value = 0;
    load_run(&value, m_.view.dtype, from, 1, 1);
    return value;
  }
  float decoded(std::uint8_t code) const { return decode_scale(dtype_, code); }

 private:
  std::byte* at(std::int64_t entry, std::int64_t line, std::int64_t block) const {
    const std::int64_t offset = grid_.offset(line, block), row = grid_.padded_blocks();
    return element(m_.view, m_.offset(entry, offset / row, offset % row));
  }
  Matrices m_;
  DType dtype_;
  ScaleGrid grid_;
};

// ---- quantize ----

/// The largest of a block's magnitudes, as the bits of an integer, which are in the order of the numbers; NaN
/// is above all.
template <class T, class Bits>
struct Magnitudes {
  template <int bytes>
  [[gnu::always_inline]] static void run(const T* values, std::int64_t blocks, std::int64_t size,
                                         Bits* largest) {
    constexpr Bits magnitude = static_cast<Bits>(~Bits{0}) >> 1;
    for (std::int64_t b = 0; b < blocks; ++b, values += size) {
      Bits top = 0;
      for (std::int64_t i = 0; i < size; ++i) {
        const Bits bits = __builtin_bit_cast(Bits, values[i]) & magnitude;
        top = bits > top ? bits : top;
      }
      largest[b] = top;
    }
  }
};

/// The power of two 2^(code − 127) from which on `largest` divided by it is no more than the element type's
/// largest number, mantissa · 2^exponent.
template <class T>
std::uint8_t power_code(T largest, DType element) {
  if (largest == 0) return 0;
  constexpr int bias = 127, most = 254;
  if (std::isinf(largest)) return most;
  const T mantissa = element == DType::float4_e2m1 ? T{1.5} : T{1.75};
  const int exponent = element == DType::float4_e2m1 ? 2 : element == DType::float8_e4m3 ? 8 : 15;
  int e = 0;
  const T m = std::frexp(largest, &e) * 2;  // in [1, 2)
  const int code = e - 1 - exponent + (m > mantissa ? 1 : 0) + bias;
  return static_cast<std::uint8_t>(std::clamp(code, 0, most));
}

/// The nearest float8_e4m3 to largest / 6.
template <class T>
std::uint8_t nearest_code(T largest) {
  constexpr T top = 6;
  const T scale = largest / top;
  std::uint8_t code = 0;
  store_run(DType::float8_e4m3, reinterpret_cast<std::byte*>(&code), 1, &scale, 1);
  return code;
}

/// Blocks of numbers, each by a factor of its own.
template <class T>
struct Multiplied {
  template <int bytes>
  [[gnu::always_inline]] static void run(T* values, std::int64_t blocks, std::int64_t size,
                                         const T* factors) {
    for (std::int64_t b = 0; b < blocks; ++b, values += size)
      for (std::int64_t i = 0; i < size; ++i) values[i] *= factors[b];
  }
};
template <class T>
struct Divided {
  template <int bytes>
  [[gnu::always_inline]] static void run(T* values, std::int64_t blocks, std::int64_t size, const T* by) {
    for (std::int64_t b = 0; b < blocks; ++b, values += size)
      for (std::int64_t i = 0; i < size; ++i) values[i] /= by[b];
  }
};

/// A line's blocks by their scales. Products with powers of two are exact; quotients by others are rounded,
/// but never to a number halfway between two elements unless they are one. By 0 everything is 0.
template <class T>
void divide(T* line, std::int64_t size, std::span<T> scales, bool powers) {
  const auto blocks = static_cast<std::int64_t>(scales.size());
  for (std::int64_t b = 0; b < blocks; ++b) {
    T& scale = scales[static_cast<std::size_t>(b)];
    if (std::isnan(scale)) std::fill_n(line + b * size, size, std::numeric_limits<T>::quiet_NaN());
    if (scale == 0) scale = std::numeric_limits<T>::infinity();
    if (powers) scale = T{1} / scale;
  }
  if (powers)
    run_best<Multiplied<T>>(line, blocks, size, static_cast<const T*>(scales.data()));
  else
    run_best<Divided<T>>(line, blocks, size, static_cast<const T*>(scales.data()));
}

/// In place, to numbers of the element type: for results that others in the graph read.
template <class T>
void round_to(DType dtype, T* values, std::int64_t n) {
  alignas(64) std::array<std::byte, task_blocks * largest_block> codes;
  store_run(dtype, codes.data(), 1, values, n);
  load_run(values, dtype, codes.data(), 1, n);
}

template <class T>
void quantize(const BlockAttributes& a, const TensorView& x_view, const TensorView& y_view,
              const TensorView& scale_view) {
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  const Matrices x(x_view, a.last), y(y_view, a.last);
  const Scales scales(scale_view, a.scale, x, a.size, a.last);
  const auto size = static_cast<std::int64_t>(a.size);
  const bool power = a.scale == DType::float8_e8m0;
  const ScaleGrid& grid = scales.grid();
  constexpr std::uint8_t e8m0_nan = 0xFF, e4m3_nan = 0x7F;
  const auto quantize_stretch = [&](const Stretch& s, T* values) {
    load(x, s, values);
    const std::int64_t blocks = s.length / size;
    std::array<Bits, task_blocks> largest;
    std::array<T, task_blocks> scale;
    for (std::int64_t l = 0; l < s.lines; ++l) {
      T* const line = values + l * s.length;
      run_best<Magnitudes<T, Bits>>(static_cast<const T*>(line), blocks, size, largest.data());
      for (std::size_t b = 0; b < static_cast<std::size_t>(blocks); ++b) {
        const T top = __builtin_bit_cast(T, largest[b]);
        const std::uint8_t code = std::isnan(top) ? (power ? e8m0_nan : e4m3_nan)
                                  : power         ? power_code(top, a.element)
                                                  : nearest_code(top);
        scale[b] = static_cast<T>(scales.decoded(code));
        if (scales.wanted())
          scales.put(s.entry, s.line + l, s.first / size + static_cast<std::int64_t>(b), code);
      }
      divide(line, size, std::span(scale).first(static_cast<std::size_t>(blocks)), power);
      if (y_view.dtype != a.element) round_to(a.element, line, s.length);
    }
    if (y_view.data != nullptr) store(y, s, static_cast<const T*>(values));
  };
  const auto pad = [&](std::int64_t entry, std::int64_t line) {
    if (!scales.wanted()) return;
    for (std::int64_t l = line; l < line + task_lines; ++l)
      for (std::int64_t b = l < grid.lines ? grid.blocks : 0; b < grid.padded_blocks(); ++b)
        scales.put(entry, l, b, 0);
  };
  for_each_stretch<T>(x, grid.padded_lines(), size, quantize_stretch, pad);
}

}  // namespace

void quantize(const Attributes& attributes, Views operands, Views results) {
  const auto& a = std::get<BlockAttributes>(attributes);
  const TensorView &x = operands[0], &y = results[0];
  const TensorView scales = results.size() > 1 ? results[1] : TensorView{};
  if (register_of(x.dtype) == Register::f64)
    quantize<double>(a, x, y, scales);
  else
    quantize<float>(a, x, y, scales);
}

void dequantize(const Attributes& attributes, Views operands, Views results) {
  const auto& a = std::get<BlockAttributes>(attributes);
  const Matrices x(operands[0], a.last), y(results[0], a.last);
  const Scales scales(operands[1], a.scale, x, a.size, a.last);
  const auto size = static_cast<std::int64_t>(a.size);
  const auto dequantize_stretch = [&](const Stretch& s, float* values) {
    load(x, s, values);
    const std::int64_t blocks = s.length / size;
    std::array<float, task_blocks> scale;
    for (std::int64_t l = 0; l < s.lines; ++l) {
      for (std::int64_t b = 0; b < blocks; ++b)
        scale[static_cast<std::size_t>(b)] = scales.get(s.entry, s.line + l, s.first / size + b);
      run_best<Multiplied<float>>(values + l * s.length, blocks, size,
                                  static_cast<const float*>(scale.data()));
    }
    store(y, s, static_cast<const float*>(values));
  };
  for_each_stretch<float>(x, x.lines, size, dequantize_stretch, [](std::int64_t, std::int64_t) {});
}

}  // namespace stiletto::detail::cpu
