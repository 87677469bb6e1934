// SPDX-License-Identifier: Apache-2.0
// One pointwise value as nodes.
#pragma once
#include <span>

#include "backends/cudnn/graph_builder.hpp"
#include "compiler/canonical.hpp"

namespace stiletto::detail::cudnn {

/// `inputs` are the lowered operands, `dtypes` their logical dtypes. `accurate` is false before and behind a
/// product, where float32 has TF32's accuracy anyway (and where float32 operands with many nodes before them
/// come out wrong). Throws NotLowered where cuDNN's result would not be ours.
std::uint32_t lower_pointwise(GraphBuilder& builder, const Value& value,
                              std::span<const std::uint32_t> inputs, std::span<const DType> dtypes,
                              bool accurate);

}  // namespace stiletto::detail::cudnn
