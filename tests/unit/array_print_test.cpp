// SPDX-License-Identifier: Apache-2.0
// What operator<< shows: nested brackets of values of every dtype, the middle of large arrays elided, and
// only the type where there are no values.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <sstream>
#include <string>
#include <vector>

#include "stiletto/stiletto.hpp"

namespace {

using stiletto::Array;
using stiletto::Device;
using stiletto::DType;
using stiletto::Slice;

std::string text(const Array& x) {
  std::ostringstream out;
  out << x;
  return out.str();
}
Array iota(const stiletto::Shape& shape) {
  std::int64_t count = 1;
  for (std::int64_t extent : shape) count *= extent;
  std::vector<int> values(static_cast<std::size_t>(count));
  std::iota(values.begin(), values.end(), 0);
  return stiletto::from_data(values, shape);
}

TEST(Print, ranks) {
  EXPECT_EQ(text(stiletto::full({}, 2.5)), "2.5");
  EXPECT_EQ(text(iota({3})), "[0, 1, 2]");
  EXPECT_EQ(text(iota({1, 1})), "[[0]]");
  EXPECT_EQ(text(iota({2, 3})),
            "[[0, 1, 2],\n"
            " [3, 4, 5]]");
  EXPECT_EQ(text(iota({2, 2, 2})),
            "[[[0, 1],\n"
            "  [2, 3]],\n"
            " [[4, 5],\n"
            "  [6, 7]]]");
}

TEST(Print, strides_do_not_show) {
  EXPECT_EQ(text(stiletto::transpose(iota({2, 3}))),
            "[[0, 3],\n"
            " [1, 4],\n"
            " [2, 5]]");
  EXPECT_EQ(text(stiletto::slice(iota({6}), {Slice{{}, {}, -2}})), "[5, 3, 1]");
  EXPECT_EQ(text(stiletto::broadcast_to(stiletto::ones({1}), {3})), "[1, 1, 1]");
}

TEST(Print, every_dtype) {
  const auto of = [](DType dtype) { return text(stiletto::full({2}, 1, dtype)); };
  EXPECT_EQ(of(DType::boolean), "[true, true]");
  for (DType dtype :
       {DType::int8, DType::uint8, DType::int32, DType::int64, DType::float16, DType::bfloat16,
        DType::float32, DType::float64, DType::float8_e4m3, DType::float8_e5m2, DType::float4_e2m1})
    EXPECT_EQ(of(dtype), "[1, 1]") << dtype;
  const Array x = stiletto::from_data(std::vector<double>{-1.5, 0.5, 3, 0}, {4});
  for (DType dtype : {DType::float16, DType::bfloat16, DType::float32, DType::float64, DType::float8_e4m3,
                      DType::float8_e5m2, DType::float4_e2m1})
    EXPECT_EQ(text(stiletto::cast(x, dtype)), "[-1.5, 0.5, 3, 0]") << dtype;
  EXPECT_EQ(text(stiletto::from_data(std::vector<std::int8_t>{-128, 65, 0}, {3})), "[-128, 65, 0]")
      << "numbers, not characters";
  EXPECT_EQ(text(stiletto::from_data(std::vector<std::uint8_t>{255, 65, 0}, {3})), "[255, 65, 0]");
  EXPECT_EQ(
      text(stiletto::from_data(std::vector<std::int64_t>{std::numeric_limits<std::int64_t>::min()}, {1})),
      "[-9223372036854775808]");
  const Array scales = stiletto::empty({3}, DType::float8_e8m0);
  const unsigned char codes[3] = {127, 130, 125};
  std::memcpy(scales.raw_data(), codes, 3);
  EXPECT_EQ(text(scales), "[1, 8, 0.25]");
}

TEST(Print, special_values) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(text(stiletto::from_data(std::vector<float>{infinity, -infinity, std::nanf("")}, {3})),
            "[inf, -inf, nan]");
}

TEST(Print, float4_of_a_strided_view) {
  const Array x = stiletto::empty({4, 2}, DType::float4_e2m1);
  const unsigned char bytes[4] = {0x10, 0x32, 0x54, 0x76};
  std::memcpy(x.raw_data(), bytes, 4);
  EXPECT_EQ(text(stiletto::transpose(x)),
            "[[0, 1, 2, 4],\n"
            " [0.5, 1.5, 3, 6]]");
}

TEST(Print, large_arrays_are_elided) {
  EXPECT_EQ(text(iota({1001})), "[0, 1, 2, ..., 998, 999, 1000]");
  EXPECT_EQ(text(iota({40, 30})),
            "[[0, 1, 2, ..., 27, 28, 29],\n"
            " [30, 31, 32, ..., 57, 58, 59],\n"
            " [60, 61, 62, ..., 87, 88, 89],\n"
            " ...,\n"
            " [1110, 1111, 1112, ..., 1137, 1138, 1139],\n"
            " [1140, 1141, 1142, ..., 1167, 1168, 1169],\n"
            " [1170, 1171, 1172, ..., 1197, 1198, 1199]]");
  EXPECT_EQ(text(iota({3, 400})),
            "[[0, 1, 2, ..., 397, 398, 399],\n"
            " [400, 401, 402, ..., 797, 798, 799],\n"
            " [800, 801, 802, ..., 1197, 1198, 1199]]")
      << "a short axis stays whole";
  EXPECT_EQ(text(iota({6, 200})).find(",\n ...,"), std::string::npos) << "six rows are as short as six edges";
  const std::string whole = text(iota({1000}));
  EXPECT_EQ(whole.find("..."), std::string::npos);
  EXPECT_EQ(whole.substr(whole.size() - 11), ", 998, 999]");
  const Array huge = stiletto::broadcast_to(stiletto::ones({1, 1}), {1 << 20, 1 << 20});
  EXPECT_EQ(text(huge).size(), text(iota({40, 30}) * 0 + 1).size()) << "what is elided is not visited";
}

TEST(Print, no_elements) {
  EXPECT_EQ(text(stiletto::empty({0})), "[]");
  EXPECT_EQ(text(stiletto::empty({2, 0})), "no elements of shape (2, 0)");
  EXPECT_EQ(text(stiletto::empty({0, 3, 1})), "no elements of shape (0, 3, 1)");
}

TEST(Print, types_without_values) {
  EXPECT_EQ(text(Array()), "empty Array");
  EXPECT_EQ(text(stiletto::spec({2, 3}, DType::float16, {}, Device::cpu())), "spec float16(2, 3)");
  EXPECT_EQ(text(stiletto::spec({}, DType::int8, {}, Device::cuda(1))), "spec int8() on cuda:1");
  stiletto::jit(
      [](const Array& a, const Array& s) {
        EXPECT_EQ(text(a), "traced int32(2, 3)");
        EXPECT_EQ(text(a > 1), "traced boolean(2, 3)");
        EXPECT_EQ(text(s), "traced float32()");
        return a * s;
      },
      iota({2, 3}), 2.0);
}

TEST(Print, numbers) {
  EXPECT_EQ(text(Array(2)), "2");
  EXPECT_EQ(text(Array(true)), "true");
  EXPECT_EQ(text(Array(0.5)), "0.5");
  EXPECT_EQ(text(Array(stiletto::half(0.5F))), "0.5");
  EXPECT_EQ(text(Array('a')), "97");
}

TEST(Print, devices_and_dtypes) {
  std::ostringstream out;
  out << Device::cpu() << ' ' << Device::cuda(2) << ' ' << DType::float8_e4m3 << ' ' << DType::boolean;
  EXPECT_EQ(out.str(), "cpu cuda:2 float8_e4m3 boolean");
}

}  // namespace
