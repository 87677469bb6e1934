// SPDX-License-Identifier: Apache-2.0
// Names of the element types, and the host types' conversions.
#include "stiletto/dtype.hpp"

#include <ostream>

#include "core/float_bits.hpp"

namespace stiletto {

static_assert(sizeof(half) == 2 && std::is_trivially_copyable_v<half>);
static_assert(sizeof(bfloat16) == 2 && std::is_trivially_copyable_v<bfloat16>);
static_assert(sizeof(float8_e4m3) == 1 && std::is_trivially_copyable_v<float8_e4m3>);
static_assert(sizeof(float8_e5m2) == 1 && std::is_trivially_copyable_v<float8_e5m2>);

const char* to_string(DType dtype) {
  switch (dtype) {
    case DType::boolean:
      return "boolean";
    case DType::int8:
      return "int8";
    case DType::uint8:
      return "uint8";
    case DType::int32:
      return "int32";
    case DType::int64:
      return "int64";
    case DType::float16:
      return "float16";
    case DType::bfloat16:
      return "bfloat16";
    case DType::float32:
      return "float32";
    case DType::float64:
      return "float64";
    case DType::float8_e4m3:
      return "float8_e4m3";
    case DType::float8_e5m2:
      return "float8_e5m2";
    case DType::float8_e8m0:
      return "float8_e8m0";
    case DType::float4_e2m1:
      return "float4_e2m1";
  }
  return "invalid dtype";
}

std::ostream& operator<<(std::ostream& stream, DType dtype) { return stream << to_string(dtype); }

half::half(float value) : bits_(static_cast<std::uint16_t>(detail::encode<detail::half_format>(value))) {}
half::operator float() const { return detail::decode<detail::half_format>(bits_); }

bfloat16::bfloat16(float value) : bits_(static_cast<std::uint16_t>(detail::encode_bfloat16(value))) {}
bfloat16::operator float() const { return detail::decode_bfloat16(bits_); }

float8_e4m3::float8_e4m3(float value)
    : bits_(static_cast<std::uint8_t>(detail::encode<detail::e4m3_format>(value))) {}
float8_e4m3::operator float() const { return detail::decode<detail::e4m3_format>(bits_); }

float8_e5m2::float8_e5m2(float value)
    : bits_(static_cast<std::uint8_t>(detail::encode<detail::e5m2_format>(value))) {}
float8_e5m2::operator float() const { return detail::decode<detail::e5m2_format>(bits_); }

}  // namespace stiletto
