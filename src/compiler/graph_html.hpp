// SPDX-License-Identifier: Apache-2.0
// A compiled graph as a page for a browser.
#pragma once
#include <string>
#include <vector>

#include "compiler/canonical.hpp"

namespace stiletto::detail {

/// One file that needs no other and no network. `plan` and `trace` are shown as text below the drawing.
std::string graph_html(const CanonicalGraph& graph, const std::vector<Region>& regions,
                       const std::string& device, const std::string& trace, const std::string& plan);

}  // namespace stiletto::detail
