// SPDX-License-Identifier: Apache-2.0
// Shape and stride arithmetic: sizes and their overflow, row-major and canonical strides, reach,
// broadcasting, views of another shape, and the overlap tests that the alias rules rest on. What is said to
// be exact is compared with a count of every element.
#include "core/layout.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <set>
#include <sstream>
#include <vector>

#include "stiletto/error.hpp"

namespace {

using stiletto::Dims;
using stiletto::Shape;
using stiletto::ShapeError;
using stiletto::Strides;
namespace detail = stiletto::detail;

constexpr std::int64_t largest = std::numeric_limits<std::int64_t>::max();

/// Offsets of every element in row-major order.
std::vector<std::int64_t> offsets(const Shape& shape, const Strides& strides, std::int64_t first = 0) {
  std::vector<std::int64_t> result{first};
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    std::vector<std::int64_t> next;
    for (std::int64_t base : result)
      for (std::int64_t i = 0; i < shape[axis]; ++i) next.push_back(base + i * strides[axis]);
    result = next;
  }
  return result;
}

detail::ViewExtent view(const Shape& shape, const Strides& strides, std::int64_t first) {
  return {{shape.begin(), shape.size()}, {strides.begin(), strides.size()}, first};
}
bool overlaps_itself(const Shape& shape, const Strides& strides) {
  return detail::overlaps_itself({shape.begin(), shape.size()}, {strides.begin(), strides.size()});
}
bool really_overlap(const Shape& shape, const Strides& strides, std::int64_t first, const Shape& other_shape,
                    const Strides& other_strides, std::int64_t other_first) {
  const auto a = offsets(shape, strides, first), b = offsets(other_shape, other_strides, other_first);
  const std::set<std::int64_t> reached(a.begin(), a.end());
  for (std::int64_t offset : b)
    if (reached.count(offset) != 0) return true;
  return false;
}

TEST(Dims, holds_up_to_eight) {
  const Dims none, some{2, 3, 5}, eight{1, 2, 3, 4, 5, 6, 7, 8};
  EXPECT_EQ(none.size(), 0U);
  EXPECT_EQ(some.size(), 3U);
  EXPECT_EQ(some[2], 5);
  EXPECT_EQ(eight.size(), 8U);
  EXPECT_EQ(std::vector<std::int64_t>(some.begin(), some.end()), (std::vector<std::int64_t>{2, 3, 5}));
  EXPECT_EQ(some, (Dims{2, 3, 5}));
  EXPECT_NE(some, (Dims{2, 3}));
  EXPECT_NE(some, (Dims{2, 3, 4}));
  EXPECT_THROW((Dims{1, 2, 3, 4, 5, 6, 7, 8, 9}), ShapeError);
  EXPECT_THROW(Dims(std::vector<std::int64_t>(9, 1)), ShapeError);
  Dims growing = eight;
  EXPECT_THROW(growing.push_back(1), ShapeError);
  EXPECT_EQ(growing, eight);
  std::ostringstream text;
  text << none << some << Dims{-1};
  EXPECT_EQ(text.str(), "()(2, 3, 5)(-1)");
}

TEST(Layout, element_count) {
  EXPECT_EQ(detail::element_count({}, "f"), 1);
  EXPECT_EQ(detail::element_count({7}, "f"), 7);
  EXPECT_EQ(detail::element_count({2, 3, 4}, "f"), 24);
  EXPECT_EQ(detail::element_count({2, 0, 4}, "f"), 0);
  EXPECT_EQ(detail::element_count({std::int64_t{1} << 60}, "f"), std::int64_t{1} << 60);
  EXPECT_EQ(detail::element_count({std::int64_t{1} << 30, std::int64_t{1} << 30}, "f"),
            std::int64_t{1} << 60);
  EXPECT_EQ(detail::element_count({largest, 0, largest}, "f"), 0) << "no elements, whatever the others";
  EXPECT_THROW(detail::element_count({largest}, "f"), ShapeError);
  EXPECT_THROW(detail::element_count({std::int64_t{1} << 32, std::int64_t{1} << 32}, "f"), ShapeError);
  EXPECT_THROW(detail::element_count({3, std::int64_t{1} << 60}, "f"), ShapeError);
  EXPECT_THROW(detail::element_count({-1}, "f"), ShapeError);
  EXPECT_THROW(detail::element_count({0, -2}, "f"), ShapeError) << "a negative extent beside 0";
}

