// SPDX-License-Identifier: Apache-2.0
// Deciding on steps. Values are never given memory of their own unless a product reads or writes them, or a
// reduction's result is wanted in a loop over other axes: everything else is computed where it is used.
#include "backends/cpu/schedule.hpp"

#include <algorithm>
#include <deque>
#include <optional>
#include <set>

#include "backends/cpu/matmul_planner.hpp"
#include "core/dtype_info.hpp"
#include "graph/op_table.hpp"

namespace stiletto::detail::cpu {
namespace {

using Kind = Expression::Kind;

/// A step being put together.
struct Draft {
  bool is_loop = true;
  LoopRequest loop;
  Step other;                          // not a loop
  std::vector<std::uint32_t> results;  // of that: the expressions that it leaves in memory
  std::uint32_t first_result = 0;      // of a structured operation: its expression, whether in memory or not
};

class Scheduler : public MatmulPlanner::Host {
 public:
  explicit Scheduler(const CanonicalGraph& graph)
      : graph_(graph),
        expressions_(expand(graph)),
        resident_(expressions_.list.size()),
        writer_(expressions_.list.size()),
        step_of_(expressions_.list.size(), -1),
        products_(graph_, expressions_, uses_, *this) {}

  Schedule run() {
    place_tensors();
    find_uses();
    for (std::uint32_t i = 0; i < expressions_.list.size(); ++i) {
      if (uses_[i].empty()) continue;
      if (at(i).kind == Kind::reduce) place_reduction(i);
      if (at(i).kind == Kind::matmul) products_.plan(i);
      if (at(i).kind == Kind::structured) place_structured(i);
    }
    for (std::uint32_t s = 0; s < graph_.stores.size(); ++s)
      if (!written_[s]) place_store(s);
    return build();
  }

  // ---- what the planner of products asks for
  // ------------------------------------------------------------------------

  const Memory* resident(std::uint32_t expression) const override { return resident_[expression]; }
  Memory temporary(DType dtype, const std::vector<std::size_t>& axes) override {
    Memory memory;
    memory.home = Memory::Home::temporary;
    memory.dtype = dtype;
    memory.workspace = out_.temporaries;
    memory.strides.resize(graph_.extents.size());
    std::int64_t stride = 1;
    for (std::size_t i = axes.size(); i-- > 0;) {
      memory.strides[axes[i]] = stride;
      stride *= graph_.extents[axes[i]];
    }
    out_.temporaries += (static_cast<std::int64_t>(bytes_for(dtype, stride)) + 63) / 64 * 64;
    return memory;
  }
  void write(std::uint32_t expression, AxisMask space, const Memory& memory) override {
    place_root({expression, space, memory, false});
  }
  void add_matmul(std::uint32_t result, const Memory& memory, MatmulStep step) override {
    new_step({std::move(step)});
    leaves(result, memory);
  }
  void mark_written(std::uint32_t store) override { written_[store] = true; }

 private:
  const Expression& at(std::uint32_t i) const { return expressions_.list[i]; }

  // ---- steps that are not loops ----

  void new_step(Step step) {
    Draft draft;
    draft.is_loop = false;
    draft.other = std::move(step);
    drafts_.push_back(std::move(draft));
  }
  /// The last step computes the expression and leaves it there.
  void leaves(std::uint32_t expression, const Memory& memory) {
    drafts_.back().results.push_back(expression);
    step_of_[expression] = static_cast<int>(drafts_.size()) - 1;
    memories_.push_back(memory);
    resident_[expression] = &memories_.back();
  }

  void place_structured(std::uint32_t s) {
    const Value& value = graph_.values[at(s).source];
    StructuredStep step;
    step.op = value.op;
    step.attributes = value.attributes;
    for (std::size_t i = 0; i < value.arity; ++i)
      step.operands.push_back(structured_operand(at(s).inputs[i], value.layouts[i + 1]));
    std::vector<std::pair<std::uint32_t, Memory>> wanted;
    const auto result = [&](std::uint32_t expression, std::size_t index) {
      const Value& made = graph_.values[at(expression).source];
      if (step.results.size() <= index) step.results.resize(index + 1, unwanted());
      std::vector<Use> uses = uses_[expression];
      std::erase_if(uses, [&](const Use& use) { return is_part_of(use, s); });
      if (uses.empty()) return;
      const Memory memory = memory_of_result(expression, made, uses);
      step.results[index] = viewed(memory, made.layouts[0]);
      wanted.emplace_back(expression, memory);
    };
    result(s, 0);
    for (std::uint32_t p = s + 1; p < expressions_.list.size(); ++p)
      if (at(p).kind == Kind::part && at(p).inputs[0] == s && !uses_[p].empty())
        result(p, std::get<PartAttributes>(graph_.values[at(p).source].attributes).index);
    new_step({std::move(step)});
    drafts_.back().first_result = s;
    for (const auto& [expression, memory] : wanted) leaves(expression, memory);
  }
  bool is_part_of(const Use& use, std::uint32_t s) const {
    return !use.store && at(use.index).kind == Kind::part && at(use.index).inputs[0] == s;
  }
  static StructuredStep::Operand unwanted() {
    StructuredStep::Operand operand;
    operand.unwanted = true;
    return operand;
  }

