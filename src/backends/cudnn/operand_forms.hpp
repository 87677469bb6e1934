// SPDX-License-Identifier: Apache-2.0
// How cuDNN wants the operands of structured operations: attention as (batch, heads, seq, head_dim), norms as
// matrices, one-dimensional images as images of height 1. Nothing is moved: dimensions are permuted, merged
// and added in how memory is described.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "backends/cudnn/engine_graph.hpp"
#include "compiler/canonical.hpp"

namespace stiletto::detail::cudnn {

enum class OperandForm : std::uint8_t {
  number,       // on the host
  element,      // one, in memory
  sequence,     // (batch, seq, heads, width), declared as (batch, heads, seq, width); pages as batches
  packed_rows,  // (rows, heads, width): (batch, heads, longest sequence, width) with offsets
  heads_first,  // (batch, heads, rows, width), as it is
  tiles,        // the scales of blocks of such matrices, as they are
  scores,       // (batch, heads, seq_q, seq_kv or 1), as it is
  lengths,      // (batch), and offsets: a column of four dimensions
  table,        // (batch, pages): the first and the third of four dimensions
  heads,        // (heads): the second of four dimensions
  matrix,       // what a norm normalises: (rows, width, 1, 1)
  row,          // a norm's scale and bias: (1, width, 1, 1)
  row_numbers,  // a norm's statistics: (rows, 1, 1, 1)
  image,        // (batch, channels, spatial…), and filters; two spatial dimensions at least
  channels      // one number per channel: (1, channels, 1…)
};

/// Of operand `i`, and of result `i`. The attributes say which optional operands of attention are there.
OperandForm operand_form(const Value& value, std::size_t i);
OperandForm result_form(const Value& value, std::size_t i);
/// As the public functions call them.
std::string operand_name(const Value& value, std::size_t i);
std::string result_name(Op op, std::size_t i);

/// Which operand attention's optional one is.
std::size_t index_of(const Value& value, AttentionOperand operand);
/// Where the sequences of a packed operand or result begin, and how long the longest is.
struct PackedForm {
  AttentionOperand offsets;
  std::int64_t longest;
};
PackedForm packed_operand(const Value& value, std::size_t i);
PackedForm packed_result(const Value& value, std::size_t i);

/// Of attention: how many queries and keys one batch entry has at most.
struct SequenceLengths {
  std::int64_t queries, keys;
};
SequenceLengths longest_sequences(const CanonicalGraph& graph, const Value& value);

/// Which dimension lies innermost in images: channels or the last spatial one. Dimensions of 1 get strides
/// that fit it.
enum class ImageOrder : std::uint8_t { channels_first, channels_last };

/// Axes of the canonical graph that are one dimension of the engine's tensors, outermost first.
using AxisGroup = std::vector<int>;

/// The axes of an operand or result, of which `layout` has one per dimension, in that form. `normalised`:
/// trailing dimensions that a norm spans.
std::vector<AxisGroup> grouped(const AxisList& layout, OperandForm form, std::size_t normalised);

/// Memory over those groups. Throws NotLowered where a group's axes do not merge, where the tensor repeats
/// along one, or is walked backwards.
EngineTensor described(const Tensor& tensor, const std::vector<AxisGroup>& groups,
                       const std::vector<std::int64_t>& extents, OperandForm form, ImageOrder order);

/// The order of the first of these images that shows one.
ImageOrder order_of(const std::vector<const Tensor*>& tensors, const std::vector<AxisList>& layouts,
                    const std::vector<std::int64_t>& extents);

/// Strides of packed memory in that order.
std::vector<std::int64_t> packed(const std::vector<std::int64_t>& dims, OperandForm form, ImageOrder order);

}  // namespace stiletto::detail::cudnn
