// SPDX-License-Identifier: Apache-2.0
// cuDNN as a backend: the ways of placing a graph are tried in order, each with cuDNN's candidates, until a
// plan is built that also launches.
#include <algorithm>

#include "backends/cudnn/cuda_runtime.hpp"
#include "backends/cudnn/fill_plan.hpp"
#include "backends/cudnn/frontend.hpp"
#include "backends/cudnn/handles.hpp"
#include "backends/cudnn/libraries.hpp"
#include "backends/cudnn/lower.hpp"
#include "backends/cudnn/plan_request.hpp"
#include "backends/cudnn/streams.hpp"
#include "backends/cudnn/target.hpp"
#include "backends/cudnn/workspace.hpp"
#include "compiler/backend.hpp"
#include "core/device_memory.hpp"
#include "core/dtype_info.hpp"
#include "core/text.hpp"
#include "core/tf32.hpp"
#include "graph/op_table.hpp"
#include "stiletto/cuda.hpp"
#include "stiletto/error.hpp"

namespace stiletto::detail {
namespace cudnn {
namespace {

/// The pointers and numbers of one execution; a thread reuses its own.
struct Frame {
  std::vector<void*> pointers;
  std::vector<float> numbers;
};
Frame& frame_of_thread() {
  thread_local Frame frame;
  return frame;
}

class CudnnPlan : public Plan {
 public:
  CudnnPlan(EngineGraph graph, std::unique_ptr<const BuiltGraph> built, int device, bool present)
      : graph_(std::move(graph)), built_(std::move(built)), device_(device), present_(present) {
    constants_.reserve(graph_.tensors.size());  // their addresses are kept
    for (const EngineTensor& t : graph_.tensors) {
      if (t.role == EngineTensor::Role::intermediate) continue;
      void* pointer = nullptr;
      if (t.role == EngineTensor::Role::constant) {
        constants_.push_back(static_cast<float>(t.value));
        pointer = &constants_.back();
      } else if (t.role == EngineTensor::Role::ones) {
        if (present) pointer = ones_on_device(device, t.dtype, t.dims.back());
      } else {
        slots_.push_back({pointers_.size(), &t});
      }
      pointers_.push_back(pointer);
    }
  }
  CudnnPlan(const CudnnPlan&) = delete;
  CudnnPlan& operator=(const CudnnPlan&) = delete;
  ~CudnnPlan() override = default;

  std::size_t workspace() const override { return built_->workspace(); }

  void execute(const Invocation& invocation) const override {
    if (!present_) throw_absent_gpu();
    const CurrentDevice current(device_);
    CUstream_st* stream = use_current_stream(device_).handle;
    Frame& frame = frame_of_thread();
    bind(
        frame,
        [&](const EngineTensor& t) -> void* {
          return t.role == EngineTensor::Role::input ? invocation.tensors[t.source]
                                                     : invocation.stores[t.source];
        },
        invocation.scalars);
    built_->execute(handle_for(device_, stream), frame.pointers,
                    cudnn::workspace(device_, stream, workspace()));
  }

  /// Whether the plan's kernels can be launched, which building it does not tell: its work is captured, and
  /// the capture thrown away. Nothing is read or written. Empty: yes.
  std::string launch_problem() const;

  /// Engines write an element after they have read its operands; products read theirs again and again.
  bool allows_in_place(std::size_t, std::size_t) const override { return true; }

  std::string describe() const override {
    return text("  cudnn ", built_->engine(), ", ", graph_.form, ", workspace ", workspace(), " bytes\n");
  }

 private:
  /// A pointer that each call brings.
  struct Slot {
    std::size_t at;  // in pointers_
    const EngineTensor* tensor;
  };

  template <class Memory>
  void bind(Frame& frame, const Memory& memory, std::span<const ScalarValue> scalars) const {
    frame.pointers = pointers_;
    frame.numbers.resize(scalars.size());
    for (const auto& [at, t] : slots_) {
      if (t->role != EngineTensor::Role::number) {
        frame.pointers[at] = memory(*t);
        continue;
      }
      frame.numbers[t->source] = static_cast<float>(scalars[t->source].as_double());
      frame.pointers[at] = &frame.numbers[t->source];
    }
  }

