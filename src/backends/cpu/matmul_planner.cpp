// SPDX-License-Identifier: Apache-2.0
// Planning products; see matmul_planner.hpp.
#include "backends/cpu/matmul_planner.hpp"

#include <algorithm>

#include "core/dtype_info.hpp"
#include "core/text.hpp"
#include "graph/op_table.hpp"
#include "stiletto/error.hpp"

namespace stiletto::detail::cpu {
namespace {

using Kind = Expression::Kind;

AxisMask mask_of(const std::vector<std::size_t>& axes) {
  AxisMask mask = 0;
  for (std::size_t axis : axes) mask |= axis_bit(axis);
  return mask;
}

std::vector<std::size_t> joined(std::initializer_list<std::vector<std::size_t>> lists) {
  std::vector<std::size_t> result;
  for (const auto& list : lists) result.insert(result.end(), list.begin(), list.end());
  return result;
}

bool walks_as_one(const Memory& memory, const std::vector<std::size_t>& axes,
                  const std::vector<std::int64_t>& extents) {
  for (std::size_t i = 0; i + 1 < axes.size(); ++i)
    if (memory.strides[axes[i]] != memory.strides[axes[i + 1]] * extents[axes[i + 1]]) return false;
  return true;
}

std::int64_t stride_of(const Memory& memory, const std::vector<std::size_t>& axes) {
  return axes.empty() ? 0 : memory.strides[axes.back()];
}

}  // namespace

std::int64_t MatmulPlanner::size(const std::vector<std::size_t>& axes) const {
  std::int64_t size = 1;
  for (std::size_t axis : axes) size *= graph_.extents[axis];
  return size;
}

MatmulPlanner::Axes MatmulPlanner::classify(const Expression& product) const {
  const AxisMask a = at(product.inputs[0]).axes, b = at(product.inputs[1]).axes;
  Axes axes;
  // Of several axes that only one operand has, the longest becomes the matrix's; the others are batch axes
  // along which the other operand stands still.
  auto take = [&](std::vector<std::size_t>& matrix, std::size_t axis) {
    if (matrix.empty()) {
      matrix.push_back(axis);
    } else if (graph_.extents[axis] > graph_.extents[matrix[0]]) {
      axes.batch.push_back(matrix[0]);
      matrix[0] = axis;
    } else {
      axes.batch.push_back(axis);
    }
  };
  for (std::size_t axis = 0; axis < graph_.extents.size(); ++axis) {
    if ((product.contracted & axis_bit(axis)) != 0)
      axes.k.push_back(axis);
    else if ((a & b & axis_bit(axis)) != 0)
      axes.batch.push_back(axis);
    else if ((a & axis_bit(axis)) != 0)
      take(axes.m, axis);
    else if ((b & axis_bit(axis)) != 0)
      take(axes.n, axis);
  }
  std::sort(axes.batch.begin(), axes.batch.end());
  return axes;
}

MatrixLayout MatmulPlanner::layout(const Memory& memory, const Axes& axes,
                                   const std::vector<std::size_t>& rows,
                                   const std::vector<std::size_t>& columns) const {
  MatrixLayout result;
  result.dtype = memory.dtype;
  for (std::size_t axis : axes.batch) result.strides.push_back(memory.strides[axis]);
  result.strides.push_back(stride_of(memory, rows));
  result.strides.push_back(stride_of(memory, columns));
  return result;
}

Memory MatmulPlanner::operand(std::uint32_t expression, const Axes& axes, bool left, DType other) {
  const auto& rows = left ? axes.m : axes.k;
  const auto& columns = left ? axes.k : axes.n;
  const Expression& e = at(expression);
  const bool in_float64 = graph_.compute_dtype == DType::float64 && !is_integer(e.dtype);
  const Memory* memory = host_.resident(expression);
  if (memory != nullptr && walks_as_one(*memory, axes.k, graph_.extents) &&
      (!in_float64 || memory->dtype == DType::float64) &&
      reads_in_place(layout(*memory, axes, rows, columns), size(rows), size(columns),
                     in_float64 ? DType::float64 : other))
    return *memory;
  std::vector<std::size_t> batch;
  for (std::size_t axis : axes.batch)
    if ((e.axes & axis_bit(axis)) != 0) batch.push_back(axis);
  const std::vector<std::size_t> order = joined({batch, rows, columns});
  const Memory packed = host_.temporary(in_float64 ? DType::float64 : packed_dtype(e.dtype, other), order);
  host_.write(expression, mask_of(order), packed);
  return packed;
}

bool MatmulPlanner::fuse(std::uint32_t user, std::uint32_t value, const Axes& axes, AxisMask space,
                         Fused& fused) const {
  const Expression& e = at(user);
  if (e.axes != space || e.held != Register::f32 || at(value).rounds_when_used) return false;
  fused.result = user;
  if (e.kind == Kind::cast) {
    fused.none = true;
    if (e.dtype == DType::float32) return true;
    const Store* store = final_store(user);
    return store != nullptr && store->tensor.dtype == e.dtype;
  }
  if (e.kind != Kind::map || e.arity > 2 || expressions_.hold(e.operand) != Register::f32) return false;
  fused.post.op = e.op;
  fused.post.coefficient = e.coefficient;
  if (e.arity == 1) return true;
  fused.post.binary = true;
  fused.post.swapped = e.inputs[1] == value;
  const std::uint32_t other = fused.post.swapped ? e.inputs[0] : e.inputs[1];
  const Expression& o = at(other);
  if (o.kind == Kind::scalar || o.kind == Kind::literal) {
    fused.post.number = fused.operand.number = true;
    fused.operand.literal = o.kind == Kind::literal;
    fused.operand.value = static_cast<float>(o.coefficient);
    fused.operand.scalar = o.source;
    return true;
  }
  const Memory* memory = host_.resident(other);
  if (memory == nullptr || (o.axes & ~space).any() || o.rounds_when_used ||
      (memory->dtype != DType::float32 && memory->dtype != DType::bfloat16))
    return false;
  fused.operand.reads_memory = true;
  fused.operand.memory = *memory;
  fused.post.operand = layout(*memory, axes, axes.m, axes.n);
  return true;
}

std::vector<MatmulPlanner::Fused> MatmulPlanner::chain(std::uint32_t product, const Axes& axes) const {
  std::vector<Fused> result;
  const AxisMask space = at(product).axes;
  std::uint32_t value = product;
  if (at(product).held != Register::f32) return result;
  while (uses_[value].size() == 1 && !uses_[value][0].store && result.size() < max_fused_operations) {
    Fused next;
    if (!fuse(uses_[value][0].index, value, axes, space, next)) break;
    value = next.result;
    result.push_back(std::move(next));
  }
  return result;
}

/// The store that is the value's only use and has its axes, or null.
const Store* MatmulPlanner::final_store(std::uint32_t value) const {
  if (uses_[value].size() != 1 || !uses_[value][0].store) return nullptr;
  const Store& store = graph_.stores[uses_[value][0].index];
  return store.tensor.axes == at(value).axes ? &store : nullptr;
}

bool MatmulPlanner::try_step(const MatmulProblem& base, const Axes& axes, const std::vector<Fused>& fused,
                             std::size_t count, const Memory& c, const Tensor* destination,
                             MatmulStep& step) const {
  MatmulProblem problem = base;
  problem.c = layout(c, axes, axes.m, axes.n);
  step.operands.clear();
  if (!writes_in_place(problem.c, problem.m, problem.n, problem.a.dtype, problem.b.dtype)) return false;
  for (std::size_t i = 0; i < count; ++i) {
    const Fused& f = fused[i];
    if (f.none) continue;
    if (f.operand.reads_memory && f.operand.memory.home == Memory::Home::store &&
        f.operand.memory.index == c.index && c.home == Memory::Home::store)
      return false;  // another product landed there
    if (destination != nullptr && may_be(f, *destination)) {
      // Reading what is being written: c += product is the one form that engines take.
      const bool only = count == i + 1 + trailing_casts(fused, i + 1, count) && problem.post.empty();
      const bool adds =
          f.post.op == Op::add && same_memory(graph_.tensors[f.operand.memory.index], *destination);
      if (!only || !adds || c.dtype != DType::float32) return false;
      problem.accumulate = true;
      continue;
    }
    problem.post.push_back(f.post);
    step.operands.push_back(f.operand);
  }
  step.matmul = make_matmul(problem);
  step.c = c;
  return step.matmul != nullptr;
}

/// How many fused operations from `begin` on there are that do nothing.
std::size_t MatmulPlanner::trailing_casts(const std::vector<Fused>& fused, std::size_t begin,
                                          std::size_t end) {
  const auto first = fused.begin() + static_cast<std::ptrdiff_t>(begin);
  const auto last = fused.begin() + static_cast<std::ptrdiff_t>(end);
  return static_cast<std::size_t>(std::find_if(first, last, [](const Fused& f) { return !f.none; }) - first);
}

/// Whether the operand can be the very memory that the caller passes for the destination.
bool MatmulPlanner::may_be(const Fused& fused, const Tensor& destination) const {
  if (!fused.operand.reads_memory || fused.operand.memory.home != Memory::Home::tensor) return false;
  const Tensor& tensor = graph_.tensors[fused.operand.memory.index];
  return destination.home != Tensor::Home::output && tensor.axes == destination.axes &&
         tensor.dtype == destination.dtype && tensor.strides == destination.strides;
}

bool MatmulPlanner::same_memory(const Tensor& a, const Tensor& b) {
  return a.home == b.home && a.index == b.index && a.offset == b.offset && a.dtype == b.dtype &&
         a.strides == b.strides;
}

std::optional<Memory> MatmulPlanner::landing(std::uint32_t value, DType dtype) {
  // The memory of the output that the value ends in, when elementwise operations are all that lies between.
  std::uint32_t end = value;
  while (uses_[end].size() == 1 && !uses_[end][0].store && at(uses_[end][0].index).axes == at(value).axes &&
         (at(uses_[end][0].index).kind == Kind::map || at(uses_[end][0].index).kind == Kind::cast))
    end = uses_[end][0].index;
  const Store* store = final_store(end);
  if (store != nullptr && store->tensor.home == Tensor::Home::output && store->tensor.dtype == dtype &&
      landed_.insert(uses_[end][0].index).second)
    return memory_of_store(graph_, uses_[end][0].index);
  return std::nullopt;
}

void MatmulPlanner::plan(std::uint32_t product) {
  const Expression& e = at(product);
  const Axes axes = classify(e);
  const DType left = at(e.inputs[0]).dtype, right = at(e.inputs[1]).dtype;
  MatmulStep step;
  step.a = operand(e.inputs[0], axes, true, right);
  step.b = operand(e.inputs[1], axes, false, left);
  MatmulProblem problem;
  for (std::size_t axis : axes.batch) problem.batch.push_back(graph_.extents[axis]);
  problem.m = size(axes.m);
  problem.n = size(axes.n);
  problem.k = size(axes.k);
  problem.a = layout(step.a, axes, axes.m, axes.k);
  problem.b = layout(step.b, axes, axes.k, axes.n);
  problem.alpha = e.coefficient;

  const std::vector<Fused> fused = chain(product, axes);
  const std::uint32_t end = fused.empty() ? product : fused.back().result;
  if (const Store* store = final_store(end)) {
    const std::uint32_t index = uses_[end][0].index;
    const Memory c = memory_of_store(graph_, index);
    if (try_step(problem, axes, fused, fused.size(), c, &store->tensor, step)) {
      host_.mark_written(index);
      return host_.add_matmul(end, c, std::move(step));
    }
  }
  const DType dtype = product_dtype(problem.a.dtype, problem.b.dtype);
  std::optional<Memory> landed = landing(product, dtype);
  if (landed && !writes_in_place(layout(*landed, axes, axes.m, axes.n), problem.m, problem.n, problem.a.dtype,
                                 problem.b.dtype))
    landed.reset();
  const Memory c = landed ? *landed : host_.temporary(dtype, joined({axes.batch, axes.m, axes.n}));
  for (std::size_t count = dtype == DType::float32 ? fused.size() : 0;; --count) {
    if (try_step(problem, axes, fused, count, c, nullptr, step))
      return host_.add_matmul(count == 0 ? product : fused[count - 1].result, c, std::move(step));
    if (count == 0)
      throw InternalError(
          text("no engine takes a bare product; please report this with\n", graph_.to_string()));
  }
}

}  // namespace stiletto::detail::cpu
