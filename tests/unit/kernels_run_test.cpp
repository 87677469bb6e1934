// SPDX-License-Identifier: Apache-2.0
// The run kernels of every instruction set that this machine has: each step gives, to the last bit, what the
// map kernel of the same operation gives, and nothing beyond the block is touched.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "backends/cpu/kernels.hpp"
#include "unit/kernels_support.hpp"

namespace {

using namespace kernels_support;

class RunKernels : public CpuKernels {
 protected:
  template <class T>
  void run(std::vector<RunStep> steps, std::size_t n) const {
    steps.push_back({RunCode::end, steps[0].memory});
    table.run[index(register_for<T>())](steps.data(), n);
  }
};
INSTANTIATE_TEST_SUITE_P(Sets, RunKernels, testing::ValuesIn(available()),
                         [](const auto& set) { return std::string(set.param); });

constexpr std::pair<Op, RunCode> steps_of_operations[] = {
    {Op::add, RunCode::add},       {Op::subtract, RunCode::subtract}, {Op::multiply, RunCode::multiply},
    {Op::divide, RunCode::divide}, {Op::maximum, RunCode::maximum},   {Op::minimum, RunCode::minimum},
    {Op::negate, RunCode::negate}, {Op::square, RunCode::square},     {Op::relu, RunCode::relu},
};

/// `n` pairs of values, from among all pairs, beginning with the given one.
template <class T>
std::pair<Block<T>, Block<T>> pairs_of_values(std::size_t n, std::size_t first) {
  const std::vector<T> values = grid<T>();
  std::vector<T> a, b;
  for (std::size_t i = first; i < first + n; ++i) {
    a.push_back(values[i % values.size()]);
    b.push_back(values[i * 7 % values.size()]);
  }
  return {Block<T>(a), Block<T>(b)};
}

TEST_P(RunKernels, single_steps_are_the_map_kernels) {
  const auto check = [this]<class T>(T) {
    for (const auto& [op, code] : steps_of_operations)
      for (const std::size_t n : {16, 48, 112, 128, 144, 1008, 1024}) {
        auto [a, b] = pairs_of_values<T>(n, n);
        const void* in[] = {a.bytes, b.bytes};
        Block<T> expected, actual;
        table.map[static_cast<std::size_t>(op)][index(register_for<T>())](expected.bytes, in, n, 0);
        run<T>({{RunCode::load, a.bytes}, {code, b.bytes}, {RunCode::store, actual.bytes}}, n);
        for (std::size_t i = 0; i < n; ++i) {
          const T x = expected[i], y = actual[i];
          ASSERT_TRUE(same_bytes(&x, &y, sizeof(T)) || (x != x && y != y))
              << "operation " << static_cast<int>(op) << " of " << a[i] << " and " << b[i] << " gives " << y
              << ", not " << x;
        }
        EXPECT_TRUE(actual.is_untouched_from(n));
      }
  };
  check(float{});
  check(double{});
}

// A value stored is read by later steps, operands are overwritten, and prefetching asks for memory that there
// need not be.
TEST_P(RunKernels, steps_follow_one_another) {
  const auto check = [this]<class T>(T) {
    for (const std::size_t n : {32, 1024}) {
      std::vector<T> ascending(n);
      for (std::size_t i = 0; i < n; ++i) ascending[i] = static_cast<T>(i);
      Block<T> x(ascending), kept;
      run<T>({{RunCode::prefetch, x.bytes},
              {RunCode::load, x.bytes},
              {RunCode::add, x.bytes},
              {RunCode::store, kept.bytes},
              {RunCode::square, x.bytes},
              {RunCode::subtract, kept.bytes},
              {RunCode::stream, x.bytes}},
             n);
      run_fence();
      for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(x[i], 4 * ascending[i] * ascending[i] - 2 * ascending[i]);
      EXPECT_TRUE(x.is_untouched_from(n));
      EXPECT_TRUE(kept.is_untouched_from(n));
    }
  };
  check(float{});
  check(double{});
}

}  // namespace
