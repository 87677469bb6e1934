// SPDX-License-Identifier: Apache-2.0
#include "backends/cudnn/structured_checks.hpp"

#include <algorithm>

#include "backends/cudnn/lower.hpp"
#include "backends/cudnn/operand_forms.hpp"
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
      const std::string other = name_of(value.op);
      if (family(value) == Family::structured)
        throw NotLowered{
            text("a ", name(), " and a ", other,
                 " in one graph; store what the first computes and pass it to a call of its own")};
      if (family(value) != Family::pointwise)
        throw NotLowered{text("a ", other, " beside a ", name(), "; compute it in a call of its own")};
      const bool attends = value_.op == Op::attention || value_.op == Op::attention_backward;
      for (std::size_t k = 0; k < value.arity; ++k) {
        const Value& operand = graph_.values[value.inputs[k]];
        if (operand.kind != Value::Kind::operation) continue;
        if (operand.op == Op::part)
          throw NotLowered{text(other, " of ", result_name(value_.op, part_index(operand)), " of ", name(),
                                ", which cuDNN only stores; compute it in a call of its own")};
        if (attends && value.inputs[k] == index_)
          throw NotLowered{
              text(other, " of what ", name(),
                   " computes, which cuDNN only stores; store it and compute with it in a call of "
                   "its own")};
      }
    }
  }

  static std::size_t part_index(const Value& part) { return std::get<PartAttributes>(part.attributes).index; }

  void check_operands() const {
    for (std::size_t i = 0; i < value_.arity; ++i) {
      const Value& operand = graph_.values[value_.inputs[i]];
      const OperandForm form = operand_form(value_, i);
      if (operand.kind == Value::Kind::operation)
        throw NotLowered{text(operand_name(value_, i), " of ", name(), " is computed (by ",
                              name_of(operand.op),
                              "), and cuDNN reads it from memory; store it first and pass it")};
      if (operand.kind == Value::Kind::scalar && form != OperandForm::number)
        throw NotLowered{text(operand_name(value_, i), " of ", name(), " is a number; pass an array")};
      if (operand.dtype == DType::float64 && form != OperandForm::number)
        throw NotLowered{text(operand_name(value_, i), " of ", name(),
                              " is float64, and cuDNN computes it up to float32; cast it")};
    }
  }

  /// Engines write all results or none.
  void check_results() const {
    const std::size_t count = required_results();
    for (std::size_t result = 0; result < count; ++result)
      if (!is_wanted(result))
        throw NotLowered{text(result_name(value_.op, result), " of ", name(),
                              " is not used, and cuDNN computes it in any case; return or store it, too")};
    const bool either = value_.op == Op::layer_norm && is_wanted(1) != is_wanted(2);
    if (either)
      throw NotLowered{
          "only one of mean and inv_std of layer_norm is used, and cuDNN computes both; return or "
          "store the other, too"};
  }

  std::size_t required_results() const {
    switch (value_.op) {
      case Op::attention_backward:
      case Op::layer_norm_backward:
      case Op::batch_norm_backward:
        return 3;
      case Op::rms_norm_backward:
        return std::get<NormAttributes>(value_.attributes).bias ? 3 : 2;
      case Op::batch_norm_training:
        return 5;
      default:
        return 1;
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

  void check_attention(const AttentionAttributes& attributes) const {
    const std::size_t q = value_.op == Op::attention ? 0 : 1;
    const bool lengths = attributes.has(AttentionOperand::seq_len_q);
    if (attributes.causal == Causal::bottom_right && !lengths && extent(q, 1) > extent(q + 1, 1))
      throw NotLowered{
          text("a bottom_right mask with ", extent(q, 1), " queries and ", extent(q + 1, 1),
               " keys, of which the first queries see nothing; cuDNN takes it only with seq_len_q "
               "and seq_len_kv")};
    if (graph_.compute_dtype != DType::float32)
      throw NotLowered{"cuDNN's attention accumulates in float32; leave compute_dtype at float32"};
  }

  const CanonicalGraph& graph_;
  std::uint32_t index_;
  const Value& value_;
};

}  // namespace

void check_structured(const CanonicalGraph& graph, std::uint32_t index) { Checks(graph, index).run(); }

}  // namespace stiletto::detail::cudnn