TEST(Layout, row_major) {
  EXPECT_EQ(detail::row_major({}), Strides());
  EXPECT_EQ(detail::row_major({5}), (Strides{1}));
  EXPECT_EQ(detail::row_major({2, 3, 4}), (Strides{12, 4, 1}));
  EXPECT_EQ(detail::row_major({2, 1, 4}), (Strides{4, 4, 1}));
  EXPECT_EQ(detail::row_major({2, 0, 4}), (Strides{4, 4, 1})) << "an extent of 0 counts as 1";
  EXPECT_TRUE(detail::is_row_major({2, 3, 4}, {12, 4, 1}));
  EXPECT_TRUE(detail::is_row_major({2, 1, 4}, {4, -77, 1})) << "extents of 1 may have any stride";
  EXPECT_TRUE(detail::is_row_major({2, 0, 4}, {9, 9, 9})) << "no elements have no gaps";
  EXPECT_TRUE(detail::is_row_major({}, {}));
  EXPECT_FALSE(detail::is_row_major({2, 3}, {1, 2}));
  EXPECT_FALSE(detail::is_row_major({2, 3}, {4, 1}));
  EXPECT_FALSE(detail::is_row_major({2, 3}, {3, -1}));
  EXPECT_FALSE(detail::is_row_major({2}, {0}));
}

TEST(Layout, canonical_strides) {
  EXPECT_EQ(detail::canonical_strides({2, 3}, {3, 1}), (Strides{3, 1}));
  EXPECT_EQ(detail::canonical_strides({2, 1, 3}, {3, 99, 1}), (Strides{3, 3, 1}));
  EXPECT_EQ(detail::canonical_strides({1, 1}, {5, -7}), (Strides{1, 1}));
  EXPECT_EQ(detail::canonical_strides({2, 3, 1}, {1, 2, 50}), (Strides{1, 2, 1}));
  EXPECT_EQ(detail::canonical_strides({2, 1}, {-1, 0}), (Strides{-1, 1}));
  EXPECT_EQ(detail::canonical_strides({2, 0}, {77, 5}), detail::row_major({2, 0}));
  // Equal layouts become equal strides: whatever stands at an extent of 1.
  for (std::int64_t any : {-5, 0, 1, 8})
    EXPECT_EQ(detail::canonical_strides({1, 4, 1, 2}, {any, 2, any, 1}), (Strides{8, 2, 2, 1}));
}

TEST(Layout, dense_strides) {
  const std::size_t plain[] = {0, 1, 2}, channels_last[] = {0, 2, 1};
  EXPECT_EQ(detail::dense_strides({2, 3, 4}, plain), (Strides{12, 4, 1}));
  EXPECT_EQ(detail::dense_strides({2, 3, 4}, channels_last), (Strides{12, 1, 3}));
  EXPECT_EQ(detail::dense_strides({2, 0, 4}, channels_last), (Strides{4, 1, 1}));
}

