// SPDX-License-Identifier: Apache-2.0
// The pointwise operations: for each one scalar function, and one line in the lists at the end that says for
// which registers it exists. Integers wrap on overflow; a boolean register adds by `or` and multiplies by
// `and`. Included by kernels.inl.

template <class T>
inline constexpr bool is_boolean = std::is_same_v<T, Truth>;
template <class T>
inline constexpr bool is_float = std::is_floating_point_v<T>;

/// The type in which overflow is defined: unsigned for integers, T itself for floats.
template <class T>
struct Modular {
  using type = T;
};
template <>
struct Modular<std::int32_t> {
  using type = std::uint32_t;
};
template <>
struct Modular<std::int64_t> {
  using type = std::uint64_t;
};
template <class T>
inline typename Modular<T>::type modular(T x) {
  return static_cast<typename Modular<T>::type>(x);
}

// ---- arithmetic ----

struct Add {
  template <class T>
  static T apply(T a, T b) {
    if constexpr (is_boolean<T>) {
      return a | b;
    } else {
      return static_cast<T>(modular(a) + modular(b));
    }
  }
};
struct Subtract {
  template <class T>
  static T apply(T a, T b) {
    return static_cast<T>(modular(a) - modular(b));
  }
};
struct Multiply {
  template <class T>
  static T apply(T a, T b) {
    if constexpr (is_boolean<T>) {
      return a & b;
    } else {
      return static_cast<T>(modular(a) * modular(b));
    }
  }
};
struct Divide {
  template <class T>
  static T apply(T a, T b) {
    return a / b;
  }
};
struct Negate {
  template <class T>
  static T apply(T x) {
    if constexpr (is_float<T>) {
      return -x;
    } else {
      return static_cast<T>(0 - modular(x));
    }
  }
};
struct Abs {
  template <class T>
  static T apply(T x) {
    if constexpr (is_float<T>) {
      return math::fabs(x);
    } else if constexpr (is_boolean<T>) {
      return x;
    } else {
      return x < 0 ? static_cast<T>(0 - modular(x)) : x;
    }
  }
};
struct Square {
  template <class T>
  static T apply(T x) {
    return Multiply::apply(x, x);
  }
};
struct Reciprocal {
  template <class T>
  static T apply(T x) {
    return 1 / x;
  }
};
struct Fmod {
  template <class T>
  static T apply(T a, T b) {
    if constexpr (is_float<T>) {
      return math::fmod(a, b);
    } else {
      const bool is_zero =
          b == 0 || b == -1;  // modulo −1 too: the smallest integer's quotient would overflow
      return a % (is_zero ? 1 : b);
    }
  }
};
struct Copy {
  template <class T>
  static T apply(T x) {
    return x;
  }
};

// ---- comparisons and logic ----

struct Less {
  template <class T>
  static Truth apply(T a, T b) {
    return Truth(a < b);
  }
};
struct LessEqual {
  template <class T>
  static Truth apply(T a, T b) {
    return Truth(a <= b);
  }
};
struct Greater {
  template <class T>
  static Truth apply(T a, T b) {
    return Truth(a > b);
  }
};
struct GreaterEqual {
  template <class T>
  static Truth apply(T a, T b) {
    return Truth(a >= b);
  }
};
struct Equal {
  template <class T>
  static Truth apply(T a, T b) {
    return Truth(a == b);
  }
};
struct NotEqual {
  template <class T>
  static Truth apply(T a, T b) {
    return Truth(a != b);
  }
};
struct LogicalNot {
  static Truth apply(Truth x) { return Truth(x == Truth{}); }
};

/// NaN if either is: a comparison with NaN is false, so `a` has to be asked about itself.
struct Maximum {
  template <class T>
  static T apply(T a, T b) {
    if constexpr (is_boolean<T>) return a | b;
    return ((a > b) | (a != a)) ? a : b;
  }
};
struct Minimum {
  template <class T>
  static T apply(T a, T b) {
    if constexpr (is_boolean<T>) return a & b;
    return ((a < b) | (a != a)) ? a : b;
  }
};
/// min(max(x, low), high), with the bounds' NaN put in last: the chain of the two above does not vectorise.
struct Clamp {
  template <class T>
  static T apply(T x, T low, T high) {
    const T raised = x < low ? low : x;
    const T inside = raised > high ? high : raised;
    if constexpr (is_float<T>) {
      return ((low != low) | (high != high)) ? low + high : inside;
    } else {
      return inside;
    }
  }
};

// ---- elementary functions ----

