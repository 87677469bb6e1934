// SPDX-License-Identifier: Apache-2.0
// Every code of the narrow formats, and what is rounded to them, against the conversions of CUDA's own
// headers, which run on the host too; and arrays over memory of CUDA's types. No GPU is needed.
#include <gtest/gtest.h>

#if STILETTO_HAS_CUDNN && __has_include(<cuda_fp4.h>)
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp4.h>
#include <cuda_fp8.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "core/float_bits.hpp"
#include "stiletto/stiletto.hpp"
#include "support/block_reference.hpp"

// How a program with CUDA's types uses them here.
template <>
struct stiletto::dtype_of<__half> {
  static constexpr DType value = DType::float16;
};
template <>
struct stiletto::dtype_of<__nv_bfloat16> {
  static constexpr DType value = DType::bfloat16;
};
template <>
struct stiletto::dtype_of<__nv_fp8_e4m3> {
  static constexpr DType value = DType::float8_e4m3;
};
template <>
struct stiletto::dtype_of<__nv_fp8_e5m2> {
  static constexpr DType value = DType::float8_e5m2;
};

namespace {

using stiletto::Array;
using stiletto::DType;
using Codes = std::vector<std::uint8_t>;

/// By CUDA, of one number. `saturation` is of no concern to float4, which always saturates.
std::uint8_t encoded(float x, DType dtype, __nv_saturation_t saturation = __NV_SATFINITE) {
  if (dtype == DType::float4_e2m1) return __nv_cvt_float_to_fp4(x, __NV_E2M1, cudaRoundNearest);
  return __nv_cvt_float_to_fp8(x, saturation, dtype == DType::float8_e4m3 ? __NV_E4M3 : __NV_E5M2);
}
std::uint8_t encoded(double x, DType dtype) {
  if (dtype == DType::float4_e2m1) return __nv_cvt_double_to_fp4(x, __NV_E2M1, cudaRoundNearest);
  return __nv_cvt_double_to_fp8(x, __NV_SATFINITE, dtype == DType::float8_e4m3 ? __NV_E4M3 : __NV_E5M2);
}
std::uint8_t encoded(__half x, DType dtype) {
  if (dtype == DType::float4_e2m1) return __nv_cvt_halfraw_to_fp4(x, __NV_E2M1, cudaRoundNearest);
  return __nv_cvt_halfraw_to_fp8(x, __NV_SATFINITE, dtype == DType::float8_e4m3 ? __NV_E4M3 : __NV_E5M2);
}
std::uint8_t encoded(__nv_bfloat16 x, DType dtype) {
  if (dtype == DType::float4_e2m1) return __nv_cvt_bfloat16raw_to_fp4(x, __NV_E2M1, cudaRoundNearest);
  return __nv_cvt_bfloat16raw_to_fp8(x, __NV_SATFINITE, dtype == DType::float8_e4m3 ? __NV_E4M3 : __NV_E5M2);
}

float decoded(std::uint8_t code, DType dtype) {
  switch (dtype) {
    case DType::float8_e4m3:
      return __half2float(__nv_cvt_fp8_to_halfraw(code, __NV_E4M3));
    case DType::float8_e5m2:
      return __half2float(__nv_cvt_fp8_to_halfraw(code, __NV_E5M2));
    case DType::float4_e2m1:
      return __half2float(__nv_cvt_fp4_to_halfraw(code, __NV_E2M1));
    default:
      return __bfloat162float(__nv_cvt_e8m0_to_bf16raw(code));
  }
}

std::uint8_t encoded_here(float x, DType dtype) {
  using namespace stiletto::detail;
  if (dtype == DType::float4_e2m1) return static_cast<std::uint8_t>(encode<e2m1_format>(x));
  if (dtype == DType::float8_e4m3) return std::bit_cast<std::uint8_t>(stiletto::float8_e4m3(x));
  return std::bit_cast<std::uint8_t>(stiletto::float8_e5m2(x));
}

float decoded_here(std::uint8_t code, DType dtype) {
  using namespace stiletto::detail;
  if (dtype == DType::float4_e2m1) return decode<e2m1_format>(code);
  if (dtype == DType::float8_e8m0) return decode_e8m0(code);
  if (dtype == DType::float8_e4m3) return static_cast<float>(std::bit_cast<stiletto::float8_e4m3>(code));
  return static_cast<float>(std::bit_cast<stiletto::float8_e5m2>(code));
}

/// Over the caller's values.
template <class T>
Array viewed(std::vector<T>& values, DType dtype) {
  const auto count = static_cast<std::int64_t>(values.size()) * (dtype == DType::float4_e2m1 ? 2 : 1);
  return stiletto::wrap(values.data(), {count}, dtype, stiletto::Device::cpu());
}

Codes all_codes(DType dtype) {
  Codes codes(dtype == DType::float4_e2m1 ? 16 : 256);
  for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<std::uint8_t>(i);
  return codes;
}

/// Values and midpoints of the narrow formats have 5 bits at most, so what is rounded where is decided by the
/// upper 16 bits of a wider format and by whether the others are all 0. Patterns of 16 bits are complete for
/// float16 and bfloat16; with some for the lower bits they are, in float32 and float64, every code's value,
/// every midpoint, their neighbours on both sides, numbers that another format in between would round to a
/// midpoint, those beyond the range, subnormals, infinities and NaNs.
template <class T, class Bits>
std::vector<T> patterns(const std::vector<Bits>& lower) {
  std::vector<T> values;
  for (const Bits low : lower)
    for (std::uint64_t upper = 0; upper < 1 << 16; ++upper)
      values.push_back(std::bit_cast<T>(static_cast<Bits>(upper << (8 * sizeof(T) - 16) | low)));
  return values;
}
std::vector<float> float_patterns() {
  return patterns<float, std::uint32_t>({0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF});
}
std::vector<double> double_patterns() {
  constexpr std::uint64_t end = std::uint64_t{1} << 48U;
  return patterns<double, std::uint64_t>({0, 1, 1U << 20U, end / 2, end - (1U << 20U), end - 1});
}

bool is_nan(std::uint8_t code, DType dtype) { return std::isnan(decoded(code, dtype)); }

/// Of NaN only that it stays one: here it keeps its sign and what fits of its payload, in CUDA it does not.
bool agrees(std::uint8_t here, std::uint8_t there, DType dtype) {
  return here == there || (is_nan(here, dtype) && is_nan(there, dtype));
}

/// One code to a byte, whatever the dtype.
Codes cast_codes(const Array& x, DType dtype) {
  const Array codes = stiletto::cast(x, dtype);
  if (dtype == DType::float4_e2m1) return codes.to_vector<std::uint8_t>();
  const auto* first = static_cast<const std::uint8_t*>(codes.raw_data());
  return {first, first + codes.size()};
}

class CudaFormats : public testing::TestWithParam<DType> {
 protected:
  DType dtype = GetParam();

