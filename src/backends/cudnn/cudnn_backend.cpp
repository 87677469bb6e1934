// SPDX-License-Identifier: Apache-2.0
// cuDNN as a backend: the ways of placing a graph are tried in order, each with cuDNN's candidates, until a
// plan is built that also launches.
#include <algorithm>

#include "backends/cudnn/block_scaling.hpp"
#include "backends/cudnn/cuda_runtime.hpp"
#include "backends/cudnn/cudnn_plan.hpp"
#include "backends/cudnn/explanation.hpp"
#include "backends/cudnn/fill_plan.hpp"
#include "backends/cudnn/foreign_plan.hpp"
#include "backends/cudnn/frontend.hpp"
#include "backends/cudnn/graph_memory.hpp"
#include "backends/cudnn/handles.hpp"
#include "backends/cudnn/libraries.hpp"
#include "backends/cudnn/lower.hpp"
#include "backends/cudnn/plan_request.hpp"
#include "backends/cudnn/profiler_range.hpp"
#include "backends/cudnn/target.hpp"
#include "backends/cudnn/tuner.hpp"
#include "compiler/backend.hpp"
#include "compiler/expression_text.hpp"
#include "core/log.hpp"
#include "core/text.hpp"
#include "core/tf32.hpp"
#include "stiletto/error.hpp"

namespace stiletto::detail {
namespace cudnn {
namespace {

class CudnnBackend : public Backend {
 public:
  std::string target() const override {
    return has_driver() ? TargetAccess::properties(Target::current()).name : "no NVIDIA GPU";
  }
  std::string library() const override { return library_here(); }

  std::unique_ptr<const Plan> load(Reader& reader, const CanonicalGraph& graph,
                                   Device device) const override {
    if (auto fills = fill_plan(graph, device, has_driver())) return fills;
    refuse_while_captured("a plan cannot be loaded");
    std::optional<Origin> here;
    std::optional<BesideCapture> beside;
    if (has_driver()) {
      here = origin_of(device);
      beside.emplace();
    }
    if (is_foreign(graph)) return load_foreign_plan(reader, graph, here, device.index());
    return CudnnPlan::load(reader, here, device.index());
  }

  static Origin origin_of(Device device) { return Attempt(PlanOptions(CompileOptions{}), device).origin; }

  std::string cache_key(const PlanOptions& options, Device device) const override {
    const Attempt attempt(options, device);
    Writer key;
    key(attempt.origin, TargetAccess::properties(*attempt.target).json, device, options.deterministic,
        options.heuristics, options.autotune, options.max_workspace.has_value(),
        static_cast<std::uint64_t>(options.max_workspace.value_or(0)));
    return key.bytes;
  }

  std::unique_ptr<const Plan> build(const CanonicalGraph& graph, const PlanOptions& options,
                                    Device device) const override {
    refuse_while_captured("compile: a plan cannot be built");
    Attempt attempt(options, device);
    return choose(graph, attempt);
  }

  std::unique_ptr<const Plan> tune(const CanonicalGraph& graph, const PlanOptions& options, Device device,
                                   const std::function<Trial()>& trial) const override {
    refuse_while_captured("compile: a plan cannot be built");
    Attempt attempt(options, device);
    if (!attempt.present)
      throw DeviceError(text("compile: autotune times plans on the GPU, and ", attempt.origin.target,
                             " is not here; compile there, or leave autotune off"));
    attempt.tuner.emplace(trial());
    return choose(graph, attempt);
  }

 private:
  struct Attempt;

