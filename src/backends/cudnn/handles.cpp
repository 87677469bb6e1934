// SPDX-License-Identifier: Apache-2.0
#include "backends/cudnn/handles.hpp"

#include <cstdint>
#include <mutex>
#include <vector>

#include "backends/cudnn/cuda_runtime.hpp"
#include "backends/cudnn/frontend.hpp"
#include "core/thread_own.hpp"

namespace stiletto::detail::cudnn {
namespace {

struct Handle {
  int device;
  cudnnContext* context;
  CUstream_st* stream;
};

struct Spare {
  std::mutex mutex;
  std::vector<Handle> handles;
};
Spare& spare() {
  static Spare& s = *new Spare;  // threads may end after static destruction
  return s;
}

/// The handles of one thread; they go back when it ends.
struct ThreadHandles {
  std::vector<Handle> handles;
  ~ThreadHandles() {
    const std::lock_guard lock(spare().mutex);
    for (const Handle& handle : handles) spare().handles.push_back(handle);
  }
};

Handle take(int device) {
  {
    const std::lock_guard lock(spare().mutex);
    auto& handles = spare().handles;
    for (std::size_t i = 0; i < handles.size(); ++i) {
      if (handles[i].device != device) continue;
      const Handle handle = handles[i];
      handles.erase(handles.begin() + static_cast<std::ptrdiff_t>(i));
      return handle;
    }
  }
  const BesideCapture beside;  // it allocates
  return {device, create_handle(), nullptr};
}

ThreadHandles& handles_of_thread() {
  if (ThreadHandles* const mine = ThreadOwn<ThreadHandles>::get()) return *mine;
  // The thread is ending: its late handles are not given back.
  thread_local ThreadHandles* late = nullptr;
  if (late == nullptr) late = new ThreadHandles;
  return *late;
}

Handle& entry_of(int device) {
  ThreadHandles& mine = handles_of_thread();
  for (Handle& handle : mine.handles)
    if (handle.device == device) return handle;
  check(cuda().SetDevice(device), "using a GPU in a new thread");  // which has no context before
  mine.handles.push_back(take(device));
  return mine.handles.back();
}

/// In the place of a stream that may be gone. cuDNN is not told: its default stream, which it could have
/// instead, may not be touched while a blocking stream captures.
CUstream_st* no_stream() {
  static char place = 0;
  return reinterpret_cast<CUstream_st*>(&place);
}

}  // namespace

void leave_stream(CUstream_st* stream) {
  for (Handle& handle : handles_of_thread().handles) {
    if (handle.stream != stream) continue;
    handle.stream = no_stream();
  }
}

cudnnContext* handle_of(int device) { return entry_of(device).context; }

cudnnContext* handle_for(int device, CUstream_st* stream) {
  Handle& handle = entry_of(device);
  if (handle.stream != stream) {
    set_stream(handle.context, stream);
    handle.stream = stream;
  }
  return handle.context;
}

void* ones_on_device(int device, DType dtype, std::int64_t count) {
  struct Ones {
    int device;
    DType dtype;
    std::int64_t count;
    void* memory;
  };
  static std::mutex& mutex = *new std::mutex;
  static std::vector<Ones>& known = *new std::vector<Ones>;  // shorter ones stay: plans hold their addresses
  const std::lock_guard lock(mutex);
  for (const Ones& ones : known)
    if (ones.device == device && ones.dtype == dtype && ones.count >= count) return ones.memory;
  std::int64_t length = 4096;
  while (length < count) length *= 2;
  const std::vector<std::uint16_t> values(static_cast<std::size_t>(length), dtype == DType::bfloat16
                                                                                ? std::uint16_t{0x3F80}
                                                                                : std::uint16_t{0x3C00});
  void* memory = nullptr;
  check(cuda().Malloc(&memory, values.size() * 2), "allocating a vector of ones");
  // The default stream cannot be used beside a capture of a blocking one.
  cudaStream_t stream = nullptr;
  check(cuda().StreamCreateWithFlags(&stream, cudaStreamNonBlocking), "writing a vector of ones");
  cudaError_t status =
      cuda().MemcpyAsync(memory, values.data(), values.size() * 2, cudaMemcpyHostToDevice, stream);
  if (status == cudaSuccess) status = cuda().StreamSynchronize(stream);
  cuda().StreamDestroy(stream);
  check(status, "writing a vector of ones");
  known.push_back({device, dtype, length, memory});
  return memory;
}

}  // namespace stiletto::detail::cudnn
