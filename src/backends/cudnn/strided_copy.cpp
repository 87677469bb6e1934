// SPDX-License-Identifier: Apache-2.0
// Taking strided copies apart.
#include "backends/cudnn/strided_copy.hpp"

#include <algorithm>
#include <iterator>

namespace stiletto::detail::cudnn {
namespace {

struct Axis {
  std::int64_t extent, to, from;
};
using Axes = std::vector<Axis>;  // outermost first, as the destination lies

/// Innermost axes without gaps on both sides become part of the row.
std::int64_t take_row(Axes& axes, std::int64_t element) {
  std::int64_t width = element;
  for (bool found = true; found;) {
    const auto next = std::find_if(axes.begin(), axes.end(),
                                   [&](const Axis& axis) { return axis.to == width && axis.from == width; });
    found = next != axes.end();
    if (found) {
      width *= next->extent;
      axes.erase(next);
    }
  }
  return width;
}

/// Neighbours that are walked as one become one.
void merge_neighbours(Axes& axes) {
  for (std::size_t i = axes.size(); i-- > 1;) {
    Axis& outer = axes[i - 1];
    const Axis& inner = axes[i];
    if (outer.to != inner.extent * inner.to || outer.from != inner.extent * inner.from) continue;
    outer = {outer.extent * inner.extent, inner.to, inner.from};
    axes.erase(axes.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

/// The longest axis that the rows of one copy can lie along.
Axes::iterator find_height(Axes& axes, std::int64_t width, std::int64_t largest_pitch) {
  auto best = axes.end();
  for (auto axis = axes.begin(); axis != axes.end(); ++axis) {
    const bool fits =
        std::min(axis->to, axis->from) >= width && std::max(axis->to, axis->from) <= largest_pitch;
    if (fits && (best == axes.end() || axis->extent > best->extent)) best = axis;
  }
  return best;
}

/// Copies a box, starting at the plane's offsets.
void copy_box(Axes axes, std::int64_t element, std::int64_t largest_pitch, PlaneCopy plane,
              PlaneVisitor& visitor) {
  std::erase_if(axes, [](const Axis& axis) { return axis.extent == 1; });
  const std::int64_t width = take_row(axes, element);
  merge_neighbours(axes);
  plane.width = plane.to_pitch = plane.from_pitch = static_cast<std::size_t>(width);
  if (const auto height = find_height(axes, width, largest_pitch); height != axes.end()) {
    plane.height = static_cast<std::size_t>(height->extent);
    plane.to_pitch = static_cast<std::size_t>(height->to);
    plane.from_pitch = static_cast<std::size_t>(height->from);
    axes.erase(height);
  }
  std::vector<std::int64_t> index(axes.size(), 0);
  for (;;) {
    visitor.copy(plane);
    std::size_t i = axes.size();
    for (; i > 0; --i) {
      const Axis& axis = axes[i - 1];
      plane.to += axis.to;
      plane.from += axis.from;
      if (++index[i - 1] < axis.extent) break;
      plane.to -= axis.to * axis.extent;
      plane.from -= axis.from * axis.extent;
      index[i - 1] = 0;
    }
    if (i == 0) return;
  }
}

/// The axis at `position` repeats: index 0 along it is there, with all axes inside it.
void repeat(const Axes& axes, std::size_t position, std::int64_t element, std::int64_t largest_pitch,
            PlaneVisitor& visitor) {
  Axes box;
  for (std::size_t i = 0; i < axes.size(); ++i)
    if (i > position || axes[i].from != 0) box.push_back({axes[i].extent, axes[i].to, axes[i].to});
  const Axis& repeated = axes[position];
  for (std::int64_t done = 1; done < repeated.extent; done *= 2) {
    Axes part = box;
    const auto inner = static_cast<std::ptrdiff_t>(axes.size() - position - 1);
    part.insert(part.end() - inner, {std::min(done, repeated.extent - done), repeated.to, repeated.to});
    PlaneCopy plane;
    plane.to = done * repeated.to;
    plane.within_destination = true;
    copy_box(std::move(part), element, largest_pitch, plane, visitor);
  }
}

}  // namespace

void visit_planes(const StridedCopy& geometry, std::size_t largest_pitch, PlaneVisitor& visitor) {
  const auto element = static_cast<std::int64_t>(geometry.element);
  const auto pitch = static_cast<std::int64_t>(largest_pitch);
  Axes axes, moving;
  for (std::size_t i = 0; i < geometry.extents.size(); ++i) {
    if (geometry.extents[i] == 0) return;
    if (geometry.extents[i] > 1) axes.push_back({geometry.extents[i], geometry.to[i], geometry.from[i]});
  }
  std::copy_if(axes.begin(), axes.end(), std::back_inserter(moving),
               [](const Axis& axis) { return axis.from != 0; });
  copy_box(moving, element, pitch, {}, visitor);
  for (std::size_t i = axes.size(); i-- > 0;)
    if (axes[i].from == 0) repeat(axes, i, element, pitch, visitor);
}

}  // namespace stiletto::detail::cudnn
