// SPDX-License-Identifier: Apache-2.0
// Where the nodes, edges and regions of a drawing go: rows by longest path, regions as boxes one below the
// other, few crossings, straight chains. Knows nothing of what is drawn.
#pragma once
#include <cstdint>
#include <vector>

namespace stiletto::detail {

/// Lengths are in pixels, y grows downwards.
struct Point {
  double x = 0, y = 0;
};
struct Box {
  double left = 0, top = 0, right = 0, bottom = 0;
};

struct LayoutNode {
  enum class Kind : std::uint8_t {
    source,
    inner,
    sink
  };  // without edges to it, of a region, without any from it
  Kind kind = Kind::inner;
  double width = 0, height = 0;
  std::uint32_t region = 0;  // inner
};
struct LayoutEdge {
  std::uint32_t from = 0, to = 0;
};
struct LayoutRegion {
  double title_width = 0;
};

/// Regions in the order in which they run. Sources stand right above the first node they lead to, outside of
/// the regions; sinks below the region that ends in them.
struct LayoutRequest {
  std::vector<LayoutNode> nodes;
  std::vector<LayoutEdge> edges;
  std::vector<LayoutRegion> regions;
};

struct Layout {
  double width = 0, height = 0;
  std::vector<Point> centers;  // per node
  std::vector<std::vector<Point>>
      paths;                 // per edge: from its source's lower border to its target's upper one
  std::vector<Box> regions;  // without a node: all zero
};

inline constexpr double region_title_height = 22;  // above the nodes of a region, inside its box

Layout lay_out(const LayoutRequest& request);

}  // namespace stiletto::detail
