// SPDX-License-Identifier: Apache-2.0
// The rules: facts about cuDNN 9.19 on an H200, measured or documented, each with its reason.
#include "support/device_rules.hpp"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <set>

#include "core/dtype_info.hpp"
#include "core/tf32.hpp"
#include "graph/op_table.hpp"
#include "support/cudnn_modes.hpp"

namespace support {
namespace {

using stiletto::detail::AxisMask;
using stiletto::detail::CanonicalGraph;
using stiletto::detail::Family;
using stiletto::detail::MatmulAttributes;
using stiletto::detail::name_of;
using stiletto::detail::Op;
using stiletto::detail::row_of;
using stiletto::detail::TypeRule;
using stiletto::detail::Value;
using Memory = stiletto::detail::Tensor;

bool computes(const Value& value) { return value.kind == Value::Kind::operation; }
bool is(const Value& value, Family family) { return computes(value) && row_of(value.op).family == family; }
bool reduces(const Value& value) {
  return (is(value, Family::reduction) || is(value, Family::softmax)) && value.contracted.any();
}
template <class Condition>
bool any(const CanonicalGraph& graph, Condition condition) {
  return std::any_of(graph.values.begin(), graph.values.end(), condition);
}
bool has_product(const CanonicalGraph& graph) {
  return any(graph, [](const Value& v) { return is(v, Family::matmul); });
}

std::vector<const Memory*> memory_of(const CanonicalGraph& graph) {
  std::vector<const Memory*> all;
  all.reserve(graph.tensors.size() + graph.stores.size());
  for (const Memory& tensor : graph.tensors) all.push_back(&tensor);
  for (const auto& store : graph.stores) all.push_back(&store.tensor);
  return all;
}

constexpr const char* no_float64 = "cuDNN has no float64 outside of products";

// ---- what one operation is refused for; empty: nothing ----

/// cuDNN's integers are float32 inside: only what an 8-bit value can do without leaving its range is exact.
bool stays_in_8_bits(const Value& v) {
  static const std::set<Op> keep = {Op::maximum, Op::minimum, Op::where, Op::clamp,
                                    Op::relu,    Op::ceil,    Op::floor, Op::copy};
  return (v.operand == DType::int8 || v.operand == DType::uint8) &&
         (keep.count(v.op) != 0 || row_of(v.op).rule == TypeRule::compare ||
          (v.op == Op::abs && v.operand == DType::uint8));
}

std::string refused_cast(DType from, DType to) {
  if (to == DType::float4_e2m1 || to == DType::float8_e8m0 || from == DType::float4_e2m1 ||
      from == DType::float8_e8m0)
    return "cuDNN reads and writes 4-bit floats and scales only in block scaling";
  const bool narrows = is_integer(from) && is_integer(to) && from != to &&
                       (bits_of(to) <= bits_of(from) || to == DType::uint8);
  if (narrows) return "casts between integers wrap, and cuDNN's saturate";
  const bool exact = from != DType::int32 || to == DType::float32 || to == DType::boolean;
  return exact ? "" : "32-bit integers pass through float32 in cuDNN";
}

/// A column and a row, neither of which has both of the last two axes.
bool is_outer(const CanonicalGraph& graph, const Value& a, const Value& b) {
  const std::size_t count = graph.extents.size();
  if (count < 3 || has_product(graph)) return false;  // two axes: see undecided()
  const auto column = [&](const Value& v) { return v.axes.test(count - 2) && !v.axes.test(count - 1); };
  const auto row = [&](const Value& v) { return v.axes.test(count - 1) && !v.axes.test(count - 2); };
  return (column(a) && row(b)) || (row(a) && column(b));
}

std::string refused_pointwise(const CanonicalGraph& graph, const Value& v) {
  const auto operand = [&](std::size_t i) -> const Value& { return graph.values[v.inputs[i]]; };
  if (v.op == Op::cast || v.op == Op::copy) {
    if (v.op == Op::cast && operand(0).dtype == DType::float64) return no_float64;
    return refused_cast(operand(0).dtype, v.dtype);
  }
  const bool logical = row_of(v.op).rule == TypeRule::logical || v.operand == DType::boolean;
  if (std::string missing = missing_mode(v.op); !missing.empty()) return missing;
  if (v.operand == DType::float64 || v.dtype == DType::float64) return no_float64;
  for (std::size_t i = 0; i < v.arity; ++i)
    if (operand(i).dtype == DType::float64) return no_float64;
  if (is_integer(v.operand) && !logical && row_of(v.op).rule != TypeRule::real && !stays_in_8_bits(v))
    return "integer arithmetic is float32 in cuDNN, which is not exact";
  return "";
}

/// Whether a prologue keeps the values that it reads.
bool is_exact_in_16_bits(const CanonicalGraph& graph, std::uint32_t index) {
  static const std::set<Op> exact = {Op::negate, Op::abs,     Op::relu,    Op::where, Op::cast,
                                     Op::copy,   Op::maximum, Op::minimum, Op::clamp};
  const Value& v = graph.values[index];
  if (!computes(v)) return true;
  if (v.op == Op::where)
    return is_exact_in_16_bits(graph, v.inputs[1]) && is_exact_in_16_bits(graph, v.inputs[2]);
  for (std::size_t i = 0; i < v.arity; ++i)
    if (!is_exact_in_16_bits(graph, v.inputs[i])) return false;
  return exact.count(v.op) != 0;
}

/// Whether a sum is a product with ones, without rounding its terms.
bool is_product_with_ones(const CanonicalGraph& graph, const Value& v) {
  const DType from = graph.values[v.inputs[0]].dtype;
  return (v.op == Op::sum || v.op == Op::mean) && (from == DType::float16 || from == DType::bfloat16) &&
         is_exact_in_16_bits(graph, v.inputs[0]);
}

std::string refused_reduction(const CanonicalGraph& graph, const Value& v) {
  if (v.op == Op::max || v.op == Op::min || v.op == Op::abs_max)
    return "cuDNN's max, min and abs_max over an axis drop NaN";
  if ((graph.values[v.inputs[0]].axes & v.contracted).count() < v.contracted.count())
    return "a sum over an axis along which its operand repeats, which cuDNN does not see";
  if (is_exact(v.dtype)) return "sums of integers are float32 in cuDNN, which is not exact";
  if (v.dtype == DType::float64) return no_float64;
  if (v.op == Op::softmax || v.op == Op::logsumexp || v.op == Op::prod)
    return "there is no engine for softmax, logsumexp and prod";
  // Beside other results an engine for pointwise graphs sometimes takes a sum along.
  if (has_product(graph) || graph.stores.size() > 1) return "";
  return v.op == Op::norm2 ? "there is no engine for a root behind a sum" : "";
}

std::string refused_product(const CanonicalGraph& graph, const Value& v) {
  const auto operand = [&](std::size_t i) -> const Value& { return graph.values[v.inputs[i]]; };
  if (v.contracted.count() > 1) return "a product over two axes that do not merge";
  if (operand(0).kind == Value::Kind::scalar || operand(1).kind == Value::Kind::scalar)
    return "a product with a number";
  if ((operand(0).axes & v.contracted).none() != (operand(1).axes & v.contracted).none())
    return "an operand of a product that repeats along the summed axis, which cuDNN reads once";
  if (is_integer(operand(0).dtype) != is_integer(operand(1).dtype)) return "a product of floats and integers";
  const auto& attributes = std::get<MatmulAttributes>(v.attributes);
  if (v.arity == 3 && ((operand(0).axes | operand(1).axes) & ~v.contracted).none())
    return "beta of a product with a single element";
  if (is_integer(v.dtype)) {
    if (operand(0).dtype != DType::int8 || operand(1).dtype != DType::int8)
      return "of the integers only int8 has products";
    if (attributes.alpha.value != 1 || v.arity == 3)
      return "alpha and beta of int8 products are not exact in cuDNN";
  }
  return "";
}

/// A reduction of single elements.
std::string refused_single(const CanonicalGraph& graph, const Value& v) {
  const DType from = graph.values[v.inputs[0]].dtype;
  if (from == DType::float64) return no_float64;
  const bool absolute = v.op == Op::abs_max || v.op == Op::norm1 || v.op == Op::norm2;
  if (!absolute) return refused_cast(from, v.dtype);
  const bool wraps = is_integer(from) && from == v.dtype && from != DType::uint8;
  return wraps ? "integer arithmetic is float32 in cuDNN, which is not exact" : "";
}

std::string refused_operation(const CanonicalGraph& graph, const Value& v) {
  if (is(v, Family::pointwise)) return refused_pointwise(graph, v);
  if (is(v, Family::reduction) && v.contracted.none()) return refused_single(graph, v);
  if (reduces(v) || is(v, Family::softmax)) return refused_reduction(graph, v);
  return is(v, Family::matmul) ? refused_product(graph, v) : "";
}

// ---- what a layout is refused for ----

/// What is around a product: everything but its last row axis, its last column axis and the axis it sums
/// over.
AxisMask batch_of(const CanonicalGraph& graph, const Value& product) {
  const AxisMask left = graph.values[product.inputs[0]].axes & ~product.contracted,
                 right = graph.values[product.inputs[1]].axes & ~product.contracted;
  AxisMask batch = left | right;
  for (const auto& store : graph.stores) batch |= store.tensor.axes;
  const auto without_last = [&](const AxisMask& own) {
    for (std::size_t axis = graph.extents.size(); axis-- > 0;)
      if (own.test(axis)) {
        batch.reset(axis);
        return;
      }
  };
  without_last(left & ~right);
  without_last(right & ~left);
  return batch;
}

/// Whether a tensor has the last two axes, and the last of them varies faster (rows) or slower (columns).
enum class Order { neither, rows, columns };
Order order_in_matrix(const CanonicalGraph& graph, const Memory& tensor) {
  const std::size_t count = graph.extents.size();
  if (count < 2 || !tensor.axes.test(count - 1) || !tensor.axes.test(count - 2)) return Order::neither;
  return tensor.strides[count - 1] > tensor.strides[count - 2] ? Order::columns : Order::rows;
}

/// Engines take pointwise graphs whose last axis varies fastest; a matrix can be turned as a whole.
bool mixes_orders(const CanonicalGraph& graph) {
  bool rows = graph.extents.size() > 2, columns = false;
  for (const Memory* tensor : memory_of(graph)) {
    rows = rows || order_in_matrix(graph, *tensor) == Order::rows;
    columns = columns || order_in_matrix(graph, *tensor) == Order::columns;
  }
  return rows && columns;
}

bool feeds_a_product(const CanonicalGraph& graph) {
  std::vector<bool> from_product(graph.values.size());
  for (std::size_t i = 0; i < graph.values.size(); ++i) {
    const Value& v = graph.values[i];
    for (std::size_t k = 0; computes(v) && k < v.arity; ++k) {
      if (!from_product[v.inputs[k]]) continue;
      if (is(v, Family::matmul) && k < 2) return true;
      from_product[i] = true;
    }
    if (is(v, Family::matmul)) from_product[i] = true;
  }
  return false;
}

std::string refused_layout(const CanonicalGraph& graph) {
  for (const Memory* tensor : memory_of(graph)) {
    if (tensor->dtype == DType::int64) return "no kernel of cuDNN's reads or writes int64";
    if (tensor->dtype == DType::float64 && !has_product(graph)) return no_float64;
    for (std::size_t axis = 0; axis < graph.extents.size(); ++axis)
      if (tensor->axes.test(axis) && tensor->strides[axis] < 0)
        return "an axis that some tensors walk backwards and others forwards";
  }
  for (const Value& value : graph.values) {
    if (!is(value, Family::matmul)) continue;
    const AxisMask batch = batch_of(graph, value);
    if (batch.count() > 1) return "more than one batch axis beside a product that do not merge";
    const AxisMask own =
        graph.values[value.inputs[0]].axes | graph.values[value.inputs[1]].axes;  // without a third operand's
    if (batch.any() && (batch & own).none())
      return "a product that others broadcast along a batch axis, which cuDNN reads at wrong places";
  }
  if (feeds_a_product(graph)) return "a product whose operand is computed from another product";
  if (has_product(graph)) return "";
  if (graph.extents.size() > 3) return "more than three axes that do not merge";
  const auto all_gaps = [&](const Memory& tensor) {
    return graph.extents.size() > 1 && tensor.axes.any() &&
           std::find(tensor.strides.begin(), tensor.strides.end(), 1) == tensor.strides.end();
  };
  if (any(graph, reduces))
    return std::any_of(graph.tensors.begin(), graph.tensors.end(), all_gaps)
               ? "gaps along every axis of what is summed"
               : "";
  if (graph.extents.size() < 3) return "";
  if (mixes_orders(graph)) return "an operand that lies in another order than the result";
  const std::size_t last = graph.extents.size() - 1;
  for (const Memory* tensor : memory_of(graph))
    if (tensor->axes.test(last) && tensor->strides[last] != 1)
      return "gaps along the last of several axes, which cuDNN takes for contiguous";
  return "";
}

/// Axes in the order of a tensor's memory, outermost first.
std::vector<std::size_t> order_of(const CanonicalGraph& graph, const Memory& tensor) {
  std::vector<std::size_t> order;
  for (std::size_t axis = 0; axis < graph.extents.size(); ++axis)
    if (tensor.axes.test(axis)) order.push_back(axis);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::abs(tensor.strides[a]) > std::abs(tensor.strides[b]);
  });
  return order;
}

