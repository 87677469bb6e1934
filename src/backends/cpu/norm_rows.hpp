// SPDX-License-Identifier: Apache-2.0
// What forward and backward normalisation over trailing axes share: rows of tensors, read a segment at a time
// into buffers that stay in the nearest cache.
#pragma once
#include <cstdint>

#include "backends/cpu/tensor_rows.hpp"

namespace stiletto::detail::cpu {

inline constexpr std::int64_t segment = 4096;  // elements of a row at hand; a multiple of 16

/// A tensor as rows of columns: its leading axes by its `axes` trailing ones.
struct Rows {
  Rows(const TensorView& v, std::size_t axes)
      : view(v),
        rows(axis_group(v, 0, leading(v, axes))),
        columns(axis_group(v, leading(v, axes), v.shape.size())) {}
  /// A result that nobody wants has no axes.
  static std::size_t leading(const TensorView& v, std::size_t axes) {
    return v.data == nullptr ? 0 : v.shape.size() - axes;
  }
  const TensorView& view;
  AxisGroup rows, columns;
};

/// Reads segments of one row after another; what is asked for twice in a row is converted once.
template <class T>
class SegmentReader {
 public:
  SegmentReader(const Rows& rows, T* buffer) : rows_(rows), buffer_(buffer) {}
  void start_row(std::int64_t row) {
    base_ = rows_.rows.offset(row);
    first_ = -1;
  }
  const T* at(std::int64_t first, std::int64_t n) {
    if (first != first_) values_ = read(rows_.view, base_, rows_.columns, first, n, buffer_);
    first_ = first;
    return values_;
  }

 private:
  const Rows& rows_;
  T* buffer_;
  const T* values_ = nullptr;
  std::int64_t base_ = 0, first_ = -1;
};

/// f(first, n) for each segment of a row.
template <class F>
void for_each_segment(std::int64_t columns, const F& f) {
  for (std::int64_t first = 0; first < columns; first += segment)
    f(first, std::min(segment, columns - first));
}

/// An operand of few elements in the compute type: where it lies, or converted into `buffer`.
template <class T>
const T* whole(const TensorView& view, T* buffer) {
  const AxisGroup group = axis_group(view, 0, view.shape.size());
  return read(view, 0, group, 0, group.count, buffer);
}

/// One number of a result that may not be wanted.
template <class T>
void store_one(const TensorView& view, std::int64_t offset, T value) {
  if (view.data != nullptr) store_run(view.dtype, element(view, offset), 1, &value, 1);
}
template <class T>
T load_one(const TensorView& view, std::int64_t offset) {
  T value;
  load_run(&value, view.dtype, element(view, offset), 1, 1);
  return value;
}

}  // namespace stiletto::detail::cpu
