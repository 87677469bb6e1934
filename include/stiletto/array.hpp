// SPDX-License-Identifier: Apache-2.0
// Array: a cheap, copyable handle to strided memory on a device (concrete), to a value of a trace (traced),
// or to a description without memory (spec). Arrays are row-major unless their strides say otherwise.
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "stiletto/device.hpp"
#include "stiletto/dtype.hpp"
#include "stiletto/export.hpp"

namespace stiletto {

/// Up to 8 extents or strides, stored inline. More than 8 throws ShapeError.
class Dims {
 public:
  static constexpr std::size_t max_rank = 8;

  Dims() {}  // NOLINT(modernize-use-equals-default): `const Dims none;` has to compile
  Dims(std::initializer_list<std::int64_t> values) : Dims(std::span(values.begin(), values.size())) {}
  explicit Dims(std::span<const std::int64_t> values) {
    if (values.size() > max_rank) throw_too_many(values.size());
    for (std::int64_t value : values) values_[size_++] = value;
  }
  std::int64_t operator[](std::size_t i) const { return values_[i]; }
  std::int64_t& operator[](std::size_t i) { return values_[i]; }
  std::size_t size() const { return size_; }
  const std::int64_t* begin() const { return values_.data(); }
  const std::int64_t* end() const { return values_.data() + size_; }
  void push_back(std::int64_t value) {
    if (size_ == max_rank) throw_too_many(size_ + 1U);
    values_[size_++] = value;
  }
  bool operator==(const Dims& other) const {
    if (size_ != other.size_) return false;
    for (std::size_t i = 0; i < size_; ++i)
      if (values_[i] != other.values_[i]) return false;
    return true;
  }

 private:
  [[noreturn]] STILETTO_API static void throw_too_many(std::size_t count);
  std::array<std::int64_t, max_rank> values_;  // left alone: shapes are made on every traced operation
  std::uint8_t size_ = 0;
};
using Shape = Dims;
using Strides = Dims;  ///< in elements

STILETTO_API std::ostream& operator<<(std::ostream&, const Dims&);

namespace detail {
struct ArrayBody;
struct ArrayAccess;
struct ScalarValue;
STILETTO_API std::shared_ptr<const ArrayBody> make_constant(bool);
STILETTO_API std::shared_ptr<const ArrayBody> make_constant(long long);
STILETTO_API std::shared_ptr<const ArrayBody> make_constant(unsigned long long);
STILETTO_API std::shared_ptr<const ArrayBody> make_constant(int);
STILETTO_API std::shared_ptr<const ArrayBody> make_constant(double);
STILETTO_API std::shared_ptr<const ArrayBody> make_constant(half);
STILETTO_API std::shared_ptr<const ArrayBody> make_constant(bfloat16);

/// Overload resolution below decides the constant's dtype: integers that fit int are int32, larger types
/// int64.
template <Scalar T>
auto constant_argument(T value) {
  if constexpr (std::same_as<T, bool> || std::same_as<T, half> || std::same_as<T, bfloat16>)
    return value;
  else if constexpr (std::is_floating_point_v<T>)
    return static_cast<double>(value);
  else if constexpr (sizeof(T) < sizeof(int) || std::same_as<T, int>)
    return static_cast<int>(value);
  else if constexpr (std::is_unsigned_v<T>)
    return static_cast<unsigned long long>(value);
  else
    return static_cast<long long>(value);
}
}  // namespace detail

class STILETTO_API Array {
 public:
  /// An empty handle; using it throws ArgumentError.
  Array() = default;
  /// A rank-0 constant. Integers and booleans never change another array's dtype; float and double count as
  /// float32 (as float64 beside a float64 array); half and bfloat16 are arrays of their own dtype.
  template <Scalar T>
  Array(T value) : body_(detail::make_constant(detail::constant_argument(value))) {}

  DType dtype() const;
  const Shape& shape() const;
  const Strides& strides() const;
  int rank() const;
  /// The extent of one axis; negative axes count from the end. Out of range throws ShapeError.
  std::int64_t dim(int axis) const;
  std::int64_t size() const;   ///< number of elements
  std::size_t nbytes() const;  ///< size() elements of the dtype, without gaps
  Device device() const;
  bool is_traced() const;
  /// False for spec() and for traced arrays.
  bool has_memory() const;
  /// Row-major without gaps; extents of 1 may have any stride.
  bool is_contiguous() const;

