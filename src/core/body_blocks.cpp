// SPDX-License-Identifier: Apache-2.0
// One list of blocks per thread. A body may end on another thread than made it; its block stays there.
#include "core/body_blocks.hpp"

#include <cstdint>

namespace stiletto::detail {
namespace {

#ifndef __has_feature
#define __has_feature(name) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
constexpr std::uint32_t most = 0;  // so that the use of a body that has ended is found
#else
constexpr std::uint32_t most = 64;
#endif

struct Block {
  Block* next;
};
// Plain data in the static block of the thread's memory: no call to reach it, and it can still be read in
// static destructors.
[[gnu::tls_model("initial-exec")]] thread_local Block* kept = nullptr;
[[gnu::tls_model("initial-exec")]] thread_local std::uint32_t count = 0;

/// Frees the blocks when the thread ends, after which it keeps none.
struct AtExit {
  bool registered = false;
  ~AtExit() {
    while (kept != nullptr) {
      Block* const next = kept->next;
      ::operator delete(kept);
      kept = next;
    }
    count = most;
  }
};
thread_local AtExit at_exit;

}  // namespace

void* take_body_block(std::size_t bytes) {
  if (kept == nullptr) return ::operator new(bytes);
  Block* const block = kept;
  kept = block->next;
  --count;
  return block;
}

void give_body_block(void* block) noexcept {
  if (count >= most) return ::operator delete(block);
  if (kept == nullptr) at_exit.registered = true;  // the first use makes the thread call its destructor
  kept = new (block) Block{kept};
  ++count;
}

}  // namespace stiletto::detail
