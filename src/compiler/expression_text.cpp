// SPDX-License-Identifier: Apache-2.0
#include "compiler/expression_text.hpp"

#include <optional>

#include "core/text.hpp"
#include "graph/op_table.hpp"
#include "graph/print.hpp"

namespace stiletto::detail {
namespace {

/// How C++ writes an operation; the higher the level the tighter it binds.
struct Operator {
  const char* sign;
  int level;
};
constexpr int unary = 7, outermost = 0;

std::optional<Operator> operator_of(Op op) {
  switch (op) {
    case Op::logical_or:
      return Operator{" || ", 1};
    case Op::logical_and:
      return Operator{" && ", 2};
    case Op::equal:
      return Operator{" == ", 3};
    case Op::not_equal:
      return Operator{" != ", 3};
    case Op::less:
      return Operator{" < ", 4};
    case Op::less_equal:
      return Operator{" <= ", 4};
    case Op::greater:
      return Operator{" > ", 4};
    case Op::greater_equal:
      return Operator{" >= ", 4};
    case Op::add:
      return Operator{" + ", 5};
    case Op::subtract:
      return Operator{" - ", 5};
    case Op::multiply:
      return Operator{" * ", 6};
    case Op::divide:
      return Operator{" / ", 6};
    case Op::negate:
      return Operator{"-", unary};
    case Op::logical_not:
      return Operator{"!", unary};
    default:
      return std::nullopt;
  }
}

/// Writes values without recursion, as chains may be thousands long, and no further than the limit.
class ExpressionWriter {
 public:
  ExpressionWriter(const CanonicalGraph& graph, std::size_t limit)
      : graph_(graph), limit_(limit), uses_(graph.values.size()) {
    for (const Value& value : graph.values)
      for (std::size_t k = 0; k < value.arity; ++k) ++uses_[value.inputs[k]];
    for (const Store& store : graph.stores) ++uses_[store.value];
  }

  std::string run() {
    for (std::uint32_t v = 0; v < graph_.values.size() && !full(); ++v)
      if (named(v)) statement(text('%', v, " = "), v, true);
    const bool names = graph_.stores.size() > 1;
    for (const Store& store : graph_.stores)
      statement(names || store.tensor.home != Tensor::Home::output ? store.tensor.name + " = " : "",
                store.value, false);
    if (full()) out_.replace(limit_ < 3 ? 0 : limit_ - 3, std::string::npos, "...");
    return std::move(out_);
  }

 private:
  /// What is still to be written: a text, or a value in a place that wants operators of at least this level.
  struct Item {
    std::string text;
    std::optional<std::uint32_t> value;
    int level = outermost;
  };

  bool full() const { return out_.size() > limit_; }
  bool named(std::uint32_t v) const {
    return graph_.values[v].kind == Value::Kind::operation && uses_[v] > 1;
  }

  /// What stands behind the operands; a product says by itself what it sums over.
  std::string rest_of(const Value& value) const {
    if (value.op == Op::cast) return text(", ", value.dtype);
    if (value.op == Op::matmul || value.contracted.none()) return {};
    return ", over " + graph_.axes_text(value.contracted);
  }

  void statement(const std::string& name, std::uint32_t v, bool definition) {
    if (!out_.empty()) out_ += "; ";
    out_ += name;
    if (definition)
      write(v);
    else
      open_.push_back({{}, v});
    while (!open_.empty() && !full()) {
      const Item item = std::move(open_.back());
      open_.pop_back();
      if (!item.value)
        out_ += item.text;
      else if (named(*item.value))
        out_ += text('%', *item.value);
      else
        write(*item.value, item.level);
    }
    open_.clear();
  }

  void write(std::uint32_t v, int level = outermost) {
    const Value& value = graph_.values[v];
    if (value.kind != Value::Kind::operation) {
      out_ += value.kind == Value::Kind::tensor ? graph_.tensors[value.source].name
                                                : text("scalar", value.source);
      return;
    }
    std::vector<Item> parts;
    if (const std::optional<Operator> sign = operator_of(value.op)) {
      const bool parenthesized = sign->level < level;
      if (parenthesized) out_ += '(';
      if (value.arity == 1) {
        out_ += sign->sign;
        parts.push_back({{}, value.inputs[0], unary + 1});
      } else {
        parts.push_back({{}, value.inputs[0], sign->level});
        parts.push_back({sign->sign, {}});
        parts.push_back({{}, value.inputs[1], sign->level + 1});
      }
      if (parenthesized) parts.push_back({")", {}});
    } else {
      out_ += text(name_of(value.op), '(');
      for (std::size_t k = 0; k < value.arity; ++k) {
        if (k > 0) parts.push_back({", ", {}});
        parts.push_back({{}, value.inputs[k]});
      }
      parts.push_back({rest_of(value) + attributes_text(value.op, value.attributes) + ")", {}});
    }
    while (!parts.empty()) {
      open_.push_back(std::move(parts.back()));
      parts.pop_back();
    }
  }

  const CanonicalGraph& graph_;
  std::size_t limit_;
  std::vector<std::size_t> uses_;
  std::vector<Item> open_;  // the next one last
  std::string out_;
};

}  // namespace

std::string expression_text(const CanonicalGraph& graph, std::size_t limit) {
  return ExpressionWriter(graph, limit).run();
}

}  // namespace stiletto::detail
