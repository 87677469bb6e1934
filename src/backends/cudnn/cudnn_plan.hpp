// SPDX-License-Identifier: Apache-2.0
// A plan of cuDNN bound to a canonical graph: what a call does on a GPU.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backends/cudnn/engine_graph.hpp"
#include "backends/cudnn/frontend.hpp"
#include "compiler/backend.hpp"
#include "core/archive.hpp"

namespace stiletto::detail::cudnn {

/// Where a plan is at home.
struct Origin {
  std::string target;   // "NVIDIA H200 (sm_90)"
  std::string library;  // "cuDNN 9.19.0"
  bool tf32 = true;     // whether products of float32 may multiply in TF32
  bool operator==(const Origin&) const = default;
};
template <class Archive, Archived<Origin> T>
void archive(Archive& ar, T& o) {
  ar(o.target, o.library, o.tf32);
}

/// Of plans that are built here for the GPU of the device.
Origin origin_here(Device device);
/// DeviceError that says how they differ.
void check_origin(const Origin& saved, const Origin& here);

class CudnnPlan : public Plan {
 public:
  /// `present`: whether the device is the GPU that it was built for, so that it can execute there.
  CudnnPlan(EngineGraph graph, std::unique_ptr<const BuiltGraph> built, Origin origin, int device,
            bool present);
  /// What save() wrote, for a device whose plans have the origin `here`, or to be looked at where there is no
  /// GPU and so no `here`.
  static std::unique_ptr<const CudnnPlan> load(Reader& reader, const std::optional<Origin>& here, int device);
  CudnnPlan(const CudnnPlan&) = delete;
  CudnnPlan& operator=(const CudnnPlan&) = delete;
  ~CudnnPlan() override;

  std::size_t workspace() const override { return built_->workspace(); }
  void execute(const Invocation& invocation) const override;
  /// Whether the plan's kernels can be launched, which building it does not tell: its work is captured, and
  /// the capture thrown away. Nothing is read or written. Empty: yes.
  std::string launch_problem() const;
  /// Engines write an element after they have read its operands; products read theirs again and again.
  bool allows_in_place(std::size_t, std::size_t) const override { return true; }
  /// Of one execution on the GPU, without the host's part: the work is recorded and launched again and again.
  /// DeviceError where it fails.
  double microseconds(const Invocation& invocation) const;
  /// The engine, the form of the graph and the workspace.
  std::string summary() const;
  std::string describe() const override;
  /// Lines that describe() ends with: how the plan was chosen.
  void set_report(std::string report) { report_ = std::move(report); }
  void save(Writer& writer) const override;
  void* native_graph() const override { return built_->native(); }
  NativePack native_pack(const Invocation& invocation, std::span<std::uint64_t> numbers) const override;

 private:
  /// A pointer that each call brings.
  struct Slot {
    std::size_t at;  // in pointers_
    const EngineTensor* tensor;
  };
  /// The pointers and numbers of one execution.
  struct Frame {
    std::vector<void*> pointers;
    std::vector<float> numbers;
  };

  void bind_invocation(Frame& frame, const Invocation& invocation) const;
  template <class Memory>
  void bind(Frame& frame, const Memory& memory, std::span<const ScalarValue> scalars) const;

  EngineGraph graph_;
  std::string range_;  // what profilers call an execution
  std::unique_ptr<const BuiltGraph> built_;
  Origin origin_;
  std::string report_;
  int device_;
  bool present_;
  std::vector<float> constants_;
  std::vector<void*> pointers_;  // in the order that BuiltGraph takes; those of slots are null
  std::vector<Slot> slots_;
};

}  // namespace stiletto::detail::cudnn
