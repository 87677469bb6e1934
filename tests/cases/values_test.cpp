// SPDX-License-Identifier: Apache-2.0
// Public fault reports about numbers: narrow accumulation, NaN and infinity, overflow inside activations,
// rounding of casts, and promotion. Where a report leaves a choice, semantics.md has made it.
#include <gtest/gtest.h>

#include <bit>

#include "support/cases.hpp"

namespace {

using namespace support;

const DType float32 = DType::float32;

Array of(DType dtype, std::vector<Real> values) {
  const auto count = static_cast<std::int64_t>(values.size());
  return to_array(Tensor(dtype, {count}, std::move(values)));
}
Array cast_to_type(const Array& x, DType to) {
  return stiletto::jit([&](const Array& a) { return stiletto::cast(a, to); }, x);
}
Array from_bits(const std::vector<std::uint32_t>& bits) {
  return from_codes(bits, {static_cast<std::int64_t>(bits.size())}, float32);
}
std::uint16_t code(const Array& x, std::int64_t i) {
  const Array host = x.to(stiletto::Device::cpu());
  return static_cast<const std::uint16_t*>(host.raw_data())[i];
}
/// Without the sign of zero.
testing::AssertionResult same_values(const Array& x, DType dtype, const std::vector<Real>& expected) {
  Tensor actual = read(x);
  if (actual.dtype != dtype || actual.size() != expected.size()) return testing::AssertionFailure() << x;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const bool same =
        std::isnan(expected[i]) ? std::isnan(actual.values[i]) : actual.values[i] == expected[i];
    if (!same)
      return testing::AssertionFailure() << "element " << i << ": " << static_cast<double>(actual.values[i])
                                         << " instead of " << static_cast<double>(expected[i]);
  }
  return testing::AssertionSuccess();
}

// The pooling half of the report waits for pooling: a mean over the same elements stands in for it.
TEST(PublicCases, case_81) {
  const Array ones = stiletto::ones({1, 1, 64, 64}, DType::float16, device());
  EXPECT_TRUE(same_values(stiletto::jit([](const Array& x) { return stiletto::mean(x, {2, 3}); }, ones),
                          float32, {1}));
  const Array pooled = stiletto::jit([](const Array& x) { return stiletto::avg_pool(x, 64); }, ones);
  EXPECT_TRUE(equals(pooled, DType::float16, {1, 1, 1, 1}, {1}));
  const Array zeros = stiletto::zeros({4096}, DType::float16, device());
  const Array y = stiletto::jit([](const Array& x) { return stiletto::softmax(x); }, zeros);
  EXPECT_TRUE(same_values(y, DType::float16, std::vector<Real>(4096, std::ldexp(Real{1}, -12))));
  EXPECT_TRUE(same_values(stiletto::sum(y), float32, {1}));
}

TEST(PublicCases, case_83) {
  const Array x = of(float32, {not_a_number, -1, 2, -0.0L, infinity, -infinity});
  for (Mode mode : {Mode::jit, Mode::compiled, Mode::eager})
    EXPECT_TRUE(
        same_values(run(operation("relu").call, {x}, mode), float32, {not_a_number, 0, 2, 0, infinity, 0}));
}

TEST(PublicCases, case_84) {
  const std::vector<Real> a4 = {not_a_number, 1, not_a_number, 0}, b4 = {1, not_a_number, not_a_number, 0};
  for (std::size_t length : {4U, 5U, 17U}) {
    std::vector<Real> a, b, both, clipped;
    for (std::size_t i = 0; i < length; ++i) {
      a.push_back(a4[i % 4]);
      b.push_back(b4[i % 4]);
      both.push_back(i % 4 == 3 ? 0 : not_a_number);
      clipped.push_back(a4[i % 4]);
    }
    const Array x = of(float32, a), y = of(float32, b);
    for (const char* name : {"maximum", "minimum"}) {
      EXPECT_TRUE(same_values(run(operation(name).call, {x, y}, Mode::jit), float32, both)) << name << length;
      EXPECT_TRUE(same_values(run(operation(name).call, {y, x}, Mode::jit), float32, both)) << name << length;
    }
    EXPECT_TRUE(same_values(stiletto::jit([](const Array& v) { return stiletto::clamp(v, 0, 1); }, x),
                            float32, clipped));
  }
}

