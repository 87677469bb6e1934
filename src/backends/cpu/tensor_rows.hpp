// SPDX-License-Identifier: Apache-2.0
// How the kernels of structured operations reach a TensorView of any dtype and strides: runs of elements,
// converted to and from the type that they compute in, along a group of axes seen as one.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "backends/cpu/kernels.hpp"
#include "backends/cpu/structured.hpp"
#include "core/dtype_info.hpp"
#include "core/parallel.hpp"

namespace stiletto::detail::cpu {

/// Axes first to last − 1 of a view as one axis of `count` elements in row-major order, with as few of them
/// left as the strides allow.
struct AxisGroup {
  Dims extents, strides;
  std::int64_t count = 1;

  std::int64_t offset(std::int64_t index) const;
  /// Adjacent elements, or one element.
  bool is_dense() const { return extents.size() == 0 || (extents.size() == 1 && strides[0] == 1); }
};
AxisGroup axis_group(const TensorView& view, std::size_t first, std::size_t last);
/// Of axes in any order.
AxisGroup axis_group(const Dims& extents, const Dims& strides);

template <class T>
inline constexpr DType dtype_for = std::is_same_v<T, float>          ? DType::float32
                                   : std::is_same_v<T, double>       ? DType::float64
                                   : std::is_same_v<T, std::int32_t> ? DType::int32
                                                                     : DType::int64;

/// n elements, `stride` apart, to adjacent ones. T is float, double, std::int32_t or std::int64_t, and holds
/// the dtype exactly or is float.
template <class T>
void load_run(T* out, DType dtype, const std::byte* from, std::int64_t stride, std::int64_t n);
/// Adjacent elements to n elements, `stride` apart, rounded once.
template <class T>
void store_run(DType dtype, std::byte* to, std::int64_t stride, const T* values, std::int64_t n);

inline std::byte* element(const TensorView& view, std::int64_t offset) {
  return view.data + byte_offset(view.dtype, offset);
}

/// Calls f(index, offset, stride, n) for the runs that make up elements first to first + count − 1.
template <class F>
void for_each_run(const AxisGroup& group, std::int64_t first, std::int64_t count, const F& f) {
  if (group.extents.size() == 0) return f(std::int64_t{0}, std::int64_t{0}, std::int64_t{1}, count);
  const std::size_t inner = group.extents.size() - 1;
  const std::int64_t extent = group.extents[inner], stride = group.strides[inner];
  for (std::int64_t done = 0; done < count;) {
    const std::int64_t n = std::min(extent - (first + done) % extent, count - done);
    f(done, group.offset(first + done), stride, n);
    done += n;
  }
}

/// Elements first to first + count − 1 of the group that starts at `base`: where they lie if they are
/// adjacent elements of type T, else `buffer`, filled with them.
template <class T>
const T* read(const TensorView& view, std::int64_t base, const AxisGroup& group, std::int64_t first,
              std::int64_t count, T* buffer) {
  if (view.dtype == dtype_for<T> && group.is_dense())
    return reinterpret_cast<const T*>(element(view, base)) + first;
  for_each_run(group, first, count,
               [&](std::int64_t done, std::int64_t offset, std::int64_t stride, std::int64_t n) {
                 load_run(buffer + done, view.dtype, element(view, base + offset), stride, n);
               });
  return buffer;
}

/// Where to compute the elements that write() then stores: in place, or in `buffer`.
template <class T>
T* target(const TensorView& view, std::int64_t base, const AxisGroup& group, std::int64_t first, T* buffer) {
  return view.dtype == dtype_for<T> && group.is_dense() ? reinterpret_cast<T*>(element(view, base)) + first
                                                        : buffer;
}

template <class T>
void write(const TensorView& view, std::int64_t base, const AxisGroup& group, std::int64_t first,
           std::int64_t count, const T* values) {
  if (view.dtype == dtype_for<T> && group.is_dense() &&
      values == reinterpret_cast<const T*>(element(view, base)) + first)
    return;
  for_each_run(group, first, count,
               [&](std::int64_t done, std::int64_t offset, std::int64_t stride, std::int64_t n) {
                 store_run(view.dtype, element(view, base + offset), stride, values + done, n);
               });
}

/// The whole view in row-major order.
template <class T>
void load_all(T* out, const TensorView& view) {
  const AxisGroup group = axis_group(view, 0, view.shape.size());
  const T* const values = read(view, 0, group, 0, group.count, out);
  if (values != out) std::copy_n(values, group.count, out);
}
/// Nothing where nobody wants the result.
template <class T>
void store_all(const TensorView& view, const T* values) {
  if (view.data == nullptr) return;
  const AxisGroup group = axis_group(view, 0, view.shape.size());
  write(view, 0, group, 0, group.count, values);
}

/// Memory that a thread keeps. A kernel uses different places for itself and for its tasks, which may run on
/// the same thread.
enum class ScratchPlace : std::uint8_t { kernel, weights, staging, task, columns, workspace, behind, count };
std::byte* scratch_bytes(ScratchPlace place, std::size_t bytes);
template <class T>
T* scratch(ScratchPlace place, std::int64_t elements) {
  return reinterpret_cast<T*>(scratch_bytes(place, static_cast<std::size_t>(elements) * sizeof(T)));
}

constexpr std::int64_t ceil_divide(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// f(first, last) over pieces of 0 … count − 1, of which each has to be independent of how they are cut.
/// `cost`: of one, in elements read.
template <class F>
void for_each_piece(std::int64_t count, std::int64_t cost, const F& f) {
  constexpr std::int64_t least = 1 << 14;  // a few microseconds
  const std::int64_t threads = static_cast<std::int64_t>(thread_count());
  const std::int64_t smallest = std::max<std::int64_t>(1, least / std::max<std::int64_t>(1, cost));
  const std::int64_t size = std::max(smallest, ceil_divide(count, 4 * threads));
  parallel_for(static_cast<std::size_t>(ceil_divide(count, size)), [&](std::size_t piece) {
    const std::int64_t first = static_cast<std::int64_t>(piece) * size;
    f(first, std::min(count, first + size));
  });
}

}  // namespace stiletto::detail::cpu
