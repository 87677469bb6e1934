// SPDX-License-Identifier: Apache-2.0
// Golden texts of pointwise functions: chains, captures, numbers, casts, attributes and options. Where C++
// leaves the order of evaluation open, the functions here do not: traces are in that order.
#include <gtest/gtest.h>

#include <tuple>
#include <vector>

#include "golden/golden.hpp"

namespace {

using golden::expect_graph;
using stiletto::Array;
using stiletto::compile;
using stiletto::DType;
using stiletto::Slice;

TEST(GoldenPointwise, chain) {
  auto f = [](const Array& x, const Array& y) { return stiletto::tanh(x * y + 1) / 2; };
  const Array x = stiletto::ones({4, 6});
  expect_graph(compile(f, x, x).graph(), R"(
trace
  %0 = arg0: float32(4, 6)
  %1 = arg1: float32(4, 6)
  %2 = multiply(%0, %1): float32(4, 6)
  %3 = number0: int32
  %4 = add(%2, %3): float32(4, 6)
  %5 = tanh(%4): float32(4, 6)
  %6 = number1: int32
  %7 = divide(%5, %6): float32(4, 6)
  return %7
graph
  axes i=24
  %0 = arg0: float32[i] strides (1)
  %1 = arg1: float32[i] strides (1)
  %2 = multiply(%0, %1): float32[i]
  %3 = scalar0: int32
  %4 = add(%2, %3): float32[i]
  %5 = tanh(%4): float32[i]
  %6 = scalar1: int32
  %7 = divide(%5, %6): float32[i]
  %7 -> out0: float32[i] strides (1)
plan
  loop in 1 phase
)");
}

TEST(GoldenPointwise, chain_of_twelve) {
  auto f = [](const Array& x) {
    Array y = stiletto::square(x);
    y = stiletto::exp(-y);
    y = stiletto::sqrt(y + x);
    y = stiletto::relu(y - x) * y;
    y = stiletto::sigmoid(y);
    y = stiletto::maximum(y, x);
    return stiletto::abs(stiletto::sin(y));
  };
  expect_graph(compile(f, stiletto::ones({2, 3, 4})).graph(), R"(
trace
  %0 = arg0: float32(2, 3, 4)
  %1 = square(%0): float32(2, 3, 4)
  %2 = negate(%1): float32(2, 3, 4)
  %3 = exp(%2): float32(2, 3, 4)
  %4 = add(%3, %0): float32(2, 3, 4)
  %5 = sqrt(%4): float32(2, 3, 4)
  %6 = subtract(%5, %0): float32(2, 3, 4)
  %7 = relu(%6): float32(2, 3, 4)
  %8 = multiply(%7, %5): float32(2, 3, 4)
  %9 = sigmoid(%8): float32(2, 3, 4)
  %10 = maximum(%9, %0): float32(2, 3, 4)
  %11 = sin(%10): float32(2, 3, 4)
  %12 = abs(%11): float32(2, 3, 4)
  return %12
graph
  axes i=24
  %0 = arg0: float32[i] strides (1)
  %1 = square(%0): float32[i]
  %2 = negate(%1): float32[i]
  %3 = exp(%2): float32[i]
  %4 = add(%3, %0): float32[i]
  %5 = sqrt(%4): float32[i]
  %6 = subtract(%5, %0): float32[i]
  %7 = relu(%6): float32[i]
  %8 = multiply(%7, %5): float32[i]
  %9 = sigmoid(%8): float32[i]
  %10 = maximum(%9, %0): float32[i]
  %11 = sin(%10): float32[i]
  %12 = abs(%11): float32[i]
  %12 -> out0: float32[i] strides (1)
plan
  loop in 1 phase
)");
}

TEST(GoldenPointwise, captures) {
  const Array w = stiletto::ones({4}), packed = stiletto::ones({2, 4});
  auto f = [&](const Array& x) {
    const Array scaled = x * w;
    const Array shifted = scaled + stiletto::slice(packed, {Slice{1, 2}});
    return shifted / w;
  };
  expect_graph(compile(f, stiletto::ones({3, 4})).graph(), R"(
trace
  %0 = arg0: float32(3, 4)
  %1 = capture0: float32(4)
  %2 = multiply(%0, %1): float32(3, 4)
  %3 = capture1: float32(2, 4)
  %4 = view(%3, offset=4): float32(1, 4)
  %5 = add(%2, %4): float32(3, 4)
  %6 = divide(%5, %1): float32(3, 4)
  return %6
graph
  axes i=3 j=4
  %0 = arg0: float32[i,j] strides (4, 1)
  %1 = capture0: float32[j] strides (1)
  %2 = multiply(%0, %1): float32[i,j]
  %3 = capture1: float32[j] strides (1) offset 4
  %4 = add(%2, %3): float32[i,j]
  %5 = divide(%4, %1): float32[i,j]
  %5 -> out0: float32[i,j] strides (4, 1)
plan
  loop in 1 phase
)");
}

TEST(GoldenPointwise, numbers) {
  auto f = [](const Array& x, const Array& s, const Array& n) {
    const Array scale = (s + 1) * 0.5;
    return (x * scale - n) * n;
  };
  expect_graph(compile(f, stiletto::ones({3, 4}), 2.0F, 3).graph(), R"(
trace
  %0 = arg0: float32(3, 4)
  %1 = number0: float32
  %2 = number1: int32
  %3 = number2: int32
  %4 = add(%1, %3): float32
  %5 = number3: float32
  %6 = multiply(%4, %5): float32
  %7 = multiply(%0, %6): float32(3, 4)
  %8 = subtract(%7, %2): float32(3, 4)
  %9 = multiply(%8, %2): float32(3, 4)
  return %9
graph
  axes i=12
  %0 = arg0: float32[i] strides (1)
  %1 = scalar0: float32
  %2 = multiply(%0, %1): float32[i]
  %3 = scalar1: int32
  %4 = subtract(%2, %3): float32[i]
  %5 = multiply(%4, %3): float32[i]
  %5 -> out0: float32[i] strides (1)
plan
  loop in 1 phase
)");
}

TEST(GoldenPointwise, comparisons_and_selection) {
  auto f = [](const Array& x, const Array& y) {
    const Array close = stiletto::abs(x - y) < 0.5F;
    const Array valid = stiletto::logical_and(close, stiletto::logical_not(x == 0));
    const Array clamped = stiletto::clamp(x, 0, 6), smaller = stiletto::minimum(x, y);
    return stiletto::where(valid, clamped, smaller);
  };
  const Array x = stiletto::ones({8});
  expect_graph(compile(f, x, x).graph(), R"(
trace
  %0 = arg0: float32(8)
  %1 = arg1: float32(8)
  %2 = subtract(%0, %1): float32(8)
  %3 = abs(%2): float32(8)
  %4 = number0: float32
  %5 = less(%3, %4): boolean(8)
  %6 = number1: int32
  %7 = equal(%0, %6): boolean(8)
  %8 = logical_not(%7): boolean(8)
  %9 = logical_and(%5, %8): boolean(8)
  %10 = number2: int32
  %11 = number3: int32
  %12 = clamp(%0, %10, %11): float32(8)
  %13 = minimum(%0, %1): float32(8)
  %14 = where(%9, %12, %13): float32(8)
  return %14
graph
  axes i=8
  %0 = arg0: float32[i] strides (1)
  %1 = arg1: float32[i] strides (1)
  %2 = subtract(%0, %1): float32[i]
  %3 = abs(%2): float32[i]
  %4 = scalar0: float32
  %5 = less(%3, %4): boolean[i]
  %6 = scalar1: int32
  %7 = equal(%0, %6): boolean[i]
  %8 = logical_not(%7): boolean[i]
  %9 = logical_and(%5, %8): boolean[i]
  %10 = scalar2: int32
  %11 = scalar3: int32
  %12 = clamp(%0, %10, %11): float32[i]
  %13 = minimum(%0, %1): float32[i]
  %14 = where(%9, %12, %13): float32[i]
  %14 -> out0: float32[i] strides (1)
plan
  loop in 1 phase
)");
}

TEST(GoldenPointwise, attributes) {
  auto f = [](const Array& x) {
    const Array a = stiletto::leaky_relu(x, 0.25);
    const Array b = stiletto::clipped_relu(a, 6);
    return stiletto::elu(b, 1.5);
  };
  expect_graph(compile(f, stiletto::ones({8})).graph(), R"(
trace
  %0 = arg0: float32(8)
  %1 = leaky_relu(%0, 0.25): float32(8)
  %2 = clipped_relu(%1, 6): float32(8)
  %3 = elu(%2, 1.5): float32(8)
  return %3
graph
  axes i=8
  %0 = arg0: float32[i] strides (1)
  %1 = leaky_relu(%0, 0.25): float32[i]
  %2 = clipped_relu(%1, 6): float32[i]
  %3 = elu(%2, 1.5): float32[i]
  %3 -> out0: float32[i] strides (1)
plan
  loop in 1 phase
)");
}

TEST(GoldenPointwise, types) {
  auto f = [](const Array& i, const Array& h, const Array& b) {
    const Array mixed = i * h;
    const Array rounded = stiletto::cast(mixed + 0.5F, DType::bfloat16);
    return std::pair<Array, Array>{rounded - b, stiletto::cast(i, DType::int8)};
  };
  expect_graph(compile(f, stiletto::ones({8}, DType::int32), stiletto::ones({8}, DType::float16),
                       stiletto::ones({8}, DType::bfloat16))
                   .graph(),
               R"(
trace
  %0 = arg0: int32(8)
  %1 = arg1: float16(8)
  %2 = arg2: bfloat16(8)
  %3 = multiply(%0, %1): float16(8)
  %4 = number0: float32
  %5 = add(%3, %4): float32(8)
  %6 = cast(%5): bfloat16(8)
  %7 = subtract(%6, %2): bfloat16(8)
  %8 = cast(%0): int8(8)
  return %7
  return %8
graph
  axes i=8
  %0 = arg0: int32[i] strides (1)
  %1 = arg1: float16[i] strides (1)
  %2 = multiply(%0, %1): float16[i]
  %3 = scalar0: float32
  %4 = add(%2, %3): float32[i]
  %5 = cast(%4): bfloat16[i]
  %6 = arg2: bfloat16[i] strides (1)
  %7 = subtract(%5, %6): bfloat16[i]
  %8 = cast(%0): int8[i]
  %7 -> out0: bfloat16[i] strides (1)
  %8 -> out1: int8[i] strides (1)
plan
  loop in 1 phase
)");
}

TEST(GoldenPointwise, options) {
  auto f = [](const Array& x) {
    return std::pair<Array, Array>{x * 2, stiletto::cast(x * 3, DType::float32)};
  };
  expect_graph(compile({.io_dtype = DType::bfloat16,
                        .intermediate_dtype = DType::float16,
                        .compute_dtype = DType::float64},
                       f, stiletto::ones({8}, DType::float16))
                   .graph(),
               R"(
trace
  %0 = arg0: float16(8)
  %1 = number0: int32
  %2 = multiply(%0, %1): float16(8)
  %3 = number1: int32
  %4 = multiply(%0, %3): float16(8)
  %5 = cast(%4): float32(8)
  return %2
  return %5
graph
  axes i=8
  intermediate float16
  compute float64
  %0 = arg0: float16[i] strides (1)
  %1 = scalar0: int32
  %2 = multiply(%0, %1): float16[i]
  %3 = scalar1: int32
  %4 = multiply(%0, %3): float16[i]
  %5 = cast(%4): float32[i]
  %2 -> out0: bfloat16[i] strides (1)
  %5 -> out1: float32[i] strides (1)
plan
  loop in 1 phase
)");
}

TEST(GoldenPointwise, constants) {
  auto f = [](const Array& x) {
    const Array eye = stiletto::ones({3, 1}), half = stiletto::full({4}, 0.5, DType::float16);
    return std::pair<Array, Array>{x + eye * half, stiletto::zeros({2, 2})};
  };
  expect_graph(compile(f, stiletto::ones({3, 4})).graph(), R"(
trace
  %0 = arg0: float32(3, 4)
  %1 = number0: int32
  %2 = fill(%1): float32(3, 1)
  %3 = number1: float32
  %4 = fill(%3): float16(4)
  %5 = multiply(%2, %4): float32(3, 4)
  %6 = add(%0, %5): float32(3, 4)
  %7 = number2: int32
  %8 = fill(%7): float32(2, 2)
  return %6
  return %8
graph
  axes i=12 j=4
  %0 = arg0: float32[i] strides (1)
  %1 = scalar0: float32
  %2 = scalar1: float16
  %3 = multiply(%1, %2): float32
  %4 = add(%0, %3): float32[i]
  %5 = scalar2: float32
  %4 -> out0: float32[i] strides (1)
  %5 -> out1: float32[j] strides (1)
plan
  loop in 1 phase
  loop in 1 phase
)");
}

TEST(GoldenPointwise, results) {
  auto f = [](const Array& x, const Array& y) {
    const Array z = x + y;
    return std::vector<Array>{z, x, stiletto::transpose(y), z};
  };
  expect_graph(compile(f, stiletto::ones({2, 3}), stiletto::ones({2, 3})).graph(), R"(
trace
  %0 = arg0: float32(2, 3)
  %1 = arg1: float32(2, 3)
  %2 = add(%0, %1): float32(2, 3)
  %3 = view(%1, offset=0): float32(3, 2) strides (1, 3)
  return %2
  return %0
  return %3
  return %2
graph
  axes i=6
  %0 = arg0: float32[i] strides (1)
  %1 = arg1: float32[i] strides (1)
  %2 = add(%0, %1): float32[i]
  %2 -> out0: float32[i] strides (1)
plan
  loop in 1 phase
)");
}

TEST(GoldenPointwise, nothing_to_compute) {
  auto f = [](const Array& x) { return stiletto::slice(x, {Slice{1, 2}}); };
  expect_graph(compile(f, stiletto::ones({2, 3})).graph(), R"(
trace
  %0 = arg0: float32(2, 3)
  %1 = view(%0, offset=3): float32(1, 3)
  return %1
graph
plan
  nothing to compute
)");
}

TEST(GoldenPointwise, composite_arguments) {
  auto f = [](const std::tuple<Array, Array>& t, const std::vector<Array>& v) {
    const Array first = std::get<0>(t) * std::get<1>(t);
    const Array second = v[0] - v[1];
    return first + second;
  };
  const Array x = stiletto::ones({4});
  expect_graph(compile(f, std::tuple<Array, float>(x, 2.0F), std::vector<Array>{x, x}).graph(), R"(
trace
  %0 = arg0.0: float32(4)
  %1 = number0: float32
  %2 = arg1.0: float32(4)
  %3 = arg1.1: float32(4)
  %4 = multiply(%0, %1): float32(4)
  %5 = subtract(%2, %3): float32(4)
  %6 = add(%4, %5): float32(4)
  return %6
graph
  axes i=4
  %0 = arg0.0: float32[i] strides (1)
  %1 = scalar0: float32
  %2 = multiply(%0, %1): float32[i]
  %3 = arg1.0: float32[i] strides (1)
  %4 = arg1.1: float32[i] strides (1)
  %5 = subtract(%3, %4): float32[i]
  %6 = add(%2, %5): float32[i]
  %6 -> out0: float32[i] strides (1)
plan
  loop in 1 phase
)");
}

}  // namespace
