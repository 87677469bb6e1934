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

/// The share of a standard normal distribution above a ≥ 0, accurate relative to itself however small it is.
inline double upper_tail(double a) { return 0.5 * erfc(a * 0.70710678118654752440); }

/// e^(−a²/2)·t·p(t) with t = 1/(1 + 0.27·a). p is this project's own minimax fit (Remez exchange in extended
/// precision, on the relative error of the result, 0 ≤ a ≤ 15): 2.4e-8. Half the time of libmvec's erfcf.
inline float upper_tail(float a) {
  const float t = 1.0f / (1.0f + 0.27f * a);
  float p = 0.02899550231f;
  p = p * t - 0.1266586478f;
  p = p * t + 0.1701560751f;
  p = p * t - 0.06965061688f;
  p = p * t + 0.1081425254f;
  p = p * t + 0.07190833842f;
  p = p * t + 0.1018485593f;
  p = p * t + 0.1075372723f;
  p = p * t + 0.1077210037f;
  const float root = exp(-0.25f * a * a);  // its square underflows at once, exp would on a slow path
  return root * (root * (t * p));
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
