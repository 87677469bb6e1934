// SPDX-License-Identifier: Apache-2.0
// Block-scaled matrices: narrow elements, of which each block along one axis shares a scale (OCP
// Microscaling Formats 1.0 for MXFP8 and MXFP4, and NVFP4). docs/blockscaled.md has the rules and a picture.
#pragma once
#include "stiletto/array.hpp"
#include "stiletto/device.hpp"
#include "stiletto/dtype.hpp"
#include "stiletto/export.hpp"
#include "stiletto/nn.hpp"

namespace stiletto {

/// One of the four formats; functions refuse any other combination with DTypeError.
struct BlockFormat {
  DType element, scale;
  int block_size;  ///< elements that share a scale

  static const BlockFormat mxfp8_e4m3;  ///< 32 float8_e4m3, a power of two
  static const BlockFormat mxfp8_e5m2;  ///< 32 float8_e5m2, a power of two
  static const BlockFormat mxfp4;       ///< 32 float4_e2m1, a power of two
  static const BlockFormat nvfp4;       ///< 16 float4_e2m1, a float8_e4m3
  bool operator==(const BlockFormat&) const = default;
};
inline constexpr BlockFormat BlockFormat::mxfp8_e4m3 = {DType::float8_e4m3, DType::float8_e8m0, 32};
inline constexpr BlockFormat BlockFormat::mxfp8_e5m2 = {DType::float8_e5m2, DType::float8_e8m0, 32};
inline constexpr BlockFormat BlockFormat::mxfp4 = {DType::float4_e2m1, DType::float8_e8m0, 32};
inline constexpr BlockFormat BlockFormat::nvfp4 = {DType::float4_e2m1, DType::float8_e4m3, 16};
STILETTO_API std::ostream& operator<<(std::ostream&, const BlockFormat&);

/// A matrix, or a batch of them, in blocks along its last or second last axis, whose extent is a multiple of
/// the block size. A handle like Array, with two arrays inside; traced functions take, capture and return it
/// as one value. It has no views, because scales couple elements: it is written whole, by quantize_into,
/// assign or matmul_into.
class STILETTO_API BlockscaledArray {
 public:
  BlockscaledArray() = default;  ///< an empty handle; using it throws ArgumentError

  /// Uninitialised. `axis` is the blocked one, −1 or −2 or the same counted from the front; elements are
  /// adjacent along it. ShapeError where the shape has fewer than two axes, `axis` is another or its extent
  /// no multiple of the block size; DTypeError where the format is none of the four.
  static BlockscaledArray empty(Shape, BlockFormat, int axis, Device = Device::cpu());
  /// A shape without memory, to compile for; on cuda(0) unless compiled for a target.
  static BlockscaledArray spec(Shape, BlockFormat, int axis);
  /// From two buffers, which it shares. `elements`: an array of `shape` of the element type (any memory order
  /// for float8; adjacent along the blocked axis for float4), or of uint8 that holds its bytes densely,
  /// adjacent along the blocked axis. `scales`: of the scale type or uint8, laid out as scales() is or
  /// contiguous and of any other shape, in cuDNN's order F8_128x4, padding included, one tiled matrix per
  /// batch entry. That is how PyTorch's scaled products take them, too. Errors as of `empty`; ShapeError
  /// where a buffer has another size.
  static BlockscaledArray from_parts(const Array& elements, const Array& scales, Shape, BlockFormat,
                                     int axis);
  /// The same with scales in plain order: of `shape` with one scale per block along the blocked axis. They
  /// are copied. Not inside a trace (TraceError).
  static BlockscaledArray from_plain_parts(const Array& elements, const Array& plain_scales, Shape,
                                           BlockFormat, int axis);

  const Shape& shape() const;
  BlockFormat format() const;
  /// The blocked one, counted from the front; of 0 by 0 elements, which have no scales to tell, the last.
  int axis() const;
  int rank() const;
  Device device() const;
  bool is_traced() const;
  std::size_t nbytes() const;  ///< of elements and scales, padding included
  BlockscaledArray to(Device) const;

