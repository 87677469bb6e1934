// SPDX-License-Identifier: Apache-2.0
// Linear algebra. Attention, normalisation, convolution and pooling join here.
#pragma once
#include "stiletto/array.hpp"

namespace stiletto {

/// NumPy's rules: (…, m, k)·(…, k, n), a vector as a row on the left or a column on the right; leading batch
/// axes broadcast pairwise. The result has the operands' promoted dtype, int32 for 8-bit integers, float32
/// for float8.
STILETTO_API Array matmul(const Array&, const Array&);

/// c = alpha·a·b + beta·c. With beta == 0 the old c is not read. c has the product's shape.
STILETTO_API void matmul_into(const Array& c, const Array& a, const Array& b, double alpha = 1,
                              double beta = 0);

}  // namespace stiletto
