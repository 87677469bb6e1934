// SPDX-License-Identifier: Apache-2.0
// Slots per family of operation, and the union of labels along edges.
#include "compiler/axis_labels.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace stiletto::detail {
namespace {

/// Operand axes against the trailing axes of a result.
std::vector<int> aligned(const Shape& operand, std::size_t rank, std::size_t skip_last = 0) {
  const std::size_t count = operand.size() - skip_last;
  std::vector<int> slots;
  slots.reserve(count);
  for (std::size_t i = 0; i < count; ++i)
    slots.push_back(operand[i] == 1 ? no_label : static_cast<int>(rank - count + i));
  return slots;
}

void add_reduction(const Trace& trace, const Node& node, Slots& slots) {
  const auto& attributes = std::get<ReductionAttributes>(node.attributes);
  const Shape& x = trace.nodes()[node.inputs[0]].shape;
  Edge edge{node.inputs[0], {}};
  std::size_t next_axis = 0, kept = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const bool reduced =
        next_axis < attributes.axes.size() && attributes.axes[next_axis] == static_cast<std::int64_t>(i);
    if (reduced) {
      ++next_axis;
      if (attributes.keep_dims) ++kept;
      edge.slots.push_back(x[i] == 1 ? no_label : static_cast<int>(slots.extents.size()));
      if (x[i] != 1) slots.extents.push_back(x[i]);
    } else {
      edge.slots.push_back(x[i] == 1 ? no_label : static_cast<int>(kept));
      ++kept;
    }
  }
  slots.edges.push_back(std::move(edge));
}

void add_matmul(const Trace& trace, const Node& node, Slots& slots) {
  const Shape &a = trace.nodes()[node.inputs[0]].shape, &b = trace.nodes()[node.inputs[1]].shape;
  const bool row = a.size() == 1, column = b.size() == 1;
  const std::int64_t k = a[a.size() - 1];
  const int contracted = k == 1 ? no_label : static_cast<int>(slots.extents.size());
  if (k != 1) slots.extents.push_back(k);
  const std::size_t batch = slots.rank - (row ? 0 : 1) - (column ? 0 : 1);
  auto slot = [](std::int64_t extent, std::size_t axis) {
    return extent == 1 ? no_label : static_cast<int>(axis);
  };
  Edge left{node.inputs[0], aligned(a, batch, row ? 1 : 2)};
  if (!row) left.slots.push_back(slot(a[a.size() - 2], batch));
  left.slots.push_back(contracted);
  Edge right{node.inputs[1], aligned(b, batch, column ? 1 : 2)};
  right.slots.push_back(contracted);
  if (!column) right.slots.push_back(slot(b[b.size() - 1], slots.rank - 1));
  slots.edges.push_back(std::move(left));
  slots.edges.push_back(std::move(right));
  if (node.arity == 3) slots.edges.push_back({node.inputs[2], aligned(node.shape, slots.rank)});
}

/// Every axis of an operand has a slot of its own, but for the first `shared`, which are the result's.
void add_operand(const Trace& trace, std::uint32_t operand, std::size_t shared, Slots& slots) {
  const Shape& shape = trace.nodes()[operand].shape;
  Edge edge{operand, {}};
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    const bool own = axis >= shared;
    edge.slots.push_back(shape[axis] == 1 ? no_label : static_cast<int>(own ? slots.extents.size() : axis));
    if (own) slots.extents.push_back(shape[axis]);
  }
  slots.edges.push_back(std::move(edge));
}

/// Elements lie as the matrices that they stand for; scales only have the batch's axes in common with them.
void add_block_scaling(const Trace& trace, const Node& node, Slots& slots) {
  if (node.op != Op::part) add_operand(trace, node.inputs[0], slots.rank, slots);
  if (node.op != Op::quantize) add_operand(trace, node.inputs[node.arity - 1U], slots.rank - 2, slots);
}

void add_structured(const Trace& trace, const Node& node, Slots& slots) {
  const Op op = node.op == Op::part ? trace.nodes()[node.inputs[0]].op : node.op;
  if (is_block_scaling(op)) return add_block_scaling(trace, node, slots);
  for (std::uint32_t input : node.operands()) add_operand(trace, input, 0, slots);
}

void add_reshape(const Trace& trace, const Node& node, Slots& slots) {
  Edge edge{node.inputs[0], {}};
  std::size_t axis = 0;
  for (std::int64_t extent : trace.nodes()[node.inputs[0]].shape) {
    if (extent == 1) {
      edge.slots.push_back(no_label);
      continue;
    }
    while (node.shape[axis] == 1) ++axis;
    edge.slots.push_back(static_cast<int>(axis++));
  }
  slots.edges.push_back(std::move(edge));
}

}  // namespace