bool orders_differ(const CanonicalGraph& graph) {
  for (const Memory* tensor : memory_of(graph)) {
    const std::vector<std::size_t> order = order_of(graph, *tensor);
    if (!std::is_sorted(order.begin(), order.end())) return true;
  }
  return false;
}

// ---- where cuDNN's answer depends on more than is known here ----

/// Of a product's operand or result: its memory has one of the product's two axes contiguous, and the batch
/// outside of both.
bool is_matrix(const CanonicalGraph& graph, const Memory& tensor, const AxisMask& batch) {
  bool contiguous = false;
  std::int64_t inner = 0, outer = std::numeric_limits<std::int64_t>::max();
  for (std::size_t axis = 0; axis < graph.extents.size(); ++axis) {
    if (!tensor.axes.test(axis)) continue;
    if (batch.test(axis)) {
      outer = std::min(outer, tensor.strides[axis]);
    } else {
      contiguous = contiguous || tensor.strides[axis] == 1;
      inner = std::max(inner, tensor.strides[axis]);
    }
  }
  return contiguous && inner <= outer;
}

/// A product of three or four axes, alone or with a pointwise epilogue, of matrices as engines expect them.
std::string undecided_product(const CanonicalGraph& graph) {
  const auto is_product = [](const Value& v) { return is(v, Family::matmul); };
  for (const Memory* tensor : memory_of(graph))
    if (bits_of(tensor->dtype) == 8) return "8-bit products need rows of whole vectors";
  for (const auto& store : graph.stores)
    if (store.tensor.alignment < 16) return "a product's result that is not aligned to 16 bytes";
  if (!stiletto::detail::tf32_allowed() &&
      any(graph, [&](const Value& v) { return is_product(v) && v.dtype == DType::float32; }))
    return "float32 products without TF32";
  if (std::count_if(graph.values.begin(), graph.values.end(), is_product) > 1) return "several products";
  if (any(graph, reduces)) return "a reduction beside or behind a product";
  const Value& product = *std::find_if(graph.values.begin(), graph.values.end(), is_product);
  const AxisMask batch = batch_of(graph, product), space = product.axes;
  if (graph.stores.size() > 1) return "several results of a product";
  if (!(graph.stores[0].tensor.axes == space)) return "a product that is broadcast when it is stored";
  if (space.count() != 2 + batch.count()) return "products of vectors";
  for (std::size_t i = 0; i < 2; ++i) {
    const Value& operand = graph.values[product.inputs[i]];
    if (operand.kind != Value::Kind::tensor) return "a product with a computed operand";
    const Memory& tensor = graph.tensors[operand.source];
    if (!is_matrix(graph, tensor, batch)) return "a product's operand without a contiguous axis";
    if (is_float8(tensor.dtype) && batch.any()) return "batches of float8 products";
    if (is_exact(tensor.dtype) && tensor.dtype != DType::int8) return "a product with a cast operand";
    if (operand.dtype != graph.values[product.inputs[0]].dtype)
      return "a product of two types, one of which is converted before it";
    if (tensor.dtype == DType::float64)
      return "float64 products run on a GPU, but no plan for them is built without one";
  }
  const Memory& result = graph.stores[0].tensor;
  if (!is_matrix(graph, result, batch)) return "a product's result without a contiguous axis";
  for (const Memory& tensor : graph.tensors)
    if (tensor.axes == space && order_of(graph, tensor) != order_of(graph, result))
      return "an operand behind a product that lies in another order than the result";
  return "";
}

