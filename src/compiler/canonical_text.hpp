// SPDX-License-Identifier: Apache-2.0
// Parts of the texts and drawings of a canonical graph.
#pragma once
#include <cstddef>
#include <string>

#include "compiler/canonical.hpp"

namespace stiletto::detail {

std::string axis_name(std::size_t axis);  // "i"
/// "float32[i,k]"
std::string typed_text(const CanonicalGraph& graph, DType dtype, const AxisMask& axes);
/// "float32[i=64, k=128]"
std::string sized_text(const CanonicalGraph& graph, DType dtype, const AxisMask& axes);
/// "strides (128, 1) offset 64 align 4", each where there is something to say.
std::string strides_text(const CanonicalGraph& graph, const Tensor& tensor);
/// What stands behind an operation's name: "(%0, %1, over k)".
std::string operands_text(const CanonicalGraph& graph, const Value& value);
/// Of a value that was not traced.
std::string foreign_text(const Value& value);

}  // namespace stiletto::detail
