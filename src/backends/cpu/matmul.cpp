// SPDX-License-Identifier: Apache-2.0
// Which engine multiplies what, and the simplification that both engines start from.
#include "backends/cpu/matmul.hpp"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "backends/cpu/matmul_engine.hpp"
#include "core/dtype_info.hpp"
#include "core/text.hpp"

namespace stiletto::detail::cpu {
namespace {

bool is_byte(DType d) { return d == DType::int8 || d == DType::uint8; }
bool is_narrow_float(DType d) { return d != DType::float64 && (is_floating(d) || is_storage_only(d)); }

bool packed_multiplies(DType a, DType b) {
  return (is_byte(a) && is_byte(b)) ||
         (a == b && (a == DType::float64 || a == DType::int32 || a == DType::int64));
}

/// The packed engine takes any strides; oneDNN is faster where it takes the dtypes. Which operand is the left
/// one is not known here, and oneDNN's rules for pairs of bytes are not symmetric.
bool any_strides(DType a, DType b) {
  return packed_multiplies(a, b) && !onednn_multiplies(a, b) && !onednn_multiplies(b, a);
}

std::int64_t& row_stride(MatrixLayout& layout) { return layout.strides[layout.strides.size() - 2]; }
std::int64_t& column_stride(MatrixLayout& layout) { return layout.strides.back(); }

void transpose(MatmulProblem& p) {
  std::swap(p.a, p.b);
  std::swap(p.m, p.n);
  for (MatrixLayout* layout : layouts_of(p)) std::swap(row_stride(*layout), column_stride(*layout));
}

void drop_batch_axis(MatmulProblem& p, std::size_t axis) {
  const auto at = static_cast<std::ptrdiff_t>(axis);
  p.batch.erase(p.batch.begin() + at);
  for (MatrixLayout* layout : layouts_of(p)) layout->strides.erase(layout->strides.begin() + at);
}

/// Insertion sort: axes are few, and every layout has to follow.
void order_batch_axes(MatmulProblem& p) {
  for (std::size_t i = 1; i < p.batch.size(); ++i)
    for (std::size_t j = i; j > 0 && std::abs(p.c.strides[j - 1]) < std::abs(p.c.strides[j]); --j) {
      std::swap(p.batch[j - 1], p.batch[j]);
      for (MatrixLayout* layout : layouts_of(p)) std::swap(layout->strides[j - 1], layout->strides[j]);
    }
}

void merge_batch_axes(MatmulProblem& p) {
  for (std::size_t i = p.batch.size(); i-- > 1;) {
    const auto layouts = layouts_of(p);
    const bool merge = std::all_of(layouts.begin(), layouts.end(), [&](const MatrixLayout* layout) {
      return layout->strides[i - 1] == layout->strides[i] * p.batch[i];
    });
    if (!merge) continue;
    p.batch[i] *= p.batch[i - 1];
    drop_batch_axis(p, i - 1);
  }
}

/// A batch axis that b does not have is more rows, if the rows of all others carry on along it.
bool fold_into_rows(MatmulProblem& p, std::size_t axis) {
  if (p.b.strides[axis] != 0) return false;
  MatmulProblem folded = p;
  folded.m = p.m * p.batch[axis];
  for (MatrixLayout* layout : layouts_of(folded)) {
    if (layout == &folded.b) continue;
    if (p.m == 1) row_stride(*layout) = layout->strides[axis];
    if (layout->strides[axis] != row_stride(*layout) * p.m) return false;
  }
  drop_batch_axis(folded, axis);
  if (!is_plain_matrix(row_stride(folded.a), column_stride(folded.a), folded.m, folded.k) ||
      !is_plain_matrix(row_stride(folded.c), column_stride(folded.c), folded.m, folded.n))
    return false;
  p = std::move(folded);
  return true;
}

void fold_batch_axes(MatmulProblem& p) {
  for (std::size_t i = p.batch.size(); i-- > 0;) {
    if (fold_into_rows(p, i)) continue;
    transpose(p);
    fold_into_rows(p, i);
    transpose(p);
  }
}

}  // namespace

std::vector<MatrixLayout*> layouts_of(MatmulProblem& p) {
  std::vector<MatrixLayout*> layouts{&p.a, &p.b, &p.c};
  for (PostOperation& post : p.post)
    if (post.binary && !post.number) layouts.push_back(&post.operand);
  return layouts;
}

bool is_plain_matrix(std::int64_t row_stride, std::int64_t column_stride, std::int64_t rows,
                     std::int64_t columns) {
  const auto plain = [](std::int64_t inner, std::int64_t inner_extent, std::int64_t outer,
                        std::int64_t outer_extent) {
    return (inner_extent == 1 || inner == 1) && (outer_extent == 1 || outer >= inner_extent);
  };
  return plain(column_stride, columns, row_stride, rows) || plain(row_stride, rows, column_stride, columns);
}

SimpleProblem simplified(const MatmulProblem& problem) {
  SimpleProblem simple{problem};
  MatmulProblem& p = simple.problem;
  for (std::size_t i = p.batch.size(); i-- > 0;)
    if (p.batch[i] == 1) drop_batch_axis(p, i);
  order_batch_axes(p);
  merge_batch_axes(p);
  fold_batch_axes(p);
  if (p.n != 1 && column_stride(p.c) != 1) {
    transpose(p);
    simple.swapped = true;
  }
  return simple;
}

std::string text_of(const MatmulProblem& p) {
  std::string batch;
  for (const std::int64_t extent : p.batch) batch += text(extent, "×");
  return text(p.a.dtype, " matmul ", batch, "[", p.m, ", ", p.k, "]·[", p.k, ", ", p.n, "]");
}

DType packed_dtype(DType operand, DType other) {
  if (operand == DType::float64 || other == DType::float64) return DType::float64;
  if (operand == DType::bfloat16 && other == DType::bfloat16 && onednn_multiplies_bfloat16())
    return DType::bfloat16;
  if (is_narrow_float(operand) || is_narrow_float(other)) return DType::float32;
  if (is_byte(operand) && is_byte(other)) return operand;
  return operand == DType::int64 || other == DType::int64 ? DType::int64 : DType::int32;
}

DType product_dtype(DType a, DType b) {
  const DType packed = packed_dtype(a, b);
  return packed == DType::bfloat16 ? DType::float32 : is_byte(packed) ? DType::int32 : packed;
}

bool reads_in_place(const MatrixLayout& operand, std::int64_t rows, std::int64_t columns, DType other) {
  if (operand.dtype != packed_dtype(operand.dtype, other)) return false;
  if (any_strides(operand.dtype, packed_dtype(other, operand.dtype))) return true;
  const std::size_t axes = operand.strides.size();
  return is_plain_matrix(operand.strides[axes - 2], operand.strides[axes - 1], rows, columns);
}

bool writes_in_place(const MatrixLayout& c, std::int64_t rows, std::int64_t columns, DType a, DType b) {
  const bool rounded = c.dtype == DType::bfloat16 && packed_dtype(a, b) == DType::bfloat16;
  if (c.dtype != product_dtype(a, b) && !rounded) return false;
  if (any_strides(packed_dtype(a, b), packed_dtype(b, a))) return true;
  const std::size_t axes = c.strides.size();
  return is_plain_matrix(c.strides[axes - 2], c.strides[axes - 1], rows, columns);
}

std::unique_ptr<const Matmul> make_matmul(const MatmulProblem& problem) {
  const SimpleProblem simple = simplified(problem);
  if (onednn_multiplies(simple.problem.a.dtype, simple.problem.b.dtype))
    if (auto matmul = make_onednn_matmul(simple)) return matmul;
  if (packed_multiplies(simple.problem.a.dtype, simple.problem.b.dtype)) return make_packed_matmul(simple);
  return nullptr;
}

}  // namespace stiletto::detail::cpu
