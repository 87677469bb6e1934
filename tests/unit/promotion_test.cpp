// SPDX-License-Identifier: Apache-2.0
// The promotion table of two operands, written down in full from docs/semantics.md: arrays with arrays, C++
// numbers with arrays, numbers with numbers; and which integers fit which dtype.
#include <gtest/gtest.h>

#include <limits>
#include <optional>
#include <string>

#include "core/dtype_info.hpp"
#include "stiletto/stiletto.hpp"

namespace {

using stiletto::DType;
using stiletto::detail::fits;
using stiletto::detail::OperandType;
using stiletto::detail::promote;
using stiletto::detail::ScalarValue;

constexpr DType every[] = {DType::boolean,    DType::int8,        DType::uint8,       DType::int32,
                           DType::int64,      DType::float16,     DType::bfloat16,    DType::float32,
                           DType::float64,    DType::float8_e4m3, DType::float8_e5m2, DType::float8_e8m0,
                           DType::float4_e2m1};
constexpr std::size_t plain = 9;  // how many of them take part in arithmetic

/// A dtype by a short name: "-" is none.
std::optional<DType> named(const std::string& name) {
  if (name == "-") return std::nullopt;
  const char* names[] = {"b", "i8", "u8", "i32", "i64", "f16", "bf", "f32", "f64", "e4", "e5", "e8", "f4"};
  for (std::size_t i = 0; i < std::size(names); ++i)
    if (name == names[i]) return every[i];
  ADD_FAILURE() << name;
  return std::nullopt;
}

std::optional<DType> dtype_of(const std::optional<OperandType>& type) {
  return type ? std::optional(type->dtype) : std::nullopt;
}

TEST(PromotionTable, arrays_with_arrays) {
  const char* table[13][13] = {
      // b     i8     u8     i32    i64    f16    bf     f32    f64   e4   e5   e8   f4
      {"b", "i8", "u8", "i32", "i64", "f16", "bf", "f32", "f64", "-", "-", "-", "-"},
      {"i8", "i8", "i32", "i32", "i64", "f16", "bf", "f32", "f64", "-", "-", "-", "-"},
      {"u8", "i32", "u8", "i32", "i64", "f16", "bf", "f32", "f64", "-", "-", "-", "-"},
      {"i32", "i32", "i32", "i32", "i64", "f16", "bf", "f32", "f64", "-", "-", "-", "-"},
      {"i64", "i64", "i64", "i64", "i64", "f16", "bf", "f32", "f64", "-", "-", "-", "-"},
      {"f16", "f16", "f16", "f16", "f16", "f16", "f32", "f32", "f64", "-", "-", "-", "-"},
      {"bf", "bf", "bf", "bf", "bf", "f32", "bf", "f32", "f64", "-", "-", "-", "-"},
      {"f32", "f32", "f32", "f32", "f32", "f32", "f32", "f32", "f64", "-", "-", "-", "-"},
      {"f64", "f64", "f64", "f64", "f64", "f64", "f64", "f64", "f64", "-", "-", "-", "-"},
      {"-", "-", "-", "-", "-", "-", "-", "-", "-", "e4", "-", "-", "-"},
      {"-", "-", "-", "-", "-", "-", "-", "-", "-", "-", "e5", "-", "-"},
      {"-", "-", "-", "-", "-", "-", "-", "-", "-", "-", "-", "e8", "-"},
      {"-", "-", "-", "-", "-", "-", "-", "-", "-", "-", "-", "-", "f4"}};
  for (std::size_t a = 0; a < 13; ++a)
    for (std::size_t b = 0; b < 13; ++b) {
      const auto result = promote({every[a], false}, {every[b], false});
      EXPECT_EQ(dtype_of(result), named(table[a][b])) << every[a] << " with " << every[b];
      if (result) {
        EXPECT_FALSE(result->weak);
      }
    }
}

TEST(PromotionTable, numbers_with_arrays) {
  const char* array[] = {"b", "i8", "u8", "i32", "i64", "f16", "bf", "f32", "f64"};
  const char* boolean[] = {"b", "i8", "u8", "i32", "i64", "f16", "bf", "f32", "f64"};
  const char* integer[] = {"i32", "i8", "u8", "i32", "i64", "f16", "bf", "f32", "f64"};
  const char* real[] = {"f32", "f32", "f32", "f32", "f32", "f32", "f32", "f32", "f64"};
  for (std::size_t i = 0; i < plain; ++i) {
    const OperandType of_array{*named(array[i]), false};
    auto expect = [&](DType number, const char* wanted) {
      const auto one = promote({number, true}, of_array), other = promote(of_array, {number, true});
      EXPECT_EQ(dtype_of(one), named(wanted)) << "a number of " << number << " with " << array[i];
      EXPECT_EQ(dtype_of(other), named(wanted));
      EXPECT_FALSE(one->weak || other->weak) << "with an array it is an array";
    };
    expect(DType::boolean, boolean[i]);
    expect(DType::int32, integer[i]);
    expect(DType::int64, integer[i]);
    expect(DType::float32, real[i]);
  }
  for (std::size_t i = plain; i < 13; ++i)
    for (DType number : {DType::boolean, DType::int32, DType::float32}) {
      EXPECT_EQ(promote({number, true}, {every[i], false}), std::nullopt);
      EXPECT_EQ(promote({every[i], false}, {number, true}), std::nullopt);
    }
}

TEST(PromotionTable, numbers_with_numbers_stay_numbers) {
  auto expect = [](DType a, DType b, DType wanted) {
    for (const auto& result : {promote({a, true}, {b, true}), promote({b, true}, {a, true})}) {
      ASSERT_TRUE(result);
      EXPECT_EQ(result->dtype, wanted) << a << " with " << b;
      EXPECT_TRUE(result->weak);
    }
  };
  expect(DType::boolean, DType::boolean, DType::boolean);
  expect(DType::boolean, DType::int32, DType::int32);
  expect(DType::boolean, DType::float32, DType::float32);
  expect(DType::int32, DType::int32, DType::int32);
  expect(DType::int32, DType::int64, DType::int64);
  expect(DType::int64, DType::float32, DType::float32);
}

TEST(PromotionTable, integers_fit) {
  auto integer = [](std::int64_t v) { return ScalarValue::of(v); };
  const std::int64_t low32 = std::numeric_limits<std::int32_t>::min(),
                     high32 = std::numeric_limits<std::int32_t>::max(),
                     low64 = std::numeric_limits<std::int64_t>::min(),
                     high64 = std::numeric_limits<std::int64_t>::max();
  for (auto [dtype, low, high] : {std::tuple(DType::boolean, std::int64_t{0}, std::int64_t{1}),
                                  {DType::int8, -128, 127},
                                  {DType::uint8, 0, 255},
                                  {DType::int32, low32, high32}}) {
    EXPECT_TRUE(fits(integer(low), dtype));
    EXPECT_TRUE(fits(integer(high), dtype));
    EXPECT_FALSE(fits(integer(low - 1), dtype));
    EXPECT_FALSE(fits(integer(high + 1), dtype));
    EXPECT_FALSE(fits(integer(high64), dtype));
  }
  EXPECT_TRUE(fits(integer(low64), DType::int64));
  EXPECT_TRUE(fits(integer(high64), DType::int64));
  EXPECT_TRUE(fits(integer(high64), DType::float16)) << "floats round";
  EXPECT_TRUE(fits(ScalarValue::of(1e30), DType::int8)) << "real numbers never stay integers";
  EXPECT_TRUE(fits(ScalarValue::of(true), DType::int8));
}

TEST(PromotionTable, sizes_and_kinds) {
  const int bits[] = {8, 8, 8, 32, 64, 16, 16, 32, 64, 8, 8, 8, 4};
  for (std::size_t i = 0; i < 13; ++i) {
    EXPECT_EQ(stiletto::detail::bits_of(every[i]), bits[i]) << every[i];
    EXPECT_EQ(stiletto::detail::is_integer(every[i]), i >= 1 && i <= 4) << every[i];
    EXPECT_EQ(stiletto::detail::is_floating(every[i]), i >= 5 && i <= 8) << every[i];
    EXPECT_EQ(stiletto::detail::is_storage_only(every[i]), i >= 9) << every[i];
    EXPECT_EQ(stiletto::detail::is_float8(every[i]), i == 9 || i == 10) << every[i];
  }
  EXPECT_EQ(stiletto::detail::bytes_for(DType::float4_e2m1, 0), 0U);
  EXPECT_EQ(stiletto::detail::bytes_for(DType::float4_e2m1, 5), 3U);
  EXPECT_EQ(stiletto::detail::bytes_for(DType::int64, 3), 24U);
  EXPECT_EQ(stiletto::detail::byte_offset(DType::float4_e2m1, -6), -3);
  EXPECT_EQ(stiletto::detail::byte_offset(DType::bfloat16, -6), -12);
}

}  // namespace
