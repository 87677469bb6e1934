// SPDX-License-Identifier: Apache-2.0
// How strided copies are taken apart, and into how many calls: made here on the host.
#include "backends/cudnn/strided_copy.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "support/raw_arrays.hpp"

namespace {

using namespace support;
using stiletto::detail::StridedCopy;
using stiletto::detail::cudnn::PlaneCopy;
using stiletto::detail::cudnn::visit_planes;

struct HostCopies : stiletto::detail::cudnn::PlaneVisitor {
  HostCopies(char* to_, const char* from_) : to(to_), from(from_) {}
  void copy(const PlaneCopy& plane) override {
    ++calls;
    EXPECT_GE(plane.to_pitch, plane.width);
    EXPECT_GE(plane.from_pitch, plane.width);
    const char* source = (plane.within_destination ? to : from) + plane.from;
    for (std::size_t row = 0; row < plane.height; ++row)
      std::memcpy(to + plane.to + row * plane.to_pitch, source + row * plane.from_pitch, plane.width);
  }
  char* to;
  const char* from;
  std::size_t calls = 0;
};

/// Copies int32 elements of a storage; returns the number of calls after checking the result.
std::size_t calls_for(const Extents& shape, const Extents& strides, std::int64_t offset, std::size_t pitch) {
  StridedCopy geometry;
  geometry.extents = dims(shape);
  geometry.element = 4;
  for (std::int64_t stride : row_major(shape)) geometry.to.push_back(4 * stride);
  for (std::int64_t stride : strides) geometry.from.push_back(4 * stride);
  std::int64_t high = offset;
  for (std::size_t i = 0; i < shape.size(); ++i)
    high += (shape[i] - 1) * std::max<std::int64_t>(strides[i], 0);
  std::vector<std::int32_t> storage(static_cast<std::size_t>(high + 1));
  for (std::size_t i = 0; i < storage.size(); ++i) storage[i] = static_cast<std::int32_t>(i);
  std::vector<std::int32_t> result(static_cast<std::size_t>(count_of(shape)), -1);
  HostCopies copies(reinterpret_cast<char*>(result.data()),
                    reinterpret_cast<const char*>(storage.data() + offset));
  visit_planes(geometry, pitch, copies);
  std::size_t at = 0;
  for_each_index(shape, [&](const Extents& index) {
    EXPECT_EQ(result[at++], static_cast<std::int32_t>(offset + dot(index, strides)));
  });
  return copies.calls;
}
std::size_t calls_for(const Extents& shape, const Extents& strides, std::int64_t offset = 0) {
  return calls_for(shape, strides, offset, 1 << 30);
}

TEST(StridedCopies, number_of_calls) {
  EXPECT_EQ(calls_for({}, {}), 1U);
  EXPECT_EQ(calls_for({6, 5}, {5, 1}), 1U);         // contiguous
  EXPECT_EQ(calls_for({6, 5}, {8, 1}), 1U);         // padded rows
  EXPECT_EQ(calls_for({60}, {3}), 1U);              // every third element
  EXPECT_EQ(calls_for({4, 6, 5}, {48, 8, 1}), 1U);  // padded rows of a block, walked as one
  EXPECT_EQ(calls_for({4, 6, 5}, {60, 8, 1}), 4U);  // two distances: the longer axis is within a call
  EXPECT_EQ(calls_for({7, 3}, {1, 7}), 3U);         // transposed
  EXPECT_EQ(calls_for({3, 7}, {1, 3}), 3U);
  EXPECT_EQ(calls_for({4, 5}, {-5, 1}, 15), 4U);  // rows backwards
  EXPECT_EQ(calls_for({9}, {-1}, 8), 9U);         // elements backwards
  EXPECT_EQ(calls_for({8, 5}, {0, 1}), 4U);       // a row, then 1, 2 and 4 more
  EXPECT_EQ(calls_for({1000}, {0}), 11U);
  EXPECT_EQ(calls_for({5, 4}, {1, 0}), 3U);  // a column repeated
  EXPECT_EQ(calls_for({4, 3}, {1, 1}), 4U);  // windows that overlap
  EXPECT_EQ(calls_for({4, 0, 2}, {1, 1, 1}), 0U);
}

TEST(StridedCopies, pitches_have_a_limit) {
  EXPECT_EQ(calls_for({3, 2}, {1000, 1}, 0, 4000), 1U);
  EXPECT_EQ(calls_for({3, 2}, {1000, 1}, 0, 3999), 3U);
}

TEST(StridedCopies, any_strides) {
  Random random(11);
  for (int n = 0; n < 2000; ++n) {
    Extents shape, strides;
    std::int64_t offset = 0;
    for (std::int64_t axes = random.below(5); axes > 0; --axes) {
      shape.push_back(1 + random.below(5));
      strides.push_back(random.below(40) - 12);
      if (random.chance(20)) strides.back() = 0;
      offset -= std::min<std::int64_t>(strides.back(), 0) * (shape.back() - 1);
    }
    const testing::ScopedTrace trace(__FILE__, __LINE__, describe(shape) + describe(strides));
    calls_for(shape, strides, offset);
  }
}

}  // namespace