  EngineGraph graph_;
  std::unique_ptr<const BuiltGraph> built_;
  int device_;
  bool present_;
  std::vector<float> constants_;
  std::vector<void*> pointers_;  // in the order that BuiltGraph takes; those of slots are null
  std::vector<Slot> slots_;
};

/// A stream of the current device that is capturing while this lives.
class Capture {
 public:
  Capture() {
    check(cuda().StreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "trying a plan");
    const cudaError_t begun = cuda().StreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal);
    if (begun != cudaSuccess) {
      cuda().StreamDestroy(stream_);
      check(begun, "trying a plan");
    }
  }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;
  ~Capture() {
    cudaGraph_t graph = end();
    if (graph != nullptr) cuda().GraphDestroy(graph);
    cuda().StreamDestroy(stream_);
    cuda().GetLastError();  // what was wrong has been said; later calls of anyone must not meet it
  }
  cudaStream_t stream() const { return stream_; }
  cudaGraph_t end() {
    cudaGraph_t graph = nullptr;
    if (capturing_) cuda().StreamEndCapture(stream_, &graph);
    capturing_ = false;
    return graph;
  }

 private:
  cudaStream_t stream_ = nullptr;
  bool capturing_ = true;
};

std::string CudnnPlan::launch_problem() const {
  const CurrentDevice current(device_);
  std::size_t numbers = 0;
  for (const EngineTensor& t : graph_.tensors)
    if (t.role == EngineTensor::Role::number) numbers = std::max<std::size_t>(numbers, t.source + 1);
  const std::vector<ScalarValue> scalars(numbers);
  // Kernels' arguments are not followed, so any address will do; but what a plan clears before it adds to it,
  // its workspace and the outputs of reductions, has to be memory.
  std::vector<std::shared_ptr<Storage>> cleared{cuda_memory().allocate(Device::cuda(device_), workspace())};
  Frame frame;
  constexpr std::uintptr_t somewhere = std::uintptr_t{1} << 40U;
  std::uintptr_t apart = 0;
  auto address = [&](const EngineTensor& t) -> void* {
    const bool reduced = std::any_of(graph_.nodes.begin(), graph_.nodes.end(), [&](const EngineNode& node) {
      return &graph_.tensors[node.output] == &t && row_of(node.op).family == Family::reduction;
    });
    // NOLINTNEXTLINE(performance-no-int-to-ptr)
    if (!reduced) return reinterpret_cast<void*>(somewhere + (apart++ << 32U));
    cleared.push_back(cuda_memory().allocate(Device::cuda(device_), bytes_for(t.dtype, t.span())));
    return cleared.back()->data;
  };
  bind(frame, address, scalars);
  handle_for(device_, nullptr);  // made before the capture, during which it could not be
  Capture capture;
  try {
    built_->execute(handle_for(device_, capture.stream()), frame.pointers, cleared.front()->data);
  } catch (const DeviceError& error) {
    handle_for(device_, nullptr);
    return error.what();
  }
  handle_for(device_, nullptr);
  cudaGraph_t graph = capture.end();
  if (graph == nullptr) return "its launch could not be captured";
  cudaGraphExec_t executable = nullptr;
  const cudaError_t status = cuda().GraphInstantiate(&executable, graph, 0);
  cuda().GraphDestroy(graph);
  if (executable != nullptr) cuda().GraphExecDestroy(executable);
  return status == cudaSuccess ? "" : text("launching it fails: ", cuda().GetErrorString(status));
}

class CudnnBackend : public Backend {
 public:
  std::string target() const override {
    return has_driver() ? TargetAccess::properties(Target::current()).name : "no NVIDIA GPU";
  }
  std::string library() const override {
    return text("cuDNN ", (has_driver() ? libraries_for_device() : libraries_for_planning()).cudnn.version);
  }

