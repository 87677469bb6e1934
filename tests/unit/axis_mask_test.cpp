// SPDX-License-Identifier: Apache-2.0
// AxisMask as a set: within its first word, and across words.
#include <gtest/gtest.h>

#include "compiler/axis_mask.hpp"

namespace {

using stiletto::detail::axis_bit;
using stiletto::detail::AxisMask;

TEST(AxisMask, has_what_was_set) {
  AxisMask mask;
  EXPECT_FALSE(mask.any());
  for (const std::size_t axis : {0U, 63U, 64U, 700U}) {
    EXPECT_FALSE(mask.test(axis));
    mask.set(axis);
    EXPECT_TRUE(mask.test(axis));
    EXPECT_TRUE(axis_bit(axis).any());
  }
  EXPECT_FALSE(mask.test(1));
  EXPECT_FALSE(mask.test(65));
  EXPECT_FALSE(mask.test(100000)) << "beyond its words";
  EXPECT_GT(mask.size(), 700U);
}

TEST(AxisMask, sets_of_any_size_combine) {
  for (const std::size_t far : {5U, 64U, 200U}) {
    const AxisMask near = axis_bit(1) | axis_bit(2), both = near | axis_bit(far);
    EXPECT_EQ(both & near, near);
    EXPECT_EQ(near & both, near);
    EXPECT_EQ(both & axis_bit(far), axis_bit(far));
    EXPECT_EQ(both & ~axis_bit(far), near);
    EXPECT_EQ(both & ~near, axis_bit(far));
    EXPECT_EQ(near & ~both, 0);
    EXPECT_NE(both, near);
    AxisMask changed = both;
    changed &= ~axis_bit(1);
    changed |= axis_bit(300);
    EXPECT_TRUE(changed.test(300) && changed.test(2) && !changed.test(1));
  }
}

TEST(AxisMask, equal_sets_are_equal_however_they_came_about) {
  EXPECT_EQ((axis_bit(3) | axis_bit(500)) & ~axis_bit(500), axis_bit(3));
  EXPECT_EQ(axis_bit(500) & axis_bit(3), 0);
  EXPECT_FALSE((axis_bit(500) & axis_bit(501)).any());
}

}  // namespace
