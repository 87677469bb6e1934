// SPDX-License-Identifier: Apache-2.0
// Golden texts of structured operations: their axes are their own, further results are parts, and what is
// behind them shares the axes of the result.
#include <gtest/gtest.h>

#include "golden/golden.hpp"

namespace {

using golden::expect_graph;
using stiletto::Array;
using stiletto::compile;
using stiletto::DType;
using stiletto::Slice;
using stiletto::zeros;

TEST(GoldenStructured, attention_with_lengths) {
  const Array q = zeros({2, 3, 4, 8}), kv = zeros({2, 5, 2, 8}), lengths = zeros({2}, DType::int32);
  auto f = [](const Array& a, const Array& b, const Array& c, const Array& q_lengths,
              const Array& kv_lengths) {
    return stiletto::attention(
        a, b, c,
        {.causal = stiletto::Causal::bottom_right, .seq_len_q = q_lengths, .seq_len_kv = kv_lengths});
  };
  expect_graph(compile(f, q, kv, kv, lengths, lengths).graph(), R"(
trace
  %0 = arg0: float32(2, 3, 4, 8)
  %1 = arg1: float32(2, 5, 2, 8)
  %2 = arg2: float32(2, 5, 2, 8)
  %3 = arg3: int32(2)
  %4 = arg4: int32(2)
  %5 = number0: float32
  %6 = attention(%0, %1, %2, %5, %3, %4, causal bottom_right, with seq_len_q, seq_len_kv): float32(2, 3, 4, 8)
  return %6
graph
  axes i=2 j=3 k=4 l=8 m=2 n=3 o=4 p=8 q=2 r=5 s=2 t=8 u=2 v=5 w=2 x=8 y=2 z=2
  %0 = arg0: float32[m,n,o,p] strides (96, 32, 8, 1)
  %1 = arg1: float32[q,r,s,t] strides (80, 16, 8, 1)
  %2 = arg2: float32[u,v,w,x] strides (80, 16, 8, 1)
  %3 = scalar0: float32
  %4 = arg3: int32[y] strides (1)
  %5 = arg4: int32[z] strides (1)
  %6 = attention(%0[m,n,o,p], %1[q,r,s,t], %2[u,v,w,x], %3, %4[y], %5[z], causal bottom_right, with seq_len_q, seq_len_kv): float32[i,j,k,l]
  %6 -> out0: float32[i,j,k,l] strides (96, 32, 8, 1)
plan
  attention
)");
}

TEST(GoldenStructured, attention_of_views_with_stats) {
  auto f = [](const Array& packed) {
    auto part = [&](std::int64_t i) {
      return stiletto::reshape(stiletto::slice(packed, {{}, {}, Slice{i, i + 1}}), {2, 3, 4, 8});
    };
    const auto result = stiletto::attention_with_stats(part(0), part(1), part(2));
    return std::pair{result.out, result.stats};
  };
  expect_graph(compile(f, zeros({2, 3, 3, 4, 8})).graph(), R"(
trace
  %0 = arg0: float32(2, 3, 3, 4, 8)
  %1 = view(%0, offset=64): float32(2, 3, 1, 4, 8) strides (288, 96, 32, 8, 1)
  %2 = view(%0, offset=64): float32(2, 3, 4, 8) strides (288, 96, 8, 1)
  %3 = view(%0, offset=32): float32(2, 3, 1, 4, 8) strides (288, 96, 32, 8, 1)
  %4 = view(%0, offset=32): float32(2, 3, 4, 8) strides (288, 96, 8, 1)
  %5 = view(%0, offset=0): float32(2, 3, 1, 4, 8) strides (288, 96, 32, 8, 1)
  %6 = view(%0, offset=0): float32(2, 3, 4, 8) strides (288, 96, 8, 1)
  %7 = number0: float32
  %8 = attention(%6, %4, %2, %7): float32(2, 3, 4, 8)
  %9 = part(%8, result=1): float32(2, 4, 3, 1)
  return %8
  return %9
graph
  axes i=2 j=3 k=4 l=8 m=2 n=4 o=3 p=2 q=3 r=4 s=8 t=2 u=3 v=4 w=8 x=2 y=3 z=4 x18=8
  %0 = arg0: float32[p,q,r,s] strides (288, 96, 8, 1)
  %1 = arg0: float32[t,u,v,w] strides (288, 96, 8, 1) offset 32
  %2 = arg0: float32[x,y,z,x18] strides (288, 96, 8, 1) offset 64
  %3 = scalar0: float32
  %4 = attention(%0[p,q,r,s], %1[t,u,v,w], %2[x,y,z,x18], %3): float32[i,j,k,l]
  %5 = part(%4, result=1): float32[m,n,o]
  %4 -> out0: float32[i,j,k,l] strides (96, 32, 8, 1)
  %5 -> out1: float32[m,n,o] strides (12, 3, 1)
plan
  attention
)");
}

TEST(GoldenStructured, gradients_of_attention) {
  auto f = [](const Array& d_out, const Array& q, const Array& kv, const Array& stats) {
    const auto g = stiletto::attention_backward(d_out, q, kv, kv, d_out, stats);
    return std::tuple{g.dq, g.dk, g.dv};
  };
  const Array q = zeros({2, 3, 4, 8});
  expect_graph(compile(f, q, q, zeros({2, 5, 2, 8}), zeros({2, 4, 3, 1})).graph(), R"(
trace
  %0 = arg0: float32(2, 3, 4, 8)
  %1 = arg1: float32(2, 3, 4, 8)
  %2 = arg2: float32(2, 5, 2, 8)
  %3 = arg3: float32(2, 4, 3, 1)
  %4 = number0: float32
  %5 = attention_backward(%0, %1, %2, %2, %0, %3, %4): float32(2, 3, 4, 8)
  %6 = part(%5, result=1): float32(2, 5, 2, 8)
  %7 = part(%5, result=2): float32(2, 5, 2, 8)
  return %5
  return %6
  return %7
graph
  axes i=2 j=3 k=4 l=8 m=2 n=5 o=2 p=8 q=2 r=5 s=2 t=8 u=2 v=3 w=4 x=8 y=2 z=3 x18=4 x19=8 x20=2 x21=5 x22=2 x23=8 x24=2 x25=4 x26=3 x27=2 x28=5 x29=2 x30=8 x31=2 x32=3 x33=4 x34=8
  %0 = arg0: float32[u,v,w,x] strides (96, 32, 8, 1)
  %1 = arg1: float32[y,z,x18,x19] strides (96, 32, 8, 1)
  %2 = arg2: float32[x20,x21,x22,x23] strides (80, 16, 8, 1)
  %3 = arg3: float32[x24,x25,x26] strides (12, 3, 1)
  %4 = scalar0: float32
  %5 = arg2: float32[x27,x28,x29,x30] strides (80, 16, 8, 1)
  %6 = arg0: float32[x31,x32,x33,x34] strides (96, 32, 8, 1)
  %7 = attention_backward(%0[u,v,w,x], %1[y,z,x18,x19], %2[x20,x21,x22,x23], %5[x27,x28,x29,x30], %6[x31,x32,x33,x34], %3[x24,x25,x26,1], %4): float32[i,j,k,l]
  %8 = part(%7, result=1): float32[m,n,o,p]
  %9 = part(%7, result=2): float32[q,r,s,t]
  %7 -> out0: float32[i,j,k,l] strides (96, 32, 8, 1)
  %8 -> out1: float32[m,n,o,p] strides (80, 16, 8, 1)
  %9 -> out2: float32[q,r,s,t] strides (80, 16, 8, 1)
plan
  attention_backward
)");
}

TEST(GoldenStructured, norm_with_an_operation_behind) {
  auto f = [](const Array& x, const Array& scale) { return stiletto::relu(stiletto::rms_norm(x, scale)); };
  expect_graph(compile(f, zeros({6, 4, 8}), zeros({4, 8})).graph(), R"(
trace
  %0 = arg0: float32(6, 4, 8)
  %1 = arg1: float32(4, 8)
  %2 = rms_norm(%0, %1, axes=2, epsilon=1e-05): float32(6, 4, 8)
  %3 = relu(%2): float32(6, 4, 8)
  return %3
graph
  axes i=6 j=4 k=8 l=6 m=4 n=8 o=4 p=8
  %0 = arg0: float32[l,m,n] strides (32, 8, 1)
  %1 = arg1: float32[o,p] strides (8, 1)
  %2 = rms_norm(%0[l,m,n], %1[o,p], axes=2, epsilon=1e-05): float32[i,j,k]
  %3 = relu(%2): float32[i,j,k]
  %3 -> out0: float32[i,j,k] strides (32, 8, 1)
plan
  rms_norm, and on its parts a loop in 1 phase
)");
}

TEST(GoldenStructured, channels_last_conv_with_bias_and_relu) {
  auto f = [](const Array& x, const Array& w, const Array& bias) {
    return stiletto::relu(stiletto::conv(x, w, {.pre_padding = 1}) + bias);
  };
  const Array x = stiletto::transpose(zeros({2, 6, 6, 4}), {0, 3, 1, 2});
  expect_graph(compile(f, x, zeros({8, 4, 3, 3}), zeros({8, 1, 1})).graph(), R"(
trace
  %0 = arg0: float32(2, 4, 6, 6) strides (144, 1, 24, 4)
  %1 = arg1: float32(8, 4, 3, 3)
  %2 = arg2: float32(8, 1, 1)
  %3 = conv(%0, %1, stride=(1, 1), padding=(1, 1), dilation=(1, 1)): float32(2, 8, 6, 6) strides (288, 1, 48, 8)
  %4 = add(%3, %2): float32(2, 8, 6, 6) strides (288, 1, 48, 8)
  %5 = relu(%4): float32(2, 8, 6, 6) strides (288, 1, 48, 8)
  return %5
graph
  axes i=2 j=6 k=6 l=8 m=2 n=6 o=6 p=4 q=8 r=4 s=3 t=3
  %0 = arg0: float32[m,n,o,p] strides (144, 24, 4, 1)
  %1 = arg1: float32[q,r,s,t] strides (36, 9, 3, 1)
  %2 = conv(%0[m,p,n,o], %1[q,r,s,t], stride=(1, 1), padding=(1, 1), dilation=(1, 1)): float32[i,j,k,l]
  %3 = arg2: float32[l] strides (1)
  %4 = add(%2, %3): float32[i,j,k,l]
  %5 = relu(%4): float32[i,j,k,l]
  %5 -> out0: float32[i,j,k,l] strides (288, 48, 8, 1)
plan
  conv, and on its parts a loop in 1 phase
)");
}

TEST(GoldenStructured, pool) {
  auto f = [](const Array& x) { return stiletto::max_pool(x, 2); };
  expect_graph(compile(f, zeros({1, 2, 6})).graph(), R"(
trace
  %0 = arg0: float32(1, 2, 6)
  %1 = max_pool(%0, window=(2), stride=(2), padding=(0)): float32(1, 2, 3)
  return %1
graph
  axes i=2 j=3 k=2 l=6
  %0 = arg0: float32[k,l] strides (6, 1)
  %1 = max_pool(%0[1,k,l], window=(2), stride=(2), padding=(0)): float32[i,j]
  %1 -> out0: float32[i,j] strides (3, 1)
plan
  max_pool
)");
}

TEST(GoldenStructured, attention_to_no_keys_is_constant) {
  auto f = [](const Array& q, const Array& kv) {
    const auto result = stiletto::attention_with_stats(q, kv, kv);
    return std::pair{result.out, result.stats};
  };
  expect_graph(compile(f, zeros({2, 3, 4, 8}), zeros({2, 0, 4, 8})).graph(), R"(
trace
  %0 = arg0: float32(2, 3, 4, 8)
  %1 = arg1: float32(2, 0, 4, 8)
  %2 = number0: float32
  %3 = attention(%0, %1, %1, %2): float32(2, 3, 4, 8)
  %4 = part(%3, result=1): float32(2, 4, 3, 1)
  return %3
  return %4
graph
  axes i=192 j=24
  %0 = scalar0: float32
  %1 = scalar1: float32
  %0 -> out0: float32[i] strides (1)
  %1 -> out1: float32[j] strides (1)
plan
  loop in 1 phase
  loop in 1 phase
)");
}

}  // namespace