  /// `here(i)` and `there(i)` are codes of value i.
  template <class T, class Here, class There>
  void expect_same(const std::vector<T>& values, Here here, There there) {
    std::size_t wrong = 0, first = 0;
    for (std::size_t i = values.size(); i-- > 0;)
      if (!agrees(here(i), there(i), dtype)) ++wrong, first = i;
    if (wrong != 0)
      ADD_FAILURE() << wrong << " of " << values.size()
                    << " numbers, the first: " << static_cast<double>(values[first]) << " gave code "
                    << int{here(first)} << " and by CUDA " << int{there(first)};
  }

  template <class T>
  void expect_casts_as_by_cuda(std::vector<T> values) {
    const Codes codes = cast_codes(viewed(values, stiletto::dtype_of<T>::value), dtype);
    expect_same(
        values, [&](std::size_t i) { return codes[i]; },
        [&](std::size_t i) { return encoded(values[i], dtype); });
  }
};

INSTANTIATE_TEST_SUITE_P(formats, CudaFormats,
                         testing::Values(DType::float8_e4m3, DType::float8_e5m2, DType::float4_e2m1),
                         [](const auto& info) { return std::string(stiletto::to_string(info.param)); });

TEST(CudaFormat, codes_have_the_same_values) {
  for (const DType dtype : {DType::float8_e4m3, DType::float8_e5m2, DType::float8_e8m0, DType::float4_e2m1}) {
    const Codes codes = all_codes(dtype);
    Codes memory = codes;
    if (dtype == DType::float4_e2m1) {
      memory.clear();
      for (std::size_t i = 0; i < 16; i += 2)
        memory.push_back(static_cast<std::uint8_t>(codes[i] | codes[i + 1] << 4));
    }
    const auto cast = stiletto::cast(viewed(memory, dtype), DType::float32).to_vector<float>();
    for (std::size_t i = 0; i < codes.size(); ++i) {
      const float expected = decoded(codes[i], dtype);
      for (const float value : {decoded_here(codes[i], dtype), cast[i]}) {
        if (std::isnan(expected))
          EXPECT_TRUE(std::isnan(value)) << dtype << " code " << i;
        else
          EXPECT_EQ(std::bit_cast<std::uint32_t>(value), std::bit_cast<std::uint32_t>(expected))
              << dtype << " code " << i << " gave " << value << " and by CUDA " << expected;
      }
    }
  }
}

TEST_P(CudaFormats, numbers_are_rounded_as_by_cuda) {
  const std::vector<float> values = float_patterns();
  expect_same(
      values, [&](std::size_t i) { return encoded_here(values[i], dtype); },
      [&](std::size_t i) { return encoded(values[i], dtype); });
  expect_casts_as_by_cuda(values);
}

/// CUDA rounds each once, from float64 too.
TEST_P(CudaFormats, other_types_are_rounded_as_by_cuda) {
  expect_casts_as_by_cuda(double_patterns());
  expect_casts_as_by_cuda(patterns<__half, std::uint16_t>({0}));
  expect_casts_as_by_cuda(patterns<__nv_bfloat16, std::uint16_t>({0}));
}

TEST_P(CudaFormats, narrow_types_are_rounded_as_by_cuda) {
  for (const DType from : {DType::float8_e4m3, DType::float8_e5m2, DType::float8_e8m0}) {
    Codes memory = all_codes(from);
    const Codes codes = cast_codes(viewed(memory, from), dtype);
    expect_same(
        memory, [&](std::size_t i) { return codes[i]; },
        [&](std::size_t i) { return encoded(decoded(memory[i], from), dtype); });
  }
}

/// CUDA's other mode makes NaN or infinity of what rounds beyond the range, where the rule here is to
/// saturate.
TEST_P(CudaFormats, what_does_not_saturate_is_the_same_in_both_modes) {
  const std::vector<float> values = float_patterns();
  const std::uint8_t largest = block_reference::largest_code(dtype);
  expect_same(
      values, [&](std::size_t i) { return encoded_here(values[i], dtype); },
      [&](std::size_t i) {
        const std::uint8_t code = encoded(values[i], dtype, __NV_NOSAT);
        const bool is_beyond = !std::isnan(values[i]) && !std::isfinite(decoded(code, dtype));
        return is_beyond ? static_cast<std::uint8_t>(largest | (code & 0x80)) : code;
      });
}

// ---- memory of CUDA's types ------------------------------------------------------------------------------

template <class T, class Bits>
std::vector<T> of_all_bits() {
  std::vector<T> values;
  for (std::uint32_t bits = 0; bits <= std::numeric_limits<Bits>::max(); ++bits)
    values.push_back(std::bit_cast<T>(static_cast<Bits>(bits)));
  return values;
}

/// Or both are NaN.
bool is_same(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b) ||
         (std::isnan(a) && std::isnan(b));
}

