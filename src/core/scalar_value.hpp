// SPDX-License-Identifier: Apache-2.0
// A number bound by value: exact as the caller wrote it (a double or a 64-bit integer), converted where it is
// used.
#pragma once
#include <cstdint>

#include "stiletto/dtype.hpp"

namespace stiletto::detail {

struct ScalarValue {
  enum class Kind : std::uint8_t { boolean, integer, real };
  Kind kind = Kind::real;
  union {
    std::int64_t integer;  // boolean and integer
    double real = 0;
  };

  static ScalarValue of(double value) {
    ScalarValue v;
    v.real = value;
    return v;
  }
  static ScalarValue of(std::int64_t value) {
    ScalarValue v;
    v.kind = Kind::integer;
    v.integer = value;
    return v;
  }
  static ScalarValue of(bool value) {
    ScalarValue v;
    v.kind = Kind::boolean;
    v.integer = value ? 1 : 0;
    return v;
  }
  double as_double() const { return kind == Kind::real ? real : static_cast<double>(integer); }
};

}  // namespace stiletto::detail
