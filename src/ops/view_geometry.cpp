// SPDX-License-Identifier: Apache-2.0
// Shape and stride arithmetic of the views.
#include "ops/view_geometry.hpp"

#include <algorithm>
#include <array>

#include "core/text.hpp"
#include "stiletto/error.hpp"

namespace stiletto::detail {

Dims resolve_permutation(const Shape& shape, const Dims& axes, const char* name) {
  std::array<bool, Dims::max_rank> seen{};
  Dims result;
  bool complete = axes.size() == shape.size();
  for (std::int64_t axis : axes) {
    const std::size_t i = normalized_axis(axis, shape.size(), shape, name);
    complete = complete && !seen[i];
    seen[i] = true;
    result.push_back(static_cast<std::int64_t>(i));
  }
  if (!complete)
    throw ShapeError(text(operation_text(name), ": axes ", axes, " are not a permutation of the ",
                          shape.size(), " axes of shape ", shape, "; name each axis once"));
  return result;
}

Shape resolve_reshape(const Shape& shape, const Shape& target, const char* name) {
  const std::int64_t count = element_count_unchecked(shape);
  std::int64_t known = 1;
  std::size_t inferred = target.size();
  for (std::size_t i = 0; i < target.size(); ++i) {
    if (target[i] == -1 && inferred == target.size()) {
      inferred = i;
    } else if (target[i] < 0) {
      throw ShapeError(text(operation_text(name), ": target ", target,
                            target[i] == -1
                                ? " has more than one -1; one can be inferred"
                                : " has a negative extent; extents start at 0, and one may be -1"));
    } else if (__builtin_mul_overflow(known, target[i], &known)) {
      throw ShapeError(text(operation_text(name), ": target ", target,
                            " has more elements than 64 bits can count; shape ", shape, " has ", count));
    }
  }
  Shape result = target;
  if (inferred < target.size()) {
    if (known == 0)
      throw ShapeError(text(operation_text(name), ": the -1 in ", target, " is not determined for shape ",
                            shape, "; name the extent"));
    if (count % known != 0)
      throw ShapeError(text(operation_text(name), ": shape ", shape, " of ", count, " elements does not fit ",
                            target, "; the extents named have to divide it"));
    result[inferred] = count / known;
  } else if (known != count) {
    throw ShapeError(text(operation_text(name), ": shape ", shape, " has ", count, " elements, ", target,
                          " has ", known, "; a reshape keeps their number"));
  }
  return result;
}

Geometry permute_geometry(const Geometry& x, const Dims& axes) {
  Geometry result = x;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    result.shape[i] = x.shape[static_cast<std::size_t>(axes[i])];
    result.strides[i] = x.strides[static_cast<std::size_t>(axes[i])];
  }
  return result;
}

namespace {

/// First index and count of one axis. Every index named has to exist: nothing is clipped.
void slice_axis(Geometry& g, std::size_t axis, const Slice& s, const char* name) {
  const std::int64_t extent = g.shape[axis];
  auto fail = [&](const std::string& what) {
    throw ShapeError(text(operation_text(name), ": axis ", axis, " of shape ", g.shape, ": ", what));
  };
  if (s.step == 0) fail("the step is 0; use 1, or -1 to walk backwards");
  auto from_end = [&](std::int64_t i) { return i < 0 ? i + extent : i; };
  const bool forward = s.step > 0;
  const std::int64_t begin = s.begin ? from_end(*s.begin) : (forward ? 0 : extent - 1);
  const std::int64_t end = s.end ? from_end(*s.end) : (forward ? extent : -1);
  // Backwards, −1 is what lies before the first element, as the extent lies behind the last one.
  const std::int64_t low = forward ? 0 : -1, last_begin = forward ? extent : extent - 1;
  auto check = [&](const char* which, std::int64_t named, std::int64_t index, std::int64_t high) {
    if (index < low || index > high)
      fail(high < 0 ? text(which, named, ", but the axis has no elements; leave it out")
                    : text(which, named, " lies outside 0…", high, "; negative ones count from the end"));
  };
  check("begin ", s.begin.value_or(begin), begin, last_begin);
  check("end ", s.end.value_or(end), end, extent);
  const std::int64_t distance = forward ? end - begin : begin - end;
  // A step beyond the axis reaches one element; dividing by −INT64_MIN would overflow.
  const std::int64_t step = forward ? s.step : (s.step == INT64_MIN ? INT64_MAX : -s.step);
  const std::int64_t count = distance <= 0 ? 0 : (distance - 1) / step + 1;
  if (count > 0) g.offset += begin * g.strides[axis];
  g.shape[axis] = count;
  g.strides[axis] = count > 1 ? g.strides[axis] * s.step : g.strides[axis];
}

}  // namespace