TEST(PublicCases, case_85) {
  const Tensor x = tabulate(float32, {3, 5}, [](const Extents& i) {
    return i[0] == 1 && i[1] == 4 ? not_a_number : static_cast<Real>(i[0] + i[1]);
  });
  if (device().is_cuda()) {  // cuDNN's maximum drops NaN, so a GPU refuses rather than answer wrongly
    for (const auto reduction : {stiletto::max, stiletto::min})
      EXPECT_THROW(stiletto::jit([&](const Array& a) { return reduction(a, 1, false); }, to_array(x)),
                   stiletto::UnsupportedGraphError);
    return;
  }
  EXPECT_TRUE(same_values(stiletto::jit([](const Array& a) { return stiletto::max(a, 1); }, to_array(x)),
                          float32, {4, not_a_number, 6}));
  EXPECT_TRUE(same_values(stiletto::jit([](const Array& a) { return stiletto::min(a, 1); }, to_array(x)),
                          float32, {0, not_a_number, 2}));
}

// A row with +infinity, or of -infinity only, is NaN.
TEST(PublicCases, case_86) {
  auto f = [](const Array& a) { return stiletto::softmax(a); };
  EXPECT_TRUE(
      same_values(stiletto::jit(f, of(float32, {infinity, 1})), float32, {not_a_number, not_a_number}));
  EXPECT_TRUE(same_values(stiletto::jit(f, of(float32, {-infinity, 1})), float32, {0, 1}));
  EXPECT_TRUE(same_values(stiletto::jit(f, of(float32, {-infinity, -infinity})), float32,
                          {not_a_number, not_a_number}));
}

TEST(PublicCases, case_87) {
  Random random(87);
  const Tensor x = random_tensor(random, float32, {2, 3, 4, 5});
  for (int axis = 0; axis < 4; ++axis) {
    const Array y = stiletto::jit([&](const Array& a) { return stiletto::softmax(a, axis); }, to_array(x));
    for (Real total : read(stiletto::sum(y, axis)).values) EXPECT_NEAR(static_cast<double>(total), 1, 1e-6);
    EXPECT_TRUE(agrees(y, softmax(x, static_cast<std::size_t>(axis)), {.terms = 5}));
  }
  const Tensor thin = random_tensor(random, float32, {1, 2, 1, 3});
  EXPECT_TRUE(
      same_values(stiletto::jit([](const Array& a) { return stiletto::softmax(a, 0); }, to_array(thin)),
                  float32, std::vector<Real>(6, 1)));
  EXPECT_TRUE(agrees(stiletto::jit([](const Array& a) { return stiletto::softmax(a, 1); }, to_array(thin)),
                     softmax(thin, 1)));
}

TEST(PublicCases, case_89) {
  for (DType dtype : {float32, DType::float16}) {
    const Array x = of(dtype, {8, 11, 15, 40, -40, 1e4L});
    EXPECT_TRUE(
        same_values(run(operation("gelu_tanh").call, {x}, Mode::jit), dtype, {8, 11, 15, 40, 0, 1e4L}));
  }
}

TEST(PublicCases, case_91) {
  for (const auto& [dtype, count] : std::vector<std::pair<DType, std::int64_t>>{
           {DType::bfloat16, 512}, {DType::float16, 4096}, {DType::bfloat16, 4096}}) {
    const Array ones = stiletto::ones({count}, dtype, device());
    EXPECT_TRUE(same_values(stiletto::jit([](const Array& x) { return stiletto::sum(x); }, ones), float32,
                            {static_cast<Real>(count)}));
    EXPECT_TRUE(
        same_values(stiletto::jit([](const Array& x) { return stiletto::mean(x); }, ones), float32, {1}));
  }
}

TEST(PublicCases, case_92) {
  const Array x = stiletto::full({4096}, 17, DType::float16, device());
  auto mean = [](const Array& a) { return stiletto::sum(a) / 4096; };
  EXPECT_TRUE(same_values(stiletto::jit(mean, x), float32, {17}));
  auto narrow = [](const Array& a) { return stiletto::cast(stiletto::sum(a) / 4096, DType::float16); };
  EXPECT_TRUE(same_values(stiletto::jit(narrow, x), DType::float16, {17}));
  const stiletto::CompileOptions half_outputs{.io_dtype = DType::float16};
  EXPECT_TRUE(same_values(stiletto::jit(half_outputs, mean, x), DType::float16, {17}));
  auto bare = [](const Array& a) { return stiletto::sum(a); };
  EXPECT_TRUE(same_values(stiletto::jit(bare, x), float32, {69632}));
  EXPECT_TRUE(same_values(stiletto::jit(half_outputs, bare, x), DType::float16, {infinity}));
}

TEST(PublicCases, case_93) {
  const Real step = std::ldexp(Real{1}, -8);
  const Array x = of(float32, {static_cast<float>(0.2691408770292272), 1 + step, 1 + 3 * step,
                               1 + step + std::ldexp(Real{1}, -20)});
  EXPECT_TRUE(same_values(cast_to_type(x, DType::bfloat16), DType::bfloat16,
                          {0.26953125L, 1, 1.015625L, 1.0078125L}));
}