  static std::unique_ptr<const Plan> choose(const CanonicalGraph& graph, Attempt& attempt) {
    const ProfilerRange range(("stiletto: compile " + expression_text(graph, 70)).c_str());
    const Device device = attempt.device;
    if (auto fills = fill_plan(graph, device, attempt.present)) return fills;
    if (auto refused = refused_compute_dtype(graph)) {
      refused->target = attempt.origin.target;
      refused->library = attempt.origin.library;
      throw_unsupported(graph, std::move(*refused));
    }
    if (auto plan = attempt.plan(graph)) return plan;
    if (attempt.tuner) {
      if (auto best = attempt.tuner->best()) return best;
    }
    if (!attempt.excluded_by && !tf32_allowed() && multiplies_float32(graph))
      attempt.excluded_by = "set_allow_tf32";
    const PlanOptions& options = attempt.options;
    Refusal refusal{attempt.origin.target, attempt.origin.library, attempt.reasons, attempt.excluded_by, {}};
    const Questions questions{
        [&](const CanonicalGraph& other) { return Attempt(options, device).proposes(other); },
        [&](const CanonicalGraph& other) { return Attempt(options, device).plan(other) != nullptr; }};
    const auto under = [&](const PlanOptions& others) { return Attempt(others, device).plan(graph); };
    explain(graph, options, questions, under, refusal);
    throw_unsupported(graph, std::move(refusal));
  }

  static std::optional<Refusal> refused_compute_dtype(const CanonicalGraph& graph) {
    if (auto refused = refused_accumulation(graph, "lowering")) return refused;
    if (!accumulates_narrower_in_float64(graph)) return std::nullopt;
    return Refusal{{},
                   {},
                   {{"lowering", "cuDNN does not accumulate narrower types in float64"}},
                   "compute_dtype",
                   "leave compute_dtype at float32"};
  }

  static std::string library_here() {
    return text("cuDNN ", (has_driver() ? libraries_for_device() : libraries_for_planning()).cudnn.version);
  }
  static bool accumulates_narrower_in_float64(const CanonicalGraph& graph) {
    return graph.compute_dtype == DType::float64 &&
           std::any_of(graph.values.begin(), graph.values.end(), [](const Value& value) {
             return value.kind == Value::Kind::operation && value.contracted.any() &&
                    value.dtype != DType::float64;
           });
  }
  static bool multiplies_float32(const CanonicalGraph& graph) {
    return std::any_of(graph.values.begin(), graph.values.end(), [](const Value& value) {
      const bool multiplies = value.op == Op::matmul || value.op == Op::attention || value.op == Op::conv ||
                              value.op == Op::conv_backward_data || value.op == Op::conv_backward_filter;
      return value.kind == Value::Kind::operation && multiplies && value.dtype == DType::float32;
    });
  }

  /// One build: for which GPU, and what has been refused so far.
  struct Attempt {
    Attempt(const PlanOptions& o, Device d) : options(o), device(d) { choose_target(); }
    std::optional<BesideCapture>
        beside;  // first, for what goes with the others: cuDNN loads and unloads kernels
    const PlanOptions& options;
    Device device;
    std::vector<EngineReason> reasons;
    std::optional<std::string> excluded_by;
    bool present = false;
    std::optional<Target> target;
    Origin origin;
    std::optional<Tuner> tuner;  // where plans are timed

    /// The GPU that is there, unless another one was asked for.
    void choose_target() {
      if (has_driver()) {
        target = Target::current(device.index());
        present = !options.target || *options.target == *target;
        if (present) beside.emplace();
      } else if (!options.target) {
        refuse_without_gpu();
      }
      if (options.target) target = options.target;
      const TargetProperties& properties = TargetAccess::properties(*target);
      origin = {text(properties.name, " (sm_", properties.sm, ")"), library_here(), tf32_allowed()};
    }

    static void refuse_without_gpu() {
      try {
        libraries_for_device();  // says what is missing
      } catch (const DeviceError& error) {
        throw DeviceError(text(error.what(), ", or plan for a GPU that is not here with the option target"));
      }
    }

    /// Null with the reasons noted.
    std::unique_ptr<const Plan> plan(const CanonicalGraph& graph) {
      std::unique_ptr<const Plan> result;
      in_every_way(graph, [&](const EngineGraph& engine) { return (result = plan(engine)) != nullptr; });
      return result;
    }

