// SPDX-License-Identifier: Apache-2.0
// The shape of a loop: the order of its axes, and how it is cut into groups.
#include "backends/cpu/loop_geometry.hpp"

#include <algorithm>
#include <cstdlib>

#include "core/parallel.hpp"
#include "core/text.hpp"

namespace stiletto::detail::cpu {
namespace {

constexpr std::int64_t cached_elements = 32768;  // of a group whose values stay in the second-level cache
constexpr std::int64_t group_elements = 16384;   // enough work to outweigh handing out a task
constexpr std::int64_t chunk_elements = 65536;
constexpr std::int64_t most_chunks = 64;
constexpr std::int64_t worth_chunking = 1 << 18;  // elements in a single row

std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
std::int64_t round_up(std::int64_t a, std::int64_t b) { return divide_up(a, b) * b; }

}  // namespace

Memory memory_of_store(const CanonicalGraph& graph, std::uint32_t store) {
  Memory memory;
  memory.home = Memory::Home::store;
  memory.index = store;
  memory.dtype = graph.stores[store].tensor.dtype;
  memory.strides = graph.stores[store].tensor.strides;
  return memory;
}

std::vector<std::size_t> loop_order(AxisMask space,
                                    const std::vector<const std::vector<std::int64_t>*>& by_priority) {
  std::vector<std::size_t> order;
  AxisMask placed = 0;
  for (const auto* strides : by_priority) {
    std::vector<std::size_t> axes;
    for (std::size_t axis = 0; axis < strides->size(); ++axis)
      if ((space & ~placed & axis_bit(axis)) != 0 && (*strides)[axis] != 0) axes.push_back(axis);
    std::stable_sort(axes.begin(), axes.end(), [&](std::size_t x, std::size_t y) {
      return std::abs((*strides)[x]) > std::abs((*strides)[y]);
    });
    // What only this operand walks is walked outside of what was placed before.
    order.insert(order.begin(), axes.begin(), axes.end());
    for (std::size_t axis : axes) placed |= axis_bit(axis);
  }
  for (std::size_t axis = 0; axis < space.size(); ++axis)
    if ((space & ~placed & axis_bit(axis)) != 0) order.insert(order.begin(), axis);
  return order;
}

void set_geometry(Loop& loop, const CanonicalGraph& graph, AxisMask space, AxisMask kept,
                  const std::vector<const std::vector<std::int64_t>*>& by_priority) {
  loop.axes = loop_order(space, by_priority);
  for (std::size_t axis : loop.axes) {
    loop.extents.push_back(graph.extents[axis]);
    loop.size *= loop.extents.back();
  }
  loop.row_strides.resize(loop.axes.size());
  for (std::size_t i = loop.axes.size(); i-- > 0;) {
    if ((kept & axis_bit(loop.axes[i])) == 0) continue;
    loop.row_strides[i] = loop.kept_size;
    loop.kept_size *= loop.extents[i];
  }
}

void set_split(Loop& loop, AxisMask kept, std::size_t phases) {
  auto is_kept = [&](std::size_t i) { return (kept & axis_bit(loop.axes[i])) != 0; };
  std::size_t prefix = 0;
  loop.leading = 1;
  while (prefix < loop.axes.size() && is_kept(prefix)) loop.leading *= loop.extents[prefix++];
  const bool reduces = loop.kept_size != loop.size;
  const std::int64_t row = loop.size / loop.leading;
  const auto few = static_cast<std::int64_t>(2 * thread_count());
  const bool chunkable = reduces && loop.size / loop.kept_size >= 2 && loop.size >= worth_chunking &&
                         loop.kept_size <= chunk_elements / 4;
  if (loop.leading > 1 && (!chunkable || loop.leading >= few)) {
    loop.split = Split::rows;
    loop.group = std::max<std::int64_t>(
        1, (reduces || phases > 1 ? group_elements
                                  : round_up(std::max(group_elements, loop.size / 256), block_size)) /
               row);
  } else {
    while (prefix < loop.axes.size() && !is_kept(prefix)) ++prefix;
    loop.split = Split::columns;
    loop.split_axis = prefix;
    const bool has_columns = prefix < loop.axes.size() && loop.leading == 1;
    loop.leading = has_columns ? loop.extents[prefix] : 1;
    const std::int64_t inner = loop.kept_size / loop.leading;  // kept elements per column
    const std::int64_t depth = loop.size / loop.kept_size;
    const std::int64_t width = phases > 1 ? std::clamp<std::int64_t>(cached_elements / depth, 16, 512) : 512;
    loop.group = std::max<std::int64_t>(1, std::min(width, divide_up(loop.kept_size, few)) / inner);
    if (loop.group * inner < 16) loop.group = std::max<std::int64_t>(1, 16 / inner);
    // In one phase whole rows are walked with their accumulators in cache; columns would jump from row to
    // row.
    if (chunkable && (phases == 1 || divide_up(loop.leading, loop.group) < few)) {
      loop.split = Split::chunks;
      loop.leading = loop.size;
      loop.group = round_up(std::max(chunk_elements, divide_up(loop.size, most_chunks)), block_size);
    } else if (!has_columns) {
      loop.split = Split::rows;
      loop.leading = loop.group = 1;
    }
  }
  loop.group = std::min(loop.group, loop.leading);
  loop.groups = divide_up(loop.leading, loop.group);
}

bool can_cache(const Loop& loop) {
  return loop.split != Split::chunks && loop.group * (loop.size / loop.leading) <= cached_elements;
}

Access access_of(const Loop& loop, const std::vector<std::int64_t>& graph_strides) {
  Access access;
  for (std::size_t axis : loop.axes) access.strides.push_back(graph_strides[axis]);
  finish_access(access, loop.extents, loop.split != Split::columns);
  return access;
}

Access row_space_access(const Loop& loop, const std::vector<std::int64_t>& graph_strides) {
  Access access;
  std::vector<std::int64_t> extents;
  for (std::size_t i = 0; i < loop.axes.size(); ++i) {
    if (loop.row_strides[i] == 0) continue;
    access.strides.push_back(graph_strides[loop.axes[i]]);
    extents.push_back(loop.extents[i]);
  }
  finish_access(access, extents, true);
  return access;
}

void finish_access(Access& access, const std::vector<std::int64_t>& extents, bool whole_ranges) {
  std::int64_t expected = 1;
  access.linear = whole_ranges;
  access.constant = true;
  for (std::size_t i = extents.size(); i-- > 0;) {
    access.linear = access.linear && access.strides[i] == expected;
    access.constant = access.constant && access.strides[i] == 0;
    expected *= extents[i];
  }
}

std::size_t Loop::tasks() const {
  return std::min<std::size_t>(static_cast<std::size_t>(groups), thread_count());
}

std::int64_t Loop::workspace() const {
  return shared_bytes() + static_cast<std::int64_t>(tasks()) * task_bytes();
}

std::string Loop::describe() const {
  std::size_t operations = 0;
  for (const Phase& phase : phases) operations += phase.full.code.size() + phase.row.code.size();
  const char* names[] = {"rows", "columns", "chunks"};
  return text("loop over ", size, " elements, ", operations, " block operations in ", phases.size(),
              phases.size() == 1 ? " phase, " : " phases, ", groups, " groups of ",
              names[static_cast<int>(split)]);
}

}  // namespace stiletto::detail::cpu
