// SPDX-License-Identifier: Apache-2.0
// Random graphs of pointwise operations, reductions that broadcast back, softmax, casts and products with
// computed operands and epilogues. One description is traced by the library and interpreted by the reference,
// exactly and once more rounding every value to float32: the difference is the error that float32 may be
// forgiven.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "support/compare.hpp"
#include "support/operations.hpp"

namespace support {

class RandomGraph {
 public:
  struct Settings {
    std::vector<DType> dtypes = {DType::float32};  // of inputs
    Extents shape = {2, 5, 7};                     // everything broadcasts to it
    int nodes = 12;
    bool reductions = true;
    int products = 1;
  };

  RandomGraph(std::uint64_t seed, const Settings& settings) : random_(seed), settings_(settings) {
    const std::size_t rank = settings_.shape.size();
    for (int i = 0; i < 4; ++i) {
      Extents shape = settings_.shape;
      if (i > 0) {
        shape.erase(shape.begin(), shape.begin() + random_.below(static_cast<std::int64_t>(rank)));
        for (std::int64_t& extent : shape)
          if (random_.chance(30)) extent = 1;
      }
      add_input(shape);
    }
    const std::int64_t columns = settings_.shape.back();
    weight_ = add_input({columns, columns});
    while (static_cast<int>(nodes_.size()) < settings_.nodes + 5) grow();
    outputs_ = {static_cast<int>(nodes_.size()) - 1};
    for (int i = 0; i < 2; ++i)
      if (random_.chance(40)) outputs_.push_back(5 + static_cast<int>(random_.below(settings_.nodes)));
  }

  std::vector<Array> input_arrays() const {
    std::vector<Array> arrays;
    arrays.reserve(inputs_.size());
    for (const Operand& input : inputs_) arrays.push_back(input.array);
    return arrays;
  }

  /// The function to trace.
  std::vector<Array> operator()(const std::vector<Array>& inputs) const {
    std::vector<Array> values;
    for (const Node& node : nodes_) {
      const std::vector<Array> operands = chosen(values, node.operands);
      values.push_back(node.kind == Kind::input ? inputs[values.size()] : record(node, operands));
    }
    return chosen(values, outputs_);
  }

  /// What it means; with `rounding`, every value is rounded to float32, or float64 where it is one.
  std::vector<Tensor> interpret(bool rounding) const {
    std::vector<Tensor> values;
    for (const Node& node : nodes_) {
      const std::vector<Tensor> operands = chosen(values, node.operands);
      Tensor value = node.kind == Kind::input ? inputs_[values.size()].values : evaluate(node, operands);
      if (rounding && is_float(value.dtype))
        for (Real& x : value.values)
          x = round_float(x, value.dtype == DType::float64 ? DType::float64 : DType::float32);
      values.push_back(std::move(value));
    }
    return chosen(values, outputs_);
  }

  std::string describe() const {
    std::string text;
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      text += "\n  %" + std::to_string(i) + " = " + nodes_[i].name;
      for (int k : nodes_[i].operands) text += " %" + std::to_string(k);
      if (nodes_[i].kind == Kind::input)
        text += std::string(" ") + stiletto::to_string(inputs_[i].values.dtype) +
                support::describe(nodes_[i].shape);
    }
    text += "\n  outputs";
    for (int k : outputs_) text += " %" + std::to_string(k);
    return text;
  }

  /// Compares the library's results with both interpretations.
  testing::AssertionResult check(const std::vector<Array>& results) const {
    const std::vector<Tensor> exact = interpret(false), rounded = interpret(true);
    for (std::size_t i = 0; i < results.size(); ++i) {
      Real error = 0;
      for (std::size_t k = 0; k < exact[i].size(); ++k)
        error = std::fmax(error, std::fabs(exact[i].values[k] - rounded[i].values[k]));
      const DType dtype = exact[i].dtype;
      // Beside narrower values a float64 is only as good as they are.
      const Real mixed = dtype == DType::float64 && !only_float64() ? 1e8L : 1;
      auto result =
          agrees(results[i], exact[i], {.terms = 70, .factor = 2 * mixed, .absolute = 8 * error * mixed});
      if (!result) return result << "\n  output " << i << " of" << describe();
    }
    return testing::AssertionSuccess();
  }

