// SPDX-License-Identifier: Apache-2.0
// Arrays of more elements than 32 bits count, of which only parts are looked at.
#include "support/cuda_api.hpp"
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

}  // namespace
