// SPDX-License-Identifier: Apache-2.0
// Naming the axes of a trace for index notation. Every node has slots: one per axis of its result and one per
// axis it sums over. Slots that an operation walks together share a label, so that a value used twice is one
// value; where sharing would make two axes of one node the same (x·x with x square), the edge stays open and
// its operand is instantiated anew.
#pragma once
#include <cstdint>
#include <vector>

#include "graph/trace.hpp"

namespace stiletto::detail {

inline constexpr int no_label = -1;  // an extent of 1

/// One use of a value: for each axis of the operand, the user's slot, or no_label for an extent of 1.
struct Edge {
  std::uint32_t operand;
  std::vector<int> slots;
};

/// A node of the trace or a store, as a set of slots.
struct Slots {
  std::vector<std::int64_t> extents;  // the result's axes first, then contracted ones
  std::vector<Edge> edges;
  std::size_t rank = 0;
};

/// The slots of a trace node; leaves have no edges. Layout nodes on computed values differ in extents of 1
/// only.
Slots slots_of(const Trace& trace, std::uint32_t node);

class AxisLabels {
 public:
  /// `nodes[i]` are the slots of node i (empty for dead nodes); stores come after the trace's nodes.
  AxisLabels(const Trace& trace, std::vector<Slots> nodes);
  /// Joins the slots of two nodes of equal extents one by one, unless some node has two of a pair.
  void tie(std::uint32_t a, std::uint32_t b);
  const Slots& slots(std::uint32_t node) const { return nodes_[node]; }
  /// Labels of all slots of a node.
  std::vector<int> labels(std::uint32_t node) const;
  int fresh(std::int64_t extent);
  std::int64_t extent(int label) const { return extents_[static_cast<std::size_t>(label)]; }

 private:
  int find(int label) const;
  bool would_collide(int a, int b) const;
  void try_join(std::uint32_t user, const Edge& edge);

  std::vector<Slots> nodes_;
  std::vector<int> first_;   // node → label of its first slot
  std::vector<int> parent_;  // union-find
  std::vector<std::int64_t> extents_;
  std::vector<std::vector<std::uint32_t>> members_;  // root label → nodes that have it
};

}  // namespace stiletto::detail
