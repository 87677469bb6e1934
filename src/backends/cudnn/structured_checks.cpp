// SPDX-License-Identifier: Apache-2.0
#include "backends/cudnn/structured_checks.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>
#include <vector>

#include "backends/cudnn/lower.hpp"
#include "backends/cudnn/operand_forms.hpp"
#include "backends/cudnn/part_text.hpp"
#include "core/dtype_info.hpp"
#include "core/text.hpp"
#include "graph/op_table.hpp"

namespace stiletto::detail::cudnn {
namespace {

class Checks {
 public:
  Checks(const CanonicalGraph& graph, std::uint32_t index)
      : graph_(graph), index_(index), value_(graph.values[index]) {}

  void run() const {
    check_alone();
    check_operands();
    check_results();
    check_images();
    check_norm();
    if (const auto* attention = std::get_if<AttentionAttributes>(&value_.attributes))
      check_attention(*attention);
  }

 private:
  std::string name() const { return name_of(value_.op); }
  Family family(const Value& value) const { return row_of(value.op).family; }

  /// Nothing but pointwise operations, and those over its first result.
  void check_alone() const {
    for (std::uint32_t i = 0; i < graph_.values.size(); ++i) {
      const Value& value = graph_.values[i];
      if (value.kind != Value::Kind::operation || i == index_ || value.op == Op::part) continue;
      if (family(value) == Family::structured)
        throw NotLowered{
            text(name(), " and ", name_of(value.op),
                 " in one graph; store what the first computes and pass it to a call of its own")};
      if (family(value) != Family::pointwise)
        throw NotLowered{text(name_of(value.op), " beside ", name(), "; compute it in a call of its own")};
    }
    for (const Value& value : graph_.values)
      if (value.kind == Value::Kind::operation && value.op != Op::part && !is_rounding(value))
        for (std::size_t k = 0; k < value.arity; ++k) check_reader(value, value.inputs[k]);
  }

  void check_reader(const Value& reader, std::uint32_t index) const {
    const Value& operand = graph_.values[index];
    if (operand.kind != Value::Kind::operation) return;
    if (operand.op == Op::part)
      throw NotLowered{text(name_of(reader.op), " of ", result_name(value_.op, part_index(operand)), " of ",
                            name(), ", which cuDNN only stores; compute it in a call of its own")};
    const bool attends = std::holds_alternative<AttentionAttributes>(value_.attributes);
    if (attends && index == index_)
      throw NotLowered{text(name_of(reader.op), " of what ", name(),
                            " computes, which cuDNN only stores; compute it in a call of its own")};
  }

  static std::size_t part_index(const Value& part) { return std::get<PartAttributes>(part.attributes).index; }

  void check_operands() const {
    for (std::size_t i = 0; i < value_.arity; ++i) {
      const Value& operand = graph_.values[value_.inputs[i]];
      const OperandForm form = operand_form(value_, i);
      if (operand.kind == Value::Kind::operation) {
        const Op by = is_rounding(operand) ? graph_.values[operand.inputs[0]].op : operand.op;
        throw NotLowered{text(operand_name(value_, i), " of ", name(), " is computed (by ", name_of(by),
                              "), and cuDNN reads it from memory; store it first and pass it")};
      }
      if (operand.kind == Value::Kind::scalar && form != OperandForm::number)
        throw NotLowered{text(operand_name(value_, i), " of ", name(), " is a number; pass an array")};
      if (operand.dtype == DType::float64 && form != OperandForm::number)
        throw NotLowered{text(operand_name(value_, i), " of ", name(),
                              " is float64, and cuDNN has no float64 outside of products")};
    }
  }

  /// Engines write all results or none.
  void check_results() const {
    for (const std::size_t result : required_results())
      if (!is_wanted(result))
        throw NotLowered{text(result_name(value_.op, result), " of ", name(),
                              " is not used, and cuDNN computes it in any case; return or store it, too")};
    const bool either = value_.op == Op::layer_norm && is_wanted(1) != is_wanted(2);
    if (either)
      throw NotLowered{
          "only one of mean and inv_std of layer_norm is used, and cuDNN computes both; return or "
          "store the other, too"};
  }

  std::vector<std::size_t> required_results() const {
    switch (value_.op) {
      case Op::attention_backward:
      case Op::layer_norm_backward:
      case Op::batch_norm_backward:
        return {0, 1, 2};
      case Op::attention_float8:
        return {0, 2, 3};
      case Op::rms_norm_backward:
        if (std::get<NormAttributes>(value_.attributes).bias) return {0, 1, 2};
        return {0, 1};
      case Op::batch_norm_training:
        return {0, 1, 2, 3, 4};
      default:
        return {0};
    }
  }

