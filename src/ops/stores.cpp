// SPDX-License-Identifier: Apache-2.0
// assign and matmul_into: writing the caller's memory.
#include <array>
#include <cmath>

#include "core/text.hpp"
#include "graph/final_layout.hpp"
#include "ops/apply.hpp"
#include "stiletto/error.hpp"
#include "stiletto/nn.hpp"
#include "stiletto/ops.hpp"

namespace stiletto {

using detail::ArrayAccess;
using detail::ArrayBody;
using detail::Node;
using detail::Op;
using detail::operation_text;
using detail::text;
using detail::Trace;

namespace detail {

void check_destination(const Array& destination, const char* name) {
  const ArrayBody& body = ArrayAccess::body(destination, name);
  if (body.kind == ArrayBody::Kind::number)
    throw TraceError(text(operation_text(name), ": the destination is a number; store to an array"));
  if (Trace::current() == nullptr) check_runs_now(name, "the destination", body);
  if (overlaps_itself(body.shape, body.strides))
    throw AliasError(text(operation_text(name), ": the destination of shape ", body.shape, " with strides ",
                          body.strides,
                          " reaches an element more than once; store to an array without overlap"));
}

/// A destination's node: an argument, a capture or a view of one.
std::uint32_t destination_node(Trace& trace, const Array& destination, const char* name) {
  const std::uint32_t node = trace.import(destination, name);
  if (!trace.is_leaf_or_view(node))
    throw TraceError(text(operation_text(name), ": the destination %", node, " is a computed value (",
                          name_of(trace.nodes()[node].op),
                          "); store to an argument, a captured array or a view of one"));
  return node;
}

}  // namespace detail

using detail::destination_node;

namespace {

void check_fits(const Array& destination, const Shape& value, const char* name) {
  const auto common = detail::broadcast(value, destination.shape());
  if (!common || *common != destination.shape())
    throw ShapeError(text(operation_text(name), ": a value of shape ", value,
                          " does not broadcast to the destination's shape ", destination.shape(),
                          "; trailing extents have to be equal or 1"));
}

/// What can be computed and written by itself.
void check_destination(const Array& destination, const char* name) {
  detail::check_destination(destination, name);
  if (destination.dtype() == DType::float8_e8m0)
    throw DTypeError(text(operation_text(name),
                          ": the destination is float8_e8m0, which holds block scales and is not computed "
                          "with; store to another dtype"));
  const Trace* trace = Trace::current();
  const ArrayBody& body = *ArrayAccess::body_or_null(destination);
  if (trace != nullptr && body.trace == trace->id() && trace->is_block_part(body.node))
    throw TraceError(text(operation_text(name),
                          ": the destination is part of a block-scaled array, whose "
                          "elements and scales have to fit each other; write all of it "
                          "with quantize_into"));
}

void check_layout(const Trace& trace, const Node& destination, std::uint32_t value, const char* name) {
  const Node& node = trace.nodes()[value];
  if (node.shape.size() <= destination.shape.size() &&
      detail::peel_layout(trace, value, detail::trailing(destination.strides, node.shape.size())))
    return;
  throw TraceError(text(operation_text(name), ": the value is a reshape (to ", node.shape,
                        ") that the destination's strides ", destination.strides,
                        " cannot take in one write; reshape the destination instead"));
}

void check_number_fits(const Array& destination, const Array& value, const char* name) {
  const ArrayBody& body = *ArrayAccess::body_or_null(value);
  const DType dtype = destination.dtype();
  if (!detail::number_fits(body, dtype))
    throw DTypeError(text(operation_text(name), ": the number ", body.value.integer,
                          " does not fit the destination's dtype ", dtype, "; store to a wider dtype"));
}

/// Coefficients of integer products are integers of the product's dtype.
void check_coefficients(DType product, double alpha, double beta, const char* name) {
  const double limit = std::ldexp(1.0, detail::bits_of(product) - 1);
  auto whole = [&](double x) { return std::trunc(x) == x && std::fabs(x) < limit; };
  if (detail::is_floating(product) || (whole(alpha) && whole(beta))) return;
  throw DTypeError(text(operation_text(name), ": alpha ", alpha, " and beta ", beta,
                        " have to be whole numbers for a product of ", product,
                        "; cast an operand to float32"));
}

/// The product has to be c's, before anything is recorded or run.
void check_product(const Array& c, const Array& a, const Array& b, double alpha, double beta,
                   const char* name) {
  const std::array<detail::Operand, 2> operands{
      {{&ArrayAccess::body(a, name)}, {&ArrayAccess::body(b, name)}}};
  Node node;
  node.op = Op::matmul;
  detail::infer_types(node, operands, name);
  detail::infer_shape(node, operands, name);
  if (node.shape != c.shape())
    throw ShapeError(text(operation_text(name), ": the product has shape ", node.shape, ", the destination ",
                          c.shape(), "; store to one of the product's shape"));
  check_coefficients(node.dtype, alpha, beta, name);
}

}  // namespace

void assign(const Array& destination, const Array& value) {
  constexpr const char* name = "assign";
  check_destination(destination, name);
  const ArrayBody& body = ArrayAccess::body(value, name);
  check_fits(destination, body.shape, name);
  check_number_fits(destination, value, name);
  Trace* trace = Trace::current();
  if (trace == nullptr) {
    detail::check_runs_now(name, "the value", body);
    return detail::eager_table().assign(destination, value);
  }
  const std::uint32_t to = destination_node(*trace, destination, name);
  const std::uint32_t from = trace->import(value, name);
  trace->check_not_stored(from, name);
  check_layout(*trace, trace->nodes()[to], from, name);
  trace->record_store(to, from);
}

Array matmul(const Array& a, const Array& b) {
  return detail::apply(Op::matmul, {&a, &b}, detail::MatmulAttributes{});
}

void matmul_into(const Array& c, const Array& a, const Array& b, double alpha, double beta) {
  constexpr const char* name = "matmul_into";
  check_destination(c, name);
  check_product(c, a, b, alpha, beta, name);
  Trace* trace = Trace::current();
  if (trace == nullptr) {
    for (const Array* x : {&a, &b}) detail::check_runs_now(name, "an operand", ArrayAccess::body(*x, name));
    return detail::eager_table().matmul_into(c, a, b, alpha, beta);
  }
  const std::uint32_t to = destination_node(*trace, c, name);
  const detail::MatmulAttributes attributes{{alpha}, {beta}};
  const Array product = beta == 0 ? detail::apply(Op::matmul, {&a, &b}, attributes, name)
                                  : detail::apply(Op::matmul, {&a, &b, &c}, attributes, name);
  trace->record_store(to, ArrayAccess::body_or_null(product)->node);
}

}  // namespace stiletto
