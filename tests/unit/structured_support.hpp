// SPDX-License-Identifier: Apache-2.0
// What the tests of structured kernels share: tensors of any dtype and layout seen as float64 in row-major
// order, comparisons by the tolerances of docs/semantics.md, and slow obvious gradients.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <vector>

#include "backends/cpu/structured.hpp"
#include "core/dtype_info.hpp"
#include "core/layout.hpp"
#include "core/parallel.hpp"

namespace stiletto::detail::cpu::test {

using Values = std::vector<double>;
using Kernel = StructuredKernel;
inline constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();
inline constexpr double infinity = std::numeric_limits<double>::infinity();

enum class Layout { row_major, channels_last, gaps, reversed, broadcast };
inline constexpr Layout writable_layouts[] = {Layout::row_major, Layout::channels_last, Layout::gaps,
                                              Layout::reversed};
inline constexpr Layout all_layouts[] = {Layout::row_major, Layout::channels_last, Layout::gaps,
                                         Layout::reversed, Layout::broadcast};

class Tensor {
 public:
  Tensor(DType dtype, const Shape& shape, Layout layout = Layout::row_major) : dtype_(dtype), shape_(shape) {
    std::vector<std::size_t> order;
    for (std::size_t axis = 0; axis < shape.size(); ++axis)
      if (axis != 1 || layout != Layout::channels_last) order.push_back(axis);
    if (layout == Layout::channels_last && shape.size() > 1) order.push_back(1);
    std::int64_t stride = layout == Layout::gaps ? 2 : 1;
    strides_ = shape;
    for (std::size_t i = order.size(); i-- > 0; stride += layout == Layout::gaps ? 3 : 0) {
      strides_[order[i]] = stride;
      stride *= shape[order[i]];
    }
    first_ = 0;
    const std::size_t last = shape.size() - 1;
    if (layout == Layout::reversed)
      for (const std::size_t axis : {std::size_t{0}, last}) {
        if (strides_[axis] < 0) continue;
        first_ += (shape[axis] - 1) * strides_[axis];
        strides_[axis] = -strides_[axis];
      }
    if (layout == Layout::broadcast) strides_[last] = 0;
    bytes_.resize(bytes_for(dtype, stride + 1), std::byte{0xFF});
  }

  std::int64_t size() const { return element_count_unchecked(shape_); }
  const Shape& shape() const { return shape_; }
  DType dtype() const { return dtype_; }
  TensorView view() { return {address(first_), dtype_, shape_, strides_}; }
  TensorView unwanted() const { return {nullptr, dtype_, shape_, strides_}; }

  double get(std::int64_t index) { return get_at(address(offset(index))); }
  void set(std::int64_t index, double value) { set_at(address(offset(index)), value); }
  Values values() {
    Values result;
    for (std::int64_t i = 0; i < size(); ++i) result.push_back(get(i));
    return result;
  }
  Tensor& fill(const std::function<double()>& next) {
    for (std::int64_t i = 0; i < size(); ++i) set(i, next());
    return *this;
  }
  const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  std::byte* address(std::int64_t element) { return bytes_.data() + byte_offset(dtype_, element); }
  std::int64_t offset(std::int64_t index) const {
    std::int64_t result = first_;
    for (std::size_t axis = shape_.size(); axis-- > 0; index /= shape_[axis])
      result += index % shape_[axis] * strides_[axis];
    return result;
  }
  template <class T>
  static T read(const std::byte* from) {
    T value;
    std::memcpy(&value, from, sizeof value);
    return value;
  }
  template <class T>
  static void put(std::byte* to, T value) {
    std::memcpy(to, &value, sizeof value);
  }
  double get_at(const std::byte* from) const {
    switch (dtype_) {
      case DType::float16:
        return static_cast<float>(read<half>(from));
      case DType::bfloat16:
        return static_cast<float>(read<bfloat16>(from));
      case DType::float32:
        return read<float>(from);
      case DType::float64:
        return read<double>(from);
      case DType::int8:
        return read<std::int8_t>(from);
      case DType::uint8:
        return read<std::uint8_t>(from);
      case DType::int32:
        return read<std::int32_t>(from);
      default:
        return static_cast<double>(read<std::int64_t>(from));
    }
  }
  void set_at(std::byte* to, double value) const {
    switch (dtype_) {
      case DType::float16:
        return put(to, half(static_cast<float>(value)));
      case DType::bfloat16:
        return put(to, bfloat16(static_cast<float>(value)));
      case DType::float32:
        return put(to, static_cast<float>(value));
      case DType::float64:
        return put(to, value);
      case DType::int8:
        return put(to, static_cast<std::int8_t>(value));
      case DType::uint8:
        return put(to, static_cast<std::uint8_t>(value));
      case DType::int32:
        return put(to, static_cast<std::int32_t>(value));
      default:
        return put(to, static_cast<std::int64_t>(value));
    }
  }