struct Exp {
  template <class T>
  static T apply(T x) {
    return math::exp(x);
  }
};
struct Log {
  template <class T>
  static T apply(T x) {
    return math::log(x);
  }
};
struct Sqrt {
  template <class T>
  static T apply(T x) {
    return math::sqrt(x);
  }
};
struct Rsqrt {
  template <class T>
  static T apply(T x) {
    return 1 / math::sqrt(x);
  }
};
struct Sin {
  template <class T>
  static T apply(T x) {
    return math::sin(x);
  }
};
struct Cos {
  template <class T>
  static T apply(T x) {
    return math::cos(x);
  }
};
struct Tan {
  template <class T>
  static T apply(T x) {
    return math::tan(x);
  }
};
struct Tanh {
  template <class T>
  static T apply(T x) {
    return math::tanh(x);
  }
};
struct Erf {
  template <class T>
  static T apply(T x) {
    return math::erf(x);
  }
};
struct Pow {
  template <class T>
  static T apply(T a, T b) {
    return math::pow(a, b);
  }
};
struct Atan2 {
  template <class T>
  static T apply(T a, T b) {
    return math::atan2(a, b);
  }
};
struct Floor {
  template <class T>
  static T apply(T x) {
    if constexpr (is_float<T>) return math::floor(x);
    return x;
  }
};
struct Ceil {
  template <class T>
  static T apply(T x) {
    if constexpr (is_float<T>) return math::ceil(x);
    return x;
  }
};

// ---- activations ----

struct Relu {
  template <class T>
  static T apply(T x) {
    return x < 0 ? 0 : x;
  }
};
struct LeakyRelu {
  template <class T>
  static T apply(T x, T slope) {
    return x > 0 ? x : slope * x;
  }
};
struct ClippedRelu {
  template <class T>
  static T apply(T x, T upper) {
    return Clamp::apply(x, T(0), upper);
  }
};
struct Elu {
  template <class T>
  static T apply(T x, T alpha) {
    return Relu::apply(x) + alpha * math::expm1(x < 0 ? x : 0);  // a choice would put the call into a branch
  }
};
struct Sigmoid {
  template <class T>
  static T apply(T x) {
    const T e = math::exp(-math::fabs(x));
    return (x < 0 ? e : 1) / (1 + e);
  }
};
struct Silu {
  template <class T>
  static T apply(T x) {
    return math::times_sigmoid(x, x, T(-1000));
  }
};
struct Softplus {
  template <class T>
  static T apply(T x) {
    return Relu::apply(x) + math::log1p(math::exp(-math::fabs(x)));
  }
};
/// x less its share in the tail beyond it. From `vanishes` on that share is 0: for float it would no longer
/// be a normal number, which takes the processor a hundred times as long, and the bound keeps ∞·0 out.
struct Gelu {
  template <class T>
  static T apply(T x) {
    constexpr T vanishes = sizeof(T) == 4 ? T(13.146) : T(40);
    const T a = math::fabs(x);
    const T bounded = a > vanishes ? T(0) : a;
    return Relu::apply(x) - math::times_upper_tail(bounded);
  }
};
struct GeluTanh {
  template <class T>
  static T apply(T x) {
    constexpr double linear = 1.59576912160573071176;  // 2·√(2/π): (1 + tanh u)/2 is sigmoid(2u)
    constexpr double cubic = 0.044715 * linear;
    return math::times_sigmoid(x, x * (T(linear) + T(cubic) * (x * x)), T(-1000));
  }
};

// ---- loops ----

template <class F, class T>
void unary_loop(void* out, const void* const* in, std::size_t n, double) {
  const T* a = static_cast<const T*>(in[0]);
  auto* result = static_cast<decltype(F::apply(*a))*>(out);
  for_each_lane(n, [=](std::size_t i) { result[i] = F::apply(a[i]); });
}

template <class F, class T>
void coefficient_loop(void* out, const void* const* in, std::size_t n, double coefficient) {
  const T* a = static_cast<const T*>(in[0]);
  T* result = static_cast<T*>(out);
  const T c = convert<T>(coefficient);
  for_each_lane(n, [=](std::size_t i) { result[i] = F::apply(a[i], c); });
}

template <class F, class T>
void binary_loop(void* out, const void* const* in, std::size_t n, double) {
  const T* a = static_cast<const T*>(in[0]);
  const T* b = static_cast<const T*>(in[1]);
  auto* result = static_cast<decltype(F::apply(*a, *b))*>(out);
  for_each_lane(n, [=](std::size_t i) { result[i] = F::apply(a[i], b[i]); });
}

