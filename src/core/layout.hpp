// SPDX-License-Identifier: Apache-2.0
// Arithmetic on shapes and strides: sizes with overflow checks, row-major strides, the elements a view
// reaches, and the tests for overlap that the alias rules rest on.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "stiletto/array.hpp"

namespace stiletto::detail {

/// Number of elements. A negative extent or a product beyond 63 bits throws ShapeError.
std::int64_t element_count(const Shape& shape, const char* operation);
inline std::int64_t element_count_unchecked(const Shape& shape) {
  std::int64_t count = 1;
  for (std::int64_t extent : shape)
    if (extent == 0) return 0;  // the others may be too large to multiply
  for (std::int64_t extent : shape) count *= extent;
  return count;
}

inline Strides row_major(const Shape& shape) {
  Strides strides = shape;
  std::int64_t stride = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    strides[i] = stride;
    // Beside an extent of 0 the others may be anything, and their strides mean nothing.
    if (shape[i] > 1 && __builtin_mul_overflow(stride, shape[i], &stride)) stride = 1;
  }
  return strides;
}

/// Row-major without gaps, whatever the strides of extents 1; true for no elements.
inline bool is_row_major(const Shape& shape, const Strides& strides) {
  std::int64_t stride = 1;
  bool row_major = true;
  for (std::size_t i = shape.size(); i-- > 0;) {
    if (shape[i] == 0) return true;
    if (shape[i] == 1) continue;
    row_major = row_major && strides[i] == stride;
    stride *= shape[i];
  }
  return row_major;
}

/// Strides with those of extents 1 (which mean nothing) replaced by what row-major order would give them
/// there, and all of them row-major when there are no elements: equal layouts become equal strides.
Strides canonical_strides(const Shape& shape, const Strides& strides);

/// Dense strides whose axes lie in memory in the given order, outermost first.
Strides dense_strides(const Shape& shape, std::span<const std::size_t> order);

/// Lowest and highest element reached, relative to the first one; {0, −1} for no elements.
struct Reach {
  std::int64_t low = 0, high = -1;
};
/// Overflow throws ShapeError.
Reach reach_of(const Shape& shape, const Strides& strides, const char* operation);

/// Whether two different indices may reach the same element (exact where strides nest, else true).
bool overlaps_itself(std::span<const std::int64_t> extents, std::span<const std::int64_t> strides);

/// Two views of one buffer, as extents, strides and first element, in a common unit. Exact where both have
/// the same strides and those nest; else true as soon as the ranges cross.
struct ViewExtent {
  std::span<const std::int64_t> extents, strides;
  std::int64_t first;
};
bool may_overlap(const ViewExtent& a, const ViewExtent& b);

/// NumPy's broadcasting; nullopt when the shapes do not fit.
std::optional<Shape> broadcast(const Shape& a, const Shape& b);

/// The last `rank` of the strides: a value's, aligned at the trailing axes of a destination.
inline Strides trailing(const Strides& strides, std::size_t rank) {
  return Strides(std::span(strides.end() - rank, rank));
}

/// Strides of the same elements under another shape, as a view; nullopt where a view cannot express it.
std::optional<Strides> reshape_strides(const Shape& shape, const Strides& strides, const Shape& target);

/// For errors: "axes here are -2 to 1".
std::string extent_text(const char* what, std::int64_t extent);

/// An axis counted from the end when negative; throws ShapeError when out of range. `rank` is the shape's, or
/// that of the result where the operation adds axes to it.
std::size_t normalized_axis(std::int64_t axis, std::size_t rank, const Shape& shape, const char* operation);

}  // namespace stiletto::detail
