// SPDX-License-Identifier: Apache-2.0
// Packed sequences and keys in pages beside the padded arrays that mean the same.
#pragma once
#include "support/attention_trial.hpp"

namespace support {

/// Which sequences there are, and where each lies in the packed arrays, in rows.
struct PackedPlaces {
  std::vector<Real> len_q, len_kv;
  std::vector<std::int64_t> first_q, first_kv;
  std::int64_t max_q = 0, max_kv = 0, rows_q = 0, rows_kv = 0;

  std::int64_t batch() const { return static_cast<std::int64_t>(len_q.size()); }
  /// Without gaps, in order.
  static PackedPlaces dense(const std::vector<Real>& len_q, const std::vector<Real>& len_kv) {
    PackedPlaces p{len_q, len_kv, {}, {}};
    for (std::size_t b = 0; b < len_q.size(); ++b) {
      p.first_q.push_back(p.rows_q), p.first_kv.push_back(p.rows_kv);
      const auto q = static_cast<std::int64_t>(len_q[b]), kv = static_cast<std::int64_t>(len_kv[b]);
      p.rows_q += q, p.rows_kv += kv;
      p.max_q = std::max(p.max_q, q), p.max_kv = std::max(p.max_kv, kv);
    }
    return p;
  }
};

struct PackedSetting {
  DType dtype = DType::float32;
  DType offsets = DType::int32;
  stiletto::Causal causal = stiletto::Causal::none;
  std::int64_t window = 0;
  bool bias = false, sink = false;
  std::int64_t heads = 4, heads_kv = 2, head_dim = 12, width = 20;
};

struct PackedTrial {
  PackedTrial(const PackedSetting& setting, PackedPlaces places, stiletto::Device where = device())
      : s(setting), at(std::move(places)), device_(where), random(81) {
    const auto tensor = [&](const Extents& shape) { return random_tensor(random, s.dtype, shape, {-1, 1}); };
    const std::int64_t batch = at.batch();
    padded.q = tensor({batch, at.max_q, s.heads, s.head_dim});
    padded.k = tensor({batch, at.max_kv, s.heads_kv, s.head_dim});
    padded.v = tensor({batch, at.max_kv, s.heads_kv, s.width});
    d_out = tensor({batch, at.max_q, s.heads, s.width});
    padded.scale = 1 / std::sqrt(static_cast<Real>(s.head_dim));
    padded.causal = s.causal, padded.window = s.window;
    padded.len_q = at.len_q, padded.len_kv = at.len_kv;
    options.causal = s.causal;
    if (s.window != 0) options.window = s.window;
    options.seq_len_q = to_array(Tensor(DType::int32, {batch}, at.len_q), where);
    options.seq_len_kv = to_array(Tensor(DType::int32, {batch}, at.len_kv), where);
    options.packed = stiletto::PackedSequences{offsets(at.first_q, s.heads * s.head_dim),
                                               offsets(at.first_kv, s.heads_kv * s.head_dim),
                                               offsets(at.first_kv, s.heads_kv * s.width),
                                               offsets(at.first_q, s.heads * s.width),
                                               at.max_q,
                                               at.max_kv};
    if (s.bias) {
      padded.bias = tensor({1, s.heads, at.max_q, at.max_kv});
      options.bias = to_array(*padded.bias, where);
    }
    if (s.sink) {
      const Tensor sink = random_tensor(random, DType::float32, {s.heads}, {-1, 1});
      padded.sink = sink.values, options.sink = to_array(sink, where);
    }
  }
  Array offsets(std::vector<std::int64_t> rows, std::int64_t row) const {
    rows.push_back(0);
    return to_array(tabulate(s.offsets, {at.batch() + 1},
                             [&](const Extents& i) {
                               return static_cast<Real>(rows[static_cast<std::size_t>(i[0])] * row);
                             }),
                    device_);
  }
  /// The rows of a padded tensor in their places, and those of `gaps` everywhere else.
  Tensor pack(const Tensor& x, bool of_queries, Tensor gaps) const {
    for_each_index(x.shape, [&](const Extents& i) {
      const auto b = static_cast<std::size_t>(i[0]);
      if (static_cast<Real>(i[1]) >= (of_queries ? at.len_q : at.len_kv)[b]) return;
      element(gaps, {(of_queries ? at.first_q : at.first_kv)[b] + i[1], i[2], i[3]}) = x.at(i);
    });
    return gaps;
  }
  Tensor pack(const Tensor& x, bool of_queries, Real gap) const {
    Tensor gaps(x.dtype, {of_queries ? at.rows_q : at.rows_kv, x.shape[2], x.shape[3]});
    for (Real& value : gaps.values) value = gap;
    return pack(x, of_queries, std::move(gaps));
  }
  Array packed(const Tensor& x, bool of_queries, Real gap = not_a_number) const {
    return to_array(pack(x, of_queries, gap), device_);
  }
  /// q, k and v.
  Arrays operands(Real gap = not_a_number) const {
    return {packed(padded.q, true, gap), packed(padded.k, false, gap), packed(padded.v, false, gap)};
  }

