// SPDX-License-Identifier: Apache-2.0
// Arrays of more elements than 32 bits count, of which only parts are looked at.
#include <set>

#include "support/cuda_api.hpp"
#include "support/errors.hpp"
#include "support/raw_arrays.hpp"

namespace {

using namespace support;
using stiletto::Device;
using stiletto::Slice;

const Device gpu = Device::cuda(0);

/// The bfloat16 that has this byte twice.
float twice(int byte) {
  const auto bits = static_cast<std::uint32_t>(byte * 0x0101) << 16U;
  float value = 0;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

/// The elements from `begin` on, as many as there are up to `count`, are all `value`.
void expect_all(const Array& x, std::int64_t begin, std::int64_t count, float value) {
  const std::int64_t end = std::min(begin + count, x.shape()[0]);
  const Array part = stiletto::slice(x, {Slice{begin, end}}).to(Device::cpu());
  for (const stiletto::bfloat16 element : part.to_vector<stiletto::bfloat16>())
    ASSERT_EQ(static_cast<float>(element), value) << "between " << begin << " and " << end;
}

/// Marks of another value at several places, first and last among them, have to arrive where they are.
TEST(LargeSizes, pointwise) {
  constexpr int ground = 0x40, mark = 0x3f;
  constexpr std::int64_t long_mark = 4096, two_to_31 = std::int64_t{1} << 31;
  for (const std::int64_t size : {two_to_31 - 1, two_to_31, two_to_31 + 11, two_to_31 + (1 << 20) + 8}) {
    SCOPED_TRACE(size);
    const Array x = stiletto::empty({size}, DType::bfloat16, gpu);
    auto* const bytes = static_cast<std::byte*>(x.raw_data());
    cuda_call("cudaMemset", static_cast<void*>(bytes), ground, static_cast<std::size_t>(2 * size));
    const std::int64_t places[] = {0, 123457, size / 2, two_to_31 - 3 * long_mark, size - long_mark};
    for (const std::int64_t place : places)
      cuda_call("cudaMemset", static_cast<void*>(bytes + 2 * place), mark, std::size_t{2 * long_mark});
    const Array y = stiletto::jit([](const Array& a) { return a * 0.5f + a; }, x);
    ASSERT_EQ(y.dtype(), DType::float32);
    const Array z = stiletto::jit([](const Array& a) { return stiletto::cast(a, DType::bfloat16); }, y);
    for (const std::int64_t place : places) {
      expect_all(z, place, long_mark, static_cast<float>(stiletto::bfloat16(1.5F * twice(mark))));
      if (place > 0)
        expect_all(z, place - 64, 64, static_cast<float>(stiletto::bfloat16(1.5F * twice(ground))));
      expect_all(z, place + long_mark, 64, static_cast<float>(stiletto::bfloat16(1.5F * twice(ground))));
    }
    if (HasFailure()) return;
  }
}

/// Case 57 of the public list: offsets of batches, of which the last ones lie beyond 2^31 elements.
TEST(PublicCases, case_57) {
  constexpr std::int64_t batches = 8209, side = 512;
  std::vector<float> values;
  values.reserve(batches * side);
  for (std::int64_t i = 0; i < batches * side; ++i) values.push_back(static_cast<float>(i / side % 97));
  const Array a = stiletto::from_data(values, {batches, side, 1}, gpu);
  const Array c = stiletto::ones({batches, 1, side}, DType::float32, gpu);
  const Array y = stiletto::jit([](const Array& p, const Array& q) { return stiletto::matmul(p, q); }, a, c);
  for (std::int64_t batch : {0, 1, 96, 4096, 8190, 8191, 8192, 8193, 8207, 8208}) {
    const Array part = stiletto::slice(y, {Slice{batch, batch + 1}}).to(Device::cpu());
    for (const float element : part.to_vector<float>())
      ASSERT_EQ(element, static_cast<float>(batch % 97)) << "in batch " << batch;
  }
}

/// Case 74: a convolution of more than 2^31 elements, in which some pixels, the last one among them, are
/// marked in every channel.
TEST(PublicCases, case_74) {
  constexpr std::int64_t channels = 128, height = 4096, width = 4100, pixels = height * width;
  constexpr int ground = 0x3c, mark = 0x40;
  const Array x = stiletto::empty({1, channels, height, width}, DType::float16, gpu);
  auto* const bytes = static_cast<std::byte*>(x.raw_data());
  cuda_call("cudaMemset", static_cast<void*>(bytes), ground, static_cast<std::size_t>(2 * channels * pixels));
  const std::int64_t marked[] = {0, 1, pixels / 2, pixels - width, pixels - 1};
  for (std::int64_t channel = 0; channel < channels; ++channel)
    for (const std::int64_t pixel : marked)
      cuda_call("cudaMemset", static_cast<void*>(bytes + 2 * (channel * pixels + pixel)), mark,
                std::size_t{2});
  const Array w = stiletto::full({1, channels, 1, 1}, 1.0F / channels, DType::float16, gpu);
  Array y;
  try {
    y = stiletto::jit([](const Array& a, const Array& b) { return stiletto::conv(a, b); }, x, w);
  } catch (const stiletto::UnsupportedGraphError& error) {
    EXPECT_NE(std::string(error.what()).find("conv"), std::string::npos) << error.what();
    return;
  }
  const Tensor made = read(y);
  ASSERT_EQ(made.size(), static_cast<std::size_t>(pixels));
  std::set<std::size_t> places(std::begin(marked), std::end(marked));
  for (std::size_t i = 0; i < made.size(); ++i)  // 0x4040 is 2.125 and 0x3c3c 1.05859375
    ASSERT_EQ(made.values[i], places.contains(i) ? 2.125L : 1.05859375L) << "pixel " << i;
}

/// Every column of some rows, the last ones among them, is f(row, column).
template <class F>
void expect_rows(const Array& y, F f) {
  for (std::int64_t row : {0, 1, 2, 32768, 65532, 65533, 65534, 65535}) {
    const Array part = stiletto::slice(y, {Slice{row, row + 1}}).to(Device::cpu());
    std::int64_t column = 0;
    for (const stiletto::half element : part.to_vector<stiletto::half>()) {
      ASSERT_EQ(static_cast<float>(element), static_cast<float>(f(row, column)))
          << "at (" << row << ", " << column << ") of " << y.shape();
      ++column;
    }
  }
}

/// Case 136: broadcasts to fewer and to more than 2^31 elements. No engine takes two operands that are both
/// broadcast, which the errors say; so the column is written out first, which is a broadcast itself.
TEST(PublicCases, case_136) {
  constexpr std::int64_t rows = 65536;
  auto add = [](const Array& p, const Array& q) { return p + q; };
  for (const std::int64_t columns : {32767, 32769}) {
    std::vector<stiletto::half> left, right;
    for (std::int64_t i = 0; i < rows; ++i) left.emplace_back(static_cast<float>(i % 3));
    for (std::int64_t j = 0; j < columns; ++j) right.emplace_back(static_cast<float>(j % 5));
    const Array a = stiletto::from_data(left, {rows, 1}, gpu);
    const Array b = stiletto::from_data(right, {1, columns}, gpu);
    EXPECT_TRUE(throws<stiletto::UnsupportedGraphError>(
        [&] { stiletto::jit(add, a, b); }, {"no engine takes this graph", "add(%0, %1): float16[i,j]"}));
    EXPECT_TRUE(throws<stiletto::UnsupportedGraphError>(
        [&] {
          stiletto::jit(add, stiletto::zeros({rows, 1}, DType::int8, gpu),
                        stiletto::zeros({1, columns}, DType::int8, gpu));
        },
        {"add of int8"}));
    const Array ones = stiletto::ones({1, columns}, DType::float16, gpu);
    const Array wide =
        stiletto::jit([](const Array& p, const Array& q) { return stiletto::matmul(p, q); }, a, ones);
    expect_rows(wide, [](std::int64_t row, std::int64_t) { return row % 3; });
    expect_rows(stiletto::jit(add, wide, b),
                [](std::int64_t row, std::int64_t column) { return row % 3 + column % 5; });
  }
}

}  // namespace
