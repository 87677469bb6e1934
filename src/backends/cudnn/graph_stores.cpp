// SPDX-License-Identifier: Apache-2.0
#include "backends/cudnn/graph_stores.hpp"

#include <algorithm>

#include "core/dtype_info.hpp"

namespace stiletto::detail::cudnn {

bool needs_conversion(const EngineTensor& x, DType logical, DType to) {
  if (x.dtype == to) return false;
  const bool plain = is_floating(to) && (is_floating(x.dtype) || is_integer(x.dtype) || is_float8(x.dtype));
  if (plain) return false;
  // 8-bit integers are held as floats, whole ones.
  return logical != to || (to != DType::int8 && to != DType::uint8);
}

bool can_become_output(const GraphBuilder& builder, std::uint32_t x, DType dtype,
                       const std::vector<std::uint32_t>& stored) {
  const EngineTensor& t = builder.at(x);
  if (t.role != EngineTensor::Role::intermediate) return false;
  if (t.dtype == dtype) return true;
  if (t.dtype != builder.held(DType::float32)) return false;
  if (std::count(stored.begin(), stored.end(), x) > 1) return false;
  const auto& nodes = builder.graph_.nodes;
  return std::none_of(nodes.begin(), nodes.end(), [&](const EngineNode& node) {
    return std::find(node.inputs.begin(), node.inputs.end(), x) != node.inputs.end();
  });
}

}  // namespace stiletto::detail::cudnn