  /// Memory as the kernel sees it: an axis of the tensor's own for each of the layout's.
  StructuredStep::Operand viewed(const Memory& memory, const AxisList& layout) const {
    StructuredStep::Operand operand;
    operand.memory = memory;
    operand.view.dtype = memory.dtype;
    for (const int axis : layout) {
      operand.view.shape.push_back(axis < 0 ? 1 : graph_.extents[static_cast<std::size_t>(axis)]);
      operand.view.strides.push_back(axis < 0 ? 0 : memory.strides[static_cast<std::size_t>(axis)]);
    }
    return operand;
  }

  /// A computed operand is written to memory first, unless it is a number.
  StructuredStep::Operand structured_operand(std::uint32_t expression, const AxisList& layout) {
    const Expression& e = at(expression);
    if (e.kind == Kind::scalar || e.kind == Kind::literal) {
      StructuredStep::Operand operand;
      operand.view.dtype = DType::float64;
      for (const int axis : layout) {  // zeros and full are numbers, too
        operand.view.shape.push_back(axis < 0 ? 1 : graph_.extents[static_cast<std::size_t>(axis)]);
        operand.view.strides.push_back(0);
      }
      operand.scalar = e.kind == Kind::scalar ? static_cast<int>(e.source) : -1;
      operand.literal = e.kind == Kind::literal;
      operand.value = e.coefficient;
      return operand;
    }
    if (resident_[expression] == nullptr && step_of_[expression] >= 0) keep(expression);
    if (resident_[expression] == nullptr) {
      std::vector<std::size_t> axes;
      for (const int axis : layout)
        if (axis >= 0 && e.axes.test(static_cast<std::size_t>(axis)))
          axes.push_back(static_cast<std::size_t>(axis));
      memories_.push_back(temporary(native_dtype(e.held), axes));
      const Memory& memory = memories_.back();
      writer_[expression] = place_root({expression, e.axes, memory, false});
      resident_[expression] = &memory;
    }
    return viewed(*resident_[expression], layout);
  }

  /// The memory of the result's only store, where a kernel can write that, or of the output that it becomes;
  /// else some of its own.
  Memory memory_of_result(std::uint32_t expression, const Value& value, const std::vector<Use>& uses) {
    if (uses.size() == 1 && uses[0].store && !written_[uses[0].index]) {
      const Store& store = graph_.stores[uses[0].index];
      const bool plain = is_floating(store.tensor.dtype) == is_floating(value.dtype) &&
                         (is_floating(value.dtype) || store.tensor.dtype == value.dtype);
      if (plain && store.tensor.axes == value.axes && !at(expression).rounds_when_used) {
        written_[uses[0].index] = true;
        return memory_of_store(graph_, uses[0].index);
      }
    }
    const DType dtype = native_dtype(at(expression).held);
    if (const auto landing = products_.landing(expression, dtype)) return *landing;
    std::vector<std::size_t> axes;
    for (const int axis : value.layouts[0])
      if (axis >= 0) axes.push_back(static_cast<std::size_t>(axis));
    return temporary(dtype, axes);
  }

  void place_tensors() {
    for (std::uint32_t i = 0; i < expressions_.list.size(); ++i) {
      if (at(i).kind != Kind::tensor) continue;
      const Tensor& tensor = graph_.tensors[at(i).source];
      Memory memory;
      memory.index = at(i).source;
      memory.dtype = tensor.dtype;
      memory.strides = tensor.strides;
      memories_.push_back(std::move(memory));
      resident_[i] = &memories_.back();
    }
  }

  void find_uses() {
    uses_.resize(expressions_.list.size());
    written_.resize(graph_.stores.size());
    for (std::uint32_t s = 0; s < graph_.stores.size(); ++s)
      uses_[expressions_.of_value[graph_.stores[s].value]].push_back({true, s});
    for (std::uint32_t i = static_cast<std::uint32_t>(expressions_.list.size()); i-- > 0;)
      if (!uses_[i].empty())
        for (std::size_t k = 0; k < at(i).arity; ++k) uses_[at(i).inputs[k]].push_back({false, i});
  }