  /// Of the logical shape. What lies behind a traced one may be read, and not stored to (TraceError).
  Array elements() const;
  /// In cuDNN's order F8_128x4: the unblocked axis, padded to a multiple of 128, by the blocks, padded to a
  /// multiple of 4, in tiles of 128 by 4; the array's axes lie as those of the matrix do.
  Array scales() const;
  /// Scales in plain row-major order, one per block: the logical shape divided by the block size along the
  /// blocked axis. A copy. Not inside a trace (TraceError).
  Array plain_scales() const;
  /// One scale: `index` has the batch entry's indices, row and column, counted in blocks along the blocked
  /// axis. NaN where the block holds NaN. ArgumentError outside the range.
  float scale_at(Dims index) const;

  /// For tracing: the arrays that this value consists of.
  auto fields() { return std::tie(elements_, scales_); }

 private:
  friend struct BlockscaledAccess;
  BlockscaledArray(Array elements, Array scales)
      : elements_(std::move(elements)), scales_(std::move(scales)) {}
  Array elements_, scales_;  // format and axis follow from their dtypes and the scales' shape
};

/// Each block's scale, then each element divided by it and rounded to nearest even; docs/blockscaled.md has
/// the formulas. x is float16, bfloat16, float32 or float64, of the destination's shape (ShapeError,
/// DTypeError). Inside a trace the destination has to be an argument (TraceError), and x is taken before it
/// is rounded to its own type. On a GPU x has to be computed by a product in the same graph.
STILETTO_API void quantize_into(const BlockscaledArray& destination, const Array& x);
STILETTO_API BlockscaledArray quantize(const Array& x, BlockFormat, int axis);
/// Element times scale, exact in float32 up to its range, then rounded to `dtype`, a floating-point one.
STILETTO_API Array dequantize(const BlockscaledArray&, DType = DType::float32);
/// The same as quantize_into.
STILETTO_API void assign(const BlockscaledArray& destination, const Array& value);

/// Products of what dequantize gives; shapes as in matmul for arrays. The result is float32 (float64 beside
/// float64). On a GPU both operands have to be block-scaled, along the summed axis, in one format or both in
/// MXFP8.
STILETTO_API Array matmul(const BlockscaledArray&, const BlockscaledArray&);
STILETTO_API Array matmul(const BlockscaledArray&, const Array&);
STILETTO_API Array matmul(const Array&, const BlockscaledArray&);
/// quantize_into(c, matmul(a, b)) in one graph.
STILETTO_API void matmul_into(const BlockscaledArray& c, const Array& a, const Array& b);
STILETTO_API void matmul_into(const BlockscaledArray& c, const BlockscaledArray& a,
                              const BlockscaledArray& b);
STILETTO_API void matmul_into(const BlockscaledArray& c, const BlockscaledArray& a, const Array& b);
STILETTO_API void matmul_into(const BlockscaledArray& c, const Array& a, const BlockscaledArray& b);
/// c becomes alpha·a·b + beta·c, as in matmul_into for arrays.
STILETTO_API void matmul_into(const Array& c, const BlockscaledArray& a, const BlockscaledArray& b,
                              double alpha = 1, double beta = 0);
STILETTO_API void matmul_into(const Array& c, const BlockscaledArray& a, const Array& b, double alpha = 1,
                              double beta = 0);
STILETTO_API void matmul_into(const Array& c, const Array& a, const BlockscaledArray& b, double alpha = 1,
                              double beta = 0);

/// attention over operands of one format: q (batch, heads, seq_q, head_dim) and k (batch, heads_kv, seq_kv,
/// head_dim) blocked along −1, v (batch, heads_kv, seq_kv, width) along −2, so that both products sum over
/// blocks. Heads lie before rows, because each head is a matrix whose scales are tiled by themselves. Of the
/// options scale, causal masks, a window and lengths. out is float32 (batch, seq_q, heads, width). On GPUs in
/// MXFP8 alone, with v adjacent along its width.
STILETTO_API Array attention(const BlockscaledArray& q, const BlockscaledArray& k, const BlockscaledArray& v,
                             const AttentionOptions& = {});
STILETTO_API AttentionResult attention_with_stats(const BlockscaledArray& q, const BlockscaledArray& k,
                                                  const BlockscaledArray& v, const AttentionOptions& = {});

}  // namespace stiletto
