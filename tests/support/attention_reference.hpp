// SPDX-License-Identifier: Apache-2.0
// Attention by its definition, one query after the other, and its gradients by the chain rule.
#pragma once
#include <optional>

#include "support/tensor.hpp"

namespace support {

/// The elements of one head at one place of a sequence, in (batch, seq, heads, width).
inline const Real* vector_of(const Tensor& t, std::int64_t b, std::int64_t s, std::int64_t h) {
  return t.values.data() + ((b * t.shape[1] + s) * t.shape[2] + h) * t.shape[3];
}
inline Real* vector_of(Tensor& t, std::int64_t b, std::int64_t s, std::int64_t h) {
  return t.values.data() + ((b * t.shape[1] + s) * t.shape[2] + h) * t.shape[3];
}

struct AttentionInput {
  Tensor q, k, v;
  Real scale = 1;
  stiletto::Causal causal = stiletto::Causal::none;
  std::int64_t window = 0;
  std::vector<Real> len_q, len_kv;
  std::optional<Tensor> bias;
  std::vector<Real> sink;
  std::optional<Tensor> kept;  // what dropout multiplies the probabilities by

  std::int64_t batch() const { return q.shape[0]; }
  std::int64_t seq_q() const { return q.shape[1]; }
  std::int64_t heads() const { return q.shape[2]; }
  std::int64_t head_dim() const { return q.shape[3]; }
  std::int64_t seq_kv() const { return k.shape[1]; }
  std::int64_t width() const { return v.shape[3]; }
  std::int64_t kv_head(std::int64_t h) const { return h / (heads() / k.shape[2]); }
  std::int64_t queries(std::int64_t b) const {
    return len_q.empty() ? seq_q() : static_cast<std::int64_t>(len_q[static_cast<std::size_t>(b)]);
  }
  std::int64_t keys(std::int64_t b) const {
    return len_kv.empty() ? seq_kv() : static_cast<std::int64_t>(len_kv[static_cast<std::size_t>(b)]);
  }

