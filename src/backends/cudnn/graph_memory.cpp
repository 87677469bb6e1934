// SPDX-License-Identifier: Apache-2.0
#include "backends/cudnn/graph_memory.hpp"

#include <atomic>
#include <mutex>
#include <utility>
#include <vector>

#include "compiler/executable.hpp"
#include "core/text.hpp"
#include "stiletto/cuda.hpp"
#include "stiletto/error.hpp"

namespace stiletto::detail::cudnn {
namespace {

using Share = std::shared_ptr<const void>;

/// Never destroyed: CUDA may end a graph's life after main.
struct Dropped {
  std::mutex mutex;
  std::vector<Share> shares;
  std::atomic<bool> any{false};
};
Dropped& dropped() {
  static Dropped& list = *new Dropped;
  return list;
}

/// CUDA calls this from a thread of its own.
void drop_later(void* share) {
  const std::unique_ptr<Share> gone(static_cast<Share*>(share));
  Dropped& list = dropped();
  const std::lock_guard lock(list.mutex);
  list.shares.push_back(std::move(*gone));
  list.any.store(true, std::memory_order_release);
}

}  // namespace

void keep_with_graph(cudaGraph_t graph, std::shared_ptr<const void> object) {
  constexpr const char* what = "giving memory to a captured graph";
  auto share = std::make_unique<Share>(std::move(object));
  cudaUserObject_t kept = nullptr;
  check(cuda().UserObjectCreate(&kept, share.get(), drop_later, 1, cudaUserObjectNoDestructorSync), what);
  share.release();  // NOLINT(bugprone-unused-return-value): it is the user object's
  const cudaError_t status = cuda().GraphRetainUserObject(graph, kept, 1, cudaGraphUserObjectMove);
  if (status != cudaSuccess) cuda().UserObjectRelease(kept, 1);
  check(status, what);
}

void drop_what_graphs_kept() {
  Dropped& list = dropped();
  if (!list.any.load(std::memory_order_acquire) || capture_of(current_stream()) != Capture::none) return;
  std::vector<Share> gone;
  {
    const std::lock_guard lock(list.mutex);
    gone.swap(list.shares);
    list.any.store(false, std::memory_order_release);
  }
  const BesideCapture beside;  // a plan's end may unload kernels
  gone.clear();
}

cudaGraph_t graph_being_captured(CUstream_st* stream, const char* operation) {
  CUstreamCaptureStatus status{};
  CUgraph graph = nullptr;
  check(static_cast<cudaError_t>(
            cuda().stream_get_capture_info(stream, &status, nullptr, &graph, nullptr, nullptr)),
        operation);
  if (status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
    throw DeviceError(text(operation, ": the capture has been invalidated by an earlier call; end ",
                           "it with cudaStreamEndCapture"));
  return graph;
}

void keep_with_capture(const StreamKey& stream, const Invocation& invocation) {
  if (!stream.is_captured() || invocation.owner == nullptr) return;
  keep_with_graph(graph_being_captured(stream.handle, "a captured call"),
                  invocation.owner->shared_from_this());
}

void refuse_while_captured(const char* what) {
  // Without a guard and a driver there is no CUDA to ask.
  if (current_stream() == nullptr && !has_driver()) return;
  if (capture_of(current_stream()) != Capture::active) return;
  throw ArgumentError(text(what,
                           " while the current stream is being captured; do it before the capture (jit then ",
                           "finds the plan)"));
}

}  // namespace stiletto::detail::cudnn
