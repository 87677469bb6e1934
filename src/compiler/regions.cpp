// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "compiler/backend.hpp"

namespace stiletto::detail {

std::vector<Region> Plan::regions(const CanonicalGraph& graph) const {
  Region whole;
  const std::string plan = describe();  // lines behind the first say more about it
  const std::size_t begin = std::min(plan.find_first_not_of(' '), plan.size());
  whole.label = plan.substr(begin, plan.find('\n', begin) - begin);
  for (std::uint32_t v = 0; v < graph.values.size(); ++v)
    if (!graph.values[v].is_leaf()) whole.values.push_back(v);
  return {std::move(whole)};
}

}  // namespace stiletto::detail
