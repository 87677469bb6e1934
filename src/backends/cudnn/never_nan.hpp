// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

#include "compiler/canonical.hpp"

namespace stiletto::detail::cudnn {

/// Whether a value is no NaN whatever the graph reads: a number, integers, and what NaN was taken out of, as
/// by where(x == x, x, 0).
bool is_never_nan(const CanonicalGraph& graph, std::uint32_t index);

}  // namespace stiletto::detail::cudnn
