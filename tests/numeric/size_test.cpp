// SPDX-License-Identifier: Apache-2.0
// Contiguous arrays of every kind of size: powers of two, primes, and what lies beside the sizes at which
// backends cut an axis differently. All values and results are whole numbers that every type here holds.
#include <gtest/gtest.h>

#include "support/cases.hpp"

namespace {

using namespace support;
using stiletto::DType;

constexpr std::int64_t sizes[] = {1,      2,      7,       64,      97,      1000,        1009,
                                  2047,   2048,   2049,    2053,    4096,    4099,        10007,
                                  12345,  65521,  65536,   65537,   100003,  131072,      524280,
                                  524281, 524288, 1000003, 1048576, 1048583, 6007 * 1009, 1 << 23};

/// −6 to 6, in an order that no power of two repeats.
template <class T>
std::vector<T> values_of(std::int64_t size) {
  std::vector<T> values;
  values.reserve(static_cast<std::size_t>(size));
  for (std::int64_t i = 0; i < size; ++i) values.push_back(static_cast<T>(static_cast<float>(i % 13 - 6)));
  return values;
}

/// Whether y is f of those values in every element.
template <class T, class F>
testing::AssertionResult is(const Array& y, F f) {
  const std::vector<T> found = y.to(stiletto::Device::cpu()).to_vector<T>();
  for (std::size_t i = 0; i < found.size(); ++i) {
    const auto x = static_cast<float>(static_cast<std::int64_t>(i) % 13 - 6);
    if (static_cast<float>(found[i]) != f(x))
      return testing::AssertionFailure() << "element " << i << " of " << found.size() << " is "
                                         << static_cast<float>(found[i]) << " instead of " << f(x);
  }
  return testing::AssertionSuccess();
}

template <class T>
class Sizes : public testing::Test {};
using Types = testing::Types<float, stiletto::bfloat16, std::int8_t>;
TYPED_TEST_SUITE(Sizes, Types);

TYPED_TEST(Sizes, a_new_array) {
  Failures failures;
  for (const std::int64_t size : sizes) {
    const Array x = stiletto::from_data(values_of<TypeParam>(size), {size}).to(device());
    const Array y = stiletto::jit([](const Array& a) { return stiletto::clamp(a, -2, 5); }, x);
    if (!failures.expect(is<TypeParam>(y, [](float v) { return std::min(std::max(v, -2.0F), 5.0F); })))
      return;
  }
}

TYPED_TEST(Sizes, in_place) {
  Failures failures;
  for (const std::int64_t size : sizes) {
    const Array x = stiletto::from_data(values_of<TypeParam>(size), {size}).to(device());
    stiletto::jit([](const Array& a) { stiletto::assign(a, stiletto::maximum(a, 1)); }, x);
    if (!failures.expect(is<TypeParam>(x, [](float v) { return std::max(v, 1.0F); }))) return;
  }
}

TYPED_TEST(Sizes, long_rows) {
  Failures failures;
  for (const std::int64_t size : {100003, 524281, 1000003}) {
    const Array x = stiletto::from_data(values_of<TypeParam>(2 * size), {2, size}).to(device());
    const Array wide = stiletto::zeros({2, size + 1}, x.dtype(), device());
    const Array y = stiletto::slice(wide, {stiletto::Slice{}, stiletto::Slice{0, size}});
    stiletto::jit([](const Array& a, const Array& b) { stiletto::assign(b, stiletto::maximum(a, 1)); }, x, y);
    if (!failures.expect(is<TypeParam>(y, [](float v) { return std::max(v, 1.0F); }))) return;
  }
}

}  // namespace