 private:
  enum class Kind { input, elementwise, constant, reduction, softmax, cast, product };
  struct Node {
    Kind kind;
    std::string name;
    std::vector<int> operands;
    DType dtype;
    Extents shape;
    Real bound;  // of the values' magnitude
    const Operation* operation = nullptr;
    Reduction reduction = Reduction::sum;
    std::size_t axis = 0;
    float constant = 0;
    bool constant_first = false;
  };

  template <class T>
  static std::vector<T> chosen(const std::vector<T>& values, const std::vector<int>& indices) {
    std::vector<T> list;
    list.reserve(indices.size());
    for (int k : indices) list.push_back(values[static_cast<std::size_t>(k)]);
    return list;
  }

  bool only_float64() const {
    for (const Operand& input : inputs_)
      if (input.values.dtype != DType::float64) return false;
    return true;
  }

  int add_input(const Extents& shape) {
    const auto count = static_cast<std::int64_t>(settings_.dtypes.size());
    const DType dtype = settings_.dtypes[static_cast<std::size_t>(random_.below(count))];
    inputs_.push_back(operand(random_, dtype, shape, layouts[random_.below(std::size(layouts))], {-2, 2}));
    nodes_.push_back({Kind::input, "input", {}, dtype, shape, 2});
    return static_cast<int>(nodes_.size()) - 1;
  }

  int pick() {
    // Recent values more often, so that chains grow long.
    const auto count = static_cast<std::int64_t>(nodes_.size());
    std::int64_t k = random_.chance(60) ? count - 1 - random_.below(std::min<std::int64_t>(count, 3))
                                        : random_.below(count);
    if (k == weight_) k = count - 1 == weight_ ? 0 : count - 1;
    return static_cast<int>(k);
  }
  const Node& node(int k) const { return nodes_[static_cast<std::size_t>(k)]; }

  static Real bound_of(const std::string& name, Real a, Real b) {
    if (name == "tanh" || name == "sin" || name == "cos" || name == "erf" || name == "sigmoid") return 1;
    if (name == "square") return a * a;
    if (name == "multiply") return a * b;
    if (name == "add" || name == "subtract") return a + b;
    if (name == "softplus") return a + 1;
    return std::fmax(a, b);
  }

  void grow() {
    static const std::vector<std::string> unary = {"tanh",     "sigmoid",    "sin",    "cos",    "erf",
                                                   "relu",     "abs",        "gelu",   "silu",   "gelu_tanh",
                                                   "softplus", "leaky_relu", "square", "negate", "elu"};
    static const std::vector<std::string> binary = {"add", "subtract", "multiply", "maximum", "minimum"};
    const int a = pick();
    Node next = node(a);
    next.operands = {a};
    const std::int64_t choice = random_.below(100);
    const std::size_t rank = next.shape.size();
    if (choice < 35) {
      next.kind = Kind::elementwise;
      next.name = unary[static_cast<std::size_t>(random_.below(static_cast<std::int64_t>(unary.size())))];
      next.operation = &support::operation(next.name);
      if (next.dtype == DType::boolean && next.operation->booleans != Booleans::taken) return;
      next.dtype = next.operation->result_dtype(next.dtype);
      next.bound = bound_of(next.name, node(a).bound, 0);
    } else if (choice < 60) {
      const int b = pick();
      next.kind = Kind::elementwise;
      next.name = binary[static_cast<std::size_t>(random_.below(static_cast<std::int64_t>(binary.size())))];
      next.operation = &support::operation(next.name);
      next.operands.push_back(b);
      next.dtype = promote(node(a).dtype, node(b).dtype);
      if (next.dtype == DType::boolean && next.operation->booleans != Booleans::taken) return;
      next.shape = broadcast_shape(node(a).shape, node(b).shape);
      next.bound = bound_of(next.name, node(a).bound, node(b).bound);
    } else if (choice < 72) {
      next.kind = Kind::constant;
      next.name = random_.chance(50) ? "add" : "multiply";
      next.operation = &support::operation(next.name);
      next.constant = static_cast<float>(random_.below(9) - 4) / 4;
      next.constant_first = random_.chance(50);
      next.dtype = promote_constant(next.dtype, Constant::real);
      next.bound = bound_of(next.name, node(a).bound, 1);
    } else if (choice < 84 && settings_.reductions && rank > 0) {
      static constexpr Reduction kinds[] = {Reduction::sum,   Reduction::mean,     Reduction::max,
                                            Reduction::min,   Reduction::abs_max,  Reduction::norm1,
                                            Reduction::norm2, Reduction::logsumexp};
      next.kind = Kind::reduction;
      next.reduction = kinds[random_.below(std::size(kinds))];
      next.name = "reduction " + std::to_string(static_cast<int>(next.reduction));
      next.axis = static_cast<std::size_t>(random_.below(static_cast<std::int64_t>(rank)));
      next.dtype = reduced_dtype(next.reduction, next.dtype);
      if (next.shape[next.axis] == 0) return;  // max and min of nothing throw
      next.bound = node(a).bound * static_cast<Real>(next.shape[next.axis]) + 2;
      next.shape[next.axis] = 1;
    } else if (choice < 88 && settings_.reductions && rank > 0) {
      next.kind = Kind::softmax;
      next.name = "softmax";
      next.axis = static_cast<std::size_t>(random_.below(static_cast<std::int64_t>(rank)));
      next.dtype = floating(next.dtype);
      next.bound = 1;
    } else if (products_ < settings_.products && rank >= 1 && next.shape.back() == settings_.shape.back() &&
               (rank > 1 || random_.chance(20))) {
      ++products_;
      next.kind = Kind::product;
      next.name = "matmul";
      next.operands.push_back(weight_);
      if (is_exact(next.dtype) || is_exact(node(weight_).dtype)) return;
      next.dtype = matmul_dtype(next.dtype, node(weight_).dtype);
      next.bound = node(a).bound * 2 * static_cast<Real>(next.shape.back());
    } else {
      return;
    }
    if (next.bound > 60) return;
    nodes_.push_back(std::move(next));
  }

