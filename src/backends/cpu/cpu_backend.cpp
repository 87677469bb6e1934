// SPDX-License-Identifier: Apache-2.0
// The CPU as a backend: schedules become plans.
#include <algorithm>
#include <functional>

#include "backends/cpu/block_program.hpp"
#include "backends/cpu/schedule.hpp"
#include "backends/cpu/tensor_rows.hpp"
#include "compiler/backend.hpp"
#include "core/parallel.hpp"
#include "core/text.hpp"
#include "graph/op_table.hpp"
#include "stiletto/error.hpp"

namespace stiletto::detail {
namespace cpu {
namespace {

class CpuPlan : public Plan {
 public:
  explicit CpuPlan(Schedule schedule) : schedule_(std::move(schedule)) {}

  std::size_t workspace() const override {
    return static_cast<std::size_t>(schedule_.temporaries + schedule_.areas);
  }

  void execute(const Invocation& invocation) const override {
    auto* temporaries = static_cast<std::byte*>(invocation.workspace);
    std::byte* areas = temporaries + schedule_.temporaries;
    for (const Step& step : schedule_.steps) {
      if (const auto* loop = std::get_if<Loop>(&step.work))
        run_loop(*loop, invocation, temporaries, areas);
      else if (const auto* product = std::get_if<MatmulStep>(&step.work))
        run_matmul(*product, invocation, temporaries, areas);
      else
        run_structured(std::get<StructuredStep>(step.work), invocation, temporaries);
    }
  }

  /// In a loop the caller's memory is written after the block was read; other steps may write before they
  /// have read all.
  bool allows_in_place(std::size_t tensor, std::size_t store) const override {
    bool written = false;
    for (const Step& step : schedule_.steps) {
      const bool reads = touches(step, Memory::Home::tensor, tensor);
      const bool writes = touches(step, Memory::Home::store, store);
      if (reads && (written || (writes && !in_a_loop(step, tensor, store)))) return false;
      written = written || writes;
    }
    return true;
  }

  std::string describe() const override {
    std::string result;
    for (const Step& step : schedule_.steps) result += text("  ", label(step), "\n");
    return result;
  }

  std::vector<Region> regions(const CanonicalGraph&) const override {
    std::vector<Region> result;
    result.reserve(schedule_.steps.size());
    for (const Step& step : schedule_.steps) result.push_back({label(step), {}});
    for (std::uint32_t v = 0; v < schedule_.step_of_value.size(); ++v)
      if (schedule_.step_of_value[v] != no_step) result[schedule_.step_of_value[v]].values.push_back(v);
    return result;
  }

 private:
  static std::string label(const Step& step) {
    if (const auto* loop = std::get_if<Loop>(&step.work)) return loop->describe();
    if (const auto* product = std::get_if<MatmulStep>(&step.work)) return product->matmul->describe();
    const auto& structured = std::get<StructuredStep>(step.work);
    const char* const name = name_of(structured.op);
    return structured.behind ? text(name, ", and on its parts a ", structured.behind->describe()) : name;
  }
  /// Whether a step that reads that tensor and writes that store does both in a loop.
  static bool in_a_loop(const Step& step, std::size_t tensor, std::size_t store) {
    if (const auto* structured = std::get_if<StructuredStep>(&step.work))
      return !engine_touches(*structured, Memory::Home::tensor, tensor) &&
             !engine_touches(*structured, Memory::Home::store, store);
    return std::holds_alternative<Loop>(step.work);
  }
  static bool is(const Memory& memory, Memory::Home home, std::size_t index) {
    return memory.home == home && memory.index == index;
  }
  static bool reaches(const Loop& loop, Memory::Home home, std::size_t index) {
    return std::ranges::any_of(loop.memories, [&](const Memory& m) { return is(m, home, index); });
  }
  static bool engine_touches(const StructuredStep& step, Memory::Home home, std::size_t index) {
    const auto reached = [&](const StructuredStep::Operand& o) {
      return o.scalar < 0 && !o.literal && !o.unwanted && is(o.memory, home, index);
    };
    return std::ranges::any_of(step.operands, reached) || std::ranges::any_of(step.results, reached);
  }
  /// Whether the step reads that tensor, or writes that store.
  static bool touches(const Step& step, Memory::Home home, std::size_t index) {
    const auto here = [&](const Memory& m) { return is(m, home, index); };
    if (const auto* loop = std::get_if<Loop>(&step.work)) return reaches(*loop, home, index);
    if (const auto* product = std::get_if<MatmulStep>(&step.work))
      return here(product->a) || here(product->b) || here(product->c) ||
             std::ranges::any_of(product->operands,
                                 [&](const auto& o) { return o.reads_memory && here(o.memory); });
    const auto& structured = std::get<StructuredStep>(step.work);
    return engine_touches(structured, home, index) ||
           (structured.behind && reaches(*structured.behind, home, index));
  }

