// SPDX-License-Identifier: Apache-2.0
#include "backends/cudnn/pointwise.hpp"

#include "backends/cudnn/accurate.hpp"
#include "backends/cudnn/frontend.hpp"
#include "backends/cudnn/lower.hpp"
#include "core/dtype_info.hpp"
#include "core/text.hpp"
#include "graph/op_table.hpp"

namespace stiletto::detail::cudnn {
namespace {

class PointwiseLowering {
 public:
  PointwiseLowering(GraphBuilder& builder, const Value& value, std::span<const std::uint32_t> inputs,
                    std::span<const DType> dtypes, bool accurate)
      : builder_(builder),
        value_(value),
        inputs_(inputs.begin(), inputs.end()),
        dtypes_(dtypes),
        accurate_(accurate) {}

  std::uint32_t run() {
    check_exact();
    const TypeRule rule = row_of(value_.op).rule;
    if (value_.op == Op::cast || value_.op == Op::copy) return cast();
    if (rule == TypeRule::logical || value_.operand == DType::boolean) return logical();
    const DType held = builder_.held(value_.dtype);
    switch (value_.op) {
      case Op::where:
        return builder_.select(mask(0), inputs_[1], inputs_[2], held);
      case Op::maximum:
      case Op::minimum:
        return builder_.extremum(value_.op == Op::maximum, inputs_[0], inputs_[1], held);
      case Op::clamp:
        return builder_.extremum(false, builder_.extremum(true, inputs_[0], inputs_[1], held), inputs_[2],
                                 held);
      case Op::square:
        return builder_.pointwise(Op::multiply, {inputs_[0], inputs_[0]}, held);
      case Op::leaky_relu:
        return leaky_relu(held);
      case Op::sin:
      case Op::cos:
      case Op::tan:
        return accurate_ ? reduced_trigonometric(builder_, value_.op, inputs_[0], held) : plain(held);
      case Op::divide:
        return accurate_ && (value_.operand == DType::float32 || value_.operand == DType::bfloat16)
                   ? accurate_quotient(builder_, inputs_[0], inputs_[1], held)
                   : plain(held);
      case Op::tanh:
        return accurate_ && is_float32() ? accurate_tanh(builder_, inputs_[0], held) : plain(held);
      case Op::gelu_tanh:
        if (accurate_ && is_float32())
          return accurate_gelu_tanh(builder_, at_least(builder_, inputs_[0], -50, held), held);
        [[fallthrough]];
      case Op::gelu:
      case Op::silu:
        return bounded_activation(builder_, value_.op, inputs_[0], held);
      default:
        return plain(rule == TypeRule::compare ? DType::boolean : held);
    }
  }

 private:
  bool is_float32() const { return value_.dtype == DType::float32; }

  std::uint32_t plain(DType dtype) {
    if (!has_mode(value_.op)) throw NotLowered{text("cuDNN has no ", name_of(value_.op))};
    if (inputs_.size() == 1) return builder_.pointwise(value_.op, {inputs_[0]}, dtype, coefficient());
    return builder_.pointwise(value_.op, {inputs_[0], inputs_[1]}, dtype, coefficient());
  }

  double coefficient() const {
    const auto* attributes = std::get_if<CoefficientAttributes>(&value_.attributes);
    return attributes == nullptr ? 0 : attributes->coefficient.value;
  }

  /// cuDNN takes the greater of x and slope·x, which slopes above 1 turn round.
  std::uint32_t leaky_relu(DType dtype) {
    const std::uint32_t x = inputs_[0];
    if (coefficient() <= 1) return plain(dtype);
    const std::uint32_t scaled =
        builder_.pointwise(Op::multiply, {x, builder_.constant(coefficient())}, dtype);
    const std::uint32_t negative = builder_.pointwise(Op::less, {x, builder_.constant(0)}, DType::boolean);
    return builder_.select(negative, scaled, x, dtype);
  }

  std::uint32_t mask(std::size_t i) { return builder_.convert(inputs_[i], dtypes_[i], DType::boolean); }

  std::uint32_t cast() {
    const bool same =
        value_.op == Op::copy ? dtypes_[0] == value_.dtype : builder_.at(inputs_[0]).dtype == value_.dtype;
    return same ? inputs_[0] : builder_.convert(inputs_[0], dtypes_[0], value_.dtype);
  }

  /// Booleans: + and maximum are or, * and minimum are and.
  std::uint32_t logical() {
    for (std::size_t i = 0; i < inputs_.size(); ++i) inputs_[i] = mask(i);
    switch (value_.op) {
      case Op::logical_not:
        return builder_.pointwise(Op::logical_not, {inputs_[0]}, DType::boolean);
      case Op::logical_and:
      case Op::multiply:
      case Op::minimum:
        return builder_.pointwise(Op::logical_and, {inputs_[0], inputs_[1]}, DType::boolean);
      case Op::logical_or:
      case Op::add:
      case Op::maximum:
        return builder_.pointwise(Op::logical_or, {inputs_[0], inputs_[1]}, DType::boolean);
      case Op::where:
        return either(inputs_[0], inputs_[1], inputs_[2]);
      default:  // comparisons, as 0 and 1
        return builder_.pointwise(value_.op, {inputs_[0], inputs_[1]}, DType::boolean);
    }
  }

  std::uint32_t either(std::uint32_t condition, std::uint32_t a, std::uint32_t b) {
    const std::uint32_t first = builder_.pointwise(Op::logical_and, {condition, a}, DType::boolean);
    const std::uint32_t other = builder_.pointwise(Op::logical_not, {condition}, DType::boolean);
    const std::uint32_t second = builder_.pointwise(Op::logical_and, {other, b}, DType::boolean);
    return builder_.pointwise(Op::logical_or, {first, second}, DType::boolean);
  }

  /// cuDNN computes integers in float32: exact for 8 bits where nothing leaves their range, and not for more.
  void check_exact() const {
    const DType d = value_.operand;
    if (!is_integer(d) || value_.op == Op::cast) return;
    const bool stays = value_.op == Op::maximum || value_.op == Op::minimum || value_.op == Op::where ||
                       value_.op == Op::clamp || value_.op == Op::relu || value_.op == Op::copy ||
                       row_of(value_.op).rule == TypeRule::compare || value_.op == Op::ceil ||
                       value_.op == Op::floor || (value_.op == Op::abs && d == DType::uint8);
    const bool narrow = d == DType::int8 || d == DType::uint8;
    if (!narrow || !stays)
      throw NotLowered{text(name_of(value_.op), " of ", d,
                            " is computed in float32 by cuDNN, which is not exact; "
                            "cast to a floating-point dtype first")};
  }

  GraphBuilder& builder_;
  const Value& value_;
  std::vector<std::uint32_t> inputs_;
  std::span<const DType> dtypes_;
  bool accurate_;
};

}  // namespace

std::uint32_t lower_pointwise(GraphBuilder& builder, const Value& value,
                              std::span<const std::uint32_t> inputs, std::span<const DType> dtypes,
                              bool accurate) {
  return PointwiseLowering(builder, value, inputs, dtypes, accurate).run();
}

}  // namespace stiletto::detail::cudnn
