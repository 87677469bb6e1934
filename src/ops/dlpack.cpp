// SPDX-License-Identifier: Apache-2.0
#include "stiletto/dlpack.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <span>

#include "core/array_body.hpp"
#include "core/device_memory.hpp"
#include "core/dlpack_abi.hpp"
#include "core/text.hpp"
#include "stiletto/cuda.hpp"
#include "stiletto/error.hpp"

namespace stiletto {
namespace {

using detail::ArrayAccess;
using detail::ArrayBody;
using detail::bits_of;
using detail::text;
namespace dlpack = detail::dlpack;

struct TypeRow {
  DType dtype;
  dlpack::TypeCode code;
};
constexpr std::array types = {
    TypeRow{DType::boolean, dlpack::boolean},         TypeRow{DType::int8, dlpack::signed_integer},
    TypeRow{DType::uint8, dlpack::unsigned_integer},  TypeRow{DType::int32, dlpack::signed_integer},
    TypeRow{DType::int64, dlpack::signed_integer},    TypeRow{DType::float16, dlpack::floating},
    TypeRow{DType::bfloat16, dlpack::bfloat},         TypeRow{DType::float32, dlpack::floating},
    TypeRow{DType::float64, dlpack::floating},        TypeRow{DType::float8_e4m3, dlpack::float8_e4m3fn},
    TypeRow{DType::float8_e5m2, dlpack::float8_e5m2}, TypeRow{DType::float8_e8m0, dlpack::float8_e8m0fnu}};

DType dtype_of(const DLDataType& type) {
  if (type.lanes == 1)
    for (const TypeRow& row : types)
      if (row.code == type.code && bits_of(row.dtype) == type.bits) return row.dtype;
  throw DTypeError(text("from_dlpack: an element of code ", static_cast<int>(type.code), ", ",
                        static_cast<int>(type.bits), " bits and ", type.lanes,
                        " lanes has no dtype here; convert it where it comes from"));
}

Device device_of(const DLDevice& device) {
  switch (device.device_type) {
    case dlpack::cpu:
    case dlpack::cuda_host:
      return Device::cpu();
    case dlpack::cuda:
    case dlpack::cuda_managed:
      return Device::cuda(device.device_id);
    default:
      throw DeviceError(
          text("from_dlpack: memory of device type ", device.device_type,
               " cannot be used here; move it to the CPU or an NVIDIA GPU where it comes from"));
  }
}

Dims dims_of(const std::int64_t* values, std::int32_t count) {
  if (count < 0 || static_cast<std::size_t>(count) > Dims::max_rank)
    throw ShapeError(text("from_dlpack: a tensor of ", count, " axes; arrays have at most ", Dims::max_rank));
  return Dims(std::span(values, static_cast<std::size_t>(count)));
}

/// The tensor is the array's own from the moment that nothing can throw any more.
template <class Managed>
Array adopt(Managed* tensor, std::optional<CUstream_st*> producer) {
  if (tensor == nullptr)
    throw ArgumentError("from_dlpack: a null pointer; a capsule gives its tensor only once");
  if constexpr (requires { tensor->version; })
    if (tensor->version.major != dlpack::version.major)
      throw ArgumentError(text("from_dlpack: a tensor of DLPack ", tensor->version.major, ".",
                               tensor->version.minor, "; versions 1.x are understood"));
  const DLTensor& t = tensor->dl_tensor;
  const Device device = device_of(t.device);
  const DType dtype = dtype_of(t.dtype);
  const Shape shape = dims_of(t.shape, t.ndim);
  const Strides strides = t.strides == nullptr ? detail::row_major(shape) : dims_of(t.strides, t.ndim);
  struct Owner {
    Managed* tensor = nullptr;
    ~Owner() {
      if (tensor != nullptr && tensor->deleter != nullptr) tensor->deleter(tensor);
    }
  };
  auto owner = std::make_shared<Owner>();
  void* const first = t.data == nullptr ? nullptr : static_cast<std::byte*>(t.data) + t.byte_offset;
  Array array = wrap(first, shape, dtype, device, strides, owner);
  if (device.is_cuda() && producer)
    detail::device_memory(device, "from_dlpack").order(device, *producer, detail::current_stream());
  owner->tensor = tensor;
  return array;
}

template <class Managed>
Managed* hand_out(const Array& array, std::optional<CUstream_st*> consumer) {
  const ArrayBody& body = ArrayAccess::body(array, "to_dlpack");
  if (body.kind == ArrayBody::Kind::traced)
    throw TraceError("to_dlpack: a traced array has no memory; hand out what the compiled function returns");
  if (body.kind == ArrayBody::Kind::spec)
    throw ArgumentError("to_dlpack: a spec has no memory; hand out an array");
  const TypeRow* type = nullptr;
  for (const TypeRow& row : types)
    if (row.dtype == body.dtype) type = &row;
  if (type == nullptr)
    throw ArgumentError(text("to_dlpack: ", body.dtype,
                             " lies two to a byte, which other libraries read in different ways; cast it"));
  struct Kept {
    Managed tensor{};
    Array array;
    std::array<std::int64_t, Dims::max_rank> shape{}, strides{};
  };
  auto kept = std::make_unique<Kept>();
  kept->array = body.kind == ArrayBody::Kind::number ? array.copy() : array;
  const ArrayBody& memory = ArrayAccess::body(kept->array, "to_dlpack");
  std::copy(memory.shape.begin(), memory.shape.end(), kept->shape.begin());
  std::copy(memory.strides.begin(), memory.strides.end(), kept->strides.begin());
  DLTensor& t = kept->tensor.dl_tensor;
  t.data = memory.data();
  t.device = {memory.device.is_cuda() ? dlpack::cuda : dlpack::cpu, memory.device.index()};
  t.ndim = static_cast<std::int32_t>(memory.shape.size());
  t.dtype = {type->code, static_cast<std::uint8_t>(bits_of(type->dtype)), 1};
  t.shape = kept->shape.data();
  t.strides = kept->strides.data();
  kept->tensor.manager_ctx = kept.get();
  kept->tensor.deleter = [](Managed* self) { delete static_cast<Kept*>(self->manager_ctx); };
  if constexpr (requires { kept->tensor.version; }) kept->tensor.version = dlpack::version;
  if (memory.device.is_cuda() && consumer)
    detail::device_memory(memory.device, "to_dlpack")
        .order(memory.device, detail::current_stream(), *consumer);
  return &kept.release()->tensor;
}

}  // namespace

Array from_dlpack(DLManagedTensor* tensor, std::optional<CUstream_st*> producer) {
  return adopt(tensor, producer);
}
Array from_dlpack(DLManagedTensorVersioned* tensor, std::optional<CUstream_st*> producer) {
  return adopt(tensor, producer);
}
DLManagedTensor* to_dlpack(const Array& array, std::optional<CUstream_st*> consumer) {
  return hand_out<DLManagedTensor>(array, consumer);
}
DLManagedTensorVersioned* to_dlpack_versioned(const Array& array, std::optional<CUstream_st*> consumer) {
  return hand_out<DLManagedTensorVersioned>(array, consumer);
}

}  // namespace stiletto
