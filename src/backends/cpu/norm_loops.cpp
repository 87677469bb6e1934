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

constexpr int lanes = 32;  // of a sum, whatever the processor's vectors

/// As many T as doubles fit into `bytes`.
template <class T, int bytes>
using Vector [[gnu::vector_size(bytes / 8 * sizeof(T))]] = T;

/// Into a parameter: how a vector is returned depends on the instruction set.
template <class V, class T>
[[gnu::always_inline]] inline void load_vector(V& v, const T* x) {
  std::memcpy(&v, x, sizeof v);
}

/// Sums of doubles in lanes.
template <int bytes>
struct Sums {
  using Wide = Vector<double, bytes>;
  static constexpr int width = bytes / 8, vectors = lanes / width;
  Wide vector[vectors] = {};

  [[gnu::always_inline]] double total() const {
    double lane[lanes];
    std::memcpy(lane, vector, sizeof lane);
    for (int half = lanes / 2; half > 0; half /= 2)
      for (int i = 0; i < half; ++i) lane[i] += lane[i + half];
    return lane[0];
  }
};

template <class T>
struct SumLoop {
  template <int bytes>
  [[gnu::always_inline]] static void run(double* out, const T* x, std::int64_t n) {
    using Lanes = Sums<bytes>;
    Lanes sums;
    std::int64_t i = 0;
    for (; i + lanes <= n; i += lanes)
#pragma GCC unroll 16
      for (int part = 0; part < Lanes::vectors; ++part) {
        Vector<T, bytes> v;
        load_vector(v, x + i + part * Lanes::width);
        sums.vector[part] += __builtin_convertvector(v, typename Lanes::Wide);
      }
    double sum = sums.total();
    for (; i < n; ++i) sum += static_cast<double>(x[i]);
    *out = sum;
  }
};

template <class T>
struct SquaresLoop {
  template <int bytes>
  [[gnu::always_inline]] static void run(double* out, const T* x, std::int64_t n, Mean<T> mean) {
    using Lanes = Sums<bytes>;
    Lanes sums;
    std::int64_t i = 0;
    for (; i + lanes <= n; i += lanes)
#pragma GCC unroll 16
      for (int part = 0; part < Lanes::vectors; ++part) {
        Vector<T, bytes> v;
        load_vector(v, x + i + part * Lanes::width);
        const auto d = __builtin_convertvector(v - mean.high - mean.low, typename Lanes::Wide);
        sums.vector[part] += d * d;
      }
    double sum = sums.total();
    for (; i < n; ++i) {
      const double d = static_cast<double>(x[i] - mean.high - mean.low);
      sum += d * d;
    }
    *out = sum;
  }
};

template <class T>
struct NormaliseLoop {
  template <int bytes>
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
  template <int bytes>
  [[gnu::always_inline]] static void run(T* y, const T* x, std::int64_t n, Mean<T> mean, T factor, T bias) {
    STILETTO_INDEPENDENT
    for (std::int64_t i = 0; i < n; ++i) y[i] = (x[i] - mean.high - mean.low) * factor + bias;
  }
};

template <class T, bool scaled>
struct GradientSumsLoop {
  template <int bytes>
  [[gnu::always_inline]] static void run(double* out, const T* dy, const T* x, const T* scale, std::int64_t n,
                                         T mean) {
    using Lanes = Sums<bytes>;
    Lanes sums, products;
    std::int64_t i = 0;
    for (; i + lanes <= n; i += lanes)
#pragma GCC unroll 16
      for (int part = 0; part < Lanes::vectors; ++part) {
        const std::int64_t at = i + part * Lanes::width;
        Vector<T, bytes> g, v, factor;
        load_vector(g, dy + at);
        load_vector(v, x + at);
        if constexpr (scaled) {
          load_vector(factor, scale + at);
          g *= factor;
        }
        const auto wide = __builtin_convertvector(g, typename Lanes::Wide);
        sums.vector[part] += wide;
        products.vector[part] += wide * __builtin_convertvector(v - mean, typename Lanes::Wide);
      }
    double sum = sums.total(), product = products.total();
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
  template <int bytes>
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
  template <int bytes>
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
