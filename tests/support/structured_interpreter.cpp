// SPDX-License-Identifier: Apache-2.0
#include "support/structured_interpreter.hpp"

#include <stdexcept>

#include "backends/cpu/structured.hpp"
#include "backends/cudnn/operand_forms.hpp"
#include "graph/op_table.hpp"

namespace support {
namespace {

using stiletto::DType;
using stiletto::detail::Attributes;
using stiletto::detail::NormAttributes;
using stiletto::detail::Op;
using stiletto::detail::Value;
using stiletto::detail::cpu::TensorView;
using stiletto::detail::cudnn::EngineGraph;
using stiletto::detail::cudnn::EngineNode;
using stiletto::detail::cudnn::OperandForm;
using Values = std::vector<double>;

/// The dimensions of an engine's tensor that are the axes of the operand, in their order.
std::vector<std::size_t> axes_of(OperandForm form, std::size_t rank) {
  switch (form) {
    case OperandForm::number:
    case OperandForm::element:
      return {};
    case OperandForm::sequence:
      return {0, 2, 1, 3};
    case OperandForm::lengths:
      return {0};
    case OperandForm::packed_rows:
    case OperandForm::table:
      throw std::logic_error("packed sequences and pages are not interpreted");
    case OperandForm::heads:
    case OperandForm::row:
    case OperandForm::channels:
      return {1};
    case OperandForm::matrix:
    case OperandForm::row_numbers:
      return {0, 1};
    default:
      break;
  }
  std::vector<std::size_t> all(rank);
  for (std::size_t d = 0; d < rank; ++d) all[d] = d;
  return all;
}

class StructuredInterpreter {
 public:
  StructuredInterpreter(const EngineGraph& graph, const EngineNode& node, std::vector<Values>& values,
                        bool exact)
      : graph_(graph), node_(node), values_(values), exact_(exact || node.compute == DType::int32) {
    value_.op = node.op;
    value_.attributes = node.attributes;
  }

  void run() {
    Attributes attributes = node_.attributes;
    std::size_t constants = 0;
    if (auto* norm = std::get_if<NormAttributes>(&attributes)) {
      norm->axes = 1;  // rows and columns
      const bool training = node_.op == Op::batch_norm_training;
      constants = training ? 2 : node_.op == Op::rms_norm || node_.op == Op::layer_norm ? 1 : 0;
    }
    std::vector<TensorView> operands, results;
    // Their addresses are kept.
    integers_.reserve(node_.inputs.size());
    narrow_.reserve(node_.inputs.size() + stiletto::detail::results_of(node_.op));
    for (std::size_t i = 0; i + constants < node_.inputs.size(); ++i)
      operands.push_back(operand(node_.inputs[i], stiletto::detail::cudnn::operand_form(value_, i)));
    for (std::size_t i = 0; i < stiletto::detail::results_of(node_.op); ++i) {
      const std::uint32_t tensor = i == 0                      ? node_.output
                                   : i <= node_.further.size() ? node_.further[i - 1]
                                                               : EngineNode::absent;
      results.push_back(tensor == EngineNode::absent ? TensorView{} : result(tensor, i));
    }
    stiletto::detail::cpu::structured_kernel(node_.op)(attributes, operands, results);
    for (const auto& [tensor, floats] : narrow_results_)
      values_[tensor].assign(narrow_[floats].begin(), narrow_[floats].end());
  }

 private:
  TensorView view(std::uint32_t tensor, OperandForm form, std::byte* data, DType dtype) const {
    const auto& dims = graph_.tensors[tensor].dims;
    std::vector<std::int64_t> strides(dims.size()), shape_of_view, strides_of_view;
    std::int64_t size = 1, kept = 1;
    for (std::size_t d = dims.size(); d-- > 0; size *= dims[d]) strides[d] = size;
    for (const std::size_t d : axes_of(form, dims.size())) {
      shape_of_view.push_back(dims[d]);
      strides_of_view.push_back(strides[d]);
      kept *= dims[d];
    }
    if (kept != size)
      throw std::logic_error("an engine graph with a dimension that its operand does not have");
    return {data, dtype, stiletto::Shape(std::span<const std::int64_t>(shape_of_view)),
            stiletto::Strides(std::span<const std::int64_t>(strides_of_view))};
  }

  TensorView operand(std::uint32_t tensor, OperandForm form) {
    Values& values = values_[tensor];
    if (form == OperandForm::number || (exact_ && form != OperandForm::lengths))
      return view(tensor, form, reinterpret_cast<std::byte*>(values.data()), DType::float64);
    if (form != OperandForm::lengths)
      return view(tensor, form, floats({values.begin(), values.end()}), DType::float32);
    std::vector<std::int32_t>& lengths = integers_.emplace_back(values.begin(), values.end());
    return view(tensor, form, reinterpret_cast<std::byte*>(lengths.data()), DType::int32);
  }

  TensorView result(std::uint32_t tensor, std::size_t i) {
    std::size_t size = 1;
    for (const std::int64_t dim : graph_.tensors[tensor].dims) size *= static_cast<std::size_t>(dim);
    const OperandForm form = stiletto::detail::cudnn::result_form(value_, i);
    values_[tensor].assign(size, 0);
    if (exact_)
      return view(tensor, form, reinterpret_cast<std::byte*>(values_[tensor].data()), DType::float64);
    narrow_results_.emplace_back(tensor, narrow_.size());
    return view(tensor, form, floats(std::vector<float>(size)), DType::float32);
  }

  std::byte* floats(std::vector<float> values) {
    return reinterpret_cast<std::byte*>(narrow_.emplace_back(std::move(values)).data());
  }

  const EngineGraph& graph_;
  const EngineNode& node_;
  std::vector<Values>& values_;
  bool exact_;
  Value value_;  // as the forms are asked for
  std::vector<std::vector<std::int32_t>> integers_;
  std::vector<std::vector<float>> narrow_;
  std::vector<std::pair<std::uint32_t, std::size_t>> narrow_results_;  // tensors, and which of `narrow_`
};

}  // namespace

void interpret_structured(const EngineGraph& graph, const EngineNode& node,
                          std::vector<std::vector<double>>& values, bool exact) {
  StructuredInterpreter(graph, node, values, exact).run();
}

}  // namespace support
