// SPDX-License-Identifier: Apache-2.0
// Spelling out composite operations.
#include "backends/cpu/expression.hpp"

#include <limits>

#include "core/dtype_info.hpp"
#include "graph/op_table.hpp"

namespace stiletto::detail::cpu {
namespace {

using Kind = Expression::Kind;

/// int8 and uint8 are held in wider registers: after arithmetic they wrap, as they would in memory.
bool wraps(Op op, DType dtype) {
  if (dtype != DType::int8 && dtype != DType::uint8) return false;
  return op == Op::add || op == Op::subtract || op == Op::multiply || op == Op::negate || op == Op::abs ||
         op == Op::square;
}

class Expander {
 public:
  explicit Expander(const CanonicalGraph& graph) : graph_(graph) {
    out_.intermediate = graph.intermediate_dtype;
  }

  Expressions run() {
    for (const Value& value : graph_.values) out_.of_value.push_back(expand(value));
    return std::move(out_);
  }

 private:
  std::uint32_t add(Expression e) {
    e.held = out_.hold(e.dtype);
    out_.list.push_back(e);
    return static_cast<std::uint32_t>(out_.list.size() - 1);
  }
  const Expression& at(std::uint32_t i) const { return out_.list[i]; }

  std::uint32_t map(Op op, DType dtype, DType operand, std::initializer_list<std::uint32_t> inputs,
                    double coefficient = 0) {
    Expression e;
    e.op = op;
    e.dtype = dtype;
    e.operand = operand;
    e.coefficient = coefficient;
    for (std::uint32_t input : inputs) {
      e.inputs[e.arity++] = input;
      e.axes |= at(input).axes;
    }
    return add(e);
  }
  std::uint32_t real_map(Op op, DType dtype, std::initializer_list<std::uint32_t> inputs) {
    return map(op, dtype, dtype, inputs);
  }
  std::uint32_t cast(std::uint32_t x, DType dtype) { return at(x).dtype == dtype ? x : rounded(x, dtype); }
  /// Also to its own dtype: a register may hold more than that.
  std::uint32_t rounded(std::uint32_t x, DType dtype) {
    Expression e;
    e.kind = Kind::cast;
    e.dtype = dtype;
    e.operand = at(x).dtype;
    e.inputs[0] = x;
    e.arity = 1;
    e.axes = at(x).axes;
    return add(e);
  }
  std::uint32_t literal(double value, DType dtype) {
    Expression e;
    e.kind = Kind::literal;
    e.dtype = dtype;
    e.coefficient = value;
    return add(e);
  }
  std::uint32_t reduce(Combine combine, DType dtype, std::uint32_t x, AxisMask contracted) {
    if (contracted == 0) return cast(x, dtype);  // every axis has extent 1
    Expression e;
    e.kind = Kind::reduce;
    e.combine = combine;
    e.dtype = dtype;
    e.operand = at(x).dtype;
    e.inputs[0] = x;
    e.arity = 1;
    e.contracted = contracted;
    e.axes = at(x).axes & ~contracted;
    return add(e);
  }

  std::uint32_t expand(const Value& value) {
    if (value.kind != Value::Kind::operation) {
      Expression e;
      e.kind = value.kind == Value::Kind::tensor ? Kind::tensor : Kind::scalar;
      e.dtype = value.dtype;
      e.axes = value.axes;
      e.source = value.source;
      return add(e);
    }
    const std::uint32_t x = out_.of_value[value.inputs[0]];
    std::uint32_t result = 0;
    switch (row_of(value.op).family) {
      case Family::reduction:
        result = reduction(value, x);
        break;
      case Family::softmax:
        result = softmax(value, x);
        break;
      case Family::matmul:
        result = matmul(value);
        break;
      case Family::structured:
      case Family::part:
        result = structured(value);
        break;
      default:
        if (value.op == Op::cast) return rounded(x, value.dtype);
        if (value.op == Op::copy) return x;
        result = pointwise(value);
    }
    const bool narrow = is_floating(value.dtype) && bits_of(value.dtype) <= 32;
    out_.list[result].rounds_when_used =
        narrow && out_.intermediate != DType::float32 && out_.intermediate != DType::float64;
    return result;
  }

  std::uint32_t pointwise(const Value& value) {
    Expression e;
    e.op = value.op;
    e.dtype = value.dtype;
    e.operand = value.operand;
    e.arity = value.arity;
    e.axes = value.axes;
    for (std::size_t i = 0; i < value.arity; ++i) e.inputs[i] = out_.of_value[value.inputs[i]];
    if (const auto* c = std::get_if<CoefficientAttributes>(&value.attributes))
      e.coefficient = c->coefficient.value;
    const std::uint32_t result = add(e);
    return wraps(value.op, value.dtype) ? rounded(result, value.dtype) : result;
  }

  std::uint32_t matmul(const Value& value) {
    Expression e;
    e.kind = Kind::matmul;
    e.dtype = value.dtype;
    e.arity = 2;
    for (std::size_t i = 0; i < e.arity; ++i) e.inputs[i] = out_.of_value[value.inputs[i]];
    e.contracted = value.contracted;
    const auto& attributes = std::get<MatmulAttributes>(value.attributes);
    e.coefficient = attributes.alpha.value;
    e.axes = (at(e.inputs[0]).axes | at(e.inputs[1]).axes) & ~value.contracted;
    const std::uint32_t result = add(e);
    if (value.arity < 3) return result;
    std::uint32_t c = out_.of_value[value.inputs[2]];
    if (attributes.beta.value != 1)
      c = map(Op::multiply, value.dtype, value.dtype, {c, literal(attributes.beta.value, value.dtype)});
    return map(Op::add, value.dtype, value.dtype, {result, c});
  }

