// SPDX-License-Identifier: Apache-2.0
// Result dtypes: docs/semantics.md, Types, as a function of the operation's row.
#include "core/text.hpp"
#include "ops/apply.hpp"
#include "stiletto/error.hpp"

namespace stiletto::detail {
namespace {

[[noreturn]] void throw_no_common_type(const char* name, DType a, DType b) {
  throw DTypeError(text(operation_text(name), ": ", a, " and ", b,
                        " have no common dtype; cast the narrow one, for instance to float32"));
}

/// The operands' common type, from the given one on.
OperandType promote_all(std::span<const Operand> operands, const char* name) {
  OperandType common = operands[0].type();
  for (const Operand& operand : operands.subspan(1)) {
    const auto promoted = promote(common, operand.type());
    if (!promoted) throw_no_common_type(name, common.dtype, operand.body->dtype);
    common = *promoted;
  }
  return common;
}

[[noreturn]] void refuse(const char* name, DType dtype, const char* advice) {
  throw DTypeError(text(operation_text(name), ": does not take ", dtype, "; ", advice));
}

DType reduced_dtype(TypeRule rule, DType x) {
  const bool half_width = x == DType::float16 || x == DType::bfloat16;
  const bool narrow = x == DType::int8 || x == DType::uint8 || x == DType::boolean;
  if (half_width) return DType::float32;
  if (rule == TypeRule::real_total && !is_floating(x)) return DType::float32;
  if (rule == TypeRule::total && narrow) return DType::int32;
  return x;
}

void infer_matmul(Node& node, std::span<const Operand> operands, const char* name) {
  const DType a = operands[0].body->dtype, b = operands[1].body->dtype;
  for (DType x : {a, b})
    if (x == DType::boolean || x == DType::float8_e8m0 || x == DType::float4_e2m1)
      refuse(name, x, "cast the operand, for instance to float32");
  if (is_float8(a) && is_float8(b)) {
    node.dtype = DType::float32;
  } else {
    const OperandType common = promote_all(operands.first(2), name);
    node.dtype = bits_of(common.dtype) == 8 ? DType::int32 : common.dtype;
  }
  node.operand = node.dtype;
}

}  // namespace

void infer_types(Node& node, std::span<const Operand> operands, const char* name) {
  const OpRow& row = row_of(node.op);
  if (row.family == Family::matmul) return infer_matmul(node, operands, name);
  for (const Operand& operand : operands)
    if (is_storage_only(operand.body->dtype))
      refuse(name, operand.body->dtype, "it is a storage type: cast it, for instance to float32");
  if (row.family == Family::reduction) {
    node.operand = operands[0].body->dtype;
    node.dtype = reduced_dtype(row.rule, node.operand);
    return;
  }
  if (row.rule == TypeRule::select && operands[0].body->dtype != DType::boolean)
    throw DTypeError(text(operation_text(name), ": the condition is ", operands[0].body->dtype,
                          ", it has to be boolean; compare first, for instance condition != 0"));
  const OperandType common = promote_all(row.rule == TypeRule::select ? operands.subspan(1) : operands, name);
  node.dtype = node.operand = common.dtype;
  node.weak = common.weak && (row.rule != TypeRule::select || operands[0].body->scalar);
  if (row.rule == TypeRule::numeric && common.dtype == DType::boolean)
    refuse(name, DType::boolean, "cast it, for instance to int32");
  if (row.rule == TypeRule::real && !is_floating(common.dtype)) node.dtype = node.operand = DType::float32;
  if (row.rule == TypeRule::compare) node.dtype = DType::boolean;
  if (row.rule == TypeRule::logical) node.dtype = node.operand = DType::boolean;
}

}  // namespace stiletto::detail
