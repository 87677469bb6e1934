// SPDX-License-Identifier: Apache-2.0
// Golden texts of functions with products: epilogues, gated layers, batch axes, attention in primitives,
// accumulation into the caller's memory, narrow types and empty products.
#include <gtest/gtest.h>

#include "golden/golden.hpp"

namespace {

using golden::expect_graph;
using stiletto::Array;
using stiletto::compile;
using stiletto::DType;

const auto product = [](const Array& a, const Array& b) { return stiletto::matmul(a, b); };

TEST(GoldenMatmul, plain) {
  expect_graph(compile(product, stiletto::ones({4, 8}), stiletto::ones({8, 6})).graph(), R"(
trace
  %0 = arg0: float32(4, 8)
  %1 = arg1: float32(8, 6)
  %2 = matmul(%0, %1): float32(4, 6)
  return %2
graph
  axes i=4 j=6 k=8
  %0 = arg0: float32[i,k] strides (8, 1)
  %1 = arg1: float32[j,k] strides (1, 6)
  %2 = matmul(%0, %1, over k): float32[i,j]
  %2 -> out0: float32[i,j] strides (6, 1)
plan
  matmul
)");
}

TEST(GoldenMatmul, bias_and_activation) {
  auto f = [](const Array& x, const Array& w, const Array& b) {
    return stiletto::gelu(stiletto::matmul(x, w) + b);
  };
  expect_graph(compile(f, stiletto::ones({4, 8}), stiletto::ones({8, 6}), stiletto::ones({6})).graph(), R"(
trace
  %0 = arg0: float32(4, 8)
  %1 = arg1: float32(8, 6)
  %2 = arg2: float32(6)
  %3 = matmul(%0, %1): float32(4, 6)
  %4 = add(%3, %2): float32(4, 6)
  %5 = gelu(%4): float32(4, 6)
  return %5
graph
  axes i=4 j=6 k=8
  %0 = arg0: float32[i,k] strides (8, 1)
  %1 = arg1: float32[j,k] strides (1, 6)
  %2 = matmul(%0, %1, over k): float32[i,j]
  %3 = arg2: float32[j] strides (1)
  %4 = add(%2, %3): float32[i,j]
  %5 = gelu(%4): float32[i,j]
  %5 -> out0: float32[i,j] strides (6, 1)
plan
  matmul
)");
}

TEST(GoldenMatmul, swiglu) {
  auto f = [](const Array& x, const Array& gate, const Array& up, const Array& down) {
    const Array g = stiletto::silu(stiletto::matmul(x, gate));
    const Array u = stiletto::matmul(x, up);
    return stiletto::matmul(g * u, down);
  };
  expect_graph(compile(f, stiletto::ones({4, 8}), stiletto::ones({8, 6}), stiletto::ones({8, 6}),
                       stiletto::ones({6, 8}))
                   .graph(),
               R"(
trace
  %0 = arg0: float32(4, 8)
  %1 = arg1: float32(8, 6)
  %2 = arg2: float32(8, 6)
  %3 = arg3: float32(6, 8)
  %4 = matmul(%0, %1): float32(4, 6)
  %5 = silu(%4): float32(4, 6)
  %6 = matmul(%0, %2): float32(4, 6)
  %7 = multiply(%5, %6): float32(4, 6)
  %8 = matmul(%7, %3): float32(4, 8)
  return %8
graph
  axes i=4 j=8 k=8 l=6
  %0 = arg0: float32[i,k] strides (8, 1)
  %1 = arg1: float32[k,l] strides (6, 1)
  %2 = matmul(%0, %1, over k): float32[i,l]
  %3 = silu(%2): float32[i,l]
  %4 = arg2: float32[k,l] strides (6, 1)
  %5 = matmul(%0, %4, over k): float32[i,l]
  %6 = multiply(%3, %5): float32[i,l]
  %7 = arg3: float32[j,l] strides (1, 8)
  %8 = matmul(%6, %7, over l): float32[i,j]
  %8 -> out0: float32[i,j] strides (8, 1)
plan
  matmul
  matmul
  matmul
)");
}

TEST(GoldenMatmul, batch) {
  expect_graph(compile(product, stiletto::ones({2, 3, 4, 8}), stiletto::ones({3, 8, 6})).graph(), R"(
trace
  %0 = arg0: float32(2, 3, 4, 8)
  %1 = arg1: float32(3, 8, 6)
  %2 = matmul(%0, %1): float32(2, 3, 4, 6)
  return %2
graph
  axes i=2 j=3 k=4 l=6 m=8
  %0 = arg0: float32[i,j,k,m] strides (96, 32, 8, 1)
  %1 = arg1: float32[j,l,m] strides (48, 1, 6)
  %2 = matmul(%0, %1, over m): float32[i,j,k,l]
  %2 -> out0: float32[i,j,k,l] strides (72, 24, 6, 1)
plan
  matmul
)");
}

TEST(GoldenMatmul, batch_of_rows_over_one_matrix) {
  auto f = [](const Array& x, const Array& w, const Array& b) { return stiletto::matmul(x, w) + b; };
  expect_graph(compile(f, stiletto::ones({2, 3, 4, 8}), stiletto::ones({8, 6}), stiletto::ones({6})).graph(),
               R"(
trace
  %0 = arg0: float32(2, 3, 4, 8)
  %1 = arg1: float32(8, 6)
  %2 = arg2: float32(6)
  %3 = matmul(%0, %1): float32(2, 3, 4, 6)
  %4 = add(%3, %2): float32(2, 3, 4, 6)
  return %4
graph
  axes i=24 j=6 k=8
  %0 = arg0: float32[i,k] strides (8, 1)
  %1 = arg1: float32[j,k] strides (1, 6)
  %2 = matmul(%0, %1, over k): float32[i,j]
  %3 = arg2: float32[j] strides (1)
  %4 = add(%2, %3): float32[i,j]
  %4 -> out0: float32[i,j] strides (6, 1)
plan
  matmul
)");
}

TEST(GoldenMatmul, vectors) {
  auto f = [](const Array& x, const Array& w, const Array& y) {
    const Array left = stiletto::matmul(x, w);
    return stiletto::matmul(left, y);
  };
  expect_graph(compile(f, stiletto::ones({4}), stiletto::ones({4, 6}), stiletto::ones({6})).graph(), R"(
trace
  %0 = arg0: float32(4)
  %1 = arg1: float32(4, 6)
  %2 = arg2: float32(6)
  %3 = matmul(%0, %1): float32(6)
  %4 = matmul(%3, %2): float32()
  return %4
graph
  axes i=4 j=6
  %0 = arg0: float32[i] strides (1)
  %1 = arg1: float32[i,j] strides (6, 1)
  %2 = matmul(%0, %1, over i): float32[j]
  %3 = arg2: float32[j] strides (1)
  %4 = matmul(%2, %3, over j): float32
  %4 -> out0: float32
plan
  matmul
  matmul
)");
}

TEST(GoldenMatmul, transposed_operands_and_result) {
  auto f = [](const Array& a, const Array& b) {
    return stiletto::transpose(stiletto::matmul(stiletto::transpose(a), b));
  };
  expect_graph(compile(f, stiletto::ones({8, 4}), stiletto::ones({8, 6})).graph(), R"(
trace
  %0 = arg0: float32(8, 4)
  %1 = arg1: float32(8, 6)
  %2 = view(%0, offset=0): float32(4, 8) strides (1, 4)
  %3 = matmul(%2, %1): float32(4, 6)
  %4 = permute(%3, axes=(1, 0)): float32(6, 4)
  return %4
graph
  axes i=6 j=4 k=8
  %0 = arg0: float32[j,k] strides (1, 4)
  %1 = arg1: float32[i,k] strides (1, 6)
  %2 = matmul(%0, %1, over k): float32[i,j]
  %2 -> out0: float32[i,j] strides (4, 1)
plan
  matmul
)");
}

TEST(GoldenMatmul, of_a_matrix_with_itself) {
  auto f = [](const Array& x) { return stiletto::matmul(x, x); };
  expect_graph(compile(f, stiletto::ones({4, 4})).graph(), R"(
trace
  %0 = arg0: float32(4, 4)
  %1 = matmul(%0, %0): float32(4, 4)
  return %1
graph
  axes i=4 j=4 k=4
  %0 = arg0: float32[i,k] strides (4, 1)
  %1 = arg0: float32[j,k] strides (1, 4)
  %2 = matmul(%0, %1, over k): float32[i,j]
  %2 -> out0: float32[i,j] strides (4, 1)
plan
  matmul
)");
}

TEST(GoldenMatmul, attention_in_primitives) {
  auto f = [](const Array& q, const Array& k, const Array& v, const Array& scale) {
    const Array scores = stiletto::matmul(q, stiletto::transpose(k, {0, 1, 3, 2})) * scale;
    return stiletto::matmul(stiletto::softmax(scores), v);
  };
  const Array x = stiletto::ones({2, 3, 5, 8});
  expect_graph(compile(f, x, x, x, 0.125F).graph(), R"(
trace
  %0 = arg0: float32(2, 3, 5, 8)
  %1 = arg1: float32(2, 3, 5, 8)
  %2 = arg2: float32(2, 3, 5, 8)
  %3 = number0: float32
  %4 = view(%1, offset=0): float32(2, 3, 8, 5) strides (120, 40, 1, 8)
  %5 = matmul(%0, %4): float32(2, 3, 5, 5)
  %6 = multiply(%5, %3): float32(2, 3, 5, 5)
  %7 = softmax(%6, axis=3): float32(2, 3, 5, 5)
  %8 = matmul(%7, %2): float32(2, 3, 5, 8)
  return %8
graph
  axes i=6 j=5 k=8 l=8 m=5
  %0 = arg0: float32[i,j,l] strides (40, 8, 1)
  %1 = arg1: float32[i,l,m] strides (40, 1, 8)
  %2 = matmul(%0, %1, over l): float32[i,j,m]
  %3 = scalar0: float32
  %4 = multiply(%2, %3): float32[i,j,m]
  %5 = softmax(%4, over m): float32[i,j,m]
  %6 = arg2: float32[i,k,m] strides (40, 1, 8)
  %7 = matmul(%5, %6, over m): float32[i,j,k]
  %7 -> out0: float32[i,j,k] strides (40, 8, 1)
plan
  matmul
  matmul
)");
}

TEST(GoldenMatmul, into_the_callers_memory) {
  auto f = [](const Array& c, const Array& a, const Array& b) { stiletto::matmul_into(c, a, b, 2, 0.5); };
  expect_graph(compile(f, stiletto::ones({4, 6}), stiletto::ones({4, 8}), stiletto::ones({8, 6})).graph(), R"(
trace
  %0 = arg0: float32(4, 6)
  %1 = arg1: float32(4, 8)
  %2 = arg2: float32(8, 6)
  %3 = matmul(%1, %2, %0, alpha=2, beta=0.5): float32(4, 6)
  store %3 -> %0
graph
  axes i=4 j=6 k=8
  %0 = arg1: float32[i,k] strides (8, 1)
  %1 = arg2: float32[j,k] strides (1, 6)
  %2 = arg0: float32[i,j] strides (6, 1)
  %3 = matmul(%0, %1, %2, over k, alpha=2, beta=0.5): float32[i,j]
  %3 -> arg0: float32[i,j] strides (6, 1)
plan
  matmul
)");
}

TEST(GoldenMatmul, residual_in_place) {
  auto f = [](const Array& x, const Array& h, const Array& w) {
    stiletto::assign(x, x + stiletto::relu(stiletto::matmul(h, w)));
    return x;
  };
  expect_graph(compile(f, stiletto::ones({4, 6}), stiletto::ones({4, 8}), stiletto::ones({8, 6})).graph(), R"(
trace
  %0 = arg0: float32(4, 6)
  %1 = arg1: float32(4, 8)
  %2 = arg2: float32(8, 6)
  %3 = matmul(%1, %2): float32(4, 6)
  %4 = relu(%3): float32(4, 6)
  %5 = add(%0, %4): float32(4, 6)
  store %5 -> %0
  return %0
graph
  axes i=4 j=6 k=8
  %0 = arg0: float32[i,j] strides (6, 1)
  %1 = arg1: float32[i,k] strides (8, 1)
  %2 = arg2: float32[j,k] strides (1, 6)
  %3 = matmul(%1, %2, over k): float32[i,j]
  %4 = relu(%3): float32[i,j]
  %5 = add(%0, %4): float32[i,j]
  %5 -> arg0: float32[i,j] strides (6, 1)
plan
  matmul
)");
}

TEST(GoldenMatmul, computed_operands_are_rounded) {
  auto f = [](const Array& x, const Array& w) { return stiletto::matmul(stiletto::relu(x) * 2, w); };
  const DType half = DType::bfloat16;
  expect_graph(compile(f, stiletto::ones({4, 8}, half), stiletto::ones({8, 6}, half)).graph(), R"(
trace
  %0 = arg0: bfloat16(4, 8)
  %1 = arg1: bfloat16(8, 6)
  %2 = relu(%0): bfloat16(4, 8)
  %3 = number0: int32
  %4 = multiply(%2, %3): bfloat16(4, 8)
  %5 = matmul(%4, %1): bfloat16(4, 6)
  return %5
graph
  axes i=4 j=6 k=8
  %0 = arg0: bfloat16[i,k] strides (8, 1)
  %1 = relu(%0): bfloat16[i,k]
  %2 = scalar0: int32
  %3 = multiply(%1, %2): bfloat16[i,k]
  %4 = arg1: bfloat16[j,k] strides (1, 6)
  %5 = cast(%3): bfloat16[i,k]
  %6 = matmul(%5, %4, over k): bfloat16[i,j]
  %6 -> out0: bfloat16[i,j] strides (6, 1)
plan
  matmul
)");
}

TEST(GoldenMatmul, integers) {
  auto f = [](const Array& a, const Array& b, const Array& scale) { return stiletto::matmul(a, b) * scale; };
  expect_graph(compile(f, stiletto::ones({4, 8}, DType::uint8), stiletto::ones({8, 6}, DType::int8),
                       stiletto::ones({6}))
                   .graph(),
               R"(
trace
  %0 = arg0: uint8(4, 8)
  %1 = arg1: int8(8, 6)
  %2 = arg2: float32(6)
  %3 = matmul(%0, %1): int32(4, 6)
  %4 = multiply(%3, %2): float32(4, 6)
  return %4
graph
  axes i=4 j=6 k=8
  %0 = arg0: uint8[i,k] strides (8, 1)
  %1 = arg1: int8[j,k] strides (1, 6)
  %2 = matmul(%0, %1, over k): int32[i,j]
  %3 = arg2: float32[j] strides (1)
  %4 = multiply(%2, %3): float32[i,j]
  %4 -> out0: float32[i,j] strides (6, 1)
plan
  matmul
)");
}

TEST(GoldenMatmul, mixed_types) {
  auto f = [](const Array& a, const Array& b) { return stiletto::matmul(a, b); };
  expect_graph(
      compile(f, stiletto::ones({4, 8}, DType::float16), stiletto::ones({8, 6}, DType::float64)).graph(), R"(
trace
  %0 = arg0: float16(4, 8)
  %1 = arg1: float64(8, 6)
  %2 = matmul(%0, %1): float64(4, 6)
  return %2
graph
  axes i=4 j=6 k=8
  %0 = arg0: float16[i,k] strides (8, 1)
  %1 = arg1: float64[j,k] strides (1, 6)
  %2 = matmul(%0, %1, over k): float64[i,j]
  %2 -> out0: float64[i,j] strides (6, 1)
plan
  matmul
)");
}

TEST(GoldenMatmul, empty) {
  auto f = [](const Array& c, const Array& a, const Array& b) {
    stiletto::matmul_into(c, a, b, 1, 0.5);
    return stiletto::matmul(a, b) + 1;
  };
  expect_graph(compile(f, stiletto::ones({4, 6}), stiletto::ones({4, 0}), stiletto::ones({0, 6})).graph(), R"(
trace
  %0 = arg0: float32(4, 6)
  %1 = arg1: float32(4, 0)
  %2 = arg2: float32(0, 6)
  %3 = matmul(%1, %2, %0, beta=0.5): float32(4, 6)
  store %3 -> %0
  %4 = matmul(%1, %2): float32(4, 6)
  %5 = number0: int32
  %6 = add(%4, %5): float32(4, 6)
  return %6
graph
  axes i=24
  %0 = scalar0: float32
  %1 = scalar1: int32
  %2 = add(%0, %1): float32
  %3 = arg0: float32[i] strides (1)
  %4 = scalar2: float32
  %5 = multiply(%3, %4): float32[i]
  %2 -> out0: float32[i] strides (1)
  %5 -> arg0: float32[i] strides (1)
plan
  loop in 1 phase
)");
}

}  // namespace
