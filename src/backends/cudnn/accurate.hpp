// SPDX-License-Identifier: Apache-2.0
// Functions that cuDNN's kernels compute with the GPU's approximate instructions (they are compiled with fast
// math), spelled out where that is not accurate enough, and activations kept from turning an infinity into
// NaN. All measured on an H200 with cuDNN 9.19.
#pragma once
#include "backends/cudnn/graph_builder.hpp"

namespace stiletto::detail::cudnn {

/// To float32's accuracy; cuDNN's own is off by up to 8e-6.
std::uint32_t accurate_tanh(GraphBuilder& builder, std::uint32_t x, DType dtype);
std::uint32_t accurate_gelu_tanh(GraphBuilder& builder, std::uint32_t x, DType dtype);

/// x/y; cuDNN's own is 0 for |y| > 2^126, and NaN of an infinity. Not for numbers and columns, of which a
/// value computed alone has fewer axes than its result: see GraphBuilder::whole.
std::uint32_t accurate_quotient(GraphBuilder& builder, std::uint32_t x, std::uint32_t y, DType dtype);

/// sin, cos or tan of x less a multiple of its period, so that arguments up to 1e5 are as good as small ones.
std::uint32_t reduced_trigonometric(GraphBuilder& builder, Op op, std::uint32_t x, DType dtype);

/// silu, gelu or gelu_tanh of max(x, bound): below the bound they are 0, and of -infinity cuDNN's are NaN.
std::uint32_t bounded_activation(GraphBuilder& builder, Op op, std::uint32_t x, DType dtype);
/// x, or `lowest` where it is less; NaN stays.
std::uint32_t at_least(GraphBuilder& builder, std::uint32_t x, double lowest, DType dtype);

}  // namespace stiletto::detail::cudnn
