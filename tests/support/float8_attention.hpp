// SPDX-License-Identifier: Apache-2.0
// Attention in float8 by its definition: with a factor for everything that is stored, and the probabilities
// rounded between the products.
#pragma once
#include "support/attention_trial.hpp"

namespace support {

struct Float8Factors {
  float descale_q = 1, descale_k = 1, descale_v = 1, descale_s = 1, scale_s = 1, scale_out = 1;
  stiletto::Float8Scales arrays(stiletto::Device where = device()) const {
    const auto array = [&](float value) { return stiletto::from_data<float>({value}, {1}, where); };
    return {array(descale_q), array(descale_k), array(descale_v),
            array(descale_s), array(scale_s),   array(scale_out)};
  }
};

struct Float8Attention {
  AttentionOutput output;  // out before it is rounded
  Real amax_s = 0, amax_out = 0;
};

inline Float8Attention float8_attention_reference(AttentionInput in, const Float8Factors& f) {
  const auto keep_larger = [](Real a, Real b) { return b > a || std::isnan(b) ? b : a; };
  const DType dtype = in.q.dtype;
  for (Real& value : in.q.values) value *= f.descale_q;
  for (Real& value : in.k.values) value *= f.descale_k;
  for (Real& value : in.v.values) value *= f.descale_v;
  Float8Attention wanted{attention_reference(in)};
  for (Real& value : wanted.output.out.values) value = 0;
  each_query(in, [&](std::int64_t b, std::int64_t h, std::int64_t i) {
    const AttentionRow row = attention_row(in, b, h, i);
    Real* const out = vector_of(wanted.output.out, b, i, h);
    for (std::int64_t j = 0; j < in.seq_kv(); ++j) {
      const Real p = row.weights[static_cast<std::size_t>(j)];
      wanted.amax_s = keep_larger(wanted.amax_s, p);
      const Real stored = round_float(p * f.scale_s, dtype) * f.descale_s;
      const Real* const value = vector_of(in.v, b, j, in.kv_head(h));
      for (std::int64_t e = 0; e < in.width(); ++e) out[e] += stored * value[e];
    }
    for (std::int64_t e = 0; e < in.width(); ++e) {
      wanted.amax_out = keep_larger(wanted.amax_out, std::fabs(out[e]));
      out[e] *= f.scale_out;
    }
  });
  return wanted;
}

}  // namespace support
