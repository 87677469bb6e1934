// SPDX-License-Identifier: Apache-2.0
// Computed operands of structured operations on the CPU, which a loop writes to memory first: the same bits
// as with operands that a call of its own computed.
#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <vector>

#include "stiletto/stiletto.hpp"

namespace unit_operands {
namespace {

namespace st = stiletto;
using st::Array;
using st::Shape;
using Arrays = std::vector<Array>;
using Function = std::function<Arrays(const Arrays&)>;

Array random_array(const Shape& shape, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  std::size_t size = 1;
  for (const std::int64_t extent : shape) size *= static_cast<std::size_t>(extent);
  std::vector<float> values(size);
  for (float& value : values) value = normal(generator);
  return st::from_data(values, shape);
}

/// `then` gets what `first` computes: in one graph and in two.
void expect_same(const Function& first, const Function& then, const Arrays& operands) {
  const Arrays got = st::compile([&](const Arrays& a) { return then(first(a)); }, operands)(operands);
  const Arrays between = st::compile([&](const Arrays& a) { return first(a); }, operands)(operands);
  const Arrays want = st::compile([&](const Arrays& a) { return then(a); }, between)(between);
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i)
    EXPECT_EQ(got[i].to_vector<float>(), want[i].to_vector<float>()) << "result " << i;
}

Arrays convolved(const Arrays& a) { return {st::conv(a[0], a[1], {.pre_padding = 1})}; }
Arrays first_is_relu(const Arrays& a) {
  Arrays result = a;
  result[0] = st::relu(a[0]);
  return result;
}

TEST(CpuOperands, relu_before) {
  expect_same(first_is_relu, convolved, {random_array({2, 3, 9, 8}, 1), random_array({5, 3, 3, 3}, 2)});
  expect_same(first_is_relu, [](const Arrays& a) { return Arrays{st::max_pool(a[0], 2)}; },
              {random_array({2, 3, 8, 8}, 1)});
  expect_same(first_is_relu, [](const Arrays& a) { return Arrays{st::rms_norm(a[0], a[1])}; },
              {random_array({20, 32}, 1), random_array({32}, 2)});
  expect_same(first_is_relu, [](const Arrays& a) { return Arrays{st::attention(a[0], a[1], a[1])}; },
              {random_array({2, 16, 2, 8}, 1), random_array({2, 16, 2, 8}, 2)});
}

TEST(CpuOperands, all_of_them) {
  const auto every = [](const Arrays& a) { return Arrays{st::tanh(a[0]), a[0] * 2, a[1] + a[0]}; };
  expect_same(every, [](const Arrays& a) { return Arrays{st::attention(a[0], a[1], a[2])}; },
              {random_array({2, 16, 2, 8}, 1), random_array({2, 16, 2, 8}, 2)});
}

TEST(CpuOperands, a_value_that_other_work_reads_too) {
  const auto then = [](const Arrays& a) {
    return Arrays{st::rms_norm(a[0], a[1]), a[0] * 3, a[2] + a[0], st::sum(a[0], 0)};
  };
  expect_same(first_is_relu, then,
              {random_array({20, 32}, 1), random_array({32}, 2), random_array({4, 20, 32}, 3)});
}

/// The loop over the larger space comes first, and is there when the operand's is looked for.
TEST(CpuOperands, a_value_that_an_earlier_loop_reads_too) {
  const Array x = random_array({20, 32}, 1), scale = random_array({32}, 2),
              other = random_array({4, 20, 32}, 3);
  const auto f = [](const Array& a, const Array& s, const Array& o) -> Arrays {
    const Array total = st::sum(o * 2, {0, 1, 2}), e = st::relu(a);
    return {total, st::rms_norm(e, s), o + e};
  };
  const Arrays got = st::jit(f, x, scale, other);
  const Array e = st::relu(x);
  EXPECT_EQ(got[1].to_vector<float>(), st::rms_norm(e, scale).to_vector<float>());
  EXPECT_EQ(got[2].to_vector<float>(), (other + e).to_vector<float>());
}

TEST(CpuOperands, sums_and_products_before) {
  expect_same([](const Arrays& a) { return Arrays{st::sum(a[0], 0), a[1]}; },
              [](const Arrays& a) { return Arrays{st::rms_norm(a[0], a[1]), a[0] + 1}; },
              {random_array({4, 20, 32}, 1), random_array({32}, 2)});
  expect_same([](const Arrays& a) { return Arrays{st::matmul(a[0], a[1]), a[2]}; },
              [](const Arrays& a) { return Arrays{st::rms_norm(a[0], a[1])}; },
              {random_array({20, 16}, 1), random_array({16, 32}, 2), random_array({32}, 3)});
  expect_same([](const Arrays& a) { return Arrays{st::relu(st::matmul(a[0], a[1])), a[2]}; },
              [](const Arrays& a) { return Arrays{st::rms_norm(a[0], a[1])}; },
              {random_array({20, 16}, 1), random_array({16, 32}, 2), random_array({32}, 3)});
}

TEST(CpuOperands, what_another_structured_operation_computed) {
  const Array x = random_array({3, 8, 12, 11}, 1), w = random_array({8, 8, 3, 3}, 2);
  const auto two = [](const Arrays& a) { return Arrays{st::relu(convolved({a[0], a[1]})[0]), a[1]}; };
  expect_same(two, [&](const Arrays& a) { return two(a); }, {x, w});
  expect_same([](const Arrays& a) { return Arrays{convolved(a)[0], a[1]}; },
              [](const Arrays& a) { return Arrays{convolved(a)[0]}; }, {x, w});
}

}  // namespace
}  // namespace unit_operands
