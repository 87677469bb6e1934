// SPDX-License-Identifier: Apache-2.0
// Block-scaled arrays: what two arrays have to be to stand for one, and recording quantize and dequantize.
#include "ops/blockscaled.hpp"

#include <algorithm>
#include <iterator>
#include <ostream>
#include <utility>
#include <vector>

#include "core/block_scales.hpp"
#include "core/layout.hpp"
#include "ops/structured.hpp"
#include "stiletto/ops.hpp"

namespace stiletto {

using detail::ArrayAccess;
using detail::ArrayBody;
using detail::operation_text;
using detail::ScaleGrid;
using detail::text;
using detail::throw_dtype;
using detail::throw_shape;

namespace {

constexpr BlockFormat formats[] = {BlockFormat::mxfp8_e4m3, BlockFormat::mxfp8_e5m2, BlockFormat::mxfp4,
                                   BlockFormat::nvfp4};

/// Of the axes of matrices, one in place of the other.
Dims exchanged(Dims dims) {
  std::swap(dims[dims.size() - 2], dims[dims.size() - 1]);
  return dims;
}
/// A view.
Array exchanged(const Array& array) {
  Dims axes;
  for (int i = 0; i < array.rank(); ++i) axes.push_back(i);
  return transpose(array, exchanged(axes));
}

/// A shape in blocks, which has been checked.
struct Blocks {
  Shape shape;
  BlockFormat format;
  bool last = true;  // the blocked axis is the last, else the second last

