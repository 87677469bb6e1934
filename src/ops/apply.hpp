// SPDX-License-Identifier: Apache-2.0
// The one way every computing operation takes: infer its result, then record it, fold it (numbers), or run it
// at once.
#pragma once
#include <initializer_list>
#include <span>

#include "core/text.hpp"
#include "graph/trace.hpp"

namespace stiletto::detail {

struct StructuredCall;  // ops/structured.hpp

/// An operand as inference sees it.
struct Operand {
  const ArrayBody* body;
  OperandType type() const { return {body->dtype, body->weak}; }
};

/// Applies `op`. `name` is what the caller called, for errors, where that is not the operation's own name.
Array apply(Op op, std::initializer_list<const Array*> operands, const Attributes& attributes = {},
            const char* name = nullptr);
/// cast, fill: the result's dtype (and shape) are given.
Array apply_cast(Op op, const Array& x, DType dtype);
Array apply_fill(const Array& value, Shape shape, DType dtype, const char* name);

/// TraceError: `what` ("an operand") is of a trace that no longer records.
[[noreturn]] void throw_ended(const char* operation, const char* what, const ArrayBody& body);
/// Outside a trace an operation runs at once: on no array of a trace, which has ended then, and on no spec.
void check_runs_now(const char* operation, const char* what, const ArrayBody& body);

/// Fills a node's dtype, operand dtype, weakness, shape and memory order from its operands. Throws ShapeError
/// and DTypeError. One rule per family; in shape_rules.cpp and type_rules.cpp.
void infer_types(Node& node, std::span<const Operand> operands, const char* name);
void infer_shape(Node& node, std::span<const Operand> operands, const char* name);

/// Strides of a dense pointwise result: the order that all operands of the full shape share, else row-major.
Strides shared_order(const Shape& shape, std::span<const Operand> operands);

/// Dense strides of `shape` in x's order of axes; row-major where x repeats elements.
Strides order_like(const Shape& shape, const ArrayBody& x);

/// A computed value that is permuted or reshaped cannot be an operand: TraceError.
void check_not_final(const Trace& trace, std::uint32_t operand, const char* name);

/// Numbers and traced values of a destination are refused, and one that overlaps itself.
void check_destination(const Array& destination, const char* name);
/// A destination's node; TraceError unless it is an argument, a capture or a view of one.
std::uint32_t destination_node(Trace& trace, const Array& destination, const char* name);

/// What outside-of-trace operations run through; installed once by the eager layer, which lies below this
/// one.
struct EagerTable {
  Array (*apply)(Op op, std::span<const Array* const> operands, const Attributes& attributes);
  Array (*cast)(Op op, const Array& x, DType dtype);
  void (*assign)(const Array& destination, const Array& value);
  void (*matmul_into)(const Array& c, const Array& a, const Array& b, double alpha, double beta);
  std::vector<Array> (*structured)(const StructuredCall& call, std::size_t wanted);
  void (*structured_into)(const StructuredCall& call, const std::vector<Array>& destinations);
};
const EagerTable& eager_table();
/// Defined by the eager layer, called once by eager_table().
EagerTable make_eager_table();

}  // namespace stiletto::detail
