// SPDX-License-Identifier: Apache-2.0
// Attention in float8 by its definition: with a factor for everything that is stored, and what lies between
// the products rounded.
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

/// What is rounded to float8 between the products: on the CPU the probabilities; by cuDNN what they are
/// before they are divided by their sum, so that the largest of a row is 1.
enum class Float8Between : std::uint8_t { probabilities, exponentials };

struct Float8Attention {
  AttentionOutput output;  // out before it is rounded
  Real amax_s = 0, amax_out = 0;
  /// Per element of out: how far roundings of what lies between and of out itself can take it from the exact
  /// one, and how far they do on average if each is as likely as another (the root of the mean square).
  std::vector<Real> most = {}, likely = {};

  Real largest_out() const {
    Real largest = 0;
    for (const Real value : output.out.values) largest = std::fmax(largest, std::fabs(value));
    return largest;
  }
};

/// Half the distance between the float8 around x, at most.
inline Real half_step_at(Real x, DType dtype) {
  return std::fmax(std::ldexp(std::fabs(x), -1 - format_of(dtype).mantissa_bits), half_step(dtype));
}

/// Exact: nothing is rounded, and most and likely are those of what would be.
inline Float8Attention float8_attention_reference(AttentionInput in, const Float8Factors& f,
                                                  Float8Between between = Float8Between::probabilities,
                                                  bool exact = false) {
  const auto keep_larger = [](Real a, Real b) { return b > a || std::isnan(b) ? b : a; };
  const DType dtype = in.q.dtype;
  for (Real& value : in.q.values) value *= f.descale_q;
  for (Real& value : in.k.values) value *= f.descale_k;
  for (Real& value : in.v.values) value *= f.descale_v;
  Float8Attention wanted{attention_reference(in)};
  for (Real& value : wanted.output.out.values) value = 0;
  wanted.most.resize(wanted.output.out.size()), wanted.likely.resize(wanted.output.out.size());
  each_query(in, [&](std::int64_t b, std::int64_t h, std::int64_t i) {
    const AttentionRow row = attention_row(in, b, h, i);
    Real* const out = vector_of(wanted.output.out, b, i, h);
    const std::ptrdiff_t at = out - wanted.output.out.values.data();
    Real *const most = wanted.most.data() + at, *const likely = wanted.likely.data() + at;
    const Real largest = *std::max_element(row.weights.begin(), row.weights.end());
    const Real sum = between == Float8Between::exponentials && largest > 0 ? 1 / largest : 1;
    for (std::int64_t j = 0; j < in.seq_kv(); ++j) {
      const Real p = row.weights[static_cast<std::size_t>(j)];
      wanted.amax_s = keep_larger(wanted.amax_s, p);
      const Real scaled = p * sum * f.scale_s;
      const Real stored = exact ? scaled : round_float(scaled, dtype);
      const Real error = p == 0 ? 0 : half_step_at(scaled, dtype) * f.descale_s / sum;
      const Real* const value = vector_of(in.v, b, j, in.kv_head(h));
      for (std::int64_t e = 0; e < in.width(); ++e) {
        out[e] += stored * f.descale_s / sum * value[e];
        const Real off = error * std::fabs(value[e]) * f.scale_out;
        most[e] += off, likely[e] += off * off / 3;
      }
    }
    for (std::int64_t e = 0; e < in.width(); ++e) {
      wanted.amax_out = keep_larger(wanted.amax_out, std::fabs(out[e]));
      out[e] *= f.scale_out;
      const Real own = half_step_at(std::fabs(out[e]) + most[e], dtype);
      most[e] += own, likely[e] = std::sqrt(likely[e] + own * own / 3);
    }
  });
  return wanted;
}

/// Whether roundings explain how far out is from the exact one: of each element the worst, of all of them the
/// average.
inline testing::AssertionResult rounds_to(const Tensor& out, const Float8Attention& exact) {
  Real off = 0, likely = 0;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const Real apart = std::fabs(out.values[i] - exact.output.out.values[i]);
    if (!(apart <= exact.most[i]))
      return testing::AssertionFailure()
             << "element " << i << ": " << static_cast<double>(out.values[i]) << ", "
             << static_cast<double>(apart / exact.most[i]) << " times what roundings can do from "
             << static_cast<double>(exact.output.out.values[i]);
    off += apart * apart, likely += exact.likely[i] * exact.likely[i];
  }
  if (off > likely)
    return testing::AssertionFailure() << "off by " << static_cast<double>(std::sqrt(off / likely))
                                       << " times what roundings do on average";
  return testing::AssertionSuccess() << "off by " << static_cast<double>(std::sqrt(off / likely))
                                     << " times what roundings do on average";
}

}  // namespace support
