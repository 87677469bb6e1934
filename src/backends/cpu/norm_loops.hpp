// SPDX-License-Identifier: Apache-2.0
// The inner loops of normalisation, on adjacent elements in the compute type. Sums are in double, in a fixed
// number of lanes, so that every instruction set adds in the same order.
#pragma once
#include <cstdint>

namespace stiletto::detail::cpu {

/// A mean as the sum of two numbers: beside a mean of 40000 the spread may be a few of its last places.
template <class T>
struct Mean {
  T high = 0, low = 0;

  static Mean of(double value) {
    const T high = static_cast<T>(value);
    return {high, static_cast<T>(value - static_cast<double>(high))};
  }
};

template <class T>
struct NormLoops {
  static double sum(const T* x, std::int64_t n);
  /// Of (x − mean)².
  static double squares(const T* x, std::int64_t n, Mean<T> mean);
  /// y = (x − mean)·factor·scale + bias. bias may be null.
  static void normalise(T* y, const T* x, std::int64_t n, Mean<T> mean, T factor, const T* scale,
                        const T* bias);
  /// The same with one number each.
  static void transform(T* y, const T* x, std::int64_t n, Mean<T> mean, T factor, T bias);
  /// Adds the sums of g and g·(x − mean), g = dy·scale, or dy where scale is null.
  static void add_gradient_sums(double (&sums)[2], const T* dy, const T* x, const T* scale, std::int64_t n,
                                T mean);
  /// dx = (g − offset − (x − mean)·slope)·factor
  struct Gradient {
    T mean, offset, slope, factor;
  };
  static void gradient(T* dx, const T* dy, const T* x, const T* scale, std::int64_t n, Gradient by);
  /// dscale += dy·(x − mean)·factor and, unless it is null, dbias += dy, element by element.
  static void add_columns(double* dscale, double* dbias, const T* dy, const T* x, std::int64_t n, T mean,
                          T factor);
};

extern template struct NormLoops<float>;
extern template struct NormLoops<double>;

}  // namespace stiletto::detail::cpu
