// SPDX-License-Identifier: Apache-2.0
// The elementary functions the kernels are made of, for float and double. With GCC and glibc a loop over one
// of them calls glibc's vector mathematics library (libmvec, at most 4 units in the last place off);
// elsewhere the scalar function. Included by kernels.inl.

#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__)
#if __GLIBC_PREREQ(2, 22)
#define STILETTO_LIBMVEC_2_22
#endif
#if __GLIBC_PREREQ(2, 35)
#define STILETTO_LIBMVEC_2_35
#endif
#endif

namespace math {

// Declared afresh under other names: <math.h> declares its own as vectorisable under -ffast-math only.
#define STILETTO_VECTOR [[gnu::simd("notinbranch"), gnu::const]]
#define STILETTO_VECTOR_FUNCTION(name)                                                  \
  extern "C" STILETTO_VECTOR float vector_##name##f(float) noexcept __asm__(#name "f"); \
  extern "C" STILETTO_VECTOR double vector_##name(double) noexcept __asm__(#name);      \
  inline float name(float x) { return vector_##name##f(x); }                            \
  inline double name(double x) { return vector_##name(x); }
#define STILETTO_VECTOR_FUNCTION_2(name)                                                       \
  extern "C" STILETTO_VECTOR float vector_##name##f(float, float) noexcept __asm__(#name "f"); \
  extern "C" STILETTO_VECTOR double vector_##name(double, double) noexcept __asm__(#name);     \
  inline float name(float x, float y) { return vector_##name##f(x, y); }                       \
  inline double name(double x, double y) { return vector_##name(x, y); }
#define STILETTO_SCALAR_FUNCTION(name)                          \
  inline float name(float x) { return __builtin_##name##f(x); } \
  inline double name(double x) { return __builtin_##name(x); }
#define STILETTO_SCALAR_FUNCTION_2(name)                                    \
  inline float name(float x, float y) { return __builtin_##name##f(x, y); } \
  inline double name(double x, double y) { return __builtin_##name(x, y); }

#if defined(STILETTO_LIBMVEC_2_22)
STILETTO_VECTOR_FUNCTION(exp)
STILETTO_VECTOR_FUNCTION(log)
STILETTO_VECTOR_FUNCTION(sin)
STILETTO_VECTOR_FUNCTION(cos)
STILETTO_VECTOR_FUNCTION_2(pow)
#else
STILETTO_SCALAR_FUNCTION(exp)
STILETTO_SCALAR_FUNCTION(log)
STILETTO_SCALAR_FUNCTION(sin)
STILETTO_SCALAR_FUNCTION(cos)
STILETTO_SCALAR_FUNCTION_2(pow)
#endif

#if defined(STILETTO_LIBMVEC_2_35)
STILETTO_VECTOR_FUNCTION(tan)
STILETTO_VECTOR_FUNCTION(tanh)
STILETTO_VECTOR_FUNCTION(erf)
STILETTO_VECTOR_FUNCTION(erfc)
STILETTO_VECTOR_FUNCTION(expm1)
STILETTO_VECTOR_FUNCTION(log1p)
STILETTO_VECTOR_FUNCTION_2(atan2)
#else
STILETTO_SCALAR_FUNCTION(tan)
STILETTO_SCALAR_FUNCTION(tanh)
STILETTO_SCALAR_FUNCTION(erf)
STILETTO_SCALAR_FUNCTION(erfc)
STILETTO_SCALAR_FUNCTION(expm1)
STILETTO_SCALAR_FUNCTION(log1p)
STILETTO_SCALAR_FUNCTION_2(atan2)
#endif

STILETTO_SCALAR_FUNCTION(sqrt)
STILETTO_SCALAR_FUNCTION(fabs)
STILETTO_SCALAR_FUNCTION(floor)
STILETTO_SCALAR_FUNCTION(ceil)
STILETTO_SCALAR_FUNCTION_2(fmod)

#undef STILETTO_VECTOR
#undef STILETTO_VECTOR_FUNCTION
#undef STILETTO_VECTOR_FUNCTION_2
#undef STILETTO_SCALAR_FUNCTION
#undef STILETTO_SCALAR_FUNCTION_2

/// a times the share of a standard normal distribution above a ≥ 0, accurate relative to itself however small
/// it is.
inline double times_upper_tail(double a) { return a * (0.5 * erfc(a * 0.70710678118654752440)); }

/// The share is e^(−a²/2)·t·p(t) with t = 1/(1 + 0.27·a). p is this project's own minimax fit (Remez exchange
/// in extended precision, on the relative error of the result, 0 ≤ a ≤ 15): 2.4e-8. The exponential is
/// 2^n·2^f with n whole and |f| ≤ ½, 2^f a polynomial through Chebyshev's nodes (2.5e-9), for n ≥ −126: a
/// ≤ 13.2.
inline float times_upper_tail(float a) {
  const float t = 1.0f / (1.0f + 0.27f * a);
  const float t2 = t * t;  // even and odd powers apart: half as long to wait for
  float even = 0.02899550231f, odd = -0.1266586478f;
  even = even * t2 + 0.1701560751f;
  odd = odd * t2 - 0.06965061688f;
  even = even * t2 + 0.1081425254f;
  odd = odd * t2 + 0.07190833842f;
  even = even * t2 + 0.1018485593f;
  odd = odd * t2 + 0.1075372723f;
  even = even * t2 + 0.1077210037f;
  const float p = odd * t + even;
  constexpr float whole = 12582912;  // 1.5·2²³: a sum with it is rounded to a whole number, its lowest bits
  const float exponent = a * a * -0.7213475204f;  // of 2
  const float shifted = exponent + whole;
  const float f = exponent - (shifted - whole);
  const float f2 = f * f;
  const float high = (0.000154614447f * f2 + 0.009618056679f) * f2 + 0.2402265092f;
  const float power = ((0.001340042818f * f2 + 0.05550327227f) * f2 + 0.6931472067f) * f + (high * f2 + 1.0f);
  const auto scale = (__builtin_bit_cast(std::uint32_t, shifted) << 23) + (std::uint32_t{127} << 23);
  return power * (a * (t * p)) *
         __builtin_bit_cast(float, scale);  // the scale last: nothing underflows before
}

/// x·sigmoid(y) for x and y of one sign. The exponential is of a negative number and cannot overflow;
/// `floor`, a value of x below which the result is 0, keeps −∞ from meeting a factor of 0.
template <class T>
inline T times_sigmoid(T x, T y, T floor) {
  constexpr T vanishes = sizeof(T) == 4 ? 170 : 1400;  // e^−y is 0 from here on; in two factors, as above
  const T size = fabs(y);
  const T root = exp(T(-0.5) * (size > vanishes ? vanishes : size));
  const T e = root * root;
  const T bounded = x < floor ? floor : x;
  return (y < 0 ? bounded * e : x) / (1 + e);
}

}  // namespace math
