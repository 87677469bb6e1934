// SPDX-License-Identifier: Apache-2.0
// How a diagnosis speaks of parts of a graph: in the letters and names of the graph's text, which stands
// below it in the error.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "compiler/canonical.hpp"

namespace stiletto::detail::cudnn {

/// "gelu(matmul(arg0, arg1, over k)) (operations 2 and 3), where arg0 is float16[i=64,k=128] and …"; of many
/// operations only the first and the last are named.
std::string part_text(const CanonicalGraph& graph, const std::vector<std::uint32_t>& operations);

/// "matmul (operation 3)", by the position that errors of tracing have.
std::string operation_name(const CanonicalGraph& graph, std::uint32_t value);

/// A cast that no trace has: what canonicalize rounds a computed operand of a product by.
bool is_rounding(const Value& value);

/// "(128, 1)", outermost axis of the graph first.
std::string strides_list(const CanonicalGraph& graph, const Tensor& tensor);

/// "a, b and c"
std::string listed(const std::vector<std::string>& parts);

}  // namespace stiletto::detail::cudnn
