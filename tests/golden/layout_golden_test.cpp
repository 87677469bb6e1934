// SPDX-License-Identifier: Apache-2.0
// Golden texts of what layouts become: broadcasting, shared and mixed memory orders, views of inputs,
// permuted and reshaped outputs, alignment.
#include <gtest/gtest.h>

#include "golden/golden.hpp"

namespace {

using golden::expect_graph;
using stiletto::Array;
using stiletto::compile;
using stiletto::Device;
using stiletto::DType;
using stiletto::Slice;

TEST(GoldenLayout, broadcast) {
  auto f = [](const Array& x, const Array& row, const Array& column) { return x * column + row; };
  expect_graph(compile(f, stiletto::ones({2, 3, 4}), stiletto::ones({4}), stiletto::ones({2, 3, 1})).graph(),
               R"(
trace
  %0 = arg0: float32(2, 3, 4)
  %1 = arg1: float32(4)
  %2 = arg2: float32(2, 3, 1)
  %3 = multiply(%0, %2): float32(2, 3, 4)
  %4 = add(%3, %1): float32(2, 3, 4)
  return %4
graph
  axes i=6 j=4
  %0 = arg0: float32[i,j] strides (4, 1)
  %1 = arg2: float32[i] strides (1)
  %2 = multiply(%0, %1): float32[i,j]
  %3 = arg1: float32[j] strides (1)
  %4 = add(%2, %3): float32[i,j]
  %4 -> out0: float32[i,j] strides (4, 1)
plan
  loop in 1 phase
)");
}

TEST(GoldenLayout, channels_last) {
  auto f = [](const Array& x, const Array& bias) { return stiletto::relu(x + bias); };
  const Array x = stiletto::transpose(stiletto::ones({2, 5, 5, 3}), {0, 3, 1, 2});
  expect_graph(compile(f, x, stiletto::ones({3, 1, 1})).graph(), R"(
trace
  %0 = arg0: float32(2, 3, 5, 5) strides (75, 1, 15, 3)
  %1 = arg1: float32(3, 1, 1)
  %2 = add(%0, %1): float32(2, 3, 5, 5) strides (75, 1, 15, 3)
  %3 = relu(%2): float32(2, 3, 5, 5) strides (75, 1, 15, 3)
  return %3
graph
  axes i=50 j=3
  %0 = arg0: float32[i,j] strides (3, 1)
  %1 = arg1: float32[j] strides (1)
  %2 = add(%0, %1): float32[i,j]
  %3 = relu(%2): float32[i,j]
  %3 -> out0: float32[i,j] strides (3, 1)
plan
  loop in 1 phase
)");
}

TEST(GoldenLayout, operands_of_two_orders) {
  auto f = [](const Array& x, const Array& y) { return x + y; };
  expect_graph(compile(f, stiletto::ones({3, 4}), stiletto::transpose(stiletto::ones({4, 3}))).graph(), R"(
trace
  %0 = arg0: float32(3, 4)
  %1 = arg1: float32(3, 4) strides (1, 3)
  %2 = add(%0, %1): float32(3, 4)
  return %2
graph
  axes i=3 j=4
  %0 = arg0: float32[i,j] strides (4, 1)
  %1 = arg1: float32[i,j] strides (1, 3)
  %2 = add(%0, %1): float32[i,j]
  %2 -> out0: float32[i,j] strides (4, 1)
plan
  loop in 1 phase
)");
}

TEST(GoldenLayout, transposed_output) {
  auto f = [](const Array& x) { return stiletto::transpose(stiletto::exp(x), {2, 0, 1}); };
  expect_graph(compile(f, stiletto::ones({2, 3, 4})).graph(), R"(
trace
  %0 = arg0: float32(2, 3, 4)
  %1 = exp(%0): float32(2, 3, 4)
  %2 = permute(%1, axes=(2, 0, 1)): float32(4, 2, 3)
  return %2
graph
  axes i=4 j=6
  %0 = arg0: float32[i,j] strides (1, 4)
  %1 = exp(%0): float32[i,j]
  %1 -> out0: float32[i,j] strides (6, 1)
plan
  loop in 1 phase
)");
}

TEST(GoldenLayout, reshaped_output) {
  auto f = [](const Array& x) { return stiletto::reshape(stiletto::exp(x), {3, -1}); };
  expect_graph(compile(f, stiletto::ones({2, 3, 4})).graph(), R"(
trace
  %0 = arg0: float32(2, 3, 4)
  %1 = exp(%0): float32(2, 3, 4)
  %2 = reshape(%1): float32(3, 8)
  return %2
graph
  axes i=24
  %0 = arg0: float32[i] strides (1)
  %1 = exp(%0): float32[i]
  %1 -> out0: float32[i] strides (1)
plan
  loop in 1 phase
)");
}

TEST(GoldenLayout, halves_of_an_input) {
  auto f = [](const Array& x) {
    const Array gate = stiletto::slice(x, {Slice{}, Slice{0, 4}}),
                value = stiletto::slice(x, {Slice{}, Slice{4, 8}});
    return stiletto::silu(gate) * value;
  };
  expect_graph(compile(f, stiletto::ones({3, 8})).graph(), R"(
trace
  %0 = arg0: float32(3, 8)
  %1 = view(%0, offset=0): float32(3, 4) strides (8, 1)
  %2 = view(%0, offset=4): float32(3, 4) strides (8, 1)
  %3 = silu(%1): float32(3, 4)
  %4 = multiply(%3, %2): float32(3, 4)
  return %4
graph
  axes i=3 j=4
  %0 = arg0: float32[i,j] strides (8, 1)
  %1 = silu(%0): float32[i,j]
  %2 = arg0: float32[i,j] strides (8, 1) offset 4
  %3 = multiply(%1, %2): float32[i,j]
  %3 -> out0: float32[i,j] strides (4, 1)
plan
  loop in 1 phase
)");
}

TEST(GoldenLayout, reversed_and_stepped) {
  auto f = [](const Array& x) {
    const Array back = stiletto::slice(x, {Slice{{}, {}, -2}}),
                every_other = stiletto::slice(x, {Slice{1, {}, 2}});
    return back - every_other;
  };
  expect_graph(compile(f, stiletto::ones({8})).graph(), R"(
trace
  %0 = arg0: float32(8)
  %1 = view(%0, offset=7): float32(4) strides (-2)
  %2 = view(%0, offset=1): float32(4) strides (2)
  %3 = subtract(%1, %2): float32(4)
  return %3
graph
  axes i=4
  %0 = arg0: float32[i] strides (-2) offset 7 align 4
  %1 = arg0: float32[i] strides (2) offset 1 align 4
  %2 = subtract(%0, %1): float32[i]
  %2 -> out0: float32[i] strides (1)
plan
  loop in 1 phase
)");
}

TEST(GoldenLayout, a_shared_reversal) {
  auto f = [](const Array& y, const Array& x) { stiletto::assign(y, stiletto::exp(x)); };
  auto reversed = [] {
    return stiletto::slice(stiletto::ones({2, 6}), {Slice{{}, {}, -1}, Slice{{}, {}, -1}});
  };
  expect_graph(compile(f, reversed(), reversed()).graph(), R"(
trace
  %0 = arg0: float32(2, 6) strides (-6, -1)
  %1 = arg1: float32(2, 6) strides (-6, -1)
  %2 = exp(%1): float32(2, 6)
  store %2 -> %0
graph
  axes i=12
  %0 = arg1: float32[i] strides (1) offset -11 align 4
  %1 = exp(%0): float32[i]
  %1 -> arg0: float32[i] strides (1) offset -11 align 4
plan
  loop in 1 phase
)");
}

TEST(GoldenLayout, broadcast_views) {
  auto f = [](const Array& x, const Array& y) { return x * stiletto::broadcast_to(y, {3, 4}); };
  expect_graph(compile(f, stiletto::ones({3, 4}), stiletto::ones({1, 4})).graph(), R"(
trace
  %0 = arg0: float32(3, 4)
  %1 = arg1: float32(1, 4)
  %2 = view(%1, offset=0): float32(3, 4) strides (0, 1)
  %3 = multiply(%0, %2): float32(3, 4)
  return %3
graph
  axes i=3 j=4
  %0 = arg0: float32[i,j] strides (4, 1)
  %1 = arg1: float32[j] strides (1)
  %2 = multiply(%0, %1): float32[i,j]
  %2 -> out0: float32[i,j] strides (4, 1)
plan
  loop in 1 phase
)");
}

TEST(GoldenLayout, alignment) {
  alignas(64) static float memory[16];
  const Array x = stiletto::wrap(memory + 2, {8}, DType::float32, Device::cpu());
  auto views = [](const Array& a) {
    const Array late = stiletto::slice(a, {Slice{1, {}}}), early = stiletto::slice(a, {Slice{0, -1}});
    return late + early;
  };
  expect_graph(compile(views, x).graph(), R"(
trace
  %0 = arg0: float32(8)
  %1 = view(%0, offset=1): float32(7)
  %2 = view(%0, offset=0): float32(7)
  %3 = add(%1, %2): float32(7)
  return %3
graph
  axes i=7
  %0 = arg0: float32[i] strides (1) offset 1 align 4
  %1 = arg0: float32[i] strides (1) align 8
  %2 = add(%0, %1): float32[i]
  %2 -> out0: float32[i] strides (1)
plan
  loop in 1 phase
)");
}

}  // namespace
