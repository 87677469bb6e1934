// SPDX-License-Identifier: Apache-2.0
// Attention over block-scaled q, k and v.
#include "ops/attention.hpp"
#include "ops/blockscaled.hpp"

namespace stiletto {
namespace detail {
namespace {

void check_operands(const BlockscaledArray& q, const BlockscaledArray& k, const BlockscaledArray& v,
                    const char* name) {
  const Shape &a = q.shape(), &b = k.shape(), &c = v.shape();
  const bool ranks = a.size() == 4 && b.size() == 4 && c.size() == 4;
  const bool fit = ranks && a[0] == b[0] && a[0] == c[0] && b[1] == c[1] && b[2] == c[2] && a[3] == b[3] &&
                   (b[1] == 0 ? a[1] == 0 : a[1] % b[1] == 0);
  if (!fit)
    throw_shape(name, "q has shape ", a, ", k ", b, " and v ", c,
                "; they have to be (batch, heads, seq_q, head_dim), (batch, heads_kv, seq_kv, head_dim) and "
                "(batch, heads_kv, seq_kv, width), heads_kv dividing heads");
  if (q.axis() != 3 || k.axis() != 3 || v.axis() != 2)
    throw_shape(name, "q is blocked along axis ", q.axis(), ", k along ", k.axis(), " and v along ", v.axis(),
                "; products sum over blocks, so q and k have to be blocked along axis 3 and v along 2");
  if (q.format() != k.format() || q.format() != v.format())
    throw_dtype(name, "q is ", q.format(), ", k ", k.format(), " and v ", v.format(),
                "; they have to be of one format: quantize them alike");
}

StructuredCall blockscaled_call(const BlockscaledArray& q, const BlockscaledArray& k,
                                const BlockscaledArray& v, const AttentionOptions& options,
                                const char* name) {
  check_operands(q, k, v, name);
  refuse_options(options, name, "leave it out, or dequantize q, k and v and call attention for arrays");
  // As attention for arrays has them: rows before heads.
  const auto rows_first = [](const BlockscaledArray& array) {
    const Shape& s = array.shape();
    return spec({s[0], s[2], s[1], s[3]}, DType::float32);
  };
  const Array rows_q = rows_first(q), rows_k = rows_first(k), rows_v = rows_first(v);
  const AttentionOperands o = attention_operands(rows_q, rows_k, rows_v, options, name);
  check_options(options, o);
  StructuredCall call;
  call.op = Op::attention_blockscaled;
  call.name = name;
  call.operands = {BlockscaledAccess::elements(q), BlockscaledAccess::elements(k),
                   BlockscaledAccess::elements(v), scale_operand(options, o),
                   BlockscaledAccess::scales(q),   BlockscaledAccess::scales(k),
                   BlockscaledAccess::scales(v)};
  call.attributes = append_options(options, call.operands);
  call.results = {{o.out_shape(), row_major(o.out_shape()), DType::float32},
                  {o.stats_shape(), row_major(o.stats_shape()), DType::float32}};
  return call;
}

}  // namespace
}  // namespace detail

Array attention(const BlockscaledArray& q, const BlockscaledArray& k, const BlockscaledArray& v,
                const AttentionOptions& options) {
  return detail::results_of(detail::blockscaled_call(q, k, v, options, "attention"), 1)[0];
}

AttentionResult attention_with_stats(const BlockscaledArray& q, const BlockscaledArray& k,
                                     const BlockscaledArray& v, const AttentionOptions& options) {
  const auto results =
      detail::results_of(detail::blockscaled_call(q, k, v, options, "attention_with_stats"), 2);
  return {results[0], results[1]};
}

}  // namespace stiletto
