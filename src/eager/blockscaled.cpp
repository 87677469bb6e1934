// SPDX-License-Identifier: Apache-2.0
// Products of block-scaled arrays: in a trace as they stand, outside one as a graph of their own, because
// engines scale blocks only beside a product.
#include "stiletto/blockscaled.hpp"
#include "core/dtype_info.hpp"
#include "stiletto/compile.hpp"
#include "stiletto/nn.hpp"
#include "stiletto/ops.hpp"

namespace stiletto {
namespace {

Array operand(const BlockscaledArray& array) { return dequantize(array); }
/// Beside block-scaled ones, float8 is what it stands for.
Array operand(const Array& array) {
  return detail::is_storage_only(array.dtype()) ? cast(array, DType::float32) : array;
}

template <class A, class B>
Array product(const A& a, const B& b) {
  return jit([](const A& x, const B& y) { return matmul(operand(x), operand(y)); }, a, b);
}
template <class A, class B>
void product_into(const BlockscaledArray& c, const A& a, const B& b) {
  jit([](const BlockscaledArray& to, const A& x,
         const B& y) { quantize_into(to, matmul(operand(x), operand(y))); },
      c, a, b);
}
template <class A, class B>
void product_into(const Array& c, const A& a, const B& b, double alpha, double beta) {
  jit([=](const Array& to, const A& x, const B& y) { matmul_into(to, operand(x), operand(y), alpha, beta); },
      c, a, b);
}

}  // namespace

Array matmul(const BlockscaledArray& a, const BlockscaledArray& b) { return product(a, b); }
Array matmul(const BlockscaledArray& a, const Array& b) { return product(a, b); }
Array matmul(const Array& a, const BlockscaledArray& b) { return product(a, b); }

void matmul_into(const BlockscaledArray& c, const Array& a, const Array& b) { product_into(c, a, b); }
void matmul_into(const BlockscaledArray& c, const BlockscaledArray& a, const BlockscaledArray& b) {
  product_into(c, a, b);
}
void matmul_into(const BlockscaledArray& c, const BlockscaledArray& a, const Array& b) {
  product_into(c, a, b);
}
void matmul_into(const BlockscaledArray& c, const Array& a, const BlockscaledArray& b) {
  product_into(c, a, b);
}
void matmul_into(const Array& c, const BlockscaledArray& a, const BlockscaledArray& b, double alpha,
                 double beta) {
  product_into(c, a, b, alpha, beta);
}
void matmul_into(const Array& c, const BlockscaledArray& a, const Array& b, double alpha, double beta) {
  product_into(c, a, b, alpha, beta);
}
void matmul_into(const Array& c, const Array& a, const BlockscaledArray& b, double alpha, double beta) {
  product_into(c, a, b, alpha, beta);
}

}  // namespace stiletto
