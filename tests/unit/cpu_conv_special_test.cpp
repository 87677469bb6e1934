// SPDX-License-Identifier: Apache-2.0
// NaN and infinity reach what sees them, and nothing else, whatever the number of channels.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "stiletto/stiletto.hpp"

namespace {

using stiletto::Array;
using stiletto::DType;
using stiletto::Shape;

/// Ones but for one element.
Array ones_but(const Shape& shape, std::size_t at, float value, DType dtype) {
  std::size_t count = 1;
  for (const std::int64_t extent : shape) count *= static_cast<std::size_t>(extent);
  std::vector<float> values(count, 1);
  values[at] = value;
  return stiletto::cast(stiletto::from_data<float>(values, shape), dtype);
}

std::ptrdiff_t special_values(const Array& array) {
  const auto values = stiletto::cast(array, DType::float32).to_vector<float>();
  return std::ranges::count_if(values, [](float value) { return !std::isfinite(value); });
}

TEST(CpuConvSpecial, one_special_value_stays_where_it_is_seen) {
  constexpr float specials[] = {std::numeric_limits<float>::quiet_NaN(),
                                std::numeric_limits<float>::infinity()};
  for (const DType dtype : {DType::bfloat16, DType::float16, DType::float32, DType::float64})
    for (const std::int64_t channels : {1, 2, 3, 5, 16, 17})
      for (const float special : specials) {
        const Array w1 = stiletto::ones({3, channels, 1, 1}, dtype),
                    w3 = stiletto::ones({4, channels, 3, 3}, dtype);
        // In the middle of channel 0 of the second image of 5 by 5.
        const auto at = static_cast<std::size_t>(channels * 25 + 12);
        const Array x = ones_but({2, channels, 5, 5}, at, special, dtype);
        EXPECT_EQ(special_values(stiletto::conv(x, w1)), 3) << dtype << ' ' << channels;
        EXPECT_EQ(special_values(stiletto::conv(x, w3)), 4 * 9) << dtype << ' ' << channels;
        const Array to_x = stiletto::ones({channels, 4, 1, 1}, dtype);
        EXPECT_EQ(special_values(stiletto::conv_backward_data(x, to_x, {2, 4, 5, 5})), 4)
            << dtype << ' ' << channels;
      }
}

}  // namespace
