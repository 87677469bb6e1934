// SPDX-License-Identifier: Apache-2.0
// The axes of a canonical graph: ordered by the results' memory, walked forwards, merged where every tensor
// walks them as one, and renumbered.
#include <algorithm>
#include <numeric>

#include "compiler/canonicalize.hpp"
#include "core/dtype_info.hpp"

namespace stiletto::detail {
namespace {

template <class F>
void for_each_tensor(CanonicalGraph& graph, const F& f) {
  for (Tensor& tensor : graph.tensors) f(tensor);
  for (Store& store : graph.stores) f(store.tensor);
}

/// Axes of the results first, in the order of their memory; then the others, in the order of the inputs'.
std::vector<std::size_t> axis_order(const CanonicalGraph& graph) {
  std::vector<std::size_t> order;
  auto append = [&](const Tensor& tensor) {
    std::vector<std::size_t> axes;
    for (std::size_t axis = 0; axis < graph.extents.size(); ++axis)
      if ((tensor.axes & axis_bit(axis)) != 0) axes.push_back(axis);
    std::stable_sort(axes.begin(), axes.end(), [&](std::size_t x, std::size_t y) {
      return std::abs(tensor.strides[x]) > std::abs(tensor.strides[y]);
    });
    for (std::size_t axis : axes)
      if (std::find(order.begin(), order.end(), axis) == order.end()) order.push_back(axis);
  };
  for (const Store& store : graph.stores) append(store.tensor);
  for (const Tensor& tensor : graph.tensors) append(tensor);
  for (std::size_t axis = 0; axis < graph.extents.size(); ++axis)
    if (std::find(order.begin(), order.end(), axis) == order.end()) order.push_back(axis);
  return order;
}

AxisMask permuted(AxisMask mask, const std::vector<std::size_t>& order) {
  AxisMask result = 0;
  for (std::size_t i = 0; i < order.size(); ++i)
    if ((mask & axis_bit(order[i])) != 0) result |= axis_bit(i);
  return result;
}

/// Axis i becomes what order[i] was; axes that `order` leaves out vanish.
void renumber(CanonicalGraph& graph, const std::vector<std::size_t>& order) {
  std::vector<std::int64_t> extents;
  for (std::size_t axis : order) extents.push_back(graph.extents[axis]);
  for (Value& value : graph.values) {
    value.axes = permuted(value.axes, order);
    value.contracted = permuted(value.contracted, order);
  }
  for_each_tensor(graph, [&](Tensor& tensor) {
    std::vector<std::int64_t> strides;
    for (std::size_t axis : order) strides.push_back(tensor.strides[axis]);
    tensor.axes = permuted(tensor.axes, order);
    tensor.strides = std::move(strides);
  });
  graph.extents = std::move(extents);
}

/// An axis that no tensor walks forwards is walked the other way, from the other end.
void flip(CanonicalGraph& graph) {
  for (std::size_t axis = 0; axis < graph.extents.size(); ++axis) {
    bool backwards = false, forwards = false;
    for_each_tensor(graph, [&](const Tensor& tensor) {
      backwards = backwards || tensor.strides[axis] < 0;
      forwards = forwards || tensor.strides[axis] > 0;
    });
    if (!backwards || forwards) continue;
    for_each_tensor(graph, [&](Tensor& tensor) {
      tensor.offset += tensor.strides[axis] * (graph.extents[axis] - 1);
      tensor.strides[axis] = -tensor.strides[axis];
      while (byte_offset(tensor.dtype, tensor.offset) % tensor.alignment != 0) tensor.alignment /= 2;
    });
  }
}

bool mergeable(const CanonicalGraph& graph, std::size_t outer, std::size_t inner) {
  const AxisMask pair = axis_bit(outer) | axis_bit(inner);
  auto both_or_neither = [&](AxisMask mask) { return (mask & pair) == 0 || (mask & pair) == pair; };
  auto walks_as_one = [&](const Tensor& tensor) {
    return both_or_neither(tensor.axes) &&
           tensor.strides[outer] == tensor.strides[inner] * graph.extents[inner];
  };
  return std::all_of(
             graph.values.begin(), graph.values.end(),
             [&](const Value& v) { return both_or_neither(v.axes) && both_or_neither(v.contracted); }) &&
         std::all_of(graph.tensors.begin(), graph.tensors.end(), walks_as_one) &&
         std::all_of(graph.stores.begin(), graph.stores.end(),
                     [&](const Store& s) { return walks_as_one(s.tensor); });
}

/// Merges `outer` into `inner`; the caller drops `outer`.
bool merge_one(CanonicalGraph& graph, std::vector<bool>& gone) {
  for (std::size_t outer = 0; outer < graph.extents.size(); ++outer)
    for (std::size_t inner = 0; inner < graph.extents.size(); ++inner) {
      if (outer == inner || gone[outer] || gone[inner] || !mergeable(graph, outer, inner)) continue;
      graph.extents[inner] *= graph.extents[outer];
      gone[outer] = true;
      return true;
    }
  return false;
}

}  // namespace

std::int64_t CanonicalGraph::size_of(AxisMask axes) const {
  std::int64_t size = 1;
  for (std::size_t axis = 0; axis < extents.size(); ++axis)
    if ((axes & axis_bit(axis)) != 0) size *= extents[axis];
  return size;
}

void canonicalize_axes(CanonicalGraph& graph) {
  for_each_tensor(graph, [&](Tensor& tensor) { tensor.strides.resize(graph.extents.size()); });
  renumber(graph, axis_order(graph));
  flip(graph);
  std::vector<bool> gone(graph.extents.size());
  while (merge_one(graph, gone)) {
  }
  AxisMask used = 0;
  for (const Value& value : graph.values) used |= value.axes | value.contracted;
  for (const Store& store : graph.stores) used |= store.tensor.axes;
  std::vector<std::size_t> kept;
  for (std::size_t axis = 0; axis < graph.extents.size(); ++axis)
    if (!gone[axis] && (used & axis_bit(axis)) != 0) kept.push_back(axis);
  renumber(graph, kept);
}

bool reads_at_own_index(const CanonicalGraph& graph, std::size_t tensor, std::size_t store) {
  const AxisMask axes = graph.stores[store].tensor.axes;
  if (graph.tensors[tensor].axes != axes) return false;
  std::vector<bool> reads(graph.values.size()), depends(graph.values.size());
  for (std::size_t i = 0; i < graph.values.size(); ++i) {
    const Value& value = graph.values[i];
    if (value.kind == Value::Kind::tensor) reads[i] = depends[i] = value.source == tensor;
    if (value.kind != Value::Kind::operation) continue;
    for (std::size_t k = 0; k < value.arity; ++k) {
      if (!depends[value.inputs[k]]) continue;
      const bool elementwise =
          row_of(value.op).family == Family::pointwise || (value.op == Op::matmul && k == 2);
      const bool after_store =
          reads[value.inputs[k]] && value.trace_position >= graph.stores[store].trace_position;
      if (!elementwise || value.axes != axes || after_store) return false;
      depends[i] = true;
    }
  }
  for (std::size_t s = 0; s < graph.stores.size(); ++s) {
    const Store& other = graph.stores[s];
    // A broadcast by another store would read the value once more, elsewhere; a later store of the tensor
    // itself, late.
    if (depends[other.value] && other.tensor.axes != axes) return false;
    if (s != store && reads[other.value] && other.trace_position >= graph.stores[store].trace_position)
      return false;
  }
  return true;
}

}  // namespace stiletto::detail