Slots slots_of(const Trace& trace, std::uint32_t index) {
  const Node& node = trace.nodes()[index];
  Slots slots;
  slots.rank = node.shape.size();
  slots.extents.assign(node.shape.begin(), node.shape.end());
  switch (row_of(node.op).family) {
    case Family::pointwise:
    case Family::softmax:
      for (std::uint32_t input : node.operands())
        slots.edges.push_back({input, aligned(trace.nodes()[input].shape, slots.rank)});
      break;
    case Family::reduction:
      add_reduction(trace, node, slots);
      break;
    case Family::matmul:
      add_matmul(trace, node, slots);
      break;
    case Family::structured:
    case Family::part:
      add_structured(trace, node, slots);
      break;
    case Family::layout:
      if (node.op == Op::reshape)
        add_reshape(trace, node, slots);
      else
        slots.edges.push_back({node.inputs[0], {}});  // fill's number
      break;
    case Family::leaf:
      break;
  }
  return slots;
}

AxisLabels::AxisLabels(const Trace& trace, std::vector<Slots> nodes) : nodes_(std::move(nodes)) {
  for (const Slots& slots : nodes_) {
    first_.push_back(static_cast<int>(extents_.size()));
    for (std::int64_t extent : slots.extents) {
      extents_.push_back(extent);
      members_.push_back({static_cast<std::uint32_t>(first_.size() - 1)});
    }
  }
  parent_.resize(extents_.size());
  std::iota(parent_.begin(), parent_.end(), 0);
  // Computed operands first: computing a value twice costs more than naming a leaf twice.
  for (const bool leaves : {false, true})
    for (std::uint32_t user = 0; user < nodes_.size(); ++user)
      for (const Edge& edge : nodes_[user].edges)
        if (trace.is_leaf_or_view(edge.operand) == leaves) try_join(user, edge);
}

void AxisLabels::tie(std::uint32_t a, std::uint32_t b) {
  Edge edge{b, std::vector<int>(nodes_[b].extents.size())};
  std::iota(edge.slots.begin(), edge.slots.end(), 0);
  try_join(a, edge);
}

int AxisLabels::find(int label) const {
  while (parent_[static_cast<std::size_t>(label)] != label) label = parent_[static_cast<std::size_t>(label)];
  return label;
}

bool AxisLabels::would_collide(int a, int b) const {
  const auto& x = members_[static_cast<std::size_t>(a)];
  const auto& y = members_[static_cast<std::size_t>(b)];
  return std::find_first_of(x.begin(), x.end(), y.begin(), y.end()) != x.end();
}

void AxisLabels::try_join(std::uint32_t user, const Edge& edge) {
  // All axes of the edge or none: half a join would restrict later ones and share nothing.
  struct Join {
    int kept, absorbed;
    std::size_t members_before;
  };
  std::vector<Join> done;
  for (std::size_t axis = 0; axis < edge.slots.size(); ++axis) {
    if (edge.slots[axis] == no_label) continue;
    int a = find(first_[user] + edge.slots[axis]);
    int b = find(first_[edge.operand] + static_cast<int>(axis));
    if (a == b) continue;
    if (members_[static_cast<std::size_t>(a)].size() < members_[static_cast<std::size_t>(b)].size())
      std::swap(a, b);
    auto& into = members_[static_cast<std::size_t>(a)];
    const auto& from = members_[static_cast<std::size_t>(b)];
    if (would_collide(a, b)) {
      for (; !done.empty(); done.pop_back()) {
        parent_[static_cast<std::size_t>(done.back().absorbed)] = done.back().absorbed;
        members_[static_cast<std::size_t>(done.back().kept)].resize(done.back().members_before);
      }
      return;
    }
    done.push_back({a, b, into.size()});
    parent_[static_cast<std::size_t>(b)] = a;
    into.insert(into.end(), from.begin(), from.end());
  }
}

std::vector<int> AxisLabels::labels(std::uint32_t node) const {
  std::vector<int> result;
  result.reserve(nodes_[node].extents.size());
  for (std::size_t i = 0; i < nodes_[node].extents.size(); ++i)
    result.push_back(nodes_[node].extents[i] == 1 ? no_label : find(first_[node] + static_cast<int>(i)));
  return result;
}

int AxisLabels::fresh(std::int64_t extent) {
  extents_.push_back(extent);
  parent_.push_back(static_cast<int>(parent_.size()));
  members_.emplace_back();
  return parent_.back();
}

}  // namespace stiletto::detail
