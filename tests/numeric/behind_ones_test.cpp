// SPDX-License-Identifier: Apache-2.0
// Graphs that cuDNN has engines for only behind a product of ones or as a product with a one: broadcasts of
// columns and channels, sums of float32 and of computed values, operands in other orders. Expected is what
// the CPU makes of the same arrays.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/cases.hpp"

namespace {

using namespace support;
using stiletto::Slice;

constexpr DType f16 = DType::float16, bf16 = DType::bfloat16, f32 = DType::float32;

Array numbers(DType dtype, const Extents& shape, Layout layout = Layout::contiguous,
              std::uint64_t seed = 31) {
  Random random(seed);
  return operand(random, dtype, shape, layout).array;
}

/// `terms`: how many numbers are added up for one.
template <class F, class... Arrays>
testing::AssertionResult as_on_cpu(Real terms, F f, const Arrays&... arrays) {
  const Array expected = stiletto::jit(f, arrays.to(stiletto::Device::cpu())...);
  return agrees(stiletto::jit(f, arrays...), read(expected), {terms});
}

TEST(BehindOnes, channels) {
  auto norm = [](const Array& x, const Array& mean, const Array& inverse, const Array& scale,
                 const Array& bias) { return (x - mean) * inverse * scale + bias; };
  for (const DType dtype : {f32, f16, bf16})
    for (const Extents& shape : {Extents{3, 8, 5, 6}, {2, 7, 3, 3}, {4, 64, 16, 16}})
      for (const Layout layout : {Layout::contiguous, Layout::channels_last}) {
        const Extents channels = {shape[1], 1, 1};
        EXPECT_TRUE(as_on_cpu(4, norm, numbers(dtype, shape, layout), numbers(f32, channels),
                              numbers(f32, channels), numbers(f32, channels), numbers(f32, channels)))
            << stiletto::to_string(dtype) << describe(shape) << to_string(layout);
      }
}

TEST(BehindOnes, columns_and_rows) {
  auto sum = [](const Array& x, const Array& y) { return x + y; };
  auto function = [](const Array& x, const Array& y) { return x * stiletto::tanh(y); };
  auto repeated = [](const Array& x, const Array& y) { return stiletto::where(y > 0, -x, x); };
  for (const DType dtype : {f32, f16})
    for (const Extents& size : {Extents{64, 96}, {7, 5}, {129, 257}}) {
      const Array column = numbers(dtype, {size[0], 1}), row = numbers(dtype, {1, size[1]}),
                  columns = numbers(dtype, {4, size[0], 1}), rows = numbers(dtype, {4, 1, size[1]});
      EXPECT_TRUE(as_on_cpu(1, sum, column, row)) << describe(size);
      EXPECT_TRUE(as_on_cpu(1, sum, columns, rows)) << describe(size);
      EXPECT_TRUE(as_on_cpu(1, sum, columns, row)) << describe(size);
      EXPECT_TRUE(as_on_cpu(1, function, numbers(dtype, size), column)) << describe(size);
      EXPECT_TRUE(as_on_cpu(1, repeated, numbers(dtype, {4, size[0], size[1]}), column)) << describe(size);
    }
}

/// Times 1 they stay what they are.
TEST(BehindOnes, special_values) {
  const Real infinite = std::numeric_limits<Real>::infinity(), nan = std::numeric_limits<Real>::quiet_NaN();
  for (const DType dtype : {f32, f16, bf16}) {
    const Array x = to_array(tabulate(dtype, {2, 8, 6}, [&](const Extents& at) {
      const Real special[] = {infinite, -infinite, nan, -0.0L, 1e-4L, 3};
      return special[(at[0] + at[1] + at[2]) % 6];
    }));
    auto shifted = [](const Array& a, const Array& b) { return a * b; };
    EXPECT_TRUE(as_on_cpu(1, shifted, x, numbers(f32, {8, 1})));
    auto turned = [](const Array& a, const Array& b) { return a * 2 + stiletto::transpose(b); };
    const Array matrix = stiletto::reshape(x, {12, 8});
    EXPECT_TRUE(as_on_cpu(1, turned, numbers(f32, {8, 12}), matrix));
  }
}

TEST(BehindOnes, operands_in_another_order) {
  auto turned = [](const Array& x, const Array& y) { return x + stiletto::transpose(y); };
  auto both = [](const Array& x, const Array& y, const Array& z) {
    return x + stiletto::transpose(y) * stiletto::transpose(z);
  };
  auto stepped = [](const Array& x, const Array& y) {
    return x - stiletto::slice(y, {Slice{}, Slice{0, {}, 2}});
  };
  for (const DType dtype : {f16, bf16})
    for (const Extents& s : {Extents{64, 96}, {7, 5}, {130, 260}}) {
      const Array y = numbers(dtype, {s[1], s[0]}), z = numbers(dtype, {s[1], s[0]}, Layout::contiguous, 32);
      EXPECT_TRUE(as_on_cpu(1, turned, numbers(dtype, s), y)) << describe(s);
      EXPECT_TRUE(as_on_cpu(1, turned, numbers(f32, s), y)) << describe(s);
      EXPECT_TRUE(as_on_cpu(1, both, numbers(f32, s), y, z)) << describe(s);
      EXPECT_TRUE(as_on_cpu(1, stepped, numbers(f32, s), numbers(dtype, {s[0], 2 * s[1]}))) << describe(s);
    }
}

TEST(BehindOnes, sums_of_float32) {
  for (const Extents& shape : {Extents{8, 32, 64}, {7, 13, 29}, {3, 200, 333}}) {
    const Array x = numbers(f32, shape);
    for (const stiletto::Axes& axes : {stiletto::Axes{0}, {1}, {2}, {0, 1}, {1, 2}, {0, 2}, {0, 1, 2}}) {
      auto sum = [&](const Array& a) { return stiletto::sum(a, axes); };
      auto mean = [&](const Array& a) { return stiletto::mean(a, axes); };
      EXPECT_TRUE(as_on_cpu(Real(200 * 333), sum, x)) << describe(shape);
      EXPECT_TRUE(as_on_cpu(Real(200 * 333), mean, x)) << describe(shape);
    }
  }
}

TEST(BehindOnes, sums_of_all) {
  auto sum = [](const Array& a) { return stiletto::sum(a); };
  for (const std::int64_t n : {64, 1000, 4096, 10007, 3 * 65536, 1 << 20})
    EXPECT_TRUE(as_on_cpu(Real(n), sum, numbers(f32, {n}))) << n;
}

TEST(BehindOnes, sums_of_computed_values) {
  auto squares = [](const Array& a) { return stiletto::sum(a * a, 0); };
  auto rows = [](const Array& a) { return stiletto::sum(stiletto::exp(a), 1); };
  auto norm = [](const Array& a) { return stiletto::norm1(a, 1); };
  auto variance = [](const Array& a, const Array& b) { return stiletto::mean(stiletto::square(a - b), 0); };
  for (const DType dtype : {f32, f16, bf16})
    for (const Extents& shape : {Extents{256, 512}, {65, 130}, {7, 3}}) {
      const Array x = numbers(dtype, shape);
      EXPECT_TRUE(as_on_cpu(512, squares, x)) << describe(shape);
      EXPECT_TRUE(as_on_cpu(512, rows, x)) << describe(shape);
      EXPECT_TRUE(as_on_cpu(512, norm, x)) << describe(shape);
      EXPECT_TRUE(as_on_cpu(512, variance, x, numbers(f32, {shape[1]}))) << describe(shape);
    }
}

/// cuDNN crashes on it unless there is something between.
TEST(BehindOnes, a_sum_of_two_multiples_of_a_product) {
  auto f = [](const Array& a, const Array& b, const Array& row) {
    const Array y = stiletto::matmul(a, b);
    return y * row + y * 2;
  };
  EXPECT_TRUE(as_on_cpu(128, f, numbers(f16, {64, 128}), numbers(f16, {128, 96}), numbers(f16, {96})));
}

}  // namespace
