// SPDX-License-Identifier: Apache-2.0
#include "backends/cudnn/graph_builder.hpp"

#include <algorithm>
#include <utility>

#include "backends/cudnn/lower.hpp"
#include "core/dtype_info.hpp"
#include "core/text.hpp"

namespace stiletto::detail::cudnn {

DType GraphBuilder::held(DType dtype) const {
  if (is_floating(dtype) && bits_of(dtype) <= 32) return intermediate_;
  // cuDNN computes with 8-bit integers as floats, exactly.
  return dtype == DType::int8 || dtype == DType::uint8 ? intermediate_ : dtype;
}

std::uint32_t GraphBuilder::add(EngineTensor tensor) {
  graph_.tensors.push_back(std::move(tensor));
  return static_cast<std::uint32_t>(graph_.tensors.size() - 1);
}

std::uint32_t GraphBuilder::number(std::uint32_t source) {
  for (std::size_t i = 0; i < graph_.tensors.size(); ++i)
    if (graph_.tensors[i].role == EngineTensor::Role::number && graph_.tensors[i].source == source)
      return static_cast<std::uint32_t>(i);
  EngineTensor t;
  t.role = EngineTensor::Role::number;
  t.source = source;
  t.dims.assign(rank_, 1);
  t.strides.assign(rank_, 1);
  return add(std::move(t));
}

std::uint32_t GraphBuilder::constant(double value) {
  EngineTensor t;
  t.role = EngineTensor::Role::constant;
  t.value = value;
  t.dims.assign(rank_, 1);
  t.strides.assign(rank_, 1);
  return add(std::move(t));
}

std::uint32_t GraphBuilder::node(Op op, std::vector<std::uint32_t> inputs, DType dtype,
                                 std::vector<std::int64_t> dims, DType compute) {
  EngineTensor t;
  t.dtype = dtype;
  t.dims = std::move(dims);
  EngineNode node;
  node.op = op;
  node.inputs = std::move(inputs);
  node.compute = compute;
  node.output = add(std::move(t));
  graph_.nodes.push_back(std::move(node));
  return graph_.nodes.back().output;
}

std::optional<std::uint32_t> GraphBuilder::multiplied_product(std::uint32_t tensor) const {
  const auto node_of = [&](std::uint32_t output) {
    return std::find_if(graph_.nodes.begin(), graph_.nodes.end(),
                        [&](const EngineNode& node) { return node.output == output; });
  };
  const auto multiple = node_of(tensor);
  if (multiple == graph_.nodes.end() || multiple->op != Op::multiply) return {};
  for (std::uint32_t input : multiple->inputs) {
    const auto product = node_of(input);
    if (product != graph_.nodes.end() && product->op == Op::matmul) return input;
  }
  return {};
}

std::uint32_t GraphBuilder::pointwise(Op op, std::initializer_list<std::uint32_t> operands, DType dtype,
                                      double coefficient) {
  std::vector<std::uint32_t> inputs = operands;
  if (op == Op::add) {
    const std::optional<std::uint32_t> product = multiplied_product(inputs[0]);
    if (product && product == multiplied_product(inputs[1]))
      inputs[1] = pointwise(Op::copy, {inputs[1]}, dtype);
  }
  std::vector<std::int64_t> dims(rank_, 1);
  DType compute = compute_;
  for (std::uint32_t input : inputs) {
    for (std::size_t i = 0; i < rank_; ++i) dims[i] = std::max(dims[i], at(input).dims[i]);
    if (at(input).dtype == DType::float64) compute = DType::float64;
  }
  if (fills_rows(dims)) dims = whole;
  if (op == Op::logical_and || op == Op::logical_or || op == Op::logical_not) compute = DType::boolean;
  const std::uint32_t result = node(op, std::move(inputs), dtype, std::move(dims), compute);
  graph_.nodes.back().coefficient = coefficient;
  return result;
}

std::uint32_t GraphBuilder::select(std::uint32_t mask, std::uint32_t yes, std::uint32_t no, DType dtype) {
  return pointwise(Op::where, {yes, no, mask}, dtype);
}

std::uint32_t GraphBuilder::extremum(bool greater, std::uint32_t x, std::uint32_t y, DType dtype) {
  const Op beyond = greater ? Op::greater : Op::less;
  if (at(y).role == EngineTensor::Role::constant)  // not NaN: x where x is
    return select(pointwise(greater ? Op::less : Op::greater, {x, y}, DType::boolean), y, x, dtype);
  // The operand that is tested for NaN is the one of full shape: see check_broadcasts.
  for (std::size_t i = 0; i < rank_; ++i)
    if (at(x).dims[i] < at(y).dims[i]) {
      std::swap(x, y);
      break;
    }
  const std::uint32_t chosen = select(pointwise(beyond, {x, y}, DType::boolean), x, y, dtype);
  return select(pointwise(Op::not_equal, {x, x}, DType::boolean), x, chosen, dtype);
}

std::uint32_t GraphBuilder::convert(std::uint32_t x, DType from, DType to) {
  if (from == to && at(x).dtype == to) return x;
  if (to == DType::boolean) return pointwise(Op::not_equal, {x, constant(0)}, DType::boolean);
  if (to == DType::float4_e2m1 || to == DType::float8_e8m0)
    throw NotLowered{text("cuDNN writes ", to, " only as part of block scaling")};
  if (is_integer(to) && is_integer(from)) {
    const bool wider = bits_of(to) > bits_of(from) && to != DType::uint8;
    if (!wider && from != to)
      throw NotLowered{text("a cast from ", from, " to ", to, " wraps, and cuDNN's saturates")};
  } else if (is_integer(to) && from != DType::boolean) {
    const DType d = from == DType::float64 ? DType::float64 : held(DType::float32);
    const std::uint32_t negative = pointwise(Op::less, {x, constant(0)}, DType::boolean);
    x = select(negative, pointwise(Op::ceil, {x}, d), pointwise(Op::floor, {x}, d), d);
  } else if (is_float8(to)) {
    const double largest = to == DType::float8_e4m3 ? 448 : 57344;
    const DType d = held(DType::float32);
    x = extremum(false, extremum(true, x, constant(-largest), d), constant(largest), d);
  }
  return pointwise(Op::copy, {x}, to);
}

}  // namespace stiletto::detail::cudnn
