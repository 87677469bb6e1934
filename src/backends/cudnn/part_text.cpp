// SPDX-License-Identifier: Apache-2.0
#include "backends/cudnn/part_text.hpp"

#include <algorithm>

#include "backends/cudnn/geometry.hpp"
#include "compiler/canonical_text.hpp"
#include "core/text.hpp"
#include "graph/op_table.hpp"
#include "graph/print.hpp"

namespace stiletto::detail::cudnn {
namespace {

constexpr std::size_t most_operations = 4;  // of an expression; longer ones tell nobody anything

std::string joined(const std::vector<std::string>& parts, const char* between) {
  std::string result;
  for (const std::string& part : parts) result += (result.empty() ? "" : between) + part;
  return result;
}

class Expression {
 public:
  Expression(const CanonicalGraph& graph, const std::vector<std::uint32_t>& operations)
      : graph_(graph), inside_(graph.values.size()), read_(graph.values.size()) {
    for (std::uint32_t i : operations) inside_[i] = true;
    for (std::uint32_t i : operations)
      for (std::size_t k = 0; k < graph.values[i].arity; ++k) read_[graph.values[i].inputs[k]] = true;
    std::vector<std::string> roots, positions;
    for (std::uint32_t i : operations) {
      if (!read_[i]) roots.push_back(show(i));
      if (!is_rounding(graph.values[i])) positions.push_back(text(graph.values[i].trace_position));
    }
    text_ = text(listed(roots), " (operation", positions.size() > 1 ? "s " : " ", listed(positions), ")");
    if (!operands_.empty()) text_ += ", where " + listed(operands_);
  }
  const std::string& result() const { return text_; }

 private:
  std::string show(std::uint32_t i) {
    const Value& value = graph_.values[i];
    if (!inside_[i]) return operand(i);
    if (is_rounding(value)) return show(value.inputs[0]);
    std::vector<std::string> arguments;
    arguments.reserve(value.arity + std::size_t{1});  // and the axes
    for (std::size_t k = 0; k < value.arity; ++k) arguments.push_back(show(value.inputs[k]));
    if (value.contracted.any() && value.layouts.empty())
      arguments.push_back("over " + graph_.axes_text(value.contracted));
    return text(name_of(value.op), '(', joined(arguments, ", "), attributes_text(value.op, value.attributes),
                ')');
  }

  std::string operand(std::uint32_t i) {
    const Value& value = graph_.values[i];
    if (value.kind == Value::Kind::scalar) return text("scalar", value.source);
    const std::string name =
        value.kind == Value::Kind::tensor ? graph_.tensors[value.source].name : text('%', i);
    const std::string described = text(name, " is ", typed(value));
    if (std::find(operands_.begin(), operands_.end(), described) == operands_.end())
      operands_.push_back(described);
    return name;
  }

  std::string typed(const Value& value) const {
    std::vector<std::string> axes;
    for (std::size_t axis : axes_of(value.axes, graph_.extents.size()))
      axes.push_back(text(axis_name(axis), '=', graph_.extents[axis]));
    return axes.empty() ? text(value.dtype) : text(value.dtype, '[', joined(axes, ","), ']');
  }

  const CanonicalGraph& graph_;
  std::vector<bool> inside_, read_;
  std::vector<std::string> operands_;
  std::string text_;
};

}  // namespace

std::string part_text(const CanonicalGraph& graph, const std::vector<std::uint32_t>& operations) {
  if (operations.size() <= most_operations) return Expression(graph, operations).result();
  return text("the ", operations.size(), " operations from ", operation_name(graph, operations.front()),
              " to ", operation_name(graph, operations.back()));
}

std::string operation_name(const CanonicalGraph& graph, std::uint32_t value) {
  return text(name_of(graph.values[value].op), " (operation ", graph.values[value].trace_position, ')');
}

bool is_rounding(const Value& value) {
  return value.kind == Value::Kind::operation && value.op == Op::cast && value.trace_position == 0;
}

std::string strides_list(const CanonicalGraph& graph, const Tensor& tensor) {
  std::vector<std::string> strides;
  for (std::size_t axis : axes_of(tensor.axes, graph.extents.size()))
    strides.push_back(text(tensor.strides[axis]));
  return text('(', joined(strides, ", "), ')');
}

std::string listed(const std::vector<std::string>& parts) {
  std::string result;
  for (std::size_t i = 0; i < parts.size(); ++i)
    result += text(i == 0 ? "" : i + 1 == parts.size() ? " and " : ", ", parts[i]);
  return result;
}

}  // namespace stiletto::detail::cudnn
