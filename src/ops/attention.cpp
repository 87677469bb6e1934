// SPDX-License-Identifier: Apache-2.0
// Attention: which operands fit together, and what comes out.
#include <cmath>

#include "ops/structured.hpp"
#include "stiletto/nn.hpp"

namespace stiletto {
namespace detail {
namespace {

/// The operands that both directions share.
struct Operands {
  const ArrayBody *q, *k, *v;
  std::int64_t batch = 0, seq_q = 0, seq_kv = 0, heads = 0, heads_kv = 0, head_dim = 0, width = 0;

  Operands(const Array& q_array, const Array& k_array, const Array& v_array, const char* name)
      : q(&array_operand(q_array, name, "q")),
        k(&array_operand(k_array, name, "k")),
        v(&array_operand(v_array, name, "v")) {
    const char* const names[] = {"q", "k", "v"};
    const ArrayBody* const bodies[] = {q, k, v};
    for (int i = 0; i < 3; ++i) {
      if (bodies[i]->shape.size() != 4)
        throw_shape(name, names[i], " has shape ", bodies[i]->shape,
                    "; it has to be (batch, seq, heads, head_dim): reshape or expand_dims it");
      check_floating(*bodies[i], name, names[i]);
      if (bodies[i]->dtype != q->dtype)
        throw_dtype(name, "q is ", q->dtype, " and ", names[i], " ", bodies[i]->dtype,
                    "; they have to be of one dtype: cast one");
    }
    batch = q->shape[0], seq_q = q->shape[1], heads = q->shape[2], head_dim = q->shape[3];
    seq_kv = k->shape[1], heads_kv = k->shape[2], width = v->shape[3];
    check(name);
  }

  Shape out_shape() const { return {batch, seq_q, heads, width}; }
  Shape stats_shape() const { return {batch, heads, seq_q, 1}; }

