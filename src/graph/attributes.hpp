// SPDX-License-Identifier: Apache-2.0
// What an operation carries besides its operands: small structs, compared member by member as part of the
// plan key.
#pragma once
#include <bit>
#include <cstdint>
#include <variant>

#include "stiletto/array.hpp"

namespace stiletto::detail {

/// A double compared by its bits, so that NaN finds its plan again and −0 is not 0.
struct ExactDouble {
  double value = 0;
  bool operator==(const ExactDouble& other) const {
    return std::bit_cast<std::uint64_t>(value) == std::bit_cast<std::uint64_t>(other.value);
  }
};

struct LeafAttributes {  // argument, capture, scalar: position in the trace's list
  std::uint32_t index = 0;
  bool operator==(const LeafAttributes&) const = default;
};
struct ViewAttributes {  // shape and strides are the node's own
  std::int64_t offset = 0;
  bool operator==(const ViewAttributes&) const = default;
};
struct CoefficientAttributes {  // leaky_relu's slope, clipped_relu's bound, elu's alpha
  ExactDouble coefficient;
  bool operator==(const CoefficientAttributes&) const = default;
};
struct ReductionAttributes {  // axes sorted, none negative; softmax has one
  Dims axes;
  bool keep_dims = false;
  bool operator==(const ReductionAttributes&) const = default;
};
struct MatmulAttributes {  // alpha·a·b (+ beta·c, when there is a third operand)
  ExactDouble alpha{1}, beta{0};
  bool operator==(const MatmulAttributes&) const = default;
};
struct PermuteAttributes {
  Dims axes;
  bool operator==(const PermuteAttributes&) const = default;
};

using Attributes = std::variant<std::monostate, LeafAttributes, ViewAttributes, CoefficientAttributes,
                                ReductionAttributes, MatmulAttributes, PermuteAttributes>;

}  // namespace stiletto::detail