TEST(PublicCases, case_94) {
  const Array x = from_bits({0x7F800001, 0xFF800001, 0x7FFFFFFF, 0x7F7FFFFF});
  EXPECT_TRUE(same_values(cast_to_type(x, DType::bfloat16), DType::bfloat16,
                          {not_a_number, not_a_number, not_a_number, infinity}));
}

// Subnormals are kept.
TEST(PublicCases, case_95) {
  const Array x = of(float32, {std::ldexp(Real{1}, -127), std::ldexp(Real{1}, -133)});
  for (int length : {1, 40}) {
    const Array many = length == 1 ? x : stiletto::broadcast_to(stiletto::expand_dims(x, 1), {2, length});
    const Array y = cast_to_type(many, DType::bfloat16).copy();
    EXPECT_EQ(code(y, 0), 0x0040);
    EXPECT_EQ(code(y, y.size() - 1), 0x0001);
  }
}

TEST(PublicCases, case_96) {
  Tensor values(float32, {7},
                {std::ldexp(Real{1}, -24), std::ldexp(Real{1}, -25), std::ldexp(Real{3}, -25),
                 std::ldexp(Real{1}, -15), 65519, 65520, 0});
  std::vector<std::uint32_t> bits;
  bits.reserve(values.size());
  for (Real value : values.values) bits.push_back(std::bit_cast<std::uint32_t>(static_cast<float>(value)));
  bits.back() = 0x7F800001;
  const Array y = cast_to_type(from_bits(bits), DType::float16);
  const std::uint16_t expected[] = {0x0001, 0x0000, 0x0002, 0x0200, 0x7BFF, 0x7C00};
  for (std::int64_t i = 0; i < 6; ++i) EXPECT_EQ(code(y, i), expected[i]) << i;
  EXPECT_TRUE(std::isnan(read(y).values[6]));
}

// Saturating, infinity included.
TEST(PublicCases, case_97) {
  const Array x = of(float32, {448, 464, 465, 1000, -1000, infinity, not_a_number});
  EXPECT_TRUE(same_values(cast_to_type(x, DType::float8_e4m3), DType::float8_e4m3,
                          {448, 448, 448, 448, -448, 448, not_a_number}));
}

TEST(PublicCases, case_98) {
  const Array x = of(float32, {240, 256, 272, 288, 300, 304, 448, std::ldexp(Real{1}, -9),
                               std::ldexp(Real{1}, -10), std::ldexp(Real{3}, -10)});
  EXPECT_TRUE(
      same_values(cast_to_type(x, DType::float8_e4m3), DType::float8_e4m3,
                  {240, 256, 256, 288, 288, 320, 448, std::ldexp(Real{1}, -9), 0, std::ldexp(Real{1}, -8)}));
}

// Toward zero, saturating, NaN gives 0.
TEST(PublicCases, case_100) {
  const Array x = of(float32, {300, -300, 127.5L, -128.5L, not_a_number, infinity, 2.5L, 3.5L});
  EXPECT_TRUE(same_values(cast_to_type(x, DType::int8), DType::int8, {127, -128, 127, -128, 0, 127, 2, 3}));
  EXPECT_TRUE(same_values(cast_to_type(x, DType::uint8), DType::uint8, {255, 0, 127, 0, 0, 255, 2, 3}));
  EXPECT_TRUE(same_values(cast_to_type(of(float32, {3e9L}), DType::int32), DType::int32, {2147483647}));
}

// The default is the documented promotion, bfloat16; float32 is asked for with io_dtype.
TEST(PublicCases, case_101) {
  const Array a = stiletto::full({1}, 257, DType::int32, device()),
              b = stiletto::zeros({1}, DType::bfloat16, device());
  auto f = [](const Array& x, const Array& y) { return x + y; };
  EXPECT_TRUE(
      same_values(stiletto::jit(stiletto::CompileOptions{.io_dtype = float32}, f, a, b), float32, {257}));
  EXPECT_TRUE(same_values(stiletto::jit(f, a, b), DType::bfloat16, {256}));
}

TEST(PublicCases, case_102) {
  const Array x = of(DType::int32, {7, 6});
  for (bool eager : {false, true}) {
    auto call = [&](auto f) { return eager ? f(x) : stiletto::jit(f, x); };
    EXPECT_TRUE(same_values(call([](const Array& a) { return a * 0.5; }), float32, {3.5L, 3}));
    EXPECT_TRUE(same_values(call([](const Array& a) { return a / 0.5; }), float32, {14, 12}));
    EXPECT_TRUE(same_values(call([](const Array& a) { return a + 2.5; }), float32, {9.5L, 8.5L}));
  }
}

}  // namespace