  PackedSetting s;
  PackedPlaces at;
  stiletto::Device device_;
  Random random;
  AttentionInput padded;
  Tensor d_out;
  AttentionOptions options;
};

struct PagedSizes {
  std::int64_t page_size = 16, pages_each = 4, batch = 3, seq_q = 7, heads = 4, heads_kv = 2, head_dim = 16,
               width = 8;
};

/// Keys in rows, and the same in the pages of a pool, in any order.
struct PagedTrial {
  PagedTrial(DType dtype, const PagedSizes& sizes, stiletto::Device where = device(),
             Real elsewhere = not_a_number)
      : z(sizes), device_(where), elsewhere_(elsewhere), random(84) {
    const std::int64_t seq = z.page_size * z.pages_each;
    const auto tensor = [&](const Extents& shape) { return random_tensor(random, dtype, shape, {-1, 1}); };
    input.q = tensor({z.batch, z.seq_q, z.heads, z.head_dim});
    input.k = tensor({z.batch, seq, z.heads_kv, z.head_dim});
    input.v = tensor({z.batch, seq, z.heads_kv, z.width});
    input.scale = 1 / std::sqrt(static_cast<Real>(z.head_dim));
    rows = {to_array(input.q, where), to_array(input.k, where), to_array(input.v, where)};
    paged = {rows[0], pooled(input.k, pages.table_k), pooled(input.v, pages.table_v)};
    set_lengths(lengths(z.seq_q), lengths(seq));
  }
  void set_lengths(const std::vector<Real>& len_q, const std::vector<Real>& len_kv) {
    input.len_q = len_q, input.len_kv = len_kv;
    options.seq_len_q = to_array(Tensor(DType::int32, {z.batch}, len_q), device_);
    options.seq_len_kv = to_array(Tensor(DType::int32, {z.batch}, len_kv), device_);
  }
  /// The longest first, the others at least 1.
  std::vector<Real> lengths(std::int64_t most) {
    std::vector<Real> result{static_cast<Real>(most)};
    while (result.size() < static_cast<std::size_t>(z.batch))
      result.push_back(static_cast<Real>(1 + random.below(most)));
    return result;
  }
  Array pooled(const Tensor& x, Array& table) {
    const std::int64_t pool = z.batch * z.pages_each + 5;
    std::vector<std::int64_t> order(static_cast<std::size_t>(pool));
    std::iota(order.begin(), order.end(), 0);
    for (std::size_t i = order.size(); i-- > 1;)
      std::swap(order[i], order[static_cast<std::size_t>(random.below(static_cast<std::int64_t>(i) + 1))]);
    const auto page_of = [&](std::int64_t b, std::int64_t page) {
      return order[static_cast<std::size_t>(b * z.pages_each + page)];
    };
    table = to_array(tabulate(DType::int32, {z.batch, z.pages_each},
                              [&](const Extents& i) { return static_cast<Real>(page_of(i[0], i[1])); }),
                     device_);
    Tensor all(x.dtype, {pool, z.page_size, x.shape[2], x.shape[3]});
    for (Real& value : all.values) value = elsewhere_;
    for_each_index(x.shape, [&](const Extents& i) {
      element(all, {page_of(i[0], i[1] / z.page_size), i[1] % z.page_size, i[2], i[3]}) = x.at(i);
    });
    return to_array(all, device_);
  }

  PagedSizes z;
  stiletto::Device device_;
  Real elsewhere_;
  Random random;
  AttentionInput input;
  Arrays rows, paged;
  AttentionOptions options;
  stiletto::PagedKeys pages;
};

}  // namespace support
