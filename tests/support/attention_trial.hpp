// SPDX-License-Identifier: Apache-2.0
// Calls of attention and its gradients with all their results, on random operands.
#pragma once
#include "support/attention_reference.hpp"
#include "support/compare.hpp"
#include "support/operations.hpp"

namespace support {

using stiletto::AttentionOptions;
using stiletto::CompileOptions;

using Arrays = std::vector<Array>;

template <class F>
Arrays run_all(const F& f, const Arrays& a, Mode mode, const CompileOptions& options = {}) {
  if (mode == Mode::eager) return f(a);
  if (mode == Mode::jit) return stiletto::jit(options, f, a);
  return stiletto::compile(options, f, a)(a);
}

/// out and stats.
inline Arrays forward(const Arrays& qkv, const AttentionOptions& options = {}, Mode mode = Mode::jit) {
  const auto f = [&](const Arrays& a) -> Arrays {
    const auto r = stiletto::attention_with_stats(a[0], a[1], a[2], options);
    return {r.out, r.stats};
  };
  return run_all(f, qkv, mode);
}

/// dq, dk and dv.
inline Arrays backward(const Arrays& qkv, const Array& d_out, const AttentionOptions& options = {},
                       Mode mode = Mode::jit, const CompileOptions& compile_options = {}) {
  const Arrays made = forward(qkv, options, mode);
  const auto f = [&](const Arrays& a) -> Arrays {
    const auto g = stiletto::attention_backward(a[0], a[1], a[2], a[3], a[4], a[5], options);
    return {g.dq, g.dk, g.dv};
  };
  return run_all(f, {d_out, qkv[0], qkv[1], qkv[2], made[0], made[1]}, mode, compile_options);
}

/// q, k and v, and the same as arrays; shapes are (batch, seq, heads, head_dim).
struct Trial {
  AttentionInput input;
  Arrays arrays;
};

inline Trial trial_of(const Tensor& q, const Tensor& k, const Tensor& v, stiletto::Device where = device()) {
  Trial t;
  t.input.q = q, t.input.k = k, t.input.v = v;
  t.input.scale = 1 / std::sqrt(static_cast<Real>(q.shape[3]));
  t.arrays = {to_array(q, where), to_array(k, where), to_array(v, where)};
  return t;
}
inline Trial random_trial(std::uint64_t seed, DType dtype, const Extents& q, const Extents& k,
                          stiletto::Device where = device()) {
  Random random(seed);
  const Range range{-1, 1};
  return trial_of(random_tensor(random, dtype, q, range), random_tensor(random, dtype, k, range),
                  random_tensor(random, dtype, k, range), where);
}
inline Tensor random_gradient(const Trial& t) {
  Random random(7);
  return random_tensor(random, t.input.q.dtype, t.input.q.shape, {-1, 1});
}

/// One query of the first batch entry and head, alone with `keys` keys from the first.
inline AttentionInput one_query(const AttentionInput& in, std::int64_t query, std::int64_t first,
                                std::int64_t keys) {
  const auto part = [](const Tensor& x, std::int64_t begin, std::int64_t count) {
    return sliced(x, {0, begin, 0, 0}, {1, 1, 1, 1}, {1, count, 1, x.shape[3]});
  };
  AttentionInput one;
  one.q = part(in.q, query, 1), one.k = part(in.k, first, keys), one.v = part(in.v, first, keys);
  one.scale = in.scale;
  return one;
}

/// Relative to the largest value.
inline Allowance near(DType dtype, Real bound) { return {.factor = bound / tolerance(dtype)}; }
inline Allowance near_gradient(DType dtype) { return near(dtype, 3e-2L); }
inline Allowance apart(Real bound) { return {.factor = 0, .absolute = bound}; }

}  // namespace support