std::string undecided(const CanonicalGraph& graph) {
  if (graph.compute_dtype == DType::float64 || graph.intermediate_dtype == DType::float64)
    return "float64 inside a graph of narrower values";
  if (has_product(graph)) return undecided_product(graph);
  AxisMask all;
  bool bytes = false;
  for (const Memory* tensor : memory_of(graph)) {
    all |= tensor->axes;
    bytes = bytes || tensor->dtype == DType::int8 || tensor->dtype == DType::uint8;
  }
  const auto whole = [&](const AxisMask& axes) { return axes == all; };
  for (const Value& v : graph.values)
    if (is(v, Family::pointwise) && !whole(v.axes)) return "a value over fewer axes than the results";
  for (const Memory& tensor : graph.tensors)
    if (!whole(tensor.axes) && tensor.axes.any()) return "an operand that is broadcast, perhaps with gaps";
  for (const Memory* tensor : memory_of(graph))
    if (bytes && !whole(tensor->axes)) return "8-bit integers with broadcasting";
  for (const Value& v : graph.values)
    if (is(v, Family::pointwise) && (row_of(v.op).rule == TypeRule::logical || v.operand == DType::boolean))
      for (std::size_t i = 0; i < v.arity; ++i)
        if (!whole(graph.values[v.inputs[i]].axes)) return "logical operations with broadcasting";
  AxisMask summed, written;
  for (const Value& v : graph.values)
    if (reduces(v)) summed |= v.contracted;
  for (const auto& store : graph.stores) written |= store.tensor.axes;
  if ((summed & written).any()) return "a sum beside its terms";
  if (any(graph, [&](const Value& v) { return reduces(v) && !is_product_with_ones(graph, v); }))
    return "a sum that no product with ones is, behind a product of ones";
  if (any(graph, reduces))
    return graph.extents.size() > 2 || graph.stores.size() > 1 ? "sums of three axes and beside other results"
                                                               : "";
  for (const Value& v : graph.values)
    for (std::size_t i = 0; computes(v) && v.arity == 3 && i < 3; ++i)
      if (is_outer(graph, graph.values[v.inputs[i]], graph.values[v.inputs[(i + 1) % 3]]))
        return "a column and a row among three operands";
  for (const Memory* tensor : memory_of(graph))
    if (graph.extents.size() == 1 && tensor->axes.any() && tensor->strides[0] != 1)
      return "gaps along the only axis";
  // Two axes can be placed as (1, rows, columns), turned, or as (batch, rows, 1).
  if (graph.extents.size() == 2 && mixes_orders(graph)) return "two axes in several orders";
  for (const Memory* tensor : memory_of(graph))
    if (graph.extents.size() == 2 && !whole(tensor->axes)) return "two axes and broadcasting";
  for (const auto& store : graph.stores) {
    if (!whole(store.tensor.axes)) return "results over different axes";
    if (!whole(graph.values[store.value].axes)) return "a value that is broadcast when it is stored";
  }
  return "";
}

