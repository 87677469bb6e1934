// SPDX-License-Identifier: Apache-2.0
// A strided copy as two-dimensional copies, the only strided ones CUDA has. Rows of equal distance become one
// copy; what does not fit that form (a backward axis, a third stride) is one copy per index, which is slow.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/device_memory.hpp"

namespace stiletto::detail::cudnn {

/// `height` rows of `width` bytes; offsets and pitches in bytes, pitches at least the width.
struct PlaneCopy {
  std::int64_t to = 0, from = 0;
  std::size_t to_pitch = 0, from_pitch = 0, width = 0, height = 1;
  bool within_destination = false;  // `from` counts in the destination, which an earlier copy has written
};

/// Called with the copies one after the other: there may be millions of them.
class PlaneVisitor {
 public:
  PlaneVisitor() = default;
  PlaneVisitor(const PlaneVisitor&) = delete;
  PlaneVisitor& operator=(const PlaneVisitor&) = delete;
  virtual ~PlaneVisitor() = default;
  virtual void copy(const PlaneCopy& plane) = 0;
};

/// An axis that repeats (stride 0) is written once and then doubled within the destination.
void visit_planes(const StridedCopy& geometry, std::size_t largest_pitch, PlaneVisitor& visitor);

}  // namespace stiletto::detail::cudnn
