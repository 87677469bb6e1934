// SPDX-License-Identifier: Apache-2.0
// Drawings of random graphs: nothing covers anything else, and everything is where its region is.
#include "compiler/graph_layout.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

namespace {

using namespace stiletto::detail;
using Kind = LayoutNode::Kind;

Box box_of(const LayoutRequest& request, const Layout& layout, std::size_t n) {
  const LayoutNode& node = request.nodes[n];
  const Point& c = layout.centers[n];
  return {c.x - node.width / 2, c.y - node.height / 2, c.x + node.width / 2, c.y + node.height / 2};
}
bool overlap(const Box& a, const Box& b) {
  const double slack = 0.01;
  return a.left + slack < b.right && b.left + slack < a.right && a.top + slack < b.bottom &&
         b.top + slack < a.bottom;
}
bool within(const Box& inner, const Box& outer) {
  return inner.left >= outer.left && inner.right <= outer.right && inner.top >= outer.top &&
         inner.bottom <= outer.bottom;
}

void check(const LayoutRequest& request) {
  const Layout layout = lay_out(request);
  ASSERT_EQ(layout.centers.size(), request.nodes.size());
  ASSERT_EQ(layout.paths.size(), request.edges.size());
  ASSERT_EQ(layout.regions.size(), request.regions.size());
  const Box page{0, 0, layout.width, layout.height};
  for (std::size_t a = 0; a < request.nodes.size(); ++a) {
    const Box box = box_of(request, layout, a);
    EXPECT_TRUE(within(box, page)) << a;
    for (std::size_t b = 0; b < a; ++b)
      EXPECT_FALSE(overlap(box, box_of(request, layout, b))) << a << " covers " << b;
    for (std::size_t r = 0; r < request.regions.size(); ++r) {
      const bool own = request.nodes[a].kind == Kind::inner && request.nodes[a].region == r;
      EXPECT_EQ(own ? within(box, layout.regions[r]) : !overlap(box, layout.regions[r]), true)
          << a << " and region " << r;
    }
  }
  for (std::size_t a = 0; a < request.regions.size(); ++a)
    for (std::size_t b = 0; b < a; ++b) EXPECT_FALSE(overlap(layout.regions[a], layout.regions[b]));
  for (std::size_t e = 0; e < request.edges.size(); ++e) {
    const std::vector<Point>& path = layout.paths[e];
    ASSERT_GE(path.size(), 2U);
    for (std::size_t i = 1; i < path.size(); ++i) EXPECT_GE(path[i].y, path[i - 1].y) << "edge " << e;
    EXPECT_EQ(path.front().y, box_of(request, layout, request.edges[e].from).bottom);
    EXPECT_EQ(path.back().y, box_of(request, layout, request.edges[e].to).top);
  }
}

/// Inner nodes in order of their regions, each with sources and earlier nodes before it; all ends are stored.
LayoutRequest random_request(std::mt19937& random, std::uint32_t regions, int nodes_per_region) {
  auto upto = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n + 1)); };
  LayoutRequest request;
  auto add = [&](Kind kind, std::uint32_t region) {
    request.nodes.push_back({kind, 60.0 + 10 * upto(20), 30.0 + 10 * upto(3), region});
    return static_cast<std::uint32_t>(request.nodes.size() - 1);
  };
  std::vector<std::uint32_t> inner;
  for (std::uint32_t r = 0; r < regions; ++r) {
    request.regions.push_back({10.0 * upto(60)});
    for (int i = 0; i < nodes_per_region; ++i) {
      std::vector<std::uint32_t> operands;
      operands.reserve(3);
      for (int k = 0; k < 1 + upto(2); ++k)
        operands.push_back(inner.empty() || upto(2) == 0
                               ? add(Kind::source, 0)
                               : inner[inner.size() - 1 - random() % std::min<std::size_t>(inner.size(), 6)]);
      inner.push_back(add(Kind::inner, r));
      for (std::uint32_t operand : operands) request.edges.push_back({operand, inner.back()});
    }
  }
  const std::vector<LayoutEdge> edges = request.edges;
  for (std::uint32_t n : inner)
    if (std::none_of(edges.begin(), edges.end(), [&](const LayoutEdge& e) { return e.from == n; }))
      request.edges.push_back({n, add(Kind::sink, 0)});
  return request;
}

TEST(GraphLayout, nothing_overlaps) {
  std::mt19937 random(7);
  for (int i = 0; i < 60; ++i) {
    SCOPED_TRACE("graph " + std::to_string(i));
    check(random_request(random, 1 + i % 4, 1 + i % 13));
  }
}

TEST(GraphLayout, chains_are_straight) {
  LayoutRequest request;
  request.regions.push_back({});
  for (std::uint32_t i = 0; i < 30; ++i) {
    request.nodes.push_back({Kind::inner, 100, 40, 0});
    if (i > 0) request.edges.push_back({i - 1, i});
  }
  const Layout layout = lay_out(request);
  for (std::uint32_t i = 1; i < 30; ++i) {
    EXPECT_NEAR(layout.centers[i].x, layout.centers[0].x, 0.5);
    EXPECT_GT(layout.centers[i].y, layout.centers[i - 1].y + 40);
  }
  EXPECT_LT(layout.width, 200);
}

TEST(GraphLayout, what_there_is_little_of_is_drawn_too) {
  check({});
  LayoutRequest copy;  // memory that is only copied, by a plan without operations
  copy.regions.push_back({100});
  copy.nodes.push_back({Kind::source, 50, 20, 0});
  copy.nodes.push_back({Kind::sink, 50, 20, 0});
  copy.edges.push_back({0, 1});
  const Layout layout = lay_out(copy);
  EXPECT_LT(layout.centers[0].y, layout.centers[1].y);
  copy.regions.clear();
  check(copy);
}

}  // namespace