Expectation refused(std::string reason) { return {Expectation::Kind::refused, std::move(reason)}; }
Expectation either(std::string reason) { return {Expectation::Kind::either, std::move(reason)}; }

/// Engines of their own, with limits per engine that are not restated here: what runs is compared.
Expectation structured(const CanonicalGraph& graph) {
  for (const Value& value : graph.values)
    if (is(value, Family::structured) && value.dtype == DType::float64) return refused(no_float64);
  for (const Value& value : graph.values)
    if (computes(value) && stiletto::detail::is_block_scaling(value.op))
      return either("block-scaled types, which need a Blackwell GPU");
  return either("an operation with engines of its own");
}

}  // namespace

Expectation expectation(const CanonicalGraph& graph) {
  const auto is_fill = [&](const auto& store) {
    return graph.values[store.value].kind == Value::Kind::scalar;
  };
  if (std::all_of(graph.stores.begin(), graph.stores.end(), is_fill)) return {};  // not cuDNN's work
  if (any(graph, [](const Value& v) { return is(v, Family::structured); })) return structured(graph);
  std::string reason = refused_layout(graph);
  for (const Value& value : graph.values)
    if (reason.empty() && computes(value)) reason = refused_operation(graph, value);
  for (const auto& store : graph.stores) {
    const Value& value = graph.values[store.value];
    const bool written_as_it_is = computes(value) && value.dtype == store.tensor.dtype;
    if (reason.empty() && !written_as_it_is) reason = refused_cast(value.dtype, store.tensor.dtype);
  }
  if (reason.empty() && std::any_of(graph.stores.begin(), graph.stores.end(), is_fill))
    return either("a fill beside computed values");
  if (!reason.empty()) return refused(reason);
  reason = undecided(graph);
  return reason.empty() ? Expectation{} : either(reason);
}