  bool is_wanted(std::size_t result) const {
    const auto is_it = [&](std::uint32_t i) {
      const Value& value = graph_.values[i];
      if (value.kind != Value::Kind::operation) return false;
      return result == 0 ? i == index_ : value.op == Op::part && part_index(value) == result;
    };
    for (const Value& value : graph_.values)
      for (std::size_t k = 0; k < value.arity; ++k)
        if (value.op != Op::part && is_it(value.inputs[k])) return true;
    return std::any_of(graph_.stores.begin(), graph_.stores.end(),
                       [&](const Store& store) { return is_it(store.value); });
  }

  std::int64_t extent(std::size_t operand, std::size_t dimension) const {
    const int axis = value_.layouts[operand + 1][dimension];
    return axis < 0 ? 1 : graph_.extents[static_cast<std::size_t>(axis)];
  }

  std::int64_t extent_from_last(std::size_t operand, std::size_t behind) const {
    return extent(operand, value_.layouts[operand + 1].size() - 1 - behind);
  }

  /// f(memory, its layout, its form, its name) for each operand and stored result in memory.
  template <class F>
  void each_memory(const F& f) const {
    for (std::size_t i = 0; i < value_.arity; ++i)
      if (const Value& operand = graph_.values[value_.inputs[i]]; operand.kind == Value::Kind::tensor)
        f(graph_.tensors[operand.source], value_.layouts[i + 1], operand_form(value_, i),
          operand_name(value_, i));
    for (const Store& store : graph_.stores) {
      const Value& stored = graph_.values[store.value];
      if (store.value == index_)
        f(store.tensor, stored.layouts[0], result_form(value_, 0), store.tensor.name);
      else if (stored.kind == Value::Kind::operation && stored.op == Op::part)
        f(store.tensor, stored.layouts[0], result_form(value_, part_index(stored)), store.tensor.name);
    }
  }

  // cuDNN 9.19 on an H200: another order has a plan and wrong numbers.
  void check_images() const {
    each_memory([&](const Tensor& tensor, const AxisList& layout, OperandForm form, const std::string& what) {
      if (form != OperandForm::image || falls(tensor, layout, false) || falls(tensor, layout, true)) return;
      throw NotLowered{
          text(what, " of ", name(),
               " lies in memory neither channels-first nor channels-last, "
               "which cuDNN reads at wrong places; pass a copy of it made outside the function")};
    });
    if (value_.op == Op::conv && value_.dtype == DType::int32)
      throw NotLowered{
          "conv of int8, which came out wrong on a GPU; cast the operands to float16, in which products "
          "of 8-bit integers are exact"};
    check_pool();
  }

  void check_pool() const {
    const auto* pool = std::get_if<PoolAttributes>(&value_.attributes);
    if (pool == nullptr) return;
    if (pool->include_padding && pool->pre_padding != pool->post_padding)
      throw NotLowered{text("avg_pool that counts padding of ", pool->pre_padding, " before and ",
                            pool->post_padding,
                            " behind, of which cuDNN counts only the first; pad both sides alike, or leave "
                            "include_padding out")};
    const Tensor& x = graph_.tensors[graph_.values[value_.inputs[0]].source];
    if (is_integer(x.dtype) && x.dtype != DType::int8)  // plans build for some, in channels-last memory alone
      throw NotLowered{text(name(), " of ", x.dtype,
                            ", which cuDNN does not take in both orders; cast x to int8 or float32")};
    if (x.dtype == DType::bfloat16 && !falls(x, value_.layouts[1], false))
      throw NotLowered{text(name(),
                            " of bfloat16 in channels-last memory, which came out wrong on a GPU; give it "
                            "channels-first memory, or float16")};
  }

  /// Whether strides fall from dimension to dimension, the channels last or second.
  bool falls(const Tensor& tensor, const AxisList& layout, bool channels_last) const {
    std::int64_t previous = std::numeric_limits<std::int64_t>::max();
    const auto step = [&](std::size_t d) {
      if (layout[d] < 0) return true;
      const std::int64_t stride = tensor.strides[static_cast<std::size_t>(layout[d])];
      return stride <= std::exchange(previous, stride);
    };
    if (!step(0) || (!channels_last && !step(1))) return false;
    for (std::size_t d = 2; d < layout.size(); ++d)
      if (!step(d)) return false;
    return !channels_last || step(1);
  }

