// SPDX-License-Identifier: Apache-2.0
#include "backends/cudnn/never_nan.hpp"

#include "core/dtype_info.hpp"

namespace stiletto::detail::cudnn {
namespace {

/// Whether a condition is true of no NaN in `x`, or false of none.
bool tests(const CanonicalGraph& graph, std::uint32_t condition, Op comparison, std::uint32_t x) {
  const Value& value = graph.values[condition];
  return value.kind == Value::Kind::operation && value.op == comparison && value.inputs[0] == x &&
         value.inputs[1] == x;
}

}  // namespace

bool is_never_nan(const CanonicalGraph& graph, std::uint32_t index) {
  const Value& value = graph.values[index];
  if (is_integer(value.dtype) || value.dtype == DType::boolean) return true;
  if (value.kind != Value::Kind::operation) return false;
  const auto operand = [&](std::size_t i) { return is_never_nan(graph, value.inputs[i]); };
  switch (value.op) {
    case Op::abs:
    case Op::negate:
    case Op::relu:
    case Op::cast:
    case Op::copy:
      return operand(0);
    case Op::maximum:
    case Op::minimum:
      return operand(0) && operand(1);
    case Op::where: {
      const auto [condition, yes, no] = std::array{value.inputs[0], value.inputs[1], value.inputs[2]};
      return (operand(1) || tests(graph, condition, Op::equal, yes)) &&
             (operand(2) || tests(graph, condition, Op::not_equal, no));
    }
    default:
      return false;
  }
}

}  // namespace stiletto::detail::cudnn