 private:
  void check(const char* name) const {
    if (k->shape[0] != batch || v->shape[0] != batch)
      throw_shape(name, "the batches of q ", q->shape, ", k ", k->shape, " and v ", v->shape,
                  " differ; they have to be equal");
    if (k->shape[3] != head_dim)
      throw_shape(name, "head_dim of q ", q->shape, " and k ", k->shape, " differ; they have to be equal");
    if (head_dim == 0) throw_shape(name, "head_dim is 0 in q ", q->shape, "; it has to be at least 1");
    if (v->shape[1] != seq_kv || v->shape[2] != heads_kv)
      throw_shape(name, "k ", k->shape, " and v ", v->shape,
                  " differ in seq or heads; only their last axes may");
    if (heads_kv == 0 ? heads != 0 : heads % heads_kv != 0)
      throw_shape(name, heads, " heads of q are no multiple of ", heads_kv,
                  " heads of k and v; each head of k and v serves as many of q");
  }
};

void require_shape(const ArrayBody& body, const Shape& shape, const char* name, const char* what) {
  if (body.shape != shape) throw_shape(name, what, " has shape ", body.shape, "; it has to be ", shape);
}

void check_lengths(const AttentionOptions& options, const Operands& o, const char* name) {
  if (options.seq_len_q.has_value() != options.seq_len_kv.has_value())
    throw_shape(name, options.seq_len_q ? "seq_len_q" : "seq_len_kv",
                " is given alone; give both lengths, full ones where a side is not ragged");
  if (!options.seq_len_q) return;
  const std::pair<const Array*, const char*> lengths[] = {{&*options.seq_len_q, "seq_len_q"},
                                                          {&*options.seq_len_kv, "seq_len_kv"}};
  for (const auto& [array, what] : lengths) {
    const ArrayBody& body = array_operand(*array, name, what);
    require_shape(body, {o.batch}, name, what);
    if (body.dtype != DType::int32)
      throw_dtype(name, what, " is ", body.dtype, "; it has to be int32: cast it");
  }
}

void check_bias(const Array& bias, const Operands& o, const char* name) {
  const ArrayBody& body = array_operand(bias, name, "bias");
  check_floating(body, name, "bias");
  const bool fits = body.shape.size() == 4 && (body.shape[0] == 1 || body.shape[0] == o.batch) &&
                    (body.shape[1] == 1 || body.shape[1] == o.heads) && body.shape[2] == o.seq_q &&
                    body.shape[3] == o.seq_kv;
  if (!fits)
    throw_shape(name, "bias has shape ", body.shape, "; it has to be (", o.batch, " or 1, ", o.heads,
                " or 1, ", o.seq_q, ", ", o.seq_kv, ")");
}

void check_options(const AttentionOptions& options, const Operands& o, const char* name) {
  check_lengths(options, o, name);
  if (options.bias) check_bias(*options.bias, o, name);
  if (options.sink) {
    const ArrayBody& body = array_operand(*options.sink, name, "sink");
    require_shape(body, {o.heads}, name, "sink");
    if (body.dtype != DType::float32)
      throw_dtype(name, "sink is ", body.dtype, "; it has to be float32: cast it");
  }
  if (options.window && options.causal == Causal::none)
    throw_shape(name, "a window of ", *options.window,
                " keys without a causal mask; set causal, from whose bound it counts");
  if (options.window && *options.window < 1)
    throw_shape(name, "a window of ", *options.window, " keys; it has to be at least 1");
}

Array scale_of(const AttentionOptions& options, const Operands& o, const char* name) {
  if (!options.scale) return Array(1 / std::sqrt(static_cast<double>(o.head_dim)));
  const ArrayBody& body = ArrayAccess::body(*options.scale, name);
  if (body.shape.size() != 0) throw_shape(name, "scale has shape ", body.shape, "; it has to be a number");
  if (!body.scalar && body.kind == ArrayBody::Kind::traced)
    throw TraceError(
        text(operation_text(name), ": scale is computed from arrays; it has to be a number, bound by value"));
  return *options.scale;
}

/// The scale and the operands that may be missing, in their order.
AttentionAttributes append_options(const AttentionOptions& options, const Operands& o, const char* name,
                                   std::vector<Array>& operands) {
  AttentionAttributes attributes;
  attributes.causal = options.causal;
  attributes.window = options.window.value_or(0);
  operands.push_back(scale_of(options, o, name));
  const std::pair<AttentionOperand, const std::optional<Array>*> optional[] = {
      {AttentionOperand::seq_len_q, &options.seq_len_q},
      {AttentionOperand::seq_len_kv, &options.seq_len_kv},
      {AttentionOperand::bias, &options.bias},
      {AttentionOperand::sink, &options.sink}};
  for (const auto& [operand, array] : optional) {
    if (!*array) continue;
    attributes.operands |= 1U << static_cast<unsigned>(operand);
    operands.push_back(**array);
  }
  return attributes;
}

StructuredCall forward(const char* name, const Array& q, const Array& k, const Array& v,
                       const AttentionOptions& options) {
  const Operands o(q, k, v, name);
  check_options(options, o, name);
  StructuredCall call;
  call.op = Op::attention;
  call.name = name;
  call.operands = {q, k, v};
  call.attributes = append_options(options, o, name, call.operands);
  call.results = {{o.out_shape(), order_like(o.out_shape(), *o.q), o.q->dtype},
                  {o.stats_shape(), row_major(o.stats_shape()), DType::float32}};
  return call;
}

ResultSpec no_result() { return {{}, {}, DType::float32, false}; }
ResultSpec like(const ArrayBody& body) { return {body.shape, order_like(body.shape, body), body.dtype}; }

StructuredCall backward(const char* name, const Array& d_out, const Array& q, const Array& k, const Array& v,
                        const Array& out, const Array& stats, const AttentionOptions& options) {
  const Operands o(q, k, v, name);
  check_options(options, o, name);
  const std::pair<const Array*, const char*> outputs[] = {{&d_out, "d_out"}, {&out, "out"}};
  for (const auto& [array, what] : outputs) {
    const ArrayBody& body = array_operand(*array, name, what);
    require_shape(body, o.out_shape(), name, what);
    if (body.dtype != o.q->dtype)
      throw_dtype(name, what, " is ", body.dtype, " and q ", o.q->dtype, "; they have to be of one dtype");
  }
  const ArrayBody& s = array_operand(stats, name, "stats");
  require_shape(s, o.stats_shape(), name, "stats");
  if (s.dtype != DType::float32)
    throw_dtype(name, "stats is ", s.dtype, "; it has to be the float32 of attention_with_stats");
  StructuredCall call;
  call.op = Op::attention_backward;
  call.name = name;
  call.operands = {d_out, q, k, v, out, stats};
  call.attributes = append_options(options, o, name, call.operands);
  call.results = {like(*o.q), like(*o.k), like(*o.v)};
  call.results.push_back(options.bias ? like(*ArrayAccess::body_or_null(*options.bias)) : no_result());
  call.results.push_back(options.sink ? ResultSpec{{o.heads}, row_major({o.heads}), DType::float32}
                                      : no_result());
  return call;
}

}  // namespace
}  // namespace detail

Array attention(const Array& q, const Array& k, const Array& v, const AttentionOptions& options) {
  return detail::results_of(detail::forward("attention", q, k, v, options), 1)[0];
}
AttentionResult attention_with_stats(const Array& q, const Array& k, const Array& v,
                                     const AttentionOptions& options) {
  auto results = detail::results_of(detail::forward("attention_with_stats", q, k, v, options), 2);
  return {results[0], results[1]};
}
void attention_into(const Array& out, const Array& q, const Array& k, const Array& v,
                    const AttentionOptions& options) {
  detail::write_results(detail::forward("attention_into", q, k, v, options), {out});
}
void attention_with_stats_into(const Array& out, const Array& stats, const Array& q, const Array& k,
                               const Array& v, const AttentionOptions& options) {
  detail::write_results(detail::forward("attention_with_stats_into", q, k, v, options), {out, stats});
}

AttentionGradients attention_backward(const Array& d_out, const Array& q, const Array& k, const Array& v,
                                      const Array& out, const Array& stats, const AttentionOptions& options) {
  const auto call = detail::backward("attention_backward", d_out, q, k, v, out, stats, options);
  const auto results = detail::results_of(call, call.results.size());
  return {results[0], results[1], results[2], results[3], results[4]};
}
void attention_backward_into(const Array& dq, const Array& dk, const Array& dv, const Array& d_out,
                             const Array& q, const Array& k, const Array& v, const Array& out,
                             const Array& stats, const AttentionOptions& options) {
  const auto call = detail::backward("attention_backward_into", d_out, q, k, v, out, stats, options);
  detail::write_results(call, {dq, dk, dv});
}

}  // namespace stiletto
