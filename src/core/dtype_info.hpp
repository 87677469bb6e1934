// SPDX-License-Identifier: Apache-2.0
// Sizes and kinds of element types, and the promotion rules of docs/semantics.md.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>

#include "core/scalar_value.hpp"
#include "stiletto/dtype.hpp"

namespace stiletto::detail {

constexpr int bits_of(DType dtype) {
  switch (dtype) {
    case DType::float4_e2m1:
      return 4;
    case DType::boolean:
    case DType::int8:
    case DType::uint8:
    case DType::float8_e4m3:
    case DType::float8_e5m2:
    case DType::float8_e8m0:
      return 8;
    case DType::float16:
    case DType::bfloat16:
      return 16;
    case DType::int32:
    case DType::float32:
      return 32;
    case DType::int64:
    case DType::float64:
      return 64;
  }
  return 0;
}

constexpr bool is_integer(DType d) {
  return d == DType::int8 || d == DType::uint8 || d == DType::int32 || d == DType::int64;
}
/// Types that take part in pointwise arithmetic.
constexpr bool is_floating(DType d) {
  return d == DType::float16 || d == DType::bfloat16 || d == DType::float32 || d == DType::float64;
}
constexpr bool is_float8(DType d) { return d == DType::float8_e4m3 || d == DType::float8_e5m2; }
/// float8 and float4: storage types that only cast, matmul and block scaling read.
constexpr bool is_storage_only(DType d) {
  return is_float8(d) || d == DType::float8_e8m0 || d == DType::float4_e2m1;
}

/// Bytes that `elements` adjacent elements take; float4_e2m1 packs two to a byte.
constexpr std::size_t bytes_for(DType dtype, std::int64_t elements) {
  return (static_cast<std::size_t>(elements) * static_cast<std::size_t>(bits_of(dtype)) + 7) / 8;
}
/// Signed distance in bytes of an element offset, for float4_e2m1 of the byte that holds it. Offsets of
/// float4_e2m1 are even wherever a view can start.
constexpr std::int64_t byte_offset(DType dtype, std::int64_t elements) {
  return dtype == DType::float4_e2m1 ? elements >> 1 : elements * (bits_of(dtype) / 8);
}

/// A dtype as an operand: weak ones are C++ numbers, which leave an array's dtype alone as far as they can.
struct OperandType {
  DType dtype;
  bool weak;
};

/// The common type of two operands; storage-only types promote only with themselves (nullopt otherwise).
std::optional<OperandType> promote(OperandType a, OperandType b);

/// Whether an integer fits an integer dtype (or boolean: 0 and 1).
bool fits(const ScalarValue& value, DType dtype);

}  // namespace stiletto::detail
