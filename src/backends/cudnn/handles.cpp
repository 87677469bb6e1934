// SPDX-License-Identifier: Apache-2.0
#include "backends/cudnn/handles.hpp"

#include <cstdint>
#include <mutex>
#include <vector>

#include "backends/cudnn/cuda_runtime.hpp"
#include "backends/cudnn/frontend.hpp"

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
  return {device, create_handle(), nullptr};
}

}  // namespace

cudnnContext* handle_for(int device, CUstream_st* stream) {
  thread_local ThreadHandles mine;
  Handle* found = nullptr;
  for (Handle& handle : mine.handles)
    if (handle.device == device) found = &handle;
  if (found == nullptr) {
    mine.handles.push_back(take(device));
    found = &mine.handles.back();
  }
  if (found->stream != stream) {
    set_stream(found->context, stream);
    found->stream = stream;
  }
  return found->context;
}

void* one_on_device(int device, DType dtype) {
  static std::mutex& mutex = *new std::mutex;
  static std::vector<std::uint16_t*>& ones =
      *new std::vector<std::uint16_t*>;  // per device: float16, bfloat16
  constexpr std::size_t apart = 16;      // elements between them, so that both are well aligned
  const std::lock_guard lock(mutex);
  if (ones.size() <= static_cast<std::size_t>(device)) ones.resize(static_cast<std::size_t>(device) + 1);
  std::uint16_t*& memory = ones[static_cast<std::size_t>(device)];
  if (memory == nullptr) {
    std::uint16_t values[2 * apart] = {};
    values[0] = 0x3C00;      // 1 as float16
    values[apart] = 0x3F80;  // 1 as bfloat16
    void* fresh = nullptr;
    check(cuda().Malloc(&fresh, sizeof values), "allocating a constant");
    check(cuda().MemcpyAsync(fresh, values, sizeof values, cudaMemcpyHostToDevice, nullptr),
          "writing a constant");
    check(cuda().StreamSynchronize(nullptr), "writing a constant");
    memory = static_cast<std::uint16_t*>(fresh);
  }
  return memory + (dtype == DType::bfloat16 ? apart : 0);
}

}  // namespace stiletto::detail::cudnn
