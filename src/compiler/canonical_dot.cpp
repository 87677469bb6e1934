// SPDX-License-Identifier: Apache-2.0
// The canonical graph for Graphviz: memory is blue on its way in and green on its way out, numbers are grey,
// operations white; what a plan runs as one has a box around it.
#include "compiler/canonical_text.hpp"
#include "core/text.hpp"
#include "graph/op_table.hpp"

namespace stiletto::detail {
namespace {

std::string memory_label(const CanonicalGraph& graph, const Tensor& tensor, const std::string& name) {
  const std::string strides = strides_text(graph, tensor);
  return text(name, '\n', sized_text(graph, tensor.dtype, tensor.axes), strides.empty() ? "" : "\n", strides);
}

std::string value_node(const CanonicalGraph& graph, std::size_t index) {
  const Value& value = graph.values[index];
  std::string label, style;  // of an operation: the default
  if (value.kind == Value::Kind::tensor) {
    const Tensor& tensor = graph.tensors[value.source];
    label = memory_label(graph, tensor, text('%', index, " = ", tensor.name));
    style = ", style=\"rounded,filled\", fillcolor=\"#dbeafe\", color=\"#1d4ed8\"";
  } else if (value.kind == Value::Kind::scalar) {
    label = text('%', index, " = scalar", value.source, '\n', value.dtype);
    style = ", shape=ellipse, fillcolor=\"#eeeeee\", color=\"#777777\"";
  } else if (value.kind == Value::Kind::foreign) {
    label = text('%', index, " = ", foreign_text(value), '\n', sized_text(graph, value.dtype, value.axes));
  } else {
    label = text('%', index, " = ", name_of(value.op), operands_text(graph, value), '\n',
                 sized_text(graph, value.dtype, value.axes));
  }
  return text("v", index, " [label=", quoted(label), style, "];\n");
}

}  // namespace

std::string CanonicalGraph::to_dot(const std::vector<Region>& regions) const {
  std::string result =
      "digraph stiletto {\n  rankdir=TB;\n  graph [fontname=\"monospace\", fontsize=11, labeljust=l];\n"
      "  node [shape=box, style=filled, fillcolor=white, fontname=\"monospace\", fontsize=11];\n"
      "  edge [color=\"#555555\", arrowsize=0.7];\n";
  std::vector<bool> placed(values.size());
  for (std::size_t r = 0; r < regions.size(); ++r) {
    if (regions[r].values.empty()) continue;
    result += text("  subgraph cluster_", r, " {\n    label=", quoted(regions[r].label),
                   ";\n    style=\"rounded,dashed,filled\"; color=\"#c2410c\"; fillcolor=\"#fff7ed\";\n");
    for (std::uint32_t v : regions[r].values) {
      placed[v] = true;
      result += "    " + value_node(*this, v);
    }
    result += "  }\n";
  }
  for (std::size_t v = 0; v < values.size(); ++v)
    if (!placed[v]) result += "  " + value_node(*this, v);
  for (std::size_t s = 0; s < stores.size(); ++s)
    result += text("  s", s, " [label=", quoted(memory_label(*this, stores[s].tensor, stores[s].tensor.name)),
                   ", style=\"rounded,filled\", fillcolor=\"#dcfce7\", color=\"#15803d\", penwidth=2];\n");
  for (std::size_t v = 0; v < values.size(); ++v) {
    for (std::size_t k = 0; k < values[v].arity; ++k)
      result += text("  v", values[v].inputs[k], " -> v", v, ";\n");
    for (std::size_t read = 0; values[v].kind == Value::Kind::foreign && read < v; ++read)
      if (values[read].is_leaf()) result += text("  v", read, " -> v", v, ";\n");
  }
  for (std::size_t s = 0; s < stores.size(); ++s) result += text("  v", stores[s].value, " -> s", s, ";\n");
  return result + "}\n";
}

}  // namespace stiletto::detail
