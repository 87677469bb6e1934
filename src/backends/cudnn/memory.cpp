// SPDX-License-Identifier: Apache-2.0
// Pools, blocks, and the order in which blocks are freed.
#include "backends/cudnn/memory.hpp"

#include <atomic>
#include <exception>
#include <limits>
#include <mutex>
#include <vector>

#include "backends/cudnn/graph_memory.hpp"
#include "core/text.hpp"
#include "stiletto/cuda.hpp"
#include "stiletto/device.hpp"
#include "stiletto/error.hpp"

namespace stiletto::detail::cudnn {
namespace {

/// A block's memory without the block.
struct Freeable {
  void* pointer;
  int device;
  StreamKey stream;
  std::uint64_t guard_ends;
  bool of_graph;
  bool delayed = false;               // a capture was in the way when it was dropped,
  CUstream_st* dropped_on = nullptr;  // in a thread whose current stream this was
};

/// Which guards have ended since a block was allocated, as far as it matters: of streams other than its own.
class GuardEnds {
 public:
  void add(const StreamKey& stream) {
    const std::lock_guard lock(mutex_);
    if (!(stream == stream_)) {
      of_others_ = count_;
      stream_ = stream;
    }
    ++count_;
  }
  std::uint64_t count() const {
    const std::lock_guard lock(mutex_);
    return count_;
  }
  bool of_others_since(std::uint64_t count, const StreamKey& own) const {
    const std::lock_guard lock(mutex_);
    return (own == stream_ ? of_others_ : count_) > count;
  }

 private:
  mutable std::mutex mutex_;
  StreamKey stream_;             // whose guard ended last
  std::uint64_t count_ = 0;      // so many have ended,
  std::uint64_t of_others_ = 0;  // and so many before the first of those in a row that were this stream's
};

struct DevicePool {
  std::once_flag opened;
  std::atomic<bool> is_open{false};
  int device = 0;
  cudaMemPool_t pool = nullptr;
  cudaStream_t frees = nullptr;  // frees of rule 2
  cudaStream_t quiet = nullptr;  // allocations for graphs: never busy, so waiting for it takes no time
  std::mutex marking;            // of the event below
  cudaEvent_t mark = nullptr;
  std::mutex delaying;  // of the list below
  std::vector<Freeable> delayed;
  std::atomic<bool> has_delayed{false};
  GuardEnds guard_ends;
};

void open_pool(DevicePool& pool, int device) {
  constexpr const char* what = "opening the memory pool";
  const BesideCapture beside;
  const CurrentDevice current(device);
  int supported = 0;
  check(cuda().DeviceGetAttribute(&supported, cudaDevAttrMemoryPoolsSupported, device), what);
  if (supported == 0)
    throw DeviceError(text(Device::cuda(device), " has no stream-ordered memory pools, which arrays need; ",
                           "use another GPU, or a driver that offers them for this one"));
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  properties.location.id = device;
  check(cuda().MemPoolCreate(&pool.pool, &properties), what);
  cuuint64_t kept = std::numeric_limits<cuuint64_t>::max();
  check(cuda().MemPoolSetAttribute(pool.pool, cudaMemPoolAttrReleaseThreshold, &kept), what);
  check(cuda().StreamCreateWithFlags(&pool.frees, cudaStreamNonBlocking), what);
  check(cuda().StreamCreateWithFlags(&pool.quiet, cudaStreamNonBlocking), what);
  check(cuda().EventCreateWithFlags(&pool.mark, cudaEventDisableTiming), what);
  pool.device = device;
  pool.is_open.store(true, std::memory_order_release);
}

/// Never destroyed: arrays and threads may outlive main.
std::vector<DevicePool>& pools() {
  static std::vector<DevicePool>& all = *[] {
    int count = 0;
    check(cuda().GetDeviceCount(&count), "counting GPUs");
    return new std::vector<DevicePool>(static_cast<std::size_t>(count));
  }();
  return all;
}

DevicePool& pool_of(int device) {
  std::vector<DevicePool>& all = pools();
  if (static_cast<std::size_t>(device) >= all.size())
    throw DeviceError(text(Device::cuda(device), " is not there: this process sees ", all.size(),
                           all.size() == 1 ? " GPU" : " GPUs",
                           ", numbered from 0 (CUDA_VISIBLE_DEVICES limits which)"));
  DevicePool& pool = all[static_cast<std::size_t>(device)];
  std::call_once(pool.opened, open_pool, std::ref(pool), device);
  return pool;
}

// ---- freeing ----

/// An event marks a place only in streams of its own device, and which device a stream belongs to is not
/// known before CUDA 12.8: the likely one is tried first.
bool mark_and_wait(int likely_device, CUstream_st* before, CUstream_st* after) noexcept {
  std::vector<DevicePool>& all = pools();
  for (std::size_t i = 0; i < all.size(); ++i) {
    DevicePool& pool = all[(static_cast<std::size_t>(likely_device) + i) % all.size()];
    if (!pool.is_open.load(std::memory_order_acquire)) continue;
    const std::lock_guard lock(pool.marking);
    if (cuda().EventRecord(pool.mark, before) == cudaSuccess)
      return cuda().StreamWaitEvent(after, pool.mark, 0) == cudaSuccess;
    cuda().GetLastError();
  }
  return false;
}

/// Rule 2: has the device's own stream wait for the block's stream as far as that is known to live. False
/// where a capture is in the way.
bool wait_for_stream_of(const Freeable& memory, DevicePool& pool) {
  if (memory.of_graph) return true;
  auto wait = [&](CUstream_st* stream) {
    if (capture_of(stream) != Capture::none) return false;
    mark_and_wait(pool.device, stream, pool.frees);
    return true;
  };
  bool waited = true;
  auto wait_too = [&](CUstream_st* stream) { waited = wait(stream) && waited; };
  const auto run = [](void* f, CUstream_st* stream) { (*static_cast<decltype(wait_too)*>(f))(stream); };
  if (memory.delayed) {
    if (StreamKey{memory.dropped_on}.is_default())
      wait_too(nullptr);
    else
      while_handle_guarded(memory.dropped_on, run, &wait_too);
  }
  if (memory.stream.is_default())
    wait_too(nullptr);
  else
    while_guarded(memory.stream, run, &wait_too);
  return waited;
}

/// False where a capture is in the way; the memory then remembers where it was dropped.
bool try_to_free(Freeable& memory) {
  DevicePool& pool = pool_of(memory.device);
  const CurrentDevice device(memory.device);
  const StreamKey current = key_of(current_stream());
  const bool in_order = !memory.of_graph && !memory.delayed && memory.stream == current &&
                        !pool.guard_ends.of_others_since(memory.guard_ends, memory.stream);
  if (capture_of(current.handle) != Capture::none || (!in_order && !wait_for_stream_of(memory, pool))) {
    if (!memory.delayed) memory.dropped_on = current.handle;
    memory.delayed = true;
    return false;
  }
  if (!in_order) mark_and_wait(pool.device, current.handle, pool.frees);
  const BesideCapture beside;
  if (cuda().FreeAsync(memory.pointer, in_order ? current.handle : pool.frees) != cudaSuccess)
    cuda().GetLastError();  // nothing else can be done about it here
  return true;
}

void delay(const Freeable& memory) {
  DevicePool& pool = pool_of(memory.device);
  const std::lock_guard lock(pool.delaying);
  pool.delayed.push_back(memory);
  pool.has_delayed.store(true, std::memory_order_release);
}

void free_or_delay(Freeable memory) {
  bool freed = false;
  try {
    freed = try_to_free(memory);
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): tried again at the next allocation
  }
  if (!freed) delay(memory);
}

void free_delayed(DevicePool& pool) {
  if (!pool.has_delayed.load(std::memory_order_acquire)) return;
  std::vector<Freeable> list;
  {
    const std::lock_guard lock(pool.delaying);
    list.swap(pool.delayed);
    pool.has_delayed.store(false, std::memory_order_release);
  }
  for (const Freeable& memory : list) free_or_delay(memory);
}

// ---- blocks that a thread keeps ----

struct KeptBlock {
  Freeable memory;
  std::size_t bytes = 0;
};

/// The oldest first. Freed as the thread ends; whether it has is plain data, because static destructors may
/// still free blocks then.
struct KeptBlocks {
  static constexpr std::size_t most = 8, most_bytes = std::size_t{64} << 20U;
  std::vector<KeptBlock> blocks;
  std::size_t bytes = 0;