  static Array reduced(Reduction kind, const Array& x, std::int64_t axis) {
    switch (kind) {
      case Reduction::sum:
        return stiletto::sum(x, axis, true);
      case Reduction::mean:
        return stiletto::mean(x, axis, true);
      case Reduction::max:
        return stiletto::max(x, axis, true);
      case Reduction::min:
        return stiletto::min(x, axis, true);
      case Reduction::abs_max:
        return stiletto::abs_max(x, axis, true);
      case Reduction::prod:
        return stiletto::prod(x, axis, true);
      case Reduction::norm1:
        return stiletto::norm1(x, axis, true);
      case Reduction::norm2:
        return stiletto::norm2(x, axis, true);
      default:
        return stiletto::logsumexp(x, axis, true);
    }
  }

  static Array record(const Node& n, const std::vector<Array>& operands) {
    switch (n.kind) {
      case Kind::constant:
        return n.constant_first ? n.operation->call({n.constant, operands[0]})
                                : n.operation->call({operands[0], n.constant});
      case Kind::reduction:
        return reduced(n.reduction, operands[0], static_cast<std::int64_t>(n.axis));
      case Kind::softmax:
        return stiletto::softmax(operands[0], static_cast<int>(n.axis));
      case Kind::product:
        return stiletto::matmul(operands[0], operands[1]);
      default:
        return n.operation->call(operands);
    }
  }

  /// The value keeps its precision inside a graph: only the name of the type changes.
  static Tensor held_as(Tensor x, DType dtype) {
    x.dtype = dtype;
    return x;
  }

  static Tensor evaluate(const Node& n, const std::vector<Tensor>& operands) {
    if (n.kind == Kind::reduction) return held_as(reduce(n.reduction, operands[0], {n.axis}, true), n.dtype);
    if (n.kind == Kind::softmax) return held_as(softmax(operands[0], n.axis), n.dtype);
    if (n.kind == Kind::product)  // computed operands are rounded to their own type there
      return matmul(cast_to(operands[0], operands[0].dtype), operands[1]);
    std::vector<Tensor> held = operands;
    if (n.kind == Kind::constant) held.push_back(Tensor(n.dtype, {}, {n.constant}));
    DType common = held[0].dtype;
    for (const Tensor& x : held) common = promote(common, x.dtype);
    for (Tensor& x : held) x.dtype = common;
    return held_as(n.operation->reference(held), n.dtype);
  }

  Random random_;
  Settings settings_;
  std::vector<Node> nodes_;
  std::vector<Operand> inputs_;
  std::vector<int> outputs_;
  int weight_ = 0, products_ = 0;
};

}  // namespace support
