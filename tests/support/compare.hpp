// SPDX-License-Identifier: Apache-2.0
// Whether a result agrees with the reference: the tolerances of semantics.md ("Numbers"), relative to the
// reference's largest finite magnitude, widened where a GPU computed (device_results.hpp); NaN where the
// reference is NaN, the same infinities, integers exactly.
#pragma once
#include <gtest/gtest.h>

#include <cmath>
#include <sstream>
#include <string>

#include "support/layouts.hpp"

namespace support {

/// `terms`: how many values were accumulated.
inline Real tolerance(DType dtype, Real terms = 1) {
  switch (dtype) {
    case DType::float64:
      return Real{1e-14L} * std::sqrt(terms);
    case DType::float32:
      return Real{1e-6L} * std::sqrt(terms);
    case DType::float16:
      return std::fmax(Real{2e-3L}, Real{1e-6L} * std::sqrt(terms));
    case DType::bfloat16:
      return std::fmax(Real{1.6e-2L}, Real{1e-6L} * std::sqrt(terms));
    case DType::float8_e4m3:
      return 1 / Real{16};
    case DType::float8_e5m2:
    case DType::float4_e2m1:
      return 1 / Real{8};
    default:
      return 0;
  }
}

/// Half the distance between the smallest values: what rounding a subnormal result costs.
inline Real half_step(DType dtype) {
  if (is_exact(dtype)) return 0;
  if (dtype == DType::float64) return std::ldexp(Real{1}, -1075);
  if (dtype == DType::float32) return std::ldexp(Real{1}, -150);
  const Format format = format_of(dtype);
  return std::ldexp(Real{1}, -format.bias - format.mantissa_bits);
}

struct Allowance {
  Real terms = 1;      // accumulated values
  Real factor = 1;     // on top, where the reference's definition is itself ill-conditioned
  Real absolute = 0;   // added to the bound
  bool exact = false;  // compare with the rounded reference, sign of zero included
};

/// `actual` against `expected`, whose values need not be rounded to its dtype.
inline testing::AssertionResult agrees(const Tensor& actual, const Tensor& expected,
                                       Allowance allowance = {}) {
  if (actual.dtype != expected.dtype)
    return testing::AssertionFailure() << "dtype " << stiletto::to_string(actual.dtype) << " instead of "
                                       << stiletto::to_string(expected.dtype);
  if (actual.shape != expected.shape)
    return testing::AssertionFailure()
           << "shape " << describe(actual.shape) << " instead of " << describe(expected.shape);
  const DType dtype = expected.dtype;
  Real largest = 0;
  std::vector<Real> wanted = expected.values;
  for (Real& value : wanted) {
    const Real rounded = is_exact(dtype) ? value : round_float(value, dtype);
    if (std::isfinite(value) && std::isfinite(rounded)) largest = std::fmax(largest, std::fabs(value));
    if (allowance.exact || !std::isfinite(rounded)) value = rounded;
  }
  const Slack& slack = actual.slack;
  const Real relative = std::fmax(tolerance(dtype, allowance.terms), slack.relative) * slack.factor;
  const Real bound =
      largest * relative * allowance.factor + half_step(dtype) + allowance.absolute + slack.absolute;
  std::size_t wrong = 0;
  std::ostringstream text;
  text.precision(12);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const Real a = actual.values[i], e = wanted[i];
    bool good = false;
    if (std::isnan(e) || std::isnan(a))
      good = std::isnan(e) && std::isnan(a);
    else if (std::isinf(e) || std::isinf(a) || is_exact(dtype))
      good = a == e;
    else if (allowance.exact)
      good = a == e && std::signbit(a) == std::signbit(e);
    else
      good = std::fabs(a - e) <= bound;
    if (!good && wrong++ < 3)
      text << "\n  element " << i << ": " << static_cast<double>(a) << " instead of "
           << static_cast<double>(e);
  }
  if (wrong == 0) return testing::AssertionSuccess();
  return testing::AssertionFailure() << wrong << " of " << wanted.size() << " elements of "
                                     << stiletto::to_string(dtype) << describe(expected.shape)
                                     << " differ by more than " << static_cast<double>(bound) << ":"
                                     << text.str();
}

inline testing::AssertionResult agrees(const Array& actual, const Tensor& expected,
                                       Allowance allowance = {}) {
  return agrees(read(actual), expected, allowance);
}

/// Whether the storage that the operand's view does not show is as it was.
inline testing::AssertionResult beside_is_untouched(const Operand& d, const Tensor& before) {
  Tensor now = read(d.storage);
  for_each_index(extents(d.array.shape()), [&](const Extents& index) {
    const auto at = static_cast<std::size_t>(d.placement.offset + dot(index, d.placement.strides));
    now.values[at] = before.values[at];
  });
  return agrees(now, before, {.exact = true});
}

/// Values, for tests that spell them out.
inline Tensor values_of(DType dtype, Extents shape, std::vector<Real> values) {
  return Tensor(dtype, std::move(shape), std::move(values));
}

inline testing::AssertionResult equals(const Array& actual, DType dtype, const Extents& shape,
                                       const std::vector<Real>& values) {
  return agrees(actual, Tensor(dtype, shape, values), {.exact = true});
}

}  // namespace support
