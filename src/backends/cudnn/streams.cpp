// SPDX-License-Identifier: Apache-2.0
// The list of guarded streams.
#include "backends/cudnn/streams.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <mutex>
#include <vector>

#include "backends/cudnn/memory.hpp"
#include "core/device_memory.hpp"
#include "stiletto/cuda.hpp"

namespace stiletto::detail::cudnn {
namespace {

struct GuardedStream {
  StreamKey stream;
  int device = 0;
  bool operator==(const GuardedStream&) const = default;
};

/// Entries of all threads, one per thread, stream and device. Never destroyed: threads may outlive main.
struct GuardedStreams {
  std::mutex mutex;
  std::vector<GuardedStream> entries;
};
GuardedStreams& guarded_streams() {
  static GuardedStreams& streams = *new GuardedStreams;
  return streams;
}

/// This thread's entries. Plain data, so that guards may end while the thread's objects are destroyed. A
/// stream that finds no room is treated like one that no guard holds.
struct Mine {
  std::array<GuardedStream, 16> entries;
  std::size_t count = 0;
  bool has(const GuardedStream& entry) const {
    return std::find(entries.begin(), entries.begin() + count, entry) != entries.begin() + count;
  }
};
thread_local constinit Mine mine;

void unlist(const GuardedStream& entry) {
  GuardedStreams& all = guarded_streams();
  const std::lock_guard lock(all.mutex);
  const auto found = std::find(all.entries.begin(), all.entries.end(), entry);
  if (found != all.entries.end()) all.entries.erase(found);
}

/// The guard is about to end: what the stream was given so far has to be marked now.
void guard_ended(CUstream_st* stream) noexcept {
  for (std::size_t i = 0; i < mine.count;) {
    const GuardedStream entry = mine.entries[i];
    if (entry.stream.handle != stream) {
      ++i;
      continue;
    }
    free_kept_blocks(&entry.stream);
    order_frees_after(entry.device, entry.stream);
    unlist(entry);
    mine.entries[i] = mine.entries[--mine.count];
  }
}

}  // namespace

StreamKey key_of(CUstream_st* stream) {
  StreamKey key{stream};
  if (key.is_default()) return key;
  // Asking a capturing stream for its id breaks the capture (driver 580). A capture holds its stream, so that
  // the handle stands for it.
  cudaStreamCaptureStatus capturing = cudaStreamCaptureStatusNone;
  check(cuda().StreamIsCapturing(stream, &capturing), "the current stream");
  if (capturing != cudaStreamCaptureStatusNone)
    key.id = reinterpret_cast<std::uintptr_t>(stream) | StreamKey::captured;
  else
    check(cuda().StreamGetId(stream, &key.id), "the current stream");
  return key;
}

StreamKey use_current_stream(int device) {
  const GuardedStream entry{key_of(current_stream()), device};
  if (entry.stream.is_default() || mine.has(entry) || mine.count == mine.entries.size()) return entry.stream;
  set_guard_end(guard_ended);
  GuardedStreams& all = guarded_streams();
  {
    const std::lock_guard lock(all.mutex);
    all.entries.push_back(entry);
  }
  mine.entries[mine.count++] = entry;
  return entry.stream;
}

bool guard_will_tell(const StreamKey& stream, int device) {
  return stream.is_default() || mine.has({stream, device});
}

namespace {

template <class Condition>
bool while_any(Condition condition, void (*run)(void* context, CUstream_st* stream), void* context) {
  GuardedStreams& all = guarded_streams();
  const std::lock_guard lock(all.mutex);
  const auto found = std::find_if(all.entries.begin(), all.entries.end(), condition);
  if (found == all.entries.end()) return false;
  run(context, found->stream.handle);
  return true;
}

}  // namespace

bool while_guarded(const StreamKey& stream, void (*run)(void* context, CUstream_st* stream), void* context) {
  return while_any([&](const GuardedStream& entry) { return entry.stream == stream; }, run, context);
}

bool while_handle_guarded(CUstream_st* stream, void (*run)(void* context, CUstream_st* stream),
                          void* context) {
  return while_any([&](const GuardedStream& entry) { return entry.stream.handle == stream; }, run, context);
}

}  // namespace stiletto::detail::cudnn
