// SPDX-License-Identifier: Apache-2.0
// The text of a cuDNN graph.
#include "backends/cudnn/engine_graph.hpp"

#include "core/text.hpp"
#include "graph/op_table.hpp"
#include "graph/print.hpp"
#include "stiletto/dtype.hpp"

namespace stiletto::detail::cudnn {
namespace {

std::string list(const std::vector<std::int64_t>& values) {
  std::string result = "(";
  for (std::size_t i = 0; i < values.size(); ++i) result += text(i ? ", " : "", values[i]);
  return result + ")";
}

std::string tensor_text(const EngineTensor& t) {
  if (t.role == EngineTensor::Role::number) return text("scalar", t.source, ": ", t.dtype, " by value");
  if (t.role == EngineTensor::Role::constant) return text(t.value, ": ", t.dtype, " constant");
  std::string result = text(t.dtype, list(t.dims));
  if (t.is_packed()) result += text(" of ", t.rows, " rows from t", t.offsets);
  if (t.role == EngineTensor::Role::intermediate) return result;
  result += text(" strides ", list(t.strides));
  if (t.alignment != 16) result += text(" align ", t.alignment);
  if (t.tiled) result += " in F8_128x4";
  const char* home = t.role == EngineTensor::Role::input ? "tensor" : "store";
  return t.role == EngineTensor::Role::ones ? "ones: " + result : text(home, t.source, ": ", result);
}

}  // namespace

std::string EngineGraph::to_string() const {
  std::string result = text("cudnn graph, ", form, "\n");
  std::vector<bool> computed(tensors.size());
  for (const EngineNode& node : nodes)
    node.each_result([&](std::uint32_t tensor) { computed[tensor] = true; });
  for (std::size_t i = 0; i < tensors.size(); ++i)
    if (!computed[i]) result += text("  t", i, " = ", tensor_text(tensors[i]), "\n");
  for (const EngineNode& node : nodes) {
    result += text("  t", node.output, " = ", node.op == Op::copy ? "identity" : name_of(node.op), "(");
    for (std::size_t i = 0; i < node.inputs.size(); ++i) result += text(i ? ", t" : "t", node.inputs[i]);
    if (node.lower != 0) result += text(", from ", node.lower);
    if (node.coefficient != 0) result += text(", ", node.coefficient);
    result += text(attributes_text(node.op, node.attributes), ") in ", node.compute, ": ",
                   tensor_text(tensors[node.output]), "\n");
    for (std::size_t i = 0; i < node.further.size(); ++i)
      if (node.further[i] != EngineNode::absent)
        result += text("  t", node.further[i], " = result ", i + 1,
                       " of it: ", tensor_text(tensors[node.further[i]]), "\n");
  }
  return result;
}

}  // namespace stiletto::detail::cudnn
