// SPDX-License-Identifier: Apache-2.0
// The reference's array: dense row-major values with a shape and an element type. Views copy, broadcasting is
// index arithmetic, and nothing is fast, so that what the tests compare with can be checked by reading it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "support/device_results.hpp"
#include "support/numbers.hpp"

namespace support {

using Extents = std::vector<std::int64_t>;

inline std::int64_t count_of(const Extents& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

inline Extents row_major(const Extents& shape) {
  Extents strides(shape.size());
  std::int64_t step = 1;
  for (std::size_t i = shape.size(); i-- > 0; step *= shape[i]) strides[i] = step;
  return strides;
}

inline std::int64_t dot(const Extents& index, const Extents& strides) {
  return std::inner_product(index.begin(), index.end(), strides.begin(), std::int64_t{0});
}

/// Calls `visit` with every index of a shape, in row-major order.
template <class Visit>
void for_each_index(const Extents& shape, Visit visit) {
  if (count_of(shape) == 0) return;
  Extents index(shape.size(), 0);
  while (true) {
    visit(std::as_const(index));
    std::size_t axis = shape.size();
    while (axis > 0 && ++index[axis - 1] == shape[axis - 1]) index[--axis] = 0;
    if (axis == 0) return;
  }
}

struct Tensor {
  DType dtype = DType::float32;
  Extents shape;
  std::vector<Real> values;
  Slack slack;  // of a result that a GPU computed

  Tensor() = default;
  Tensor(DType type, Extents extents)
      : dtype(type), shape(std::move(extents)), values(static_cast<std::size_t>(count_of(shape))) {}
  Tensor(DType type, Extents extents, std::vector<Real> contents)
      : dtype(type), shape(std::move(extents)), values(std::move(contents)) {}

  std::size_t size() const { return values.size(); }
  Real at(const Extents& index) const {
    return values[static_cast<std::size_t>(dot(index, row_major(shape)))];
  }
};

inline Real& element(Tensor& t, const Extents& index) {
  return t.values[static_cast<std::size_t>(dot(index, row_major(t.shape)))];
}

/// A tensor whose element at `index` is value(index).
template <class Value>
Tensor tabulate(DType dtype, const Extents& shape, Value value) {
  Tensor out(dtype, {});
  out.shape = shape;
  out.values.clear();
  out.values.reserve(static_cast<std::size_t>(count_of(shape)));
  for_each_index(shape, [&](const Extents& index) { out.values.push_back(value(index)); });
  return out;
}

// ---- views ----

inline Tensor transposed(const Tensor& x, const std::vector<std::size_t>& axes) {
  Extents shape, strides;
  const Extents dense = row_major(x.shape);
  for (std::size_t axis : axes) {
    shape.push_back(x.shape[axis]);
    strides.push_back(dense[axis]);
  }
  return tabulate(x.dtype, shape, [&](const Extents& index) {
    return x.values[static_cast<std::size_t>(dot(index, strides))];
  });
}

inline Tensor transposed(const Tensor& x) {
  std::vector<std::size_t> axes(x.shape.size());
  for (std::size_t i = 0; i < axes.size(); ++i) axes[i] = axes.size() - 1 - i;
  return transposed(x, axes);
}

inline Tensor reshaped(const Tensor& x, Extents shape) { return Tensor(x.dtype, std::move(shape), x.values); }

/// Elements begin, begin + step, … of each axis, `shape` of them.
inline Tensor sliced(const Tensor& x, const Extents& begin, const Extents& step, const Extents& shape) {
  const Extents dense = row_major(x.shape);
  return tabulate(x.dtype, shape, [&](const Extents& index) {
    std::int64_t at = 0;
    for (std::size_t i = 0; i < index.size(); ++i) at += (begin[i] + step[i] * index[i]) * dense[i];
    return x.values[static_cast<std::size_t>(at)];
  });
}

inline Tensor broadcasted(const Tensor& x, const Extents& shape) {
  const Extents dense = row_major(x.shape);
  Extents strides(shape.size(), 0);
  const std::size_t lead = shape.size() - x.shape.size();
  for (std::size_t i = 0; i < x.shape.size(); ++i)
    if (x.shape[i] != 1) strides[lead + i] = dense[i];
  return tabulate(x.dtype, shape, [&](const Extents& index) {
    return x.values[static_cast<std::size_t>(dot(index, strides))];
  });
}

/// The common shape by NumPy's rule; the caller knows that there is one.
inline Extents broadcast_shape(const Extents& a, const Extents& b) {
  Extents out(std::max(a.size(), b.size()), 1);
  for (const Extents* shape : {&a, &b})
    for (std::size_t i = 0; i < shape->size(); ++i)
      if ((*shape)[i] != 1) out[out.size() - shape->size() + i] = (*shape)[i];
  return out;
}

inline Tensor cast_to(const Tensor& x, DType dtype) {
  Tensor out = x;
  out.dtype = dtype;
  for (Real& value : out.values) value = convert(value, x.dtype, dtype);
  return out;
}

}  // namespace support
