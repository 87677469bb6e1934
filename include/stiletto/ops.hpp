// SPDX-License-Identifier: Apache-2.0
// Elementwise operations, reductions, views and stores. On traced arrays (and on any array inside a traced
// function) they are recorded; on concrete arrays they run at once, as a cached one-operation graph: handy,
// not fast. Result dtypes follow docs/semantics.md; operands broadcast by NumPy's rules.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <vector>

#include "stiletto/array.hpp"

namespace stiletto {

// ---- elementwise
// ---------------------------------------------------------------------------------------------------- Shapes
// that do not broadcast throw ShapeError; dtypes an operation does not take, DTypeError.

STILETTO_API Array operator+(const Array&, const Array&);
STILETTO_API Array operator-(const Array&, const Array&);
STILETTO_API Array operator*(const Array&, const Array&);
STILETTO_API Array operator/(const Array&, const Array&);  ///< float32 for integers
STILETTO_API Array operator-(const Array&);
STILETTO_API Array operator<(const Array&, const Array&);  ///< comparisons give boolean
STILETTO_API Array operator<=(const Array&, const Array&);
STILETTO_API Array operator>(const Array&, const Array&);
STILETTO_API Array operator>=(const Array&, const Array&);
STILETTO_API Array operator==(const Array&, const Array&);
STILETTO_API Array operator!=(const Array&, const Array&);
STILETTO_API Array logical_and(const Array&, const Array&);  ///< any operand that is not 0 counts as true
STILETTO_API Array logical_or(const Array&, const Array&);
STILETTO_API Array logical_not(const Array&);
STILETTO_API Array maximum(const Array&, const Array&);  ///< NaN if either is
STILETTO_API Array minimum(const Array&, const Array&);
STILETTO_API Array pow(const Array&, const Array&);
STILETTO_API Array fmod(const Array&, const Array&);  ///< the sign of the first operand; integers by 0 give 0
STILETTO_API Array atan2(const Array&, const Array&);
/// a where the condition holds, else b. The condition must be boolean.
STILETTO_API Array where(const Array& condition, const Array& a, const Array& b);
STILETTO_API Array clamp(const Array& x, const Array& low,
                         const Array& high);  ///< min(max(x, low), high), NaN kept
/// Rounds to nearest even; float to integer truncates and saturates, NaN gives 0; to boolean: not equal to 0.
STILETTO_API Array cast(const Array&, DType);
STILETTO_API Array abs(const Array&);
STILETTO_API Array exp(const Array&);
STILETTO_API Array log(const Array&);
STILETTO_API Array sqrt(const Array&);
STILETTO_API Array rsqrt(const Array&);
STILETTO_API Array square(const Array&);
STILETTO_API Array reciprocal(const Array&);
STILETTO_API Array sin(const Array&);
STILETTO_API Array cos(const Array&);
STILETTO_API Array tan(const Array&);
STILETTO_API Array tanh(const Array&);
STILETTO_API Array erf(const Array&);
STILETTO_API Array ceil(const Array&);
STILETTO_API Array floor(const Array&);
STILETTO_API Array relu(const Array&);                                      ///< max(x, 0), NaN kept
STILETTO_API Array leaky_relu(const Array&, double negative_slope = 0.01);  ///< x > 0 ? x : slope·x
STILETTO_API Array clipped_relu(const Array&, double upper);                ///< min(max(x, 0), upper)
STILETTO_API Array sigmoid(const Array&);                                   ///< 1 / (1 + e^−x)
STILETTO_API Array silu(const Array&);                                      ///< x·sigmoid(x)
STILETTO_API Array softplus(const Array&);                                  ///< log(1 + e^x)
STILETTO_API Array elu(const Array&, double alpha = 1);                     ///< x > 0 ? x : alpha·(e^x − 1)
STILETTO_API Array gelu(const Array&);  ///< x/2·(1 + erf(x/√2)); Hendrycks & Gimpel 2016
STILETTO_API Array
gelu_tanh(const Array&);  ///< x/2·(1 + tanh(√(2/π)·(x + 0.044715·x³))); the same paper's approximation

// ---- reductions ----

/// Axes to reduce; negative ones count from the end. Empty: every axis.
class Axes {
 public:
  Axes() = default;
  Axes(std::int64_t axis) : values_{axis} {}
  Axes(std::initializer_list<std::int64_t> values) : values_(values) {}
  bool empty() const { return values_.size() == 0; }
  const std::int64_t* begin() const { return values_.begin(); }
  const std::int64_t* end() const { return values_.end(); }

 private:
  Dims values_;
};

// float16 and bfloat16 give float32; int8, uint8 and boolean give int32, except in max, min and abs_max,
// which keep integers as they are; mean, norm2 and logsumexp of integers give float32. A repeated axis, or
// one out of range, throws ShapeError, and so does max, min or abs_max over no elements.
STILETTO_API Array sum(const Array&, Axes = {}, bool keep_dims = false);
STILETTO_API Array mean(const Array&, Axes = {}, bool keep_dims = false);
STILETTO_API Array max(const Array&, Axes = {}, bool keep_dims = false);
STILETTO_API Array min(const Array&, Axes = {}, bool keep_dims = false);
STILETTO_API Array abs_max(const Array&, Axes = {}, bool keep_dims = false);
STILETTO_API Array prod(const Array&, Axes = {}, bool keep_dims = false);
STILETTO_API Array norm1(const Array&, Axes = {}, bool keep_dims = false);  ///< Σ|x|
STILETTO_API Array norm2(const Array&, Axes = {}, bool keep_dims = false);  ///< √Σx²
STILETTO_API Array logsumexp(const Array&, Axes = {}, bool keep_dims = false);
/// Keeps the dtype of a floating-point x; a row with +∞, or of −∞ only, is NaN.
STILETTO_API Array softmax(const Array&, int axis = -1);

// ---- views ----
// On concrete arrays and on inputs of a trace only pointer offset and strides change. On a computed value of
// a trace a permutation is taken where the result is only returned or stored, a reshape likewise where it
// keeps the row-major order, and a change of extents of 1 always; anything else throws TraceError.

struct Slice {
  std::optional<std::int64_t> begin = {}, end = {};  ///< end exclusive; negative values count from the end
  std::int64_t step = 1;                             ///< may be negative, not 0
};
STILETTO_API Array transpose(const Array&);  ///< all axes reversed
STILETTO_API Array transpose(const Array&, Dims axes);
STILETTO_API Array reshape(const Array&, Shape);  ///< one extent may be −1
STILETTO_API Array slice(const Array&, std::vector<Slice>);
STILETTO_API Array squeeze(const Array&, Axes = {});
STILETTO_API Array expand_dims(const Array&, Axes);
STILETTO_API Array broadcast_to(const Array&, Shape);
/// Any view of x's storage (inside a trace: of the elements x spans). `offset`, in elements, is from x's
/// first element.
STILETTO_API Array as_strided(const Array&, Shape, Strides, std::int64_t offset = 0);

// ---- stores ----

/// Casts `value` to the destination's dtype, broadcasts it to its shape and writes it. Inside a trace the
/// destination is an argument, a capture or a view of one (else TraceError). One that overlaps itself throws
/// AliasError.
STILETTO_API void assign(const Array& destination, const Array& value);

}  // namespace stiletto
