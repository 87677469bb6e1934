// SPDX-License-Identifier: Apache-2.0
// What stands between a value and the memory that it is written to.
#pragma once
#include <cstdint>
#include <vector>

#include "backends/cudnn/graph_builder.hpp"
#include "compiler/canonical.hpp"

namespace stiletto::detail::cudnn {

/// Rounding to a narrower float happens in the store itself; everything else is nodes. `logical`: the value's
/// dtype, of which `x` is what it is held in.
bool needs_conversion(const EngineTensor& x, DType logical, DType to);

/// Whether the store may take the place of `x` itself: writing it at `dtype` rounds as often as our rules
/// say. A value that was cast to another type first keeps that step, and one that others read, among them
/// others of the values that are `stored`, is not narrowed for them.
bool can_become_output(const GraphBuilder& builder, std::uint32_t x, DType dtype,
                       const std::vector<std::uint32_t>& stored);

}  // namespace stiletto::detail::cudnn
