// SPDX-License-Identifier: Apache-2.0
#include "support/interpreted_plan.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <stdexcept>
#include <string>

#include "core/dtype_info.hpp"
#include "support/compare.hpp"
#include "support/engine_interpreter.hpp"

namespace support {
namespace {

using stiletto::detail::bytes_for;
using stiletto::detail::CanonicalGraph;
using stiletto::detail::Invocation;
using stiletto::detail::Plan;
using stiletto::detail::cudnn::EngineGraph;
using stiletto::detail::cudnn::EngineTensor;
using Memory = stiletto::detail::Tensor;
using Values = std::vector<double>;

/// Calls visit(offset), in elements, for all of a tensor's elements.
template <class Visit>
void for_each_element(const Memory& tensor, const std::vector<std::int64_t>& extents, Visit visit,
                      std::size_t axis = 0, std::int64_t offset = 0) {
  while (axis < extents.size() && !tensor.axes.test(axis)) ++axis;
  if (axis == extents.size()) return visit(offset);
  for (std::int64_t i = 0; i < extents[axis]; ++i)
    for_each_element(tensor, extents, visit, axis + 1, offset + i * tensor.strides[axis]);
}

/// The elements that memory spans; no stride of a graph that was lowered is negative.
std::int64_t span_of(const Memory& tensor, const std::vector<std::int64_t>& extents) {
  std::int64_t last = 0;
  for (std::size_t axis = 0; axis < extents.size(); ++axis)
    if (tensor.axes.test(axis)) last += (extents[axis] - 1) * tensor.strides[axis];
  return last + 1;
}

class InterpretedPlan : public Plan {
 public:
  InterpretedPlan(const CanonicalGraph& graph, std::vector<EngineGraph> engines,
                  std::unique_ptr<const Plan> plan)
      : graph_(graph), engines_(std::move(engines)), plan_(std::move(plan)) {
    for (const EngineGraph& engine : engines_) check_memory(engine);
  }
  std::size_t workspace() const override { return plan_->workspace(); }
  bool allows_in_place(std::size_t tensor, std::size_t store) const override {
    return plan_->allows_in_place(tensor, store);
  }
  std::string describe() const override { return plan_->describe(); }

  void execute(const Invocation& call) const override {
    // Before the CPU, which may write what is read.
    const bool overwrites = std::any_of(graph_.stores.begin(), graph_.stores.end(), [](const auto& store) {
      return store.tensor.home != Memory::Home::output;
    });
    std::vector<Results> declared, exact(engines_.size());
    for (std::size_t i = 0; i < engines_.size(); ++i) {
      declared.push_back(run(engines_[i], call, Rounding::declared));
      if (overwrites) exact[i] = run(engines_[i], call, Rounding::exact);
    }
    plan_->execute(call);
    for (std::size_t s = 0; s < graph_.stores.size(); ++s) {
      const Values wanted = taken(call.stores[s], s);
      for (std::size_t i = 0; i < engines_.size(); ++i) {
        if (declared[i].stores.empty()) continue;
        const Values& found = declared[i].stores[s];
        if (is_quantized(s)) {
          const testing::AssertionResult result = codes_agree(s, found, wanted, declared[i].rounds);
          if (!result) fail(engines_[i], result.message());
          continue;
        }
        if (agrees(s, found, wanted, 0)) continue;
        if (exact[i].stores.empty()) exact[i] = run(engines_[i], call, Rounding::exact);
        const double error = greatest_difference(found, exact[i].stores[s]);
        const testing::AssertionResult result = agrees(s, found, wanted, error);
        if (!result) fail(engines_[i], result.message());
      }
    }
  }

 private:
  struct Results {
    std::vector<Values> stores;  // in the order of for_each_element
    bool rounds = true;          // whether a value on the way was rounded
  };

  template <class... Parts>
  void fail(const EngineGraph& engine, const Parts&... parts) const {
    testing::AssertionResult text = testing::AssertionFailure();
    ADD_FAILURE() << (text << ... << parts).message() << "\n" << graph_.to_string() << engine.to_string();
  }

  /// A geometry reads and writes what the canonical graph does and nothing beside it; twice only where nobody
  /// could read between.
  void check_memory(const EngineGraph& engine) const {
    for (const EngineTensor& t : engine.tensors) {
      const bool input = t.role == EngineTensor::Role::input;
      if (!input && t.role != EngineTensor::Role::output) continue;
      const Memory& memory = input ? graph_.tensors[t.source] : graph_.stores[t.source].tensor;
      if (t.span() > span_of(memory, graph_.extents)) fail(engine, memory.name, " is left");
      std::int64_t written = 1;
      for (const std::int64_t dim : t.dims) written *= dim;
      if (!input && memory.home != Memory::Home::output && written > graph_.size_of(memory.axes))
        fail(engine, memory.name, ", which the graph may read, is written twice");
    }
  }

