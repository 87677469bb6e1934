// SPDX-License-Identifier: Apache-2.0
// attention over blocks against the definition, over what the blocks stand for.
#include <gtest/gtest.h>

#include "support/attention_reference.hpp"
#include "support/block_trial.hpp"
#include "support/cases.hpp"

namespace {

using namespace support;
using stiletto::AttentionOptions;
using stiletto::Causal;

/// (batch, heads, rows, width); float8 lies in row-major order, which is how cuDNN wants v.
BlockscaledArray in_rows(const Blocks& blocks) {
  if (blocks.kind.format.element == DType::float4_e2m1) return to_blockscaled(blocks);
  const BlockscaledArray result = BlockscaledArray::from_parts(
      stiletto::empty(dims(blocks.shape), blocks.kind.format.element, device()),
      bytes_array(blocks.tiled_scales()), dims(blocks.shape), blocks.kind.format, blocks.axis);
  stiletto::quantize_into(result, to_array(blocks.values()));
  return result;
}

Tensor rows_first(const Tensor& x) {
  return tabulate(x.dtype, {x.shape[0], x.shape[2], x.shape[1], x.shape[3]},
                  [&](const Extents& i) { return x.at({i[0], i[2], i[1], i[3]}); });
}

struct BlockedSetting {
  std::int64_t heads, heads_kv, queries, keys, head_dim, width;
  std::int64_t window = 0;
  Causal causal = Causal::none;
  bool lengths = false;
};

TEST(BlockscaledAttention, agrees_with_the_definition) {
  Random random(341);
  const BlockedSetting settings[] = {
      {2, 2, 33, 64, 32, 32},
      {4, 2, 130, 96, 64, 144},
      {2, 1, 40, 64, 64, 16, 0, Causal::top_left},
      {2, 2, 40, 64, 32, 16, 9, Causal::bottom_right},
      {2, 2, 64, 64, 32, 32, 0, Causal::none, true},
  };
  for (const BlockKind& kind : block_kinds)
    for (const BlockedSetting& s : settings) {
      const auto blocks = [&](const Extents& shape, int axis) {
        return quantized(random_tensor(random, DType::float32, shape, {-2, 2}), kind, axis);
      };
      const Blocks q = blocks({2, s.heads, s.queries, s.head_dim}, -1),
                   k = blocks({2, s.heads_kv, s.keys, s.head_dim}, -1),
                   v = blocks({2, s.heads_kv, s.keys, s.width}, -2);
      AttentionInput in;
      in.q = rows_first(q.values()), in.k = rows_first(k.values()), in.v = rows_first(v.values());
      in.scale = 1 / std::sqrt(static_cast<Real>(s.head_dim));
      in.causal = s.causal, in.window = s.window;
      AttentionOptions options{.causal = s.causal};
      if (s.window > 0) options.window = s.window;
      if (s.lengths) {
        in.len_q = {64, 17}, in.len_kv = {5, 64};
        const auto lengths = [](const std::vector<Real>& values) {
          Tensor t(DType::int32, {2});
          t.values = values;
          return to_array(t);
        };
        options.seq_len_q = lengths(in.len_q), options.seq_len_kv = lengths(in.len_kv);
      }
      const auto f = [&](const BlockscaledArray& a, const BlockscaledArray& b, const BlockscaledArray& c) {
        const auto r = stiletto::attention_with_stats(a, b, c, options);
        return std::pair(r.out, r.stats);
      };
      const auto [out, stats] = stiletto::jit(f, in_rows(q), in_rows(k), in_rows(v));
      const AttentionOutput wanted = attention_reference(in);
      const Allowance near{.factor = 1e-5L / tolerance(DType::float32)};
      EXPECT_TRUE(agrees(out, wanted.out, near)) << kind.name << describe(q.shape);
      EXPECT_TRUE(agrees(stats, wanted.stats, near)) << kind.name << describe(q.shape);
    }
}

}  // namespace
