// SPDX-License-Identifier: Apache-2.0
// Array's members: asking, reading on the host, and the memory underneath.
#include "stiletto/array.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <new>

#include "core/array_body.hpp"
#include "core/device_memory.hpp"
#include "core/text.hpp"
#include "stiletto/error.hpp"

namespace stiletto {

using detail::ArrayAccess;
using detail::ArrayBody;
using detail::extent_text;
using detail::operation_text;
using detail::text;

namespace {

/// The body of an array that has values to read, or an error that says what to use instead.
const ArrayBody& readable(const Array& array, const char* reader) {
  const ArrayBody& body = ArrayAccess::body(array, reader);
  if (body.kind == ArrayBody::Kind::traced)
    throw TraceError(
        text(operation_text(reader), ": a traced array (", body.dtype, body.shape,
             ") has no values while its function is being recorded; branch with where(), pass the value as "
             "an argument, or read it from what the compiled function returns"));
  if (body.kind == ArrayBody::Kind::spec)
    throw TraceError(text(operation_text(reader), ": a spec (", body.dtype, body.shape,
                          ") has no memory; make the array with zeros, empty, from_data or wrap"));
  return body;
}

void check_element_type(const ArrayBody& body, DType expected, const char* reader) {
  const bool raw_code = body.dtype == DType::float8_e8m0 || body.dtype == DType::float4_e2m1;
  if (raw_code ? expected == DType::uint8 : expected == body.dtype) return;
  throw DTypeError(text(operation_text(reader), ": the array is ", body.dtype,
                        ", the element type asked for is ", expected,
                        raw_code ? "; its raw codes are read as uint8" : "; cast(x, dtype) first"));
}

}  // namespace

DType Array::dtype() const { return ArrayAccess::body(*this, "dtype").dtype; }
const Shape& Array::shape() const { return ArrayAccess::body(*this, "shape").shape; }
const Strides& Array::strides() const { return ArrayAccess::body(*this, "strides").strides; }
int Array::rank() const { return static_cast<int>(ArrayAccess::body(*this, "rank").shape.size()); }
std::int64_t Array::dim(int axis) const {
  const ArrayBody& body = ArrayAccess::body(*this, "dim");
  return body.shape[detail::normalized_axis(axis, body.shape.size(), body.shape, "dim")];
}
std::int64_t Array::size() const {
  return detail::element_count_unchecked(ArrayAccess::body(*this, "size").shape);
}
std::size_t Array::nbytes() const {
  const ArrayBody& body = ArrayAccess::body(*this, "nbytes");
  return detail::bytes_for(body.dtype, detail::element_count_unchecked(body.shape));
}
Device Array::device() const { return ArrayAccess::body(*this, "device").device; }
bool Array::is_traced() const {
  return ArrayAccess::body(*this, "is_traced").kind == ArrayBody::Kind::traced;
}
bool Array::has_memory() const {
  const ArrayBody::Kind kind = ArrayAccess::body(*this, "has_memory").kind;
  return kind == ArrayBody::Kind::concrete || kind == ArrayBody::Kind::number;
}
bool Array::is_contiguous() const {
  const ArrayBody& body = ArrayAccess::body(*this, "is_contiguous");
  return detail::is_row_major(body.shape, body.strides);
}

void* Array::raw_data() const { return readable(*this, "raw_data").data(); }

std::int64_t Array::checked_size(const char* reader) const {
  return detail::element_count_unchecked(readable(*this, reader).shape);
}

void* Array::checked_data(DType expected) const {
  const ArrayBody& body = readable(*this, "data");
  check_element_type(body, expected, "data");
  return body.data();
}

void Array::read_item(DType expected, void* out) const {
  const ArrayBody& body = readable(*this, "item");
  check_element_type(body, expected, "item");
  const std::int64_t count = detail::element_count_unchecked(body.shape);
  if (count != 1)
    throw ShapeError(text(operation_text("item"), ": shape ", body.shape, " has ", count,
                          " elements, not one; use at or to_vector"));
  detail::read_element(body, 0, static_cast<std::byte*>(out), "item");
}

void Array::read_all(DType expected, void* out) const {
  const ArrayBody& body = readable(*this, "to_vector");
  check_element_type(body, expected, "to_vector");
  detail::copy_elements(body.device.is_cuda() ? detail::on_host(body, "to_vector") : body,
                        static_cast<std::byte*>(out));
}

void Array::read_at(DType expected, std::span<const std::int64_t> index, void* out) const {
  const ArrayBody& body = readable(*this, "at");
  check_element_type(body, expected, "at");
  if (index.size() != body.shape.size())
    throw ShapeError(text(operation_text("at"), ": ", index.size(), index.size() == 1 ? " index" : " indices",
                          " for shape ", body.shape, "; give one for each axis"));
  std::int64_t offset = 0;
  for (std::size_t axis = 0; axis < index.size(); ++axis) {
    const std::int64_t extent = body.shape[axis];
    const std::int64_t i = index[axis] < 0 ? index[axis] + extent : index[axis];
    if (i < 0 || i >= extent)
      throw ShapeError(text(operation_text("at"), ": index ", index[axis], " is out of range for axis ", axis,
                            " of shape ", body.shape, "; ", extent_text("indices", extent)));
    offset += i * body.strides[axis];
  }
  detail::read_element(body, offset, static_cast<std::byte*>(out), "at");
}

Array Array::to(Device device) const {
  const ArrayBody& body = readable(*this, "to");
  if (device == body.device) return *this;
  return detail::copy_to(body, device);
}

}  // namespace stiletto

