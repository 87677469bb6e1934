// SPDX-License-Identifier: Apache-2.0
// The attention kernels of one instruction set: attention_kernels_<set>.cpp defines STILETTO_KERNEL_SET, the
// namespace, STILETTO_VECTOR_BYTES and STILETTO_TILE_VECTORS, and includes this. As in kernels.inl, all code
// has internal linkage. Products are contracted to fused multiply-adds where the set has them.
#include <cstddef>
#include <cstdint>
#include <utility>

#include "backends/cpu/attention_kernels.hpp"

namespace stiletto::detail::cpu::STILETTO_KERNEL_SET {
namespace {

using Index = std::int64_t;

template <class T>
struct VectorOf;
template <>
struct VectorOf<float> {
  using Type __attribute__((vector_size(STILETTO_VECTOR_BYTES))) = float;
  using Integer __attribute__((vector_size(STILETTO_VECTOR_BYTES))) = std::int32_t;
};
template <>
struct VectorOf<double> {
  using Type __attribute__((vector_size(STILETTO_VECTOR_BYTES))) = double;
  using Integer __attribute__((vector_size(STILETTO_VECTOR_BYTES))) = std::int64_t;
};
template <class T>
using Vector = typename VectorOf<T>::Type;
template <class T>
inline constexpr Index width = STILETTO_VECTOR_BYTES / sizeof(T);
inline constexpr Index tile_rows = 6;

template <class T>
[[gnu::always_inline]] inline Vector<T> load(const T* p) {
  using Unaligned __attribute__((aligned(alignof(T)), may_alias)) = Vector<T>;
  return *reinterpret_cast<const Unaligned*>(p);
}
template <class T>
[[gnu::always_inline]] inline void store(T* p, Vector<T> v) {
  using Unaligned __attribute__((aligned(alignof(T)), may_alias)) = Vector<T>;
  *reinterpret_cast<Unaligned*>(p) = v;
}

// ---- products

/// Expanded by hand: the sums stay in registers only when every index is a constant.
template <class T, bool transposed, int vectors, int... sum, int... vector>
[[gnu::always_inline]] inline void tile(const Product<T>& p, const T* a, Index row, Index lane,
                                        std::integer_sequence<int, sum...>,
                                        std::integer_sequence<int, vector...>) {
  const Index a_step = p.a_step, b_step = p.b_step, c_step = p.c_step;
  const T* b = p.b + lane;
  T* const c = p.c + row * c_step + lane;
  Vector<T> sums[] = {(static_cast<void>(sum), Vector<T>{})...};
  if (p.start != Start::zero)
    ((sums[sum] = load(c + sum / vectors * c_step + sum % vectors * width<T>)), ...);
  if (p.start == Start::scaled) ((sums[sum] *= load(p.factor + lane + sum % vectors * width<T>)), ...);
  for (Index k = p.depth; k > 0; --k, a += transposed ? a_step : 1, b += b_step) {
    const Vector<T> row[] = {load(b + vector * width<T>)...};
    ((sums[sum] += a[transposed ? sum / vectors : sum / vectors * a_step] * row[sum % vectors]), ...);
  }
  (store(c + sum / vectors * c_step + sum % vectors * width<T>, sums[sum]), ...);
}

template <class T, bool transposed, int vectors, int rows>
void tile_of(const Product<T>& p, Index row, Index lane) {
  const T* const a = p.a + (transposed ? row : row * p.a_step);
  tile<T, transposed, vectors>(p, a, row, lane, std::make_integer_sequence<int, rows * vectors>(),
                               std::make_integer_sequence<int, vectors>());
}

template <class T, bool transposed, int vectors>
void column(const Product<T>& p, Index lane) {
  Index i = 0;
  for (; i + tile_rows <= p.rows; i += tile_rows) tile_of<T, transposed, vectors, tile_rows>(p, i, lane);
  switch (p.rows - i) {
    case 5:
      return tile_of<T, transposed, vectors, 5>(p, i, lane);
    case 4:
      return tile_of<T, transposed, vectors, 4>(p, i, lane);
    case 3:
      return tile_of<T, transposed, vectors, 3>(p, i, lane);
    case 2:
      return tile_of<T, transposed, vectors, 2>(p, i, lane);
    case 1:
      return tile_of<T, transposed, vectors, 1>(p, i, lane);
    default:
      return;
  }
}

template <class T, bool transposed>
void multiply(const Product<T>& p) {
  constexpr Index block = STILETTO_TILE_VECTORS * width<T>;
  Index lane = 0;
  for (; lane + block <= p.lanes; lane += block) column<T, transposed, STILETTO_TILE_VECTORS>(p, lane);
  for (; lane < p.lanes; lane += width<T>) column<T, transposed, 1>(p, lane);
}

// ---- transposition

/// Each of log2(lanes) rounds interleaves the lower half of the rows with the upper one.
template <class T, int... lane>
[[gnu::always_inline]] inline void transpose_square(const T* in, Index in_step, T* out, Index out_step,
                                                    const T* factor, std::integer_sequence<int, lane...>) {
  constexpr int n = sizeof...(lane);
  Vector<T> rows[] = {load(in + lane * in_step)...};
  if (factor != nullptr) ((rows[lane] *= load(factor)), ...);
  for (int round = 1; round < n; round *= 2) {
    Vector<T> next[n];
    ((next[lane] = lane % 2 == 0 ? __builtin_shufflevector(rows[lane / 2], rows[lane / 2 + n / 2],
                                                           (lane / 2 + lane % 2 * n)...)
                                 : __builtin_shufflevector(rows[lane / 2], rows[lane / 2 + n / 2],
                                                           (n / 2 + lane / 2 + lane % 2 * n)...)),
     ...);
    ((rows[lane] = next[lane]), ...);
  }
  (store(out + lane * out_step, rows[lane]), ...);
}

template <class T>
void transpose(const Transpose<T>& t) {
  for (Index row = 0; row < t.rows; row += width<T>)
    for (Index column = 0; column < t.columns; column += width<T>)
      transpose_square<T>(t.in + row * t.in_step + column, t.in_step, t.out + column * t.out_step + row,
                          t.out_step, t.factor == nullptr ? nullptr : t.factor + column,
                          std::make_integer_sequence<int, static_cast<int>(width<T>)>());
}

// ---- exponentials

/// 2^x = 2^n·2^f with n whole and |f| <= ½. 2^f − 1 is f times the polynomial through its quotient's values
/// at Chebyshev's nodes: off by 5e-9 and 1e-19.
template <class T>
struct Exponential;
template <>
struct Exponential<float> {
  static constexpr float lowest = -127, highest = 128, whole = 12582912;  // 1.5·2²³: rounds what is added
  static constexpr int bias = 127, shift = 23;
  static constexpr float coefficients[] = {0.00015453162945F, 0.00133908633647F, 0.00961808255728F,
                                           0.05550357114219F, 0.24022650760568F, 0.69314718802623F};
};
template <>
struct Exponential<double> {
  static constexpr double lowest = -1023, highest = 1024, whole = 6755399441055744;  // 1.5·2⁵²
  static constexpr std::int64_t bias = 1023, shift = 52;
  static constexpr double coefficients[] = {
      2.5729324177362305e-11, 4.4558179083360645e-10, 7.0548973041554995e-09, 1.0178057087733941e-07,
      1.3215486808705563e-06, 1.5252733841556773e-05, 0.00015403530393370734, 0.0013333558146406471,
      0.0096181291076284803,  0.055504108664821625,   0.24022650695910072,    0.69314718055994529};
};

/// NaN stays NaN. What would be subnormal is 0: at −127 the power's bits are those of 0.
template <class T>
[[gnu::always_inline]] inline Vector<T> exp2(Vector<T> x) {
  using E = Exponential<T>;
  using Integer = typename VectorOf<T>::Integer;
  x = x < E::lowest ? E::lowest - Vector<T>{} : x;
  const Vector<T> shifted = x + E::whole;
  const Vector<T> f = x - (shifted - E::whole);
  Vector<T> p{};
  for (const T coefficient : E::coefficients) p = p * f + coefficient;
  p = p * f + T{1};
  const Integer power = (__builtin_bit_cast(Integer, shifted) + E::bias) << E::shift;
  return p * __builtin_bit_cast(Vector<T>, power);
}

template <class T>
inline constexpr T log2_e = static_cast<T>(1.4426950408889634074);
template <class T>
inline constexpr T infinity = static_cast<T>(__builtin_inf());

template <class T>
[[gnu::always_inline]] inline auto seen(Vector<T> first, Vector<T> last, Index key) {
  const Vector<T> j = static_cast<T>(key) - Vector<T>{};
  return (j >= first) & (j < last);
}

/// Bias and mask applied to one vector of scores.
template <class T, bool masked, bool biased>
[[gnu::always_inline]] inline Vector<T> score(const ScoreTile<T>& t, Index key, Index lane, Vector<T> first,
                                              Vector<T> last) {
  Vector<T> s = load(t.scores + key * t.lanes + lane);
  if constexpr (biased) s += load(t.bias + key * t.lanes + lane) * log2_e<T>;
  if constexpr (masked) s = seen<T>(first, last, key) ? s : -infinity<T> - Vector<T>{};
  return s;
}

template <class T, bool masked, bool biased>
void softmax_lanes(const SoftmaxTile<T>& t, Index lane) {
  Vector<T> first{}, last{};
  if constexpr (masked) first = load(t.first + lane), last = load(t.last + lane);
  const Vector<T> old_maximum = load(t.maximum + lane);
  Vector<T> even = old_maximum, odd = old_maximum;
  const auto add_to = [&](Vector<T>& maximum, Index key) {
    const Vector<T> s = score<T, masked, biased>(t, key, lane, first, last);
    if constexpr (masked || biased) store(t.scores + key * t.lanes + lane, s);
    maximum = maximum > s ? maximum : s;
  };
  for (Index key = 0; key + 1 < t.keys; key += 2) {
    add_to(even, key);
    add_to(odd, key + 1);
  }
  if (t.keys % 2 != 0) add_to(even, t.keys - 1);
  const Vector<T> maximum = even > odd ? even : odd;
  // Of scores that are all −infinity, differences would be NaN.
  const Vector<T> reference = maximum == -infinity<T> ? Vector<T>{} : maximum;
  Vector<T> sum{};
  for (Index key = 0; key < t.keys; ++key) {
    T* const s = t.scores + key * t.lanes + lane;
    const Vector<T> e = exp2<T>(load(s) - reference);
    store(s, e);
    sum += e;
  }
  const Vector<T> correction = exp2<T>(old_maximum - reference);
  store(t.maximum + lane, maximum);
  store(t.correction + lane, correction);
  store(t.sum + lane, load(t.sum + lane) * correction + sum);
}

template <class T, bool masked, bool biased>
void gradient_lanes(const GradientTile<T>& t, Index lane) {
  Vector<T> first{}, last{};
  if constexpr (masked) first = load(t.first + lane), last = load(t.last + lane);
  const Vector<T> log_sum = load(t.log_sum + lane), delta = load(t.delta + lane);
  constexpr T highest = Exponential<T>::highest;
  for (Index key = 0; key < t.keys; ++key) {
    const Index at = key * t.lanes + lane;
    const Vector<T> x = score<T, masked, biased>(t, key, lane, first, last) - log_sum;
    Vector<T> p = exp2<T>(x > highest ? highest - Vector<T>{} : x);
    Vector<T> d = p * (load(t.d_scores + at) - delta);
    if constexpr (masked) {
      const auto visible = seen<T>(first, last, key);
      p = visible ? p : Vector<T>{};
      d = visible ? d : Vector<T>{};
    }
    store(t.scores + at, p);
    store(t.d_scores + at, d);
  }
}

template <class T>
void softmax(const SoftmaxTile<T>& t) {
  const bool masked = t.first != nullptr, biased = t.bias != nullptr;
  const auto run = masked ? (biased ? softmax_lanes<T, true, true> : softmax_lanes<T, true, false>)
                          : (biased ? softmax_lanes<T, false, true> : softmax_lanes<T, false, false>);
  for (Index lane = 0; lane < t.lanes; lane += width<T>) run(t, lane);
}

template <class T>
void gradient(const GradientTile<T>& t) {
  const bool masked = t.first != nullptr, biased = t.bias != nullptr;
  const auto run = masked ? (biased ? gradient_lanes<T, true, true> : gradient_lanes<T, true, false>)
                          : (biased ? gradient_lanes<T, false, true> : gradient_lanes<T, false, false>);
  for (Index lane = 0; lane < t.lanes; lane += width<T>) run(t, lane);
}

template <class T>
bool finite(const T* values, Index count) {
  Vector<T> probe{};  // infinity·0 and NaN·0 are NaN
  for (Index i = 0; i < count; i += width<T>) probe += load(values + i) * T{0};
  for (Index i = 0; i < width<T>; ++i)
    if (probe[i] != 0) return false;
  return true;
}

// ---- dropout

/// Philox4x32-10 of as many counters as fit a vector: loops over lanes, which the compiler makes vectors of.
template <Index lanes>
struct Philox {
  std::uint32_t words[4][lanes];

