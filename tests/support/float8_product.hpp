// SPDX-License-Identifier: Apache-2.0
// The product of float8 matrices with a factor for each, and what its result's next factor is made of, as
// docs/nn.md has it.
#pragma once
#include "support/compare.hpp"

namespace support {

using Arrays = std::vector<Array>;

/// x, w, scale_x, scale_w, scale_y: y·scale_y in float8, and the largest magnitude of y.
inline Arrays float8_product(const Arrays& a) {
  const Array y = stiletto::matmul(a[0], a[1]) * (a[2] * a[3]);
  return {stiletto::cast(y * a[4], DType::float8_e4m3), stiletto::abs_max(stiletto::where(y == y, y, 0))};
}

struct Float8Product {
  Tensor x, w;
  Real scale_x = 0.5L, scale_w = 0.25L, scale_y = 3;

  /// Factors of that shape, () or (1); w lies by columns, as engines want it.
  Arrays arrays(const stiletto::Shape& shape, stiletto::Device where) const {
    const auto factor = [&](Real value) {
      return stiletto::from_data<float>({static_cast<float>(value)}, shape, where);
    };
    return {to_array(x, where), stiletto::transpose(to_array(transposed(w), where)), factor(scale_x),
            factor(scale_w), factor(scale_y)};
  }
  Tensor product() const {
    const Extents shape{x.shape[0], w.shape[1]};
    return tabulate(DType::float32, shape, [&](const Extents& at) {
      Real sum = 0;
      for (std::int64_t k = 0; k < x.shape[1]; ++k) sum += x.at({at[0], k}) * w.at({k, at[1]});
      return sum * scale_x * scale_w;
    });
  }
  Tensor stored(const Tensor& y) const {
    return tabulate(DType::float8_e4m3, y.shape, [&](const Extents& at) {
      const Real value = y.at(at) * scale_y;
      return std::fabs(value) > 448 ? std::copysign(Real{448}, value) : value;
    });
  }
  static Real largest(const Tensor& y) {
    Real result = 0;
    for (const Real value : y.values)
      if (!std::isnan(value)) result = std::fmax(result, std::fabs(value));
    return result;
  }
};

inline Float8Product float8_product_of(std::uint64_t seed, DType dtype, std::int64_t rows, std::int64_t inner,
                                       std::int64_t columns) {
  Random random(seed);
  Float8Product p;
  p.x = random_tensor(random, dtype, {rows, inner}, {-4, 4});
  p.w = random_tensor(random, dtype, {inner, columns}, {-4, 4});
  return p;
}

}  // namespace support