TEST(Layout, reach) {
  auto reach = [](const Shape& shape, const Strides& strides) {
    const detail::Reach r = detail::reach_of(shape, strides, "f");
    return std::pair(r.low, r.high);
  };
  using Pair = std::pair<std::int64_t, std::int64_t>;
  EXPECT_EQ(reach({}, {}), Pair(0, 0));
  EXPECT_EQ(reach({2, 3}, {3, 1}), Pair(0, 5));
  EXPECT_EQ(reach({2, 3}, {-3, -1}), Pair(-5, 0));
  EXPECT_EQ(reach({2, 3}, {10, -2}), Pair(-4, 10));
  EXPECT_EQ(reach({5}, {0}), Pair(0, 0));
  EXPECT_EQ(reach({4, 1}, {2, 1000}), Pair(0, 6));
  EXPECT_EQ(reach({4, 0}, {2, 1000}), Pair(0, -1));
  EXPECT_EQ(reach({0}, {largest}), Pair(0, -1));
  EXPECT_EQ(reach({2}, {largest}), Pair(0, largest));
  EXPECT_THROW(detail::reach_of({3}, {largest}, "f"), ShapeError);
  EXPECT_THROW(detail::reach_of({3}, {-largest}, "f"), ShapeError);
  EXPECT_THROW(detail::reach_of({2, 2}, {largest, largest}, "f"), ShapeError);
  EXPECT_EQ(reach({2, 2}, {largest, -largest}), Pair(-largest, largest));
}

TEST(Layout, broadcast) {
  EXPECT_EQ(detail::broadcast({2, 3}, {2, 3}), (Shape{2, 3}));
  EXPECT_EQ(detail::broadcast({2, 3}, {3}), (Shape{2, 3}));
  EXPECT_EQ(detail::broadcast({3}, {2, 1}), (Shape{2, 3}));
  EXPECT_EQ(detail::broadcast({}, {4}), (Shape{4}));
  EXPECT_EQ(detail::broadcast({1, 5}, {4, 1}), (Shape{4, 5}));
  EXPECT_EQ(detail::broadcast({0}, {1}), (Shape{0}));
  EXPECT_EQ(detail::broadcast({2, 1, 3}, {5, 1}), (Shape{2, 5, 3}));
  EXPECT_FALSE(detail::broadcast({2}, {3}));
  EXPECT_FALSE(detail::broadcast({0}, {2}));
  EXPECT_FALSE(detail::broadcast({2, 3}, {2}));
}

TEST(Layout, strides_whose_next_one_does_not_fit) {
  const std::int64_t third = std::numeric_limits<std::int64_t>::max() / 3;
  EXPECT_EQ(detail::canonical_strides({1, 4}, {1, third}), (Strides{1, third}));
  EXPECT_EQ(detail::canonical_strides({1, 4}, {7, third}), (Strides{1, third})) << "one layout, one result";
  EXPECT_EQ(detail::reshape_strides({2, 4}, {1, third}, {8}), std::nullopt);
}
TEST(Layout, normalized_axis) {
  EXPECT_EQ(detail::normalized_axis(0, 3, {}, "f"), 0U);
  EXPECT_EQ(detail::normalized_axis(2, 3, {}, "f"), 2U);
  EXPECT_EQ(detail::normalized_axis(-1, 3, {}, "f"), 2U);
  EXPECT_EQ(detail::normalized_axis(-3, 3, {}, "f"), 0U);
  EXPECT_THROW(detail::normalized_axis(3, 3, {}, "f"), ShapeError);
  EXPECT_THROW(detail::normalized_axis(-4, 3, {}, "f"), ShapeError);
  EXPECT_THROW(detail::normalized_axis(0, 0, {}, "f"), ShapeError);
  EXPECT_THROW(detail::normalized_axis(std::numeric_limits<std::int64_t>::min(), 8, {}, "f"), ShapeError);
}

// ---- views of another shape -----------------------------------------------------------------------------

