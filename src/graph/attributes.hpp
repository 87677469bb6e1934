// SPDX-License-Identifier: Apache-2.0
// What an operation carries besides its operands: small structs, compared member by member as part of the
// plan key.
#pragma once
#include <bit>
#include <cstdint>
#include <variant>

#include "stiletto/array.hpp"
#include "stiletto/nn.hpp"

namespace stiletto::detail {

/// A double compared by its bits, so that NaN finds its plan again and −0 is not 0.
struct ExactDouble {
  double value = 0;
  bool operator==(const ExactDouble& other) const {
    return std::bit_cast<std::uint64_t>(value) == std::bit_cast<std::uint64_t>(other.value);
  }
};

struct LeafAttributes {  // argument, capture, scalar: position in the trace's list
  std::uint32_t index = 0;
  bool operator==(const LeafAttributes&) const = default;
};
struct ViewAttributes {  // shape and strides are the node's own
  std::int64_t offset = 0;
  bool operator==(const ViewAttributes&) const = default;
};
struct CoefficientAttributes {  // leaky_relu's slope, clipped_relu's bound, elu's alpha
  ExactDouble coefficient;
  bool operator==(const CoefficientAttributes&) const = default;
};
struct ReductionAttributes {  // axes sorted, none negative; softmax has one
  Dims axes;
  bool keep_dims = false;
  bool operator==(const ReductionAttributes&) const = default;
};
struct MatmulAttributes {  // alpha·a·b (+ beta·c, when there is a third operand)
  ExactDouble alpha{1}, beta{0};
  bool operator==(const MatmulAttributes&) const = default;
};
struct PermuteAttributes {
  Dims axes;
  bool operator==(const PermuteAttributes&) const = default;
};

// ---- of structured operations: see Family::structured ----

/// Operands of attention that may be missing; those that are there follow the others in this order.
enum class AttentionOperand : std::uint8_t {
  seq_len_q,
  seq_len_kv,
  bias,
  sink,
  seed,  // of dropout, and offset
  offset,
  offsets_q,  // of packed sequences
  offsets_k,
  offsets_v,
  offsets_out,
  table_k,  // of pages
  table_v
};

/// attention: q, k, v, scale, then the AttentionOperands. Results: out, stats. Packed: q, k and v have
/// rank 3. attention_float8: q, k, v, scale, descale_q, descale_k, descale_v, descale_s, scale_s, scale_out,
/// then lengths. Results: out, stats, amax_s, amax_out. attention_blockscaled: the elements of q, k and v,
/// heads before rows, scale, their scales, then lengths. Results: out, stats. attention_backward: d_out, q,
/// k, v, out, stats, scale, then the same. Results: dq, dk, dv, dbias, dsink.
struct AttentionAttributes {
  Causal causal = Causal::none;
  std::uint32_t operands = 0;  // bit i: the AttentionOperand i is there
  std::int64_t window = 0;     // keys that a query sees at most, up to the causal bound; 0: all
  ExactDouble dropout;         // the probability
  std::int64_t max_seq_q = 0, max_seq_kv = 0;  // of packed sequences
  bool operator==(const AttentionAttributes&) const = default;
  bool has(AttentionOperand operand) const { return (operands >> static_cast<unsigned>(operand) & 1U) != 0; }
};

/// Over the `axes` trailing axes: rms_norm: x, scale, and bias if `bias`. Results: y, inv_rms. layer_norm: x,
/// scale, bias. Results: y, mean, inv_std. rms_norm_backward: d_y, x, scale, inv_rms. Results: dx, dscale,
/// and dbias if `bias`. layer_norm_backward: d_y, x, scale, mean, inv_std. Results: dx, dscale, dbias. Per
/// channel (axis 1), over all others: batch_norm_training: x, scale, bias, running mean and variance.
/// Results: y, mean, inv_std, the next running mean and variance. batch_norm_backward: d_y, x, scale, mean,
/// inv_std. Results: dx, dscale, dbias.
struct NormAttributes {
  std::uint32_t axes = 0;
  bool bias = false;
  ExactDouble epsilon, momentum;
  bool operator==(const NormAttributes&) const = default;
};

/// One value per spatial axis. conv: x, w. conv_backward_data: d_y, w. conv_backward_filter: d_y, x.
struct ConvAttributes {
  Dims stride, dilation, pre_padding, post_padding;
  bool operator==(const ConvAttributes&) const = default;
};

/// max_pool, avg_pool: x.
struct PoolAttributes {
  Dims window, stride, pre_padding, post_padding;
  bool include_padding = false;
  bool operator==(const PoolAttributes&) const = default;
};

/// Elements in blocks of `size` along the last axis, or the second last. quantize: x. Results: elements,
/// scales. dequantize: elements, scales.
struct BlockAttributes {
  DType element = DType::float8_e4m3, scale = DType::float8_e8m0;
  std::uint32_t size = 0;
  bool last = true;
  bool operator==(const BlockAttributes&) const = default;
};

/// part: which further result, from 1 on, of the structured operation that is its operand.
struct PartAttributes {
  std::uint32_t index = 0;
  bool operator==(const PartAttributes&) const = default;
};

using Attributes =
    std::variant<std::monostate, LeafAttributes, ViewAttributes, CoefficientAttributes, ReductionAttributes,
                 MatmulAttributes, PermuteAttributes, AttentionAttributes, NormAttributes, ConvAttributes,
                 PoolAttributes, BlockAttributes, PartAttributes>;

}  // namespace stiletto::detail
