// SPDX-License-Identifier: Apache-2.0
// Values, numbers, and the evaluation of numbers at a call.
#include "compiler/value_table.hpp"

#include <algorithm>

#include "core/text.hpp"
#include "graph/host_scalars.hpp"
#include "stiletto/error.hpp"

namespace stiletto::detail {

namespace {

std::size_t hash_of(const Value& v) {
  std::size_t hash = static_cast<std::size_t>(v.op) * 31 + static_cast<std::size_t>(v.kind);
  hash = hash * 0x9E3779B97F4A7C15ULL + v.source;
  for (std::size_t i = 0; i < v.arity; ++i) hash = hash * 0x9E3779B97F4A7C15ULL + v.inputs[i];
  return hash;
}

bool same(const Value& a, const Value& b) {
  return a.kind == b.kind && a.op == b.op && a.arity == b.arity && a.dtype == b.dtype &&
         a.operand == b.operand && a.source == b.source && a.inputs == b.inputs && a.axes == b.axes &&
         a.contracted == b.contracted && a.layouts == b.layouts && a.attributes == b.attributes;
}

void require_fit(const HostScalars::FitCheck& check, const ScalarValue& number) {
  if (!fits(number, check.dtype))
    throw DTypeError(text(check.operation, ": the number ", number.integer,
                          " does not fit the array's dtype ", check.dtype, "; cast the array first"));
}

}  // namespace

std::uint32_t ValueTable::add_value(const Value& value) {
  auto& values = out_.graph.values;
  const std::size_t hash = hash_of(value);
  const auto [begin, end] = by_hash_.equal_range(hash);
  // Two quantize of one value are not one: their scales, over axes of their own, would be one part twice.
  for (auto it = begin; it != end && value.op != Op::quantize; ++it) {
    Value& known = values[it->second];
    if (!same(known, value)) continue;
    known.trace_position = std::max(known.trace_position, value.trace_position);
    return it->second;
  }
  values.push_back(value);
  const auto index = static_cast<std::uint32_t>(values.size() - 1);
  by_hash_.emplace(hash, index);
  return index;
}

std::uint32_t ValueTable::add_slot(std::uint32_t step, DType dtype) {
  auto& slots = out_.scalars.slots;
  std::size_t slot = static_cast<std::size_t>(std::find(slots.begin(), slots.end(), step) - slots.begin());
  if (slot == slots.size()) {
    slots.push_back(step);
    out_.graph.scalars.push_back(dtype);
  }
  Value value;
  value.kind = Value::Kind::scalar;
  value.dtype = value.operand = dtype;
  value.source = static_cast<std::uint32_t>(slot);
  return add_value(value);
}

std::uint32_t ValueTable::literal(double number, DType dtype) {
  HostScalars::Step step;
  step.kind = HostScalars::Step::Kind::literal;
  step.literal =
      is_integer(dtype) ? ScalarValue::of(static_cast<std::int64_t>(number)) : ScalarValue::of(number);
  out_.scalars.steps.push_back(step);
  return add_slot(static_cast<std::uint32_t>(out_.scalars.steps.size() - 1), dtype);
}

std::uint32_t ValueTable::host_step(std::uint32_t index) {
  if (const auto known = host_steps_.find(index); known != host_steps_.end()) return known->second;
  HostScalars::Step step;
  const Node& n = node(index);
  if (n.op == Op::scalar) {
    step.trace_scalar = std::get<LeafAttributes>(n.attributes).index;
  } else {
    step.kind = HostScalars::Step::Kind::operation;
    step.node = n;
    for (std::size_t i = 0; i < n.arity; ++i) step.node.inputs[i] = host_step(n.inputs[i]);
  }
  out_.scalars.steps.push_back(step);
  const auto result = static_cast<std::uint32_t>(out_.scalars.steps.size() - 1);
  host_steps_[index] = result;
  return result;
}

std::uint32_t ValueTable::cast_step(std::uint32_t step, DType from, DType to) {
  HostScalars::Step cast;
  cast.kind = HostScalars::Step::Kind::operation;
  cast.node.op = Op::cast;
  cast.node.operand = from;
  cast.node.dtype = to;
  cast.node.arity = 1;
  cast.node.inputs[0] = step;
  out_.scalars.steps.push_back(cast);
  return static_cast<std::uint32_t>(out_.scalars.steps.size() - 1);
}

std::uint32_t ValueTable::cast_to(std::uint32_t value, DType dtype) {
  const Value& from = out_.graph.values[value];
  Value cast;
  cast.op = Op::cast;
  cast.arity = 1;
  cast.inputs[0] = value;
  cast.operand = from.dtype;
  cast.dtype = dtype;
  cast.axes = from.axes;
  return add_value(cast);
}

void HostScalars::evaluate(std::span<const ScalarValue> trace_scalars, std::vector<ScalarValue>& scratch,
                           std::vector<ScalarValue>& slots_out) const {
  scratch.resize(steps.size());
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const Step& step = steps[i];
    if (step.kind == Step::Kind::trace) {
      scratch[i] = trace_scalars[step.trace_scalar];
    } else if (step.kind == Step::Kind::literal) {
      scratch[i] = step.literal;
    } else {
      std::array<ScalarValue, 3> operands;
      for (std::size_t k = 0; k < step.node.arity; ++k) operands[k] = scratch[step.node.inputs[k]];
      scratch[i] = evaluate_scalar(step.node, {operands.data(), step.node.arity});
    }
  }
  for (const FitCheck& check : checks) require_fit(check, scratch[check.step]);
  slots_out.resize(slots.size());
  for (std::size_t i = 0; i < slots.size(); ++i) slots_out[i] = scratch[slots[i]];
}

void HostScalars::check_slot(std::size_t slot, const ScalarValue& number) const {
  for (const FitCheck& check : checks)
    if (check.step == slots[slot]) require_fit(check, number);
}

}  // namespace stiletto::detail