TEST(ReshapeStrides, examples) {
  auto reshape = detail::reshape_strides;
  EXPECT_EQ(reshape({2, 3, 4}, {12, 4, 1}, {6, 4}), (Strides{4, 1}));
  EXPECT_EQ(reshape({2, 3, 4}, {12, 4, 1}, {24}), (Strides{1}));
  EXPECT_EQ(reshape({6, 4}, {8, 1}, {2, 3, 4}), (Strides{24, 8, 1})) << "padded rows split";
  EXPECT_EQ(reshape({2, 3, 4}, {24, 8, 1}, {6, 4}), (Strides{8, 1})) << "padded rows merge";
  EXPECT_EQ(reshape({2, 3, 4}, {24, 8, 1}, {24}), std::nullopt);
  EXPECT_EQ(reshape({3, 2}, {1, 3}, {6}), std::nullopt) << "a transposed matrix is not a row";
  EXPECT_EQ(reshape({3, 2}, {1, 3}, {3, 1, 2}), (Strides{1, 2, 3}));
  EXPECT_EQ(reshape({4}, {-1}, {2, 2}), (Strides{-2, -1}));
  EXPECT_EQ(reshape({2, 3}, {0, 0}, {6}), (Strides{0}));
  EXPECT_EQ(reshape({1, 1}, {9, 9}, {}), Strides());
  EXPECT_EQ(reshape({}, {}, {1, 1, 1}), (Strides{1, 1, 1}));
  EXPECT_EQ(reshape({2, 0}, {5, 5}, {0, 7}), (Strides{7, 1}));
}

/// A target shape of as many elements, with an extent of 1 here and there.
Shape random_target(std::mt19937& random, std::int64_t count) {
  Shape target;
  while (count > 1 && target.size() < 6) {
    std::vector<std::int64_t> divisors;
    for (std::int64_t d = 2; d <= count; ++d)
      if (count % d == 0) divisors.push_back(d);
    const std::int64_t d = divisors[random() % divisors.size()];
    if (random() % 4 == 0) target.push_back(1);
    target.push_back(d);
    count /= d;
  }
  if (count > 1) target[target.size() - 1] *= count;
  return target;
}

TEST(ReshapeStrides, agrees_with_every_element) {
  std::mt19937 random(3);
  int expressible = 0, inexpressible = 0;
  for (int round = 0; round < 4000; ++round) {
    Shape shape;
    Strides strides;
    std::int64_t step = 1;
    std::vector<std::size_t> order;
    const std::size_t rank = 1 + random() % 4;
    for (std::size_t axis = 0; axis < rank; ++axis) {
      shape.push_back(std::vector<std::int64_t>{1, 2, 3, 4}[random() % 4]);
      order.push_back(axis);
    }
    strides = shape;
    if (random() % 3 == 0) std::shuffle(order.begin(), order.end(), random);
    for (std::size_t i = order.size(); i-- > 0;) {
      strides[order[i]] = random() % 12 == 0 ? 0 : step;
      step = strides[order[i]] * shape[order[i]] + (random() % 5 == 0 ? 1 : 0);
      if (step == 0) step = 1;
    }
    const Shape target = random_target(random, detail::element_count(shape, "f"));
    const auto source = offsets(shape, strides);
    // What the strides would have to be: the distance to the next index of each axis.
    Strides wanted = detail::row_major(target);
    for (std::size_t axis = 0; axis < target.size(); ++axis)
      if (target[axis] > 1) wanted[axis] = source[static_cast<std::size_t>(wanted[axis])] - source[0];
    const bool possible = offsets(target, wanted) == source;
    const auto found = detail::reshape_strides(shape, strides, target);
    ASSERT_EQ(found.has_value(), possible) << shape << ' ' << strides << " to " << target;
    if (found) {
      EXPECT_EQ(offsets(target, *found), source) << shape << ' ' << strides << " to " << target;
    }
    ++(possible ? expressible : inexpressible);
  }
  EXPECT_GT(expressible, 500);
  EXPECT_GT(inexpressible, 500);
}

// ---- overlap --------------------------------------------------------------------------------------------