Slack slack_of(const CanonicalGraph& graph) {
  // float32 products multiply in TF32 (semantics.md). The GPU's own functions are not as close as the CPU's.
  static const std::map<Op, Real> factors = {{Op::exp, 4}, {Op::sin, 32}, {Op::cos, 32}, {Op::tan, 32}};
  static const std::map<Op, Real> absolutes = {
      {Op::sin, 5e-7L},      {Op::cos, 5e-7L}, {Op::gelu, 2e-7L}, {Op::gelu_tanh, 2e-7L}, {Op::silu, 1e-7L},
      {Op::softplus, 2e-7L}, {Op::log, 1e-7L}, {Op::erf, 1e-7L},  {Op::elu, 1e-7L}};
  Slack slack;
  for (const Value& value : graph.values) {
    if (!computes(value)) continue;
    const bool multiplies = value.op == Op::matmul || value.op == Op::conv ||
                            value.op == Op::conv_backward_data || value.op == Op::conv_backward_filter;
    if (multiplies && value.dtype == DType::float32 && stiletto::detail::tf32_allowed())
      slack.relative = 1e-3L;
    if (is(value, Family::structured)) slack.absolute = std::max(slack.absolute, Real{4e-6L});
    if ((value.op == Op::attention || value.op == Op::attention_backward) && value.operand == DType::float32)
      slack.relative = 5e-3L;  // two products, one behind the other
    if (const auto found = factors.find(value.op); found != factors.end())
      slack.factor = std::max(slack.factor, found->second);
    if (const auto found = absolutes.find(value.op); found != absolutes.end())
      slack.absolute = std::max(slack.absolute, found->second);
  }
  return slack;
}