  void begin(const std::uint64_t* counters, std::uint64_t step) {
    for (Index i = 0; i < lanes; ++i) {
      const std::uint64_t counter = counters[i] + step;
      words[0][i] = static_cast<std::uint32_t>(counter);
      words[1][i] = static_cast<std::uint32_t>(counter >> 32U);
      words[2][i] = words[3][i] = 0;
    }
  }
  void run(std::uint64_t seed) {
    auto low_key = static_cast<std::uint32_t>(seed), high_key = static_cast<std::uint32_t>(seed >> 32U);
    for (int round = 0; round < 10; ++round, low_key += 0x9E3779B9U, high_key += 0xBB67AE85U)
      for (Index i = 0; i < lanes; ++i) {
        const std::uint64_t a = std::uint64_t{0xD2511F53U} * words[0][i];
        const std::uint64_t b = std::uint64_t{0xCD9E8D57U} * words[2][i];
        words[0][i] = static_cast<std::uint32_t>(b >> 32U) ^ words[1][i] ^ low_key;
        words[1][i] = static_cast<std::uint32_t>(b);
        words[2][i] = static_cast<std::uint32_t>(a >> 32U) ^ words[3][i] ^ high_key;
        words[3][i] = static_cast<std::uint32_t>(a);
      }
  }
};

template <class T>
void draw(const DrawTile<T>& t) {
  constexpr Index lanes = vector_lanes<T>;
  Philox<lanes> generator;
  for (Index key = 0; key < t.keys; key += draws_per_counter)
    for (Index lane = 0; lane < t.lanes; lane += lanes) {
      generator.begin(t.counters + lane, static_cast<std::uint64_t>(t.first_key + key));
      generator.run(t.seed);
      for (Index word = 0; word < draws_per_counter; ++word) {
        T* const factors = t.factors + (key + word) * t.lanes + lane;
        for (Index i = 0; i < lanes; ++i) factors[i] = generator.words[word][i] < t.threshold ? T{0} : t.kept;
      }
    }
}

template <class T>
void scale(T* values, const T* factors, Index count) {
  for (Index i = 0; i < count; i += width<T>) store(values + i, load(values + i) * load(factors + i));
}

template <class T>
constexpr AttentionKernels<T> make_table() {
  return {multiply<T, false>, multiply<T, true>, transpose<T>, softmax<T>,
          gradient<T>,        finite<T>,         draw<T>,      scale<T>};
}

}  // namespace

extern constinit const AttentionKernels<float> attention_table_float = make_table<float>();
extern constinit const AttentionKernels<double> attention_table_double = make_table<double>();

}  // namespace stiletto::detail::cpu::STILETTO_KERNEL_SET
