// SPDX-License-Identifier: Apache-2.0
// What arrays do with the memory of GPUs: blocks from the pool, copies and fills in the order of the current
// stream.
#include <algorithm>
#include <array>
#include <cstring>

#include "backends/cudnn/memory.hpp"
#include "backends/cudnn/strided_copy.hpp"
#include "core/text.hpp"
#include "stiletto/error.hpp"

namespace stiletto::detail::cudnn {
namespace {

/// Waiting for a stream that is being captured breaks the capture, and a copy from the host would be made
/// again, from memory that is gone, whenever the graph is launched.
void refuse_while_capturing(const StreamKey& stream, const char* operation, const char* moves) {
  switch (capture_of(stream.handle)) {
    case Capture::none:
      return;
    case Capture::active:
      throw ArgumentError(text(operation, ": ", moves, " has to wait for the current stream, which is being ",
                               "captured; do it before the capture begins or after the graph was launched"));
    case Capture::elsewhere:
      throw ArgumentError(
          text(operation, ": ", moves, " would use the default stream, which cannot be used ",
               "while a blocking stream is being captured; do it before or after the capture, ",
               "or under a StreamGuard with a stream made with cudaStreamNonBlocking"));
  }
}

class DeviceCopies : public PlaneVisitor {
 public:
  DeviceCopies(void* to, const void* from, cudaStream_t stream, const char* operation)
      : to_(static_cast<std::byte*>(to)),
        from_(static_cast<const std::byte*>(from)),
        stream_(stream),
        operation_(operation) {}
  void copy(const PlaneCopy& plane) override {
    std::byte* to = to_ + plane.to;
    const std::byte* from = (plane.within_destination ? to_ : from_) + plane.from;
    check(plane.height == 1 ? cuda().MemcpyAsync(to, from, plane.width, cudaMemcpyDeviceToDevice, stream_)
                            : cuda().Memcpy2DAsync(to, plane.to_pitch, from, plane.from_pitch, plane.width,
                                                   plane.height, cudaMemcpyDeviceToDevice, stream_),
          operation_);
  }

 private:
  std::byte* to_;
  const std::byte* from_;
  cudaStream_t stream_;
  const char* operation_;
};

template <class Word>
Word word_of(const void* element) {
  Word word;
  std::memcpy(&word, element, sizeof word);
  return word;
}

bool is_one_byte(const void* element, std::size_t bytes) {
  const auto* first = static_cast<const std::byte*>(element);
  return std::all_of(first, first + bytes, [&](std::byte byte) { return byte == *first; });
}

/// Elements of 8 bytes whose halves differ: each half of the first ones is a column two words apart, and the
/// rest is made by doubling, because a fill of single words leaves most of the memory's speed unused.
CUresult fill_8(std::byte* to, const void* element, std::size_t count, cudaStream_t stream,
                const char* operation) {
  constexpr std::size_t first_rows = std::size_t{1} << 14;
  const auto words = word_of<std::array<unsigned, 2>>(element);
  const std::size_t rows = std::min(count, first_rows);
  for (std::size_t half = 0; half < 2; ++half) {
    const auto column = reinterpret_cast<CUdeviceptr>(to + 4 * half);
    const CUresult status = cuda().memset_2d_32(column, 8, words[half], 1, rows, stream);
    if (status != CUDA_SUCCESS) return status;
  }
  for (std::size_t filled = rows; filled < count; filled *= 2)
    check(cuda().MemcpyAsync(to + filled * 8, to, std::min(filled, count - filled) * 8,
                             cudaMemcpyDeviceToDevice, stream),
          operation);
  return CUDA_SUCCESS;
}

class CudaMemory : public DeviceMemory {
 public:
  std::shared_ptr<Storage> allocate(Device device, std::size_t bytes) override {
    auto storage = std::make_shared<Storage>();
    storage->device = device;
    storage->bytes = static_cast<std::int64_t>(bytes);
    if (bytes == 0) {
      check_device(device.index());
      return storage;
    }
    std::shared_ptr<Block> block = allocate_block(device.index(), bytes);
    storage->data = block->pointer;
    storage->owner = std::move(block);
    return storage;
  }

