// SPDX-License-Identifier: Apache-2.0
// Golden texts of functions that store: in place, to parts of a buffer, with a cast or a broadcast,
// transposed, and to a captured array.
#include <gtest/gtest.h>

#include "golden/golden.hpp"

namespace {

using golden::expect_graph;
using stiletto::Array;
using stiletto::compile;
using stiletto::DType;
using stiletto::Slice;

TEST(GoldenStores, in_place) {
  auto f = [](const Array& p, const Array& g, const Array& rate) { stiletto::assign(p, p - rate * g); };
  expect_graph(compile(f, stiletto::ones({4, 4}), stiletto::ones({4, 4}), 0.1F).graph(), R"(
trace
  %0 = arg0: float32(4, 4)
  %1 = arg1: float32(4, 4)
  %2 = number0: float32
  %3 = multiply(%2, %1): float32(4, 4)
  %4 = subtract(%0, %3): float32(4, 4)
  store %4 -> %0
graph
  axes i=16
  %0 = arg0: float32[i] strides (1)
  %1 = scalar0: float32
  %2 = arg1: float32[i] strides (1)
  %3 = multiply(%1, %2): float32[i]
  %4 = subtract(%0, %3): float32[i]
  %4 -> arg0: float32[i] strides (1)
plan
  loop in 1 phase
)");
}

TEST(GoldenStores, momentum) {
  auto f = [](const Array& p, const Array& m, const Array& g) {
    const Array moved = m * 0.9F + g;
    stiletto::assign(m, moved);
    stiletto::assign(p, p - 0.1F * moved);
    return p;
  };
  const Array x = stiletto::ones({6});
  expect_graph(compile(f, x, x, x).graph(), R"(
trace
  %0 = arg0: float32(6)
  %1 = arg1: float32(6)
  %2 = arg2: float32(6)
  %3 = number0: float32
  %4 = multiply(%1, %3): float32(6)
  %5 = add(%4, %2): float32(6)
  store %5 -> %1
  %6 = number1: float32
  %7 = multiply(%6, %5): float32(6)
  %8 = subtract(%0, %7): float32(6)
  store %8 -> %0
  return %0
graph
  axes i=6
  %0 = arg1: float32[i] strides (1)
  %1 = scalar0: float32
  %2 = multiply(%0, %1): float32[i]
  %3 = arg2: float32[i] strides (1)
  %4 = add(%2, %3): float32[i]
  %5 = arg0: float32[i] strides (1)
  %6 = scalar1: float32
  %7 = multiply(%6, %4): float32[i]
  %8 = subtract(%5, %7): float32[i]
  %4 -> arg1: float32[i] strides (1)
  %8 -> arg0: float32[i] strides (1)
plan
  loop in 1 phase
)");
}

TEST(GoldenStores, parts_of_a_buffer) {
  auto f = [](const Array& y, const Array& x) {
    stiletto::assign(stiletto::slice(y, {Slice{}, Slice{0, 3}}), x);
    stiletto::assign(stiletto::slice(y, {Slice{}, Slice{3, 6}}), stiletto::exp(x));
    stiletto::assign(stiletto::slice(y, {Slice{}, Slice{0, 3}}), x * 2);
  };
  expect_graph(compile(f, stiletto::ones({4, 6}), stiletto::ones({4, 3})).graph(), R"(
trace
  %0 = arg0: float32(4, 6)
  %1 = arg1: float32(4, 3)
  %2 = view(%0, offset=0): float32(4, 3) strides (6, 1)
  store %1 -> %2
  %3 = exp(%1): float32(4, 3)
  %4 = view(%0, offset=3): float32(4, 3) strides (6, 1)
  store %3 -> %4
  %5 = number0: int32
  %6 = multiply(%1, %5): float32(4, 3)
  %7 = view(%0, offset=0): float32(4, 3) strides (6, 1)
  store %6 -> %7
graph
  axes i=4 j=3
  %0 = arg1: float32[i,j] strides (3, 1)
  %1 = exp(%0): float32[i,j]
  %2 = scalar0: int32
  %3 = multiply(%0, %2): float32[i,j]
  %1 -> arg0: float32[i,j] strides (6, 1) offset 3 align 4
  %3 -> arg0: float32[i,j] strides (6, 1)
plan
  loop in 1 phase
)");
}

TEST(GoldenStores, cast_and_broadcast) {
  auto f = [](const Array& y, const Array& x) { stiletto::assign(y, stiletto::mean(x, 0) * 127); };
  expect_graph(compile(f, stiletto::ones({5, 4}, DType::int8), stiletto::ones({3, 4})).graph(), R"(
trace
  %0 = arg0: int8(5, 4)
  %1 = arg1: float32(3, 4)
  %2 = mean(%1, axes=(0)): float32(4)
  %3 = number0: int32
  %4 = multiply(%2, %3): float32(4)
  store %4 -> %0
graph
  axes i=5 j=4 k=3
  %0 = arg1: float32[j,k] strides (1, 4)
  %1 = mean(%0, over k): float32[j]
  %2 = scalar0: int32
  %3 = multiply(%1, %2): float32[j]
  %3 -> arg0: int8[i,j] strides (4, 1)
plan
  loop in 1 phase
  loop in 1 phase
)");
}

TEST(GoldenStores, transposed) {
  auto f = [](const Array& y, const Array& x) { stiletto::assign(y, stiletto::transpose(stiletto::exp(x))); };
  expect_graph(compile(f, stiletto::ones({4, 3}), stiletto::ones({3, 4})).graph(), R"(
trace
  %0 = arg0: float32(4, 3)
  %1 = arg1: float32(3, 4)
  %2 = exp(%1): float32(3, 4)
  %3 = permute(%2, axes=(1, 0)): float32(4, 3)
  store %3 -> %0
graph
  axes i=4 j=3
  %0 = arg1: float32[i,j] strides (1, 4)
  %1 = exp(%0): float32[i,j]
  %1 -> arg0: float32[i,j] strides (3, 1)
plan
  loop in 1 phase
)");
}

TEST(GoldenStores, to_a_capture) {
  const Array counter = stiletto::zeros({4});
  auto f = [&](const Array& x) {
    stiletto::assign(counter, counter + stiletto::cast(x > 0, DType::float32));
    return x * 2;
  };
  expect_graph(compile(f, stiletto::ones({4})).graph(), R"(
trace
  %0 = arg0: float32(4)
  %1 = number0: int32
  %2 = greater(%0, %1): boolean(4)
  %3 = cast(%2): float32(4)
  %4 = capture0: float32(4)
  %5 = add(%4, %3): float32(4)
  store %5 -> %4
  %6 = number1: int32
  %7 = multiply(%0, %6): float32(4)
  return %7
graph
  axes i=4
  %0 = arg0: float32[i] strides (1)
  %1 = scalar0: int32
  %2 = multiply(%0, %1): float32[i]
  %3 = capture0: float32[i] strides (1)
  %4 = scalar1: int32
  %5 = greater(%0, %4): boolean[i]
  %6 = cast(%5): float32[i]
  %7 = add(%3, %6): float32[i]
  %2 -> out0: float32[i] strides (1)
  %7 -> capture0: float32[i] strides (1)
plan
  loop in 1 phase
)");
}

}  // namespace
