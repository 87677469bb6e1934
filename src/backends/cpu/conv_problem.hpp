// SPDX-License-Identifier: Apache-2.0
// One convolution, or one of its gradients, as the engines see it: x, w and y have the same meaning in all
// three, and one of them is the result. What engines make of a problem is kept for the next call.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>

#include "backends/cpu/structured.hpp"

namespace stiletto::detail::cpu {

enum class ConvKind : std::uint8_t { forward, data_gradient, filter_gradient };

struct ConvTensor {
  DType dtype = DType::float32;
  Shape shape;
  Strides strides;
  bool operator==(const ConvTensor&) const = default;
};

struct ConvProblem {
  ConvKind kind = ConvKind::forward;
  ConvAttributes attributes;
  ConvTensor x, w, y;
  bool operator==(const ConvProblem&) const = default;

  std::size_t spatial_axes() const { return attributes.stride.size(); }
  std::int64_t groups() const { return x.shape[1] / w.shape[1]; }
};

struct ConvPointers {
  std::byte *x, *w, *y;
};

class ConvPlan {
 public:
  ConvPlan() = default;
  ConvPlan(const ConvPlan&) = delete;
  ConvPlan& operator=(const ConvPlan&) = delete;
  virtual ~ConvPlan() = default;
  /// Safe from any thread. `finish`, which may be empty, is for the forward pass.
  virtual void execute(const ConvPointers& pointers, const Finish& finish) const = 0;
};

/// The type in which the engines multiply an operand: float32 for narrower floats.
DType conv_operand_type(DType operand, DType other);

/// By matrix products of the weights with columns of the input, for every problem.
std::unique_ptr<const ConvPlan> make_column_conv(const ConvProblem& problem);
/// Null where oneDNN has no fast implementation.
std::unique_ptr<const ConvPlan> make_onednn_conv(const ConvProblem& problem);

}  // namespace stiletto::detail::cpu
