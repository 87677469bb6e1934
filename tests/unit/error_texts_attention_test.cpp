// SPDX-License-Identifier: Apache-2.0
// The complete text of every error of attention's dropout, packed sequences, pages and float8, of
// src/ops/attention.cpp and the files beside it.
#include <gtest/gtest.h>

#include "unit/error_text.hpp"

namespace {

using namespace stiletto;
using unit::expect_text;

constexpr DType f16 = DType::float16, f32 = DType::float32, i32 = DType::int32, i64 = DType::int64;
constexpr DType f8 = DType::float8_e4m3;

Array array(const Shape& shape, DType dtype = f32) { return zeros(shape, dtype); }

TEST(AttentionErrorTexts, dropout) {
  const Array q = array({2, 3, 4, 8}), one = array({1}, i64);
  const auto call = [&](double probability, const Array& seed, const Array& offset) {
    return [=] { attention(q, q, q, {.dropout = AttentionDropout{probability, seed, offset}}); };
  };
  expect_text(call(1, one, one),
              "ShapeError: attention: dropout with probability 1; it has to be at least 0 and less than 1");
  expect_text(
      call(-0.5, one, one),
      "ShapeError: attention: dropout with probability -0.5; it has to be at least 0 and less than 1");
  expect_text(call(std::numeric_limits<double>::quiet_NaN(), one, one),
              "ShapeError: attention: dropout with probability nan; it has to be at least 0 and less than 1");
  expect_text(call(0.5, array({2}, i64), one),
              "ShapeError: attention: seed has shape (2); it has to be () or (1)");
  expect_text(call(0.5, one, array({1, 1}, i64)),
              "ShapeError: attention: offset has shape (1, 1); it has to be () or (1)");
  expect_text(call(0.5, one, array({1}, i32)),
              "DTypeError: attention: offset is int32; it has to be int64: cast it");
  expect_text(call(0.5, 3, one), "ShapeError: attention: seed is a number; it has to be an array");
  expect_text(
      call(0.5, Array(), one),
      "ArgumentError: attention: the array is an empty handle; make it with zeros, empty, from_data or wrap");
}

/// Options that fit q (10, 4, 8) and k and v (20, 2, 8), to spoil one of.
AttentionOptions packed_options() {
  AttentionOptions options{.seq_len_q = array({3}, i32), .seq_len_kv = array({3}, i32)};
  const Array offsets = array({4}, i64);
  options.packed = PackedSequences{offsets, offsets, offsets, offsets, 5, 7};
  return options;
}

template <class Spoil>
auto packed_call(const Spoil& spoil) {
  return [spoil] {
    AttentionOptions options = packed_options();
    spoil(options);
    attention(array({10, 4, 8}), array({20, 2, 8}), array({20, 2, 8}), options);
  };
}

TEST(AttentionErrorTexts, packed_options) {
  expect_text(packed_call([](AttentionOptions&) {}), "nothing was thrown");
  expect_text(packed_call([](AttentionOptions& o) { o.seq_len_q.reset(), o.seq_len_kv.reset(); }),
              "ShapeError: attention: packed sequences without seq_len_q and seq_len_kv; give both: they say "
              "where a sequence ends");
  expect_text(
      packed_call([](AttentionOptions& o) { o.seq_len_q.reset(); }),
      "ShapeError: attention: seq_len_kv is given alone; give both lengths, full ones where a side is "
      "not ragged");
  expect_text(packed_call([](AttentionOptions& o) { o.seq_len_q = array({4}, i32); }),
              "ShapeError: attention: seq_len_q has shape (4); it has to be (3)");
  expect_text(packed_call([](AttentionOptions& o) { o.packed->offsets_q = array({0}, i64); }),
              "ShapeError: attention: offsets_q has shape (0); it has to be (batch + 1): where each sequence "
              "begins, and where the last one ends");
  expect_text(packed_call([](AttentionOptions& o) { o.packed->offsets_v = array({3}, i64); }),
              "ShapeError: attention: offsets_v has shape (3); it has to be (4)");
  expect_text(packed_call([](AttentionOptions& o) { o.packed->offsets_k = array({4}); }),
              "DTypeError: attention: offsets_k is float32; it has to be int32 or int64: cast it");
  expect_text(
      packed_call([](AttentionOptions& o) { o.packed->offsets_out = array({4}, i32); }),
      "DTypeError: attention: offsets_q is int64 and offsets_out int32; they have to be of one dtype: "
      "cast one");
  expect_text(
      packed_call([](AttentionOptions& o) { o.packed->max_seq_q = 0; }),
      "ShapeError: attention: max_seq_q is 0; it has to be at least 1: the longest sequence's length");
  expect_text(
      packed_call([](AttentionOptions& o) { o.packed->max_seq_kv = -2; }),
      "ShapeError: attention: max_seq_kv is -2; it has to be at least 1: the longest sequence's length");
  expect_text(packed_call([](AttentionOptions& o) { o.bias = array({3, 4, 10, 20}); }),
              "ShapeError: attention: bias has shape (3, 4, 10, 20); it has to be (3 or 1, 4 or 1, 5, 7)");
  expect_text(packed_call([](AttentionOptions& o) { o.paged = PagedKeys{}; }),
              "ShapeError: attention: packed sequences and paged keys together are not computed; pad q, or "
              "gather the pages");
}

TEST(AttentionErrorTexts, packed_operands) {
  const Array q = array({10, 4, 8}), k = array({20, 2, 8});
  const AttentionOptions options = packed_options();
  expect_text(
      [&] { attention(array({2, 5, 4, 8}), k, k, options); },
      "ShapeError: attention: q has shape (2, 5, 4, 8); of packed sequences it has to be (rows, heads, "
      "head_dim): reshape it");
  expect_text([&] { attention(q, k, array({21, 2, 8}), options); },
              "ShapeError: attention: k (20, 2, 8) and v (21, 2, 8) differ in rows or heads; only their last "
              "axes may");
  expect_text([&] { attention(q, array({20, 3, 8}), array({20, 3, 8}), options); },
              "ShapeError: attention: 4 heads of q are no multiple of 3 heads of k and v; each head of k and "
              "v serves as many of q");
  const Array stats = array({3, 4, 5, 1});
  expect_text([&] { attention_backward(array({2, 5, 4, 8}), q, k, k, q, stats, options); },
              "ShapeError: attention_backward: d_out has shape (2, 5, 4, 8); it has to be (10, 4, 8)");
  expect_text([&] { attention_backward(q, q, k, k, q, array({3, 4, 10, 1}), options); },
              "ShapeError: attention_backward: stats has shape (3, 4, 10, 1); it has to be (3, 4, 5, 1)");
  expect_text([&] { attention(q, k, k); },
              "ShapeError: attention: q has shape (10, 4, 8); it has to be (batch, seq, heads, head_dim): "
              "reshape or expand_dims it");
}

TEST(AttentionErrorTexts, pages) {
  const Array q = array({2, 3, 4, 8}), pool = array({9, 16, 2, 8}), table = array({2, 4}, i32);
  const Array lengths = array({2}, i32);
  const auto call = [&](const Array& k, const Array& v, const Array& table_k, const Array& table_v) {
    return [=] {
      attention(q, k, v, {.seq_len_q = lengths, .seq_len_kv = lengths, .paged = PagedKeys{table_k, table_v}});
    };
  };
  expect_text(call(pool, pool, table, table), "nothing was thrown");
  expect_text(
      call(array({9, 16, 8}), pool, table, table),
      "ShapeError: attention: k has shape (9, 16, 8); in pages it has to be (pages, page_size, heads, "
      "head_dim): reshape it");
  expect_text(
      call(pool, array({9, 8, 2, 8}), table, table),
      "ShapeError: attention: k (9, 16, 2, 8) and v (9, 8, 2, 8) differ in pages, page_size or heads; "
      "only their last axes may");
  expect_text(call(pool, pool, array({3, 4}, i32), table),
              "ShapeError: attention: table_k has shape (3, 4); it has to be (2, pages of the longest "
              "sequence)");
  expect_text(call(pool, pool, table, array({2, 5}, i32)),
              "ShapeError: attention: table_v has shape (2, 5); it has to be (2, 4)");
  expect_text(call(pool, pool, table, array({2, 4}, i64)),
              "DTypeError: attention: table_v is int64; it has to be int32: cast it");
  expect_text([&] { attention(q, pool, pool, {.paged = PagedKeys{table, table}}); },
              "ShapeError: attention: paged keys without seq_len_q and seq_len_kv; give both: they say where "
              "a sequence ends");
  const AttentionOptions options{
      .seq_len_q = lengths, .seq_len_kv = lengths, .paged = PagedKeys{table, table}};
  AttentionOptions biased = options;
  biased.bias = array({2, 4, 3, 16});
  expect_text([&] { attention(q, pool, pool, biased); },
              "ShapeError: attention: bias has shape (2, 4, 3, 16); it has to be (2 or 1, 4 or 1, 3, 64)");
  expect_text(
      [&] { attention_backward(q, q, pool, pool, q, array({2, 4, 3, 1}), options); },
      "ShapeError: attention_backward: paged keys have no gradients; gather the pages into k and v of "
      "rank 4");
}

TEST(AttentionErrorTexts, float8) {
  const Array q = array({2, 3, 4, 16}, f8), one = array({1});
  const Float8Scales scales{one, one, one, one, one, one};
  const auto refused = [&](const AttentionOptions& options, const std::string& what) {
    expect_text([&] { attention_float8(q, q, q, scales, options); },
                "ShapeError: attention_float8: does not take " + what +
                    "; leave it out, or cast q, k and v and call attention");
  };
  refused({.bias = array({2, 4, 3, 3})}, "bias");
  refused({.sink = array({4})}, "sink");
  refused({.dropout = AttentionDropout{}}, "dropout");
  refused({.packed = PackedSequences{}}, "packed");
  refused({.paged = PagedKeys{}}, "paged");
  expect_text([&] { attention_float8(array({2, 3, 4, 16}, f16), q, q, scales); },
              "DTypeError: attention_float8: q is float16; it has to be float8_e4m3 or float8_e5m2: cast it, "
              "or call attention");
  expect_text([&] { attention_float8(q, q, array({2, 3, 4, 16}, DType::float8_e5m2), scales); },
              "DTypeError: attention_float8: q is float8_e4m3 and v float8_e5m2; they have to be of one "
              "dtype: cast one");
  Float8Scales wrong = scales;
  wrong.descale_s = array({4});
  expect_text([&] { attention_float8(q, q, q, wrong); },
              "ShapeError: attention_float8: descale_s has shape (4); it has to be () or (1)");
  wrong = scales;
  wrong.scale_out = array({1}, f16);
  expect_text([&] { attention_float8(q, q, q, wrong); },
              "DTypeError: attention_float8: scale_out is float16; it has to be float32: cast it");
  expect_text([&] { attention(q, q, q); },
              "DTypeError: attention: q is float8_e4m3; it has to be float16, bfloat16, float32 or float64: "
              "cast it first");
}

}  // namespace
