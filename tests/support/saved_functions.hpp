// SPDX-License-Identifier: Apache-2.0
// Functions whose plans for an H200 are built where there is none (stiletto_plans_tests --save) and executed
// where there is one.
#pragma once
#include <cmath>
#include <string>
#include <tuple>
#include <vector>

#include "stiletto/stiletto.hpp"

namespace support {

struct SavedFunction {
  std::string name;
  stiletto::Array (*function)(const stiletto::Array&, const stiletto::Array&, const stiletto::Array&);
  stiletto::Shape shapes[3];
  stiletto::DType dtype;
  double tolerance;  // relative to the largest result

  std::string file() const { return name + ".plan"; }
};

inline std::vector<SavedFunction> saved_functions() {
  using stiletto::Array;
  using stiletto::DType;
  return {
      {"product",
       [](const Array& x, const Array& w, const Array& b) {
         return stiletto::gelu_tanh(stiletto::matmul(x, w) + b);
       },
       {{96, 64}, {64, 48}, {48}},
       DType::bfloat16,
       1.6e-2},
      {"product_float32",
       [](const Array& x, const Array& w, const Array& b) {
         return stiletto::tanh(stiletto::matmul(x, w) / 20) + b;
       },
       {{64, 48}, {48, 32}, {32}},
       DType::float32,
       1e-3},
      {"pointwise",
       [](const Array& x, const Array& y, const Array& z) { return stiletto::relu(x * y + z) * 0.5F; },
       {{128, 256}, {128, 256}, {256}},
       DType::float16,
       2e-3},
      {"sums",
       [](const Array& x, const Array&, const Array&) { return stiletto::sum(stiletto::abs(x), 0); },
       {{512, 64}, {64}, {1}},
       DType::float16,
       2e-3},
  };
}

/// Values between −1 and 1 that float16 and bfloat16 hold exactly.
inline stiletto::Array saved_argument(const SavedFunction& f, int position) {
  std::vector<float> values;
  std::int64_t count = 1;
  for (const std::int64_t extent : f.shapes[position]) count *= extent;
  for (std::int64_t i = 0; i < count; ++i)
    values.push_back(static_cast<float>((i * (7 + 2 * position) + position) % 33 - 16) / 16);
  return stiletto::cast(stiletto::from_data(values, f.shapes[position]), f.dtype);
}

}  // namespace support
