// SPDX-License-Identifier: Apache-2.0
// Runs of elements through the kernels' conversions, and the scratch memory that threads keep.
#include "backends/cpu/tensor_rows.hpp"

#include <array>
#include <bit>
#include <new>

namespace stiletto::detail::cpu {
namespace {

constexpr std::int64_t chunk = static_cast<std::int64_t>(block_size);

std::size_t log2_bytes(DType dtype) {
  const int bits = bits_of(dtype);
  return bits == 64 ? 3 : bits == 32 ? 2 : bits == 16 ? 1 : 0;
}

/// By way of float64 where the kernels have no direct conversion: float64 read as float32.
template <class T>
void load_adjacent(T* out, DType dtype, const std::byte* from, std::int64_t n) {
  const auto index = static_cast<std::size_t>(dtype);
  const auto count = static_cast<std::size_t>(n);
  const Register wanted = register_of(dtype_for<T>);
  const auto direct = kernels().load[index][static_cast<std::size_t>(wanted)];
  if (direct != nullptr) return direct(out, from, count);
  const Register exact = register_of(dtype);
  const auto load = kernels().load[index][static_cast<std::size_t>(exact)];
  const auto convert = kernels().convert[static_cast<std::size_t>(exact)][static_cast<std::size_t>(wanted)];
  alignas(64) std::byte wide[block_size * 8];
  alignas(64) T narrow[block_size];
  for (std::int64_t done = 0; done < n; done += chunk) {
    const std::int64_t some = std::min(chunk, n - done);
    load(wide, from + byte_offset(dtype, done), static_cast<std::size_t>(some));
    convert(narrow, wide, (static_cast<std::size_t>(some) + lane_group - 1) / lane_group * lane_group);
    std::copy_n(narrow, some, out + done);
  }
}

/// Plain members: what a thread's other objects do when they end may still need scratch.
struct ScratchBuffer {
  std::byte* memory;
  std::size_t size;
};
using ScratchBuffers = std::array<ScratchBuffer, static_cast<std::size_t>(ScratchPlace::count)>;
constexpr std::align_val_t alignment{64};

void release(ScratchBuffer& buffer) {
  ::operator delete(buffer.memory, alignment);
  buffer = {};
}

struct ScratchOwner {
  ScratchBuffers& buffers;
  ~ScratchOwner() {
    for (ScratchBuffer& buffer : buffers) release(buffer);
  }
};

}  // namespace

std::int64_t AxisGroup::offset(std::int64_t index) const {
  std::int64_t result = 0;
  for (std::size_t axis = extents.size(); axis-- > 0;) {
    result += index % extents[axis] * strides[axis];
    index /= extents[axis];
  }
  return result;
}

AxisGroup axis_group(const Dims& extents, const Dims& strides) {
  AxisGroup group;
  for (std::size_t axis = 0; axis < extents.size(); ++axis) {
    group.count *= extents[axis];
    if (extents[axis] == 1) continue;
    const std::size_t size = group.extents.size();
    if (size > 0 && group.strides[size - 1] == strides[axis] * extents[axis]) {
      group.extents[size - 1] *= extents[axis];
      group.strides[size - 1] = strides[axis];
    } else {
      group.extents.push_back(extents[axis]);
      group.strides.push_back(strides[axis]);
    }
  }
  return group;
}

AxisGroup axis_group(const TensorView& view, std::size_t first, std::size_t last) {
  Dims extents, strides;
  for (std::size_t axis = first; axis < last; ++axis) {
    extents.push_back(view.shape[axis]);
    strides.push_back(view.strides[axis]);
  }
  return axis_group(extents, strides);
}

template <class T>
void load_run(T* out, DType dtype, const std::byte* from, std::int64_t stride, std::int64_t n) {
  if (stride == 1 || n == 1) return load_adjacent(out, dtype, from, n);
  if (stride == 0) {
    load_adjacent(out, dtype, from, 1);
    std::fill_n(out + 1, n - 1, *out);
    return;
  }
  const auto gather = kernels().gather[log2_bytes(dtype)];
  if (dtype == dtype_for<T>) return gather(out, from, stride, static_cast<std::size_t>(n));
  alignas(64) std::byte adjacent[block_size * 8];
  for (std::int64_t done = 0; done < n; done += chunk) {
    const std::int64_t some = std::min(chunk, n - done);
    gather(adjacent, from + byte_offset(dtype, done * stride), stride, static_cast<std::size_t>(some));
    load_adjacent(out + done, dtype, adjacent, some);
  }
}

template <class T>
void store_run(DType dtype, std::byte* to, std::int64_t stride, const T* values, std::int64_t n) {
  const auto store =
      kernels().store[static_cast<std::size_t>(register_of(dtype_for<T>))][static_cast<std::size_t>(dtype)];
  if (stride == 1 || n == 1) return store(to, values, static_cast<std::size_t>(n));
  const auto scatter = kernels().scatter[log2_bytes(dtype)];
  if (dtype == dtype_for<T>) return scatter(to, stride, values, static_cast<std::size_t>(n));
  alignas(64) std::byte adjacent[block_size * 8];
  for (std::int64_t done = 0; done < n; done += chunk) {
    const auto some = static_cast<std::size_t>(std::min(chunk, n - done));
    store(adjacent, values + done, some);
    scatter(to + byte_offset(dtype, done * stride), stride, adjacent, some);
  }
}

template void load_run(float*, DType, const std::byte*, std::int64_t, std::int64_t);
template void load_run(double*, DType, const std::byte*, std::int64_t, std::int64_t);
template void load_run(std::int32_t*, DType, const std::byte*, std::int64_t, std::int64_t);
template void load_run(std::int64_t*, DType, const std::byte*, std::int64_t, std::int64_t);
template void store_run(DType, std::byte*, std::int64_t, const float*, std::int64_t);
template void store_run(DType, std::byte*, std::int64_t, const double*, std::int64_t);
template void store_run(DType, std::byte*, std::int64_t, const std::int32_t*, std::int64_t);
template void store_run(DType, std::byte*, std::int64_t, const std::int64_t*, std::int64_t);

std::byte* scratch_bytes(ScratchPlace place, std::size_t bytes) {
  thread_local ScratchBuffers buffers{};
  ScratchBuffer& buffer = buffers[static_cast<std::size_t>(place)];
  if (bytes > buffer.size) {
    thread_local const ScratchOwner owner{buffers};
    release(buffer);
    // A power of two, so that growing requests allocate a few times only.
    const std::size_t size = std::bit_ceil(std::max<std::size_t>(bytes, 4096));
    buffer.memory = static_cast<std::byte*>(::operator new(size, alignment));
    buffer.size = size;
  }
  return buffer.memory;
}

}  // namespace stiletto::detail::cpu
