// SPDX-License-Identifier: Apache-2.0
// Shape and stride arithmetic; see layout.hpp.
#include "core/layout.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <vector>

#include "core/text.hpp"
#include "stiletto/error.hpp"

namespace stiletto {

void Dims::throw_too_many(std::size_t count) {
  throw ShapeError(detail::text("rank ", count, " is beyond Stiletto's limit of ", max_rank,
                                " axes; merge axes with reshape"));
}

std::ostream& operator<<(std::ostream& out, const Dims& dims) {
  out << '(';
  for (std::size_t i = 0; i < dims.size(); ++i) out << (i ? ", " : "") << dims[i];
  return out << ')';
}

}  // namespace stiletto

namespace stiletto::detail {

std::int64_t element_count(const Shape& shape, const char* operation) {
  std::int64_t count = 1;
  for (std::int64_t extent : shape)
    if (extent < 0)
      throw ShapeError(
          text(operation_text(operation), ": shape ", shape, " has a negative extent; extents start at 0"));
  for (std::int64_t extent : shape)
    if (extent == 0) return 0;
  for (std::int64_t extent : shape)
    if (__builtin_mul_overflow(count, extent, &count) || count > (std::int64_t{1} << 60))
      throw ShapeError(text(operation_text(operation), ": shape ", shape,
                            " has more elements than 64 bits can address in bytes; use smaller extents"));
  return count;
}

Strides canonical_strides(const Shape& shape, const Strides& strides) {
  Strides result = strides;
  std::int64_t next = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    if (shape[i] == 0) return row_major(shape);
    if (shape[i] == 1)
      result[i] = next;
    else if (__builtin_mul_overflow(result[i], shape[i], &next))
      next = 1;  // what lies behind the last element need not fit; any fixed stride will do there
  }
  return result;
}

Strides dense_strides(const Shape& shape, std::span<const std::size_t> order) {
  Strides strides = shape;
  std::int64_t stride = 1;
  for (std::size_t i = order.size(); i-- > 0;) {
    strides[order[i]] = stride;
    if (shape[order[i]] > 1 && __builtin_mul_overflow(stride, shape[order[i]], &stride)) stride = 1;
  }
  return strides;
}

Reach reach_of(const Shape& shape, const Strides& strides, const char* operation) {
  Reach reach{0, 0};
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 0) return {};
    std::int64_t span = 0;
    std::int64_t& end = strides[i] < 0 ? reach.low : reach.high;
    if (__builtin_mul_overflow(shape[i] - 1, strides[i], &span) || __builtin_add_overflow(end, span, &end))
      throw ShapeError(text(operation_text(operation), ": shape ", shape, " with strides ", strides,
                            " reaches beyond 64 bits; use smaller strides"));
  }
  return reach;
}

namespace {

struct Step {
  std::int64_t stride, extent;
};

/// Axes that move, by ascending |stride|.
std::vector<Step> moving_axes(std::span<const std::int64_t> extents, std::span<const std::int64_t> strides) {
  std::vector<Step> steps;
  for (std::size_t i = 0; i < extents.size(); ++i)
    if (extents[i] > 1) steps.push_back({std::abs(strides[i]), extents[i]});
  std::sort(steps.begin(), steps.end(), [](const Step& a, const Step& b) { return a.stride < b.stride; });
  return steps;
}

/// Each stride is larger than everything the smaller ones span: indices and offsets are one-to-one.
bool nests(const std::vector<Step>& steps) {
  std::int64_t span = 0;
  for (const Step& step : steps) {
    if (step.stride <= span) return false;
    span += step.stride * (step.extent - 1);
  }
  return true;
}

}  // namespace

bool overlaps_itself(std::span<const std::int64_t> extents, std::span<const std::int64_t> strides) {
  if (std::find(extents.begin(), extents.end(), 0) != extents.end()) return false;
  return !nests(moving_axes(extents, strides));
}

namespace {

/// Whether Σ dₖ·strideₖ = distance has a solution with −(aₖ−1)… ≤ dₖ ≤ …(bₖ−1), largest stride first. With
/// nesting strides at most two values of each dₖ can lead to a solution: the quotient and its neighbour.
bool meets(const std::vector<Step>& a, const std::vector<Step>& b, std::size_t axis, std::int64_t distance) {
  if (axis == 0) return distance == 0;
  const Step& step = a[axis - 1];
  const std::int64_t quotient = distance / step.stride;
  for (std::int64_t d = quotient - 1; d <= quotient + 1; ++d)
    if (d > -step.extent && d < b[axis - 1].extent && meets(a, b, axis - 1, distance - d * step.stride))
      return true;
  return false;
}

}  // namespace

