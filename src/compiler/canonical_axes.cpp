// SPDX-License-Identifier: Apache-2.0
// The axes of a canonical graph: ordered by the results' memory, walked forwards, merged where every tensor
// walks them as one, and renumbered.
#include <algorithm>
#include <map>

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
  AxisMask placed;
  auto place = [&](std::size_t axis) {
    if (!placed.test(axis)) order.push_back(axis);
    placed.set(axis);
  };
  auto append = [&](const Tensor& tensor) {
    std::vector<std::size_t> axes;
    for (std::size_t axis = 0; axis < graph.extents.size(); ++axis)
      if (tensor.axes.test(axis)) axes.push_back(axis);
    std::stable_sort(axes.begin(), axes.end(), [&](std::size_t x, std::size_t y) {
      return std::abs(tensor.strides[x]) > std::abs(tensor.strides[y]);
    });
    for (std::size_t axis : axes) place(axis);
  };
  for (const Store& store : graph.stores) append(store.tensor);
  for (const Tensor& tensor : graph.tensors) append(tensor);
  for (std::size_t axis = 0; axis < graph.extents.size(); ++axis) place(axis);
  return order;
}

AxisMask permuted(const AxisMask& mask, const std::vector<std::size_t>& order) {
  AxisMask result;
  if (!mask.any()) return result;
  for (std::size_t i = 0; i < order.size(); ++i)
    if (mask.test(order[i])) result.set(i);
  return result;
}

int position_in(const std::vector<std::size_t>& order, int axis) {
  const auto found = std::find(order.begin(), order.end(), static_cast<std::size_t>(axis));
  return static_cast<int>(found - order.begin());
}

/// Axis i becomes what order[i] was; axes that `order` leaves out vanish.
void renumber(CanonicalGraph& graph, const std::vector<std::size_t>& order) {
  std::vector<std::int64_t> extents;
  extents.reserve(order.size());
  for (std::size_t axis : order) extents.push_back(graph.extents[axis]);
  for (Value& value : graph.values) {
    value.axes = permuted(value.axes, order);
    value.contracted = permuted(value.contracted, order);
    for (AxisList& layout : value.layouts)
      for (int& axis : layout) axis = axis < 0 ? -1 : position_in(order, axis);
  }
  for_each_tensor(graph, [&](Tensor& tensor) {
    std::vector<std::int64_t> strides;
    strides.reserve(order.size());
    for (std::size_t axis : order) strides.push_back(tensor.strides[axis]);
    tensor.axes = permuted(tensor.axes, order);
    tensor.strides = std::move(strides);
  });
  graph.extents = std::move(extents);
}

/// The axes of structured operations, which neither change their direction nor merge; of block scaling those
/// of the matrices.
AxisMask fixed_axes(const CanonicalGraph& graph) {
  AxisMask fixed;
  for (const Value& value : graph.values) {
    const bool matrices =
        is_block_scaling(value.op == Op::part ? graph.values[value.inputs[0]].op : value.op);
    for (const AxisList& layout : value.layouts)
      for (std::size_t i = matrices ? layout.size() - 2 : 0; i < layout.size(); ++i)
        if (layout[i] >= 0) fixed.set(static_cast<std::size_t>(layout[i]));
  }
  return fixed;
}

/// In the layouts what has merged into another has extent 1.
void drop_from_layouts(CanonicalGraph& graph, std::size_t axis) {
  for (Value& value : graph.values)
    for (AxisList& layout : value.layouts)
      std::replace(layout.begin(), layout.end(), static_cast<int>(axis), -1);
}

/// An axis that no tensor walks forwards is walked the other way, from the other end.
void flip(CanonicalGraph& graph) {
  const AxisMask fixed = fixed_axes(graph);
  for (std::size_t axis = 0; axis < graph.extents.size(); ++axis) {
    if (fixed.test(axis)) continue;
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

/// Of two axes that are in the same values and tensors: whether all walk them as one.
bool mergeable(const CanonicalGraph& graph, std::size_t outer, std::size_t inner) {
  auto walks_as_one = [&](const Tensor& tensor) {
    std::int64_t whole = 0;
    return !__builtin_mul_overflow(tensor.strides[inner], graph.extents[inner], &whole) &&
           tensor.strides[outer] == whole;
  };
  return std::all_of(graph.tensors.begin(), graph.tensors.end(), walks_as_one) &&
         std::all_of(graph.stores.begin(), graph.stores.end(),
                     [&](const Store& s) { return walks_as_one(s.tensor); });
}

/// The axes in groups, each of axes that are in the same values and tensors: only those can merge.
std::vector<std::vector<std::size_t>> axes_used_alike(const CanonicalGraph& graph) {
  std::vector<std::vector<std::size_t>> uses(graph.extents.size());  // per axis, the masks that have it
  std::size_t mask_index = 0;
  auto note = [&](const AxisMask& mask) {
    for (std::size_t axis = 0; axis < mask.size(); ++axis)
      if (mask.test(axis)) uses[axis].push_back(mask_index);
    ++mask_index;
  };
  for (const Value& value : graph.values) {
    note(value.axes);
    note(value.contracted);
  }
  for (const Tensor& tensor : graph.tensors) note(tensor.axes);
  for (const Store& store : graph.stores) note(store.tensor.axes);
  const AxisMask fixed = fixed_axes(graph);
  std::map<std::vector<std::size_t>, std::vector<std::size_t>> groups;
  for (std::size_t axis = 0; axis < uses.size(); ++axis)
    if (!fixed.test(axis)) groups[uses[axis]].push_back(axis);
  std::vector<std::vector<std::size_t>> result;
  result.reserve(groups.size());
  for (auto& [use, axes] : groups) result.push_back(std::move(axes));
  return result;
}

/// Merges one axis of a group into another, and drops it from the group.
bool merge_one(CanonicalGraph& graph, std::vector<std::size_t>& group, std::vector<bool>& gone) {
  for (std::size_t outer : group)
    for (std::size_t inner : group) {
      if (outer == inner || !mergeable(graph, outer, inner)) continue;
      graph.extents[inner] *= graph.extents[outer];
      gone[outer] = true;
      drop_from_layouts(graph, outer);
      std::erase(group, outer);
      return true;
    }
  return false;
}

}  // namespace

std::int64_t CanonicalGraph::size_of(const AxisMask& axes) const {
  std::int64_t size = 1;
  for (std::size_t axis = 0; axis < extents.size(); ++axis)
    if (axes.test(axis)) size *= extents[axis];
  return size;
}

void canonicalize_axes(CanonicalGraph& graph) {
  for_each_tensor(graph, [&](Tensor& tensor) { tensor.strides.resize(graph.extents.size()); });
  renumber(graph, axis_order(graph));
  flip(graph);
  std::vector<bool> gone(graph.extents.size());
  for (std::vector<std::size_t>& group : axes_used_alike(graph))
    while (merge_one(graph, group, gone)) {
    }
  AxisMask used;
  for (const Value& value : graph.values) used |= value.axes | value.contracted;
  for (const Store& store : graph.stores) used |= store.tensor.axes;
  std::vector<std::size_t> kept;
  for (std::size_t axis = 0; axis < graph.extents.size(); ++axis)
    if (!gone[axis] && used.test(axis)) kept.push_back(axis);
  renumber(graph, kept);
}

bool reads_at_own_index(const CanonicalGraph& graph, std::size_t tensor, std::size_t store) {
  const AxisMask& axes = graph.stores[store].tensor.axes;
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