  void order(Device device, CUstream_st* before, CUstream_st* after) override {
    order_streams(device.index(), before, device.index(), after);
  }

  void read(void* host, Device device, const void* from, std::size_t bytes, const char* operation) override {
    transfer(host, from, bytes, cudaMemcpyDeviceToHost, device, operation, "reading on the host");
  }

  /// CUDA's documentation leaves open whether memory that is not pinned has been staged when cudaMemcpyAsync
  /// returns, and pinned memory is read later for certain: hence the wait.
  void write(Device device, void* to, const void* host, std::size_t bytes, const char* operation) override {
    transfer(to, host, bytes, cudaMemcpyHostToDevice, device, operation, "copying from the host");
  }

  /// On a stream of the caller's all is in its order already. The default stream of the destination waits for
  /// that of the source before the copy, and the other way after it.
  void move(Device to_device, void* to, Device from_device, const void* from, std::size_t bytes,
            const char* operation) override {
    const int target = to_device.index(), source = from_device.index();
    const CurrentDevice current(target);
    use_current_stream(source);
    const StreamKey stream = use_current_stream(target);
    if (stream.is_default()) order_streams(source, nullptr, target, nullptr);
    check(cuda().MemcpyPeerAsync(to, target, from, source, bytes, stream.handle), operation);
    if (stream.is_default()) order_streams(target, nullptr, source, nullptr);
  }

  void copy(Device device, void* to, const void* from, const StridedCopy& geometry,
            const char* operation) override {
    const CurrentDevice current(device.index());
    const StreamKey stream = use_current_stream(device.index());
    int largest_pitch = 0;
    check(cuda().DeviceGetAttribute(&largest_pitch, cudaDevAttrMaxPitch, device.index()), operation);
    DeviceCopies copies(to, from, stream.handle, operation);
    visit_planes(geometry, static_cast<std::size_t>(largest_pitch), copies);
  }

  /// One call for elements of up to 4 bytes and for those whose parts are alike, zero first of all.
  void fill(Device device, void* to, const void* element, std::size_t element_bytes, std::size_t count,
            const char* operation) override {
    const CurrentDevice current(device.index());
    // Functions of the driver want a context, which a thread has after this call only.
    check(cuda().SetDevice(device.index()), operation);
    const StreamKey stream = use_current_stream(device.index());
    const auto target = reinterpret_cast<CUdeviceptr>(to);
    CUresult status = CUDA_SUCCESS;
    if (is_one_byte(element, element_bytes))
      check(cuda().MemsetAsync(to, word_of<unsigned char>(element), element_bytes * count, stream.handle),
            operation);
    else if (element_bytes == 2)
      status = cuda().memset_16(target, word_of<unsigned short>(element), count, stream.handle);
    else if (element_bytes == 4)
      status = cuda().memset_32(target, word_of<unsigned>(element), count, stream.handle);
    else if (std::memcmp(element, static_cast<const std::byte*>(element) + 4, 4) == 0)
      status = cuda().memset_32(target, word_of<unsigned>(element), 2 * count, stream.handle);
    else
      status = fill_8(static_cast<std::byte*>(to), element, count, stream.handle, operation);
    check(static_cast<cudaError_t>(status), operation);  // the runtime uses the driver's numbers
  }

 private:
  static void transfer(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, Device device,
                       const char* operation, const char* moves) {
    const CurrentDevice current(device.index());
    const StreamKey stream = use_current_stream(device.index());
    refuse_while_capturing(stream, operation, moves);
    const BesideCapture beside;
    check(cuda().MemcpyAsync(to, from, bytes, kind, stream.handle), operation);
    check(cuda().StreamSynchronize(stream.handle), operation);
  }
};

}  // namespace
}  // namespace stiletto::detail::cudnn

namespace stiletto::detail {

DeviceMemory& cuda_memory() {
  static DeviceMemory& memory = *new cudnn::CudaMemory;
  return memory;
}

}  // namespace stiletto::detail
