// SPDX-License-Identifier: Apache-2.0
// Public fault reports about matrix products: stride-0 batches, old values under beta = 0, odd sizes,
// transposed destinations, degenerate leading dimensions, and full float32 precision.
#include <gtest/gtest.h>

#include "support/cases.hpp"

namespace {

using namespace support;
using stiletto::Dims;

const DType float32 = DType::float32;
const Function product = [](const std::vector<Array>& a) { return stiletto::matmul(a[0], a[1]); };

TEST(PublicCases, case_15) {
  const Array left = stiletto::broadcast_to(stiletto::ones({1, 32, 32}, float32, device()), {32, 32, 32});
  ASSERT_EQ(left.strides()[0], 0);
  const Array right = stiletto::ones({32, 32, 32}, float32, device());
  const Tensor expected = tabulate(float32, {32, 32, 32}, [](const Extents&) { return Real{32}; });
  for (Mode mode : {Mode::jit, Mode::compiled, Mode::eager})
    EXPECT_TRUE(agrees(run(product, {left, right}, mode), expected, {.exact = true}));
}

TEST(PublicCases, case_16) {
  const Tensor a = tabulate(float32, {6, 6}, [](const Extents& i) { return static_cast<Real>(i[0] + i[1]); });
  const Tensor b = tabulate(float32, {4, 6}, [](const Extents& i) { return static_cast<Real>(i[0] + 1); });
  const Array left = stiletto::broadcast_to(to_array(a), {4, 6, 6});
  const Array right = stiletto::broadcast_to(stiletto::expand_dims(to_array(b), -1), {4, 6, 5});
  ASSERT_EQ(right.strides()[2], 0);
  const Tensor expected = tabulate(
      float32, {4, 6, 5}, [](const Extents& i) { return static_cast<Real>((i[0] + 1) * (6 * i[1] + 15)); });
  if (device().is_cuda()) {  // the columns repeat, which cuDNN would write at wrong places
    EXPECT_THROW(run(product, {left, right}, Mode::jit), stiletto::UnsupportedGraphError);
    return;
  }
  for (Mode mode : {Mode::jit, Mode::compiled, Mode::eager})
    EXPECT_TRUE(agrees(run(product, {left, right}, mode), expected, {.exact = true}));
}

TEST(PublicCases, case_52) {
  for (DType dtype : {float32, DType::bfloat16})
    for (std::int64_t n : {1, 16, 17, 33}) {
      const Tensor a = tabulate(
          dtype, {n, n}, [](const Extents& i) { return static_cast<Real>((i[0] * 3 + i[1]) % 5 - 2); });
      const Tensor b = tabulate(
          dtype, {n, n}, [](const Extents& i) { return static_cast<Real>((i[0] + i[1] * 2) % 3 - 1); });
      for (Real poison : {not_a_number, infinity}) {
        const Array c = to_array(tabulate(dtype, {n, n}, [&](const Extents&) { return poison; }));
        auto f = [](const Array& z, const Array& x, const Array& y) { stiletto::matmul_into(z, x, y, 1, 0); };
        stiletto::jit(f, c, to_array(a), to_array(b));
        const Tensor actual = read(c), expected = matmul(a, b);
        for (std::size_t i = 0; i < actual.size(); ++i) ASSERT_EQ(actual.values[i], expected.values[i]) << n;
      }
    }
}

TEST(PublicCases, case_53) {
  const DType half = DType::float16;
  for (const auto& [m, n, k] :
       std::vector<std::array<std::int64_t, 3>>{{3, 5, 7}, {1, 105, 107}, {2, 3, 4}}) {
    const Tensor a = tabulate(half, {m, k}, [](const Extents& i) { return static_cast<Real>(i[0] + i[1]); });
    const Tensor b = tabulate(half, {k, n}, [](const Extents& i) { return static_cast<Real>(i[0] - i[1]); });
    Tensor expected = matmul(a, b);
    for (Real& value : expected.values) value = round_float(value, half);
    for (bool ta : {false, true})
      for (bool tb : {false, true}) {
        const Array x = ta ? stiletto::transpose(to_array(transposed(a))) : to_array(a);
        const Array y = tb ? stiletto::transpose(to_array(transposed(b))) : to_array(b);
        const Tensor actual = read(run(product, {x, y}, Mode::jit));
        for (std::size_t i = 0; i < actual.size(); ++i)
          ASSERT_EQ(actual.values[i], expected.values[i]) << m << " " << n << " " << k << " " << ta << tb;
      }
  }
}

TEST(PublicCases, case_54) {
  const Tensor a =
      tabulate(float32, {20, 13}, [](const Extents& i) { return static_cast<Real>(i[0] % 7 - i[1] % 3); });
  const Tensor b =
      tabulate(float32, {13, 5}, [](const Extents& i) { return static_cast<Real>(i[0] % 4 + i[1]); });
  const Array storage = stiletto::full({140}, -77.0F, float32, device());
  const Array out = stiletto::as_strided(storage, {20, 5}, {1, 20}, 20);  // 20 elements before it, 20 after
  stiletto::jit([](const Array& z, const Array& x, const Array& y) { stiletto::matmul_into(z, x, y); }, out,
                to_array(a), to_array(b));
  const Tensor actual = read(out), expected = matmul(a, b);
  for (std::size_t i = 0; i < actual.size(); ++i) EXPECT_EQ(actual.values[i], expected.values[i]);
  for (std::int64_t i = 0; i < 140; ++i) {
    if (i < 20 || i >= 120) {
      EXPECT_EQ(storage.at<float>({i}), -77.0F) << i;
    }
  }
}

TEST(PublicCases, case_55) {
  const Tensor a = tabulate(float32, {10, 1, 4}, [n = Real{1}](const Extents&) mutable { return n++; });
  const Tensor c = tabulate(float32, {10, 1, 5}, [n = Real{1}](const Extents&) mutable { return n++; });
  auto f = [](const Array& x, const Array& y) {
    return stiletto::matmul(stiletto::transpose(x, {0, 2, 1}), y);
  };
  const Tensor expected = tabulate(
      float32, {10, 4, 5}, [&](const Extents& i) { return a.at({i[0], 0, i[1]}) * c.at({i[0], 0, i[2]}); });
  EXPECT_TRUE(agrees(stiletto::jit(f, to_array(a), to_array(c)), expected, {.exact = true}));
  EXPECT_TRUE(agrees(f(to_array(a), to_array(c)), expected, {.exact = true}));
}

// On the CPU float32 products are float32: no shorter mantissa.
TEST(PublicCases, case_56) {
  const Array x = stiletto::full({1, 1}, 1024.5F), one = stiletto::ones({1, 1});
  EXPECT_EQ(stiletto::matmul(x, one).item<float>(), 1024.5F);
  EXPECT_EQ(stiletto::matmul(stiletto::reshape(x, {1}), one).item<float>(), 1024.5F);
  Random random(56);
  const Tensor a = random_tensor(random, float32, {512, 512}), b = random_tensor(random, float32, {512, 512});
  const Tensor actual = read(run(product, {to_array(a), to_array(b)}, Mode::jit));
  std::vector<double> left(a.values.begin(), a.values.end()), right(b.values.begin(), b.values.end());
  double error = 0, norm = 0;
  for (std::size_t i = 0; i < 512; ++i) {
    std::vector<double> row(512, 0);
    for (std::size_t k = 0; k < 512; ++k)
      for (std::size_t j = 0; j < 512; ++j) row[j] += left[i * 512 + k] * right[k * 512 + j];
    for (std::size_t j = 0; j < 512; ++j) {
      const double difference = static_cast<double>(actual.values[i * 512 + j]) - row[j];
      error += difference * difference;
      norm += row[j] * row[j];
    }
  }
  EXPECT_LE(std::sqrt(error / norm), 2e-6);
}

}  // namespace
