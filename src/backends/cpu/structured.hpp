// SPDX-License-Identifier: Apache-2.0
// The seam between schedules and the kernels of structured operations.
#pragma once
#include <cstddef>
#include <functional>
#include <span>

#include "graph/attributes.hpp"
#include "graph/op.hpp"
#include "stiletto/array.hpp"
#include "stiletto/dtype.hpp"

namespace stiletto::detail::cpu {

/// What a kernel reads or writes: any strides, in elements, 0 and negative ones included.
struct TensorView {
  std::byte* data = nullptr;  // the first element; null, without axes, of a result that nobody wants
  DType dtype = DType::float32;
  Shape shape;
  Strides strides;
};

/// `operands` and `results` as graph/attributes.hpp lists them; numbers are views of one float64. No result
/// overlaps an operand or another result, and none is empty. Computes in float32 (float64 where the first
/// operand is float64, exact integers for int8) and rounds once, to each result's dtype. Runs on all threads,
/// gives the same bits on any number of them, and allocates only scratch that the thread keeps.
using StructuredKernel = void (*)(const Attributes& attributes, std::span<const TensorView> operands,
                                  std::span<const TensorView> results);

void attention(const Attributes&, std::span<const TensorView>, std::span<const TensorView>);
void attention_backward(const Attributes&, std::span<const TensorView>, std::span<const TensorView>);
void attention_float8(const Attributes&, std::span<const TensorView>, std::span<const TensorView>);
void attention_blockscaled(const Attributes&, std::span<const TensorView>, std::span<const TensorView>);
void rms_norm(const Attributes&, std::span<const TensorView>, std::span<const TensorView>);
void rms_norm_backward(const Attributes&, std::span<const TensorView>, std::span<const TensorView>);
void layer_norm(const Attributes&, std::span<const TensorView>, std::span<const TensorView>);
void layer_norm_backward(const Attributes&, std::span<const TensorView>, std::span<const TensorView>);
void batch_norm_training(const Attributes&, std::span<const TensorView>, std::span<const TensorView>);
void batch_norm_backward(const Attributes&, std::span<const TensorView>, std::span<const TensorView>);
void conv(const Attributes&, std::span<const TensorView>, std::span<const TensorView>);
void conv_backward_data(const Attributes&, std::span<const TensorView>, std::span<const TensorView>);
void conv_backward_filter(const Attributes&, std::span<const TensorView>, std::span<const TensorView>);
void max_pool(const Attributes&, std::span<const TensorView>, std::span<const TensorView>);
void avg_pool(const Attributes&, std::span<const TensorView>, std::span<const TensorView>);
void quantize(const Attributes&, std::span<const TensorView>, std::span<const TensorView>);
void dequantize(const Attributes&, std::span<const TensorView>, std::span<const TensorView>);

/// Null where the operation is not structured.
StructuredKernel structured_kernel(Op op);

// ---- work behind an operation, on its first result while that is in cache

/// Elements of a result: the indices from `first` up to `last` along each of its axes.
struct ResultPart {
  Dims first, last;
  static ResultPart whole(const Shape& shape) {
    Dims first;
    while (first.size() < shape.size()) first.push_back(0);
    return {first, shape};
  }
};
/// Called by any thread with a part of the first result, once all of that is in memory and will not be read
/// or written any more. Together the parts are the result, and none of them overlap.
using Finish = std::function<void(const ResultPart&)>;

void conv(const Attributes&, std::span<const TensorView>, std::span<const TensorView>, const Finish&);
void rms_norm(const Attributes&, std::span<const TensorView>, std::span<const TensorView>, const Finish&);
void layer_norm(const Attributes&, std::span<const TensorView>, std::span<const TensorView>, const Finish&);

using FinishingKernel = void (*)(const Attributes&, std::span<const TensorView>, std::span<const TensorView>,
                                 const Finish&);
/// Null where the kernel does not tell parts.
FinishingKernel finishing_kernel(Op op);
/// Whether such a kernel cuts a result of `rank` axes along this one.
bool cuts_axis(Op op, const Attributes& attributes, std::size_t rank, std::size_t axis);

}  // namespace stiletto::detail::cpu
