// SPDX-License-Identifier: Apache-2.0
// Every operation of the library once more, as its definition: elementwise maps with broadcasting,
// reductions, softmax and matmul. Floating-point results are unrounded, so that an error measured against
// them is the library's own; integers wrap at the result's type.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <vector>

#include "support/tensor.hpp"

namespace support {

using RealFunction = std::function<Real(const Real*)>;
using IntegerFunction = std::function<std::int64_t(const std::int64_t*)>;

namespace detail {

/// Calls `visit` with the operands' values at every index of the common shape.
template <class Visit>
Extents broadcast_visit(const std::vector<Tensor>& operands, Visit visit) {
  Extents shape;
  for (const Tensor& operand : operands) shape = broadcast_shape(shape, operand.shape);
  std::vector<Tensor> full;
  full.reserve(operands.size());
  for (const Tensor& operand : operands) full.push_back(broadcasted(operand, shape));
  std::vector<Real> values(operands.size());
  for (std::size_t i = 0; i < static_cast<std::size_t>(count_of(shape)); ++i) {
    for (std::size_t k = 0; k < full.size(); ++k) values[k] = full[k].values[i];
    visit(values.data());
  }
  return shape;
}
}  // namespace detail

inline Tensor map(DType result, const std::vector<Tensor>& operands, const RealFunction& function) {
  Tensor out(result, {0});
  out.shape =
      detail::broadcast_visit(operands, [&](const Real* values) { out.values.push_back(function(values)); });
  return out;
}

inline Tensor map_integer(DType result, const std::vector<Tensor>& operands,
                          const IntegerFunction& function) {
  Tensor out(result, {0});
  std::vector<std::int64_t> integers(operands.size());
  out.shape = detail::broadcast_visit(operands, [&](const Real* values) {
    for (std::size_t k = 0; k < integers.size(); ++k) integers[k] = static_cast<std::int64_t>(values[k]);
    out.values.push_back(static_cast<Real>(wrap_integer(function(integers.data()), result)));
  });
  return out;
}

// ---- scalar definitions ----

namespace scalar {
inline std::int64_t add(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}
inline std::int64_t subtract(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) - static_cast<std::uint64_t>(b));
}
inline std::int64_t multiply(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
}
inline std::int64_t absolute(std::int64_t a) { return a < 0 ? subtract(0, a) : a; }
inline Real maximum(Real a, Real b) { return std::isnan(a) ? a : std::isnan(b) ? b : a > b ? a : b; }
inline Real minimum(Real a, Real b) { return std::isnan(a) ? a : std::isnan(b) ? b : a < b ? a : b; }
inline Real sigmoid(Real x) { return 1 / (1 + std::exp(-x)); }
inline Real silu(Real x) { return x * sigmoid(x); }
inline Real softplus(Real x) { return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x)); }
inline Real elu(Real x, Real alpha) { return x > 0 ? x : alpha * std::expm1(x); }
inline Real gelu(Real x) { return x / 2 * std::erfc(-x / std::sqrt(Real{2})); }
inline Real gelu_tanh(Real x) {
  const Real pi = std::acos(Real{-1});
  const Real inner = std::sqrt(2 / pi) * (x + Real{0.044715L} * x * x * x);
  return x / (1 + std::exp(-2 * inner));  // x/2·(1 + tanh(inner)) without cancellation
}
}  // namespace scalar

// ---- reductions ----

enum class Reduction { sum, mean, max, min, abs_max, prod, norm1, norm2, logsumexp };

inline DType reduced_dtype(Reduction kind, DType dtype) {
  switch (kind) {
    case Reduction::max:
    case Reduction::min:
    case Reduction::abs_max:
      return is_exact(dtype) ? dtype : accumulated(dtype);
    case Reduction::sum:
    case Reduction::prod:
    case Reduction::norm1:
      return accumulated(dtype);
    default:
      return accumulated(floating(dtype));
  }
}

namespace detail {

inline Real reduce_real(Reduction kind, const std::vector<Real>& v) {
  Real total = kind == Reduction::prod ? 1 : 0;
  switch (kind) {
    case Reduction::sum:
    case Reduction::mean:
      for (Real x : v) total += x;
      return kind == Reduction::sum ? total : total / static_cast<Real>(v.size());
    case Reduction::prod:
      for (Real x : v) total *= x;
      return total;
    case Reduction::norm1:
      for (Real x : v) total += std::fabs(x);
      return total;
    case Reduction::norm2:
      for (Real x : v) total += x * x;
      return std::sqrt(total);
    case Reduction::max:
      total = -infinity;
      for (Real x : v) total = scalar::maximum(total, x);
      return total;
    case Reduction::min:
      total = infinity;
      for (Real x : v) total = scalar::minimum(total, x);
      return total;
    case Reduction::abs_max:
      for (Real x : v) total = scalar::maximum(total, std::fabs(x));
      return total;
    case Reduction::logsumexp: {
      Real top = -infinity;
      for (Real x : v) top = scalar::maximum(top, x);
      if (std::isinf(top) || std::isnan(top)) return top;
      for (Real x : v) total += std::exp(x - top);
      return top + std::log(total);
    }
  }
  return not_a_number;
}

inline std::int64_t reduce_integer(Reduction kind, const std::vector<Real>& v) {
  std::int64_t total = kind == Reduction::prod ? 1 : 0;
  for (Real x : v) {
    const auto value = static_cast<std::int64_t>(x);
    if (kind == Reduction::prod)
      total = scalar::multiply(total, value);
    else
      total = scalar::add(total, kind == Reduction::norm1 ? scalar::absolute(value) : value);
  }
  return total;
}
}  // namespace detail

