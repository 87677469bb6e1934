// SPDX-License-Identifier: Apache-2.0
// Products of float8 matrices with factors on a GPU, and the size of products that NaN was taken out of.
#include <cstdio>

#include "support/float8_product.hpp"

namespace {

using namespace support;

const stiletto::Device gpu = stiletto::Device::cuda(0);
constexpr DType e4m3 = DType::float8_e4m3, e5m2 = DType::float8_e5m2;

Real only(const Array& x) { return read(x).values.at(0); }

TEST(Float8ProductOnGpu, is_scaled_and_measured_in_one_graph) {
  const std::array<std::int64_t, 3> sizes[] = {
      {64, 128, 96}, {256, 512, 256}, {50, 64, 48}, {300, 1024, 160}};
  for (const DType dtype : {e4m3, e5m2})
    for (const auto& [rows, inner, columns] : sizes)
      for (const stiletto::Shape& shape : {stiletto::Shape{}, stiletto::Shape{1}}) {
        SCOPED_TRACE(testing::Message()
                     << stiletto::to_string(dtype) << ' ' << rows << " x " << inner << " x " << columns);
        Float8Product p = float8_product_of(31, dtype, rows, inner, columns);
        if (dtype == e5m2) p.w = float8_product_of(32, e4m3, rows, inner, columns).w;
        const Tensor y = p.product();
        p.scale_y = 448 / Float8Product::largest(y);
        const Arrays made = stiletto::jit(float8_product, p.arrays(shape, gpu));
        EXPECT_TRUE(agrees(made[0], p.stored(y)));
        EXPECT_NEAR(only(made[1]), Float8Product::largest(y), 1e-3L * Float8Product::largest(y));
      }
}

TEST(Float8ProductOnGpu, numbers_are_factors_too) {
  const Float8Product p = float8_product_of(33, e4m3, 64, 128, 96);
  const Arrays a = p.arrays({}, gpu);
  const auto f = [](const Array& x, const Array& w) {
    return float8_product({x, w, Array(0.5F), Array(0.25F), Array(3.0F)});
  };
  const Arrays made = stiletto::jit(f, a[0], a[1]), wanted = stiletto::jit(float8_product, a);
  EXPECT_TRUE(agrees(made[0], read(wanted[0]), {.exact = true}));
  EXPECT_EQ(only(made[1]), only(wanted[1]));
}

/// Factors are read at each call, and what does not fit saturates.
TEST(Float8ProductOnGpu, other_factors_and_saturation) {
  Float8Product p = float8_product_of(34, e4m3, 64, 128, 96);
  const auto compiled = stiletto::compile(float8_product, p.arrays({}, gpu));
  for (const Real scale : {1.0L, 1000.0L, 0.001L}) {
    p.scale_y = scale;
    const Tensor y = p.product();
    const Arrays made = compiled(p.arrays({}, gpu));
    EXPECT_TRUE(agrees(made[0], p.stored(y))) << static_cast<double>(scale);
    EXPECT_NEAR(only(made[1]), Float8Product::largest(y), 1e-3L * Float8Product::largest(y));
  }
}

TEST(Float8ProductOnGpu, nan_stays_in_the_product_and_out_of_its_size) {
  Float8Product p = float8_product_of(35, e4m3, 64, 128, 96);
  element(p.x, {3, 5}) = not_a_number, element(p.x, {63, 0}) = not_a_number;
  const Arrays made = stiletto::jit(float8_product, p.arrays({}, gpu));
  const Tensor out = read(made[0]), y = p.product();
  int wrong = 0;
  for_each_index(out.shape,
                 [&](const Extents& at) { wrong += std::isnan(out.at(at)) != (at[0] == 3 || at[0] == 63); });
  EXPECT_EQ(wrong, 0);
  EXPECT_NEAR(only(made[1]), Float8Product::largest(y), 1e-3L * Float8Product::largest(y));
  p.scale_x = infinity;
  EXPECT_EQ(only(stiletto::jit(float8_product, p.arrays({}, gpu))[1]), infinity);
  for (Real& value : p.x.values) value = not_a_number;
  p.scale_x = 1;
  EXPECT_EQ(only(stiletto::jit(float8_product, p.arrays({}, gpu))[1]), 0);
}

TEST(AbsMaxOnGpu, of_rows_columns_and_all_behind_products) {
  for (const DType dtype : {DType::float16, DType::bfloat16, DType::float32})
    for (const stiletto::Axes& axes : {stiletto::Axes{}, stiletto::Axes{0}, stiletto::Axes{1}})
      for (const bool biased : {false, true}) {
        Random random(36);
        const Tensor x = random_tensor(random, dtype, {130, 64}, {-1, 1}),
                     w = random_tensor(random, dtype, {64, 200}, {-1, 1}),
                     b = random_tensor(random, dtype, {200}, {-9, 0});
        const auto f = [&](const Arrays& a) -> Arrays {
          Array y = stiletto::matmul(a[0], a[1]);
          if (biased) y = y * 0.5F + a[2];
          return {y, stiletto::abs_max(stiletto::where(y != y, 0, y), axes)};
        };
        const auto on = [&](stiletto::Device where) {
          return stiletto::jit(f, Arrays{to_array(x, where), to_array(w, where), to_array(b, where)});
        };
        const Arrays made = on(gpu), wanted = on(stiletto::Device::cpu());
        const Allowance near{.factor = dtype == DType::float32 ? 1e3L : 1};
        EXPECT_TRUE(agrees(made[0], read(wanted[0]), near)) << stiletto::to_string(dtype);
        EXPECT_TRUE(agrees(made[1], read(wanted[1]), {.factor = 2e3L}))
            << stiletto::to_string(dtype) << " axes " << (axes.empty() ? -1 : *axes.begin());
      }
}

}  // namespace
