// SPDX-License-Identifier: Apache-2.0
// The memory of GPUs as arrays see it: blocks, copies and fills, without a CUDA header. A backend implements
// it; without one every call ends in a DeviceError.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/array_body.hpp"

struct CUstream_st;

namespace stiletto::detail {

/// Elements to copy within a device: extents, and on both sides the strides, in bytes.
struct StridedCopy {
  Shape extents;
  Strides to, from;         // `to` is positive and does not overlap itself; `from` may be anything
  std::size_t element = 1;  // bytes
};

/// Work goes to the current stream of the thread. Only read() and write() wait for it; under capture, where
/// waiting is impossible, they throw. `operation` begins the text of what is thrown.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  virtual ~DeviceMemory() = default;

  /// Aligned to 256 bytes. Zero bytes only check that the device is there.
  virtual std::shared_ptr<Storage> allocate(Device device, std::size_t bytes) = 0;
  /// To the host; the bytes are there on return.
  virtual void read(void* host, Device device, const void* from, std::size_t bytes,
                    const char* operation) = 0;
  /// From the host, whose memory may be reused on return.
  virtual void write(Device device, void* to, const void* host, std::size_t bytes, const char* operation) = 0;
  /// Between two GPUs.
  virtual void move(Device to_device, void* to, Device from_device, const void* from, std::size_t bytes,
                    const char* operation) = 0;
  virtual void copy(Device device, void* to, const void* from, const StridedCopy& geometry,
                    const char* operation) = 0;
  /// What is queued on `after` from now on waits for what has been queued on `before`.
  virtual void order(Device device, CUstream_st* before, CUstream_st* after) = 0;
  /// `count` times the element of 1, 2, 4 or 8 bytes.
  virtual void fill(Device device, void* to, const void* element, std::size_t element_bytes,
                    std::size_t count, const char* operation) = 0;
};

/// The memory of GPUs; DeviceError naming the operation where this build has no backend for them.
DeviceMemory& device_memory(Device device, const char* operation);
/// Defined by the backend, in builds that have it (STILETTO_HAS_CUDNN); never destroyed.
DeviceMemory& cuda_memory();

/// What a backend does as a StreamGuard ends, while its stream still lives. A guard directly inside another
/// of the same stream ends silently.
using GuardEnd = void (*)(CUstream_st* stream) noexcept;
void set_guard_end(GuardEnd ended);

/// The same values on the host, for reading: the bytes that an array on a GPU reaches, under its own strides,
/// or a contiguous copy where they lie far apart. An array on the CPU as it is.
ArrayBody on_host(const ArrayBody& body, const char* operation);

/// A contiguous copy on the GPU where the array is, made of device copies.
Array copy_on_device(const ArrayBody& body, const char* operation);

/// A contiguous copy on another device.
Array copy_to(const ArrayBody& body, Device device);

/// One element, `offset` elements from the first; float4_e2m1 as its code. `out` has room for 8 bytes.
void read_element(const ArrayBody& body, std::int64_t offset, std::byte* out, const char* operation);
/// All elements of an array on the CPU in row-major order; float4_e2m1 as codes, one per byte.
void copy_elements(const ArrayBody& body, std::byte* out);

}  // namespace stiletto::detail
