// SPDX-License-Identifier: Apache-2.0
// One matrix product with batch axes on the CPU: oneDNN where it takes the operands, a packed kernel of our
// own for float64 and the other integers. What oneDNN can fuse behind the product rides along as
// post-operations.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "graph/op.hpp"
#include "stiletto/dtype.hpp"

namespace stiletto::detail::cpu {

/// A matrix per batch index; strides in elements, one per batch axis, then rows and columns.
struct MatrixLayout {
  DType dtype = DType::float32;
  std::vector<std::int64_t> strides;
};

/// One operation applied to alpha·a·b, in order. Unary: op and coefficient. Binary: op and a second operand,
/// a tensor over the product's axes (stride 0: broadcast) that does not overlap c, or a number (no strides);
/// `swapped`: the operand is on the left.
struct PostOperation {
  Op op = Op::add;
  double coefficient = 0;
  bool binary = false;
  bool swapped = false;
  bool number = false;
  MatrixLayout operand;  // binary, not a number
};

struct MatmulProblem {
  std::vector<std::int64_t> batch;  // extents; no axis of the problem has extent 0
  std::int64_t m = 1, n = 1, k = 1;
  // (batch, m, k), (batch, k, n), (batch, m, n); an operand without a batch axis has stride 0 there
  MatrixLayout a, b, c;
  double alpha = 1;         // a whole number for integers
  bool accumulate = false;  // c += alpha·a·b; only with c float32 and no post-operations
  std::vector<PostOperation> post;
};

class Matmul {
 public:
  Matmul() = default;
  Matmul(const Matmul&) = delete;
  Matmul& operator=(const Matmul&) = delete;
  virtual ~Matmul() = default;
  virtual std::size_t workspace() const = 0;  // bytes, aligned to 64
  /// `operands` and `numbers` follow problem.post: one pointer, or one value, per binary post-operation (the
  /// other unused). Safe from any thread.
  virtual void execute(const void* a, const void* b, void* c, std::span<const void* const> operands,
                       std::span<const float> numbers, void* workspace) const = 0;
  virtual std::string describe() const = 0;  // "oneDNN matmul brg:avx512_core, 2 blocks + add + tanh"
};

/// Whether a matmul reads this operand in place: a dtype, and strides (batch axes are free, 0 included), that
/// an engine takes at full speed: one axis of the matrix without gaps, the other without overlap, for oneDNN;
/// any for the packed kernel. What is refused is packed first, into `packed_dtype(dtype)`, row-major.
bool reads_in_place(const MatrixLayout& operand, std::int64_t rows, std::int64_t columns,
                    DType other_operand);
/// Whether a matmul of a and b can write c of this layout directly.
bool writes_in_place(const MatrixLayout& c, std::int64_t rows, std::int64_t columns, DType a, DType b);
/// float32 for every floating-point type up to 32 bits (bfloat16 where the processor multiplies it and both
/// operands are bfloat16), float64, int8 and uint8 pairs as they are, int32 and int64 otherwise.
DType packed_dtype(DType operand, DType other_operand);
/// The dtype in which the bare product is written: float32, float64, int32 or int64.
DType product_dtype(DType a, DType b);

/// Null when no engine takes the problem with all its post-operations; without any, it is never null for
/// operands and a result that the functions above accept. Cut into one block per thread here, so that
/// execute() only runs them.
std::unique_ptr<const Matmul> make_matmul(const MatmulProblem&);

std::string onednn_version();  // "oneDNN 3.2.0"

}  // namespace stiletto::detail::cpu
