// SPDX-License-Identifier: Apache-2.0
// The public reductions and softmax.
#include <array>

#include "core/text.hpp"
#include "ops/apply.hpp"
#include "stiletto/error.hpp"
#include "stiletto/ops.hpp"

namespace stiletto {
namespace {

using detail::Op;

/// The axes of `x` that are meant, ascending.
Dims resolve(const Array& x, const Axes& axes, const char* name) {
  const Shape& shape = detail::ArrayAccess::body(x, name).shape;
  std::array<bool, Dims::max_rank> chosen{};
  for (std::int64_t axis : axes) {
    const std::size_t i = detail::normalized_axis(axis, shape.size(), shape, name);
    if (chosen[i])
      throw ShapeError(detail::text(detail::operation_text(name), ": axis ", axis, " of shape ", shape,
                                    " is named twice; name each axis once"));
    chosen[i] = true;
  }
  Dims result;
  for (std::size_t i = 0; i < shape.size(); ++i)
    if (axes.empty() || chosen[i]) result.push_back(static_cast<std::int64_t>(i));
  return result;
}

Array reduce(Op op, const Array& x, const Axes& axes, bool keep_dims) {
  return detail::apply(op, {&x},
                       detail::ReductionAttributes{resolve(x, axes, detail::name_of(op)), keep_dims});
}

}  // namespace

Array sum(const Array& x, Axes axes, bool keep_dims) { return reduce(Op::sum, x, axes, keep_dims); }
Array mean(const Array& x, Axes axes, bool keep_dims) { return reduce(Op::mean, x, axes, keep_dims); }
Array max(const Array& x, Axes axes, bool keep_dims) { return reduce(Op::max, x, axes, keep_dims); }
Array min(const Array& x, Axes axes, bool keep_dims) { return reduce(Op::min, x, axes, keep_dims); }
Array abs_max(const Array& x, Axes axes, bool keep_dims) { return reduce(Op::abs_max, x, axes, keep_dims); }
Array prod(const Array& x, Axes axes, bool keep_dims) { return reduce(Op::prod, x, axes, keep_dims); }
Array norm1(const Array& x, Axes axes, bool keep_dims) { return reduce(Op::norm1, x, axes, keep_dims); }
Array norm2(const Array& x, Axes axes, bool keep_dims) { return reduce(Op::norm2, x, axes, keep_dims); }
Array logsumexp(const Array& x, Axes axes, bool keep_dims) {
  return reduce(Op::logsumexp, x, axes, keep_dims);
}
Array softmax(const Array& x, int axis) { return reduce(Op::softmax, x, axis, true); }

}  // namespace stiletto
