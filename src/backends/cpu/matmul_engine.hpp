// SPDX-License-Identifier: Apache-2.0
// What the engines behind make_matmul share: a problem with as few axes as it can have, c row-major, and the
// shapes in words for errors. Private to matmul*.cpp and onednn*.cpp.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "backends/cpu/matmul.hpp"

namespace stiletto::detail::cpu {

struct SimpleProblem {
  MatmulProblem problem;
  bool swapped = false;  // computes cᵀ = bᵀ·aᵀ: the caller's a is this problem's b
};

/// Batch axes are dropped, merged, ordered from c's largest stride to its smallest and folded into the rows
/// or columns where strides allow; a column-major c becomes row-major by transposing the whole problem.
SimpleProblem simplified(const MatmulProblem&);

/// One axis without gaps, the other with steps at least as long: what a BLAS calls a matrix. Axes of extent 1
/// may have any stride.
bool is_plain_matrix(std::int64_t row_stride, std::int64_t column_stride, std::int64_t rows,
                     std::int64_t columns);

/// The layouts of a, b, c and every post-operation's tensor.
std::vector<MatrixLayout*> layouts_of(MatmulProblem&);

/// "float32 matmul 3×[64, 48]·[48, 32]"
std::string text_of(const MatmulProblem&);

/// Whether oneDNN multiplies these two on this processor, exactly where they are integers.
bool onednn_multiplies(DType a, DType b);
bool onednn_multiplies_bfloat16();

/// Null when the engine does not take the problem.
std::unique_ptr<const Matmul> make_onednn_matmul(const SimpleProblem&);
/// For float64 and integers, any strides, no post-operations.
std::unique_ptr<const Matmul> make_packed_matmul(const SimpleProblem&);

}  // namespace stiletto::detail::cpu
