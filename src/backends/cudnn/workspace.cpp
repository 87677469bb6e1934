// SPDX-License-Identifier: Apache-2.0
// The table of each thread.
#include "backends/cudnn/workspace.hpp"

#include <algorithm>
#include <memory>
#include <vector>

#include "backends/cudnn/memory.hpp"

namespace stiletto::detail::cudnn {
namespace {

/// A program may go through any number of streams; beyond so many the one used longest ago goes.
constexpr std::size_t most_entries = 8;

struct Entry {
  std::shared_ptr<Block> block;
  std::size_t bytes = 0;
};

/// The most recently used entry first. Freed as the thread ends; whether it has is plain data, because static
/// destructors may still run plans then.
struct Table {
  std::vector<Entry> entries;
  ~Table() { gone() = true; }
  static bool& gone() {
    thread_local bool gone = false;
    return gone;
  }
};

Table& table() {
  thread_local Table table;
  return table;
}

}  // namespace

void* workspace(int device, CUstream_st* stream, std::size_t bytes) {
  if (bytes == 0) return nullptr;
  if (Table::gone() || capture_of(stream) == Capture::active) {
    // During a capture the graph keeps it. A thread that has ended frees it in the stream's order, behind
    // which the work that uses it may only come if nobody allocates: so it is left to the driver.
    const std::shared_ptr<Block> block = allocate_block(device, bytes);
    if (!block->of_graph) new std::shared_ptr<Block>(block);  // NOLINT(bugprone-unused-raii)
    return block->pointer;
  }
  const StreamKey key = use_current_stream(device);
  std::vector<Entry>& entries = table().entries;
  auto found = std::find_if(entries.begin(), entries.end(), [&](const Entry& entry) {
    return entry.block->device == device && entry.block->stream == key;
  });
  if (found == entries.end() || found->bytes < bytes) {
    if (found != entries.end()) entries.erase(found);  // first, so that its memory can be part of the next
    if (entries.size() == most_entries) entries.pop_back();
    entries.insert(entries.begin(), {allocate_block(device, bytes), bytes});
    entries.front().block->may_be_kept = false;
  } else {
    std::rotate(entries.begin(), found, found + 1);
  }
  return entries.front().block->pointer;
}

}  // namespace stiletto::detail::cudnn
