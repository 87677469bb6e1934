// SPDX-License-Identifier: Apache-2.0
// Peeling permutes and reshapes off a result; see final_layout.hpp.
#include "graph/final_layout.hpp"

namespace stiletto::detail {

bool same_but_ones(const Shape& a, const Shape& b) {
  std::size_t i = 0, j = 0;
  for (;;) {
    while (i < a.size() && a[i] == 1) ++i;
    while (j < b.size() && b[j] == 1) ++j;
    if (i == a.size() || j == b.size()) return i == a.size() && j == b.size();
    if (a[i++] != b[j++]) return false;
  }
}

Strides strides_across_ones(const Shape& shape, const Strides& strides, const Shape& target) {
  Strides result = target;
  std::size_t i = 0;
  for (std::size_t j = 0; j < target.size(); ++j) {
    if (target[j] == 1) continue;
    while (shape[i] == 1) ++i;
    result[j] = strides[i++];
  }
  return canonical_strides(target, result);
}

std::optional<FinalLayout> peel_layout(const Trace& trace, std::uint32_t node, Strides strides) {
  for (;;) {
    const Node& n = trace.nodes()[node];
    if (n.op == Op::permute) {
      const Dims& axes = std::get<PermuteAttributes>(n.attributes).axes;
      Strides below = strides;
      for (std::size_t i = 0; i < axes.size(); ++i) below[static_cast<std::size_t>(axes[i])] = strides[i];
      strides = below;
    } else if (n.op == Op::reshape) {
      const Shape& below = trace.nodes()[n.inputs[0]].shape;
      const auto carried = same_but_ones(n.shape, below) ? strides_across_ones(n.shape, strides, below)
                                                         : reshape_strides(n.shape, strides, below);
      if (!carried) return std::nullopt;
      strides = *carried;
    } else {
      return FinalLayout{node, strides};
    }
    node = n.inputs[0];
  }
}

}  // namespace stiletto::detail