bool may_overlap(const ViewExtent& a, const ViewExtent& b) {
  auto reach = [](const ViewExtent& v) {
    Reach r{v.first, v.first};
    for (std::size_t i = 0; i < v.extents.size(); ++i) {
      if (v.extents[i] == 0) return Reach{};
      (v.strides[i] < 0 ? r.low : r.high) += (v.extents[i] - 1) * v.strides[i];
    }
    return r;
  };
  const Reach ra = reach(a), rb = reach(b);
  if (ra.high < ra.low || rb.high < rb.low || ra.high < rb.low || rb.high < ra.low) return false;
  // The same set of strides in both: axes that do not move in one view take part with extent 1.
  std::vector<Step> sa = moving_axes(a.extents, a.strides), sb = moving_axes(b.extents, b.strides);
  auto complete = [](std::vector<Step>& steps, const std::vector<Step>& other) {
    for (const Step& step : other) {
      auto same = [&](const Step& s) { return s.stride == step.stride; };
      if (std::none_of(steps.begin(), steps.end(), same)) steps.push_back({step.stride, 1});
    }
    std::sort(steps.begin(), steps.end(), [](const Step& x, const Step& y) { return x.stride < y.stride; });
  };
  const std::vector<Step> sb_only = sb;
  complete(sb, sa);
  complete(sa, sb_only);
  std::vector<Step> widest = sa;
  for (std::size_t i = 0; i < sa.size() && sa.size() == sb.size(); ++i)
    widest[i].extent = std::max(sa[i].extent, sb[i].extent);
  if (sa.size() != sb.size() || !nests(widest)) return true;
  return meets(sa, sb, sa.size(), ra.low - rb.low);
}

std::optional<Shape> broadcast(const Shape& a, const Shape& b) {
  if (a == b) return a;
  const Shape& longer = a.size() >= b.size() ? a : b;
  const Shape& shorter = a.size() >= b.size() ? b : a;
  Shape result = longer;
  const std::size_t lead = longer.size() - shorter.size();
  for (std::size_t i = 0; i < shorter.size(); ++i) {
    const std::int64_t x = longer[lead + i], y = shorter[i];
    if (x != y && x != 1 && y != 1) return std::nullopt;
    result[lead + i] = x == 1 ? y : x;
  }
  return result;
}

std::optional<Strides> reshape_strides(const Shape& shape, const Strides& strides, const Shape& target) {
  if (is_row_major(shape, strides)) return row_major(target);
  Strides result = row_major(target);  // extents of 1 keep these
  // Walk both shapes from the inside, matching groups of equal size; a group of the source must be walked
  // evenly.
  std::size_t s = shape.size(), t = target.size();
  while (s > 0 || t > 0) {
    while (s > 0 && shape[s - 1] == 1) --s;
    while (t > 0 && target[t - 1] == 1) --t;
    if (s == 0 || t == 0) break;
    std::int64_t stride = strides[s - 1], source = shape[--s], count = target[--t];
    result[t] = stride;
    while (source != count) {
      if (source < count) {
        if (s == 0) return std::nullopt;
        --s;
        std::int64_t even = 0;  // what lies behind the last element need not fit
        const bool overflow = __builtin_mul_overflow(stride, source, &even);
        if (shape[s] != 1 && (overflow || strides[s] != even)) return std::nullopt;
        source *= shape[s];
      } else {
        if (t == 0) return std::nullopt;
        result[--t] = stride * count;
        count *= target[t];
      }
    }
  }
  return result;
}

std::string extent_text(const char* what, std::int64_t extent) {
  if (extent == 0) return text("there are no ", what);
  return text(what, " here are ", -extent, " to ", extent - 1);
}

std::size_t normalized_axis(std::int64_t axis, std::size_t rank, const Shape& shape, const char* operation) {
  const auto n = static_cast<std::int64_t>(rank);
  if (axis < -n || axis >= n)
    throw ShapeError(text(operation_text(operation), ": axis ", axis, " is out of range for shape ", shape,
                          "; ", extent_text("axes", n)));
  return static_cast<std::size_t>(axis < 0 ? axis + n : axis);
}

}  // namespace stiletto::detail
