// SPDX-License-Identifier: Apache-2.0
// Scratch of one call: pointer and number lists, kept per thread so that a call allocates nothing once they
// have grown. An allocator given by the user may call compiled functions itself, so frames form a stack.
#pragma once
#include <cstddef>
#include <memory>
#include <vector>

#include "core/array_body.hpp"

namespace stiletto::detail {

struct CallFrame {
  std::vector<void*> arguments, captures, outputs;  // first elements
  std::vector<void*> tensors, stores;               // as the plan wants them
  std::vector<ScalarValue> numbers, steps, slots;
  std::vector<Array> output_arrays;
};

class FrameLease {
 public:
  FrameLease() : frame_(*stack().take()) {}
  ~FrameLease() {
    frame_.output_arrays.clear();
    --stack().depth;
  }
  FrameLease(const FrameLease&) = delete;
  FrameLease& operator=(const FrameLease&) = delete;
  CallFrame& operator*() const { return frame_; }
  CallFrame* operator->() const { return &frame_; }

 private:
  struct Stack {
    std::vector<std::unique_ptr<CallFrame>> frames;
    std::size_t depth = 0;
    CallFrame* take() {
      if (depth == frames.size()) frames.push_back(std::make_unique<CallFrame>());
      return frames[depth++].get();
    }
  };
  static Stack& stack() {
    thread_local Stack stack;
    return stack;
  }
  CallFrame& frame_;
};

/// Scratch memory of this thread, at least `bytes`, aligned to 64; valid until the next call on this thread.
/// A plan runs to its end within one call, so all plans of a thread share it.
void* thread_workspace(std::size_t bytes);

}  // namespace stiletto::detail