  /// The only element, read on the host. T must be the dtype's element type (DTypeError), size() must be 1
  /// (ShapeError).
  template <class T>
  T item() const {
    T value;
    read_item(dtype_of<T>::value, &value);
    return value;
  }
  /// All elements in row-major logical order, whatever the strides. For float8_e8m0 and float4_e2m1, T is
  /// std::uint8_t: the raw code, one per element.
  template <class T>
  std::vector<T> to_vector() const {
    const auto count = static_cast<std::size_t>(checked_size("to_vector"));
    if constexpr (std::same_as<T, bool>) {  // std::vector<bool> has no array of its elements to copy into
      const std::unique_ptr<bool[]> values(new bool[count]);
      read_all(DType::boolean, values.get());
      return std::vector<bool>(values.get(), values.get() + count);
    } else {
      std::vector<T> values(count);
      read_all(dtype_of<T>::value, values.data());
      return values;
    }
  }
  /// The first element, on the array's device. T must match the dtype.
  template <class T>
  T* data() const {
    return static_cast<T*>(checked_data(dtype_of<T>::value));
  }
  /// One element; negative indices count from the end.
  template <class T>
  T at(std::initializer_list<std::int64_t> index) const {
    T value;
    read_at(dtype_of<T>::value, std::span(index.begin(), index.size()), &value);
    return value;
  }
  void* raw_data() const;
  /// A contiguous copy on another device; on the same device, the same memory.
  Array to(Device) const;
  /// A contiguous copy. Inside a trace, a node.
  Array copy() const;
  explicit operator bool() const = delete;

 private:
  friend struct detail::ArrayAccess;
  explicit Array(std::shared_ptr<const detail::ArrayBody> body) : body_(std::move(body)) {}
  std::int64_t checked_size(const char* reader) const;
  void* checked_data(DType expected) const;
  void read_item(DType expected, void* out) const;
  void read_all(DType expected, void* out) const;
  void read_at(DType expected, std::span<const std::int64_t> index, void* out) const;

  std::shared_ptr<const detail::ArrayBody> body_;
};

/// Values of a concrete array, elided when large; the type of any other.
STILETTO_API std::ostream& operator<<(std::ostream&, const Array&);

/// Inside a trace zeros, ones and full are constant nodes; empty, from_data and wrap throw TraceError there.
/// A negative extent, or a size beyond 64 bits, throws ShapeError before anything is allocated.
STILETTO_API Array zeros(Shape, DType = DType::float32, Device = Device::cpu());
STILETTO_API Array ones(Shape, DType = DType::float32, Device = Device::cpu());
STILETTO_API Array empty(Shape, DType = DType::float32, Device = Device::cpu());
/// `value` has rank 0.
STILETTO_API Array full(Shape, Array value, DType = DType::float32, Device = Device::cpu());

namespace detail {
STILETTO_API Array copy_from_host(const void* values, std::size_t count, DType, Shape, Device);
}

/// Copies row-major values; their number must be the shape's.
template <class T>
Array from_data(std::span<const T> values, Shape shape, Device device = Device::cpu()) {
  return detail::copy_from_host(values.data(), values.size(), dtype_of<T>::value, shape, device);
}
template <class T>
Array from_data(const std::vector<T>& values, Shape shape, Device device = Device::cpu()) {
  if constexpr (std::same_as<T, bool>) {
    const std::unique_ptr<bool[]> copy(new bool[values.size()]);
    std::copy(values.begin(), values.end(), copy.get());
    return detail::copy_from_host(copy.get(), values.size(), DType::boolean, shape, device);
  } else {
    return from_data(std::span<const T>(values), shape, device);
  }
}
/// An array over the caller's memory, without a copy. `pointer` is the first element; `strides` in elements,
/// empty for row-major; `owner` is kept as long as any array on this memory lives.
STILETTO_API Array wrap(void* pointer, Shape, DType, Device, Strides = {}, std::shared_ptr<void> owner = {});
/// Shape, dtype and strides without memory, to compile with. The device defaults to the target's, else
/// cuda(0).
STILETTO_API Array spec(Shape, DType, Strides = {}, std::optional<Device> = {});

}  // namespace stiletto
