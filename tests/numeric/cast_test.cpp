// SPDX-License-Identifier: Apache-2.0
// cast between all pairs of types, compared bit for bit with rounding done by other code: ties, subnormals,
// overflow and saturation, NaN, infinities, float to integer, every code of the narrow types; in a chain too.
#include <gtest/gtest.h>

#include "support/cases.hpp"

namespace {

using namespace support;

const std::vector<DType> sources = {DType::boolean,     DType::int8,        DType::uint8,
                                    DType::int32,       DType::int64,       DType::float16,
                                    DType::bfloat16,    DType::float32,     DType::float64,
                                    DType::float8_e4m3, DType::float8_e5m2, DType::float4_e2m1};

Array cast_in(Mode mode, const Array& x, DType to) {
  return run([&](const std::vector<Array>& a) { return stiletto::cast(a[0], to); }, {x}, mode);
}

/// Values that stress the rounding of every destination, as far as `from` can hold them. An even number.
Tensor interesting(DType from) {
  Random random(11);
  std::vector<Real> values = {0.0L,   -0.0L, 1,      -1,   0.5L, -0.5L, 1.5L,    2.5L,   -2.5L,  3.5L,
                              126.5L, 127,   127.5L, 128,  129,  -128,  -128.5L, -129,   254.5L, 255,
                              255.5L, 256,   300,    -300, 448,  464,   465,     1000,   57344,  61440,
                              65504,  65519, 65520,  7e4L, 3e9L, -3e9L, 1e19L,   -1e19L, 1e38L,  3.4e38L,
                              5,      5.5L,  6,      7,    -7,   0.25L, 0.75L,   1.25L};
  for (DType narrow :
       {DType::float16, DType::bfloat16, DType::float8_e4m3, DType::float8_e5m2, DType::float4_e2m1})
    for (int i = 0; i < 40;
         ++i) {  // ties between neighbours and values just beside them, subnormals included
      const Format format = format_of(narrow);
      const int exponent = static_cast<int>(random.below(16)) + 1 - format.bias;
      const Real unit = std::ldexp(Real{1}, exponent - format.mantissa_bits);
      const Real tie =
          (static_cast<Real>(random.below(std::int64_t{2} << format.mantissa_bits)) + 0.5L) * unit;
      values.insert(values.end(), {tie, -tie, tie + unit / 256, tie - unit / 256});
    }
  if (is_float(from) && from != DType::float4_e2m1)
    values.insert(values.end(), {infinity, -infinity, not_a_number});
  for (int i = 0; i < 64; ++i)
    values.push_back(draw(random, from == DType::float4_e2m1 ? DType::float32 : from, {}));
  if (from == DType::float64)  // rounding twice, through float32, would go the other way
    for (Real base : {1.0L, 3.0L})
      values.insert(values.end(), {base + std::ldexp(Real{1}, -11) + std::ldexp(Real{1}, -40),
                                   base + std::ldexp(Real{1}, -8) + std::ldexp(Real{1}, -40),
                                   base + std::ldexp(Real{1}, -4) - std::ldexp(Real{1}, -40)});
  for (Real& value : values) {
    value = convert(value, DType::float64, from);
    if (is_float8(from) && std::isinf(value)) value = 0;
  }
  if (values.size() % 2 == 1) values.push_back(0);
  const auto count = static_cast<std::int64_t>(values.size());
  return Tensor(from, {count}, values);
}

class Cast : public testing::TestWithParam<DType> {};

TEST_P(Cast, to_every_type) {
  const Tensor x = interesting(GetParam());
  const Array array = to_array(x);
  for (DType to : sources) {
    if (to == DType::float4_e2m1 && x.size() % 2 != 0) continue;
    for (Mode mode : {Mode::jit, Mode::compiled, Mode::eager})
      EXPECT_TRUE(agrees(cast_in(mode, array, to), cast_to(x, to), {.exact = true}))
          << stiletto::to_string(GetParam()) << " to " << stiletto::to_string(to) << ", " << to_string(mode);
  }
}

TEST_P(Cast, of_every_layout) {
  const DType from = GetParam();
  Random random(12);
  for (DType to : sources)
    for (Layout layout : layouts) {
      if (from == DType::float4_e2m1 && layout != Layout::contiguous) continue;  // packed in pairs
      for (const Extents& shape :
           {Extents{3, 4}, Extents{5, 1, 2}, Extents{2, 0}, Extents{2, 3, 2, 2, 1, 2, 1, 2}}) {
        const Operand x = operand(random, from, shape, layout, {-4, 4});
        EXPECT_TRUE(agrees(cast_in(Mode::jit, x.array, to), cast_to(x.values, to), {.exact = true}))
            << stiletto::to_string(from) << " to " << stiletto::to_string(to) << " " << to_string(layout)
            << describe(shape);
      }
    }
}

TEST_P(Cast, to_float8_e8m0_is_refused) {
  const Array x = stiletto::empty({4}, GetParam(), device());
  for (Mode mode : {Mode::jit, Mode::compiled, Mode::eager})
    EXPECT_THROW(cast_in(mode, x, DType::float8_e8m0), stiletto::DTypeError);
}

INSTANTIATE_TEST_SUITE_P(numeric, Cast, testing::ValuesIn(sources),
                         [](const auto& info) { return std::string(stiletto::to_string(info.param)); });

TEST(CastCodes, every_code_of_the_narrow_types_widens_exactly) {
  auto all = [](DType from, const auto& codes, std::int64_t count) {
    const Array x = from_codes(codes, {count}, from);
    const Tensor expected =
        tabulate(from, {count}, [&](const Extents& i) { return load(codes.data(), i[0], from); });
    for (DType to : {DType::float32, DType::float64}) {
      Tensor wide = expected;
      wide.dtype = to;
      EXPECT_TRUE(agrees(cast_in(Mode::jit, x, to), wide, {.exact = true})) << stiletto::to_string(from);
    }
    if (from == DType::float8_e8m0) return;
    // There and back: every value, subnormals and signed zeros included, keeps its code's value.
    const Array back = cast_in(Mode::jit, cast_in(Mode::jit, x, DType::float32), from);
    Tensor same = expected;
    if (from == DType::float8_e5m2)
      for (Real& value : same.values) value = round_float(value, from);  // infinities saturate
    EXPECT_TRUE(agrees(back, same, {.exact = true})) << stiletto::to_string(from);
  };
  std::vector<std::uint8_t> bytes(256);
  for (std::size_t i = 0; i < 256; ++i) bytes[i] = static_cast<std::uint8_t>(i);
  for (DType from : {DType::float8_e4m3, DType::float8_e5m2, DType::float8_e8m0}) all(from, bytes, 256);
  all(DType::float4_e2m1, bytes, 512);
  std::vector<std::uint16_t> words(65536);
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = static_cast<std::uint16_t>(i);
  for (DType from : {DType::float16, DType::bfloat16}) all(from, words, 65536);
}

TEST(CastChain, a_cast_rounds_in_the_middle_of_a_graph) {
  Random random(13);
  for (DType narrow : {DType::float16, DType::bfloat16, DType::float8_e4m3, DType::float8_e5m2, DType::int8,
                       DType::uint8, DType::int32, DType::boolean}) {
    const Operand x = operand(random, DType::float32, {7, 9}, Layout::offset, {-3, 3});
    const Array y = stiletto::jit(
        [&](const Array& a) { return stiletto::cast(stiletto::cast(a * 2, narrow), DType::float32) - 1; },
        x.array);
    const Tensor doubled = map(DType::float32, {x.values}, [](const Real* v) { return v[0] * 2; });
    const Tensor expected =
        map(DType::float32, {cast_to(doubled, narrow)}, [](const Real* v) { return v[0] - 1; });
    EXPECT_TRUE(agrees(y, expected)) << stiletto::to_string(narrow);
  }
}

TEST(CastChain, integers_narrow_modulo_their_width) {
  const Tensor x(DType::int64, {6}, {300, -129, 1LL << 40, -1, 511, (1LL << 33) + 7});
  for (DType to : {DType::int8, DType::uint8, DType::int32, DType::boolean})
    EXPECT_TRUE(agrees(cast_in(Mode::jit, to_array(x), to), cast_to(x, to), {.exact = true}))
        << stiletto::to_string(to);
}

TEST(CastChain, float4_packs_two_to_a_byte_with_the_even_element_low) {
  const Array x = to_array(Tensor(DType::float32, {4}, {0.5L, -6, 1.5L, not_a_number}));
  const Array y = cast_in(Mode::jit, x, DType::float4_e2m1).to(stiletto::Device::cpu());
  const auto* bytes = static_cast<const std::uint8_t*>(y.raw_data());
  EXPECT_EQ(bytes[0], 0xF1);
  EXPECT_EQ(bytes[1], 0x73);  // NaN gives +6
  EXPECT_EQ(y.nbytes(), 2U);
  EXPECT_EQ(y.to_vector<std::uint8_t>(), (std::vector<std::uint8_t>{1, 15, 3, 7}));
}

}  // namespace
