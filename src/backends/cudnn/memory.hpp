// SPDX-License-Identifier: Apache-2.0
// Memory on GPUs: stream-ordered blocks of one CUDA memory pool per device. The pool is never destroyed and
// keeps what is freed, so that after the first call of a loop an allocation is bookkeeping.
//
// Allocating. A block comes in the order of the thread's current stream: work queued there later may use it.
// Using it on another stream is ordered by the caller, with an event, as in any CUDA program.
//
// Freeing, when the last array goes:
//   1. In the thread whose current stream is the block's own, where no guard of another stream has ended
//   since
//      the block was allocated: freed in that stream's order. This is the usual
//      way, and the one whose memory the next allocation reuses at once. The thread keeps the last eight such
//      blocks, of 64 MiB together, for its own next allocations of the same size on the same stream, because
//      CUDA's calls take longer than all else that a call of ours does; they are freed when the stream's
//      guard or the thread ends, and when memory runs out.
//   2. Elsewhere the block's stream may have been destroyed by its owner, and its handle may not be touched
//      unless it is the default stream or a StreamGuard holds it (streams.hpp). So the block is freed on a
//      stream of the device's own, which has been made to wait for what was queued so far on: every stream
//      whose guard ended (marked at its end), the block's stream if it lives, and the current stream.
//   3. While one of the streams concerned is being captured, nothing can be marked on it and a free would
//      become part of the graph: the block waits in a list for the next allocation outside a capture.
// So arrays used under guards may be dropped anywhere after those guards have ended. What the caller has to
// order is only what no guard tells about: another thread's current stream, or kernels launched by the
// caller.
//
// Captures. What a captured call allocates belongs to its graph: it is an ordinary block with a fixed
// address, kept by the graph through a CUDA user object as well as by arrays. CUDA's own allocation nodes
// would make a graph that cannot be launched twice while an output lives, and memory that nobody frees when
// it goes.
//
// The end. Once the process ends, and in a child after fork, nothing is freed: the driver takes it all.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>

#include "backends/cudnn/streams.hpp"

namespace stiletto::detail::cudnn {

/// Frees its memory by the rule above; shared by whoever needs it.
class Block {
 public:
  Block() = default;
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  ~Block();

  void* pointer = nullptr;
  std::size_t bytes = 0;
  int device = 0;
  StreamKey stream;
  std::uint64_t guard_ends = 0;  // so many had ended on the device when it was allocated
  bool of_graph = false;         // allocated during a capture: its stream says nothing about its use
  bool may_be_kept = true;
};

/// Memory in the order of the current stream. DeviceError when there is none left, with the bytes asked for
/// and what is free.
std::shared_ptr<Block> allocate_block(int device, std::size_t bytes);

/// Frees what this thread keeps, of one stream, which lives, or of all.
void free_kept_blocks(const StreamKey* stream = nullptr) noexcept;

/// Throws DeviceError unless the GPU is there and has memory pools.
void check_device(int device);

/// What is queued on `after` from now on waits for what has been queued on `before`. Default streams are
/// those of the given devices.
void order_streams(int before_device, CUstream_st* before, int after_device, CUstream_st* after);

/// Frees of the device's own stream wait for what has been queued on this one, which lives.
void order_frees_after(int device, const StreamKey& stream) noexcept;

}  // namespace stiletto::detail::cudnn
