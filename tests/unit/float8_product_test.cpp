// SPDX-License-Identifier: Apache-2.0
// Products of float8 matrices with factors, by the recipe of docs/nn.md.
#include "support/float8_product.hpp"

namespace {

using namespace support;

const stiletto::Device cpu = stiletto::Device::cpu();

TEST(Float8Product, is_scaled_and_measured_in_one_graph) {
  for (const DType dtype : {DType::float8_e4m3, DType::float8_e5m2})
    for (const stiletto::Shape& shape : {stiletto::Shape{}, stiletto::Shape{1}}) {
      const Float8Product p = float8_product_of(21, dtype, 50, 64, 48);
      const Arrays made = stiletto::jit(float8_product, p.arrays(shape, cpu));
      const Tensor y = p.product();
      EXPECT_TRUE(agrees(made[0], p.stored(y)));
      EXPECT_EQ(made[1].shape(), stiletto::Shape{});
      EXPECT_NEAR(made[1].item<float>(), Float8Product::largest(y), 1e-5);
    }
}

TEST(Float8Product, numbers_are_factors_too) {
  const Float8Product p = float8_product_of(22, DType::float8_e4m3, 16, 32, 16);
  Arrays a = p.arrays({}, cpu);
  const auto f = [](const Array& x, const Array& w) {
    return float8_product({x, w, Array(0.5F), Array(0.25F), Array(3.0F)});
  };
  EXPECT_TRUE(
      agrees(stiletto::jit(f, a[0], a[1])[0], read(stiletto::jit(float8_product, a)[0]), {.exact = true}));
}

TEST(Float8Product, nan_stays_in_the_product_and_out_of_its_size) {
  Float8Product p = float8_product_of(23, DType::float8_e4m3, 16, 32, 16);
  element(p.x, {3, 5}) = not_a_number;
  const Arrays made = stiletto::jit(float8_product, p.arrays({}, cpu));
  const Tensor out = read(made[0]), y = p.product();
  for_each_index(out.shape, [&](const Extents& at) { EXPECT_EQ(std::isnan(out.at(at)), at[0] == 3); });
  EXPECT_NEAR(made[1].item<float>(), Float8Product::largest(y), 1e-5);
  p.scale_x = infinity;
  EXPECT_EQ(stiletto::jit(float8_product, p.arrays({}, cpu))[1].item<float>(), infinity);
}

}  // namespace
