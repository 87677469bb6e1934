// SPDX-License-Identifier: Apache-2.0
// Graphs that cuDNN has engines for only behind a product of ones, as a product with a one, or as a
// convolution: more axes than three, broadcasts of columns and channels, sums of float32 and of computed
// values, operands in other orders. Expected is what the CPU makes of the same arrays.
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

TEST(BehindOnes, four_axes) {
  auto sum = [](const Array& x, const Array& y) { return x + y; };
  auto three = [](const Array& x, const Array& y, const Array& z) { return x * stiletto::exp(y) + z; };
  for (const DType dtype : {f32, f16, bf16})
    for (const Extents& s : {Extents{3, 5, 7, 9}, {2, 17, 9, 64}, {4, 8, 16, 8}}) {
      const Array x = numbers(dtype, s);
      EXPECT_TRUE(as_on_cpu(1, sum, x, numbers(dtype, {s[0], 1, s[2], 1}))) << describe(s);
      EXPECT_TRUE(as_on_cpu(1, sum, x, numbers(dtype, {1, s[1], 1, s[3]}))) << describe(s);
      EXPECT_TRUE(as_on_cpu(1, three, x, numbers(dtype, {s[0], 1, s[2], s[3]}),
                            numbers(dtype, {s[0], s[1], 1, s[3]})))
          << describe(s);
      EXPECT_TRUE(as_on_cpu(1, three, x, numbers(f32, {s[0], 1, s[2], 1}), numbers(f32, {s[1], 1, s[3]})))
          << describe(s);
      EXPECT_TRUE(as_on_cpu(1, sum, numbers(dtype, s, Layout::offset), numbers(dtype, {s[0], 1, s[2], 1})))
          << describe(s);
    }
}

TEST(BehindOnes, outer_axes_in_another_order) {
  auto four = [](const Array& x, const Array& y) { return x - stiletto::transpose(y, {1, 2, 0, 3}); };
  auto five = [](const Array& x, const Array& y) { return x - stiletto::transpose(y, {3, 2, 1, 0, 4}); };
  for (const DType dtype : {f32, f16}) {
    EXPECT_TRUE(as_on_cpu(1, four, numbers(dtype, {3, 5, 7, 9}), numbers(dtype, {7, 3, 5, 9})));
    EXPECT_TRUE(as_on_cpu(1, four, numbers(dtype, {3, 5, 7, 32}), numbers(dtype, {7, 3, 5, 32})));
    EXPECT_TRUE(as_on_cpu(1, five, numbers(dtype, {2, 3, 4, 5, 6}), numbers(dtype, {5, 4, 3, 2, 6})));
    EXPECT_TRUE(as_on_cpu(1, five, numbers(dtype, {2, 3, 4, 5, 16}), numbers(dtype, {5, 4, 3, 2, 16})));
  }
}

TEST(BehindOnes, five_axes) {
  auto three = [](const Array& x, const Array& y, const Array& z) { return x * y + z; };
  for (const DType dtype : {f32, bf16})
    for (const Extents& s : {Extents{2, 3, 4, 5, 6}, {3, 2, 5, 7, 32}})
      EXPECT_TRUE(as_on_cpu(1, three, numbers(dtype, s), numbers(dtype, {s[0], 1, s[2], 1, s[4]}),
                            numbers(dtype, {1, s[1], 1, s[3], 1})))
          << describe(s);
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

/// As convolutions with a filter of one element.
TEST(BehindOnes, products_with_batches_apart) {
  auto heads = [](const Array& x, const Array& w) {
    return stiletto::matmul(stiletto::transpose(x, {0, 2, 1, 3}), w);
  };
  auto transposed = [](const Array& x, const Array& w, const Array& b) {
    return stiletto::relu(stiletto::matmul(stiletto::transpose(x, {0, 2, 1, 3}), stiletto::transpose(w)) + b);
  };
  auto three = [](const Array& x, const Array& w) {
    return stiletto::matmul(stiletto::transpose(x, {1, 2, 0, 3, 4}), w);
  };
  for (const DType dtype : {f16, bf16, f32}) {
    const Array x = numbers(dtype, {2, 64, 4, 32});
    EXPECT_TRUE(as_on_cpu(32, heads, x, numbers(dtype, {32, 48})));
    EXPECT_TRUE(as_on_cpu(32, transposed, x, numbers(dtype, {48, 32}), numbers(dtype, {48})));
    EXPECT_TRUE(as_on_cpu(32, three, numbers(dtype, {2, 3, 4, 16, 32}), numbers(dtype, {32, 48})));
    EXPECT_TRUE(as_on_cpu(5, heads, numbers(dtype, {2, 9, 3, 5}), numbers(dtype, {5, 7})));
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