  std::uint32_t structured(const Value& value) {
    Expression e;
    e.kind = value.op == Op::part ? Kind::part : Kind::structured;
    e.dtype = value.dtype;
    e.arity = value.arity;
    for (std::size_t i = 0; i < value.arity; ++i) e.inputs[i] = out_.of_value[value.inputs[i]];
    e.source = static_cast<std::uint32_t>(&value - graph_.values.data());
    e.axes = value.axes;
    e.contracted = value.contracted;
    return add(e);
  }

  std::uint32_t reduction(const Value& value, std::uint32_t x) {
    const AxisMask over = value.contracted;
    const DType operand = value.operand;
    // Totals of integers are exact in 64 bits and wrap to the result's dtype; those of floats round once, at
    // the end.
    const DType total = is_floating(operand) ? DType::float64 : DType::int64;
    switch (value.op) {
      case Op::sum:
        return cast(reduce(Combine::sum, total, x, over), value.dtype);
      case Op::prod:
        return cast(reduce(Combine::prod, total, x, over), value.dtype);
      case Op::norm1:
        return cast(reduce(Combine::sum, total, absolute(x, operand), over), value.dtype);
      case Op::mean: {
        const std::uint32_t sum = cast(reduce(Combine::sum, total, x, over), DType::float64);
        const auto count = static_cast<double>(graph_.size_of(over));
        return cast(real_map(Op::divide, DType::float64, {sum, literal(count, DType::float64)}), value.dtype);
      }
      case Op::norm2: {  // squares in float64: those of float32 overflow long before the norm does
        const std::uint32_t squares = real_map(Op::square, DType::float64, {cast(x, DType::float64)});
        return cast(real_map(Op::sqrt, DType::float64, {reduce(Combine::sum, DType::float64, squares, over)}),
                    value.dtype);
      }
      case Op::max:
        return reduce(Combine::max, value.dtype, x, over);
      case Op::min:
        return reduce(Combine::min, value.dtype, x, over);
      case Op::abs_max:
        return reduce(Combine::max, value.dtype, wrapped(absolute(x, operand), operand), over);
      default:
        return logsumexp(value, x);
    }
  }

  /// In the register's width: |−128| of int8 is 128 until it is wrapped.
  std::uint32_t absolute(std::uint32_t x, DType dtype) {
    return dtype == DType::boolean ? x : map(Op::abs, dtype, dtype, {x});
  }
  std::uint32_t wrapped(std::uint32_t x, DType dtype) {
    return wraps(Op::abs, dtype) ? rounded(x, dtype) : x;
  }

  std::uint32_t logsumexp(const Value& value, std::uint32_t x) {
    const DType d = value.dtype;
    const std::uint32_t input = is_floating(at(x).dtype) ? x : cast(x, d);
    const std::uint32_t top = reduce(Combine::max, d, input, value.contracted);
    // An infinite maximum would give ∞ − ∞; shifting by 0 instead lets e^±∞ say what is right.
    const std::uint32_t finite = map(Op::less, DType::boolean, d, {real_map(Op::abs, d, {top}), infinity(d)});
    const std::uint32_t shift = real_map(Op::where, d, {finite, top, literal(0, d)});
    const std::uint32_t terms = real_map(Op::exp, d, {real_map(Op::subtract, d, {input, shift})});
    // Once per row, so in float64: the two may cancel.
    const DType wide = DType::float64;
    const std::uint32_t total = reduce(Combine::sum, wide, terms, value.contracted);
    return cast(real_map(Op::add, wide, {real_map(Op::log, wide, {cast(total, wide)}), cast(shift, wide)}),
                d);
  }
  std::uint32_t infinity(DType d) { return literal(std::numeric_limits<double>::infinity(), d); }

  std::uint32_t softmax(const Value& value, std::uint32_t input) {
    const DType d = value.dtype == DType::float64 ? DType::float64 : DType::float32;
    const std::uint32_t x = is_floating(at(input).dtype) ? input : cast(input, d);
    const std::uint32_t top = reduce(Combine::max, d, x, value.contracted);
    const std::uint32_t terms = real_map(Op::exp, d, {real_map(Op::subtract, d, {x, top})});
    const std::uint32_t total = cast(reduce(Combine::sum, DType::float64, terms, value.contracted), d);
    const std::uint32_t result = real_map(Op::multiply, d, {terms, real_map(Op::reciprocal, d, {total})});
    out_.list[result].dtype = value.dtype;
    return result;
  }

  const CanonicalGraph& graph_;
  Expressions out_;
};

}  // namespace

Register Expressions::hold(DType dtype) const {
  const Register exact = register_of(dtype);
  return exact == Register::f32 && intermediate == DType::float64 ? Register::f64 : exact;
}

Expressions expand(const CanonicalGraph& graph) { return Expander(graph).run(); }

}  // namespace stiletto::detail::cpu
