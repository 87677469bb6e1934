// SPDX-License-Identifier: Apache-2.0
// The shape of a loop: the order of its axes, how operands move through it, and how it is cut into groups.
#pragma once
#include "backends/cpu/loop.hpp"

namespace stiletto::detail::cpu {

/// Axes of `space`, outermost first, by the memory order of the operands named first.
std::vector<std::size_t> loop_order(AxisMask space,
                                    const std::vector<const std::vector<std::int64_t>*>& by_priority);
/// Axes, extents, sizes and row strides.
void set_geometry(Loop& loop, const CanonicalGraph& graph, AxisMask space, AxisMask kept,
                  const std::vector<const std::vector<std::int64_t>*>& by_priority);
/// Groups: large enough to be worth a task, small enough that later phases find their rows in cache.
/// Independent of the number of threads but for the choice to cut rows or columns into chunks, whose merge is
/// in a fixed order.
void set_split(Loop& loop, AxisMask kept, std::size_t phases);
/// Whether a group's values may be kept from one phase to the next.
bool can_cache(const Loop& loop);

Access access_of(const Loop& loop, const std::vector<std::int64_t>& graph_strides);
Access row_space_access(const Loop& loop, const std::vector<std::int64_t>& graph_strides);
/// Sets linear and constant. `whole_ranges`: the space is walked in ranges of its own order.
void finish_access(Access& access, const std::vector<std::int64_t>& extents, bool whole_ranges);

}  // namespace stiletto::detail::cpu
