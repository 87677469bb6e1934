// SPDX-License-Identifier: Apache-2.0
// Result shapes and memory orders, one rule per family.
#include <algorithm>
#include <array>
#include <cstdlib>

#include "core/text.hpp"
#include "ops/apply.hpp"
#include "stiletto/error.hpp"

namespace stiletto::detail {
namespace {

/// Whether a view's strides fall from axis to axis in this order (extents of 1 fit anywhere).
bool follows(std::span<const std::size_t> order, const Shape& shape, const Strides& strides) {
  std::int64_t previous = INT64_MAX;
  for (std::size_t axis : order) {
    if (shape[axis] == 1) continue;
    const std::int64_t stride = std::abs(strides[axis]);
    if (stride > previous) return false;
    previous = stride;
  }
  return true;
}

/// Axes by falling stride. Extents of 1 stay before the axis that follows them.
std::array<std::size_t, Dims::max_rank> order_of(const Shape& shape, const Strides& strides) {
  std::array<std::size_t, Dims::max_rank> order{};
  const Strides canonical = canonical_strides(shape, strides);
  for (std::size_t i = 0; i < shape.size(); ++i) order[i] = i;
  std::stable_sort(
      order.begin(), order.begin() + static_cast<std::ptrdiff_t>(shape.size()),
      [&](std::size_t x, std::size_t y) { return std::abs(canonical[x]) > std::abs(canonical[y]); });
  return order;
}

/// Every element has its own place: an operand that broadcasts by stride 0 has no order of its own.
bool moves_everywhere(const Shape& shape, const Strides& strides) {
  for (std::size_t i = 0; i < shape.size(); ++i)
    if (shape[i] > 1 && strides[i] == 0) return false;
  return true;
}

/// The common case, told apart at little cost: all operands row-major and of one shape, but for numbers.
const ArrayBody* plain_operand(std::span<const Operand> operands) {
  const ArrayBody* plain = operands[0].body;
  for (const Operand& operand : operands) {
    const ArrayBody& body = *operand.body;
    if (plain->shape.size() == 0) plain = &body;
    if (body.shape.size() != 0 && (body.shape != plain->shape || body.strides != plain->strides))
      return nullptr;
  }
  return is_row_major(plain->shape, plain->strides) ? plain : nullptr;
}

void infer_pointwise(Node& node, std::span<const Operand> operands, const char* name) {
  if (const ArrayBody* plain = plain_operand(operands)) {
    node.shape = plain->shape;
    node.strides = row_major(plain->shape);
    return;
  }
  node.shape = operands[0].body->shape;
  for (std::size_t i = 1; i < operands.size(); ++i) {
    const Shape& next = operands[i].body->shape;
    const auto common = broadcast(node.shape, next);
    if (common) {
      node.shape = *common;
      continue;
    }
    const std::size_t rank = std::max(node.shape.size(), next.size());
    std::size_t axis = rank;  // the last axis that does not fit, in the result's numbering
    for (std::size_t back = 1; back <= std::min(node.shape.size(), next.size()) && axis == rank; ++back) {
      const std::int64_t x = node.shape[node.shape.size() - back], y = next[next.size() - back];
      if (x != y && x != 1 && y != 1) axis = rank - back;
    }
    throw ShapeError(text(operation_text(name), ": operand ", i, " of shape ", next,
                          i == 1 ? " does not broadcast with operand 0 of shape "
                                 : " does not broadcast with the others' shape ",
                          node.shape, " at axis ", axis, "; extents have to be equal or 1"));
  }
  node.strides = shared_order(node.shape, operands);
}

void infer_reduction(Node& node, std::span<const Operand> operands, const char* name) {
  const ArrayBody& x = *operands[0].body;
  const auto& attributes = std::get<ReductionAttributes>(node.attributes);
  std::array<bool, Dims::max_rank> reduced{};
  for (std::int64_t axis : attributes.axes) reduced[static_cast<std::size_t>(axis)] = true;
  for (std::size_t i = 0; i < x.shape.size(); ++i) {
    if (!reduced[i])
      node.shape.push_back(x.shape[i]);
    else if (attributes.keep_dims)
      node.shape.push_back(1);
  }
  node.strides = row_major(node.shape);
  if (row_of(node.op).rule != TypeRule::extremum || element_count_unchecked(node.shape) == 0) return;
  for (std::int64_t axis : attributes.axes)
    if (x.shape[static_cast<std::size_t>(axis)] == 0)
      throw ShapeError(text(operation_text(name), ": axis ", axis, " of shape ", x.shape,
                            " has no elements, and ", name,
                            " of nothing has no value; reduce axes that have some"));
}

[[noreturn]] void throw_matmul(const char* name, const Shape& a, const Shape& b, const std::string& what) {
  throw ShapeError(text(operation_text(name), ": ", a, " · ", b, ": ", what));
}

void infer_matmul(Node& node, std::span<const Operand> operands, const char* name) {
  const Shape &a = operands[0].body->shape, &b = operands[1].body->shape;
  if (a.size() == 0 || b.size() == 0) throw_matmul(name, a, b, "a rank-0 operand; use * to scale");
  const std::size_t k_axis_of_b = b.size() == 1 ? 0 : b.size() - 2;
  if (a[a.size() - 1] != b[k_axis_of_b])
    throw_matmul(name, a, b,
                 text("the last axis of the first (", a[a.size() - 1], ") and axis ", k_axis_of_b,
                      " of the second (", b[k_axis_of_b], ") have to be equal; transpose one?"));
  auto batch_of = [](const Shape& s) { return Shape(std::span(s.begin(), s.size() < 2 ? 0 : s.size() - 2)); };
  const auto batch = broadcast(batch_of(a), batch_of(b));
  if (!batch)
    throw_matmul(name, a, b, "the leading batch axes do not broadcast; extents have to be equal or 1");
  node.shape = *batch;
  if (a.size() > 1) node.shape.push_back(a[a.size() - 2]);
  if (b.size() > 1) node.shape.push_back(b[b.size() - 1]);
  node.strides = row_major(node.shape);
}

}  // namespace

Strides shared_order(const Shape& shape, std::span<const Operand> operands) {
  const Operand* first = nullptr;
  bool row_major_all = true;
  for (const Operand& operand : operands) {
    const ArrayBody& body = *operand.body;
    if (body.shape != shape || !moves_everywhere(body.shape, body.strides)) continue;
    if (first == nullptr) first = &operand;
    row_major_all = row_major_all && is_row_major(body.shape, body.strides);
  }
  if (first == nullptr || row_major_all) return row_major(shape);
  const auto order = order_of(shape, first->body->strides);
  const std::span<const std::size_t> axes(order.data(), shape.size());
  for (const Operand& operand : operands) {
    const ArrayBody& body = *operand.body;
    if (body.shape == shape && moves_everywhere(body.shape, body.strides) &&
        !follows(axes, shape, body.strides))
      return row_major(shape);
  }
  return dense_strides(shape, axes);
}

Strides order_like(const Shape& shape, const ArrayBody& x) {
  if (is_row_major(x.shape, x.strides) || !moves_everywhere(x.shape, x.strides)) return row_major(shape);
  const auto order = order_of(x.shape, x.strides);
  return dense_strides(shape, {order.data(), shape.size()});
}

void infer_shape(Node& node, std::span<const Operand> operands, const char* name) {
  switch (row_of(node.op).family) {
    case Family::pointwise:
    case Family::softmax:
      infer_pointwise(node, operands, name);
      break;
    case Family::reduction:
      infer_reduction(node, operands, name);
      break;
    case Family::matmul:
      infer_matmul(node, operands, name);
      break;
    default:
      throw InternalError(text("no shape rule for ", name_of(node.op), "; please report this"));
  }
  element_count(node.shape, name);
}

}  // namespace stiletto::detail
