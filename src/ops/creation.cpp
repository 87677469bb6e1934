// SPDX-License-Identifier: Apache-2.0
// Making arrays. zeros, ones and full are constant nodes inside a trace; what would make memory there is
// refused.
#include <algorithm>
#include <cstring>

#include "core/device_memory.hpp"
#include "core/text.hpp"
#include "ops/apply.hpp"
#include "stiletto/array.hpp"
#include "stiletto/error.hpp"
#include "stiletto/ops.hpp"

namespace stiletto {

using detail::ArrayAccess;
using detail::ArrayBody;
using detail::text;

namespace {

void refuse_in_trace(const char* name) {
  if (detail::Trace::current() != nullptr)
    throw TraceError(text(detail::operation_text(name),
                          ": memory cannot be made inside a trace; make it outside and pass or "
                          "capture it (zeros, ones and full are constants here)"));
}

Strides strides_or_row_major(const Shape& shape, const Strides& strides, const char* name) {
  if (strides.size() == 0) return detail::row_major(shape);
  if (strides.size() != shape.size())
    throw ShapeError(text(detail::operation_text(name), ": shape ", shape, " and strides ", strides,
                          " have different lengths; give one stride per axis, or none for row-major"));
  return strides;
}

Array filled(const char* name, Shape shape, const Array& value, DType dtype, Device device) {
  detail::element_count(shape, name);
  detail::check_packing(dtype, shape, detail::row_major(shape), 0, name);
  if (ArrayAccess::body(value, name).shape.size() != 0)
    throw ShapeError(text(detail::operation_text(name), ": the value has shape ", value.shape(),
                          ", it has to have rank 0; broadcast_to repeats an array"));
  if (dtype == DType::float8_e8m0)
    throw DTypeError(
        text(detail::operation_text(name),
             ": float8_e8m0 holds block scales, which are not computed with; use another dtype"));
  const ArrayBody& number = *ArrayAccess::body_or_null(value);
  if (!detail::number_fits(number, dtype))
    throw DTypeError(text(detail::operation_text(name), ": the number ", number.value.integer,
                          " does not fit ", dtype, "; use a wider dtype"));
  if (detail::Trace::current() != nullptr) return detail::apply_fill(value, shape, dtype, name);
  const Array result = detail::allocate_array(device, shape, dtype, name);
  const bool remote = number.device.is_cuda() && value.has_memory();
  const Array element = cast(remote ? value.to(Device::cpu()) : value, dtype);
  detail::fill_memory(*ArrayAccess::body_or_null(result), ArrayAccess::body(element, name));
  return result;
}

}  // namespace

Array zeros(Shape shape, DType dtype, Device device) { return filled("zeros", shape, 0, dtype, device); }
Array ones(Shape shape, DType dtype, Device device) { return filled("ones", shape, 1, dtype, device); }
Array full(Shape shape, Array value,  // NOLINT(performance-unnecessary-value-param): settled
           DType dtype, Device device) {
  return filled("full", shape, value, dtype, device);
}

Array empty(Shape shape, DType dtype, Device device) {
  refuse_in_trace("empty");
  detail::check_packing(dtype, shape, detail::row_major(shape), 0, "empty");
  return detail::allocate_array(device, shape, dtype, "empty");
}

Array wrap(void* pointer, Shape shape, DType dtype, Device device, Strides strides,
           std::shared_ptr<void> owner) {
  refuse_in_trace("wrap");
  const std::int64_t count = detail::element_count(shape, "wrap");
  strides = strides_or_row_major(shape, strides, "wrap");
  if (device.is_cuda()) detail::allocate(device, 0, "wrap");  // says what is missing
  if (pointer == nullptr && count > 0)
    throw ArgumentError(text("wrap: a null pointer for shape ", shape, "; pass the first element's address"));
  const detail::Reach reach = detail::reach_of(shape, strides, "wrap");
  detail::check_packing(dtype, shape, strides, reach.low, "wrap");
  ArrayBody body;
  body.dtype = dtype;
  body.device = device;
  body.shape = shape;
  body.strides = strides;
  body.offset = -reach.low;
  body.storage = std::make_shared<detail::Storage>();
  body.storage->data = static_cast<std::byte*>(pointer) + detail::byte_offset(dtype, reach.low);
  body.storage->bytes = static_cast<std::int64_t>(detail::bytes_for(dtype, reach.high - reach.low + 1));
  body.storage->device = device;
  body.storage->owner = std::move(owner);
  return ArrayAccess::make(std::move(body));
}

Array spec(Shape shape, DType dtype, Strides strides, std::optional<Device> device) {
  detail::element_count(shape, "spec");
  strides = strides_or_row_major(shape, strides, "spec");
  detail::check_packing(dtype, shape, strides, detail::reach_of(shape, strides, "spec").low, "spec");
  ArrayBody body;
  body.kind = ArrayBody::Kind::spec;
  body.dtype = dtype;
  body.device = device.value_or(Device::cuda(0));
  body.shape = shape;
  body.strides = strides;
  return ArrayAccess::make(std::move(body));
}

namespace detail {

Array copy_from_host(const void* values, std::size_t count, DType dtype, Shape shape, Device device) {
  refuse_in_trace("from_data");
  const std::int64_t expected = element_count(shape, "from_data");
  if (static_cast<std::int64_t>(count) != expected)
    throw ShapeError(text("from_data: ", count, " values for shape ", shape, " of ", expected,
                          " elements; give one for each"));
  Array array = allocate_array(device, shape, dtype, "from_data");
  const std::size_t bytes = bytes_for(dtype, expected);
  if (count > 0 && device.is_cpu()) std::memcpy(array.raw_data(), values, bytes);
  if (count > 0 && device.is_cuda())
    device_memory(device, "from_data").write(device, array.raw_data(), values, bytes, "from_data");
  return array;
}

}  // namespace detail

}  // namespace stiletto
