// SPDX-License-Identifier: Apache-2.0
// Attention and its gradients: what goes in, and what comes out.
#include "ops/attention.hpp"

namespace stiletto {
namespace detail {
namespace {

AttentionOperands floating_operands(const Array& q, const Array& k, const Array& v,
                                    const AttentionOptions& options, const char* name) {
  const AttentionOperands o = attention_operands(q, k, v, options, name);
  check_floating(*o.q, name, "q");
  check_one_dtype(o);
  check_options(options, o);
  return o;
}

StructuredCall forward(const char* name, const Array& q, const Array& k, const Array& v,
                       const AttentionOptions& options) {
  const AttentionOperands o = floating_operands(q, k, v, options, name);
  StructuredCall call;
  call.op = Op::attention;
  call.name = name;
  call.operands = {q, k, v, scale_operand(options, o)};
  call.attributes = append_options(options, call.operands);
  call.results = {{o.out_shape(), order_like(o.out_shape(), *o.q), o.q->dtype},
                  {o.stats_shape(), row_major(o.stats_shape()), DType::float32}};
  return call;
}

ResultSpec no_result() { return {{}, {}, DType::float32, false}; }
ResultSpec like(const ArrayBody& body) { return {body.shape, order_like(body.shape, body), body.dtype}; }

void check_outputs(const AttentionOperands& o, const Array& d_out, const Array& out, const Array& stats) {
  const std::pair<const Array*, const char*> outputs[] = {{&d_out, "d_out"}, {&out, "out"}};
  for (const auto& [array, what] : outputs) {
    const ArrayBody& body = array_operand(*array, o.name, what);
    require_shape(body, o.out_shape(), o.name, what);
    if (body.dtype != o.q->dtype)
      throw_dtype(o.name, what, " is ", body.dtype, " and q ", o.q->dtype, "; they have to be of one dtype");
  }
  const ArrayBody& s = array_operand(stats, o.name, "stats");
  require_shape(s, o.stats_shape(), o.name, "stats");
  if (s.dtype != DType::float32)
    throw_dtype(o.name, "stats is ", s.dtype, "; it has to be the float32 of attention_with_stats");
}

StructuredCall backward(const char* name, const Array& d_out, const Array& q, const Array& k, const Array& v,
                        const Array& out, const Array& stats, const AttentionOptions& options) {
  if (options.paged)
    throw_shape(name, "paged keys have no gradients; gather the pages into k and v of rank 4");
  const AttentionOperands o = floating_operands(q, k, v, options, name);
  check_outputs(o, d_out, out, stats);
  StructuredCall call;
  call.op = Op::attention_backward;
  call.name = name;
  call.operands = {d_out, q, k, v, out, stats, scale_operand(options, o)};
  call.attributes = append_options(options, call.operands);
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
