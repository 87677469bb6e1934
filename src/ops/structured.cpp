// SPDX-License-Identifier: Apache-2.0
// Recording structured operations and their further results.
#include "ops/structured.hpp"

#include "stiletto/ops.hpp"

namespace stiletto::detail {
namespace {

std::vector<Array> node_and_parts(const StructuredCall& call, Node& node, std::size_t wanted) {
  Trace& trace = *Trace::current();
  std::vector<Array> made{trace.record(node, call.name)};
  for (std::size_t i = 1; i < wanted; ++i) {
    if (!call.results[i].exists) {
      made.emplace_back();
      continue;
    }
    Node part;
    part.op = Op::part;
    part.dtype = part.operand = call.results[i].dtype;
    part.shape = call.results[i].shape;
    part.strides = call.results[i].strides;
    part.arity = 1;
    part.inputs[0] = ArrayAccess::body_or_null(made[0])->node;
    part.attributes = PartAttributes{static_cast<std::uint32_t>(i)};
    made.push_back(trace.record(part, call.name));
  }
  return made;
}

void check_destinations(const StructuredCall& call, const std::vector<Array>& destinations) {
  for (std::size_t i = 0; i < destinations.size(); ++i) {
    check_destination(destinations[i], call.name);
    if (destinations[i].shape() != call.results[i].shape)
      throw_shape(call.name, "result ", i, " has shape ", call.results[i].shape, ", its destination ",
                  destinations[i].shape(), "; store to one of the result's shape");
  }
}

/// Codes and scales, which no other operation writes, into the arguments that a block-scaled array is.
void record_blocks(const StructuredCall& call, const std::vector<Array>& operands,
                   const std::vector<Array>& destinations) {
  Trace& trace = *Trace::current();
  std::vector<std::uint32_t> to;
  for (const Array& destination : destinations) {
    to.push_back(destination_node(trace, destination, call.name));
    if (trace.nodes()[trace.root_of(to.back())].op != Op::argument)
      throw TraceError(text(operation_text(call.name),
                            ": the destination is captured; pass it as an argument of the traced function"));
  }
  const std::vector<Array> results = record(call, operands, destinations.size());
  for (std::size_t i = 0; i < to.size(); ++i)
    trace.record_store(to[i], ArrayAccess::body_or_null(results[i])->node);
}

void check_run_now(const StructuredCall& call, const std::vector<Array>& arrays, const char* what) {
  for (const Array& array : arrays) check_runs_now(call.name, what, ArrayAccess::body(array, call.name));
}

}  // namespace

std::vector<Array> record(const StructuredCall& call, const std::vector<Array>& operands,
                          std::size_t wanted) {
  Trace& trace = *Trace::current();
  Node node;
  node.op = call.op;
  node.attributes = call.attributes;
  node.dtype = node.operand = call.results[0].dtype;
  node.shape = call.results[0].shape;
  node.strides = call.results[0].strides;
  for (const Array& array : operands) {
    const std::uint32_t operand = trace.import(array, call.name);
    check_not_final(trace, operand, call.name);
    node.inputs[node.arity++] = operand;
  }
  return node_and_parts(call, node, wanted);
}

void record_into(const StructuredCall& call, const std::vector<Array>& operands,
                 const std::vector<Array>& destinations) {
  if (call.op == Op::quantize) return record_blocks(call, operands, destinations);
  const std::vector<Array> results = record(call, operands, destinations.size());
  for (std::size_t i = 0; i < destinations.size(); ++i) assign(destinations[i], results[i]);
}

std::vector<Array> results_of(const StructuredCall& call, std::size_t wanted) {
  for (const ResultSpec& result : call.results) element_count(result.shape, call.name);
  if (Trace::current() != nullptr) return record(call, call.operands, wanted);
  check_run_now(call, call.operands, "an operand");
  return eager_table().structured(call, wanted);
}

void write_results(const StructuredCall& call, const std::vector<Array>& destinations) {
  check_destinations(call, destinations);
  if (Trace::current() != nullptr) return record_into(call, call.operands, destinations);
  check_run_now(call, call.operands, "an operand");
  eager_table().structured_into(call, destinations);
}

const ArrayBody& array_operand(const Array& array, const char* name, const char* what) {
  const ArrayBody& body = ArrayAccess::body(array, name);
  if (body.kind == ArrayBody::Kind::number) throw_shape(name, what, " is a number; it has to be an array");
  return body;
}

void check_floating(const ArrayBody& body, const char* name, const char* what) {
  if (!is_floating(body.dtype))
    throw_dtype(name, what, " is ", body.dtype,
                "; it has to be float16, bfloat16, float32 or float64: cast it first");
}

}  // namespace stiletto::detail
