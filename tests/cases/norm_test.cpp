// SPDX-License-Identifier: Apache-2.0
// Public fault reports about normalisation: nothing to normalise, cancellation, squares beyond float16,
// epsilon, and many batch entries.
#include <gtest/gtest.h>

#include "support/cases.hpp"
#include "support/norm_reference.hpp"

namespace {

using namespace support;
using stiletto::Dims;

using Arrays = std::vector<Array>;

constexpr DType f16 = DType::float16, f32 = DType::float32;
constexpr Mode modes[] = {Mode::jit, Mode::compiled, Mode::eager};

Array layer_norm(const Array& x, float epsilon, Mode mode) {
  const std::int64_t width = x.dim(-1);
  return run([&](const Arrays& a) { return stiletto::layer_norm(a[0], a[1], a[2], {.epsilon = epsilon}); },
             {x, stiletto::ones({width}, x.dtype(), device()), stiletto::zeros({width}, x.dtype(), device())},
             mode);
}
Array rms_norm(const Array& x, float epsilon, Mode mode) {
  return run([&](const Arrays& a) { return stiletto::rms_norm(a[0], a[1], {.epsilon = epsilon}); },
             {x, stiletto::ones({x.dim(-1)}, x.dtype(), device())}, mode);
}

TEST(PublicCases, case_5) {
  const Array x = stiletto::zeros({2, 8, 0}, f32, device()), one = stiletto::ones({8}, f32, device());
  for (Mode mode : modes) {
    const Array y = run([](const Arrays& a) { return stiletto::batch_norm(a[0], a[1], a[2], a[3], a[4]); },
                        {x, one, one, one, one}, mode);
    EXPECT_EQ(y.shape(), Dims({2, 8, 0}));
    EXPECT_EQ(y.dtype(), f32);
  }
}

TEST(PublicCases, case_104) {
  const Tensor x = tabulate(f32, {1, 16}, [](const Extents& i) {
    return round_float(10000 + static_cast<Real>(i[1]) * 1e-3L, f32);
  });
  const Moments m = moments(x, 1, trailing(16), 1e-5L, true);
  const Tensor expected = normalised(x, m, trailing(16), std::vector<Real>(16, 1), {});
  EXPECT_NEAR(static_cast<double>(expected.values.front()), -1.33133, 1e-5);
  EXPECT_NEAR(static_cast<double>(expected.values.back()), 1.33133, 1e-5);
  // cuDNN 9.19 rounds the mean to float32, half a step of which is 0.09 of the spread.
  const Real near = device().is_cpu() ? 2e-2L : 0.1L;
  for (Mode mode : modes)
    EXPECT_TRUE(agrees(layer_norm(to_array(x), 1e-5F, mode), expected, {.factor = 0, .absolute = near}));
}

TEST(PublicCases, case_105) {
  const Tensor x =
      tabulate(f16, {1, 64}, [](const Extents& i) -> Real { return i[1] % 2 == 0 ? 1000 : -1000; });
  Tensor expected = x;
  for (Real& value : expected.values) value /= 1000;
  for (Mode mode : modes) EXPECT_TRUE(agrees(rms_norm(to_array(x), 1e-5F, mode), expected, {.exact = true}));
}

TEST(PublicCases, case_106) {
  Tensor x(f32, {2, 8}), expected(f32, {2, 8});
  x.values[8] = 100;
  expected.values[8] = 100 / std::sqrt(Real{1251});
  for (Mode mode : modes) {
    const Tensor y = read(rms_norm(to_array(x), 1, mode));
    EXPECT_TRUE(agrees(y, expected, {.terms = 8}));
    for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(y.values[i], 0);
    EXPECT_NEAR(static_cast<double>(y.values[8]), 2.8273, 1e-4);
  }
}

TEST(PublicCases, case_107) {
  const Tensor x = tabulate(
      f32, {1, 64}, [](const Extents& i) { return round_float(i[1] % 2 == 0 ? 1e-3L : -1e-3L, f32); });
  const Array pair = to_array(Tensor(f32, {1, 2}, {x.values[0], x.values[1]})), wide = to_array(x);
  const std::pair<float, double> rows[] = {
      {0.0F, 1.0}, {1e-6F, 0.70711}, {1e-5F, 0.30151}, {1e-2F, 0.0099995}};
  stiletto::plan_cache().clear();
  const std::size_t misses = stiletto::plan_cache().misses();
  for (const auto norm : {layer_norm, rms_norm})
    for (int round = 0; round < 2; ++round)
      for (const auto& [epsilon, wanted] : rows)
        for (const Array& array : {pair, wide}) {
          const Tensor y = read(norm(array, epsilon, Mode::jit));
          for (std::size_t i = 0; i < y.size(); ++i)
            EXPECT_NEAR(static_cast<double>(y.values[i]), i % 2 == 0 ? wanted : -wanted, 1e-5 * wanted)
                << epsilon << " of " << describe(y.shape);
        }
  EXPECT_EQ(stiletto::plan_cache().misses() - misses, 16U);
}

TEST(PublicCases, case_108) {
  const Array one = stiletto::ones({1}, f32, device()), zero = stiletto::zeros({1}, f32, device());
  const Array mean = stiletto::full({1}, 3.0F, f32, device());
  const Array inverse = stiletto::full({1}, 0.5F, f32, device());  // 1/√(var + epsilon) of var = 4 − epsilon
  for (const Extents& shape : {Extents{65536, 1, 1, 1}, Extents{140000, 1, 1}}) {
    const Tensor x = tabulate(f32, shape, [](const Extents& i) { return static_cast<Real>(i[0] % 7); });
    Tensor expected = x;
    for (Real& value : expected.values) value = (value - 3) / 2;
    for (Mode mode : modes) {
      const Array y = run([](const Arrays& a) { return stiletto::batch_norm(a[0], a[1], a[2], a[3], a[4]); },
                          {to_array(x), one, zero, mean, inverse}, mode);
      EXPECT_TRUE(agrees(y, expected, {.exact = true})) << describe(shape);
    }
  }
}

}  // namespace
