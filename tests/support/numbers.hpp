// SPDX-License-Identifier: Apache-2.0
// What the tests know about element types, written without the library's conversions: the rules of rounding,
// the codes of every type, and the promotion table. All values are long double, which holds int64 and float64
// exactly, so one representation serves integers and floating point alike.
#pragma once
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <vector>

#include "stiletto/stiletto.hpp"

namespace support {

using stiletto::Array;
using stiletto::DType;
using Real = long double;
static_assert(std::numeric_limits<Real>::digits >= 64, "long double must hold every int64");

inline constexpr Real infinity = std::numeric_limits<Real>::infinity();
inline constexpr Real not_a_number = std::numeric_limits<Real>::quiet_NaN();

/// The types every operation is tried on; float8 and float4 join in casts and float8 in matmul.
inline constexpr std::array<DType, 9> plain_dtypes = {DType::boolean,  DType::int8,    DType::uint8,
                                                      DType::int32,    DType::int64,   DType::float16,
                                                      DType::bfloat16, DType::float32, DType::float64};
inline constexpr std::array<DType, 4> float_dtypes = {DType::float16, DType::bfloat16, DType::float32,
                                                      DType::float64};

inline bool is_integer(DType dtype) {
  return dtype == DType::int8 || dtype == DType::uint8 || dtype == DType::int32 || dtype == DType::int64;
}
inline bool is_exact(DType dtype) { return is_integer(dtype) || dtype == DType::boolean; }
inline bool is_float(DType dtype) { return !is_exact(dtype); }
inline bool is_float8(DType dtype) { return dtype == DType::float8_e4m3 || dtype == DType::float8_e5m2; }

inline int bits_of(DType dtype) {
  switch (dtype) {
    case DType::int32:
    case DType::float32:
      return 32;
    case DType::int64:
    case DType::float64:
      return 64;
    case DType::float16:
    case DType::bfloat16:
      return 16;
    case DType::float4_e2m1:
      return 4;
    default:
      return 8;
  }
}

// ---- floating-point formats ----

struct Format {
  int mantissa_bits, exponent_bits, bias;
  Real largest;
  bool has_infinity;
};

inline Format format_of(DType dtype) {
  switch (dtype) {
    case DType::float16:
      return {10, 5, 15, 65504, true};
    case DType::bfloat16:
      return {7, 8, 127, std::ldexp(Real{255}, 120), true};
    case DType::float8_e4m3:
      return {3, 4, 7, 448, false};
    case DType::float8_e5m2:
      return {2, 5, 15, 57344, false};  // has infinities, but conversion saturates
    case DType::float4_e2m1:
      return {1, 2, 1, 6, false};
    default:
      throw std::logic_error("no format");
  }
}

/// `x` rounded to the nearest value of a floating-point type, ties to even, by semantics.md's overflow rules.
inline Real round_float(Real x, DType dtype) {
  if (dtype == DType::float64) return static_cast<double>(x);
  if (dtype == DType::float32) return static_cast<float>(x);
  const Format format = format_of(dtype);
  if (std::isnan(x)) return dtype == DType::float4_e2m1 ? Real{6} : x;
  Real rounded = x;
  if (std::isfinite(x) && x != 0) {
    int exponent = 0;
    std::frexp(x, &exponent);
    const int least = 1 - format.bias;
    exponent = std::max(exponent - 1, least);
    const Real unit = std::ldexp(Real{1}, exponent - format.mantissa_bits);
    rounded = std::nearbyint(x / unit) * unit;
  }
  if (std::fabs(rounded) > format.largest)
    return std::copysign(format.has_infinity ? infinity : format.largest, x);
  return rounded;
}

/// An integer modulo 2^bits, as two's complement arithmetic leaves it.
inline std::int64_t wrap_integer(std::int64_t value, DType dtype) {
  switch (dtype) {
    case DType::boolean:
      return value != 0;
    case DType::int8:
      return static_cast<std::int8_t>(value);
    case DType::uint8:
      return static_cast<std::uint8_t>(value);
    case DType::int32:
      return static_cast<std::int32_t>(value);
    default:
      return value;
  }
}

inline Real lowest_integer(DType dtype) {
  switch (dtype) {
    case DType::int8:
      return -128;
    case DType::int32:
      return -std::ldexp(Real{1}, 31);
    case DType::int64:
      return -std::ldexp(Real{1}, 63);
    default:
      return 0;
  }
}
inline Real highest_integer(DType dtype) {
  switch (dtype) {
    case DType::boolean:
      return 1;
    case DType::int8:
      return 127;
    case DType::uint8:
      return 255;
    case DType::int32:
      return std::ldexp(Real{1}, 31) - 1;
    default:
      return std::ldexp(Real{1}, 63) - 1;
  }
}

/// What cast(x, to) gives for a value of type `from`.
inline Real convert(Real x, DType from, DType to) {
  if (to == DType::boolean) return x != 0;  // NaN is not equal to 0
  if (!is_integer(to)) return round_float(x, to);
  if (is_exact(from)) return static_cast<Real>(wrap_integer(static_cast<std::int64_t>(x), to));
  if (std::isnan(x)) return 0;
  const Real whole = std::trunc(x) + Real{0};  // never −0
  return std::fmin(std::fmax(whole, lowest_integer(to)), highest_integer(to));
}

// ---- codes ----

inline Real decode_small(std::uint32_t code, DType dtype) {
  if (dtype == DType::float8_e8m0)
    return code == 255 ? not_a_number : std::ldexp(Real{1}, static_cast<int>(code) - 127);
  const Format format = format_of(dtype);
  const std::uint32_t mantissa = code & ((1U << format.mantissa_bits) - 1);
  const int top = (1 << format.exponent_bits) - 1;
  const int exponent = static_cast<int>(code >> format.mantissa_bits) & top;
  const bool negative = (code >> (format.mantissa_bits + format.exponent_bits)) & 1U;
  const Real sign = negative ? -1 : 1;
  if (dtype == DType::float8_e4m3 && exponent == top && mantissa == 7) return not_a_number;
  if ((format.has_infinity || dtype == DType::float8_e5m2) && exponent == top)
    return mantissa == 0 ? sign * infinity : not_a_number;
  if (exponent == 0)
    return sign * std::ldexp(static_cast<Real>(mantissa), 1 - format.bias - format.mantissa_bits);
  const Real significand = static_cast<Real>(mantissa + (1U << format.mantissa_bits));
  return sign * std::ldexp(significand, exponent - format.bias - format.mantissa_bits);
}

/// The code of a value that the type represents exactly (or NaN, or infinity where it has one).
inline std::uint32_t encode_small(Real value, DType dtype) {
  const Format format = format_of(dtype);
  const std::uint32_t sign = std::signbit(value) ? 1U << (format.mantissa_bits + format.exponent_bits) : 0;
  const std::uint32_t top = (1U << format.exponent_bits) - 1;
  if (std::isnan(value)) return (top << format.mantissa_bits) | ((1U << format.mantissa_bits) - 1);
  if (std::isinf(value)) return sign | (top << format.mantissa_bits);
  if (value == 0) return sign;
  int exponent = 0;
  std::frexp(value, &exponent);
  exponent = std::max(exponent - 1, 1 - format.bias);
  const auto units =
      static_cast<std::uint32_t>(std::ldexp(std::fabs(value), format.mantissa_bits - exponent));
  const std::uint32_t hidden = 1U << format.mantissa_bits;
  if (units < hidden) return sign | units;
  return sign | (static_cast<std::uint32_t>(exponent + format.bias) << format.mantissa_bits) |
         (units - hidden);
}

/// Reads element `index` of memory that starts at `base`; indices of float4 count half bytes.
inline Real load(const void* base, std::int64_t index, DType dtype) {
  auto get = [&]<class T>(T value) {
    std::memcpy(&value, static_cast<const char*>(base) + index * static_cast<std::int64_t>(sizeof(T)),
                sizeof(T));
    return value;
  };
  switch (dtype) {
    case DType::boolean:
      return get(std::uint8_t{}) != 0;
    case DType::int8:
      return get(std::int8_t{});
    case DType::uint8:
      return get(std::uint8_t{});
    case DType::int32:
      return get(std::int32_t{});
    case DType::int64:
      return static_cast<Real>(get(std::int64_t{}));
    case DType::float32:
      return get(float{});
    case DType::float64:
      return get(double{});
    case DType::float16:
    case DType::bfloat16:
      return decode_small(get(std::uint16_t{}), dtype);
    case DType::float4_e2m1: {
      const unsigned byte = static_cast<const std::uint8_t*>(base)[index / 2];
      return decode_small(index % 2 == 0 ? byte & 15U : byte >> 4U, dtype);
    }
    default:
      return decode_small(get(std::uint8_t{}), dtype);
  }
}

/// Writes a value that the type represents exactly.
inline void store(void* base, std::int64_t index, DType dtype, Real value) {
  auto put = [&]<class T>(T code) {
    std::memcpy(static_cast<char*>(base) + index * static_cast<std::int64_t>(sizeof(T)), &code, sizeof(T));
  };
  switch (dtype) {
    case DType::boolean:
      return put(static_cast<std::uint8_t>(value != 0));
    case DType::int8:
      return put(static_cast<std::int8_t>(value));
    case DType::uint8:
      return put(static_cast<std::uint8_t>(value));
    case DType::int32:
      return put(static_cast<std::int32_t>(value));
    case DType::int64:
      return put(static_cast<std::int64_t>(value));
    case DType::float32:
      return put(static_cast<float>(value));
    case DType::float64:
      return put(static_cast<double>(value));
    case DType::float16:
    case DType::bfloat16:
      return put(static_cast<std::uint16_t>(encode_small(value, dtype)));
    case DType::float8_e8m0: {
      int exponent = 0;
      std::frexp(value, &exponent);
      return put(static_cast<std::uint8_t>(std::isnan(value) ? 255 : exponent - 1 + 127));
    }
    case DType::float4_e2m1: {
      auto& byte = static_cast<std::uint8_t*>(base)[index / 2];
      const unsigned code = encode_small(value, dtype);
      byte =
          static_cast<std::uint8_t>(index % 2 == 0 ? (byte & 0xF0U) | code : (byte & 0x0FU) | (code << 4U));
      return;
    }
    default:
      return put(static_cast<std::uint8_t>(encode_small(value, dtype)));
  }
}

// ---- promotion ----

/// Array with array (semantics.md, Types).
inline DType promote(DType a, DType b) {
  if (a == b) return a;
  if (is_float(a) != is_float(b)) return is_float(a) ? a : b;
  if (is_float(a)) {
    if (bits_of(a) == bits_of(b)) return DType::float32;  // float16 with bfloat16
    return bits_of(a) > bits_of(b) ? a : b;
  }
  if (a == DType::boolean) return b;
  if (b == DType::boolean) return a;
  if (bits_of(a) == bits_of(b)) return DType::int32;  // int8 with uint8
  return bits_of(a) > bits_of(b) ? a : b;
}

enum class Constant { boolean, integer, real };

/// An array's type with a C++ constant's.
inline DType promote_constant(DType array, Constant constant) {
  if (constant == Constant::boolean) return array;
  if (constant == Constant::integer) return array == DType::boolean ? DType::int32 : array;
  return array == DType::float64 ? DType::float64 : DType::float32;
}

/// The type of sum, prod and norm1.
inline DType accumulated(DType dtype) {
  if (dtype == DType::float16 || dtype == DType::bfloat16) return DType::float32;
  if (dtype == DType::boolean || bits_of(dtype) == 8) return DType::int32;
  return dtype;
}
/// The type of means, norms and transcendental functions of integers.
inline DType floating(DType dtype) { return is_exact(dtype) ? DType::float32 : dtype; }

}  // namespace support
