// SPDX-License-Identifier: Apache-2.0
// The options of attention: which values and arrays fit, and their order among the operands.
#include <cmath>

#include "ops/attention.hpp"

namespace stiletto::detail {
namespace {

void check_lengths(const AttentionOptions& options, const AttentionOperands& o) {
  if (options.seq_len_q.has_value() != options.seq_len_kv.has_value())
    throw_shape(o.name, options.seq_len_q ? "seq_len_q" : "seq_len_kv",
                " is given alone; give both lengths, full ones where a side is not ragged");
  if (!options.seq_len_q) return;
  const std::pair<const Array*, const char*> lengths[] = {{&*options.seq_len_q, "seq_len_q"},
                                                          {&*options.seq_len_kv, "seq_len_kv"}};
  for (const auto& [array, what] : lengths) {
    const ArrayBody& body = array_operand(*array, o.name, what);
    require_shape(body, {o.batch}, o.name, what);
    if (body.dtype != DType::int32)
      throw_dtype(o.name, what, " is ", body.dtype, "; it has to be int32: cast it");
  }
}

void check_bias(const Array& bias, const AttentionOperands& o) {
  const ArrayBody& body = array_operand(bias, o.name, "bias");
  check_floating(body, o.name, "bias");
  const bool fits = body.shape.size() == 4 && (body.shape[0] == 1 || body.shape[0] == o.batch) &&
                    (body.shape[1] == 1 || body.shape[1] == o.heads) && body.shape[2] == o.seq_q &&
                    body.shape[3] == o.seq_kv;
  if (!fits)
    throw_shape(o.name, "bias has shape ", body.shape, "; it has to be (", o.batch, " or 1, ", o.heads,
                " or 1, ", o.seq_q, ", ", o.seq_kv, ")");
}

void check_sink(const Array& sink, const AttentionOperands& o) {
  const ArrayBody& body = array_operand(sink, o.name, "sink");
  require_shape(body, {o.heads}, o.name, "sink");
  if (body.dtype != DType::float32)
    throw_dtype(o.name, "sink is ", body.dtype, "; it has to be float32: cast it");
}

void check_window(const AttentionOptions& options, const char* name) {
  if (!options.window) return;
  if (options.causal == Causal::none)
    throw_shape(name, "a window of ", *options.window,
                " keys without a causal mask; set causal, from whose bound it counts");
  if (*options.window < 1)
    throw_shape(name, "a window of ", *options.window, " keys; it has to be at least 1");
}

void check_dropout(const AttentionDropout& dropout, const char* name) {
  const bool fits = dropout.probability >= 0 && dropout.probability < 1;  // false of NaN
  if (!fits)
    throw_shape(name, "dropout with probability ", dropout.probability,
                "; it has to be at least 0 and less than 1");
  check_one_element(dropout.seed, DType::int64, name, "seed");
  check_one_element(dropout.offset, DType::int64, name, "offset");
}

}  // namespace

void check_one_element(const Array& array, DType dtype, const char* name, const char* what) {
  const ArrayBody& body = array_operand(array, name, what);
  if (body.shape.size() > 1 || (body.shape.size() == 1 && body.shape[0] != 1))
    throw_shape(name, what, " has shape ", body.shape, "; it has to be () or (1)");
  if (body.dtype != dtype) throw_dtype(name, what, " is ", body.dtype, "; it has to be ", dtype, ": cast it");
}

void check_options(const AttentionOptions& options, const AttentionOperands& o) {
  check_lengths(options, o);
  if (options.bias) check_bias(*options.bias, o);
  if (options.sink) check_sink(*options.sink, o);
  check_window(options, o.name);
  if (options.dropout) check_dropout(*options.dropout, o.name);
}

Array scale_operand(const AttentionOptions& options, const AttentionOperands& o) {
  if (!options.scale) return Array(1 / std::sqrt(static_cast<double>(o.head_dim)));
  const ArrayBody& body = ArrayAccess::body(*options.scale, o.name);
  if (body.shape.size() != 0) throw_shape(o.name, "scale has shape ", body.shape, "; it has to be a number");
  if (!body.scalar && body.kind == ArrayBody::Kind::traced)
    throw TraceError(text(operation_text(o.name),
                          ": scale is computed from arrays; it has to be a number, bound by value"));
  return *options.scale;
}

void refuse_options(const AttentionOptions& options, const char* name, const char* instead) {
  const std::pair<bool, const char*> refused[] = {{options.bias.has_value(), "bias"},
                                                  {options.sink.has_value(), "sink"},
                                                  {options.dropout.has_value(), "dropout"},
                                                  {options.packed.has_value(), "packed"},
                                                  {options.paged.has_value(), "paged"}};
  for (const auto& [given, what] : refused)
    if (given) throw_shape(name, "does not take ", what, "; ", instead);
}

AttentionAttributes append_options(const AttentionOptions& options, std::vector<Array>& operands) {
  AttentionAttributes attributes;
  attributes.causal = options.causal;
  attributes.window = options.window.value_or(0);
  const auto append = [&](AttentionOperand operand, const Array& array) {
    attributes.operands |= 1U << static_cast<unsigned>(operand);
    operands.push_back(array);
  };
  if (options.seq_len_q) append(AttentionOperand::seq_len_q, *options.seq_len_q);
  if (options.seq_len_kv) append(AttentionOperand::seq_len_kv, *options.seq_len_kv);
  if (options.bias) append(AttentionOperand::bias, *options.bias);
  if (options.sink) append(AttentionOperand::sink, *options.sink);
  if (options.dropout) {
    attributes.dropout.value = options.dropout->probability;
    append(AttentionOperand::seed, options.dropout->seed);
    append(AttentionOperand::offset, options.dropout->offset);
  }
  if (options.packed) {
    attributes.max_seq_q = options.packed->max_seq_q;
    attributes.max_seq_kv = options.packed->max_seq_kv;
    append(AttentionOperand::offsets_q, options.packed->offsets_q);
    append(AttentionOperand::offsets_k, options.packed->offsets_k);
    append(AttentionOperand::offsets_v, options.packed->offsets_v);
    append(AttentionOperand::offsets_out, options.packed->offsets_out);
  }
  if (options.paged) {
    append(AttentionOperand::table_k, options.paged->table_k);
    append(AttentionOperand::table_v, options.paged->table_v);
  }
  return attributes;
}

}  // namespace stiletto::detail
