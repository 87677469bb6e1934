// SPDX-License-Identifier: Apache-2.0
// Element types: names, sizes, and the conversions of the narrow floats against a search through all of a
// format's values, which are written down here from its definition. Tests named case_N are the public fault
// reports of that number.
#include "stiletto/dtype.hpp"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <sstream>
#include <vector>

#include "core/float_bits.hpp"

namespace {

using stiletto::bfloat16;
using stiletto::DType;
using stiletto::float8_e4m3;
using stiletto::float8_e5m2;
using stiletto::half;

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();

/// A format by its definition: the values of its codes without sign, in ascending order.
struct Format {
  const char* name;
  int exponent_bits, mantissa_bits, bias;
  std::uint32_t largest;  // the code of the largest finite value
  bool saturates;
  std::uint32_t (*encode)(float);
  float (*decode)(std::uint32_t);

  std::uint32_t sign() const { return 1u << (exponent_bits + mantissa_bits); }
  double value(std::uint32_t code) const {
    const std::uint32_t mantissa = code & ((1u << mantissa_bits) - 1);
    const int exponent = static_cast<int>(code >> mantissa_bits);
    if (exponent == 0) return std::ldexp(mantissa, 1 - bias - mantissa_bits);
    return std::ldexp(mantissa + (1u << mantissa_bits), exponent - bias - mantissa_bits);
  }
  /// The code of the value nearest to x ≥ 0, of two equally near ones the even code.
  std::uint32_t nearest(double x) const {
    std::uint32_t low = 0, high = largest + 1;  // one past the largest: where overflow begins to round up
    while (high - low > 1) {
      const std::uint32_t middle = (low + high) / 2;
      (value(middle) <= x ? low : high) = middle;
    }
    const double below = x - value(low), above = value(high) - x;
    const std::uint32_t code = below < above || (below == above && low % 2 == 0) ? low : high;
    return code > largest && saturates ? largest : code;
  }
};

template <class T, class Bits>
constexpr Format format_of(const char* name, int exponent_bits, int mantissa_bits, int bias,
                           std::uint32_t largest, bool saturates) {
  return {name,
          exponent_bits,
          mantissa_bits,
          bias,
          largest,
          saturates,
          [](float x) { return static_cast<std::uint32_t>(std::bit_cast<Bits>(T(x))); },
          [](std::uint32_t code) { return static_cast<float>(std::bit_cast<T>(static_cast<Bits>(code))); }};
}

const std::array<Format, 5>& formats() {
  static const std::array<Format, 5> all = {
      format_of<half, std::uint16_t>("float16", 5, 10, 15, 0x7BFF, false),
      format_of<bfloat16, std::uint16_t>("bfloat16", 8, 7, 127, 0x7F7F, false),
      format_of<float8_e4m3, std::uint8_t>("float8_e4m3", 4, 3, 7, 0x7E, true),
      format_of<float8_e5m2, std::uint8_t>("float8_e5m2", 5, 2, 15, 0x7B, true),
      {"float4_e2m1", 2, 1, 1, 0x7, true, &stiletto::detail::encode<stiletto::detail::e2m1_format>,
       &stiletto::detail::decode<stiletto::detail::e2m1_format>}};
  return all;
}

TEST(DType, names) {
  EXPECT_STREQ(stiletto::to_string(DType::boolean), "boolean");
  EXPECT_STREQ(stiletto::to_string(DType::float8_e4m3), "float8_e4m3");
  EXPECT_STREQ(stiletto::to_string(DType::float4_e2m1), "float4_e2m1");
  std::ostringstream text;
  for (int i = 0; i < 13; ++i) text << static_cast<DType>(i) << ' ';
  EXPECT_EQ(text.str(),
            "boolean int8 uint8 int32 int64 float16 bfloat16 float32 float64 float8_e4m3 float8_e5m2 "
            "float8_e8m0 float4_e2m1 ");
}

TEST(DType, codes_have_the_values_of_their_definition) {
  for (const Format& format : formats()) {
    for (std::uint32_t code = 0; code <= format.largest; ++code) {
      ASSERT_EQ(format.decode(code), format.value(code)) << format.name << " code " << code;
      const float negative = format.decode(code | format.sign());
      ASSERT_EQ(negative, -format.value(code)) << format.name << " code " << code;
      ASSERT_TRUE(std::signbit(negative)) << format.name << " code " << code;
    }
  }
}

TEST(DType, every_code_round_trips) {
  for (const Format& format : formats()) {
    for (std::uint32_t code = 0; code < 2 * format.sign(); ++code) {
      const float value = format.decode(code);
      if (std::isnan(value)) {
        ASSERT_TRUE(std::isnan(format.decode(format.encode(value)))) << format.name << " code " << code;
      } else if (std::isinf(value) && format.saturates) {
        ASSERT_EQ(format.encode(value), format.largest | (code & format.sign())) << format.name;
      } else {
        ASSERT_EQ(format.encode(value), code) << format.name;
      }
    }
  }
}

TEST(DType, which_codes_are_special) {
  const auto count = [](const Format& format, auto predicate) {
    int n = 0;
    for (std::uint32_t code = 0; code < 2 * format.sign(); ++code)
      n += predicate(format.decode(code)) ? 1 : 0;
    return n;
  };
  const std::array<int, 5> infinities = {2, 2, 0, 2, 0}, nans = {2046, 254, 2, 6, 0};
  for (std::size_t i = 0; i < formats().size(); ++i) {
    EXPECT_EQ(count(formats()[i], [](float x) { return std::isinf(x); }), infinities[i]) << formats()[i].name;
    EXPECT_EQ(count(formats()[i], [](float x) { return std::isnan(x); }), nans[i]) << formats()[i].name;
  }
}

/// At every code's value, at every tie, and one float to either side of each.
TEST(DType, rounds_to_nearest_even) {
  for (const Format& format : formats()) {
    for (std::uint32_t code = 0; code <= format.largest; ++code) {
      const double value = format.value(code), tie = (value + format.value(code + 1)) / 2;
      for (const double center : {value, tie}) {
        const auto middle = static_cast<float>(center);
        for (const float x : {std::nextafter(middle, 0.0f), middle, std::nextafter(middle, infinity)}) {
          ASSERT_EQ(format.encode(x), format.nearest(x)) << format.name << " of " << x;
          ASSERT_EQ(format.encode(-x), format.nearest(x) | format.sign()) << format.name << " of " << -x;
        }
      }
    }
  }
}

TEST(DType, rounds_random_floats) {
  std::mt19937 random(7);
  for (int i = 0; i < 200000; ++i) {
    const auto bits = static_cast<std::uint32_t>(random());
    const float x = std::bit_cast<float>(bits);
    if (!std::isfinite(x)) continue;
    for (const Format& format : formats()) {
      const std::uint32_t expected = format.nearest(std::fabs(x)) | (std::signbit(x) ? format.sign() : 0);
      ASSERT_EQ(format.encode(x), expected) << format.name << " of bits " << bits;
    }
  }
}

TEST(DType, overflow) {
  for (const Format& format : formats()) {
    for (const float x : {infinity, 3.4e38f, static_cast<float>(format.value(format.largest + 1))}) {
      const float expected = format.saturates ? static_cast<float>(format.value(format.largest)) : infinity;
      EXPECT_EQ(format.decode(format.encode(x)), expected) << format.name << " of " << x;
      EXPECT_EQ(format.decode(format.encode(-x)), -expected) << format.name << " of " << -x;
    }
  }
}

TEST(DType, nan_stays_nan) {
  for (const Format& format : formats()) {
    for (const std::uint32_t bits : {0x7FC00000u, 0xFFC00000u, 0x7F800001u, 0xFF800001u, 0x7FFFFFFFu}) {
      const std::uint32_t code = format.encode(std::bit_cast<float>(bits));
      if (format.bias == 1) {
        EXPECT_EQ(format.decode(code), 6) << "float4 has no NaN: bits " << bits;
      } else {
        EXPECT_TRUE(std::isnan(format.decode(code))) << format.name << " of bits " << bits;
      }
    }
  }
}

TEST(DType, e8m0_is_a_power_of_two) {
  for (int code = 0; code < 255; ++code) {
    ASSERT_EQ(stiletto::detail::decode_e8m0(static_cast<std::uint32_t>(code)), std::ldexp(1.0f, code - 127));
  }
  EXPECT_TRUE(std::isnan(stiletto::detail::decode_e8m0(255)));
}

/// A double next to a tie is on one side of it; as a float it would be the tie itself.
TEST(DType, doubles_are_rounded_once) {
  for (const Format& format : formats()) {
    for (std::uint32_t code = 0; code < format.largest; ++code) {
      const double tie = (format.value(code) + format.value(code + 1)) / 2;
      for (const double x : {std::nextafter(tie, 0.0), tie, std::nextafter(tie, 1e300)}) {
        ASSERT_EQ(format.encode(stiletto::detail::round_to_odd(x)), format.nearest(x))
            << format.name << " of " << x;
        ASSERT_EQ(format.encode(stiletto::detail::round_to_odd(-x)), format.nearest(x) | format.sign());
      }
    }
    for (const double x : {1e300, static_cast<double>(infinity), 5e-324, 0.0}) {
      EXPECT_EQ(format.encode(stiletto::detail::round_to_odd(x)), format.encode(static_cast<float>(x))) << x;
    }
    EXPECT_EQ(format.encode(stiletto::detail::round_to_odd(static_cast<double>(nan))), format.encode(nan));
  }
}

TEST(DType, large_integers_are_rounded_once) {
  const Format& format = formats()[1];
  for (int shift = 8; shift < 63; ++shift) {
    const std::int64_t tie =
        (std::int64_t{1} << shift) + (std::int64_t{1} << (shift - 8));  // 1 + 2^−8: down to 1
    const std::uint32_t down = format.nearest(std::ldexp(1.0, shift));
    EXPECT_EQ(format.encode(stiletto::detail::round_to_odd(tie)), down) << shift;
    EXPECT_EQ(format.encode(stiletto::detail::round_to_odd(tie - 1)), shift > 8 ? down : format.nearest(256));
    EXPECT_EQ(format.encode(stiletto::detail::round_to_odd(tie + 1)), down + 1) << shift;
    EXPECT_EQ(format.encode(stiletto::detail::round_to_odd(-tie - 1)), (down + 1) | format.sign()) << shift;
  }
  EXPECT_EQ(format.encode(stiletto::detail::round_to_odd(std::numeric_limits<std::int64_t>::min())), 0xDF00u);
  EXPECT_EQ(format.encode(stiletto::detail::round_to_odd(std::numeric_limits<std::int64_t>::max())), 0x5F00u);
}

// ---- public fault reports --------------------------------------------------------------------------------

template <class T>
float through(float x) {
  return static_cast<float>(T(x));
}

TEST(DType, case_93_bfloat16_ties_to_even) {
  EXPECT_EQ(through<bfloat16>(0.2691408770292272f), 0.26953125f);
  EXPECT_EQ(through<bfloat16>(1 + 0x1p-8f), 1.0f);
  EXPECT_EQ(through<bfloat16>(1 + 3 * 0x1p-8f), 1.015625f);
  EXPECT_EQ(through<bfloat16>(1 + 0x1p-8f + 0x1p-20f), 1.0078125f);
}

TEST(DType, case_94_bfloat16_nan_with_a_low_payload) {
  for (const std::uint32_t bits : {0x7F800001u, 0xFF800001u, 0x7FFFFFFFu}) {
    EXPECT_TRUE(std::isnan(through<bfloat16>(std::bit_cast<float>(bits)))) << bits;
  }
  EXPECT_EQ(through<bfloat16>(std::bit_cast<float>(0x7F7FFFFFu)), infinity);
}

TEST(DType, case_95_bfloat16_subnormals_are_kept) {
  EXPECT_EQ(std::bit_cast<std::uint16_t>(bfloat16(0x1p-127f)), 0x0040);
  EXPECT_EQ(std::bit_cast<std::uint16_t>(bfloat16(0x1p-133f)), 0x0001);
}

TEST(DType, case_96_half_subnormals_and_limits) {
  const auto bits = [](float x) { return std::bit_cast<std::uint16_t>(half(x)); };
  EXPECT_EQ(bits(0x1p-24f), 0x0001);
  EXPECT_EQ(bits(0x1p-25f), 0x0000);
  EXPECT_EQ(bits(3 * 0x1p-25f), 0x0002);
  EXPECT_EQ(bits(0x1p-15f), 0x0200);
  EXPECT_EQ(bits(65519), 0x7BFF);
  EXPECT_EQ(bits(65520), 0x7C00);
  EXPECT_TRUE(std::isnan(through<half>(std::bit_cast<float>(0x7F800001u))));
}

TEST(DType, case_97_e4m3_saturates) {
  const std::vector<float> values = {448, 464, 465, 1000, -1000, infinity, -infinity};
  const std::vector<float> expected = {448, 448, 448, 448, -448, 448, -448};
  for (std::size_t i = 0; i < values.size(); ++i)
    EXPECT_EQ(through<float8_e4m3>(values[i]), expected[i]) << values[i];
  EXPECT_TRUE(std::isnan(through<float8_e4m3>(nan)));
}

TEST(DType, case_98_e4m3_ties_to_even) {
  const std::vector<float> values = {240, 256, 272, 288, 300, 304, 448, 0x1p-9f, 0x1p-10f, 3 * 0x1p-10f};
  const std::vector<float> expected = {240, 256, 256, 288, 288, 320, 448, 0x1p-9f, 0, 0x1p-8f};
  for (std::size_t i = 0; i < values.size(); ++i)
    EXPECT_EQ(through<float8_e4m3>(values[i]), expected[i]) << values[i];
}

}  // namespace