TEST(SelfOverlap, examples) {
  EXPECT_FALSE(overlaps_itself({}, {}));
  EXPECT_FALSE(overlaps_itself({2, 3}, {3, 1}));
  EXPECT_FALSE(overlaps_itself({2, 3}, {-3, 1}));
  EXPECT_FALSE(overlaps_itself({2, 3}, {1, 2}));
  EXPECT_FALSE(overlaps_itself({2, 3}, {1, -20}));
  EXPECT_TRUE(overlaps_itself({2, 3}, {0, 1}));
  EXPECT_TRUE(overlaps_itself({2, 3}, {2, 1}));
  EXPECT_TRUE(overlaps_itself({2, 2}, {1, 1}));
  EXPECT_TRUE(overlaps_itself({2, 2}, {1, -1}));
}

TEST(SelfOverlap, extents_of_0_and_1_are_skipped) {
  EXPECT_FALSE(overlaps_itself({1}, {0}));
  EXPECT_FALSE(overlaps_itself({1, 3, 1}, {0, 1, 1}));
  EXPECT_FALSE(overlaps_itself({0}, {0}));
  EXPECT_FALSE(overlaps_itself({5, 0}, {0, 0}));
  EXPECT_FALSE(overlaps_itself({0, 5, 5}, {1, 1, 1}));
}

TEST(SelfOverlap, is_never_missed) {
  std::mt19937 random(5);
  int overlapping = 0, exact = 0;
  for (int round = 0; round < 3000; ++round) {
    Shape shape;
    Strides strides;
    const std::size_t rank = 1 + random() % 3;
    for (std::size_t axis = 0; axis < rank; ++axis) {
      shape.push_back(static_cast<std::int64_t>(random() % 4));
      strides.push_back(static_cast<std::int64_t>(random() % 17) - 8);
    }
    const auto all = offsets(shape, strides);
    const bool really = std::set<std::int64_t>(all.begin(), all.end()).size() != all.size();
    const bool found = overlaps_itself(shape, strides);
    if (really) {
      EXPECT_TRUE(found) << shape << ' ' << strides;
      ++overlapping;
    }
    exact += found == really;
  }
  EXPECT_GT(overlapping, 200);
  EXPECT_GT(exact, 2500) << "strides that interleave without meeting are rare";
}

TEST(Overlap, ranges_apart) {
  EXPECT_FALSE(detail::may_overlap(view({4}, {1}, 0), view({4}, {1}, 4)));
  EXPECT_TRUE(detail::may_overlap(view({4}, {1}, 0), view({4}, {1}, 3)));
  EXPECT_FALSE(detail::may_overlap(view({4}, {-1}, 3), view({4}, {1}, 4)));
  EXPECT_TRUE(detail::may_overlap(view({4}, {-1}, 3), view({4}, {1}, 3)));
  EXPECT_FALSE(detail::may_overlap(view({0}, {1}, 0), view({4}, {1}, 0)));
  EXPECT_FALSE(detail::may_overlap(view({4}, {1}, 0), view({2, 0}, {1, 1}, 0)));
  EXPECT_TRUE(detail::may_overlap(view({}, {}, 2), view({4}, {1}, 0)));
  EXPECT_FALSE(detail::may_overlap(view({}, {}, 4), view({4}, {1}, 0)));
}

TEST(Overlap, column_halves_are_apart) {
  // A (4, 6) buffer: its left and right three columns, whose ranges cross.
  EXPECT_FALSE(detail::may_overlap(view({4, 3}, {6, 1}, 0), view({4, 3}, {6, 1}, 3)));
  EXPECT_TRUE(detail::may_overlap(view({4, 3}, {6, 1}, 0), view({4, 3}, {6, 1}, 2)));
  EXPECT_FALSE(detail::may_overlap(view({4, 2}, {6, 1}, 0), view({4, 4}, {6, 1}, 2))) << "of unequal widths";
  EXPECT_TRUE(detail::may_overlap(view({4, 3}, {6, 1}, 0), view({4, 4}, {6, 1}, 2)));
  EXPECT_FALSE(detail::may_overlap(view({4}, {6}, 0), view({4}, {6}, 1))) << "two columns";
  EXPECT_FALSE(detail::may_overlap(view({4}, {6}, 0), view({4, 5}, {6, 1}, 1))) << "one column and the rest";
  EXPECT_FALSE(detail::may_overlap(view({6}, {2}, 0), view({6}, {2}, 1))) << "even and odd elements";
}