/// `axes`: non-negative; none: all of them.
inline Tensor reduce(Reduction kind, const Tensor& x, std::vector<std::size_t> axes, bool keep_dims) {
  if (axes.empty())
    for (std::size_t i = 0; i < x.shape.size(); ++i) axes.push_back(i);
  std::vector<bool> gone(x.shape.size(), false);
  for (std::size_t axis : axes) gone[axis] = true;
  Extents kept, inner;
  for (std::size_t i = 0; i < x.shape.size(); ++i) {
    kept.push_back(gone[i] ? 1 : x.shape[i]);
    inner.push_back(gone[i] ? x.shape[i] : 1);
  }
  const DType result = reduced_dtype(kind, x.dtype);
  const bool whole =
      is_exact(result) && (kind == Reduction::sum || kind == Reduction::prod || kind == Reduction::norm1);
  Tensor out = tabulate(result, kept, [&](const Extents& outer) {
    std::vector<Real> values;
    for_each_index(inner, [&](Extents index) {
      for (std::size_t i = 0; i < index.size(); ++i) index[i] += outer[i];
      values.push_back(x.at(index));
    });
    if (whole) return static_cast<Real>(wrap_integer(detail::reduce_integer(kind, values), result));
    return detail::reduce_real(kind, values);
  });
  if (keep_dims) return out;
  Extents squeezed;
  for (std::size_t i = 0; i < kept.size(); ++i)
    if (!gone[i]) squeezed.push_back(kept[i]);
  out.shape = squeezed;
  return out;
}

inline Tensor softmax(const Tensor& x, std::size_t axis) {
  const DType result = floating(x.dtype);
  if (x.size() == 0) return Tensor(result, x.shape);
  const Tensor top = reduce(Reduction::max, x, {axis}, true);
  const Tensor powers = map(DType::float64, {x, top}, [](const Real* v) { return std::exp(v[0] - v[1]); });
  return map(result, {powers, reduce(Reduction::sum, powers, {axis}, true)},
             [](const Real* v) { return v[0] / v[1]; });
}

// ---- matmul ----

inline DType matmul_dtype(DType a, DType b) {
  if (is_float8(a) || is_float8(b)) return DType::float32;
  const DType promoted = promote(a, b);
  return is_integer(promoted) && bits_of(promoted) == 8 ? DType::int32 : promoted;
}

inline Tensor matmul(const Tensor& a, const Tensor& b) {
  Tensor left = a, right = b;
  if (a.shape.size() == 1) left.shape.insert(left.shape.begin(), 1);
  if (b.shape.size() == 1) right.shape.push_back(1);
  const std::size_t left_rank = left.shape.size(), right_rank = right.shape.size();
  const std::int64_t rows = left.shape[left_rank - 2], depth = left.shape[left_rank - 1],
                     columns = right.shape[right_rank - 1];
  Extents batch = broadcast_shape({left.shape.begin(), left.shape.end() - 2},
                                  {right.shape.begin(), right.shape.end() - 2});
  auto with = [&](std::int64_t m, std::int64_t n) {
    Extents shape = batch;
    shape.insert(shape.end(), {m, n});
    return shape;
  };
  left = broadcasted(left, with(rows, depth));
  right = broadcasted(right, with(depth, columns));
  const DType result = matmul_dtype(a.dtype, b.dtype);
  const bool whole = is_exact(result);
  Tensor out(result, with(rows, columns));
  const std::int64_t batches = count_of(batch);
  for (std::int64_t n = 0; n < batches; ++n)
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < columns; ++j) {
        Real total = 0;
        std::int64_t exact = 0;
        for (std::int64_t k = 0; k < depth; ++k) {
          const Real x = left.values[static_cast<std::size_t>((n * rows + i) * depth + k)];
          const Real y = right.values[static_cast<std::size_t>((n * depth + k) * columns + j)];
          if (whole)
            exact = scalar::add(exact,
                                scalar::multiply(static_cast<std::int64_t>(x), static_cast<std::int64_t>(y)));
          else
            total += x * y;
        }
        out.values[static_cast<std::size_t>((n * rows + i) * columns + j)] =
            whole ? static_cast<Real>(wrap_integer(exact, result)) : total;
      }
  if (b.shape.size() == 1) out.shape.pop_back();
  if (a.shape.size() == 1) out.shape.erase(out.shape.end() - (b.shape.size() == 1 ? 1 : 2));
  return out;
}

}  // namespace support