  bool sees(std::int64_t b, std::int64_t i, std::int64_t j) const {
    if (i >= queries(b) || j >= keys(b)) return false;
    if (causal == stiletto::Causal::none) return true;
    const std::int64_t bound = causal == stiletto::Causal::top_left ? i : i + keys(b) - queries(b);
    return j <= bound && (window == 0 || j > bound - window);
  }
  Extents bias_at(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) const {
    return {bias->shape[0] == 1 ? 0 : b, bias->shape[1] == 1 ? 0 : h, i, j};
  }
  Real factor(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) const {
    return kept ? kept->at({b, h, i, j}) : 1;
  }
  Real logit(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) const {
    const Real *query = vector_of(q, b, i, h), *key = vector_of(k, b, j, kv_head(h));
    const Real sum = std::inner_product(query, query + head_dim(), key, Real{0});
    return sum * scale + (bias ? bias->at(bias_at(b, h, i, j)) : 0);
  }
};

/// One query's probabilities, and the logarithm of their denominator.
struct AttentionRow {
  std::vector<Real> weights;  // of every key; 0 of one that is not seen
  Real log_sum = -infinity;
  Real sink_weight = 0;
};

inline AttentionRow attention_row(const AttentionInput& in, std::int64_t b, std::int64_t h, std::int64_t i) {
  AttentionRow row;
  row.weights.assign(static_cast<std::size_t>(in.seq_kv()), 0);
  if (i >= in.queries(b)) return row;
  std::vector<Real> logits(row.weights.size(), -infinity);
  Real top = in.sink.empty() ? -infinity : in.sink[static_cast<std::size_t>(h)];
  for (std::int64_t j = 0; j < in.seq_kv(); ++j)
    if (in.sees(b, i, j)) top = std::fmax(top, logits[static_cast<std::size_t>(j)] = in.logit(b, h, i, j));
  if (top == -infinity) return row;
  Real sum = in.sink.empty() ? 0 : std::exp(in.sink[static_cast<std::size_t>(h)] - top);
  row.sink_weight = sum;
  for (std::size_t j = 0; j < logits.size(); ++j) sum += row.weights[j] = std::exp(logits[j] - top);
  for (Real& weight : row.weights) weight /= sum;
  row.sink_weight /= sum;
  row.log_sum = top + std::log(sum);
  return row;
}

template <class Visit>
void each_query(const AttentionInput& in, const Visit& visit) {
  for (std::int64_t b = 0; b < in.batch(); ++b)
    for (std::int64_t h = 0; h < in.heads(); ++h)
      for (std::int64_t i = 0; i < in.seq_q(); ++i) visit(b, h, i);
}

struct AttentionOutput {
  Tensor out, stats;
};

inline AttentionOutput attention_reference(const AttentionInput& in) {
  AttentionOutput result{Tensor(in.q.dtype, {in.batch(), in.seq_q(), in.heads(), in.width()}),
                         Tensor(DType::float32, {in.batch(), in.heads(), in.seq_q(), 1})};
  each_query(in, [&](std::int64_t b, std::int64_t h, std::int64_t i) {
    const AttentionRow row = attention_row(in, b, h, i);
    element(result.stats, {b, h, i, 0}) = row.log_sum;
    Real* const out = vector_of(result.out, b, i, h);
    for (std::int64_t j = 0; j < in.seq_kv(); ++j) {
      const Real weight = row.weights[static_cast<std::size_t>(j)] * in.factor(b, h, i, j);
      if (weight == 0) continue;
      const Real* const value = vector_of(in.v, b, j, in.kv_head(h));
      for (std::int64_t e = 0; e < in.width(); ++e) out[e] += weight * value[e];
    }
  });
  return result;
}

struct AttentionDerivatives {
  Tensor dq, dk, dv, dbias, dsink;
};

inline AttentionDerivatives attention_gradients(const AttentionInput& in, const Tensor& d_out) {
  AttentionDerivatives g{Tensor(in.q.dtype, in.q.shape),
                         Tensor(in.k.dtype, in.k.shape),
                         Tensor(in.v.dtype, in.v.shape),
                         {},
                         Tensor(DType::float32, {in.heads()})};
  if (in.bias) g.dbias = Tensor(in.bias->dtype, in.bias->shape);
  each_query(in, [&](std::int64_t b, std::int64_t h, std::int64_t i) {
    const AttentionRow row = attention_row(in, b, h, i);
    const std::int64_t kv = in.kv_head(h);
    const Real *upstream = vector_of(d_out, b, i, h), *query = vector_of(in.q, b, i, h);
    std::vector<Real> d_weight(row.weights.size());
    Real mean = 0;
    for (std::int64_t j = 0; j < in.seq_kv(); ++j) {
      const auto at = static_cast<std::size_t>(j);
      if (row.weights[at] == 0) continue;
      const Real* const value = vector_of(in.v, b, j, kv);
      Real* const dv = vector_of(g.dv, b, j, kv);
      const Real factor = in.factor(b, h, i, j);
      for (std::int64_t e = 0; e < in.width(); ++e) {
        d_weight[at] += factor * upstream[e] * value[e];
        dv[e] += factor * row.weights[at] * upstream[e];
      }
      mean += row.weights[at] * d_weight[at];
    }
    element(g.dsink, {h}) -= row.sink_weight * mean;
    for (std::int64_t j = 0; j < in.seq_kv(); ++j) {
      const auto at = static_cast<std::size_t>(j);
      if (row.weights[at] == 0) continue;
      const Real d_logit = row.weights[at] * (d_weight[at] - mean);
      if (in.bias) element(g.dbias, in.bias_at(b, h, i, j)) += d_logit;
      const Real* const key = vector_of(in.k, b, j, kv);
      Real *const dq = vector_of(g.dq, b, i, h), *const dk = vector_of(g.dk, b, j, kv);
      for (std::int64_t d = 0; d < in.head_dim(); ++d) {
        dq[d] += in.scale * d_logit * key[d];
        dk[d] += in.scale * d_logit * query[d];
      }
    }
  });
  return g;
}

}  // namespace support