namespace stiletto::detail {

void ArrayAccess::throw_empty(const char* operation) {
  throw ArgumentError(text(operation_text(operation),
                           ": the array is an empty handle; make it with zeros, empty, from_data or wrap"));
}

void encode_number(const ScalarValue& value, DType dtype, std::byte* out) {
  auto put = [&](auto v) { std::memcpy(out, &v, sizeof v); };
  switch (dtype) {
    case DType::boolean:
      return put(value.as_double() != 0);
    case DType::int32:
      return put(static_cast<std::int32_t>(value.integer));
    case DType::int64:
      return put(value.integer);
    case DType::float16:
      return put(half(static_cast<float>(value.as_double())));
    case DType::bfloat16:
      return put(bfloat16(static_cast<float>(value.as_double())));
    case DType::float32:
      return put(static_cast<float>(value.as_double()));
    case DType::float64:
      return put(value.as_double());
    case DType::int8:
      return put(static_cast<std::int8_t>(value.integer));
    case DType::uint8:
      return put(static_cast<std::uint8_t>(value.integer));
    default:
      throw InternalError(text("a number of dtype ", dtype, "; please report this"));
  }
}

namespace {

std::shared_ptr<const ArrayBody> number_body(const ScalarValue& value, DType dtype, bool weak) {
  auto body = new_body();
  body->kind = ArrayBody::Kind::number;
  body->dtype = dtype;
  body->weak = weak;
  body->scalar = true;
  body->value = value;
  encode_number(value, dtype, body->bytes);
  return body;
}

}  // namespace

Array make_number(const ScalarValue& value, DType dtype, bool weak) {
  return ArrayAccess::make(number_body(value, dtype, weak));
}

std::shared_ptr<const ArrayBody> make_constant(bool value) {
  return number_body(ScalarValue::of(value), DType::boolean, true);
}
std::shared_ptr<const ArrayBody> make_constant(int value) {
  return number_body(ScalarValue::of(static_cast<std::int64_t>(value)), DType::int32, true);
}
std::shared_ptr<const ArrayBody> make_constant(long long value) {
  return number_body(ScalarValue::of(static_cast<std::int64_t>(value)), DType::int64, true);
}
std::shared_ptr<const ArrayBody> make_constant(unsigned long long value) {
  if (value > static_cast<unsigned long long>(std::numeric_limits<std::int64_t>::max()))
    throw DTypeError(text("Array: the number ", value,
                          " does not fit int64, the widest integer type; write it as a double"));
  return number_body(ScalarValue::of(static_cast<std::int64_t>(value)), DType::int64, true);
}
std::shared_ptr<const ArrayBody> make_constant(double value) {
  return number_body(ScalarValue::of(value), DType::float32, true);
}
std::shared_ptr<const ArrayBody> make_constant(half value) {
  return number_body(ScalarValue::of(static_cast<double>(static_cast<float>(value))), DType::float16, false);
}
std::shared_ptr<const ArrayBody> make_constant(bfloat16 value) {
  return number_body(ScalarValue::of(static_cast<double>(static_cast<float>(value))), DType::bfloat16, false);
}

Array make_view(const ArrayBody& of, Shape shape, Strides strides, std::int64_t offset) {
  ArrayBody view = of;
  view.shape = shape;
  view.strides = strides;
  view.offset = of.offset + offset;
  return ArrayAccess::make(std::move(view));
}

void throw_no_backend(Device device, const char* operation) {
  throw DeviceError(text(operation_text(operation), ": this build of Stiletto has no backend for ", device,
                         "; use Device::cpu(), or a build with the cuDNN backend"));
}

std::shared_ptr<Storage> allocate(Device device, std::size_t bytes, const char* operation) {
  if (device.is_cuda()) return device_memory(device, operation).allocate(device, bytes);
  constexpr std::align_val_t alignment{64};
  auto storage = std::make_shared<Storage>();
  storage->data = ::operator new(bytes, alignment, std::nothrow);
  if (storage->data == nullptr)
    throw DeviceError(text(operation_text(operation), ": allocating ", bytes, " bytes on ", device,
                           " failed; nothing was written: free memory, or use smaller arrays"));
  storage->owner = std::shared_ptr<void>(storage->data, [](void* p) { ::operator delete(p, alignment); });
  storage->bytes = static_cast<std::int64_t>(bytes);
  return storage;
}

Array allocate_array(Device device, const Shape& shape, DType dtype, const char* operation) {
  ArrayBody body;
  body.dtype = dtype;
  body.device = device;
  body.shape = shape;
  body.strides = row_major(shape);
  body.storage = allocate(device, bytes_for(dtype, element_count(shape, operation)), operation);
  return ArrayAccess::make(std::move(body));
}

void fill_memory(const ArrayBody& to, const ArrayBody& value) {
  const std::size_t size = bytes_for(to.dtype, 1);
  const std::size_t count = bytes_for(to.dtype, element_count_unchecked(to.shape)) / size;
  if (count == 0) return;
  alignas(8) std::byte element[8] = {};
  read_element(value, 0, element, "full");
  if (to.dtype == DType::float4_e2m1) element[0] |= element[0] << 4;  // from here on a pair
  if (to.device.is_cuda())
    return device_memory(to.device, "full").fill(to.device, to.data(), element, size, count, "full");
  // Doubling what is filled already copies at the speed of memory.
  auto* out = static_cast<std::byte*>(to.data());
  std::memcpy(out, element, size);
  for (std::size_t filled = 1; filled < count; filled *= 2)
    std::memcpy(out + filled * size, out, std::min(filled, count - filled) * size);
}

void check_packing(DType dtype, const Shape& shape, const Strides& strides, std::int64_t offset,
                   const char* operation) {
  if (dtype != DType::float4_e2m1) return;
  bool ok = offset % 2 == 0;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] <= 1) continue;
    ok = ok && (strides[i] % 2 == 0 || (strides[i] == 1 && shape[i] % 2 == 0));
  }
  if (!ok)
    throw ShapeError(text(operation_text(operation), ": float4_e2m1 is packed two to a byte: offset ", offset,
                          ", shape ", shape, ", strides ", strides,
                          " would split one; offsets and strides have to be even, and the extent along "
                          "stride 1 too"));
}

}  // namespace stiletto::detail