  static void run_structured(const StructuredStep& step, const Invocation& invocation,
                             std::byte* temporaries) {
    std::array<double, max_operands> numbers;
    std::array<TensorView, max_operands> views;
    const auto bind = [&](const StructuredStep::Operand& operand, TensorView& view, double& number) {
      view = operand.view;
      if (operand.unwanted) return;
      if (operand.scalar < 0 && !operand.literal) {
        view.data = operand.memory.address(invocation, temporaries);
        return;
      }
      number = operand.literal ? operand.value
                               : invocation.scalars[static_cast<std::size_t>(operand.scalar)].as_double();
      view.data = reinterpret_cast<std::byte*>(&number);
    };
    for (std::size_t i = 0; i < step.operands.size(); ++i) bind(step.operands[i], views[i], numbers[i]);
    std::array<TensorView, max_results> results;
    double none = 0;
    for (std::size_t i = 0; i < step.results.size(); ++i) bind(step.results[i], results[i], none);
    const std::span<const TensorView> in(views.data(), step.operands.size()),
        out(results.data(), results_of(step.op));
    if (!step.behind) return structured_kernel(step.op)(step.attributes, in, out);
    const auto finish = [&](const ResultPart& part) { run_behind(step, part, invocation, temporaries); };
    finishing_kernel(step.op)(step.attributes, in, out, std::cref(finish));
  }

  static void run_behind(const StructuredStep& step, const ResultPart& part, const Invocation& invocation,
                         std::byte* temporaries) {
    std::array<std::int64_t, max_loop_axes> first, last;
    for (std::size_t i = 0; i < step.behind_axes.size(); ++i) {
      first[i] = part.first[step.behind_axes[i]];
      last[i] = part.last[step.behind_axes[i]];
    }
    std::byte* const scratch =
        scratch_bytes(ScratchPlace::behind, static_cast<std::size_t>(step.behind->block_bytes));
    run_loop_part(*step.behind, first.data(), last.data(), invocation, temporaries, scratch);
  }

  static void run_matmul(const MatmulStep& step, const Invocation& invocation, std::byte* temporaries,
                         std::byte* areas) {
    const void* pointers[max_fused_operations];
    float numbers[max_fused_operations];
    for (std::size_t i = 0; i < step.operands.size(); ++i) {
      const MatmulStep::Operand& operand = step.operands[i];
      pointers[i] = operand.reads_memory ? operand.memory.address(invocation, temporaries) : nullptr;
      numbers[i] = operand.literal  ? operand.value
                   : operand.number ? static_cast<float>(invocation.scalars[operand.scalar].as_double())
                                    : 0;
    }
    step.matmul->execute(step.a.address(invocation, temporaries), step.b.address(invocation, temporaries),
                         step.c.address(invocation, temporaries), {pointers, step.operands.size()},
                         {numbers, step.operands.size()}, areas);
  }

  Schedule schedule_;
};

class CpuBackend : public Backend {
 public:
  std::string target() const override {
    return text("CPU (", kernels().name, ", ", thread_count(), " threads)");
  }
  std::string library() const override { return onednn_version(); }

  std::unique_ptr<const Plan> build(const CanonicalGraph& graph, const PlanOptions& options,
                                    Device) const override {
    if (auto refused = refused_accumulation(graph, "cpu")) refuse(graph, std::move(*refused));
    auto plan = std::make_unique<CpuPlan>(schedule(graph));
    if (options.max_workspace && plan->workspace() > *options.max_workspace)
      refuse(graph, {{},
                     {},
                     {{"cpu", text("it needs ", plan->workspace(), " bytes of workspace, max_workspace is ",
                                   *options.max_workspace)}},
                     "max_workspace",
                     text("allow max_workspace of ", plan->workspace())});
    return plan;
  }

 private:
  [[noreturn]] void refuse(const CanonicalGraph& graph, Refusal refusal) const {
    refusal.target = target();
    refusal.library = library();
    throw_unsupported(graph, std::move(refusal));
  }
};

}  // namespace
}  // namespace cpu

Backend& cpu_backend() {
  static Backend& backend = *new cpu::CpuBackend;  // never destroyed: plans may outlive static destruction
  return backend;
}

}  // namespace stiletto::detail
