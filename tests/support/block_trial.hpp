// SPDX-License-Identifier: Apache-2.0
// Block-scaled arrays beside the reference: what one holds, code by code, what it should hold, and operands
// for it.
#pragma once
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "support/block_reference.hpp"
#include "support/compare.hpp"

namespace support {

using stiletto::BlockFormat;
using stiletto::BlockscaledArray;

struct BlockKind {
  BlockFormat format;
  block_reference::Format reference;
  const char* name;

  std::int64_t size() const { return static_cast<std::int64_t>(reference.size); }
  friend std::ostream& operator<<(std::ostream& out, const BlockKind& kind) { return out << kind.name; }
};
inline constexpr BlockKind block_kinds[] = {
    {BlockFormat::mxfp8_e4m3, block_reference::mxfp8_e4m3, "mxfp8_e4m3"},
    {BlockFormat::mxfp8_e5m2, block_reference::mxfp8_e5m2, "mxfp8_e5m2"},
    {BlockFormat::mxfp4, block_reference::mxfp4, "mxfp4"},
    {BlockFormat::nvfp4, block_reference::nvfp4, "nvfp4"}};

/// What a block-scaled array holds, in row-major order: a code for each element, one for each block's scale.
struct Blocks {
  BlockKind kind;
  Extents shape;
  int axis = -1;  // -1 or -2
  std::vector<std::uint8_t> codes, scales;

  std::size_t blocked() const { return shape.size() - static_cast<std::size_t>(-axis); }
  Extents plain_scales() const {
    Extents plain = shape;
    plain[blocked()] /= kind.size();
    return plain;
  }
  std::int64_t lines() const { return shape[2 * shape.size() - 3 - blocked()]; }
  std::int64_t blocks() const { return shape[blocked()] / kind.size(); }

  /// visit(which scale, elements of its block)
  template <class Visit>
  void for_each_block(Visit visit) const {
    const Extents dense = row_major(shape);
    std::size_t scale = 0;
    std::vector<std::size_t> elements(kind.reference.size);
    for_each_index(plain_scales(), [&](Extents index) {
      index[blocked()] *= kind.size();
      for (std::size_t i = 0; i < elements.size(); ++i)
        elements[i] =
            static_cast<std::size_t>(dot(index, dense)) + i * static_cast<std::size_t>(dense[blocked()]);
      visit(scale++, std::as_const(elements));
    });
  }

  /// The bytes of the scales as cuDNN wants them: zeros between and behind.
  std::vector<std::uint8_t> tiled_scales() const {
    const std::int64_t matrix = block_reference::scale_bytes(lines(), blocks()),
                       scales_each = lines() * blocks();
    const std::int64_t batch = scales_each == 0 ? 0 : static_cast<std::int64_t>(scales.size()) / scales_each;
    std::vector<std::uint8_t> bytes(static_cast<std::size_t>(batch * matrix));
    for (std::int64_t i = 0; i < batch * scales_each; ++i) {
      const std::int64_t at = i % scales_each, line = axis == -1 ? at / blocks() : at % lines(),
                         block = axis == -1 ? at % blocks() : at / lines();
      bytes[static_cast<std::size_t>(i / scales_each * matrix +
                                     block_reference::scale_offset(line, block, blocks()))] =
          scales[static_cast<std::size_t>(i)];
    }
    return bytes;
  }

