// SPDX-License-Identifier: Apache-2.0
// Element types. The narrow floating-point types are plain structs of their bits, the same bits as CUDA's
// __half,
// __nv_bfloat16 and __nv_fp8_*; they convert to and from float explicitly, to nearest with ties to even.
#pragma once
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <type_traits>

#include "stiletto/export.hpp"

namespace stiletto {

enum class DType : std::uint8_t {
  boolean,
  int8,
  uint8,
  int32,
  int64,
  float16,
  bfloat16,
  float32,
  float64,
  float8_e4m3,
  float8_e5m2,
  float8_e8m0,  ///< a scale: a power of two, no sign
  float4_e2m1   ///< packed two to a byte, the even element in the low half
};

STILETTO_API const char* to_string(DType);
STILETTO_API std::ostream& operator<<(std::ostream&, DType);

/// IEEE binary16. Beyond the range: infinity.
class half {
 public:
  half() = default;
  STILETTO_API explicit half(float value);
  STILETTO_API explicit operator float() const;

 private:
  std::uint16_t bits_;
};

/// The upper half of a float32. Beyond the range: infinity.
class bfloat16 {
 public:
  bfloat16() = default;
  STILETTO_API explicit bfloat16(float value);
  STILETTO_API explicit operator float() const;

 private:
  std::uint16_t bits_;
};

/// 4 exponent and 3 mantissa bits, no infinity. Conversion saturates to ±448, infinity included; NaN stays
/// NaN.
class float8_e4m3 {
 public:
  float8_e4m3() = default;
  STILETTO_API explicit float8_e4m3(float value);
  STILETTO_API explicit operator float() const;

 private:
  std::uint8_t bits_;
};

/// 5 exponent and 2 mantissa bits. Conversion saturates to ±57344, infinity included; NaN stays NaN.
class float8_e5m2 {
 public:
  float8_e5m2() = default;
  STILETTO_API explicit float8_e5m2(float value);
  STILETTO_API explicit operator float() const;

 private:
  std::uint8_t bits_;
};

/// The DType of a host element type, as `dtype_of<T>::value`. Specialise it for another library's
/// bit-compatible type.
template <class T>
struct dtype_of;

namespace detail {
template <DType dtype>
struct DTypeConstant {
  static constexpr DType value = dtype;
};
}  // namespace detail

template <>
struct dtype_of<bool> : detail::DTypeConstant<DType::boolean> {};
template <>
struct dtype_of<std::int8_t> : detail::DTypeConstant<DType::int8> {};
template <>
struct dtype_of<std::uint8_t> : detail::DTypeConstant<DType::uint8> {};
template <>
struct dtype_of<int> : detail::DTypeConstant<DType::int32> {};
template <>
struct dtype_of<long> : detail::DTypeConstant<sizeof(long) == 8 ? DType::int64 : DType::int32> {};
template <>
struct dtype_of<long long> : detail::DTypeConstant<DType::int64> {};
template <>
struct dtype_of<half> : detail::DTypeConstant<DType::float16> {};
template <>
struct dtype_of<bfloat16> : detail::DTypeConstant<DType::bfloat16> {};
template <>
struct dtype_of<float> : detail::DTypeConstant<DType::float32> {};
template <>
struct dtype_of<double> : detail::DTypeConstant<DType::float64> {};
template <>
struct dtype_of<float8_e4m3> : detail::DTypeConstant<DType::float8_e4m3> {};
template <>
struct dtype_of<float8_e5m2> : detail::DTypeConstant<DType::float8_e5m2> {};

/// C++ values that stand for a rank-0 constant.
template <class T>
concept Scalar = std::is_arithmetic_v<T> || std::same_as<T, half> || std::same_as<T, bfloat16>;

}  // namespace stiletto
