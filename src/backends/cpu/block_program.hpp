// SPDX-License-Identifier: Apache-2.0
// Running one phase's code over a range of a group, block by block.
#pragma once
#include "backends/cpu/loop.hpp"

namespace stiletto::detail::cpu {

inline constexpr std::size_t max_loop_axes = 64;  // of one value: its rank, and what it sums over

/// Where one group's areas lie, and what part of the space it is.
struct Group {
  std::byte* blocks;
  std::byte* accumulators;
  std::byte* rows;
  std::byte* cache;
  const std::int64_t* extents;    // of the space, the split axis restricted
  std::int64_t split_offset = 0;  // first index of the split axis
  std::int64_t row_base = 0;      // kept index of the group's first row, taken off row positions
  std::int64_t first = 0;         // element of the space with which the group's cache begins
};

/// Elements [begin, end) of the loop's space; of the kept space when `rows`.
void run_program(const Loop& loop, const Program& program, const Invocation& invocation, std::byte* workspace,
                 const Group& group, bool rows, std::int64_t begin, std::int64_t end);

}  // namespace stiletto::detail::cpu