  KeptBlocks() { blocks.reserve(most + 1); }
  ~KeptBlocks() {
    gone() = true;
    if (!cuda_is_gone()) release(nullptr);
  }
  static bool& gone() {
    thread_local bool gone = false;
    return gone;
  }

  KeptBlock remove(std::size_t i) {
    const KeptBlock block = blocks[i];
    blocks.erase(blocks.begin() + static_cast<std::ptrdiff_t>(i));
    bytes -= block.bytes;
    return block;
  }
  void release(const StreamKey* stream) noexcept {  // null: of all
    for (std::size_t i = blocks.size(); i-- > 0;) {
      if (stream != nullptr && !(blocks[i].memory.stream == *stream)) continue;
      free_or_delay(remove(i).memory);
    }
  }
};

KeptBlocks& kept_blocks() {
  thread_local KeptBlocks kept;
  return kept;
}

/// Rule 1 without a call of CUDA's.
bool keep(const Freeable& memory, std::size_t bytes) {
  if (memory.of_graph || bytes > KeptBlocks::most_bytes || KeptBlocks::gone()) return false;
  if (!(key_of(current_stream()) == memory.stream) || !guard_will_tell(memory.stream, memory.device))
    return false;
  if (pool_of(memory.device).guard_ends.of_others_since(memory.guard_ends, memory.stream)) return false;
  KeptBlocks& kept = kept_blocks();
  kept.blocks.push_back({memory, bytes});
  kept.bytes += bytes;
  while (kept.blocks.size() > KeptBlocks::most || kept.bytes > KeptBlocks::most_bytes)
    free_or_delay(kept.remove(0).memory);
  return true;
}

/// Null where the thread keeps none of this size.
void* take_kept(int device, const StreamKey& stream, std::size_t bytes) {
  if (KeptBlocks::gone()) return nullptr;
  KeptBlocks& kept = kept_blocks();
  for (std::size_t i = kept.blocks.size(); i-- > 0;) {
    const KeptBlock& block = kept.blocks[i];
    if (block.bytes == bytes && block.memory.device == device && block.memory.stream == stream)
      return kept.remove(i).memory.pointer;
  }
  return nullptr;
}

// ---- allocating ----

[[noreturn]] void throw_out_of_memory(int device, std::size_t bytes) {
  std::size_t free = 0, total = 0;
  cuda().MemGetInfo(&free, &total);
  throw DeviceError(text("allocating ", bytes, " bytes on ", Device::cuda(device), " failed: ", free, " of ",
                         total, " bytes are free, after what the pool kept was given back; nothing was ",
                         "written; drop arrays that are not needed, or use smaller ones"));
}

/// What this thread and the pool keep may be in pieces that do not fit: given back, it can be mapped anew.
void* take(DevicePool& pool, std::size_t bytes, cudaStream_t stream) {
  void* pointer = nullptr;
  cudaError_t status = cuda().MallocFromPoolAsync(&pointer, bytes, pool.pool, stream);
  if (status == cudaErrorMemoryAllocation) {
    cuda().GetLastError();
    free_kept_blocks();
    cuda().MemPoolTrimTo(pool.pool, 0);
    status = cuda().MallocFromPoolAsync(&pointer, bytes, pool.pool, stream);
  }
  if (status == cudaErrorMemoryAllocation) {
    cuda().GetLastError();
    throw_out_of_memory(pool.device, bytes);
  }
  check(status, text("allocating ", bytes, " bytes").c_str());
  return pointer;
}

std::shared_ptr<Block> allocate_for_graph(DevicePool& pool, std::size_t bytes, CUstream_st* stream) {
  auto block = std::make_shared<Block>();
  constexpr const char* what = "allocating during a capture";
  const cudaGraph_t graph = graph_being_captured(stream, what);
  const BesideCapture beside;
  block->device = pool.device;
  block->of_graph = true;
  block->pointer = take(pool, bytes, pool.quiet);
  check(cuda().StreamSynchronize(pool.quiet), what);
  keep_with_graph(graph, block);
  return block;
}

}  // namespace

