// SPDX-License-Identifier: Apache-2.0
// A plan of cuDNN bound to a canonical graph: what a call does on a GPU.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "backends/cudnn/engine_graph.hpp"
#include "backends/cudnn/frontend.hpp"
#include "compiler/backend.hpp"

namespace stiletto::detail::cudnn {

class CudnnPlan : public Plan {
 public:
  /// `present`: whether the device is the GPU that it was built for, so that it can execute there.
  CudnnPlan(EngineGraph graph, std::unique_ptr<const BuiltGraph> built, int device, bool present);
  CudnnPlan(const CudnnPlan&) = delete;
  CudnnPlan& operator=(const CudnnPlan&) = delete;
  ~CudnnPlan() override = default;

  std::size_t workspace() const override { return built_->workspace(); }
  void execute(const Invocation& invocation) const override;
  /// Whether the plan's kernels can be launched, which building it does not tell: its work is captured, and
  /// the capture thrown away. Nothing is read or written. Empty: yes.
  std::string launch_problem() const;
  /// Engines write an element after they have read its operands; products read theirs again and again.
  bool allows_in_place(std::size_t, std::size_t) const override { return true; }
  std::string describe() const override;

 private:
  /// A pointer that each call brings.
  struct Slot {
    std::size_t at;  // in pointers_
    const EngineTensor* tensor;
  };
  /// The pointers and numbers of one execution; a thread reuses its own.
  struct Frame {
    std::vector<void*> pointers;
    std::vector<float> numbers;
  };
  static Frame& frame_of_thread();

  template <class Memory>
  void bind(Frame& frame, const Memory& memory, std::span<const ScalarValue> scalars) const;

  EngineGraph graph_;
  std::string range_;  // what profilers call an execution
  std::unique_ptr<const BuiltGraph> built_;
  int device_;
  bool present_;
  std::vector<float> constants_;
  std::vector<void*> pointers_;  // in the order that BuiltGraph takes; those of slots are null
  std::vector<Slot> slots_;
};

}  // namespace stiletto::detail::cudnn