/// Memory of a CUDA type is read here as CUDA reads it, and what is written here is read there.
template <class T, class Bits>
void expect_bit_compatible(bool infinities_saturate) {
  const std::vector<T> values = of_all_bits<T, Bits>();
  const Array x = stiletto::from_data(values, {static_cast<std::int64_t>(values.size())});
  const std::vector<T> same = x.to_vector<T>();
  const Array wide = stiletto::cast(x, DType::float32);
  const auto floats = wide.to_vector<float>();
  std::vector<T> written(values.size());
  stiletto::assign(viewed(written, x.dtype()), stiletto::cast(wide, x.dtype()));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto expected = static_cast<float>(values[i]);
    EXPECT_EQ(std::bit_cast<Bits>(same[i]), i);
    EXPECT_TRUE(is_same(floats[i], expected)) << i << " is " << floats[i] << " and in CUDA " << expected;
    if (infinities_saturate && std::isinf(expected)) continue;
    EXPECT_TRUE(is_same(static_cast<float>(written[i]), expected)) << expected;
  }
}

TEST(CudaMemory, types_are_bit_compatible) {
  expect_bit_compatible<__half, std::uint16_t>(false);
  expect_bit_compatible<__nv_bfloat16, std::uint16_t>(false);
  expect_bit_compatible<__nv_fp8_e4m3, std::uint8_t>(true);
  expect_bit_compatible<__nv_fp8_e5m2, std::uint8_t>(true);
}

