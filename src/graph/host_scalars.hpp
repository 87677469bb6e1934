// SPDX-License-Identifier: Apache-2.0
// Arithmetic among numbers, done on the host: in double and 64-bit integers, so that it is the same on every
// backend.
#pragma once
#include <span>

#include "core/scalar_value.hpp"
#include "graph/trace.hpp"

namespace stiletto::detail {

/// The value of one pointwise operation on numbers, rounded to node.dtype where that is not a weak type.
ScalarValue evaluate_scalar(const Node& node, std::span<const ScalarValue> operands);

}  // namespace stiletto::detail
