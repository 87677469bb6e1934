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
    if (own_)
      delete frame_;
    else
      --stack().depth;
  }
  FrameLease(const FrameLease&) = delete;
  FrameLease& operator=(const FrameLease&) = delete;
  CallFrame& operator*() const { return *frame_; }
  CallFrame* operator->() const { return frame_; }

 private:
  struct Stack {
    std::vector<std::unique_ptr<CallFrame>> frames;
    std::size_t depth = 0;
    ~Stack() { gone() = true; }
  };
  /// Whether this thread's stack has been destroyed: plain data, so it can still be read then.
  static bool& gone() {
    thread_local bool gone = false;
    return gone;
  }
  static Stack& stack() {
    thread_local Stack stack;
    return stack;
  }
  CallFrame* take() {
    if (gone()) {
      own_ = true;
      return new CallFrame;
    }
    Stack& s = stack();
    if (s.depth == s.frames.size()) s.frames.push_back(std::make_unique<CallFrame>());
    return s.frames[s.depth++].get();
  }
  bool own_ = false;
  CallFrame* frame_;
};

}  // namespace stiletto::detail