  /// What it stands for, exactly.
  Tensor values() const {
    Tensor result(DType::float32, shape);
    for_each_block([&](std::size_t scale, const auto& elements) {
      for (const std::size_t e : elements)
        result.values[e] = Real{block_reference::decode(codes[e], kind.format.element)} *
                           Real{block_reference::decode(scales[scale], kind.format.scale)};
    });
    return result;
  }
};

inline Blocks blocks_of(const BlockKind& kind, const Extents& shape, int axis) {
  Blocks result{kind, shape, axis, {}, {}};
  result.codes.resize(static_cast<std::size_t>(count_of(shape)));
  result.scales.resize(static_cast<std::size_t>(count_of(result.plain_scales())));
  return result;
}

/// By the reference.
inline Blocks quantized(const Tensor& x, const BlockKind& kind, int axis) {
  Blocks result = blocks_of(kind, x.shape, axis);
  result.for_each_block([&](std::size_t scale, const auto& elements) {
    std::vector<double> block;
    for (const std::size_t e : elements) block.push_back(static_cast<double>(x.values[e]));
    const auto made = block_reference::quantize_block(std::span<const double>(block), kind.reference);
    for (std::size_t i = 0; i < elements.size(); ++i) result.codes[elements[i]] = made.codes[i];
    result.scales[scale] = made.scale;
  });
  return result;
}

/// Elements and scales of which sums of up to a thousand products are exact in float32, in every format.
inline Blocks exact_blocks(Random& random, const BlockKind& kind, const Extents& shape, int axis) {
  constexpr Real elements[] = {0, 0.5L, 1, 1.5L, 2, 3, 4, 6}, scales[] = {0.5L, 1, 2};
  Blocks result = blocks_of(kind, shape, axis);
  for (auto& code : result.codes)
    code = static_cast<std::uint8_t>(
        encode_small(elements[random.below(8)] * (random.chance(50) ? -1 : 1), kind.format.element));
  for (auto& code : result.scales) {
    const Real scale = scales[random.below(3)];
    store(&code, 0, kind.format.scale, scale);
  }
  return result;
}

// ---- to and from the library ----

/// The codes of elements of `shape` whose axes have these strides, as bytes.
inline std::vector<std::uint8_t> packed(const Blocks& blocks, const Extents& strides, std::int64_t storage) {
  const bool half_bytes = blocks.kind.format.element == DType::float4_e2m1;
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(half_bytes ? (storage + 1) / 2 : storage));
  std::size_t i = 0;
  for_each_index(blocks.shape, [&](const Extents& index) {
    const auto at = static_cast<std::size_t>(dot(index, strides));
    const std::uint8_t code = blocks.codes[i++];
    if (half_bytes)
      bytes[at / 2] |= static_cast<std::uint8_t>(code << at % 2 * 4);
    else
      bytes[at] = code;
  });
  return bytes;
}

/// Dense and adjacent along the blocked axis.
inline Extents block_strides(const Blocks& blocks) {
  Extents strides = row_major(blocks.shape);
  if (blocks.axis == -1) return strides;
  const std::size_t rank = strides.size();
  strides[rank - 2] = 1;
  strides[rank - 1] = blocks.shape[rank - 2];
  return strides;
}

inline Array bytes_array(const std::vector<std::uint8_t>& bytes, stiletto::Device where = device()) {
  return stiletto::from_data(std::span<const std::uint8_t>(bytes), {static_cast<std::int64_t>(bytes.size())})
      .to(where);
}

inline BlockscaledArray to_blockscaled(const Blocks& blocks, stiletto::Device where = device()) {
  const auto bytes = packed(blocks, block_strides(blocks), count_of(blocks.shape));
  return BlockscaledArray::from_parts(bytes_array(bytes, where), bytes_array(blocks.tiled_scales(), where),
                                      dims(blocks.shape), blocks.kind.format, blocks.axis);
}

/// Whether the array holds exactly this, padding included.
inline testing::AssertionResult holds(const BlockscaledArray& array, const Blocks& wanted) {
  if (array.format() != wanted.kind.format || extents(array.shape()) != wanted.shape ||
      array.axis() != static_cast<int>(wanted.blocked()))
    return testing::AssertionFailure()
           << array.format() << array.shape() << " along " << array.axis() << " instead of "
           << wanted.kind.name << describe(wanted.shape) << " along " << wanted.blocked();
  const BlockscaledArray host = array.to(stiletto::Device::cpu());
  const auto scales = wanted.tiled_scales();
  const Array elements = host.elements(), found = host.scales();
  if (found.nbytes() != scales.size())
    return testing::AssertionFailure() << found.nbytes() << " bytes of scales instead of " << scales.size();
  if (scales.empty()) return testing::AssertionSuccess();
  const auto* const bytes = static_cast<const std::uint8_t*>(found.raw_data());
  for (std::size_t i = 0; i < scales.size(); ++i)
    if (bytes[i] != scales[i])
      return testing::AssertionFailure()
             << "byte " << i << " of the scales is " << int{bytes[i]} << " instead of " << int{scales[i]};
  const auto* const codes = static_cast<const std::uint8_t*>(elements.raw_data());
  const Extents strides = extents(elements.strides());
  const bool half_bytes = wanted.kind.format.element == DType::float4_e2m1;
  testing::AssertionResult result = testing::AssertionSuccess();
  std::size_t i = 0;
  for_each_index(wanted.shape, [&](const Extents& index) {
    const std::int64_t at = dot(index, strides);
    const int code = half_bytes ? codes[at / 2] >> at % 2 * 4 & 15 : codes[at];
    if (code != wanted.codes[i] && result)
      result = testing::AssertionFailure() << "the code at " << describe(index) << " is " << code
                                           << " instead of " << int{wanted.codes[i]};
    ++i;
  });
  return result;
}

