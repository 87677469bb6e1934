// SPDX-License-Identifier: Apache-2.0
// Engine graphs of attention's options about where things lie and what is drawn: packed sequences, pages,
// dropout, float8; and of products of float8 with their factors.
#include "golden/engine_golden.hpp"
#include "support/float8_product.hpp"

namespace {

using golden::engine_text;
using golden::expect_text;
using stiletto::Array;
using stiletto::AttentionDropout;
using stiletto::AttentionOptions;
using stiletto::Causal;
using stiletto::DType;
using stiletto::PackedSequences;
using stiletto::PagedKeys;

constexpr DType f16 = DType::float16, f32 = DType::float32, i32 = DType::int32, i64 = DType::int64,
                e4m3 = DType::float8_e4m3, e5m2 = DType::float8_e5m2;

using Arrays = std::vector<Array>;

Array on_cpu(const stiletto::Shape& shape, DType dtype = f16, const stiletto::Strides& strides = {}) {
  return unit::on_cpu(shape, dtype, strides);
}

// ---- packed sequences ----

AttentionOptions packed(const Array& lengths, const Array& queries, const Array& keys, const Array& values) {
  AttentionOptions options{.seq_len_q = lengths, .seq_len_kv = lengths};
  options.packed = PackedSequences{queries, keys, values, queries, 128, 96};
  return options;
}
Arrays packed_forward(const Array& q, const Array& k, const Array& v, const Array& lengths,
                      const Array& queries, const Array& keys) {
  const auto r = stiletto::attention_with_stats(q, k, v, packed(lengths, queries, keys, keys));
  return {r.out, r.stats};
}

TEST(EngineAttention, packed_sequences) {
  expect_text(engine_text(packed_forward, on_cpu({200, 4, 64}), on_cpu({300, 2, 64}), on_cpu({300, 2, 64}),
                          on_cpu({3}, i32), on_cpu({4}, i32), on_cpu({4}, i32)),
              R"(
cudnn graph, a node attention
  t0 = tensor0: float16(3, 4, 128, 64) of 200 rows from t6 strides (32768, 64, 256, 1)
  t1 = tensor1: float16(3, 2, 96, 64) of 300 rows from t7 strides (12288, 64, 128, 1)
  t2 = tensor2: float16(3, 2, 96, 64) of 300 rows from t8 strides (12288, 64, 128, 1)
  t3 = scalar0: float32 by value
  t4 = tensor3: int32(3, 1, 1, 1) strides (1, 1, 1, 1)
  t5 = tensor6: int32(3, 1, 1, 1) strides (1, 1, 1, 1)
  t6 = tensor4: int32(4, 1, 1, 1) strides (1, 1, 1, 1)
  t7 = tensor5: int32(4, 1, 1, 1) strides (1, 1, 1, 1)
  t8 = tensor7: int32(4, 1, 1, 1) strides (1, 1, 1, 1)
  t9 = tensor8: int32(4, 1, 1, 1) strides (1, 1, 1, 1)
  t10 = attention(t0, t1, t2, t3, t4, t5, t6, t7, t8, t9, max_seq=128 by 96, with seq_len_q, seq_len_kv, offsets_q, offsets_k, offsets_v, offsets_out) in float32: store0: float16(3, 4, 128, 64) of 200 rows from t9 strides (32768, 64, 256, 1)
  t11 = result 1 of it: store1: float32(3, 4, 128, 1) strides (512, 128, 1, 1)
)");
}

TEST(EngineAttention, gradients_of_packed_sequences) {
  auto f = [](const Array& q, const Array& k, const Array& stats, const Array& lengths, const Array& at) {
    AttentionOptions options = packed(lengths, at, at, at);
    options.causal = Causal::top_left;
    const auto g = stiletto::attention_backward(q, q, k, k, q, stats, options);
    return Arrays{g.dq, g.dk, g.dv};
  };
  expect_text(engine_text(f, on_cpu({200, 4, 64}), on_cpu({300, 2, 64}), on_cpu({3, 4, 128, 1}, f32),
                          on_cpu({3}, i32), on_cpu({4}, i64)),
              R"(
cudnn graph, a node attention_backward
  t0 = tensor0: float16(3, 4, 128, 64) of 200 rows from t12 strides (32768, 64, 256, 1)
  t1 = tensor5: float16(3, 4, 128, 64) of 200 rows from t9 strides (32768, 64, 256, 1)
  t2 = tensor1: float16(3, 2, 96, 64) of 300 rows from t10 strides (12288, 64, 128, 1)
  t3 = tensor6: float16(3, 2, 96, 64) of 300 rows from t11 strides (12288, 64, 128, 1)
  t4 = tensor7: float16(3, 4, 128, 64) of 200 rows from t12 strides (32768, 64, 256, 1)
  t5 = tensor2: float32(3, 4, 128, 1) strides (512, 128, 1, 1)
  t6 = scalar0: float32 by value
  t7 = tensor3: int32(3, 1, 1, 1) strides (1, 1, 1, 1)
  t8 = tensor8: int32(3, 1, 1, 1) strides (1, 1, 1, 1)
  t9 = tensor4: int64(4, 1, 1, 1) strides (1, 1, 1, 1)
  t10 = tensor9: int64(4, 1, 1, 1) strides (1, 1, 1, 1)
  t11 = tensor10: int64(4, 1, 1, 1) strides (1, 1, 1, 1)
  t12 = tensor11: int64(4, 1, 1, 1) strides (1, 1, 1, 1)
  t13 = attention_backward(t0, t1, t2, t3, t4, t5, t6, t7, t8, t9, t10, t11, t12, causal top_left, max_seq=128 by 96, with seq_len_q, seq_len_kv, offsets_q, offsets_k, offsets_v, offsets_out) in float32: store0: float16(3, 4, 128, 64) of 200 rows from t9 strides (32768, 64, 256, 1)
  t14 = result 1 of it: store1: float16(3, 2, 96, 64) of 300 rows from t10 strides (12288, 64, 128, 1)
  t15 = result 2 of it: store2: float16(3, 2, 96, 64) of 300 rows from t11 strides (12288, 64, 128, 1)
)");
}

// ---- pages ----

Array paged(const Array& q, const Array& pool, const Array& lengths, const Array& table) {
  return stiletto::attention(q, pool, pool,
                             {.seq_len_q = lengths, .seq_len_kv = lengths, .paged = PagedKeys{table, table}});
}

TEST(EngineAttention, pages) {
  expect_text(engine_text(paged, on_cpu({2, 7, 4, 64}), on_cpu({11, 16, 2, 64}), on_cpu({2}, i32),
                          on_cpu({2, 5}, i32)),
              R"(
cudnn graph, a node attention
  t0 = tensor0: float16(2, 4, 7, 64) strides (1792, 64, 256, 1)
  t1 = tensor1: float16(11, 2, 16, 64) strides (2048, 64, 128, 1)
  t2 = tensor4: float16(11, 2, 16, 64) strides (2048, 64, 128, 1)
  t3 = scalar0: float32 by value
  t4 = tensor2: int32(2, 1, 1, 1) strides (1, 1, 1, 1)
  t5 = tensor5: int32(2, 1, 1, 1) strides (1, 1, 1, 1)
  t6 = tensor3: int32(2, 1, 5, 1) strides (5, 5, 1, 1)
  t7 = tensor6: int32(2, 1, 5, 1) strides (5, 5, 1, 1)
  t8 = attention(t0, t1, t2, t3, t4, t5, t6, t7, with seq_len_q, seq_len_kv, table_k, table_v) in float32: store0: float16(2, 4, 7, 64) strides (1792, 64, 256, 1)
)");
}

// ---- dropout ----

TEST(EngineAttention, dropout) {
  const Array x = on_cpu({2, 16, 8, 64}), stats = on_cpu({2, 8, 16, 1}, f32), one = on_cpu({1}, i64);
  std::string text;
  for (const double rate : {0.1, 0.0}) {
    auto forward = [rate](const Array& a, const Array& seed, const Array& offset) {
      return stiletto::attention(a, a, a, {.dropout = AttentionDropout{rate, seed, offset}});
    };
    auto gradients = [rate](const Array& a, const Array& s, const Array& seed, const Array& offset) {
      const auto g =
          stiletto::attention_backward(a, a, a, a, a, s, {.dropout = AttentionDropout{rate, seed, offset}});
      return Arrays{g.dq, g.dk, g.dv};
    };
    text += engine_text(forward, x, one, one) + engine_text(gradients, x, stats, one, one);
  }
  expect_text(text, R"(
cudnn graph, a node attention
  t0 = tensor0: float16(2, 8, 16, 64) strides (8192, 64, 512, 1)
  t1 = tensor3: float16(2, 8, 16, 64) strides (8192, 64, 512, 1)
  t2 = tensor4: float16(2, 8, 16, 64) strides (8192, 64, 512, 1)
  t3 = scalar0: float32 by value
  t4 = tensor1: int64(1, 1, 1, 1) strides (1, 1, 1, 1)
  t5 = tensor2: int64(1, 1, 1, 1) strides (1, 1, 1, 1)
  t6 = attention(t0, t1, t2, t3, t4, t5, dropout=0.1, with seed, offset) in float32: store0: float16(2, 8, 16, 64) strides (8192, 64, 512, 1)
cudnn graph, a node attention_backward
  t0 = tensor0: float16(2, 8, 16, 64) strides (8192, 64, 512, 1)
  t1 = tensor4: float16(2, 8, 16, 64) strides (8192, 64, 512, 1)
  t2 = tensor5: float16(2, 8, 16, 64) strides (8192, 64, 512, 1)
  t3 = tensor6: float16(2, 8, 16, 64) strides (8192, 64, 512, 1)
  t4 = tensor7: float16(2, 8, 16, 64) strides (8192, 64, 512, 1)
  t5 = tensor1: float32(2, 8, 16, 1) strides (128, 16, 1, 1)
  t6 = scalar0: float32 by value
  t7 = tensor2: int64(1, 1, 1, 1) strides (1, 1, 1, 1)
  t8 = tensor3: int64(1, 1, 1, 1) strides (1, 1, 1, 1)
  t9 = attention_backward(t0, t1, t2, t3, t4, t5, t6, t7, t8, dropout=0.1, with seed, offset) in float32: store0: float16(2, 8, 16, 64) strides (8192, 64, 512, 1)
  t10 = result 1 of it: store1: float16(2, 8, 16, 64) strides (8192, 64, 512, 1)
  t11 = result 2 of it: store2: float16(2, 8, 16, 64) strides (8192, 64, 512, 1)
cudnn graph, a node attention
  t0 = tensor0: float16(2, 8, 16, 64) strides (8192, 64, 512, 1)
  t1 = tensor3: float16(2, 8, 16, 64) strides (8192, 64, 512, 1)
  t2 = tensor4: float16(2, 8, 16, 64) strides (8192, 64, 512, 1)
  t3 = scalar0: float32 by value
  t4 = attention(t0, t1, t2, t3) in float32: store0: float16(2, 8, 16, 64) strides (8192, 64, 512, 1)
cudnn graph, a node attention_backward
  t0 = tensor0: float16(2, 8, 16, 64) strides (8192, 64, 512, 1)
  t1 = tensor4: float16(2, 8, 16, 64) strides (8192, 64, 512, 1)
  t2 = tensor5: float16(2, 8, 16, 64) strides (8192, 64, 512, 1)
  t3 = tensor6: float16(2, 8, 16, 64) strides (8192, 64, 512, 1)
  t4 = tensor7: float16(2, 8, 16, 64) strides (8192, 64, 512, 1)
  t5 = tensor1: float32(2, 8, 16, 1) strides (128, 16, 1, 1)
  t6 = scalar0: float32 by value
  t7 = attention_backward(t0, t1, t2, t3, t4, t5, t6) in float32: store0: float16(2, 8, 16, 64) strides (8192, 64, 512, 1)
  t8 = result 1 of it: store1: float16(2, 8, 16, 64) strides (8192, 64, 512, 1)
  t9 = result 2 of it: store2: float16(2, 8, 16, 64) strides (8192, 64, 512, 1)
)");
}

// ---- float8 ----

Arrays float8(const Array& q, const Array& k, const Array& a, const AttentionOptions& options) {
  const auto r = stiletto::attention_float8(q, k, k, {a, a, a, a, a, a}, options);
  return {r.out, r.stats, r.amax_s, r.amax_out};
}

TEST(EngineAttention, float8) {
  auto f = [](const Array& q, const Array& k, const Array& a, const Array& lengths) {
    return float8(q, k, a, {.causal = Causal::top_left, .seq_len_q = lengths, .seq_len_kv = lengths});
  };
  expect_text(engine_text(f, on_cpu({2, 16, 4, 64}, e4m3), on_cpu({2, 32, 2, 64}, e4m3), on_cpu({1}, f32),
                          on_cpu({2}, i32)),
              R"(
cudnn graph, a node attention_float8
  t0 = tensor0: float8_e4m3(2, 4, 16, 64) strides (4096, 64, 256, 1)
  t1 = tensor1: float8_e4m3(2, 2, 32, 64) strides (4096, 64, 128, 1)
  t2 = tensor4: float8_e4m3(2, 2, 32, 64) strides (4096, 64, 128, 1)
  t3 = scalar0: float32 by value
  t4 = tensor2: float32(1, 1, 1, 1) strides (1, 1, 1, 1)
  t5 = tensor2: float32(1, 1, 1, 1) strides (1, 1, 1, 1)
  t6 = tensor2: float32(1, 1, 1, 1) strides (1, 1, 1, 1)
  t7 = tensor2: float32(1, 1, 1, 1) strides (1, 1, 1, 1)
  t8 = tensor2: float32(1, 1, 1, 1) strides (1, 1, 1, 1)
  t9 = tensor2: float32(1, 1, 1, 1) strides (1, 1, 1, 1)
  t10 = tensor3: int32(2, 1, 1, 1) strides (1, 1, 1, 1)
  t11 = tensor5: int32(2, 1, 1, 1) strides (1, 1, 1, 1)
  t12 = attention_float8(t0, t1, t2, t3, t4, t5, t6, t7, t8, t9, t10, t11, causal top_left, with seq_len_q, seq_len_kv) in float32: store0: float8_e4m3(2, 4, 16, 64) strides (4096, 64, 256, 1)
  t13 = result 1 of it: store1: float32(2, 4, 16, 1) strides (64, 16, 1, 1)
  t14 = result 2 of it: store2: float32(1, 1, 1, 1) strides (1, 1, 1, 1)
  t15 = result 3 of it: store3: float32(1, 1, 1, 1) strides (1, 1, 1, 1)
)");
}

/// The recipe of docs/nn.md: one graph.
TEST(EngineAttention, product_of_float8) {
  auto f = [](const Array& x, const Array& w, const Array& scale) {
    return support::float8_product({x, w, scale, scale, scale});
  };
  expect_text(engine_text(f, on_cpu({64, 128}, e4m3), on_cpu({128, 96}, e4m3, {1, 128}), on_cpu({1}, f32)),
              R"(
cudnn graph, 1 x 64 x 96
  t0 = tensor0: float8_e4m3(1, 64, 128) strides (8192, 128, 1)
  t1 = tensor1: float8_e4m3(1, 128, 96) strides (12288, 1, 128)
  t3 = tensor2: float32(1, 1, 1) strides (1, 1, 1)
  t7 = 448: float32 constant
  t8 = -448: float32 constant
  t15 = scalar0: float32 by value
  t2 = matmul(t0, t1) in float32: float32(1, 64, 96)
  t4 = multiply(t3, t3) in float32: float32(1, 1, 1)
  t5 = multiply(t2, t4) in float32: float32(1, 64, 96)
  t6 = multiply(t5, t3) in float32: float32(1, 64, 96)
  t9 = less(t6, t8) in float32: boolean(1, 64, 96)
  t10 = where(t8, t6, t9) in float32: float32(1, 64, 96)
  t11 = greater(t10, t7) in float32: boolean(1, 64, 96)
  t12 = where(t7, t10, t11) in float32: float32(1, 64, 96)
  t13 = identity(t12) in float32: store0: float8_e4m3(1, 64, 96) strides (6144, 96, 1)
  t14 = equal(t5, t5) in float32: boolean(1, 64, 96)
  t16 = where(t5, t15, t14) in float32: float32(1, 64, 96)
  t17 = abs_max(t16) in float32: store1: float32(1, 1, 1) strides (1, 1, 1)
)");
}

// ---- what is refused ----

TEST(EngineAttention, refused) {
  const Array one = on_cpu({1}, i64), x = on_cpu({2, 16, 8, 64}), x32 = on_cpu({2, 16, 8, 64}, f32);
  const Array lengths = on_cpu({2}, i32), at = on_cpu({4}, i32), factor = on_cpu({1}, f32);
  const Array keys = on_cpu({300, 2, 64});
  std::string text;
  const auto add_dropout = [&](const Array& array, Causal causal) {
    auto f = [causal](const Array& a, const Array& draw) {
      return stiletto::attention(a, a, a, {.causal = causal, .dropout = AttentionDropout{0.5, draw, draw}});
    };
    text += engine_text(f, array, one);
  };
  add_dropout(x, Causal::bottom_right);
  add_dropout(x32, Causal::none);
  text += engine_text(paged, on_cpu({2, 7, 4, 64}), on_cpu({11, 12, 2, 64}), lengths, on_cpu({2, 5}, i32));
  auto packed_q = [&](const Array& q) {
    return engine_text(packed_forward, q, keys, keys, on_cpu({3}, i32), at, at);
  };
  text += packed_q(on_cpu({200, 4, 64}, f16, {512, 64, 1}));
  text += packed_q(on_cpu({200, 4, 64}, f16, {260, 65, 1}));
  auto plain8 = [](const Array& q, const Array& a) { return float8(q, q, a, {}); };
  text += engine_text(plain8, on_cpu({2, 16, 4, 24}, e4m3), factor);
  text += engine_text(plain8, on_cpu({2, 1, 4, 64}, e5m2), factor);
  text +=
      engine_text([](const Array& q,
                     const Array& a) { return stiletto::attention_float8(q, q, q, {a, a, a, a, a, a}).out; },
                  on_cpu({2, 16, 4, 64}, e4m3), factor);
  text += engine_text(
      [](const Array& q, const Array& a) {
        Arrays r = float8(q, q, a, {});
        r[0] = stiletto::cast(r[0], f16);
        return r;
      },
      on_cpu({2, 16, 4, 64}, e4m3), factor);
  text += engine_text(
      [](const Array& q, const Array& a) {
        Arrays r = float8(q, q, a, {});
        r[2] = 1 / r[2];
        return r;
      },
      on_cpu({2, 16, 4, 64}, e4m3), factor);
  expect_text(text, R"(
not a node attention: a bottom_right mask and dropout, which cuDNN does not take together; let a bias have minus infinity where the mask would be, and leave causal out
not a node attention: dropout of float32, whose kernels cuDNN fails to compile; cast q, k and v to float16
not a node attention: pages of 12 rows, and cuDNN takes powers of 2; let them have 16
not a node attention: q has gaps between its rows, over which the offsets of packed sequences do not count and cuDNN's do; pass a copy of it made outside the function
not a node attention: rows of q of attention are aligned to 2 bytes, and cuDNN needs 16; pass a copy of it made outside the function
not a node attention_float8: q of attention_float8 has head_dim 24, and cuDNN takes multiples of 16; pad it with zeros
not a node attention_float8: attention_float8 with a single query, which cuDNN does not take; give it two queries
not a node attention_float8: amax_s of attention_float8 is not used, and cuDNN computes it in any case; return or store it, too
not a node attention_float8: cast of what attention_float8 computes, which cuDNN only stores; compute it in a call of its own
not a node attention_float8: divide of amax_s of attention_float8, which cuDNN only stores; compute it in a call of its own
)");
}

}  // namespace
