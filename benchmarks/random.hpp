// SPDX-License-Identifier: Apache-2.0
// Random-normal inputs for the benchmarks; all-zero inputs would flatter some of them.
#pragma once
#include <random>
#include <vector>

#include <stiletto/stiletto.hpp>

inline stiletto::Array random_normal(stiletto::Shape shape, unsigned seed = 1) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  std::int64_t size = 1;
  for (std::int64_t extent : shape) size *= extent;
  std::vector<float> values(static_cast<std::size_t>(size));
  for (float& value : values) value = normal(generator);
  return stiletto::from_data(values, shape);
}
