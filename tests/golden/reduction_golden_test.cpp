// SPDX-License-Identifier: Apache-2.0
// Golden texts of functions that reduce: reductions with and without kept axes, softmax, norms written in
// primitives, and what reductions of nothing fold to.
#include <gtest/gtest.h>

#include <vector>

#include "golden/golden.hpp"

namespace {

using golden::expect_graph;
using stiletto::Array;
using stiletto::compile;
using stiletto::DType;

TEST(GoldenReduction, dropped_axes) {
  auto f = [](const Array& x) { return stiletto::sum(x * x, {0, 2}); };
  expect_graph(compile(f, stiletto::ones({2, 3, 4})).graph(), R"(
trace
  %0 = arg0: float32(2, 3, 4)
  %1 = multiply(%0, %0): float32(2, 3, 4)
  %2 = sum(%1, axes=(0, 2)): float32(3)
  return %2
graph
  axes i=3 j=2 k=4
  %0 = arg0: float32[i,j,k] strides (4, 12, 1)
  %1 = multiply(%0, %0): float32[i,j,k]
  %2 = sum(%1, over j,k): float32[i]
  %2 -> out0: float32[i] strides (1)
plan
  loop in 1 phase
)");
}

TEST(GoldenReduction, kept_axes) {
  auto f = [](const Array& x) { return x - stiletto::max(x, -1, true); };
  expect_graph(compile(f, stiletto::ones({2, 3, 4})).graph(), R"(
trace
  %0 = arg0: float32(2, 3, 4)
  %1 = max(%0, axes=(2), keep_dims): float32(2, 3, 1)
  %2 = subtract(%0, %1): float32(2, 3, 4)
  return %2
graph
  axes i=6 j=4
  %0 = arg0: float32[i,j] strides (4, 1)
  %1 = max(%0, over j): float32[i]
  %2 = subtract(%0, %1): float32[i,j]
  %2 -> out0: float32[i,j] strides (4, 1)
plan
  loop in 2 phases
)");
}

TEST(GoldenReduction, all_axes) {
  auto f = [](const Array& x) { return x / stiletto::norm2(x); };
  expect_graph(compile(f, stiletto::ones({2, 3, 4}, DType::float16)).graph(), R"(
trace
  %0 = arg0: float16(2, 3, 4)
  %1 = norm2(%0, axes=(0, 1, 2)): float32()
  %2 = divide(%0, %1): float32(2, 3, 4)
  return %2
graph
  axes i=24
  %0 = arg0: float16[i] strides (1)
  %1 = norm2(%0, over i): float32
  %2 = divide(%0, %1): float32[i]
  %2 -> out0: float32[i] strides (1)
plan
  loop in 2 phases
)");
}

TEST(GoldenReduction, several_of_one_input) {
  auto f = [](const Array& x) {
    const Array total = stiletto::sum(x, 1), low = stiletto::min(x, 1), columns = stiletto::mean(x, 0);
    return std::vector<Array>{total, low, columns};
  };
  expect_graph(compile(f, stiletto::ones({4, 6})).graph(), R"(
trace
  %0 = arg0: float32(4, 6)
  %1 = sum(%0, axes=(1)): float32(4)
  %2 = min(%0, axes=(1)): float32(4)
  %3 = mean(%0, axes=(0)): float32(6)
  return %1
  return %2
  return %3
graph
  axes i=4 j=6
  %0 = arg0: float32[i,j] strides (6, 1)
  %1 = sum(%0, over j): float32[i]
  %2 = min(%0, over j): float32[i]
  %3 = mean(%0, over i): float32[j]
  %1 -> out0: float32[i] strides (1)
  %2 -> out1: float32[i] strides (1)
  %3 -> out2: float32[j] strides (1)
plan
  loop in 1 phase
  loop in 1 phase
)");
}

TEST(GoldenReduction, integers) {
  auto f = [](const Array& x) {
    const Array count = stiletto::sum(x > 0), top = stiletto::abs_max(x, 0);
    return std::vector<Array>{count, top, stiletto::prod(x), stiletto::norm1(x)};
  };
  expect_graph(compile(f, stiletto::ones({4, 6}, DType::int8)).graph(), R"(
trace
  %0 = arg0: int8(4, 6)
  %1 = number0: int32
  %2 = greater(%0, %1): boolean(4, 6)
  %3 = sum(%2, axes=(0, 1)): int32()
  %4 = abs_max(%0, axes=(0)): int8(6)
  %5 = prod(%0, axes=(0, 1)): int32()
  %6 = norm1(%0, axes=(0, 1)): int32()
  return %3
  return %4
  return %5
  return %6
graph
  axes i=6 j=4
  %0 = arg0: int8[i,j] strides (1, 6)
  %1 = scalar0: int32
  %2 = greater(%0, %1): boolean[i,j]
  %3 = sum(%2, over i,j): int32
  %4 = abs_max(%0, over j): int8[i]
  %5 = prod(%0, over i,j): int32
  %6 = norm1(%0, over i,j): int32
  %3 -> out0: int32
  %4 -> out1: int8[i] strides (1)
  %5 -> out2: int32
  %6 -> out3: int32
plan
  loop in 1 phase
  loop in 1 phase
)");
}

TEST(GoldenReduction, softmax) {
  auto f = [](const Array& x) { return stiletto::softmax(x * 0.5F); };
  expect_graph(compile(f, stiletto::ones({2, 3, 8}, DType::bfloat16)).graph(), R"(
trace
  %0 = arg0: bfloat16(2, 3, 8)
  %1 = number0: float32
  %2 = multiply(%0, %1): float32(2, 3, 8)
  %3 = softmax(%2, axis=2): float32(2, 3, 8)
  return %3
graph
  axes i=6 j=8
  %0 = arg0: bfloat16[i,j] strides (8, 1)
  %1 = scalar0: float32
  %2 = multiply(%0, %1): float32[i,j]
  %3 = softmax(%2, over j): float32[i,j]
  %3 -> out0: float32[i,j] strides (8, 1)
plan
  loop in 3 phases
)");
}

TEST(GoldenReduction, softmax_in_primitives) {
  auto f = [](const Array& x) {
    const Array e = stiletto::exp(x - stiletto::max(x, 1, true));
    return e / stiletto::sum(e, 1, true);
  };
  expect_graph(compile(f, stiletto::ones({6, 8})).graph(), R"(
trace
  %0 = arg0: float32(6, 8)
  %1 = max(%0, axes=(1), keep_dims): float32(6, 1)
  %2 = subtract(%0, %1): float32(6, 8)
  %3 = exp(%2): float32(6, 8)
  %4 = sum(%3, axes=(1), keep_dims): float32(6, 1)
  %5 = divide(%3, %4): float32(6, 8)
  return %5
graph
  axes i=6 j=8
  %0 = arg0: float32[i,j] strides (8, 1)
  %1 = max(%0, over j): float32[i]
  %2 = subtract(%0, %1): float32[i,j]
  %3 = exp(%2): float32[i,j]
  %4 = sum(%3, over j): float32[i]
  %5 = divide(%3, %4): float32[i,j]
  %5 -> out0: float32[i,j] strides (8, 1)
plan
  loop in 3 phases
)");
}

TEST(GoldenReduction, cross_entropy) {
  auto f = [](const Array& logits, const Array& targets) {
    const Array normaliser = stiletto::logsumexp(logits, 1);
    const Array chosen = stiletto::sum(logits * targets, 1);
    return stiletto::mean(normaliser - chosen);
  };
  expect_graph(compile(f, stiletto::ones({6, 8}), stiletto::ones({6, 8})).graph(), R"(
trace
  %0 = arg0: float32(6, 8)
  %1 = arg1: float32(6, 8)
  %2 = logsumexp(%0, axes=(1)): float32(6)
  %3 = multiply(%0, %1): float32(6, 8)
  %4 = sum(%3, axes=(1)): float32(6)
  %5 = subtract(%2, %4): float32(6)
  %6 = mean(%5, axes=(0)): float32()
  return %6
graph
  axes i=6 j=8
  %0 = arg0: float32[i,j] strides (8, 1)
  %1 = logsumexp(%0, over j): float32[i]
  %2 = arg1: float32[i,j] strides (8, 1)
  %3 = multiply(%0, %2): float32[i,j]
  %4 = sum(%3, over j): float32[i]
  %5 = subtract(%1, %4): float32[i]
  %6 = mean(%5, over i): float32
  %6 -> out0: float32
plan
  loop in 2 phases
  loop in 1 phase
)");
}

TEST(GoldenReduction, layer_norm_in_primitives) {
  auto f = [](const Array& x, const Array& scale, const Array& bias) {
    const Array centred = x - stiletto::mean(x, -1, true);
    const Array variance = stiletto::mean(stiletto::square(centred), -1, true);
    return centred * stiletto::rsqrt(variance + 1e-5F) * scale + bias;
  };
  expect_graph(compile(f, stiletto::ones({2, 3, 8}), stiletto::ones({8}), stiletto::ones({8})).graph(), R"(
trace
  %0 = arg0: float32(2, 3, 8)
  %1 = arg1: float32(8)
  %2 = arg2: float32(8)
  %3 = mean(%0, axes=(2), keep_dims): float32(2, 3, 1)
  %4 = subtract(%0, %3): float32(2, 3, 8)
  %5 = square(%4): float32(2, 3, 8)
  %6 = mean(%5, axes=(2), keep_dims): float32(2, 3, 1)
  %7 = number0: float32
  %8 = add(%6, %7): float32(2, 3, 1)
  %9 = rsqrt(%8): float32(2, 3, 1)
  %10 = multiply(%4, %9): float32(2, 3, 8)
  %11 = multiply(%10, %1): float32(2, 3, 8)
  %12 = add(%11, %2): float32(2, 3, 8)
  return %12
graph
  axes i=6 j=8
  %0 = arg0: float32[i,j] strides (8, 1)
  %1 = mean(%0, over j): float32[i]
  %2 = subtract(%0, %1): float32[i,j]
  %3 = square(%2): float32[i,j]
  %4 = mean(%3, over j): float32[i]
  %5 = scalar0: float32
  %6 = add(%4, %5): float32[i]
  %7 = rsqrt(%6): float32[i]
  %8 = multiply(%2, %7): float32[i,j]
  %9 = arg1: float32[j] strides (1)
  %10 = multiply(%8, %9): float32[i,j]
  %11 = arg2: float32[j] strides (1)
  %12 = add(%10, %11): float32[i,j]
  %12 -> out0: float32[i,j] strides (8, 1)
plan
  loop in 3 phases
)");
}

TEST(GoldenReduction, rms_norm_in_primitives) {
  auto f = [](const Array& x, const Array& scale) {
    const Array power = stiletto::mean(stiletto::square(x), -1, true);
    return x * stiletto::rsqrt(power + 1e-6F) * scale;
  };
  const DType half = DType::float16;
  expect_graph(compile(f, stiletto::ones({6, 8}, half), stiletto::ones({8}, half)).graph(), R"(
trace
  %0 = arg0: float16(6, 8)
  %1 = arg1: float16(8)
  %2 = square(%0): float16(6, 8)
  %3 = mean(%2, axes=(1), keep_dims): float32(6, 1)
  %4 = number0: float32
  %5 = add(%3, %4): float32(6, 1)
  %6 = rsqrt(%5): float32(6, 1)
  %7 = multiply(%0, %6): float32(6, 8)
  %8 = multiply(%7, %1): float32(6, 8)
  return %8
graph
  axes i=6 j=8
  %0 = arg0: float16[i,j] strides (8, 1)
  %1 = square(%0): float16[i,j]
  %2 = mean(%1, over j): float32[i]
  %3 = scalar0: float32
  %4 = add(%2, %3): float32[i]
  %5 = rsqrt(%4): float32[i]
  %6 = multiply(%0, %5): float32[i,j]
  %7 = arg1: float16[j] strides (1)
  %8 = multiply(%6, %7): float32[i,j]
  %8 -> out0: float32[i,j] strides (8, 1)
plan
  loop in 2 phases
)");
}

TEST(GoldenReduction, sliding_windows) {
  auto f = [](const Array& x) { return stiletto::mean(stiletto::as_strided(x, {6, 3}, {1, 1}), 1); };
  expect_graph(compile(f, stiletto::ones({8})).graph(), R"(
trace
  %0 = arg0: float32(8)
  %1 = view(%0, offset=0): float32(6, 3) strides (1, 1)
  %2 = mean(%1, axes=(1)): float32(6)
  return %2
graph
  axes i=6 j=3
  %0 = arg0: float32[i,j] strides (1, 1)
  %1 = mean(%0, over j): float32[i]
  %1 -> out0: float32[i] strides (1)
plan
  loop in 1 phase
)");
}

TEST(GoldenReduction, extents_of_1) {
  auto f = [](const Array& x) { return stiletto::squeeze(stiletto::sum(x, 2, true)) * 2; };
  expect_graph(compile(f, stiletto::ones({1, 3, 4, 1})).graph(), R"(
trace
  %0 = arg0: float32(1, 3, 4, 1)
  %1 = sum(%0, axes=(2), keep_dims): float32(1, 3, 1, 1)
  %2 = reshape(%1): float32(3)
  %3 = number0: int32
  %4 = multiply(%2, %3): float32(3)
  return %4
graph
  axes i=3 j=4
  %0 = arg0: float32[i,j] strides (4, 1)
  %1 = sum(%0, over j): float32[i]
  %2 = scalar0: int32
  %3 = multiply(%1, %2): float32[i]
  %3 -> out0: float32[i] strides (1)
plan
  loop in 1 phase
)");
}

TEST(GoldenReduction, of_nothing) {
  auto f = [](const Array& x) {
    const Array total = stiletto::sum(x, 1), mean = stiletto::mean(x, 1);
    return std::vector<Array>{total + 1, mean, stiletto::max(x, 0)};
  };
  expect_graph(compile(f, stiletto::ones({3, 0})).graph(), R"(
trace
  %0 = arg0: float32(3, 0)
  %1 = sum(%0, axes=(1)): float32(3)
  %2 = mean(%0, axes=(1)): float32(3)
  %3 = number0: int32
  %4 = add(%1, %3): float32(3)
  %5 = max(%0, axes=(0)): float32(0)
  return %4
  return %2
  return %5
graph
  axes i=3
  %0 = scalar0: float32
  %1 = scalar1: int32
  %2 = add(%0, %1): float32
  %3 = scalar2: float32
  %2 -> out0: float32[i] strides (1)
  %3 -> out1: float32[i] strides (1)
plan
  loop in 1 phase
)");
}

}  // namespace
