// SPDX-License-Identifier: Apache-2.0
// Which kernel computes which structured operation.
#include "backends/cpu/structured.hpp"

namespace stiletto::detail::cpu {

StructuredKernel structured_kernel(Op op) {
  switch (op) {
    case Op::attention:
      return attention;
    case Op::attention_backward:
      return attention_backward;
    case Op::attention_float8:
      return attention_float8;
    case Op::attention_blockscaled:
      return attention_blockscaled;
    case Op::rms_norm:
      return rms_norm;
    case Op::rms_norm_backward:
      return rms_norm_backward;
    case Op::layer_norm:
      return layer_norm;
    case Op::layer_norm_backward:
      return layer_norm_backward;
    case Op::batch_norm_training:
      return batch_norm_training;
    case Op::batch_norm_backward:
      return batch_norm_backward;
    case Op::conv:
      return conv;
    case Op::conv_backward_data:
      return conv_backward_data;
    case Op::conv_backward_filter:
      return conv_backward_filter;
    case Op::max_pool:
      return max_pool;
    case Op::avg_pool:
      return avg_pool;
    case Op::quantize:
      return quantize;
    case Op::dequantize:
      return dequantize;
    default:
      return nullptr;
  }
}

/// Convolutions into samples and rows, norms into what they do not sum over.
bool cuts_axis(Op op, const Attributes& attributes, std::size_t rank, std::size_t axis) {
  if (op == Op::conv) return axis == 0 || axis == 2;
  return axis + std::get<NormAttributes>(attributes).axes < rank;
}

FinishingKernel finishing_kernel(Op op) {
  switch (op) {
    case Op::conv:
      return conv;
    case Op::rms_norm:
      return rms_norm;
    case Op::layer_norm:
      return layer_norm;
    default:
      return nullptr;
  }
}

}  // namespace stiletto::detail::cpu
