// SPDX-License-Identifier: Apache-2.0
// The CPU as a backend: schedules become plans.
#include <algorithm>

#include "backends/cpu/schedule.hpp"
#include "compiler/backend.hpp"
#include "core/parallel.hpp"
#include "core/text.hpp"
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
      else
        run_matmul(std::get<MatmulStep>(step.work), invocation, temporaries, areas);
    }
  }

  /// In a loop the caller's memory is written after the block was read; a product may write before it has
  /// read all.
  bool allows_in_place(std::size_t tensor, std::size_t store) const override {
    bool written = false;
    for (const Step& step : schedule_.steps) {
      const auto* loop = std::get_if<Loop>(&step.work);
      const bool reads = loop != nullptr ? touches(*loop, Memory::Home::tensor, tensor)
                                         : reads_of(std::get<MatmulStep>(step.work), tensor);
      const bool writes = loop != nullptr ? touches(*loop, Memory::Home::store, store)
                                          : writes_of(std::get<MatmulStep>(step.work), store);
      if (reads && (written || (writes && loop == nullptr))) return false;
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
    const auto* loop = std::get_if<Loop>(&step.work);
    return loop != nullptr ? loop->describe() : std::get<MatmulStep>(step.work).matmul->describe();
  }
  static bool is(const Memory& memory, Memory::Home home, std::size_t index) {
    return memory.home == home && memory.index == index;
  }
  static bool touches(const Loop& loop, Memory::Home home, std::size_t index) {
    return std::any_of(loop.memories.begin(), loop.memories.end(),
                       [&](const Memory& m) { return is(m, home, index); });
  }
  static bool reads_of(const MatmulStep& step, std::size_t tensor) {
    auto reads = [&](const Memory& m) { return is(m, Memory::Home::tensor, tensor); };
    return reads(step.a) || reads(step.b) ||
           std::any_of(step.operands.begin(), step.operands.end(),
                       [&](const auto& operand) { return operand.reads_memory && reads(operand.memory); });
  }
  static bool writes_of(const MatmulStep& step, std::size_t store) {
    return is(step.c, Memory::Home::store, store);
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
