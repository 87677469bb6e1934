// SPDX-License-Identifier: Apache-2.0
// What the tests of the CPU kernels share: registers with a guarded end, a fixture for each instruction set
// that this machine has, and grids of values with NaN, infinities, zeros of both signs, subnormals and huge
// numbers.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

#include "backends/cpu/kernels.hpp"

namespace kernels_support {

using namespace stiletto::detail;
using namespace stiletto::detail::cpu;
using stiletto::DType;
using Real = long double;
using Boolean = std::uint8_t;  // an element of a boolean register

inline constexpr float infinity = std::numeric_limits<float>::infinity();
inline constexpr float quiet_nan = std::numeric_limits<float>::quiet_NaN();
inline constexpr std::size_t dtype_count = 13;
inline const std::vector<std::size_t> counts = {0, 1, 3, 15, 16, 17, 1023, 1024};

template <class T>
constexpr Register register_for() {
  if (std::is_same_v<T, float>) return Register::f32;
  if (std::is_same_v<T, double>) return Register::f64;
  if (std::is_same_v<T, std::int32_t>) return Register::i32;
  return std::is_same_v<T, std::int64_t> ? Register::i64 : Register::b8;
}
constexpr std::size_t index(Register r) { return static_cast<std::size_t>(r); }
constexpr std::size_t index(DType dtype) { return static_cast<std::size_t>(dtype); }
constexpr std::size_t index(Combine combine) { return static_cast<std::size_t>(combine); }

/// Equal to the last bit, NaN and the sign of zero included.
inline bool same_bytes(const void* a, const void* b, std::size_t n) { return std::memcmp(a, b, n) == 0; }

/// A register: a block of one element type, with elements beyond it that nothing may touch.
template <class T>
struct Block {
  static constexpr unsigned char guard = 0xA5;
  alignas(64) unsigned char bytes[(block_size + lane_group) * sizeof(T)];
  Block() { std::memset(bytes, guard, sizeof bytes); }
  explicit Block(const std::vector<T>& values) : Block() {
    if (!values.empty()) std::memcpy(bytes, values.data(), values.size() * sizeof(T));
  }
  T operator[](std::size_t i) const {
    T value;
    std::memcpy(&value, bytes + i * sizeof(T), sizeof(T));
    return value;
  }
  bool is_untouched_from(std::size_t i) const {
    return std::all_of(bytes + i * sizeof(T), bytes + sizeof bytes,
                       [](unsigned char b) { return b == guard; });
  }
};

class CpuKernels : public testing::TestWithParam<const char*> {
 protected:
  const Kernels& table = *kernels_for(GetParam());

  /// A map kernel over operands of any common length.
  template <class Out, class T>
  std::vector<Out> map(Op op, const std::vector<std::vector<T>>& operands, double coefficient = 0,
                       const std::vector<Boolean>* condition = nullptr) const {
    const MapKernel kernel = table.map[static_cast<std::size_t>(op)][index(register_for<T>())];
    EXPECT_NE(kernel, nullptr);
    std::vector<Out> result;
    for (std::size_t begin = 0; begin < operands[0].size(); begin += block_size) {
      const std::size_t n = std::min(block_size, operands[0].size() - begin);
      const auto part = [&](const auto& all) {
        return std::decay_t<decltype(all)>(&all[begin], &all[begin] + n);
      };
      std::vector<Block<T>> blocks;
      blocks.reserve(3);
      std::vector<const void*> in;
      const Block<Boolean> truths(condition != nullptr ? part(*condition) : std::vector<Boolean>{});
      if (condition != nullptr) in.push_back(truths.bytes);
      for (const std::vector<T>& operand : operands) in.push_back(blocks.emplace_back(part(operand)).bytes);
      Block<Out> out;
      const std::size_t padded = (n + lane_group - 1) / lane_group * lane_group;
      kernel(out.bytes, in.data(), padded, coefficient);
      EXPECT_TRUE(out.is_untouched_from(padded));
      for (std::size_t i = 0; i < n; ++i) result.push_back(out[i]);
    }
    return result;
  }
};

inline std::vector<const char*> available() {
  std::vector<const char*> sets;
  for (const char* set : {"baseline", "avx2", "avx512"}) {
    if (kernels_for(set) != nullptr) sets.push_back(set);
  }
  return sets;
}
// ---- values ----------------------------------------------------------------------------------------------

template <class T>
std::vector<T> special_values() {
  using Limits = std::numeric_limits<T>;
  std::vector<T> values;
  if constexpr (std::is_same_v<T, Boolean>) {
    return {0, 1};
  } else if constexpr (std::is_integral_v<T>) {
    values = {0,   1,   2,     3,     7,     100,      127,           128,
              255, 256, 65504, 65520, 46341, 16777217, Limits::max(), Limits::max() - 1};
    values.push_back(Limits::min());
  } else {
    values = {T(quiet_nan),
              T(infinity),
              0,
              Limits::denorm_min(),
              Limits::min() / 3,
              Limits::min(),
              T(1e-20),
              T(0.25),
              T(0.5),
              1,
              T(1.5),
              2,
              3,
              T(7.25),
              T(127.5),
              T(128.5),
              300,
              T(65519),
              T(65520),
              T(88.8),
              T(104),
              T(16777215),
              T(2147483520),
              T(2147483648.0),
              T(9.3e18),
              T(1e30),
              Limits::max()};
  }
  const std::size_t positive = values.size();
  for (std::size_t i = 0; i < positive; ++i) {
    if (values[i] != Limits::min() || !std::is_integral_v<T>) values.push_back(static_cast<T>(-values[i]));
  }
  return values;
}

template <class T>
std::vector<T> grid() {
  std::vector<T> values = special_values<T>();
  std::mt19937_64 random(11);
  if constexpr (std::is_same_v<T, Boolean>) {
    for (int i = 0; i < 1500; ++i) values.push_back(random() % 2);
  } else if constexpr (std::is_integral_v<T>) {
    for (int i = 0; i < 500; ++i) values.push_back(static_cast<T>(random()));
    for (int i = -200; i < 200; ++i) values.push_back(static_cast<T>(i));
  } else {
    std::uniform_real_distribution<T> mantissa(1, 2);
    const int lowest = std::numeric_limits<T>::min_exponent, highest = std::numeric_limits<T>::max_exponent;
    for (int e = lowest; e < highest; e += sizeof(T) == 4 ? 1 : 7) {
      values.push_back(std::ldexp(mantissa(random), e));
      values.push_back(-std::ldexp(mantissa(random), e));
    }
    for (int i = -480; i <= 480; ++i) values.push_back(static_cast<T>(i) / 16);
    for (int i = 0; i < 1000; ++i) values.push_back((mantissa(random) - T(1.5)) * 40);
  }
  return values;
}

/// Every pair of special values, and of the grid's with another's.
template <class T>
std::vector<std::vector<T>> pairs() {
  std::vector<std::vector<T>> result(2);
  for (const T a : special_values<T>()) {
    for (const T b : special_values<T>()) result[0].push_back(a), result[1].push_back(b);
  }
  std::vector<T> a = grid<T>(), b = a;
  std::shuffle(b.begin(), b.end(), std::mt19937(5));
  result[0].insert(result[0].end(), a.begin(), a.end());
  result[1].insert(result[1].end(), b.begin(), b.end());
  return result;
}

}  // namespace kernels_support
