// SPDX-License-Identifier: Apache-2.0
// Permuted and reshaped results. A permute or reshape of a computed value never moves data: it says how the
// value that lies under it is written. This peels such nodes off and carries the memory layout down to that
// value.
#pragma once
#include <cstdint>
#include <optional>

#include "graph/trace.hpp"

namespace stiletto::detail {

struct FinalLayout {
  std::uint32_t value;  // neither permute nor reshape
  Strides strides;      // of the memory, per axis of the value; meaningless for extents of 1
};

/// `strides` are the memory's, per axis of `node`. Nullopt when a reshape does not fit that memory.
std::optional<FinalLayout> peel_layout(const Trace& trace, std::uint32_t node, Strides strides);

/// Whether the two shapes differ only in extents of 1.
bool same_but_ones(const Shape& a, const Shape& b);

/// Strides of `shape` carried to `target`, which differs from it in extents of 1 only.
Strides strides_across_ones(const Shape& shape, const Strides& strides, const Shape& target);

}  // namespace stiletto::detail
