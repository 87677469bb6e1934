// SPDX-License-Identifier: Apache-2.0
#include "backends/cudnn/graph_variants.hpp"

#include <algorithm>
#include <cstdlib>
#include <ranges>

#include "backends/cudnn/geometry.hpp"
#include "compiler/canonicalize.hpp"
#include "core/dtype_info.hpp"
#include "core/text.hpp"
#include "ops/apply.hpp"
#include "stiletto/error.hpp"

namespace stiletto::detail::cudnn {
namespace {

constexpr int best_alignment = 16;  // bytes

/// A graph made of another's values, one after the other.
class Rebuilding {
 public:
  explicit Rebuilding(const CanonicalGraph& from) : from_(from), place_(from.values.size()) {
    out_.extents = from.extents;
    out_.scalars = from.scalars;
    out_.intermediate_dtype = from.intermediate_dtype;
    out_.compute_dtype = from.compute_dtype;
  }

  std::uint32_t place_of(std::uint32_t value) const { return place_[value]; }
  const Value& made(std::uint32_t value) const { return out_.values[place_[value]]; }
  void put(std::size_t value, Value made) { place_[value] = push(std::move(made)); }
  void alias(std::size_t value, std::uint32_t other) { place_[value] = place_[other]; }
  std::uint32_t push(Value value) {
    out_.values.push_back(std::move(value));
    return static_cast<std::uint32_t>(out_.values.size() - 1);
  }
  void put_tensor(std::size_t value, Tensor tensor) {
    Value read;
    read.kind = Value::Kind::tensor;
    read.dtype = read.operand = tensor.dtype;
    read.axes = tensor.axes;
    read.source = static_cast<std::uint32_t>(out_.tensors.size());
    out_.tensors.push_back(std::move(tensor));
    put(value, std::move(read));
  }
  void store(std::uint32_t value, Tensor tensor, std::uint32_t trace_position) {
    out_.stores.push_back({place_[value], std::move(tensor), trace_position});
  }
  /// Memory for a computed value.
  Tensor memory_for(std::size_t value, Tensor::Home home) const {
    const Value& v = from_.values[value];
    Tensor tensor;
    tensor.home = home;
    tensor.index = static_cast<std::uint32_t>(value);
    tensor.dtype = v.dtype;
    tensor.axes = v.axes;
    tensor.name = text('%', value);
    pack(tensor, from_.extents, axes_of(v.axes, from_.extents.size()));
    return tensor;
  }
  CanonicalGraph finish() {
    canonicalize_axes(out_);
    return std::move(out_);
  }

