// SPDX-License-Identifier: Apache-2.0
// Block-scaled operands and results of products, as cuDNN's graphs have them: elements as they lie, scales in
// F8_128x4 over dimensions of their own.
#pragma once
#include <vector>

#include "backends/cudnn/geometry.hpp"
#include "backends/cudnn/graph_builder.hpp"
#include "compiler/canonical.hpp"

namespace stiletto::detail::cudnn {

/// Whether the graph quantizes, dequantizes or attends over blocks.
bool has_block_scaling(const CanonicalGraph& graph);

/// Axes that only matrices of scales have.
AxisMask scale_axes(const CanonicalGraph& graph);

/// Rows and columns of block-scaled matrices; none where there are no such matrices.
AxisMask matrix_axes(const CanonicalGraph& graph);

/// Throws NotLowered for what no engine takes: measured by plans for a B200, cuDNN 9.19 and 9.27.
void check_block_scaling(const CanonicalGraph& graph);

/// The node that dequantizes `elements`, which are there in this layout, before a product: its result.
std::uint32_t add_dequantize(GraphBuilder& builder, const CanonicalGraph& graph, const Value& value,
                             const Layout& layout, std::uint32_t elements);
/// The node that quantizes x: its index. Its result is the elements, its further one the scales.
std::size_t add_quantize(GraphBuilder& builder, const Value& value, const Layout& layout, std::uint32_t x);

/// Scales in memory, beside elements of these dims in that layout.
EngineTensor scales_beside(const Tensor& scales, const Layout& layout, const std::vector<std::int64_t>& dims,
                           const BlockAttributes& attributes);

}  // namespace stiletto::detail::cudnn
