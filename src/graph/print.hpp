// SPDX-License-Identifier: Apache-2.0
// Text shared by the dumps of the trace and of the canonical graph.
#pragma once
#include <string>

#include "graph/attributes.hpp"
#include "graph/op.hpp"

namespace stiletto::detail {

/// ", axes=(1)" and the like; empty for an operation without attributes.
std::string attributes_text(Op op, const Attributes& attributes);

}  // namespace stiletto::detail
