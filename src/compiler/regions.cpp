// SPDX-License-Identifier: Apache-2.0
#include "compiler/backend.hpp"

namespace stiletto::detail {

std::vector<Region> Plan::regions(const CanonicalGraph& graph) const {
  Region whole;
  whole.label = describe();
  whole.label.erase(0, whole.label.find_first_not_of(' '));
  whole.label.erase(whole.label.find_last_not_of('\n') + 1);
  for (std::uint32_t v = 0; v < graph.values.size(); ++v)
    if (graph.values[v].kind == Value::Kind::operation) whole.values.push_back(v);
  return {std::move(whole)};
}

}  // namespace stiletto::detail
