// SPDX-License-Identifier: Apache-2.0
// What each view does to shape, strides and offset, apart from where the array lives. `name` is the
// operation's, for errors.
#pragma once
#include <cstdint>
#include <vector>

#include "core/layout.hpp"
#include "stiletto/ops.hpp"

namespace stiletto::detail {

struct Geometry {
  Shape shape;
  Strides strides;
  std::int64_t offset = 0;  // elements, from the viewed array's first element
};

/// A permutation of 0 … rank−1; negative axes count from the end.
Dims resolve_permutation(const Shape& shape, const Dims& axes, const char* name);
/// Fills in the −1.
Shape resolve_reshape(const Shape& shape, const Shape& target, const char* name);
Geometry permute_geometry(const Geometry& x, const Dims& axes);
Geometry slice_geometry(const Geometry& x, const std::vector<Slice>& slices, const char* name);
Shape squeeze_shape(const Shape& shape, const Axes& axes, const char* name);
Shape expand_shape(const Shape& shape, const Axes& axes, const char* name);
Geometry broadcast_geometry(const Geometry& x, const Shape& target, const char* name);
/// `bounds`: the elements there are, relative to x's first element.
Geometry as_strided_geometry(const Shape& shape, const Strides& strides, std::int64_t offset, Reach bounds,
                             const char* name);

}  // namespace stiletto::detail