Geometry slice_geometry(const Geometry& x, const std::vector<Slice>& slices, const char* name) {
  if (slices.size() > x.shape.size())
    throw ShapeError(text(operation_text(name), ": ", slices.size(), " slices for shape ", x.shape,
                          "; give at most one for each axis"));
  Geometry result = x;
  for (std::size_t axis = 0; axis < slices.size(); ++axis) slice_axis(result, axis, slices[axis], name);
  return result;
}

Shape squeeze_shape(const Shape& shape, const Axes& axes, const char* name) {
  std::array<bool, Dims::max_rank> removed{};
  for (std::int64_t axis : axes) {
    const std::size_t i = normalized_axis(axis, shape.size(), shape, name);
    if (shape[i] != 1)
      throw ShapeError(text(operation_text(name), ": axis ", axis, " of shape ", shape, " has extent ",
                            shape[i], ", not 1; slice or reduce it first"));
    removed[i] = true;
  }
  Shape result;
  for (std::size_t i = 0; i < shape.size(); ++i)
    if (axes.empty() ? shape[i] != 1 : !removed[i]) result.push_back(shape[i]);
  return result;
}

Shape expand_shape(const Shape& shape, const Axes& axes, const char* name) {
  std::size_t added = 0;
  for ([[maybe_unused]] std::int64_t axis : axes) ++added;
  if (added == 0)
    throw ShapeError(text(operation_text(name), ": no axis named for shape ", shape, "; name those to add"));
  const std::size_t rank = shape.size() + added;
  if (rank > Dims::max_rank)
    throw ShapeError(text(operation_text(name), ": shape ", shape, " and ", added,
                          " more axes exceed the limit of ", Dims::max_rank, "; merge axes with reshape"));
  std::array<bool, Dims::max_rank> fresh{};
  for (std::int64_t axis : axes) {
    const std::size_t i = normalized_axis(axis, rank, shape, name);
    if (fresh[i])
      throw ShapeError(text(operation_text(name), ": axis ", axis, " for shape ", shape,
                            " is named twice; name each axis once"));
    fresh[i] = true;
  }
  Shape result;
  std::size_t next = 0;
  for (std::size_t i = 0; i < rank; ++i) result.push_back(fresh[i] ? 1 : shape[next++]);
  return result;
}

Geometry broadcast_geometry(const Geometry& x, const Shape& target, const char* name) {
  element_count(target, name);
  const auto common = broadcast(x.shape, target);
  if (!common || *common != target)
    throw ShapeError(text(operation_text(name), ": shape ", x.shape, " does not broadcast to ", target,
                          "; trailing extents have to be equal or 1"));
  Geometry result{target, row_major(target), x.offset};
  const std::size_t lead = target.size() - x.shape.size();
  for (std::size_t i = 0; i < target.size(); ++i) {
    const bool repeated = i < lead || (x.shape[i - lead] == 1 && target[i] != 1);
    result.strides[i] = repeated ? 0 : x.strides[i - lead];
  }
  return result;
}

Geometry as_strided_geometry(const Shape& shape, const Strides& strides, std::int64_t offset, Reach bounds,
                             const char* name) {
  if (shape.size() != strides.size())
    throw ShapeError(text(operation_text(name), ": shape ", shape, " and strides ", strides,
                          " have different lengths; give one stride per axis"));
  const std::int64_t count = element_count(shape, name);
  Reach reach = reach_of(shape, strides, name);
  const bool overflow = __builtin_add_overflow(reach.low, offset, &reach.low) ||
                        __builtin_add_overflow(reach.high, offset, &reach.high);
  if (overflow || (count > 0 && (reach.low < bounds.low || reach.high > bounds.high)))
    throw ShapeError(text(operation_text(name), ": shape ", shape, ", strides ", strides, ", offset ", offset,
                          " reaches elements ", reach.low - bounds.low, " to ", reach.high - bounds.low,
                          " of a storage of ", bounds.high - bounds.low + 1, " elements; stay inside it"));
  return {shape, strides, offset};
}

}  // namespace stiletto::detail