    /// Whether cuDNN has something to try; another process, which builds at once, is not asked.
    bool proposes(const CanonicalGraph& graph) {
      return in_every_way(graph, [&](const EngineGraph& engine) {
        std::optional<CurrentDevice> current;
        if (present) current.emplace(device.index());
        return (!present && has_driver()) || candidates(engine).any();
      });
    }

    /// Lowers in one way after the other, until `takes` does.
    template <class Takes>
    bool in_every_way(const CanonicalGraph& graph, const Takes& takes) {
      constexpr int blackwell = 100;
      if (has_block_scaling(graph) && TargetAccess::properties(*target).sm < blackwell) {
        reasons.push_back({"lowering", text("block-scaled types, which need a Blackwell GPU (sm_", blackwell,
                                            " or later); dequantize outside the function, or use the CPU")});
        return false;
      }
      std::string refusal;
      const std::vector<Geometry> ways = geometries(graph, refusal);
      for (const Geometry& geometry : ways) {
        const bool last_resort = geometry.carrier != Carrier::none;
        if (last_resort && tuner && !tuner->empty()) continue;
        try {
          if (takes(lower(graph, geometry))) return true;
        } catch (const NotLowered& not_lowered) {
          note("lowering", geometry.form, not_lowered.reason);
        }
      }
      if (ways.empty()) reasons.push_back({"lowering", refusal});
      return false;
    }

    Candidates candidates(const EngineGraph& graph) const {
      return {graph, options, present ? handle_of(device.index()) : nullptr,
              &TargetAccess::properties(*target)};
    }

    std::unique_ptr<const Plan> plan(const EngineGraph& graph) {
      if (log_enabled(LogTopic::plan))
        log(LogTopic::plan, text("trying ", graph.form, " for ", origin.target));
      if (!present && has_driver()) return plan_elsewhere(graph);
      std::optional<CurrentDevice> current;
      if (present) current.emplace(device.index());
      Candidates proposed = candidates(graph);
      std::unique_ptr<const Plan> result;
      while (!tuner || tuner->has_time()) {
        auto built = proposed.next();
        if (!built) break;
        const std::string engine = built->engine();
        auto plan = std::make_unique<CudnnPlan>(graph, std::move(built), origin, device.index(), present);
        const std::string problem = present ? plan->launch_problem() : std::string();
        if (problem.empty() && tuner) {
          tuner->consider(std::move(plan));
          continue;
        }
        if (problem.empty()) {
          result = std::move(plan);
          break;
        }
        proposed.reasons.push_back({engine, problem});
      }
      note(graph, proposed.reasons, proposed.excluded_by);
      return result;
    }

    std::unique_ptr<const Plan> plan_elsewhere(const EngineGraph& graph) {
      ElsewhereResult answer = build_elsewhere(graph, options, TargetAccess::properties(*target));
      note(graph, answer.reasons, answer.excluded_by);
      if (!answer.plan) return nullptr;
      return std::make_unique<CudnnPlan>(graph, std::move(answer.plan), origin, device.index(), false);
    }

    void note(const EngineGraph& graph, std::vector<EngineReason>& found,
              const std::optional<std::string>& excluded) {
      for (const EngineReason& reason : found) note(reason.engine, graph.form, reason.reason);
      if (excluded) excluded_by = excluded;
    }

    /// What is refused for the same reason in several forms is said once.
    void note(const std::string& engine, const std::string& form, const std::string& reason) {
      if (log_enabled(LogTopic::plan))
        log(LogTopic::plan, text("refused ", engine, ", ", form, ": ", reason));
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

Origin origin_here(Device device) { return CudnnBackend::origin_of(device); }

}  // namespace cudnn

Backend& cudnn_backend() {
  static Backend& backend =
      *new cudnn::CudnnBackend;  // never destroyed: plans may outlive static destruction
  return backend;
}

}  // namespace stiletto::detail