Block::~Block() {
  if (pointer == nullptr || cuda_is_gone()) return;
  try {
    const Freeable memory{pointer, device, stream, guard_ends, of_graph};
    if (of_graph)
      delay(memory);
    else if (!may_be_kept || !keep(memory, bytes))
      free_or_delay(memory);
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): the memory is lost to the pool
  }
}

std::shared_ptr<Block> allocate_block(int device, std::size_t bytes) {
  DevicePool& pool = pool_of(device);
  drop_what_graphs_kept();
  const StreamKey stream = use_current_stream(device);
  auto block = std::make_shared<Block>();
  block->device = device;
  block->stream = stream;
  block->bytes = bytes;
  block->guard_ends = pool.guard_ends.count();
  const bool usable = !stream.is_default() || capture_of(stream.handle) == Capture::none;
  if (usable && !pool.has_delayed.load(std::memory_order_acquire))
    block->pointer = take_kept(device, stream, bytes);
  if (block->pointer != nullptr) return block;
  const CurrentDevice current(device);
  switch (capture_of(stream.handle)) {
    case Capture::none:
      break;
    case Capture::active:
      return allocate_for_graph(pool, bytes, stream.handle);
    case Capture::elsewhere:
      throw DeviceError(
          text("allocating ", bytes, " bytes on ", Device::cuda(device),
               ": the default stream cannot be used while a blocking stream is being captured; ",
               "set a StreamGuard with a stream made with cudaStreamNonBlocking"));
  }
  free_delayed(pool);
  const BesideCapture beside;
  block->pointer = take(pool, bytes, stream.handle);
  return block;
}

void free_kept_blocks(const StreamKey* stream) noexcept {
  if (!cuda_is_gone() && !KeptBlocks::gone()) kept_blocks().release(stream);
}

void check_device(int device) { pool_of(device); }

void order_streams(int before_device, CUstream_st* before, int after_device, CUstream_st* after) {
  constexpr const char* what = "ordering streams";
  DevicePool& pool = pool_of(before_device);
  const std::lock_guard lock(pool.marking);
  {
    const CurrentDevice device(before_device);
    check(cuda().EventRecord(pool.mark, before), what);
  }
  const CurrentDevice device(after_device);
  check(cuda().StreamWaitEvent(after, pool.mark, 0), what);
}

void order_frees_after(int device, const StreamKey& stream) noexcept {
  if (cuda_is_gone()) return;
  try {
    DevicePool& pool = pool_of(device);
    if (capture_of(stream.handle) == Capture::none) mark_and_wait(device, stream.handle, pool.frees);
    pool.guard_ends.add(stream);
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): a guard's end cannot report it
  }
}

}  // namespace stiletto::detail::cudnn