  /// Reductions and products that have to run before the expression can be computed.
  std::set<std::uint32_t> barriers(std::uint32_t expression) const {
    std::set<std::uint32_t> found, seen{expression};
    std::vector<std::uint32_t> open{expression};
    while (!open.empty()) {
      const std::uint32_t i = open.back();
      open.pop_back();
      if (step_of_[i] >= 0) {
        found.insert(i);
        continue;
      }
      for (std::size_t k = 0; k < at(i).arity; ++k)
        if (seen.insert(at(i).inputs[k]).second) open.push_back(at(i).inputs[k]);
    }
    return found;
  }

  /// Any other draft has an empty request.
  static bool reduces(const LoopRequest& loop, std::uint32_t reduction) {
    return std::find(loop.reductions.begin(), loop.reductions.end(), reduction) != loop.reductions.end();
  }

  /// Whether everything the barriers stand for is there when this step runs, or comes to be within it.
  bool ready(const std::set<std::uint32_t>& needed, std::size_t step) const {
    return std::all_of(needed.begin(), needed.end(), [&](std::uint32_t b) {
      return step_of_[b] < static_cast<int>(step) || reduces(drafts_[step].loop, b);
    });
  }

  /// A reduction of another step is read from memory.
  void materialize(const std::set<std::uint32_t>& needed, std::size_t step) {
    for (std::uint32_t b : needed)
      if (resident_[b] == nullptr && !reduces(drafts_[step].loop, b)) keep(b);
  }

  /// The step that reduces to it leaves it in memory.
  void keep(std::uint32_t reduction) {
    Draft& maker = drafts_[static_cast<std::size_t>(step_of_[reduction])];
    std::vector<std::size_t> axes;
    for (std::size_t axis = 0; axis < graph_.extents.size(); ++axis)
      if (maker.loop.kept.test(axis)) axes.push_back(axis);
    memories_.push_back(temporary(native_dtype(at(reduction).held), axes));
    maker.loop.roots.push_back({reduction, maker.loop.kept, memories_.back(), false});
    resident_[reduction] = &memories_.back();
  }

  std::size_t new_loop(AxisMask space, AxisMask kept) {
    Draft draft;
    draft.loop.space = space;
    draft.loop.kept = kept;
    drafts_.push_back(std::move(draft));
    return drafts_.size() - 1;
  }

  template <class Fits>
  std::size_t find_loop(const std::set<std::uint32_t>& needed, const Fits& fits) const {
    for (std::size_t step = drafts_.size(); step-- > 0;)
      if (drafts_[step].is_loop && fits(drafts_[step].loop) && ready(needed, step)) return step;
    return drafts_.size();
  }

  void place_reduction(std::uint32_t r) {
    const AxisMask space = at(at(r).inputs[0]).axes | at(r).contracted;
    const AxisMask kept = space & ~at(r).contracted;
    const std::set<std::uint32_t> needed = barriers(at(r).inputs[0]);
    std::size_t step = find_loop(needed, [&](const LoopRequest& loop) {
      return loop.space == space && (loop.reductions.empty() || loop.kept == kept);
    });
    if (step == drafts_.size()) step = new_loop(space, kept);
    materialize(needed, step);
    drafts_[step].loop.kept = kept;
    drafts_[step].loop.reductions.push_back(r);
    step_of_[r] = static_cast<int>(step);
  }

  /// The step that writes it.
  std::size_t place_root(Root root) {
    const std::set<std::uint32_t> needed = barriers(root.expression);
    std::size_t step = find_loop(needed, [&](const LoopRequest& loop) {
      if (loop.space == root.space) return true;
      const bool depends =
          std::any_of(needed.begin(), needed.end(), [&](std::uint32_t b) { return reduces(loop, b); });
      return depends && loop.kept == root.space;
    });
    if (step == drafts_.size()) step = new_loop(root.space, root.space);
    materialize(needed, step);
    drafts_[step].loop.roots.push_back(std::move(root));
    return step;
  }

  void place_store(std::uint32_t s) {
    const Store& store = graph_.stores[s];
    place_root({expressions_.of_value[store.value], store.tensor.axes, memory_of_store(graph_, s),
                store.tensor.home != Tensor::Home::output});
  }

  /// Marks what this step computes to get to `last`: all that is not in memory and no earlier step had to.
  void mark_computed(std::uint32_t last, std::size_t step, std::vector<std::size_t>& computed) const {
    std::vector<std::uint32_t> open{last};
    while (!open.empty()) {
      const std::uint32_t i = open.back();
      open.pop_back();
      if (computed[i] != no_step || (i != last && resident_[i] != nullptr && !reduced_in(i, step))) continue;
      computed[i] = step;
      if (at(i).kind == Kind::matmul || at(i).kind == Kind::structured || at(i).kind == Kind::part)
        continue;  // their operands are in memory
      open.insert(open.end(), at(i).inputs.begin(), at(i).inputs.begin() + at(i).arity);
    }
  }
  bool reduced_in(std::uint32_t i, std::size_t step) const {
    return at(i).kind == Kind::reduce && step_of_[i] == static_cast<int>(step);
  }