TEST(Overlap, packed_query_key_value_are_apart) {
  // (batch 2, seq 5, 3 × heads 4 × dim 8), split along the last axis.
  const Shape shape{2, 5, 4, 8};
  const Strides strides{480, 96, 8, 1};
  EXPECT_FALSE(detail::may_overlap(view(shape, strides, 0), view(shape, strides, 32)));
  EXPECT_FALSE(detail::may_overlap(view(shape, strides, 0), view(shape, strides, 64)));
  EXPECT_FALSE(detail::may_overlap(view(shape, strides, 64), view(shape, strides, 32)));
  EXPECT_TRUE(detail::may_overlap(view(shape, strides, 0), view(shape, strides, 31)));
  EXPECT_TRUE(detail::may_overlap(view(shape, strides, 0), view(shape, strides, 96))) << "one position later";
}

TEST(Overlap, is_exact_where_equal_strides_nest) {
  std::mt19937 random(7);
  int apart = 0, meeting = 0;
  for (int round = 0; round < 5000; ++round) {
    Shape a, b;
    Strides strides;
    std::int64_t step = 1 + static_cast<std::int64_t>(random() % 3);
    const std::size_t rank = 1 + random() % 3;
    for (std::size_t axis = 0; axis < rank; ++axis) {
      a.push_back(1 + static_cast<std::int64_t>(random() % 4));
      b.push_back(1 + static_cast<std::int64_t>(random() % 4));
      strides.push_back(random() % 4 == 0 ? -step : step);
      step = std::abs(strides[axis]) * std::max(a[axis], b[axis]) + static_cast<std::int64_t>(random() % 3);
    }
    const auto first = static_cast<std::int64_t>(random() % 40);
    const bool really = really_overlap(a, strides, 0, b, strides, first);
    EXPECT_EQ(detail::may_overlap(view(a, strides, 0), view(b, strides, first)), really)
        << a << " and " << b << " of strides " << strides << " at " << first;
    EXPECT_EQ(detail::may_overlap(view(b, strides, first), view(a, strides, 0)), really);
    ++(really ? meeting : apart);
  }
  EXPECT_GT(apart, 1000);
  EXPECT_GT(meeting, 1000);
}

TEST(Overlap, is_never_missed) {
  std::mt19937 random(11);
  int meeting = 0;
  for (int round = 0; round < 5000; ++round) {
    auto extents = [&](std::size_t rank) {
      Shape shape;
      for (std::size_t axis = 0; axis < rank; ++axis)
        shape.push_back(static_cast<std::int64_t>(random() % 4));
      return shape;
    };
    auto steps = [&](std::size_t rank) {
      Strides strides;
      for (std::size_t axis = 0; axis < rank; ++axis)
        strides.push_back(static_cast<std::int64_t>(random() % 13) - 6);
      return strides;
    };
    const std::size_t rank_a = random() % 3, rank_b = random() % 3;
    const Shape a = extents(rank_a), b = extents(rank_b);
    const Strides of_a = steps(rank_a), of_b = steps(rank_b);
    const auto first = static_cast<std::int64_t>(random() % 9) - 4;
    if (!really_overlap(a, of_a, 0, b, of_b, first)) continue;
    ++meeting;
    EXPECT_TRUE(detail::may_overlap(view(a, of_a, 0), view(b, of_b, first)))
        << a << of_a << " and " << b << of_b << " at " << first;
  }
  EXPECT_GT(meeting, 300);
}

}  // namespace
