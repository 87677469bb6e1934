// SPDX-License-Identifier: Apache-2.0
// What an Array handle points to, and the memory behind it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/body_blocks.hpp"
#include "core/dtype_info.hpp"
#include "core/layout.hpp"
#include "core/scalar_value.hpp"
#include "stiletto/array.hpp"

namespace stiletto::detail {

/// A block of memory. Arrays on it keep it alive.
struct Storage {
  void* data = nullptr;
  std::int64_t bytes = 0;
  Device device = Device::cpu();
  std::shared_ptr<void> owner;  // frees the block, or is the caller's
};

struct ArrayBody {
  enum class Kind : std::uint8_t { concrete, number, traced, spec };
  Kind kind = Kind::concrete;
  DType dtype = DType::float32;
  bool weak = false;    // a C++ number: see OperandType
  bool scalar = false;  // a number, or traced arithmetic among numbers
  Device device = Device::cpu();
  Shape shape;
  Strides strides;

  std::shared_ptr<Storage> storage;  // concrete
  std::int64_t offset = 0;           // elements from the storage's first byte to the first element

  ScalarValue value;                   // number
  alignas(8) std::byte bytes[8] = {};  // number, in its dtype

  std::uint64_t trace = 0;  // traced: which trace, and which node of it
  std::uint32_t node = 0;

  void* data() const {
    if (kind == Kind::number) return const_cast<std::byte*>(bytes);
    return static_cast<std::byte*>(storage->data) + byte_offset(dtype, offset);
  }
};

inline std::shared_ptr<ArrayBody> new_body() {
  return std::allocate_shared<ArrayBody>(BodyAllocator<ArrayBody>());
}

struct ArrayAccess {
  /// Throws ArgumentError for an empty handle.
  static const ArrayBody& body(const Array& array, const char* operation) {
    if (!array.body_) throw_empty(operation);
    return *array.body_;
  }
  static const ArrayBody* body_or_null(const Array& array) { return array.body_.get(); }
  static Array make(std::shared_ptr<const ArrayBody> body) { return Array(std::move(body)); }
  static Array make(ArrayBody body) {
    auto made = new_body();
    *made = std::move(body);
    return Array(std::move(made));
  }
  [[noreturn]] static void throw_empty(const char* operation);
};

/// The value in the dtype's own bytes, of which there are up to 8; so item() and data() of a number work like
/// those of any array.
void encode_number(const ScalarValue& value, DType dtype, std::byte* out);

/// A number with a given type; the stored bytes are the value rounded to the dtype.
Array make_number(const ScalarValue& value, DType dtype, bool weak);

/// Whether a C++ number fits an integer dtype; true for whatever else there is.
inline bool number_fits(const ArrayBody& body, DType dtype) {
  return body.kind != ArrayBody::Kind::number || !body.weak || !is_integer(dtype) || fits(body.value, dtype);
}

/// A view on the same storage; the caller has checked that it lies inside.
Array make_view(const ArrayBody& of, Shape shape, Strides strides, std::int64_t offset);

[[noreturn]] void throw_no_backend(Device device, const char* operation);
/// Uninitialised memory, aligned to 64 bytes. DeviceError where the device has no backend.
std::shared_ptr<Storage> allocate(Device device, std::size_t bytes, const char* operation);
Array allocate_array(Device device, const Shape& shape, DType dtype, const char* operation);

/// Every element of `to`, which is contiguous, becomes the value, an array or number of the same dtype.
void fill_memory(const ArrayBody& to, const ArrayBody& value);

/// Alignment of an address in bytes, a power of two of at most 16.
inline int alignment_of(const void* pointer) {
  const auto low = reinterpret_cast<std::uintptr_t>(pointer) | 16U;
  return static_cast<int>(low & (~low + 1));
}

/// Refuses strides of float4_e2m1 that would split a byte.
void check_packing(DType dtype, const Shape& shape, const Strides& strides, std::int64_t offset,
                   const char* operation);

}  // namespace stiletto::detail
