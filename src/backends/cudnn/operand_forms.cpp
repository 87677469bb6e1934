// SPDX-License-Identifier: Apache-2.0
#include "backends/cudnn/operand_forms.hpp"

#include <algorithm>
#include <numeric>

#include "backends/cudnn/lower.hpp"
#include "core/dtype_info.hpp"
#include "core/text.hpp"
#include "graph/op_table.hpp"
#include "stiletto/error.hpp"

namespace stiletto::detail::cudnn {
namespace {

using Dims = std::vector<std::int64_t>;
using enum OperandForm;
using enum AttentionOperand;

struct Named {
  const char* name;
  OperandForm form;
  AttentionOperand rows = offsets_q;  // of a sequence, where those are packed
};
using NamedList = std::vector<Named>;

NamedList named_operands(Op op) {
  switch (op) {
    case Op::attention:
      return {{"q", sequence, offsets_q},
              {"k", sequence, offsets_k},
              {"v", sequence, offsets_v},
              {"scale", number}};
    case Op::attention_float8:
      return {{"q", sequence},        {"k", sequence},        {"v", sequence},        {"scale", number},
              {"descale_q", element}, {"descale_k", element}, {"descale_v", element}, {"descale_s", element},
              {"scale_s", element},   {"scale_out", element}};
    case Op::attention_blockscaled:
      return {{"q", heads_first},        {"k", heads_first},         {"v", heads_first},
              {"scale", number},         {"the scales of q", tiles}, {"the scales of k", tiles},
              {"the scales of v", tiles}};
    case Op::attention_backward:
      return {{"d_out", sequence, offsets_out},
              {"q", sequence, offsets_q},
              {"k", sequence, offsets_k},
              {"v", sequence, offsets_v},
              {"out", sequence, offsets_out},
              {"stats", scores},
              {"scale", number}};
    case Op::rms_norm:
    case Op::layer_norm:
      return {{"x", matrix}, {"scale", row}, {"bias", row}};
    case Op::rms_norm_backward:
      return {{"d_y", matrix}, {"x", matrix}, {"scale", row}, {"inv_rms", row_numbers}};
    case Op::layer_norm_backward:
      return {
          {"d_y", matrix}, {"x", matrix}, {"scale", row}, {"mean", row_numbers}, {"inv_std", row_numbers}};
    case Op::batch_norm_training:
      return {{"x", image},
              {"scale", channels},
              {"bias", channels},
              {"running_mean", channels},
              {"running_variance", channels}};
    case Op::batch_norm_backward:
      return {{"d_y", image}, {"x", image}, {"scale", channels}, {"mean", channels}, {"inv_std", channels}};
    case Op::conv_backward_data:
      return {{"d_y", image}, {"w", image}};
    case Op::conv_backward_filter:
      return {{"d_y", image}, {"x", image}};
    default:
      return {{"x", image}, {"w", image}};
  }
}

NamedList named_results(Op op) {
  switch (op) {
    case Op::attention:
      return {{"out", sequence, offsets_out}, {"stats", scores}};
    case Op::attention_blockscaled:
      return {{"out", sequence}, {"stats", scores}};
    case Op::attention_float8:
      return {{"out", sequence}, {"stats", scores}, {"amax_s", element}, {"amax_out", element}};
    case Op::attention_backward:
      return {{"dq", sequence, offsets_q},
              {"dk", sequence, offsets_k},
              {"dv", sequence, offsets_v},
              {"dbias", scores},
              {"dsink", heads}};
    case Op::rms_norm:
      return {{"y", matrix}, {"inv_rms", row_numbers}};
    case Op::layer_norm:
      return {{"y", matrix}, {"mean", row_numbers}, {"inv_std", row_numbers}};
    case Op::rms_norm_backward:
    case Op::layer_norm_backward:
      return {{"dx", matrix}, {"dscale", row}, {"dbias", row}};
    case Op::batch_norm_training:
      return {{"y", image},
              {"mean", channels},
              {"inv_std", channels},
              {"running_mean", channels},
              {"running_variance", channels}};
    case Op::batch_norm_backward:
      return {{"dx", image}, {"dscale", channels}, {"dbias", channels}};
    default:
      return {{"its result", image}};
  }
}

/// The operands of attention that may be missing, in order.
constexpr Named optional_operands[] = {
    {"seq_len_q", lengths}, {"seq_len_kv", lengths},  {"bias", scores},       {"sink", heads},
    {"seed", element},      {"offset", element},      {"offsets_q", lengths}, {"offsets_k", lengths},
    {"offsets_v", lengths}, {"offsets_out", lengths}, {"table_k", table},     {"table_v", table}};

bool has(const Value& value, AttentionOperand operand) {
  const auto* attention = std::get_if<AttentionAttributes>(&value.attributes);
  return attention != nullptr && attention->has(operand);
}

Named in_its_form(const Value& value, Named named) {
  if (named.form == sequence && has(value, offsets_q)) named.form = packed_rows;
  return named;
}

Named operand_of(const Value& value, std::size_t i) {
  const NamedList required = named_operands(value.op);
  if (i < required.size()) return in_its_form(value, required[i]);
  const auto* attention = std::get_if<AttentionAttributes>(&value.attributes);
  std::size_t next = required.size();
  for (std::size_t k = 0; attention != nullptr && k < std::size(optional_operands); ++k)
    if (attention->has(static_cast<AttentionOperand>(k)) && next++ == i) return optional_operands[k];
  throw InternalError(text(name_of(value.op), " with an operand ", i, "; please report this"));
}

/// Dimensions from the outermost in memory to the innermost, where all of them are packed.
std::vector<std::size_t> memory_order(std::size_t rank, OperandForm form, ImageOrder order) {
  if (form == sequence || form == packed_rows) return {0, 2, 1, 3};
  std::vector<std::size_t> dims(rank);
  std::iota(dims.begin(), dims.end(), 0U);
  const bool norm = form == matrix || form == row || form == row_numbers;
  const bool last = norm || order == ImageOrder::channels_last;
  if (last && (norm || form == image || form == channels))
    std::rotate(dims.begin() + 1, dims.begin() + 2, dims.end());
  return dims;
}

/// Dimensions of 1 get the strides that packing would give.
void place_ones(EngineTensor& t, const std::vector<std::size_t>& order) {
  std::int64_t reach = 1;
  for (std::size_t i = order.size(); i-- > 0;) {
    const std::size_t d = order[i];
    if (t.dims[d] == 1) t.strides[d] = reach;
    reach = std::max(reach, t.strides[d] * t.dims[d]);
  }
}

AxisGroup single(int axis) { return axis < 0 ? AxisGroup{} : AxisGroup{axis}; }

AxisGroup axes_between(const AxisList& layout, std::size_t first, std::size_t last) {
  AxisGroup group;
  for (std::size_t i = first; i < last; ++i)
    if (layout[i] >= 0) group.push_back(layout[i]);
  return group;
}

/// A group's dimension of a tensor that has all of its axes.
struct Merged {
  std::int64_t extent = 1, stride = 1;
};
Merged merged(const Tensor& tensor, const AxisGroup& group, const Dims& extents) {
  Merged result;
  for (std::size_t i = group.size(); i-- > 0;) {
    const auto axis = static_cast<std::size_t>(group[i]);
    const std::int64_t stride = tensor.strides[axis];
    if (stride < 0)
      throw NotLowered{text(tensor.name,
                            " is walked backwards, and cuDNN takes no negative strides; pass a copy of it "
                            "made outside the function")};
    if (result.extent == 1) result.stride = stride;
    if (result.extent != 1 && stride != result.stride * result.extent)
      throw NotLowered{
          text(tensor.name,
               " has gaps between axes that are one to cuDNN; pass a copy of it made outside the function")};
    result.extent *= extents[axis];
  }
  return result;
}

/// How many of a group's axes the tensor has.
std::size_t axes_there(const Tensor& tensor, const AxisGroup& group) {
  return static_cast<std::size_t>(std::count_if(group.begin(), group.end(), [&](int axis) {
    return tensor.axes.test(static_cast<std::size_t>(axis)) &&
           tensor.strides[static_cast<std::size_t>(axis)] != 0;
  }));
}

}  // namespace

OperandForm operand_form(const Value& value, std::size_t i) { return operand_of(value, i).form; }
OperandForm result_form(const Value& value, std::size_t i) {
  return in_its_form(value, named_results(value.op)[i]).form;
}
std::string operand_name(const Value& value, std::size_t i) { return operand_of(value, i).name; }
std::string result_name(Op op, std::size_t i) { return named_results(op)[i].name; }

std::size_t index_of(const Value& value, AttentionOperand operand) {
  std::size_t index = named_operands(value.op).size();
  for (std::size_t k = 0; k < static_cast<std::size_t>(operand); ++k)
    if (has(value, static_cast<AttentionOperand>(k))) ++index;
  return index;
}

namespace {
PackedForm packed_form(const Value& value, const Named& named) {
  const auto& attention = std::get<AttentionAttributes>(value.attributes);
  const bool of_queries = named.rows == offsets_q || named.rows == offsets_out;
  return {named.rows, of_queries ? attention.max_seq_q : attention.max_seq_kv};
}
}  // namespace

PackedForm packed_operand(const Value& value, std::size_t i) {
  return packed_form(value, operand_of(value, i));
}
PackedForm packed_result(const Value& value, std::size_t i) {
  return packed_form(value, named_results(value.op)[i]);
}

SequenceLengths longest_sequences(const CanonicalGraph& graph, const Value& value) {
  const auto& attention = std::get<AttentionAttributes>(value.attributes);
  if (has(value, offsets_q)) return {attention.max_seq_q, attention.max_seq_kv};
  const std::size_t q = value.op == Op::attention_backward ? 1 : 0;
  const auto extent = [&](std::size_t operand, std::size_t dimension) {
    const int axis = value.layouts[operand + 1][dimension];
    return axis < 0 ? 1 : graph.extents[static_cast<std::size_t>(axis)];
  };
  const std::int64_t pages = has(value, table_k) ? extent(index_of(value, table_k), 1) : 1;
  const std::size_t rows = value.op == Op::attention_blockscaled ? 2 : 1;
  return {extent(q, rows), pages * extent(q + 1, rows)};
}

std::vector<AxisGroup> grouped(const AxisList& layout, OperandForm form, std::size_t normalised) {
  std::vector<AxisGroup> groups;
  const std::size_t rank = layout.size();
  switch (form) {
    case number:
    case element:
      return {{}, {}, {}, {}};
    case sequence:
      return {single(layout[0]), single(layout[2]), single(layout[1]), single(layout[3])};
    case packed_rows:
      return {{}, single(layout[1]), single(layout[0]), single(layout[2])};
    case lengths:
      return {single(layout[0]), {}, {}, {}};
    case table:
      return {single(layout[0]), {}, single(layout[1]), {}};
    case heads:
      return {{}, single(layout[0]), {}, {}};
    case matrix:
    case row_numbers:
      return {
          axes_between(layout, 0, rank - normalised), axes_between(layout, rank - normalised, rank), {}, {}};
    case row:
      return {{}, axes_between(layout, 0, rank), {}, {}};
    case channels:
      return {{}, single(layout[0]), {}, {}};
    default:
      break;
  }
  for (const int axis : layout) groups.push_back(single(axis));
  if (form == image && rank == 3) groups.insert(groups.begin() + 2, AxisGroup{});
  return groups;
}

EngineTensor described(const Tensor& tensor, const std::vector<AxisGroup>& groups, const Dims& extents,
                       OperandForm form, ImageOrder order) {
  EngineTensor t;
  t.dtype = tensor.dtype;
  t.alignment = tensor.alignment;
  for (std::size_t d = 0; d < groups.size(); ++d) {
    const std::size_t there = axes_there(tensor, groups[d]);
    // Attention takes heads and batches that share memory.
    const bool shared = (form == sequence || form == scores) && d < 2 && there == 0;
    if (there != groups[d].size() && !shared)
      throw NotLowered{text(tensor.name,
                            " repeats its elements along an axis, which cuDNN does not read; "
                            "pass a copy of it made outside the function")};
    const Merged m = shared && form == scores ? Merged{} : merged(tensor, groups[d], extents);
    t.dims.push_back(m.extent);
    t.strides.push_back(m.stride);
  }
  place_ones(t, memory_order(t.dims.size(), form, order));
  return t;
}

ImageOrder order_of(const std::vector<const Tensor*>& tensors, const std::vector<AxisList>& layouts,
                    const Dims& extents) {
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const AxisList& layout = layouts[i];
    if (layout[1] < 0) continue;  // one channel
    const auto stride = [&](int axis) { return tensors[i]->strides[static_cast<std::size_t>(axis)]; };
    for (std::size_t d = 2; d < layout.size(); ++d)
      if (layout[d] >= 0 && extents[static_cast<std::size_t>(layout[d])] > 1)
        return stride(layout[1]) < stride(layout[d]) ? ImageOrder::channels_last : ImageOrder::channels_first;
  }
  return ImageOrder::channels_first;
}

Dims packed(const Dims& dims, OperandForm form, ImageOrder order) {
  Dims strides(dims.size());
  std::int64_t stride = 1;
  const std::vector<std::size_t> dimensions = memory_order(dims.size(), form, order);
  for (std::size_t i = dimensions.size(); i-- > 0; stride *= dims[dimensions[i]])
    strides[dimensions[i]] = stride;
  return strides;
}

}  // namespace stiletto::detail::cudnn