TEST(CudaMemory, e8m0_scales_are_bit_compatible) {
  auto values = of_all_bits<__nv_fp8_e8m0, std::uint8_t>();
  const Array x = viewed(values, DType::float8_e8m0);
  EXPECT_EQ(x.to_vector<std::uint8_t>(), all_codes(DType::float8_e8m0));
  const auto floats = stiletto::cast(x, DType::float32).to_vector<float>();
  for (std::size_t i = 0; i < values.size(); ++i)
    EXPECT_TRUE(is_same(floats[i], static_cast<float>(values[i]))) << i;
}

/// The first of two numbers of float4 is in the low half of their byte.
TEST(CudaMemory, pairs_of_float4_are_bit_compatible) {
  auto values = of_all_bits<__nv_fp4x2_e2m1, std::uint8_t>();
  const Array wide = stiletto::cast(viewed(values, DType::float4_e2m1), DType::float32);
  const auto floats = wide.to_vector<float>();
  std::vector<__nv_fp4x2_e2m1> written(values.size());
  stiletto::assign(viewed(written, DType::float4_e2m1), stiletto::cast(wide, DType::float4_e2m1));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto pair = static_cast<float2>(values[i]);
    EXPECT_TRUE(is_same(floats[2 * i], pair.x) && is_same(floats[2 * i + 1], pair.y)) << i;
    EXPECT_EQ(std::bit_cast<std::uint8_t>(written[i]), i);
    EXPECT_EQ(std::bit_cast<std::uint8_t>(__nv_fp4x2_e2m1(pair)), i);
  }
}

// ---- the reference for block scaling ---------------------------------------------------------------------

/// CUDA rounds a quotient that is rounded to float64 before. That matters to none: a number of 24 bits
/// divided by 448, 57344 or 6 is a power of two or a midpoint of e4m3, or further from them than float64's
/// steps.
TEST(CudaBlocks, scales_are_rounded_as_by_cuda) {
  using namespace block_reference;
  for (const Format& format : {mxfp8_e4m3, mxfp8_e5m2, mxfp4, nvfp4}) {
    const double largest = decoded(largest_code(format.element), format.element);
    std::size_t wrong = 0;
    for (const float x : patterns<float, std::uint32_t>({0, 1, 0xFFFF})) {
      if (std::isnan(x) || std::signbit(x)) continue;
      const std::uint8_t expected =
          format.scale == DType::float8_e8m0
              ? __nv_cvt_double_to_e8m0(x / largest, __NV_SATFINITE, cudaRoundPosInf)
              : __nv_cvt_double_to_fp8(x / largest, __NV_SATFINITE, __NV_E4M3);
      const std::uint8_t scale = scale_code(x, format);
      if (scale != expected && wrong++ == 0)
        ADD_FAILURE() << x << " in " << format.element << " gave " << int{scale} << " and by CUDA "
                      << int{expected};
    }
    EXPECT_EQ(wrong, 0U);
  }
}

TEST(CudaBlocks, elements_are_rounded_as_by_cuda) {
  using namespace block_reference;
  std::mt19937 random(3);
  for (const Format& format : {mxfp8_e4m3, mxfp8_e5m2, mxfp4, nvfp4})
    for (int trial = 0; trial < 500; ++trial) {
      const auto top = format.size == 16 ? 120 + random() % 20 : random() % 255;  // the exponent
      std::vector<float> x(format.size);
      for (float& value : x) {
        const std::uint32_t exponent = top - std::min<std::uint32_t>(top, random() % 20);
        value = std::bit_cast<float>(static_cast<std::uint32_t>((random() & 0x807FFFFF) | exponent << 23U));
      }
      const Block block = quantize_block(std::span<const float>(x), format);
      const double scale = decoded(block.scale, format.scale);
      if (scale == 0) continue;
      for (std::size_t i = 0; i < x.size(); ++i)
        ASSERT_EQ(block.codes[i], encoded(x[i] / scale, format.element)) << x[i] << " under " << scale;
    }
}

}  // namespace

#else

TEST(CudaFormats, compare_with_cuda) {
  GTEST_SKIP() << "the narrow formats were not compared with CUDA's: this build has no GPU backend "
                  "(STILETTO_CUDA), or its CUDA is older than 12.8 and has no cuda_fp4.h";
}

#endif
