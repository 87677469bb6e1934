// SPDX-License-Identifier: Apache-2.0
// Dispatch of operations between the trace, the host and the eager path.
#include "ops/apply.hpp"

#include <array>

#include "core/text.hpp"
#include "graph/host_scalars.hpp"
#include "stiletto/error.hpp"

namespace stiletto::detail {

const EagerTable& eager_table() {
  static const EagerTable table = make_eager_table();
  return table;
}

void throw_ended(const char* operation, const char* what, const ArrayBody& body) {
  throw TraceError(
      text(operation_text(operation), ": ", what, " belongs to trace ", body.trace,
           ", which has ended; return values from the traced function instead of storing its arrays"));
}

void check_runs_now(const char* operation, const char* what, const ArrayBody& body) {
  if (body.kind == ArrayBody::Kind::traced) throw_ended(operation, what, body);
  if (body.kind == ArrayBody::Kind::spec)
    throw TraceError(
        text(operation_text(operation), ": ", what, " is a spec (", body.dtype, body.shape,
             ") without memory; compile with it, or make the array with zeros, empty, from_data or wrap"));
}

namespace {

constexpr std::size_t most = 3;  // operands of what comes here

struct Operands {
  std::array<Operand, most> list;
  std::size_t count = 0;
  bool all_numbers = true;
  std::span<const Operand> view() const { return {list.data(), count}; }
};

Operands bodies_of(std::span<const Array* const> arrays, const char* name) {
  Operands operands;
  for (const Array* array : arrays) {
    const ArrayBody& body = ArrayAccess::body(*array, name);
    if (Trace::current() == nullptr) check_runs_now(name, "an operand", body);
    operands.all_numbers = operands.all_numbers && body.kind == ArrayBody::Kind::number;
    operands.list[operands.count++] = {&body};
  }
  return operands;
}

}  // namespace

void check_not_final(const Trace& trace, std::uint32_t operand, const char* name) {
  if (!trace.nodes()[operand].final_only) return;
  throw TraceError(text(operation_text(name), ": operand %", operand, " is the ",
                        name_of(trace.nodes()[operand].op),
                        " of a computed value, which may only be returned or stored; ",
                        "transpose or reshape the inputs instead, or compute it in a function of its own"));
}

namespace {

Array record(Node& node, std::span<const Array* const> arrays, const char* name) {
  Trace& trace = *Trace::current();
  node.scalar = row_of(node.op).family == Family::pointwise;
  for (const Array* array : arrays) {
    const std::uint32_t operand = trace.import(*array, name);
    check_not_final(trace, operand, name);
    node.inputs[node.arity++] = operand;
    node.scalar = node.scalar && trace.nodes()[operand].scalar;
  }
  return trace.record(node, name);
}

/// Numbers meet integer arrays only if they fit: 300 with an int8 array is a mistake, not 44.
void check_numbers_fit(const Node& node, std::span<const Operand> operands, const char* name) {
  if (node.weak) return;
  for (const Operand& operand : operands)
    if (!number_fits(*operand.body, node.operand))
      throw DTypeError(text(operation_text(name), ": the number ", operand.body->value.integer,
                            " does not fit the array's dtype ", node.operand, "; cast the array first"));
}

}  // namespace

Array apply(Op op, std::initializer_list<const Array*> arrays, const Attributes& attributes,
            const char* name) {
  const std::span<const Array* const> list(arrays.begin(), arrays.size());
  if (name == nullptr) name = name_of(op);
  const Operands operands = bodies_of(list, name);
  Node node;
  node.op = op;
  node.attributes = attributes;
  infer_types(node, operands.view(), name);
  infer_shape(node, operands.view(), name);
  check_numbers_fit(node, operands.view(), name);
  if (Trace::current() != nullptr) return record(node, list, name);
  if (operands.all_numbers && row_of(op).family == Family::pointwise) {
    std::array<ScalarValue, most> values;
    for (std::size_t i = 0; i < operands.count; ++i) values[i] = operands.list[i].body->value;
    const ScalarValue result = evaluate_scalar(node, {values.data(), operands.count});
    return make_number(result, node.dtype, node.weak);
  }
  return eager_table().apply(op, list, node.attributes);
}

Array apply_cast(Op op, const Array& x, DType dtype) {
  const Array* list[] = {&x};
  const char* name = name_of(op);
  const Operands operands = bodies_of(list, name);
  Node node;
  node.op = op;
  node.dtype = dtype;
  node.operand = operands.list[0].body->dtype;
  if (op == Op::cast && dtype == DType::float8_e8m0)
    throw DTypeError(text(operation_text("cast"),
                          ": float8_e8m0 holds block scales, which quantize makes; cast ", node.operand,
                          " to another dtype"));
  infer_shape(node, operands.view(), name);
  check_packing(dtype, node.shape, row_major(node.shape), 0, name);
  if (op == Op::copy) node.strides = row_major(node.shape);  // what a copy is for
  if (Trace::current() != nullptr) return record(node, list, name);
  if (operands.all_numbers && !is_storage_only(dtype))
    return make_number(evaluate_scalar(node, {&operands.list[0].body->value, 1}), dtype, false);
  return eager_table().cast(op, x, dtype);
}

Array apply_fill(const Array& value, Shape shape, DType dtype, const char* name) {
  const Array* list[] = {&value};
  Node node;
  node.op = Op::fill;
  node.dtype = node.operand = dtype;
  node.shape = shape;
  node.strides = row_major(shape);
  return record(node, list, name);
}

}  // namespace stiletto::detail