  void check_norm() const {
    if (result_form(value_, 0) != OperandForm::matrix) return;
    constexpr int wanted = 16;  // whatever is declared: cuDNN 9.19 refuses such a pointer when it is executed
    each_memory([&](const Tensor& tensor, const AxisList&, OperandForm, const std::string& what) {
      if (tensor.alignment < wanted)
        throw NotLowered{text(what, " of ", name(), " is aligned to ", tensor.alignment,
                              " bytes, and cuDNN takes ", wanted,
                              "; pass a copy of it made outside the function")};
    });
    // With the engine that fuses what follows, no type is wider than x's (9.19).
    const bool alone = std::none_of(graph_.values.begin(), graph_.values.end(), [&](const Value& value) {
      const auto end = value.inputs.begin() + value.arity;
      return value.op != Op::part && std::find(value.inputs.begin(), end, index_) != end;
    });
    if (alone) return;
    const DType x = graph_.values[value_.inputs[0]].dtype;
    for (std::size_t i = 1; i < value_.arity; ++i)
      if (const DType wider = graph_.values[value_.inputs[i]].dtype; bits_of(wider) > bits_of(x))
        throw NotLowered{text("what follows ", name(), " of ", x, " with ", operand_name(value_, i), " of ",
                              wider, ", which cuDNN does not compute in one; cast ", operand_name(value_, i),
                              " to ", x, ", or compute what follows in a call of its own")};
    for (const Store& store : graph_.stores)
      if (bits_of(store.tensor.dtype) > bits_of(x) && graph_.values[store.value].op != Op::part)
        throw NotLowered{text("what follows ", name(), " of ", x, " is ", store.tensor.dtype,
                              ", wider than cuDNN writes there; cast it to ", x,
                              ", or compute what follows in a call of its own")};
  }

  // cuDNN 9.19 on an H200.
  void check_attention(const AttentionAttributes& attributes) const {
    const std::size_t q = value_.op == Op::attention_backward ? 1 : 0;
    const auto [queries, keys] = longest_sequences(graph_, value_);
    const bool lengths = attributes.has(AttentionOperand::seq_len_q),
               more_queries = queries > keys && !lengths;
    if (attributes.causal == Causal::bottom_right && more_queries)
      throw NotLowered{
          text("a bottom_right mask with ", queries, " queries and ", keys,
               " keys, of which the first queries see nothing; cuDNN takes it only with seq_len_q "
               "and seq_len_kv")};
    if (attributes.window > 0 && attributes.window < std::max(queries, keys) && more_queries)
      throw NotLowered{text("a window with ", queries, " queries and ", keys,
                            " keys; cuDNN takes more queries than keys only with seq_len_q and seq_len_kv")};
    if (attributes.causal == Causal::bottom_right && attributes.has(AttentionOperand::bias))
      throw NotLowered{
          "a bottom_right mask and a bias, which cuDNN does not take together; let the bias have "
          "minus infinity where the mask would be, and leave causal out"};
    if (attributes.has(AttentionOperand::sink) && queries == 1 && value_.op == Op::attention)
      throw NotLowered{"a sink with a single query, which cuDNN does not take; give it two queries"};
    const bool narrow = value_.op == Op::attention_float8 || value_.op == Op::attention_blockscaled;
    if (narrow && queries == 1)  // plans for it end in a segmentation fault (9.27, block-scaled)
      throw NotLowered{text(name(), " with a single query, which cuDNN does not take; give it two queries")};
    if (value_.op == Op::attention_blockscaled) check_blocks();
    check_dropout(attributes, q);
    check_pages(attributes, q);
    check_attention_types(q);
    if (value_.op == Op::attention_backward && queries == 1)
      throw NotLowered{
          "gradients of a single query, which cuDNN makes NaN for large logits; give it two queries"};
    check_rows();
  }

  // From cuDNN 9.21 on.
  void check_blocks() const {
    constexpr std::size_t operands = 3;  // q, k and v
    if (graph_.values[value_.inputs[0]].dtype == DType::float4_e2m1)
      throw NotLowered{
          "attention over float4_e2m1 in blocks; cuDNN takes MXFP8: quantize q, k and v to that"};
    for (std::size_t i = 0; i < operands; ++i) {
      const Tensor& tensor = graph_.tensors[graph_.values[value_.inputs[i]].source];
      const int last = value_.layouts[i + 1].back();
      if (last >= 0 && tensor.strides[static_cast<std::size_t>(last)] != 1)
        throw NotLowered{text("the elements of ", operand_name(value_, i),
                              " are not adjacent along its last axis, as cuDNN's attention over blocks wants "
                              "them; quantize into elements that lie so, with from_parts")};
    }
  }

