// SPDX-License-Identifier: Apache-2.0
// The loops of norm_loops.hpp, each compiled for three instruction sets.
#include "backends/cpu/norm_loops.hpp"

#include <cstring>

#include "backends/cpu/instruction_sets.hpp"

#if defined(__clang__)
#define STILETTO_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define STILETTO_INDEPENDENT _Pragma("GCC ivdep")
#endif

namespace stiletto::detail::cpu {
namespace {

constexpr int lanes = 16;

/// 16 elements, and the same in double; the compiler cuts them into what the processor has.
template <class T>
using Vector [[gnu::vector_size(lanes * sizeof(T))]] = T;
using Sums = Vector<double>;

/// Into a parameter: how a vector is returned depends on the instruction set.
template <class V, class T>
[[gnu::always_inline]] inline void load_vector(V& v, const T* x) {
  std::memcpy(&v, x, sizeof v);
}

[[gnu::always_inline]] inline double total(const Sums& sums) {
  double lane[lanes];
  std::memcpy(lane, &sums, sizeof sums);
  for (int half = lanes / 2; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) lane[i] += lane[i + half];
  return lane[0];
}

template <class T>
struct SumLoop {
  [[gnu::always_inline]] static void run(double* out, const T* x, std::int64_t n) {
    Sums sums{};
    std::int64_t i = 0;
    for (; i + lanes <= n; i += lanes) {
      Vector<T> v;
      load_vector(v, x + i);
      sums += __builtin_convertvector(v, Sums);
    }
    double sum = total(sums);
    for (; i < n; ++i) sum += static_cast<double>(x[i]);
    *out = sum;
  }
};

template <class T>
struct SquaresLoop {
  [[gnu::always_inline]] static void run(double* out, const T* x, std::int64_t n, Mean<T> mean) {
    Sums sums{};
    std::int64_t i = 0;
    for (; i + lanes <= n; i += lanes) {
      Vector<T> v;
      load_vector(v, x + i);
      const Sums d = __builtin_convertvector(v - mean.high - mean.low, Sums);
      sums += d * d;
    }
    double sum = total(sums);
    for (; i < n; ++i) {
      const double d = static_cast<double>(x[i] - mean.high - mean.low);
      sum += d * d;
    }
    *out = sum;
  }
};

template <class T>
struct NormaliseLoop {
  [[gnu::always_inline]] static void run(T* y, const T* x, std::int64_t n, Mean<T> mean, T factor,
                                         const T* scale, const T* bias) {
    if (bias == nullptr) {
      STILETTO_INDEPENDENT
      for (std::int64_t i = 0; i < n; ++i) y[i] = (x[i] - mean.high - mean.low) * factor * scale[i];
    } else {
      STILETTO_INDEPENDENT
      for (std::int64_t i = 0; i < n; ++i) y[i] = (x[i] - mean.high - mean.low) * factor * scale[i] + bias[i];
    }
  }
};

template <class T>
struct TransformLoop {
  [[gnu::always_inline]] static void run(T* y, const T* x, std::int64_t n, Mean<T> mean, T factor, T bias) {
    STILETTO_INDEPENDENT
    for (std::int64_t i = 0; i < n; ++i) y[i] = (x[i] - mean.high - mean.low) * factor + bias;
  }
};

template <class T, bool scaled>
struct GradientSumsLoop {
  [[gnu::always_inline]] static void run(double* out, const T* dy, const T* x, const T* scale, std::int64_t n,
                                         T mean) {
    Sums sums{}, products{};
    std::int64_t i = 0;
    for (; i + lanes <= n; i += lanes) {
      Vector<T> g, v, factor;
      load_vector(g, dy + i);
      load_vector(v, x + i);
      if constexpr (scaled) {
        load_vector(factor, scale + i);
        g *= factor;
      }
      const Sums wide = __builtin_convertvector(g, Sums);
      sums += wide;
      products += wide * __builtin_convertvector(v - mean, Sums);
    }
    double sum = total(sums), product = total(products);
    for (; i < n; ++i) {
      const double g = static_cast<double>(scaled ? dy[i] * scale[i] : dy[i]);
      sum += g;
      product += g * static_cast<double>(x[i] - mean);
    }
    out[0] += sum;
    out[1] += product;
  }
};

template <class T, bool scaled>
struct GradientLoop {
  [[gnu::always_inline]] static void run(T* dx, const T* dy, const T* x, const T* scale, std::int64_t n,
                                         typename NormLoops<T>::Gradient by) {
    STILETTO_INDEPENDENT
    for (std::int64_t i = 0; i < n; ++i) {
      const T g = scaled ? dy[i] * scale[i] : dy[i];
      dx[i] = (g - by.offset - (x[i] - by.mean) * by.slope) * by.factor;
    }
  }
};

template <class T>
struct ColumnsLoop {
  [[gnu::always_inline]] static void run(double* dscale, double* dbias, const T* dy, const T* x,
                                         std::int64_t n, T mean, T factor) {
    STILETTO_INDEPENDENT
    for (std::int64_t i = 0; i < n; ++i)
      dscale[i] += static_cast<double>(dy[i]) * static_cast<double>((x[i] - mean) * factor);
    if (dbias == nullptr) return;
    STILETTO_INDEPENDENT
    for (std::int64_t i = 0; i < n; ++i) dbias[i] += static_cast<double>(dy[i]);
  }
};

}  // namespace

template <class T>
double NormLoops<T>::sum(const T* x, std::int64_t n) {
  double result;
  run_best<SumLoop<T>>(&result, x, n);
  return result;
}

template <class T>
double NormLoops<T>::squares(const T* x, std::int64_t n, Mean<T> mean) {
  double result;
  run_best<SquaresLoop<T>>(&result, x, n, mean);
  return result;
}

template <class T>
void NormLoops<T>::normalise(T* y, const T* x, std::int64_t n, Mean<T> mean, T factor, const T* scale,
                             const T* bias) {
  run_best<NormaliseLoop<T>>(y, x, n, mean, factor, scale, bias);
}

template <class T>
void NormLoops<T>::transform(T* y, const T* x, std::int64_t n, Mean<T> mean, T factor, T bias) {
  run_best<TransformLoop<T>>(y, x, n, mean, factor, bias);
}

template <class T>
void NormLoops<T>::add_gradient_sums(double (&sums)[2], const T* dy, const T* x, const T* scale,
                                     std::int64_t n, T mean) {
  if (scale == nullptr)
    run_best<GradientSumsLoop<T, false>>(&sums[0], dy, x, scale, n, mean);
  else
    run_best<GradientSumsLoop<T, true>>(&sums[0], dy, x, scale, n, mean);
}

template <class T>
void NormLoops<T>::gradient(T* dx, const T* dy, const T* x, const T* scale, std::int64_t n, Gradient by) {
  if (scale == nullptr)
    run_best<GradientLoop<T, false>>(dx, dy, x, scale, n, by);
  else
    run_best<GradientLoop<T, true>>(dx, dy, x, scale, n, by);
}

template <class T>
void NormLoops<T>::add_columns(double* dscale, double* dbias, const T* dy, const T* x, std::int64_t n, T mean,
                               T factor) {
  run_best<ColumnsLoop<T>>(dscale, dbias, dy, x, n, mean, factor);
}

template struct NormLoops<float>;
template struct NormLoops<double>;

}  // namespace stiletto::detail::cpu
