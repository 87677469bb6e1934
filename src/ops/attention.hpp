// SPDX-License-Identifier: Apache-2.0
// What the functions of attention share: the extents of q, k and v, and the options' operands.
#pragma once
#include "ops/structured.hpp"
#include "stiletto/nn.hpp"

namespace stiletto::detail {

/// q, k and v, which fit together, and the extents that they have in common.
struct AttentionOperands {
  const char* name;  // what the caller called
  const ArrayBody *q, *k, *v;
  bool packed = false, paged = false;
  std::int64_t batch = 0, seq_q = 0, seq_kv = 0;  // of packed sequences and of pages: the most
  std::int64_t heads = 0, heads_kv = 0, head_dim = 0, width = 0;

  Shape out_shape() const;
  Shape stats_shape() const { return {batch, heads, seq_q, 1}; }
};

/// The shapes of q, k and v, and how packed sequences and pages lay them out; not their dtypes.
AttentionOperands attention_operands(const Array& q, const Array& k, const Array& v,
                                     const AttentionOptions& options, const char* name);
/// DTypeError unless k and v have q's dtype.
void check_one_dtype(const AttentionOperands& operands);
void check_options(const AttentionOptions& options, const AttentionOperands& operands);

/// ShapeError for what attention of narrow operands does not take; `instead` is the way out.
void refuse_options(const AttentionOptions& options, const char* name, const char* instead);

/// A float32, or an int64, of one element.
void check_one_element(const Array& array, DType dtype, const char* name, const char* what);
void require_shape(const ArrayBody& body, const Shape& shape, const char* name, const char* what);

/// The options as attributes; appends the operands that may be missing, in their order.
AttentionAttributes append_options(const AttentionOptions& options, std::vector<Array>& operands);
/// The scale as an operand.
Array scale_operand(const AttentionOptions& options, const AttentionOperands& operands);

}  // namespace stiletto::detail