template <class F, class T>
void ternary_loop(void* out, const void* const* in, std::size_t n, double) {
  const T* a = static_cast<const T*>(in[0]);
  const T* b = static_cast<const T*>(in[1]);
  const T* c = static_cast<const T*>(in[2]);
  T* result = static_cast<T*>(out);
  for_each_lane(n, [=](std::size_t i) { result[i] = F::apply(a[i], b[i], c[i]); });
}

template <class T>
void where_loop(void* out, const void* const* in, std::size_t n, double) {
  const Truth* condition = static_cast<const Truth*>(in[0]);
  const T* a = static_cast<const T*>(in[1]);
  const T* b = static_cast<const T*>(in[2]);
  T* result = static_cast<T*>(out);
  for_each_lane(n, [=](std::size_t i) {
    const T yes = a[i], no = b[i];  // read both, or the loads are conditional and the loop stays scalar
    result[i] = condition[i] != Truth{} ? yes : no;
  });
}

// ---- which operation exists for which registers ----

constexpr MapKernel* row(Kernels& table, Op op) { return table.map[static_cast<std::size_t>(op)]; }
template <class F, class... T>
constexpr void unary(Kernels& table, Op op, Registers<T...>) {
  ((row(table, op)[register_index<T>] = &unary_loop<F, T>), ...);
}
template <class F, class... T>
constexpr void with_coefficient(Kernels& table, Op op, Registers<T...>) {
  ((row(table, op)[register_index<T>] = &coefficient_loop<F, T>), ...);
}
template <class F, class... T>
constexpr void binary(Kernels& table, Op op, Registers<T...>) {
  ((row(table, op)[register_index<T>] = &binary_loop<F, T>), ...);
}
template <class F, class... T>
constexpr void ternary(Kernels& table, Op op, Registers<T...>) {
  ((row(table, op)[register_index<T>] = &ternary_loop<F, T>), ...);
}
template <class... T>
constexpr void where(Kernels& table, Registers<T...>) {
  ((row(table, Op::where)[register_index<T>] = &where_loop<T>), ...);
}

constexpr void add_unary(Kernels& table) {
  unary<Negate>(table, Op::negate, numbers);
  unary<LogicalNot>(table, Op::logical_not, booleans);
  unary<Copy>(table, Op::copy, all);
  unary<Abs>(table, Op::abs, all);
  unary<Exp>(table, Op::exp, floats);
  unary<Log>(table, Op::log, floats);
  unary<Sqrt>(table, Op::sqrt, floats);
  unary<Rsqrt>(table, Op::rsqrt, floats);
  unary<Square>(table, Op::square, all);
  unary<Reciprocal>(table, Op::reciprocal, floats);
  unary<Sin>(table, Op::sin, floats);
  unary<Cos>(table, Op::cos, floats);
  unary<Tan>(table, Op::tan, floats);
  unary<Tanh>(table, Op::tanh, floats);
  unary<Erf>(table, Op::erf, floats);
  unary<Ceil>(table, Op::ceil, numbers);
  unary<Floor>(table, Op::floor, numbers);
}

constexpr void add_activations(Kernels& table) {
  unary<Relu>(table, Op::relu, numbers);
  with_coefficient<LeakyRelu>(table, Op::leaky_relu, floats);
  with_coefficient<ClippedRelu>(table, Op::clipped_relu, numbers);
  unary<Sigmoid>(table, Op::sigmoid, floats);
  unary<Silu>(table, Op::silu, floats);
  unary<Softplus>(table, Op::softplus, floats);
  with_coefficient<Elu>(table, Op::elu, floats);
  unary<Gelu>(table, Op::gelu, floats);
  unary<GeluTanh>(table, Op::gelu_tanh, floats);
}

constexpr void add_binary_and_ternary(Kernels& table) {
  binary<Add>(table, Op::add, all);
  binary<Subtract>(table, Op::subtract, numbers);
  binary<Multiply>(table, Op::multiply, all);
  binary<Divide>(table, Op::divide, floats);
  binary<Less>(table, Op::less, all);
  binary<LessEqual>(table, Op::less_equal, all);
  binary<Greater>(table, Op::greater, all);
  binary<GreaterEqual>(table, Op::greater_equal, all);
  binary<Equal>(table, Op::equal, all);
  binary<NotEqual>(table, Op::not_equal, all);
  binary<Multiply>(table, Op::logical_and, booleans);
  binary<Add>(table, Op::logical_or, booleans);
  binary<Maximum>(table, Op::maximum, all);
  binary<Minimum>(table, Op::minimum, all);
  binary<Pow>(table, Op::pow, floats);
  binary<Fmod>(table, Op::fmod, numbers);
  binary<Atan2>(table, Op::atan2, floats);
  ternary<Clamp>(table, Op::clamp, all);
  where(table, all);
}
