// SPDX-License-Identifier: Apache-2.0
// Reading arrays on the host, wherever they are, and copies between devices.
#include "core/device_memory.hpp"

#include <array>
#include <cstring>
#include <memory>
#include <vector>

#include "core/text.hpp"
#include "stiletto/error.hpp"

namespace stiletto::detail {

DeviceMemory& device_memory([[maybe_unused]] Device device, [[maybe_unused]] const char* operation) {
#ifdef STILETTO_HAS_CUDNN
  return cuda_memory();
#else
  throw_no_backend(device, operation);
#endif
}

namespace {

std::byte code_of(std::byte packed, std::int64_t offset) {
  return offset % 2 == 0 ? packed & std::byte{15} : packed >> 4;
}

/// Copies one element of an array on the CPU, `offset` elements from the first, to `out`.
void copy_element(const ArrayBody& body, std::int64_t offset, std::byte* out) {
  const auto* element = static_cast<const std::byte*>(body.data()) + byte_offset(body.dtype, offset);
  if (body.dtype == DType::float4_e2m1)
    *out = code_of(*element, offset);
  else
    std::memcpy(out, element, bytes_for(body.dtype, 1));
}

/// The array's elements one after the other, as they lie in contiguous memory.
void pack_elements(const ArrayBody& body, std::byte* out) {
  const std::int64_t count = element_count_unchecked(body.shape);
  if (count == 0) return;
  if (is_row_major(body.shape, body.strides)) {
    std::memcpy(out, body.data(), bytes_for(body.dtype, count));
    return;
  }
  if (body.dtype != DType::float4_e2m1) return copy_elements(body, out);
  std::vector<std::byte> codes(static_cast<std::size_t>(count));
  copy_elements(body, codes.data());
  for (std::int64_t i = 0; i < count; ++i) {
    const std::byte code = codes[static_cast<std::size_t>(i)];
    out[i / 2] = i % 2 == 0 ? code : out[i / 2] | code << 4;
  }
}

/// A view that reaches so many bytes, and so much more than its own, is made contiguous before it goes to the
/// host: copies of single elements on the GPU are slow, but they move no gaps over the bus.
constexpr std::size_t tolerated_reach = std::size_t{1} << 16;
constexpr std::size_t tolerated_gaps = 4;

/// The copy that makes an array contiguous. Elements of float4_e2m1 move in pairs, as bytes.
StridedCopy contiguous_copy(const ArrayBody& body, const char* operation) {
  StridedCopy copy;
  copy.extents = body.shape;
  copy.from = body.strides;
  copy.element = bytes_for(body.dtype, 1);
  if (body.dtype == DType::float4_e2m1) {
    std::size_t last = body.shape.size();
    while (last > 0 && body.shape[last - 1] == 1) --last;
    if (last > 0 && body.strides[last - 1] != 1)
      throw DeviceError(text(operation, ": float4_e2m1 is packed two to a byte, and strides ", body.strides,
                             " part pairs that would share one, which copies on ", body.device,
                             " cannot do; copy it on the CPU: x.to(Device::cpu()).copy()"));
    if (last > 0) copy.extents[last - 1] /= 2;
    for (std::size_t i = 0; i + 1 < last; ++i) copy.from[i] /= 2;
  } else {
    for (std::size_t i = 0; i < copy.from.size(); ++i)
      copy.from[i] *= static_cast<std::int64_t>(copy.element);
  }
  copy.to = row_major(copy.extents);
  for (std::size_t i = 0; i < copy.to.size(); ++i) copy.to[i] *= static_cast<std::int64_t>(copy.element);
  return copy;
}

Array to_host(const ArrayBody& body) {
  const ArrayBody host = on_host(body, "to");
  if (is_row_major(host.shape, host.strides)) {
    ArrayBody whole = host;
    whole.strides = row_major(host.shape);
    return ArrayAccess::make(std::move(whole));
  }
  Array result = allocate_array(Device::cpu(), body.shape, body.dtype, "to");
  pack_elements(host, static_cast<std::byte*>(result.raw_data()));
  return result;
}

Array from_host(const ArrayBody& body, Device device) {
  Array result = allocate_array(device, body.shape, body.dtype, "to");
  const std::size_t bytes = result.nbytes();
  if (bytes == 0) return result;
  if (is_row_major(body.shape, body.strides)) {
    device_memory(device, "to").write(device, result.raw_data(), body.data(), bytes, "to");
  } else {
    const std::unique_ptr<std::byte[]> packed(new std::byte[bytes]);
    pack_elements(body, packed.get());
    device_memory(device, "to").write(device, result.raw_data(), packed.get(), bytes, "to");
  }
  return result;
}

Array between_gpus(const ArrayBody& body, Device device) {
  if (!is_row_major(body.shape, body.strides)) {
    const Array contiguous = copy_on_device(body, "to");
    return between_gpus(*ArrayAccess::body_or_null(contiguous), device);
  }
  Array result = allocate_array(device, body.shape, body.dtype, "to");
  if (result.nbytes() > 0)
    device_memory(device, "to")
        .move(device, result.raw_data(), body.device, body.data(), result.nbytes(), "to");
  return result;
}

}  // namespace

void copy_elements(const ArrayBody& body, std::byte* out) {
  const std::int64_t count = element_count_unchecked(body.shape);
  if (count == 0) return;
  const std::size_t size = bytes_for(body.dtype, 1);
  if (body.dtype != DType::float4_e2m1 && is_row_major(body.shape, body.strides)) {
    std::memcpy(out, body.data(), static_cast<std::size_t>(count) * size);
    return;
  }
  std::array<std::int64_t, Dims::max_rank> index{};
  std::int64_t offset = 0;
  for (std::int64_t n = 0; n < count; ++n, out += size) {
    copy_element(body, offset, out);
    for (std::size_t axis = body.shape.size(); axis-- > 0;) {
      offset += body.strides[axis];
      if (++index[axis] < body.shape[axis]) break;
      offset -= body.strides[axis] * body.shape[axis];
      index[axis] = 0;
    }
  }
}

void read_element(const ArrayBody& body, std::int64_t offset, std::byte* out, const char* operation) {
  if (!body.device.is_cuda()) return copy_element(body, offset, out);
  const auto* element = static_cast<const std::byte*>(body.data()) + byte_offset(body.dtype, offset);
  device_memory(body.device, operation).read(out, body.device, element, bytes_for(body.dtype, 1), operation);
  if (body.dtype == DType::float4_e2m1) *out = code_of(*out, offset);
}

ArrayBody on_host(const ArrayBody& body, const char* operation) {
  if (!body.device.is_cuda()) return body;
  const Reach reach = reach_of(body.shape, body.strides, operation);
  const std::size_t reached = bytes_for(body.dtype, reach.high - reach.low + 1);
  const std::size_t own = bytes_for(body.dtype, element_count_unchecked(body.shape));
  const bool sparse = reached > tolerated_reach && reached / tolerated_gaps > own;
  if (sparse && body.dtype != DType::float4_e2m1) {
    const Array contiguous = copy_on_device(body, operation);
    return on_host(*ArrayAccess::body_or_null(contiguous), operation);
  }
  ArrayBody host = body;
  host.device = Device::cpu();
  host.storage = allocate(Device::cpu(), reached, operation);
  host.offset = -reach.low;
  if (reached > 0)
    device_memory(body.device, operation)
        .read(host.storage->data, body.device,
              static_cast<const std::byte*>(body.data()) + byte_offset(body.dtype, reach.low), reached,
              operation);
  return host;
}

Array copy_on_device(const ArrayBody& body, const char* operation) {
  const StridedCopy copy = contiguous_copy(body, operation);
  Array result = allocate_array(body.device, body.shape, body.dtype, operation);
  if (result.nbytes() > 0)
    device_memory(body.device, operation).copy(body.device, result.raw_data(), body.data(), copy, operation);
  return result;
}

Array copy_to(const ArrayBody& body, Device device) {
#ifndef STILETTO_HAS_CUDNN
  throw_no_backend(device, "to");
#endif
  if (device.is_cpu()) return to_host(body);
  return body.device.is_cpu() ? from_host(body, device) : between_gpus(body, device);
}

}  // namespace stiletto::detail
