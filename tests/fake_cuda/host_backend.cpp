// SPDX-License-Identifier: Apache-2.0
// Stands in for cuDNN where fake_cudart.cpp stands in for CUDA: a plan is the CPU backend's, run by a host
// function on the fake's memory, which is the host's. All around it is as on a GPU: the current device and
// stream, scratch memory, what a capture refuses and what its graph keeps. The linker puts it there (--wrap).
#include "backends/cudnn/cuda_runtime.hpp"
#include "backends/cudnn/fill_plan.hpp"
#include "backends/cudnn/graph_memory.hpp"
#include "backends/cudnn/streams.hpp"
#include "backends/cudnn/workspace.hpp"
#include "compiler/backend.hpp"
#include "support/cuda_api.hpp"

namespace stiletto::detail {

// NOLINTNEXTLINE(bugprone-reserved-identifier): the name that the linker's --wrap gives
Backend& host_backend() __asm__("__wrap__ZN8stiletto6detail13cudnn_backendEv");

namespace {

/// One execution.
struct Work {
  std::shared_ptr<const Plan> plan;
  std::vector<void*> tensors, stores;
  std::vector<ScalarValue> scalars;
  void* scratch;

  static void run(void* work) {
    const Work& w = *static_cast<const Work*>(work);
    w.plan->execute({w.tensors, w.stores, w.scalars, w.scratch});
  }
};

class HostPlan : public Plan {
 public:
  HostPlan(std::unique_ptr<const Plan> plan, Device device) : plan_(std::move(plan)), device_(device) {}

  std::size_t workspace() const override { return plan_->workspace(); }
  bool allows_in_place(std::size_t tensor, std::size_t store) const override {
    return plan_->allows_in_place(tensor, store);
  }
  std::string describe() const override { return plan_->describe(); }

  void execute(const Invocation& call) const override {
    const cudnn::CurrentDevice current(device_.index());
    const cudnn::StreamKey stream = cudnn::use_current_stream(device_.index());
    cudnn::keep_with_capture(stream, call);
    for (const void* read : call.tensors) note_use(read, stream.handle, false);
    for (const void* written : call.stores) note_use(written, stream.handle, true);
    auto work = std::make_shared<Work>(plan_, std::vector<void*>(call.tensors.begin(), call.tensors.end()),
                                       std::vector<void*>(call.stores.begin(), call.stores.end()),
                                       std::vector<ScalarValue>(call.scalars.begin(), call.scalars.end()),
                                       cudnn::workspace(device_.index(), stream.handle, workspace()));
    support::cuda_call("cudaLaunchHostFunc", stream.handle, &Work::run, static_cast<void*>(work.get()));
    if (cudnn::capture_of(stream.handle) == cudnn::Capture::active)
      cudnn::keep_with_graph(cudnn::graph_being_captured(stream.handle, "host plan"), std::move(work));
  }

 private:
  static void note_use(const void* memory, CUstream_st* stream, bool writes) {
    reinterpret_cast<void (*)(const void*, CUstream_st*, bool)>(support::cuda_symbol("fake_use"))(
        memory, stream, writes);
  }

  std::shared_ptr<const Plan> plan_;
  Device device_;
};

class HostBackend : public Backend {
 public:
  std::string target() const override { return "fake GPU"; }
  std::string library() const override { return cpu_backend().library(); }
  std::unique_ptr<const Plan> build(const CanonicalGraph& graph, const PlanOptions& options,
                                    Device device) const override {
    cudnn::refuse_while_captured("compile: a plan cannot be built");
    if (auto fills = cudnn::fill_plan(graph, device, true)) return fills;
    return std::make_unique<HostPlan>(cpu_backend().build(graph, options, Device::cpu()), device);
  }
};

}  // namespace

Backend& host_backend() {
  static Backend& backend = *new HostBackend;  // never destroyed: plans may outlive it
  return backend;
}

}  // namespace stiletto::detail