  DType dtype_;
  Shape shape_;
  Strides strides_;
  std::int64_t first_;
  std::vector<std::byte> bytes_;
};

/// Numbers between −1 and 1, or whole ones that every integer type holds.
class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}
  std::function<double()> for_type(DType dtype) {
    if (is_integer(dtype)) {
      const int low = dtype == DType::uint8 ? 0 : -128, high = dtype == DType::uint8 ? 255 : 127;
      return [this, low, high] { return std::uniform_int_distribution<int>(low, high)(engine_); };
    }
    return [this] { return std::uniform_real_distribution<double>(-1, 1)(engine_); };
  }
  Tensor tensor(DType dtype, const Shape& shape, Layout layout = Layout::row_major) {
    return Tensor(dtype, shape, layout).fill(for_type(dtype));
  }
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(engine_);
  }

 private:
  std::mt19937 engine_;
};

/// Relative to the reference's largest magnitude; of float32 and wider for `terms` accumulated terms.
inline double tolerance(DType dtype, double terms) {
  switch (dtype) {
    case DType::float16:
      return 2e-3;
    case DType::bfloat16:
      return 1.6e-2;
    case DType::float32:
      return 1e-6 * std::sqrt(terms);
    case DType::float64:
      return 1e-14 * std::sqrt(terms);
    default:
      return 0;
  }
}

inline void expect_near(Tensor& got, const Values& reference, double allowed, const char* what) {
  double largest = 0;
  for (const double value : reference)
    if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
  ASSERT_EQ(static_cast<std::size_t>(got.size()), reference.size()) << what;
  for (std::size_t i = 0; i < reference.size(); ++i) {
    const double value = got.get(static_cast<std::int64_t>(i));
    if (std::isfinite(reference[i]))
      ASSERT_NEAR(value, reference[i], allowed * largest) << what << " at " << i << ", " << got.dtype();
    else if (std::isnan(reference[i]))
      ASSERT_TRUE(std::isnan(value)) << what << " at " << i << " is " << value;
    else
      ASSERT_EQ(value, reference[i]) << what << " at " << i;
  }
}

/// Runs the kernel on all threads, then on one: a nested call stays on its thread.
inline void run_both(Kernel kernel, const Attributes& attributes, const std::vector<TensorView>& operands,
                     std::vector<Tensor*> results) {
  std::vector<TensorView> views;
  for (Tensor* result : results) views.push_back(result->view());
  kernel(attributes, operands, views);
  std::vector<Tensor> again;
  for (Tensor* result : results) again.push_back(*result);
  std::vector<TensorView> views_again;
  for (Tensor& result : again) views_again.push_back(result.fill([] { return 7; }).view());
  parallel_for(2, [&](std::size_t task) {
    if (task == 0) kernel(attributes, operands, views_again);
  });
  for (std::size_t i = 0; i < results.size(); ++i)
    ASSERT_TRUE(results[i]->bytes() == again[i].bytes()) << "result " << i << " differs on one thread";
}

/// The gradient of sum(weights·f(at)) by central differences.
inline Values finite_differences(const Values& at, const Values& weights,
                                 const std::function<Values(const Values&)>& f) {
  constexpr double step = 1e-5;
  Values gradient, moved = at;
  const auto loss = [&] {
    const Values values = f(moved);
    double sum = 0;
    for (std::size_t i = 0; i < values.size(); ++i) sum += values[i] * weights[i];
    return sum;
  };
  for (std::size_t i = 0; i < at.size(); ++i) {
    moved[i] = at[i] + step;
    const double above = loss();
    moved[i] = at[i] - step;
    gradient.push_back((above - loss()) / (2 * step));
    moved[i] = at[i];
  }
  return gradient;
}

}  // namespace stiletto::detail::cpu::test
