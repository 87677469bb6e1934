// SPDX-License-Identifier: Apache-2.0
// Attention over block-scaled operands, which are dequantized whole first.
#include <vector>

#include "backends/cpu/tensor_rows.hpp"

namespace stiletto::detail::cpu {
namespace {

/// Of q, k and v in (batch, heads, rows, width): as attention takes it, rows before heads, adjacent along the
/// width.
TensorView rows_first(const TensorView& elements, std::byte* data) {
  const Shape& s = elements.shape;
  return {data, DType::float32, {s[0], s[2], s[1], s[3]}, {s[1] * s[2] * s[3], s[3], s[2] * s[3], 1}};
}
TensorView heads_first(const TensorView& view) {
  const Shape& s = view.shape;
  const Strides& t = view.strides;
  return {view.data, view.dtype, {s[0], s[2], s[1], s[3]}, {t[0], t[2], t[1], t[3]}};
}

}  // namespace

void attention_blockscaled(const Attributes& attributes, std::span<const TensorView> operands,
                           std::span<const TensorView> results) {
  constexpr std::size_t count = 3, first_scales = count + 1, required = first_scales + count;
  const auto size_of = [&](std::size_t i) {
    const Shape& s = operands[i].shape;
    return s[0] * s[1] * s[2] * s[3];
  };
  auto* memory = scratch<float>(ScratchPlace::kernel, size_of(0) + size_of(1) + size_of(2));
  std::vector<TensorView> rows;
  for (std::size_t i = 0; i < count; ++i) {
    rows.push_back(rows_first(operands[i], reinterpret_cast<std::byte*>(memory)));
    memory += size_of(i);
    const TensorView& scales = operands[first_scales + i];
    const bool powers = scales.dtype == DType::float8_e8m0;
    const BlockAttributes blocks{operands[i].dtype, scales.dtype, powers ? 32U : 16U, i + 1 < count};
    const TensorView block_operands[] = {operands[i], scales}, values[] = {heads_first(rows.back())};
    dequantize(blocks, block_operands, values);
  }
  rows.push_back(operands[count]);
  rows.insert(rows.end(), operands.begin() + required, operands.end());
  attention(attributes, rows, results);
}

}  // namespace stiletto::detail::cpu
