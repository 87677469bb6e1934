// SPDX-License-Identifier: Apache-2.0
// Scratch of one call: pointer and number lists and the plan's workspace, kept per thread so that a call
// allocates nothing once they have grown. An allocator given by the user may call compiled functions itself,
// so frames form a stack; and static destructors may, when the thread's own is gone, so it is not the only
// source.
#pragma once
#include <cstddef>
#include <memory>
#include <vector>

#include "core/array_body.hpp"
#include "core/thread_own.hpp"

namespace stiletto::detail {

struct CallFrame {
  std::vector<void*> arguments, captures, outputs;  // first elements
  std::vector<void*> tensors, stores;               // as the plan wants them
  std::vector<ScalarValue> numbers, steps, slots;
  std::vector<Array> output_arrays;
  std::shared_ptr<Storage> workspace;

  /// At least `bytes`, aligned to 64.
  void* workspace_of(std::size_t bytes) {
    if (bytes == 0) return nullptr;
    if (!workspace || static_cast<std::size_t>(workspace->bytes) < bytes) {
      workspace.reset();
      workspace = allocate(Device::cpu(), bytes, "workspace");
    }
    return workspace->data;
  }
};

class FrameLease {
 public:
  FrameLease() : frame_(take()) {}
  ~FrameLease() {
    frame_->output_arrays.clear();
    if (stack_ == nullptr)
      delete frame_;
    else
      --stack_->depth;
  }
  FrameLease(const FrameLease&) = delete;
  FrameLease& operator=(const FrameLease&) = delete;
  CallFrame& operator*() const { return *frame_; }
  CallFrame* operator->() const { return frame_; }

 private:
  struct Stack {
    std::vector<std::unique_ptr<CallFrame>> frames;
    std::size_t depth = 0;
  };
  CallFrame* take() {
    if (stack_ == nullptr) return new CallFrame;
    Stack& s = *stack_;
    if (s.depth == s.frames.size()) s.frames.push_back(std::make_unique<CallFrame>());
    return s.frames[s.depth++].get();
  }
  Stack* stack_ = ThreadOwn<Stack>::get();
  CallFrame* frame_;
};

}  // namespace stiletto::detail
