// SPDX-License-Identifier: Apache-2.0
// Attention in float8, with a factor for everything that is stored.
#include "core/dtype_info.hpp"
#include "ops/attention.hpp"

namespace stiletto {
namespace detail {
namespace {

constexpr const char* name = "attention_float8";

StructuredCall call_of(const Array& q, const Array& k, const Array& v, const Float8Scales& scales,
                       const AttentionOptions& options) {
  refuse_options(options, name, "leave it out, or cast q, k and v and call attention");
  const AttentionOperands o = attention_operands(q, k, v, options, name);
  if (!is_float8(o.q->dtype))
    throw_dtype(name, "q is ", o.q->dtype,
                "; it has to be float8_e4m3 or float8_e5m2: cast it, or call attention");
  check_one_dtype(o);
  check_options(options, o);
  StructuredCall call;
  call.op = Op::attention_float8;
  call.name = name;
  call.operands = {q, k, v, scale_operand(options, o)};
  const std::pair<const Array*, const char*> factors[] = {
      {&scales.descale_q, "descale_q"}, {&scales.descale_k, "descale_k"}, {&scales.descale_v, "descale_v"},
      {&scales.descale_s, "descale_s"}, {&scales.scale_s, "scale_s"},     {&scales.scale_out, "scale_out"}};
  for (const auto& [array, what] : factors) {
    check_one_element(*array, DType::float32, name, what);
    call.operands.push_back(*array);
  }
  call.attributes = append_options(options, call.operands);
  call.results = {{o.out_shape(), order_like(o.out_shape(), *o.q), o.q->dtype},
                  {o.stats_shape(), row_major(o.stats_shape()), DType::float32},
                  {{1}, row_major({1}), DType::float32},
                  {{1}, row_major({1}), DType::float32}};
  return call;
}

}  // namespace
}  // namespace detail

Float8AttentionResult attention_float8(const Array& q, const Array& k, const Array& v,
                                       const Float8Scales& scales, const AttentionOptions& options) {
  const auto results = detail::results_of(detail::call_of(q, k, v, scales, options), 4);
  return {results[0], results[1], results[2], results[3]};
}

}  // namespace stiletto
