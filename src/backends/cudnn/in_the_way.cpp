// SPDX-License-Identifier: Apache-2.0
// Tries what the graph would be if memory lay otherwise.
#include "backends/cudnn/in_the_way.hpp"

#include <algorithm>
#include <functional>

#include "backends/cudnn/geometry.hpp"
#include "backends/cudnn/graph_variants.hpp"
#include "backends/cudnn/lower.hpp"
#include "backends/cudnn/part_text.hpp"
#include "compiler/canonicalize.hpp"
#include "core/text.hpp"

namespace stiletto::detail::cudnn {
namespace {

constexpr std::size_t dimensions = 3;  // that all engines take

bool has_product(const CanonicalGraph& graph) {
  return std::any_of(graph.values.begin(), graph.values.end(), [](const Value& value) {
    return value.kind == Value::Kind::operation && value.op == Op::matmul;
  });
}

bool can_be_lowered(const CanonicalGraph& graph, const Geometry& way) {
  try {
    lower(graph, way);
  } catch (const NotLowered&) {
    return false;
  }
  return true;
}

/// Whether the axes fit, the innermost of a graph without products is contiguous wherever it is, and nothing
/// else is refused.
bool is_simple(CanonicalGraph graph) {
  canonicalize_axes(graph);
  std::string refusal;
  const std::vector<Geometry> ways = geometries(graph, refusal);
  if (ways.empty() || ways.front().space.size() > dimensions) return false;
  if (std::none_of(ways.begin(), ways.end(), [&](const Geometry& way) { return can_be_lowered(graph, way); }))
    return false;
  if (has_product(graph) || graph.extents.empty()) return true;
  for (std::size_t i = 0; i < memory_count(graph); ++i) {
    const Tensor& t = memory_at(graph, i);
    if (t.axes.test(graph.extents.size() - 1) && t.strides.back() != 1) return false;
  }
  return true;
}

/// As a copy would lie: contiguous, its axes in the order of the results.
std::vector<std::int64_t> copied_strides(const Tensor& tensor, const std::vector<std::int64_t>& extents) {
  return packed_strides(extents, axes_of(tensor.axes, extents.size()));
}

/// The axes along which an operand could be repeated in memory instead of by the graph: all of them, but
/// beside a product only the batches that its results have.
AxisMask repeated(const CanonicalGraph& graph) {
  AxisMask all, kept;
  for (const Store& store : graph.stores) all |= store.tensor.axes;
  for (const Value& value : graph.values) {
    if (value.kind != Value::Kind::operation || value.op != Op::matmul) continue;
    const AxisMask left = graph.values[value.inputs[0]].axes, right = graph.values[value.inputs[1]].axes;
    for (const AxisMask& own : {left & ~right, right & ~left}) {
      const std::vector<std::size_t> axes = axes_of(own & ~value.contracted, graph.extents.size());
      if (!axes.empty()) kept.set(axes.back());
    }
  }
  return all & ~kept;
}

void repeat(CanonicalGraph& graph, std::size_t tensor, const AxisMask& axes) {
  graph.tensors[tensor].axes |= axes;
  graph.tensors[tensor].strides = copied_strides(graph.tensors[tensor], graph.extents);
  for (Value& value : graph.values) {
    if (value.kind == Value::Kind::tensor) value.axes = graph.tensors[value.source].axes;
    if (value.kind != Value::Kind::operation) continue;
    for (std::size_t i = 0; i < value.arity; ++i) value.axes |= graph.values[value.inputs[i]].axes;
    if (value.op != Op::softmax) value.axes &= ~value.contracted;
  }
}

std::string described(const CanonicalGraph& graph, const Tensor& tensor) {
  std::string extents, strides;
  for (std::size_t axis = 0; axis < graph.extents.size(); ++axis) {
    extents += text(axis == 0 ? "" : ",", tensor.axes.test(axis) ? graph.extents[axis] : 1);
    strides += text(axis == 0 ? "" : ",", tensor.strides[axis]);
  }
  return text(tensor.name, " (", tensor.dtype, '[', extents, "], strides [", strides, "])");
}

/// Names the fewest of `count` candidates with which `change` makes the graph simple: one, else all that
/// `matters` holds for; empty where even that is not enough.
/// `without`: the graph with them changed.
std::vector<std::size_t> culprits(const CanonicalGraph& graph, std::size_t count,
                                  const std::function<bool(std::size_t)>& matters,
                                  const std::function<void(CanonicalGraph&, std::size_t)>& change,
                                  CanonicalGraph& without) {
  std::vector<std::size_t> some;
  CanonicalGraph changed = graph;
  for (std::size_t i = 0; i < count; ++i) {
    if (!matters(i)) continue;
    CanonicalGraph one = graph;
    change(one, i);
    if (is_simple(one)) {
      without = std::move(one);
      canonicalize_axes(without);
      return {i};
    }
    change(changed, i);
    some.push_back(i);
  }
  if (!is_simple(changed)) return {};
  without = std::move(changed);
  canonicalize_axes(without);
  return some;
}

}  // namespace

std::string in_the_way(const CanonicalGraph& graph, CanonicalGraph& without) {
  if (is_simple(graph)) return "";
  const auto list = [&](const std::vector<std::size_t>& found) {
    std::vector<std::string> names;
    names.reserve(found.size());
    for (const std::size_t i : found) names.push_back(described(graph, memory_at(graph, i)));
    return listed(names);
  };
  const auto in_another_order = culprits(
      graph, memory_count(graph),
      [&](std::size_t i) {
        return memory_at(graph, i).strides != copied_strides(memory_at(graph, i), graph.extents);
      },
      [&](CanonicalGraph& changed, std::size_t i) {
        memory_at(changed, i).strides = copied_strides(memory_at(changed, i), graph.extents);
      },
      without);
  const bool one = in_another_order.size() == 1;
  if (!in_another_order.empty())
    return text("the strides of ", list(in_another_order), " keep its axes from merging: pass ",
                one ? "a copy" : "copies",
                " made outside the function, contiguous in the order of the result");
  const AxisMask axes = repeated(graph);
  const auto broadcast = culprits(
      graph, graph.tensors.size(),
      [&](std::size_t i) { return (graph.tensors[i].axes | axes) != graph.tensors[i].axes; },
      [&](CanonicalGraph& changed, std::size_t i) { repeat(changed, i, axes); }, without);
  if (!broadcast.empty())
    return text(list(broadcast), broadcast.size() == 1 ? " is" : " are",
                " broadcast along some of the axes and keep", broadcast.size() == 1 ? "s" : "",
                " them from merging: pass a copy of it made outside the function, of the shape that "
                "broadcast_to gives");
  return "";
}

}  // namespace stiletto::detail::cudnn