  void check_dropout(const AttentionAttributes& attributes, std::size_t q) const {
    if (!attributes.has(AttentionOperand::seed) || attributes.dropout.value == 0) return;
    if (attributes.causal == Causal::bottom_right)
      throw NotLowered{
          "a bottom_right mask and dropout, which cuDNN does not take together; let a bias have minus "
          "infinity where the mask would be, and leave causal out"};
    if (graph_.values[value_.inputs[q]].dtype == DType::float32)
      throw NotLowered{
          "dropout of float32, whose kernels cuDNN fails to compile; cast q, k and v to float16"};
  }

  void check_pages(const AttentionAttributes& attributes, std::size_t q) const {
    if (!attributes.has(AttentionOperand::table_k)) return;
    if (const std::int64_t size = extent(q + 1, 1); (size & (size - 1)) != 0)
      throw NotLowered{text("pages of ", size, " rows, and cuDNN takes powers of 2; let them have ",
                            std::bit_ceil(static_cast<std::uint64_t>(size)))};
  }

  /// What is aligned less has plans, and some of them end in a misaligned access.
  void check_rows() const {
    each_memory([&](const Tensor& tensor, const AxisList& layout, OperandForm form, const std::string& what) {
      if (form != OperandForm::sequence && form != OperandForm::packed_rows &&
          form != OperandForm::heads_first)
        return;
      std::int64_t alignment = tensor.alignment;
      for (std::size_t d = 0; d + 1 < layout.size(); ++d)
        while (layout[d] >= 0 && alignment > 1 &&
               byte_offset(tensor.dtype, tensor.strides[static_cast<std::size_t>(layout[d])]) % alignment !=
                   0)
          alignment /= 2;
      if (alignment < 16)
        throw NotLowered{text("rows of ", what, " of ", name(), " are aligned to ", alignment,
                              " bytes, and cuDNN needs 16; pass a copy of it made outside the function")};
    });
  }

  void check_attention_types(std::size_t q) const {
    const DType dtype = graph_.values[value_.inputs[q]].dtype;
    if (!is_float8(dtype)) check_attention_dtype(q, dtype);
    const std::int64_t whole = is_float8(dtype) ? 16 : 8;
    for (const std::size_t operand : {q, q + 2})
      if (const std::int64_t width = extent_from_last(operand, 0); width % whole != 0)
        throw NotLowered{text(operand_name(value_, operand), " of ", name(), " has ",
                              operand == q ? "head_dim " : "width ", width, ", and cuDNN takes multiples of ",
                              whole, "; pad it with zeros")};
    for (const Store& store : graph_.stores) {
      const Value& stored = graph_.values[store.value];
      if ((store.value == index_ || stored.op == Op::part) && store.tensor.dtype != stored.dtype)
        throw NotLowered{text(store.tensor.name, " is ", store.tensor.dtype, " and what ", name(),
                              " computes ", stored.dtype, ", which cuDNN does not convert; store it as ",
                              stored.dtype, " and cast it in a call of its own")};
    }
    if (graph_.compute_dtype != DType::float32)
      throw NotLowered{"cuDNN's attention accumulates in float32; leave compute_dtype at float32"};
  }
  void check_attention_dtype(std::size_t q, DType dtype) const {
    const bool narrow = dtype == DType::float16 || dtype == DType::bfloat16;
    if (!narrow && (dtype != DType::float32 || value_.op == Op::attention_backward))
      throw NotLowered{text("cuDNN computes ", name(), " of float16 and bfloat16",
                            narrow_only() ? "" : " and float32", ", not of ", dtype, "; cast the operands")};
    const std::int64_t heads = extent_from_last(q, 1), heads_kv = extent_from_last(q + 1, 1);
    if (dtype == DType::float32 && heads != heads_kv)
      throw NotLowered{
          text("attention of float32 with ", heads, " heads of q and ", heads_kv,
               " of k, which came out wrong on a GPU; repeat k and v in memory, or cast to float16")};
  }
  bool narrow_only() const { return value_.op == Op::attention_backward; }

  const CanonicalGraph& graph_;
  std::uint32_t index_;
  const Value& value_;
};

}  // namespace

void check_structured(const CanonicalGraph& graph, std::uint32_t index) { Checks(graph, index).run(); }

}  // namespace stiletto::detail::cudnn
