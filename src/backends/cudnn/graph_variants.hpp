// SPDX-License-Identifier: Apache-2.0
// Graphs that differ from a canonical graph in one thing: a part of it, or all of it with other memory,
// extents or dtypes. What diagnosis.hpp asks about; nothing here is ever run.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "compiler/canonical.hpp"

namespace stiletto::detail::cudnn {

/// What a part of a graph consists of: a flag per value and per store.
struct PartChoice {
  std::vector<bool> inside;   // operations that the part computes
  std::vector<bool> results;  // of those, what it writes to memory of its own, beside the stores
  std::vector<bool> stores;   // of values inside, or of tensors and numbers
};

/// Operands that the part does not compute itself it reads from contiguous memory of their dtype, by the name
/// that they have in the graph's text ("%3"); its results go to memory of that kind.
CanonicalGraph part_of(const CanonicalGraph& graph, const PartChoice& choice);

/// Tensors of `from` become tensors of `to`, and everything computed of them follows. Nullopt where an
/// operation does not take the type.
std::optional<CanonicalGraph> retyped(const CanonicalGraph& graph, DType from, DType to);

/// Makes an axis longer: packed memory stays packed, gaps stay where they are.
void extend(CanonicalGraph& graph, std::size_t axis, std::int64_t extent);

/// Everything in memory: tensors that are read, then those that are written.
inline std::size_t memory_count(const CanonicalGraph& graph) {
  return graph.tensors.size() + graph.stores.size();
}
template <class Graph>  // CanonicalGraph, const or not
auto& memory_at(Graph& graph, std::size_t i) {
  return i < graph.tensors.size() ? graph.tensors[i] : graph.stores[i - graph.tensors.size()].tensor;
}

/// The axes of a tensor in the order of its memory, outermost first.
std::vector<std::size_t> memory_order(const Tensor& tensor);
/// One per axis of the graph, for memory without gaps, of which the axes lie in this order.
std::vector<std::int64_t> packed_strides(const std::vector<std::int64_t>& extents,
                                         const std::vector<std::size_t>& order);
/// Memory of its own of that kind.
void pack(Tensor& tensor, const std::vector<std::int64_t>& extents, const std::vector<std::size_t>& order);
bool is_packed(const Tensor& tensor, const std::vector<std::int64_t>& extents,
               const std::vector<std::size_t>& order);

}  // namespace stiletto::detail::cudnn
