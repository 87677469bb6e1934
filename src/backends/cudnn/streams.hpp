// SPDX-License-Identifier: Apache-2.0
// Which streams are known to live. A stream belongs to the caller, who may destroy it as soon as no
// StreamGuard holds it, and a destroyed stream's handle may not even be looked at; memory that was allocated
// on it may still be around. So the streams that guards hold, in all threads, are listed here from their
// first use.
#pragma once
#include "backends/cudnn/cuda_runtime.hpp"

namespace stiletto::detail::cudnn {

/// A stream for good: handles are used again, CUDA's ids are not.
struct StreamKey {
  CUstream_st* handle = nullptr;
  unsigned long long id = 0;
  bool is_default() const { return handle == nullptr || handle == cudaStreamLegacy; }
  /// Of a key made while the stream was being captured: no id of CUDA's has the highest bit.
  static constexpr unsigned long long captured = 1ULL << 63U;
  bool is_captured() const { return !is_default() && (id & captured) != 0; }
  bool operator==(const StreamKey& other) const {
    return is_default() ? other.is_default() : !other.is_default() && id == other.id;
  }
};

/// Of a stream that lives.
StreamKey key_of(CUstream_st* stream);

/// The current stream of this thread, which is about to get work of a device. The backend calls it before it
/// queues anything, so that the guard's end finds the devices whose memory the stream used.
StreamKey use_current_stream(int device);

/// Whether this thread is told before the stream can be destroyed: it never is, or a guard here holds it.
bool guard_will_tell(const StreamKey& stream, int device);

/// Runs a function that must not throw while a guard somewhere holds the stream; false if none does.
bool while_guarded(const StreamKey& stream, void (*run)(void* context, CUstream_st* stream), void* context);

/// The same by the handle alone, of which a stream that a guard holds is the only one.
bool while_handle_guarded(CUstream_st* stream, void (*run)(void* context, CUstream_st* stream),
                          void* context);

}  // namespace stiletto::detail::cudnn
