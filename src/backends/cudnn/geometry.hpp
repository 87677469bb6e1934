// SPDX-License-Identifier: Apache-2.0
// How the axes of a canonical graph lie in the dimensions of a cuDNN graph. Engines take rank 3 (batch, rows,
// columns), so axes are placed by what the graph does with them, and a single long axis is cut into three.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compiler/canonical.hpp"

namespace stiletto::detail::cudnn {

/// One dimension: `extent` steps of `step` along an axis of the canonical graph; axis −1 has extent 1.
struct Part {
  int axis = -1;
  std::int64_t extent = 1;
  std::int64_t step = 1;
  bool operator==(const Part&) const = default;
};

/// The dimensions of one tensor, outermost first.
using Layout = std::vector<Part>;

/// How a graph without products becomes one with a product, whose engines take more than those for pointwise
/// graphs and reductions do.
enum class Carrier : std::uint8_t {
  none,
  ones,     // operands are multiplied by a product of ones, which is 1 everywhere
  gathers,  // operands in another order than the results are products with a single one
};

struct Geometry {
  std::string form;  // in words, for people
  Layout space;      // of results; (batch…, rows, columns)
  /// Set where sums are products with ones: what the product sums over. The rest of the summed axes lies in
  /// `space` and is reduced afterwards.
  std::optional<Part> summed;
  Carrier carrier = Carrier::none;
};

/// The axes of a mask, of the graph's `count`, in its order.
std::vector<std::size_t> axes_of(const AxisMask& mask, std::size_t count);

/// Every placement worth trying, best first. Empty, with the reason in `refusal`, where there is none.
std::vector<Geometry> geometries(const CanonicalGraph& graph, std::string& refusal);

}  // namespace stiletto::detail::cudnn