std::string row_label(const CanonicalGraph& graph) {
  std::set<std::string> pointwise, reductions;
  bool products = false;
  for (const Value& value : graph.values) {
    if (!computes(value)) continue;
    if (value.op == Op::part) continue;
    if (is(value, Family::matmul))
      products = true;
    else
      (is(value, Family::pointwise) ? pointwise : reductions).insert(name_of(value.op));
  }
  std::string label = products ? "matmul" : "";
  for (const std::string& name : reductions) label += (label.empty() ? "" : " + ") + name;
  if (label.empty() && pointwise.size() == 1) return *pointwise.begin();
  if (label.empty()) return pointwise.empty() ? "copy" : "pointwise chains";
  return label + (pointwise.empty() ? "" : " + pointwise");
}

std::string dtype_label(const CanonicalGraph& graph) {
  std::set<std::string> names;
  for (const Memory& tensor : graph.tensors)
    if (tensor.dtype != DType::boolean || graph.tensors.size() == 1)
      names.insert(stiletto::to_string(tensor.dtype));
  if (names.empty()) return "boolean";
  return names.size() == 1 ? *names.begin() : "mixed";
}

std::string layout_label(const CanonicalGraph& graph) {
  bool backwards = false, broadcast = false, gaps = false;
  AxisMask all;
  for (const Memory* tensor : memory_of(graph)) all |= tensor->axes;
  for (const Memory* tensor : memory_of(graph)) {
    broadcast = broadcast || !(tensor->axes == all);
    std::int64_t least = 0;
    for (std::size_t axis = 0; axis < graph.extents.size(); ++axis) {
      if (!tensor->axes.test(axis)) continue;
      backwards = backwards || tensor->strides[axis] < 0;
      const std::int64_t stride = std::abs(tensor->strides[axis]);
      least = least == 0 ? stride : std::min(least, stride);
    }
    gaps = gaps || least > 1;
  }
  std::string label = std::to_string(std::min<std::size_t>(graph.extents.size(), 4)) + " axes";
  // How an axis is cut depends on its size: every long one is a class of its own.
  constexpr std::int64_t longest_uncut = 2048;
  for (const std::int64_t extent : graph.extents)
    if (extent > longest_uncut) label += " of " + std::to_string(extent);
  if (broadcast) label += ", broadcast";
  if (gaps) label += ", gaps";
  if (orders_differ(graph)) label += ", other orders";
  if (backwards) label += ", backwards";
  return label;
}

}  // namespace support