// ---- numbers to quantize ----

/// A block of numbers of the type, of one of the kinds that need care.
inline std::vector<Real> block_numbers(Random& random, DType dtype, std::size_t count) {
  const bool wide = dtype == DType::float32 || dtype == DType::float64;
  const Real least = 2 * half_step(dtype), top = dtype == DType::float64 ? std::numeric_limits<double>::max()
                                                 : dtype == DType::float32 ? std::numeric_limits<float>::max()
                                                                           : format_of(dtype).largest;
  const auto sign = [&] { return random.chance(50) ? Real{1} : Real{-1}; };
  const int exponent = static_cast<int>(random.below(wide || dtype == DType::bfloat16 ? 240 : 26)) -
                       (wide || dtype == DType::bfloat16 ? 126 : 12);
  const std::int64_t kind = random.below(12);
  std::vector<Real> x(count);
  for (Real& value : x) {
    switch (kind) {
      case 0:  // zeros of both signs
        value = sign() * 0;
        break;
      case 1:  // subnormals
        value = sign() * least * static_cast<Real>(random.below(9));
        break;
      case 2:  // nearly everything there is
        value = sign() * top * random.uniform(0.25L, 1);
        break;
      case 3:  // halfway between elements, and next to there
        value = sign() * static_cast<Real>(1 + random.below(63)) *
                (1 + static_cast<Real>(random.below(3) - 1) * std::ldexp(Real{1}, -23));
        break;
      case 4:  // many binades in one block
        value = sign() * std::ldexp(random.uniform(1, 2), static_cast<int>(random.below(20)) - 14);
        break;
      default:
        value = std::ldexp(random.uniform(-1, 1), exponent);
    }
    value = std::fmin(std::fmax(round_float(value, dtype), -top), top);
  }
  const auto one = static_cast<std::size_t>(random.below(static_cast<std::int64_t>(count)));
  constexpr Real bounds[] = {448, 57344, 6, 2688};  // the largest elements, and NVFP4's range
  if (kind == 5) x[one] = sign() * infinity;
  if (kind == 6) x[one] = sign() * not_a_number;
  if (kind == 7) {  // on a bound between two scales and next to it
    const Real bound = std::ldexp(bounds[random.below(4)], static_cast<int>(random.below(6)) - 3);
    for (Real& value : x) value = round_float(random.uniform(-bound, bound), dtype);
    x[one] =
        round_float(bound * (1 + static_cast<Real>(random.below(3) - 1) * std::ldexp(Real{1}, -23)), dtype);
  }
  return x;
}

/// Numbers such that blocks along the axis are those above.
inline Tensor numbers_to_quantize(Random& random, DType dtype, const BlockKind& kind, const Extents& shape,
                                  int axis) {
  Tensor x(dtype, shape);
  blocks_of(kind, shape, axis).for_each_block([&](std::size_t, const auto& elements) {
    const std::vector<Real> numbers = block_numbers(random, dtype, elements.size());
    for (std::size_t i = 0; i < elements.size(); ++i) x.values[elements[i]] = numbers[i];
  });
  return x;
}

/// These values in a layout; those it shows where the layout repeats some.
inline Operand placed(const Tensor& x, Layout layout) {
  Operand out;
  out.placement = place(layout, x.shape);
  Tensor storage(x.dtype, {out.placement.storage});
  std::size_t i = 0;
  const auto at = [&](const Extents& index) {
    return static_cast<std::size_t>(out.placement.offset + dot(index, out.placement.strides));
  };
  for_each_index(x.shape, [&](const Extents& index) { storage.values[at(index)] = x.values[i++]; });
  out.storage = to_array(storage);
  out.array =
      stiletto::as_strided(out.storage, dims(x.shape), dims(out.placement.strides), out.placement.offset);
  out.values = tabulate(x.dtype, x.shape, [&](const Extents& index) { return storage.values[at(index)]; });
  return out;
}

}  // namespace support
