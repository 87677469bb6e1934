// SPDX-License-Identifier: Apache-2.0
// Golden texts of attention's further options: their operands, in order, and what the attributes say.
#include <gtest/gtest.h>

#include "golden/golden.hpp"

namespace {

using golden::expect_graph;
using stiletto::Array;
using stiletto::AttentionDropout;
using stiletto::AttentionOptions;
using stiletto::compile;
using stiletto::DType;
using stiletto::zeros;

TEST(GoldenAttention, dropout_in_both_directions) {
  auto f = [](const Array& x, const Array& seed, const Array& offset) {
    const AttentionOptions options{.dropout = AttentionDropout{0.1, seed, offset}};
    const auto r = stiletto::attention_with_stats(x, x, x, options);
    return stiletto::attention_backward(x, x, x, x, r.out, r.stats, options).dv;
  };
  const Array one = zeros({1}, DType::int64);
  expect_graph(compile(f, zeros({2, 3, 4, 8}), one, one).graph(), R"(
trace
  %0 = arg0: float32(2, 3, 4, 8)
  %1 = arg1: int64(1)
  %2 = arg2: int64(1)
  %3 = number0: float32
  %4 = attention(%0, %0, %0, %3, %1, %2, dropout=0.1, with seed, offset): float32(2, 3, 4, 8)
  %5 = part(%4, result=1): float32(2, 4, 3, 1)
  %6 = number1: float32
  %7 = attention_backward(%0, %0, %0, %0, %4, %5, %6, %1, %2, dropout=0.1, with seed, offset): float32(2, 3, 4, 8)
  %8 = part(%7, result=1): float32(2, 3, 4, 8)
  %9 = part(%7, result=2): float32(2, 3, 4, 8)
  return %9
graph
  axes i=2 j=3 k=4 l=8 m=2 n=3 o=4 p=8 q=2 r=3 s=4 t=8 u=2 v=3 w=4 x=8 y=2 z=3 x18=4 x19=8 x20=2 x21=3 x22=4 x23=8 x24=2 x25=3 x26=4 x27=8 x28=2 x29=3 x30=4 x31=8 x32=2 x33=4 x34=3 x35=2 x36=3 x37=4 x38=8
  %0 = arg0: float32[m,n,o,p] strides (96, 32, 8, 1)
  %1 = scalar0: float32
  %2 = arg1: int64
  %3 = arg2: int64
  %4 = arg0: float32[q,r,s,t] strides (96, 32, 8, 1)
  %5 = arg0: float32[u,v,w,x] strides (96, 32, 8, 1)
  %6 = attention(%0[m,n,o,p], %4[q,r,s,t], %5[u,v,w,x], %1, %2[1], %3[1], dropout=0.1, with seed, offset): float32[x28,x29,x30,x31]
  %7 = part(%6, result=1): float32[x32,x33,x34]
  %8 = scalar1: float32
  %9 = arg0: float32[y,z,x18,x19] strides (96, 32, 8, 1)
  %10 = arg0: float32[x20,x21,x22,x23] strides (96, 32, 8, 1)
  %11 = arg0: float32[x24,x25,x26,x27] strides (96, 32, 8, 1)
  %12 = attention_backward(%0[m,n,o,p], %9[y,z,x18,x19], %10[x20,x21,x22,x23], %11[x24,x25,x26,x27], %6[x28,x29,x30,x31], %7[x32,x33,x34,1], %8, %2[1], %3[1], dropout=0.1, with seed, offset): float32[x35,x36,x37,x38]
  %13 = part(%12, result=2): float32[i,j,k,l]
  %13 -> out0: float32[i,j,k,l] strides (96, 32, 8, 1)
plan
  attention
  attention_backward
)");
}

TEST(GoldenAttention, packed_sequences) {
  auto f = [](const Array& q, const Array& kv, const Array& offsets, const Array& lengths) {
    AttentionOptions options{.seq_len_q = lengths, .seq_len_kv = lengths};
    options.packed = stiletto::PackedSequences{offsets, offsets, offsets, offsets, 5, 7};
    return stiletto::attention(q, kv, kv, options);
  };
  expect_graph(
      compile(f, zeros({10, 4, 8}), zeros({20, 2, 8}), zeros({3}, DType::int64), zeros({2}, DType::int32))
          .graph(),
      R"(
trace
  %0 = arg0: float32(10, 4, 8)
  %1 = arg1: float32(20, 2, 8)
  %2 = arg2: int64(3)
  %3 = arg3: int32(2)
  %4 = number0: float32
  %5 = attention(%0, %1, %1, %4, %3, %3, %2, %2, %2, %2, max_seq=5 by 7, with seq_len_q, seq_len_kv, offsets_q, offsets_k, offsets_v, offsets_out): float32(10, 4, 8)
  return %5
graph
  axes i=10 j=4 k=8 l=10 m=4 n=8 o=20 p=2 q=8 r=2 s=3 t=20 u=2 v=8 w=2 x=3 y=3 z=3
  %0 = arg0: float32[l,m,n] strides (32, 8, 1)
  %1 = arg1: float32[o,p,q] strides (16, 8, 1)
  %2 = scalar0: float32
  %3 = arg3: int32[r] strides (1)
  %4 = arg2: int64[s] strides (1)
  %5 = arg1: float32[t,u,v] strides (16, 8, 1)
  %6 = arg3: int32[w] strides (1)
  %7 = arg2: int64[x] strides (1)
  %8 = arg2: int64[y] strides (1)
  %9 = arg2: int64[z] strides (1)
  %10 = attention(%0[l,m,n], %1[o,p,q], %5[t,u,v], %2, %3[r], %6[w], %4[s], %7[x], %8[y], %9[z], max_seq=5 by 7, with seq_len_q, seq_len_kv, offsets_q, offsets_k, offsets_v, offsets_out): float32[i,j,k]
  %10 -> out0: float32[i,j,k] strides (32, 8, 1)
plan
  attention
)");
}

TEST(GoldenAttention, pages) {
  auto f = [](const Array& q, const Array& pool, const Array& table, const Array& lengths) {
    return stiletto::attention(
        q, pool, pool,
        {.seq_len_q = lengths, .seq_len_kv = lengths, .paged = stiletto::PagedKeys{table, table}});
  };
  expect_graph(compile(f, zeros({2, 3, 4, 8}), zeros({9, 16, 2, 8}), zeros({2, 4}, DType::int32),
                       zeros({2}, DType::int32))
                   .graph(),
               R"(
trace
  %0 = arg0: float32(2, 3, 4, 8)
  %1 = arg1: float32(9, 16, 2, 8)
  %2 = arg2: int32(2, 4)
  %3 = arg3: int32(2)
  %4 = number0: float32
  %5 = attention(%0, %1, %1, %4, %3, %3, %2, %2, with seq_len_q, seq_len_kv, table_k, table_v): float32(2, 3, 4, 8)
  return %5
graph
  axes i=2 j=3 k=4 l=8 m=2 n=3 o=4 p=8 q=9 r=16 s=2 t=8 u=2 v=2 w=4 x=9 y=16 z=2 x18=8 x19=2 x20=2 x21=4
  %0 = arg0: float32[m,n,o,p] strides (96, 32, 8, 1)
  %1 = arg1: float32[q,r,s,t] strides (256, 16, 8, 1)
  %2 = scalar0: float32
  %3 = arg3: int32[u] strides (1)
  %4 = arg2: int32[v,w] strides (4, 1)
  %5 = arg1: float32[x,y,z,x18] strides (256, 16, 8, 1)
  %6 = arg3: int32[x19] strides (1)
  %7 = arg2: int32[x20,x21] strides (4, 1)
  %8 = attention(%0[m,n,o,p], %1[q,r,s,t], %5[x,y,z,x18], %2, %3[u], %6[x19], %4[v,w], %7[x20,x21], with seq_len_q, seq_len_kv, table_k, table_v): float32[i,j,k,l]
  %8 -> out0: float32[i,j,k,l] strides (96, 32, 8, 1)
plan
  attention
)");
}

TEST(GoldenAttention, float8) {
  auto f = [](const Array& x, const Array& factor) {
    const auto r = stiletto::attention_float8(x, x, x, {factor, factor, factor, factor, factor, factor},
                                              {.causal = stiletto::Causal::top_left});
    return std::tuple{r.out, r.amax_s, r.amax_out};
  };
  expect_graph(compile(f, zeros({2, 3, 4, 16}, DType::float8_e4m3), zeros({1})).graph(), R"(
trace
  %0 = arg0: float8_e4m3(2, 3, 4, 16)
  %1 = arg1: float32(1)
  %2 = number0: float32
  %3 = attention_float8(%0, %0, %0, %2, %1, %1, %1, %1, %1, %1, causal top_left): float8_e4m3(2, 3, 4, 16)
  %4 = part(%3, result=1): float32(2, 4, 3, 1)
  %5 = part(%3, result=2): float32(1)
  %6 = part(%3, result=3): float32(1)
  return %3
  return %5
  return %6
graph
  axes i=2 j=3 k=4 l=16 m=2 n=3 o=4 p=16 q=2 r=3 s=4 t=16 u=2 v=3 w=4 x=16
  %0 = arg0: float8_e4m3[m,n,o,p] strides (192, 64, 16, 1)
  %1 = scalar0: float32
  %2 = arg1: float32
  %3 = arg0: float8_e4m3[q,r,s,t] strides (192, 64, 16, 1)
  %4 = arg0: float8_e4m3[u,v,w,x] strides (192, 64, 16, 1)
  %5 = attention_float8(%0[m,n,o,p], %3[q,r,s,t], %4[u,v,w,x], %1, %2[1], %2[1], %2[1], %2[1], %2[1], %2[1], causal top_left): float8_e4m3[i,j,k,l]
  %6 = part(%5, result=2): float32
  %7 = part(%5, result=3): float32
  %5 -> out0: float8_e4m3[i,j,k,l] strides (192, 64, 16, 1)
  %6 -> out1: float32
  %7 -> out2: float32
plan
  attention_float8
)");
}

}  // namespace