  /// Empty where the graph has no meaning.
  Results run(const EngineGraph& engine, const Invocation& call, Rounding rounding) const {
    // Bytes of 127 make a NaN or a huge number of every type.
    constexpr std::byte untouched{0x7F};
    std::vector<std::vector<std::byte>> memory;
    std::vector<void*> stores;
    for (const auto& store : graph_.stores) {
      memory.emplace_back(bytes_for(store.tensor.dtype, span_of(store.tensor, graph_.extents)), untouched);
      stores.push_back(memory.back().data());
    }
    Results results;
    try {
      results.rounds = interpret(engine, {call.tensors, stores, call.scalars}, rounding);
    } catch (const std::logic_error& error) {
      fail(engine, error.what());
      return {};
    }
    for (std::size_t s = 0; s < stores.size(); ++s) {
      results.stores.push_back(taken(stores[s], s));
      const Memory& tensor = graph_.stores[s].tensor;
      if (tensor.dtype == DType::float4_e2m1) continue;
      const std::size_t bytes = bytes_for(tensor.dtype, 1);
      for_each_element(tensor, graph_.extents, [&](std::int64_t at) {
        std::fill_n(memory[s].begin() + at * static_cast<std::int64_t>(bytes), bytes, untouched);
      });
      if (std::count(memory[s].begin(), memory[s].end(), untouched) !=
          static_cast<std::ptrdiff_t>(memory[s].size()))
        fail(engine, tensor.name, " is written between its elements");
    }
    return results;
  }

  /// A byte of a boolean other than 0 and 1 is no boolean.
  Values taken(const void* memory, std::size_t s) const {
    const Memory& tensor = graph_.stores[s].tensor;
    const DType held = tensor.dtype == DType::boolean ? DType::int8 : tensor.dtype;
    Values values;
    for_each_element(tensor, graph_.extents,
                     [&](std::int64_t at) { values.push_back(static_cast<double>(load(memory, at, held))); });
    return values;
  }

  static double greatest_difference(const Values& a, const Values& b) {
    double greatest = 0;
    for (std::size_t i = 0; i < a.size(); ++i)
      if (std::isfinite(a[i] - b[i])) greatest = std::max(greatest, std::fabs(a[i] - b[i]));
    return greatest;
  }

  /// Twice the tolerance of semantics.md, for the CPU has its errors too, and more where rounding values to
  /// float32 made an error.
  testing::AssertionResult agrees(std::size_t s, const Values& found, const Values& wanted,
                                  double error) const {
    const Memory& tensor = graph_.stores[s].tensor;
    double largest = 0;
    for (const double e : wanted)
      if (std::isfinite(e)) largest = std::max(largest, std::fabs(e));
    const double bound =
        is_exact(tensor.dtype)
            ? 0
            : largest * 2 * relative(tensor.dtype) + static_cast<double>(half_step(tensor.dtype)) + 8 * error;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      const double a = found[i], e = wanted[i];
      const bool good = std::isnan(e) || std::isnan(a) ? std::isnan(e) && std::isnan(a)
                                                       : a == e || std::fabs(a - e) <= bound;
      if (!good)
        return testing::AssertionFailure() << "element " << i << " of " << tensor.name << " is " << a
                                           << " instead of " << e << ", where " << bound << " is allowed";
    }
    return testing::AssertionSuccess();
  }

  /// Elements or scales of blocks.
  bool is_quantized(std::size_t s) const {
    using stiletto::detail::Op;
    const auto& value = graph_.values[graph_.stores[s].value];
    if (value.kind != stiletto::detail::Value::Kind::operation) return false;
    return value.op == Op::quantize ||
           (value.op == Op::part && graph_.values[value.inputs[0]].op == Op::quantize);
  }

  /// Where sums are accumulated in another order and rounded, a code may become its neighbour here and there.
  testing::AssertionResult codes_agree(std::size_t s, const Values& found, const Values& wanted,
                                       bool rounds) const {
    std::size_t wrong = 0, last = 0;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      const bool signs = rounds || std::signbit(found[i]) == std::signbit(wanted[i]);
      const bool same = (found[i] == wanted[i] && signs) || (std::isnan(found[i]) && std::isnan(wanted[i]));
      if (!same) ++wrong, last = i;
    }
    constexpr std::size_t few = 64;
    if (wrong <= (rounds ? wanted.size() / few : 0)) return testing::AssertionSuccess();
    return testing::AssertionFailure()
           << wrong << " of " << wanted.size() << " codes of " << graph_.stores[s].tensor.name
           << " differ, where " << (rounds ? "few" : "none") << " may; that of " << last << " is "
           << found[last] << " instead of " << wanted[last];
  }

  double relative(DType dtype) const {
    std::int64_t terms = 1;
    for (const auto& value : graph_.values)
      if (value.kind == stiletto::detail::Value::Kind::operation)
        terms = std::max(terms, graph_.size_of(value.contracted));
    const auto count = static_cast<Real>(terms);
    const Real inside = is_float(dtype) ? tolerance(graph_.intermediate_dtype, count) : 0;
    return static_cast<double>(std::fmax(tolerance(dtype, count), dtype == DType::float64 ? 0 : inside));
  }

  CanonicalGraph graph_;
  std::vector<EngineGraph> engines_;
  std::unique_ptr<const Plan> plan_;
};

}  // namespace

std::unique_ptr<const Plan> interpreted_plan(const CanonicalGraph& graph, std::vector<EngineGraph> engines,
                                             std::unique_ptr<const Plan> plan) {
  return std::make_unique<InterpretedPlan>(graph, std::move(engines), std::move(plan));
}

}  // namespace support