 private:
  const CanonicalGraph& from_;
  std::vector<std::uint32_t> place_;  // of the old values among the new ones
  CanonicalGraph out_;
};

/// An array as the rules of types see it.
ArrayBody typed_body(const Value& value) {
  ArrayBody body;
  body.dtype = value.dtype;
  body.weak = body.scalar = value.kind == Value::Kind::scalar;
  return body;
}

/// The operation with the types that its operands, which are made already, give it.
Value retyped_operation(const Rebuilding& made, const Value& value) {
  Value result = value;
  std::vector<ArrayBody> bodies;
  bodies.reserve(value.arity);
  for (std::size_t i = 0; i < value.arity; ++i) bodies.push_back(typed_body(made.made(value.inputs[i])));
  if (row_of(value.op).rule == TypeRule::cast) {
    const bool follows = value.op == Op::copy && value.dtype == value.operand;
    result.operand = bodies[0].dtype;
    if (follows) result.dtype = bodies[0].dtype;
    return result;
  }
  std::vector<Operand> operands;
  operands.reserve(bodies.size());
  for (const ArrayBody& body : bodies) operands.push_back({&body});
  Node node;
  node.op = value.op;
  infer_types(node, operands, name_of(value.op));
  result.dtype = node.dtype;
  result.operand = node.operand;
  return result;
}

}  // namespace

CanonicalGraph part_of(const CanonicalGraph& graph, const PartChoice& choice) {
  std::vector<bool> read(graph.values.size());
  for (std::size_t i = 0; i < graph.values.size(); ++i)
    if (choice.inside[i])
      for (std::size_t k = 0; k < graph.values[i].arity; ++k) read[graph.values[i].inputs[k]] = true;
  for (std::size_t s = 0; s < graph.stores.size(); ++s)
    if (choice.stores[s]) read[graph.stores[s].value] = true;
  Rebuilding part(graph);
  for (std::size_t i = 0; i < graph.values.size(); ++i) {
    Value value = graph.values[i];
    if (!read[i] && !choice.inside[i]) continue;
    if (value.kind == Value::Kind::tensor) {
      part.put_tensor(i, graph.tensors[value.source]);
    } else if (value.kind == Value::Kind::scalar) {
      part.put(i, value);
    } else if (!choice.inside[i]) {
      part.put_tensor(i, part.memory_for(i, Tensor::Home::argument));
    } else {
      // Rounding what is read from memory of that type already is what no trace has.
      const Value& operand = part.made(value.inputs[0]);
      const bool rounded = value.op == Op::cast && operand.dtype == value.dtype;
      if (rounded && operand.kind == Value::Kind::tensor) {
        part.alias(i, value.inputs[0]);
        continue;
      }
      for (std::size_t k = 0; k < value.arity; ++k) value.inputs[k] = part.place_of(value.inputs[k]);
      part.put(i, std::move(value));
    }
  }
  for (std::size_t s = 0; s < graph.stores.size(); ++s)
    if (choice.stores[s])
      part.store(graph.stores[s].value, graph.stores[s].tensor, graph.stores[s].trace_position);
  for (std::uint32_t i = 0; i < graph.values.size(); ++i)
    if (choice.results[i])
      part.store(i, part.memory_for(i, Tensor::Home::output), graph.values[i].trace_position + 1);
  return part.finish();
}

std::optional<CanonicalGraph> retyped(const CanonicalGraph& graph, DType from, DType to) try {
  Rebuilding made(graph);
  for (std::size_t i = 0; i < graph.values.size(); ++i) {
    const Value& value = graph.values[i];
    if (value.kind == Value::Kind::tensor) {
      Tensor tensor = graph.tensors[value.source];
      if (tensor.dtype == from) tensor.dtype = to;
      made.put_tensor(i, std::move(tensor));
      continue;
    }
    if (value.kind == Value::Kind::scalar) {
      made.put(i, value);
      continue;
    }
    Value result = retyped_operation(made, value);
    const bool identity = value.op == Op::cast && result.operand == result.dtype;
    if (identity) {
      made.alias(i, value.inputs[0]);
      continue;
    }
    for (std::size_t k = 0; k < value.arity; ++k) {
      const Value& operand = made.made(value.inputs[k]);
      result.inputs[k] = made.place_of(value.inputs[k]);
      // As canonicalize does: a computed operand of a product is rounded to its own type.
      const bool rounds = value.op == Op::matmul && k < 2 && operand.kind == Value::Kind::operation &&
                          operand.op != Op::cast && is_floating(operand.dtype) &&
                          operand.dtype != graph.intermediate_dtype && operand.dtype != DType::float64;
      if (!rounds) continue;
      Value cast;
      cast.op = Op::cast;
      cast.arity = 1;
      cast.inputs[0] = result.inputs[k];
      cast.operand = cast.dtype = operand.dtype;
      cast.axes = operand.axes;
      result.inputs[k] = made.push(std::move(cast));
    }
    made.put(i, std::move(result));
  }
  for (const Store& store : graph.stores) {
    Tensor tensor = store.tensor;
    const bool own = tensor.home == Tensor::Home::output && tensor.dtype == graph.values[store.value].dtype;
    if (own)
      tensor.dtype = made.made(store.value).dtype;
    else if (tensor.dtype == from)
      tensor.dtype = to;
    made.store(store.value, std::move(tensor), store.trace_position);
  }
  return made.finish();
} catch (const DTypeError&) {
  return std::nullopt;
}

void extend(CanonicalGraph& graph, std::size_t axis, std::int64_t extent) {
  auto adapt = [&](Tensor& tensor) {
    if (!tensor.axes.test(axis)) return;
    const std::vector<std::size_t> order = memory_order(tensor);
    std::int64_t before = 1, after = 1;  // from where on the next axis would be packed
    for (const std::size_t walked : std::views::reverse(order)) {
      std::int64_t& stride = tensor.strides[walked];
      const std::int64_t sign = stride < 0 ? -1 : 1, length = std::abs(stride);
      const std::int64_t longer = length == before ? after : std::max(length, after);
      stride = sign * longer;
      before = length * graph.extents[walked];
      after = longer * (walked == axis ? extent : graph.extents[walked]);
    }
  };
  for (std::size_t i = 0; i < memory_count(graph); ++i) adapt(memory_at(graph, i));
  graph.extents[axis] = extent;
}

std::vector<std::size_t> memory_order(const Tensor& tensor) {
  std::vector<std::size_t> order = axes_of(tensor.axes, tensor.strides.size());
  std::stable_sort(order.begin(), order.end(), [&](std::size_t x, std::size_t y) {
    return std::abs(tensor.strides[x]) > std::abs(tensor.strides[y]);
  });
  return order;
}

std::vector<std::int64_t> packed_strides(const std::vector<std::int64_t>& extents,
                                         const std::vector<std::size_t>& order) {
  std::vector<std::int64_t> strides(extents.size());
  std::int64_t stride = 1;
  for (const std::size_t axis : std::views::reverse(order)) {
    strides[axis] = stride;
    stride *= extents[axis];
  }
  return strides;
}

void pack(Tensor& tensor, const std::vector<std::int64_t>& extents, const std::vector<std::size_t>& order) {
  tensor.strides = packed_strides(extents, order);
  tensor.offset = 0;
  tensor.alignment = best_alignment;
}

bool is_packed(const Tensor& tensor, const std::vector<std::int64_t>& extents,
               const std::vector<std::size_t>& order) {
  return tensor.strides == packed_strides(extents, order);
}

}  // namespace stiletto::detail::cudnn
