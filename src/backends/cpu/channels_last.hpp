// SPDX-License-Identifier: Apache-2.0
// Copies of parts of a tensor (batch, channels, spatial…) with the channels innermost, in the element type of
// an engine, and back: what oneDNN convolves fastest.
#pragma once
#include <cstdint>

#include "backends/cpu/structured.hpp"

namespace stiletto::detail::cpu {

/// Samples, and positions along the first spatial axis.
struct TensorPart {
  std::int64_t first_sample, samples, first_row, rows;
};

/// All channels of it, and all positions along the other axes.
ResultPart part_of(const Shape& shape, const TensorPart& part);

/// Whether the tensor's samples already lie so, without gaps.
bool is_channels_last(const Shape& shape, const Strides& strides);

/// T: float, of any dtype, or std::uint16_t, the bits of bfloat16.
template <class T>
void pack_channels_last(T* out, const TensorView& view, const TensorPart& part);
template <class T>
void unpack_channels_last(const TensorView& view, const TensorPart& part, const T* values);

extern template void pack_channels_last(float*, const TensorView&, const TensorPart&);
extern template void pack_channels_last(std::uint16_t*, const TensorView&, const TensorPart&);
extern template void unpack_channels_last(const TensorView&, const TensorPart&, const float*);
extern template void unpack_channels_last(const TensorView&, const TensorPart&, const std::uint16_t*);

}  // namespace stiletto::detail::cpu
