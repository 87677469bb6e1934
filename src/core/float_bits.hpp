// SPDX-License-Identifier: Apache-2.0
// Conversions between float and the bits of narrower floating-point types, by the rules of docs/semantics.md.
// They are written without branches, so that loops over them vectorise, and are always inlined: the CPU
// kernels are compiled for several instruction sets, and a shared out-of-line copy might be one that this
// processor cannot run.
#pragma once
#include <cstdint>

namespace stiletto::detail {

/// What tells one narrow format from another. Codes are without the sign.
struct FloatFormat {
  int mantissa_bits;
  int bias;
  std::uint32_t sign;  // the sign's bit
  std::uint32_t
      overflow;  // the code of larger values: infinity, or the largest finite one in saturating formats
  std::uint32_t first_special;  // codes from here on are infinity and NaN; the sign's bit if there are none
  std::uint32_t quiet_nan;      // 0 if there is none
};
inline constexpr FloatFormat half_format = {10, 15, 0x8000, 0x7C00, 0x7C00, 0x7E00};
inline constexpr FloatFormat e4m3_format = {3, 7, 0x80, 0x7E, 0x7F, 0x7F};
inline constexpr FloatFormat e5m2_format = {2, 15, 0x80, 0x7B, 0x7C, 0x7E};
inline constexpr FloatFormat e2m1_format = {1, 1, 0x8, 0x7, 0x8, 0};

[[gnu::always_inline]] inline constexpr std::uint32_t bits_of(float value) {
  return __builtin_bit_cast(std::uint32_t, value);
}
[[gnu::always_inline]] inline constexpr float float_of(std::uint32_t bits) {
  return __builtin_bit_cast(float, bits);
}

/// The nearest code, ties to even. Among the format's subnormals the addition of a float whose last bit
/// weighs as much as theirs does the rounding, above them the carry of an integer addition. A NaN keeps its
/// sign and the upper bits of its payload and becomes quiet, as in processors' own conversions.
template <FloatFormat format>
[[gnu::always_inline]] inline constexpr std::uint32_t encode(float value) {
  constexpr int shift = 23 - format.mantissa_bits;
  constexpr std::uint32_t smallest_normal = static_cast<std::uint32_t>(128 - format.bias) << 23;
  constexpr std::uint32_t rounder = static_cast<std::uint32_t>(128 - format.bias + shift) << 23;
  constexpr std::uint32_t rebias =
      (static_cast<std::uint32_t>(format.bias - 127) << 23) + (1u << (shift - 1)) - 1;
  const std::uint32_t bits = bits_of(value);
  const std::uint32_t magnitude = bits & 0x7FFFFFFF;
  const std::uint32_t sign = (bits >> 31) * format.sign;
  const std::uint32_t subnormal = bits_of(float_of(magnitude) + float_of(rounder)) - rounder;
  const std::uint32_t normal = (magnitude + rebias + ((magnitude >> shift) & 1)) >> shift;
  const std::uint32_t rounded = magnitude < smallest_normal ? subnormal : normal;
  const std::uint32_t code = (rounded < format.overflow ? rounded : format.overflow) | sign;
  constexpr std::uint32_t payload = (1u << format.mantissa_bits) - 1;
  const std::uint32_t nan =
      format.quiet_nan != 0 ? (format.quiet_nan | ((magnitude >> shift) & payload) | sign) : format.overflow;
  return magnitude > 0x7F800000 ? nan : code;
}

/// Exact. Subnormals lose their implicit one by a subtraction, which no flush-to-zero mode touches.
template <FloatFormat format>
[[gnu::always_inline]] inline constexpr float decode(std::uint32_t code) {
  constexpr int shift = 23 - format.mantissa_bits;
  constexpr std::uint32_t rebias = static_cast<std::uint32_t>(127 - format.bias) << 23;
  constexpr std::uint32_t one = 1u << 23;
  const std::uint32_t magnitude = code & (format.sign - 1);
  const std::uint32_t wide = magnitude << shift;
  const std::uint32_t subnormal = bits_of(float_of(wide + rebias + one) - float_of(rebias + one));
  std::uint32_t bits = wide < one ? subnormal : wide + rebias;
  if constexpr (format.first_special < format.sign) {
    bits = magnitude >= format.first_special ? (wide | 0x7F800000) : bits;
    bits |= magnitude > format.first_special ? 0x00400000 : 0;
  }
  return float_of(bits | ((code & format.sign) / format.sign) << 31);
}

[[gnu::always_inline]] inline constexpr std::uint32_t encode_bfloat16(float value) {
  const std::uint32_t bits = bits_of(value);
  const std::uint32_t rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16;
  return (bits & 0x7FFFFFFF) > 0x7F800000 ? ((bits >> 16) | 0x0040) : rounded;
}
[[gnu::always_inline]] inline constexpr float decode_bfloat16(std::uint32_t code) {
  return float_of(code << 16);
}

/// 2^(code − 127); 255 is NaN.
[[gnu::always_inline]] inline constexpr float decode_e8m0(std::uint32_t code) {
  const std::uint32_t bits = code == 0 ? 0x00400000 : code << 23;
  return float_of(code == 255 ? 0x7FC00000 : bits);
}

/// A float from which rounding to a narrow format gives what rounding `value` itself would: the neighbour of
/// an inexact value whose last bit is set (rounding to odd), so that neither ties nor their sides are lost.
[[gnu::always_inline]] inline float round_to_odd(double value) {
  const float nearest = static_cast<float>(value);
  const double back = nearest;
  const std::uint32_t toward_zero = bits_of(nearest) - (__builtin_fabs(back) > __builtin_fabs(value) ? 1 : 0);
  return float_of(toward_zero | (back != value ? 1 : 0));
}
[[gnu::always_inline]] inline float round_to_odd(std::int64_t value) {
  const bool fits = value <= (std::int64_t{1} << 53) && value >= -(std::int64_t{1} << 53);
  const std::int64_t kept = value & ~std::int64_t{0x7FF};
  const std::int64_t odd = kept | (kept != value ? 0x800 : 0);
  return round_to_odd(static_cast<double>(fits ? value : odd));
}

}  // namespace stiletto::detail
