// SPDX-License-Identifier: Apache-2.0
// Promotion: the table of docs/semantics.md, Types.
#include "core/dtype_info.hpp"

#include <limits>

namespace stiletto::detail {
namespace {

/// Both strong, or both weak.
std::optional<DType> promote_equals(DType a, DType b) {
  if (a == b) return a;
  if (is_storage_only(a) || is_storage_only(b)) return std::nullopt;
  if (a == DType::boolean) return b;
  if (b == DType::boolean) return a;
  if (is_floating(a) != is_floating(b)) return is_floating(a) ? a : b;
  if (bits_of(a) == bits_of(b))
    return is_floating(a) ? DType::float32 : DType::int32;  // f16·bf16, int8·uint8
  return bits_of(a) > bits_of(b) ? a : b;
}

DType promote_weak(DType array, DType number) {
  if (number == DType::boolean) return array;
  if (is_integer(number)) return array == DType::boolean ? DType::int32 : array;
  return array == DType::float64 ? DType::float64 : DType::float32;
}

}  // namespace

std::optional<OperandType> promote(OperandType a, OperandType b) {
  if (a.weak == b.weak) {
    const auto common = promote_equals(a.dtype, b.dtype);
    if (!common) return std::nullopt;
    return OperandType{*common, a.weak};
  }
  const DType array = a.weak ? b.dtype : a.dtype;
  if (is_storage_only(array)) return std::nullopt;
  return OperandType{promote_weak(array, a.weak ? a.dtype : b.dtype), false};
}

bool fits(const ScalarValue& value, DType dtype) {
  if (value.kind == ScalarValue::Kind::real) return true;
  const std::int64_t v = value.integer;
  switch (dtype) {
    case DType::boolean:
      return v == 0 || v == 1;
    case DType::int8:
      return v >= -128 && v <= 127;
    case DType::uint8:
      return v >= 0 && v <= 255;
    case DType::int32:
      return v >= std::numeric_limits<std::int32_t>::min() && v <= std::numeric_limits<std::int32_t>::max();
    default:
      return true;
  }
}

}  // namespace stiletto::detail