  int axis() const { return static_cast<int>(shape.size()) - (last ? 1 : 2); }
  std::int64_t blocked() const { return shape[static_cast<std::size_t>(axis())]; }
  ScaleGrid grid() const { return {shape[shape.size() - (last ? 2 : 1)], blocked() / format.block_size}; }
  /// Of a matrix (outer, blocked) per batch entry, as the axes of this shape lie.
  Shape matrices(std::int64_t outer, std::int64_t inner) const {
    Shape result = shape;
    result[shape.size() - 2] = outer;
    result[shape.size() - 1] = inner;
    return last ? result : exchanged(result);
  }
  Shape scales() const { return matrices(grid().padded_lines(), grid().padded_blocks()); }
  Shape plain_scales() const { return matrices(grid().lines, grid().blocks); }
  /// Dense, adjacent along the blocked axis.
  Strides strides(const Shape& of) const {
    return last ? detail::row_major(of) : exchanged(detail::row_major(exchanged(of)));
  }
  detail::BlockAttributes attributes() const {
    return {format.element, format.scale, static_cast<std::uint32_t>(format.block_size), last};
  }
};

Blocks checked(Shape shape, BlockFormat format, int axis, const char* name) {
  if (std::find(std::begin(formats), std::end(formats), format) == std::end(formats))
    throw_dtype(name, "there is no format of ", format.block_size, ' ', format.element, " that share a ",
                format.scale, "; take mxfp8_e4m3, mxfp8_e5m2, mxfp4 or nvfp4");
  const int rank = static_cast<int>(shape.size());
  if (rank < 2)
    throw_shape(name, "shape ", shape,
                " has no matrix to block; give it two axes with reshape or expand_dims");
  const int counted = axis < 0 ? axis + rank : axis;
  if (counted != rank - 1 && counted != rank - 2)
    throw_shape(name, "axis ", axis, " of shape ", shape,
                " is not one of the last two, along which blocks lie; take -1 or -2");
  const Blocks blocks{shape, format, counted == rank - 1};
  if (blocks.blocked() % format.block_size != 0)
    throw_shape(name, "axis ", axis, " of shape ", shape, " has extent ", blocks.blocked(),
                ", which is no multiple of the block size ", format.block_size, "; pad it with zeros");
  detail::element_count(blocks.scales(), name);
  return blocks;
}

/// What an array that exists is: the format is in its dtypes, the blocked axis in the shape of its scales.
Blocks blocks_of(const BlockscaledArray& array, const char* name) {
  const ArrayBody& elements = ArrayAccess::body(BlockscaledAccess::elements(array), name);
  const ArrayBody& scales = ArrayAccess::body(BlockscaledAccess::scales(array), name);
  const auto same = [&](const BlockFormat& f) {
    return f.element == elements.dtype && f.scale == scales.dtype;
  };
  Blocks blocks{elements.shape, *std::find_if(std::begin(formats), std::end(formats), same), true};
  blocks.last = blocks.scales() == scales.shape;
  return blocks;
}

/// Uninitialised, dense and adjacent along the blocked axis.
Array dense(const Blocks& blocks, const Shape& shape, DType dtype, Device device) {
  return blocks.last ? empty(shape, dtype, device) : exchanged(empty(exchanged(shape), dtype, device));
}

void check_concrete(const ArrayBody& body, const char* name) {
  if (body.kind == ArrayBody::Kind::concrete) return;
  throw TraceError(text(operation_text(name), ": an array that ",
                        body.kind == ArrayBody::Kind::traced ? "is traced" : "has no memory",
                        " has no bytes to look at yet; do it outside the traced function"));
}

/// The same bytes as elements of another type.
Array reinterpreted(const Array& bytes, const Shape& shape, const Strides& strides, DType dtype,
                    const char* name) {
  ArrayBody body = ArrayAccess::body(bytes, name);
  check_concrete(body, name);
  body.offset = body.offset * 8 / detail::bits_of(dtype);
  body.dtype = dtype;
  body.shape = shape;
  body.strides = strides;
  return ArrayAccess::make(std::move(body));
}

/// A buffer of bytes has to be dense and of this size.
void check_bytes(const ArrayBody& body, std::int64_t bytes, const char* what, const char* name) {
  const std::int64_t given = detail::element_count_unchecked(body.shape);
  if (given != bytes || !detail::is_row_major(body.shape, body.strides))
    throw_shape(name, what, " of shape ", body.shape, " with strides ", body.strides, " are not ", bytes,
                " bytes behind one another; pass a contiguous array of that many");
}

Array elements_from(const Array& given, const Blocks& blocks, const char* name) {
  const ArrayBody& body = detail::array_operand(given, name, "elements");
  const DType dtype = blocks.format.element;
  if (body.dtype == DType::uint8) {
    const std::int64_t count = detail::element_count(blocks.shape, name);
    check_bytes(body, static_cast<std::int64_t>(detail::bytes_for(dtype, count)), "elements", name);
    return reinterpreted(given, blocks.shape, blocks.strides(blocks.shape), dtype, name);
  }
  if (body.dtype != dtype)
    throw_dtype(name, "elements are ", body.dtype, "; ", blocks.format, " has ", dtype, ", or uint8");
  if (body.shape != blocks.shape)
    throw_shape(name, "elements have shape ", body.shape, ", not ", blocks.shape,
                "; reshape them, or pass their bytes as uint8");
  const bool packed = dtype == DType::float4_e2m1 && detail::element_count_unchecked(body.shape) != 0;
  if (packed && body.strides[static_cast<std::size_t>(blocks.axis())] != 1)
    throw_shape(name, "elements of shape ", body.shape, " with strides ", body.strides,
                " are not adjacent along axis ", blocks.axis(),
                ", along which float4_e2m1 is blocked; block "
                "along the other axis");
  return given;
}

/// `shape` is what the scales are to have in all.
Array scales_from(const Array& given, const Blocks& blocks, const Shape& shape, const char* name) {
  const ArrayBody& body = detail::array_operand(given, name, "scales");
  if (body.dtype != blocks.format.scale && body.dtype != DType::uint8)
    throw_dtype(name, "scales are ", body.dtype, "; ", blocks.format, " has ", blocks.format.scale,
                ", or uint8");
  if (detail::element_count_unchecked(body.shape) != detail::element_count_unchecked(shape))
    throw_shape(name, "scales of shape ", body.shape, " are not the ", shape, " that ", blocks.format,
                " of shape ", blocks.shape, " has");
  return given;
}

void check_one_device(const Array& elements, const Array& scales, const char* name) {
  if (elements.device() != scales.device())
    throw DeviceError(text(operation_text(name), ": elements are on ", elements.device(), ", scales on ",
                           scales.device(), "; move one with to(device)"));
}

/// Scales in the order of memory, on the CPU.
Array flat_scales(const BlockscaledArray& array, std::int64_t first, std::int64_t count, const char* name) {
  const Array& scales = BlockscaledAccess::scales(array);
  check_concrete(ArrayAccess::body(scales, name), name);
  return as_strided(scales, {count}, {1}, first).to(Device::cpu());
}

/// f(offset in plain row-major order, offset in F8_128x4), batch entries included.
template <class F>
void for_each_scale(const Blocks& blocks, const F& f) {
  const ScaleGrid grid = blocks.grid();
  const std::int64_t matrix = grid.lines * grid.blocks;
  const std::int64_t batch =
      matrix == 0 ? 0 : detail::element_count_unchecked(blocks.plain_scales()) / matrix;
  for (std::int64_t b = 0; b < batch; ++b)
    for (std::int64_t line = 0; line < grid.lines; ++line)
      for (std::int64_t block = 0; block < grid.blocks; ++block) {
        const std::int64_t plain = blocks.last ? line * grid.blocks + block : block * grid.lines + line;
        f(b * matrix + plain, b * grid.count() + grid.offset(line, block));
      }
}

detail::StructuredCall quantization(const Blocks& blocks, const Array& x, const char* name) {
  const BlockFormat& f = blocks.format;
  return {detail::Op::quantize,
          name,
          blocks.attributes(),
          {x},
          {{blocks.shape, blocks.strides(blocks.shape), f.element},
           {blocks.scales(), blocks.strides(blocks.scales()), f.scale}}};
}

void store(const BlockscaledArray& destination, const Array& x, const char* name) {
  const Blocks blocks = blocks_of(destination, name);
  const ArrayBody& body = detail::array_operand(x, name, "x");
  detail::check_floating(body, name, "x");
  if (body.shape != blocks.shape)
    throw_shape(name, "x has shape ", body.shape, ", the destination ", blocks.shape,
                "; a block-scaled array is written whole, because scales couple elements");
  detail::write_results(quantization(blocks, x, name),
                        {BlockscaledAccess::elements(destination), BlockscaledAccess::scales(destination)});
}

/// In a trace, what an array is a part of must not be written by itself.
Array part(const Array& array, const char* name) {
  const ArrayBody& body = ArrayAccess::body(array, name);
  detail::Trace* const trace = detail::Trace::current();
  if (trace != nullptr && body.kind == ArrayBody::Kind::traced && body.trace == trace->id())
    trace->mark_block_part(body.node);
  return array;
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const BlockFormat& format) {
  constexpr const char* names[] = {"mxfp8_e4m3", "mxfp8_e5m2", "mxfp4", "nvfp4"};
  const auto* const found = std::find(std::begin(formats), std::end(formats), format);
  if (found != std::end(formats)) return out << names[found - std::begin(formats)];
  return out << format.block_size << ' ' << format.element << " by " << format.scale;
}

BlockscaledArray BlockscaledArray::empty(Shape shape, BlockFormat format, int axis, Device device) {
  const Blocks blocks = checked(shape, format, axis, "BlockscaledArray::empty");
  return {dense(blocks, shape, format.element, device), dense(blocks, blocks.scales(), format.scale, device)};
}

BlockscaledArray BlockscaledArray::spec(Shape shape, BlockFormat format, int axis) {
  const Blocks blocks = checked(shape, format, axis, "BlockscaledArray::spec");
  const Shape scales = blocks.scales();
  return {stiletto::spec(shape, format.element, blocks.strides(shape)),
          stiletto::spec(scales, format.scale, blocks.strides(scales))};
}

BlockscaledArray BlockscaledArray::from_parts(const Array& elements, const Array& scales, Shape shape,
                                              BlockFormat format, int axis) {
  constexpr const char* name = "BlockscaledArray::from_parts";
  const Blocks blocks = checked(shape, format, axis, name);
  const Array codes = elements_from(elements, blocks, name);
  const Shape tiled = blocks.scales();
  const ArrayBody& given = *ArrayAccess::body_or_null(scales_from(scales, blocks, tiled, name));
  check_one_device(codes, scales, name);
  const Strides strides = blocks.strides(tiled);
  const bool in_shape = given.shape == tiled;  // laid out as `scales` is, or its bytes are in another order
  if (!in_shape) check_bytes(given, detail::element_count_unchecked(tiled), "scales", name);
  if (in_shape &&
      detail::canonical_strides(tiled, given.strides) != detail::canonical_strides(tiled, strides))
    throw_shape(name, "scales of shape ", tiled, " have strides ", given.strides, ", not ", strides,
                "; in this shape they lie as scales() does: pass bytes in F8_128x4 as an array of one axis");
  if (given.dtype != format.scale) return {codes, reinterpreted(scales, tiled, strides, format.scale, name)};
  return {codes, in_shape ? scales : as_strided(scales, tiled, strides)};
}

BlockscaledArray BlockscaledArray::from_plain_parts(const Array& elements, const Array& plain_scales,
                                                    Shape shape, BlockFormat format, int axis) {
  constexpr const char* name = "BlockscaledArray::from_plain_parts";
  const Blocks blocks = checked(shape, format, axis, name);
  const Array codes = elements_from(elements, blocks, name);
  const Shape plain = blocks.plain_scales();
  const ArrayBody& given = *ArrayAccess::body_or_null(scales_from(plain_scales, blocks, plain, name));
  if (given.shape != plain)
    throw_shape(name, "scales have shape ", given.shape, ", not ", plain,
                ": one for each block; reshape them");
  check_concrete(given, name);
  check_one_device(codes, plain_scales, name);
  const Array bytes = plain_scales.to(Device::cpu()).copy();
  const Array tiled = zeros({detail::element_count_unchecked(blocks.scales())}, DType::uint8);
  const auto* const from = static_cast<const std::uint8_t*>(bytes.raw_data());
  auto* const to = static_cast<std::uint8_t*>(tiled.raw_data());
  for_each_scale(blocks, [&](std::int64_t i, std::int64_t tiled_i) { to[tiled_i] = from[i]; });
  return from_parts(codes, tiled.to(plain_scales.device()), shape, format, axis);
}

const Shape& BlockscaledArray::shape() const { return ArrayAccess::body(elements_, "shape").shape; }
BlockFormat BlockscaledArray::format() const { return blocks_of(*this, "format").format; }
int BlockscaledArray::axis() const { return blocks_of(*this, "axis").axis(); }
int BlockscaledArray::rank() const { return elements_.rank(); }
Device BlockscaledArray::device() const { return elements_.device(); }
bool BlockscaledArray::is_traced() const { return elements_.is_traced(); }
std::size_t BlockscaledArray::nbytes() const { return elements_.nbytes() + scales_.nbytes(); }

BlockscaledArray BlockscaledArray::to(Device device) const {
  const Blocks blocks = blocks_of(*this, "to");
  if (device == elements_.device()) return *this;
  // Copies between devices are contiguous, and adjacent pairs of float4 stay so.
  const auto moved = [&](const Array& array) {
    return blocks.last ? array.to(device) : exchanged(exchanged(array).to(device));
  };
  return {moved(elements_), moved(scales_)};
}

Array BlockscaledArray::elements() const { return part(elements_, "elements"); }
Array BlockscaledArray::scales() const { return part(scales_, "scales"); }

Array BlockscaledArray::plain_scales() const {
  constexpr const char* name = "plain_scales";
  const Blocks blocks = blocks_of(*this, name);
  const Array tiled = flat_scales(*this, 0, detail::element_count_unchecked(blocks.scales()), name);
  const Array plain = stiletto::empty(blocks.plain_scales(), blocks.format.scale);
  const auto* const from = static_cast<const std::uint8_t*>(tiled.raw_data());
  auto* const to = static_cast<std::uint8_t*>(plain.raw_data());
  for_each_scale(blocks, [&](std::int64_t i, std::int64_t tiled_i) { to[i] = from[tiled_i]; });
  return plain.to(device());
}

float BlockscaledArray::scale_at(Dims index) const {
  constexpr const char* name = "scale_at";
  const Blocks blocks = blocks_of(*this, name);
  const Shape plain = blocks.plain_scales();
  bool inside = index.size() == plain.size();
  for (std::size_t i = 0; inside && i < index.size(); ++i) inside = index[i] >= 0 && index[i] < plain[i];
  if (!inside)
    throw ArgumentError(text(operation_text(name), ": there is no scale ", index, " among ", plain,
                             "; give one index for each axis, blocks along axis ", blocks.axis()));
  const ScaleGrid grid = blocks.grid();
  std::int64_t batch = 0;
  for (std::size_t i = 0; i + 2 < index.size(); ++i) batch = batch * plain[i] + index[i];
  const std::int64_t row = index[index.size() - 2], column = index[index.size() - 1];
  const std::int64_t offset =
      batch * grid.count() + (blocks.last ? grid.offset(row, column) : grid.offset(column, row));
  const Array one = flat_scales(*this, offset, 1, name);
  const std::uint8_t code = *static_cast<const std::uint8_t*>(one.raw_data());
  return detail::decode_scale(blocks.format.scale, code);
}

void quantize_into(const BlockscaledArray& destination, const Array& x) {
  store(destination, x, "quantize_into");
}
void assign(const BlockscaledArray& destination, const Array& value) { store(destination, value, "assign"); }

BlockscaledArray quantize(const Array& x, BlockFormat format, int axis) {
  constexpr const char* name = "quantize";
  const ArrayBody& body = detail::array_operand(x, name, "x");
  detail::check_floating(body, name, "x");
  const std::vector<Array> made =
      detail::results_of(quantization(checked(body.shape, format, axis, name), x, name), 2);
  return BlockscaledAccess::make(made[0], made[1]);
}

Array dequantize(const BlockscaledArray& array, DType dtype) {
  constexpr const char* name = "dequantize";
  const Blocks blocks = blocks_of(array, name);
  if (!detail::is_floating(dtype))
    throw_dtype(name, "the result is to be ", dtype,
                "; it has to be float16, bfloat16, float32 or float64: cast it afterwards");
  const Array x = detail::results_of({detail::Op::dequantize,
                                      name,
                                      blocks.attributes(),
                                      {BlockscaledAccess::elements(array), BlockscaledAccess::scales(array)},
                                      {{blocks.shape, detail::row_major(blocks.shape), DType::float32}}},
                                     1)[0];
  return dtype == DType::float32 ? x : cast(x, dtype);
}

}  // namespace stiletto
