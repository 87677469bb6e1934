// SPDX-License-Identifier: Apache-2.0
// A canonical graph as one line of arithmetic, as a person would write it: what profilers and logs call it.
#pragma once
#include <cstddef>
#include <string>

#include "compiler/canonical.hpp"

namespace stiletto::detail {

/// "gelu(matmul(arg0, arg1) + arg2)". A value that several others use is named first, and axes that are
/// summed are named, both as the canonical graph's text names them; results are named unless one array is all
/// that is made: "%1 = exp(arg0); %1 / sum(%1, over j)", "arg0 = arg0 + arg1". What is longer than `limit`
/// characters ends in "...".
std::string expression_text(const CanonicalGraph& graph, std::size_t limit = std::string::npos);

}  // namespace stiletto::detail