  std::unique_ptr<const Plan> build(const CanonicalGraph& graph, const PlanOptions& options,
                                    Device device) const override {
    Attempt attempt(options, device);
    if (auto fills = fill_plan(graph, device, attempt.present)) return fills;
    if (auto refused = refused_accumulation(graph, "lowering")) {
      refused->target = attempt.target_name;
      refused->library = library();
      throw_unsupported(graph, std::move(*refused));
    }
    std::string refusal;
    const std::vector<Geometry> ways = geometries(graph, refusal);
    for (const Geometry& geometry : ways) {
      try {
        if (auto plan = attempt.plan(lower(graph, geometry))) return plan;
      } catch (const NotLowered& not_lowered) {
        attempt.note("lowering", geometry.form, not_lowered.reason);
      }
    }
    if (ways.empty()) attempt.reasons.push_back({"lowering", refusal});
    if (!attempt.excluded_by && !tf32_allowed() && multiplies_float32(graph))
      attempt.excluded_by = "set_allow_tf32";
    const char* const way_out = attempt.excluded_by
                                    ? "leave that option at its default"
                                    : "compile parts of it to find the one without an engine (supports says "
                                      "so without throwing), or run it on the CPU";
    throw_unsupported(graph, {attempt.target_name, library(), attempt.reasons, attempt.excluded_by, way_out});
  }

 private:
  static bool multiplies_float32(const CanonicalGraph& graph) {
    return std::any_of(graph.values.begin(), graph.values.end(), [](const Value& value) {
      return value.kind == Value::Kind::operation && value.op == Op::matmul && value.dtype == DType::float32;
    });
  }

  /// One build: for which GPU, and what has been refused so far.
  struct Attempt {
    Attempt(const PlanOptions& o, Device d) : options(o), device(d) { choose_target(); }
    const PlanOptions& options;
    Device device;
    std::vector<EngineReason> reasons;
    std::optional<std::string> excluded_by;
    bool present = false;
    std::optional<Target> target;
    std::string target_name;

    /// The GPU that is there, unless another one was asked for.
    void choose_target() {
      if (has_driver()) {
        target = Target::current(device.index());
        present = !options.target || *options.target == *target;
      } else if (!options.target) {
        libraries_for_device();  // says what is missing
      }
      if (options.target) target = options.target;
      const TargetProperties& properties = TargetAccess::properties(*target);
      target_name = text(properties.name, " (sm_", properties.sm, ")");
    }

    std::unique_ptr<const Plan> plan(const EngineGraph& graph) {
      if (!present && has_driver()) return plan_elsewhere(graph);
      std::optional<CurrentDevice> current;
      if (present) current.emplace(device.index());
      Candidates candidates(graph, options, present ? handle_for(device.index(), nullptr) : nullptr,
                            &TargetAccess::properties(*target));
      std::unique_ptr<const Plan> result;
      while (auto built = candidates.next()) {
        const std::string engine = built->engine();
        auto plan = std::make_unique<CudnnPlan>(graph, std::move(built), device.index(), present);
        const std::string problem = present ? plan->launch_problem() : std::string();
        if (problem.empty()) {
          result = std::move(plan);
          break;
        }
        candidates.reasons.push_back({engine, problem});
      }
      note(graph, candidates.reasons, candidates.excluded_by);
      return result;
    }

    std::unique_ptr<const Plan> plan_elsewhere(const EngineGraph& graph) {
      ElsewhereResult answer = build_elsewhere(graph, options, TargetAccess::properties(*target));
      note(graph, answer.reasons, answer.excluded_by);
      if (!answer.plan) return nullptr;
      return std::make_unique<CudnnPlan>(graph, std::move(answer.plan), device.index(), false);
    }

    void note(const EngineGraph& graph, std::vector<EngineReason>& found,
              const std::optional<std::string>& excluded) {
      for (const EngineReason& reason : found) note(reason.engine, graph.form, reason.reason);
      if (excluded) excluded_by = excluded;
    }

    /// What is refused for the same reason in several forms is said once.
    void note(const std::string& engine, const std::string& form, const std::string& reason) {
      for (EngineReason& known : reasons) {
        if (known.reason != reason || !known.engine.starts_with(engine + ", ")) continue;
        known.engine += " and " + form;
        return;
      }
      reasons.push_back({text(engine, ", ", form), reason});
    }
  };
};

}  // namespace
}  // namespace cudnn

Backend& cudnn_backend() {
  static Backend& backend =
      *new cudnn::CudnnBackend;  // never destroyed: plans may outlive static destruction
  return backend;
}

}  // namespace stiletto::detail
