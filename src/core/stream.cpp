// SPDX-License-Identifier: Apache-2.0
// The stream of each thread.
#include <atomic>

#include "core/device_memory.hpp"
#include "stiletto/cuda.hpp"

namespace stiletto {
namespace {
thread_local CUstream_st* stream_of_thread = nullptr;
std::atomic<detail::GuardEnd> guard_end{nullptr};
}  // namespace

StreamGuard::StreamGuard(CUstream_st* stream) : before_(stream_of_thread) { stream_of_thread = stream; }
StreamGuard::~StreamGuard() {
  const detail::GuardEnd ended = guard_end.load(std::memory_order_acquire);
  if (ended != nullptr && stream_of_thread != before_) ended(stream_of_thread);
  stream_of_thread = before_;
}

namespace detail {
CUstream_st* current_stream() { return stream_of_thread; }
void set_guard_end(GuardEnd ended) { guard_end.store(ended, std::memory_order_release); }
}  // namespace detail

}  // namespace stiletto