  std::vector<std::size_t> steps_of_values() const {
    std::vector<std::size_t> computed(expressions_.list.size(), no_step);
    for (std::size_t step = 0; step < drafts_.size(); ++step) {
      const Draft& draft = drafts_[step];
      for (std::uint32_t result : draft.results) mark_computed(result, step, computed);
      for (std::uint32_t r : draft.loop.reductions) mark_computed(r, step, computed);
      for (const Root& root : draft.loop.roots) mark_computed(root.expression, step, computed);
    }
    std::vector<std::size_t> result;
    result.reserve(graph_.values.size());
    for (std::size_t v = 0; v < graph_.values.size(); ++v)
      result.push_back(graph_.values[v].kind == Value::Kind::operation ? computed[expressions_.of_value[v]]
                                                                       : no_step);
    return result;
  }

  /// Whether the loop of this draft is all about the first result of the structured step before it, as far as
  /// that step is concerned at all.
  bool follows_structured(std::size_t index) const {
    if (index == 0 || drafts_[index - 1].is_loop || !drafts_[index].is_loop) return false;
    const auto* const step = std::get_if<StructuredStep>(&drafts_[index - 1].other.work);
    if (step == nullptr || finishing_kernel(step->op) == nullptr) return false;
    const std::uint32_t value = drafts_[index - 1].first_result;
    const LoopRequest& loop = drafts_[index].loop;
    if (loop.space != at(value).axes) return false;
    std::set<std::uint32_t> needed;
    for (const Root& root : loop.roots) needed.merge(barriers(root.expression));
    std::erase_if(needed, [&](std::uint32_t b) { return step_of_[b] != static_cast<int>(index) - 1; });
    return needed == std::set{value};
  }

  /// The loop runs on each part of the result that the last step tells.
  bool attach(std::size_t index, Loop& loop) {
    if (!follows_structured(index) || !runs_by_parts(loop)) return false;
    auto& step = std::get<StructuredStep>(out_.steps.back().work);
    const AxisList& layout = graph_.values[at(drafts_[index - 1].first_result).source].layouts[0];
    std::vector<std::size_t> axes;
    axes.reserve(loop.axes.size());
    for (const std::size_t axis : loop.axes)
      axes.push_back(
          static_cast<std::size_t>(std::ranges::find(layout, static_cast<int>(axis)) - layout.begin()));
    const auto cut = [&](std::size_t axis) {
      return cuts_axis(step.op, step.attributes, layout.size(), axis);
    };
    if (!std::ranges::is_partitioned(axes, cut)) return false;  // a part would be many short pieces of memory
    step.behind_axes = std::move(axes);
    step.behind = std::move(loop);
    return true;
  }

  Schedule build() {
    out_.step_of_value = steps_of_values();
    std::vector<std::size_t> step_of_draft;
    for (std::size_t index = 0; index < drafts_.size(); ++index) {
      Draft& draft = drafts_[index];
      if (!draft.is_loop) {
        if (const auto* product = std::get_if<MatmulStep>(&draft.other.work))
          out_.areas = std::max(out_.areas, static_cast<std::int64_t>(product->matmul->workspace()));
        out_.steps.push_back(std::move(draft.other));
        step_of_draft.push_back(out_.steps.size() - 1);
        continue;
      }
      std::vector<const Memory*> visible = resident_;
      for (std::size_t i = 0; i < visible.size(); ++i)
        if (writer_[i] && *writer_[i] >= index) visible[i] = nullptr;  // it is not there yet
      for (std::uint32_t r : draft.loop.reductions) visible[r] = nullptr;
      Loop loop = build_loop(graph_, expressions_, draft.loop, visible);
      if (!attach(index, loop)) {
        out_.areas = std::max(out_.areas, loop.workspace());
        out_.steps.push_back({std::move(loop)});
      }
      step_of_draft.push_back(out_.steps.size() - 1);
    }
    for (std::size_t& step : out_.step_of_value)
      if (step != no_step) step = step_of_draft[step];
    return std::move(out_);
  }

  const CanonicalGraph& graph_;
  Expressions expressions_;
  std::deque<Memory> memories_;                     // stable addresses
  std::vector<const Memory*> resident_;             // per expression
  std::vector<std::optional<std::size_t>> writer_;  // of operands that a loop writes to memory: its step
  std::vector<int> step_of_;                        // of reductions and products: the step that computes them
  std::vector<std::vector<Use>> uses_;
  std::vector<bool> written_;  // stores that a product writes itself
  std::vector<Draft> drafts_;
  MatmulPlanner products_;
  Schedule out_;
};

}  // namespace

Schedule schedule(const CanonicalGraph& graph) { return Scheduler(graph).run(); }

}  // namespace stiletto::detail::cpu
