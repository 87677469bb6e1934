// SPDX-License-Identifier: Apache-2.0
// From memory to registers and back, and between registers, by the rules of docs/semantics.md. A memory
// format is a struct with the bits' type, `decode` to the register that holds it exactly, and `encode` from
// any register. Included by kernels.inl.

/// Toward zero, saturating, NaN to 0. Clamped first, so that no conversion is out of range.
template <class To, class From>
inline To truncate(From x) {
  using To_limits = std::numeric_limits<To>;
  using From_limits = std::numeric_limits<From>;
  constexpr From low = static_cast<From>(To_limits::min());
  constexpr bool is_exact = To_limits::digits <= From_limits::digits;
  constexpr From above =
      static_cast<From>(To_limits::max());  // one more than the maximum, if it is not exact
  constexpr From high = is_exact ? above : above * (1 - From_limits::epsilon() / 2);
  constexpr To maximum = To_limits::max();
  using Wide = std::conditional_t<(sizeof(To) < 4), std::int32_t, To>;
  const From number = x == x ? x : 0;
  const From raised = number < low ? low : number;
  const To inside = static_cast<To>(static_cast<Wide>(raised > high ? high : raised));
  return raised > high ? maximum : inside;
}

template <class To, class From>
inline To convert(From x) {
  if constexpr (std::is_same_v<To, From>) {
    return x;
  } else if constexpr (std::is_same_v<To, Truth>) {
    return Truth(x != 0);
  } else if constexpr (std::is_same_v<From, Truth>) {
    return static_cast<To>(static_cast<std::uint8_t>(x));
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    return truncate<To>(x);
  } else {
    return static_cast<To>(x);
  }
}

/// A float that rounds to a narrow format as the register's own value would.
inline float narrowed(float x) { return x; }
inline float narrowed(double x) { return round_to_odd(x); }
inline float narrowed(std::int32_t x) { return round_to_odd(static_cast<double>(x)); }
inline float narrowed(std::int64_t x) { return round_to_odd(x); }
inline float narrowed(Truth x) { return convert<float>(x); }

// ---- memory formats ----

template <class T>
struct Plain {
  using Bits = T;
  static T decode(T bits) { return bits; }
  template <class From>
  static T encode(From x) {
    return convert<T>(x);
  }
};
struct Boolean {
  using Bits = std::uint8_t;  // a caller's byte may be something other than 0 and 1
  static Truth decode(Bits bits) { return Truth(bits != 0); }
  template <class From>
  static Bits encode(From x) {
    return static_cast<Bits>(convert<Truth>(x));
  }
};
template <FloatFormat format, class BitsType>
struct Narrow {
  using Bits = BitsType;
  static float decode(Bits bits) { return detail::decode<format>(bits); }
  template <class From>
  static Bits encode(From x) {
    return static_cast<Bits>(detail::encode<format>(narrowed(x)));
  }
};
using Half = Narrow<half_format, std::uint16_t>;
using E4m3 = Narrow<e4m3_format, std::uint8_t>;
using E5m2 = Narrow<e5m2_format, std::uint8_t>;
using E2m1 = Narrow<e2m1_format, std::uint8_t>;
struct Bfloat16 {
  using Bits = std::uint16_t;
  static float decode(Bits bits) { return decode_bfloat16(bits); }
  template <class From>
  static Bits encode(From x) {
    return static_cast<Bits>(encode_bfloat16(narrowed(x)));
  }
};
struct E8m0 {
  using Bits = std::uint8_t;
  static float decode(Bits bits) { return decode_e8m0(bits); }
  /// Of a scale, which is a power of two or NaN, and has its exponent for a code.
  template <class From>
  static Bits encode(From x) {
    return static_cast<Bits>(detail::bits_of(narrowed(x)) >> 23);
  }
};

// ---- loops ----

/// What the processor converts by instructions of its own: the count of elements done, in groups.
template <class Format, class T>
inline std::size_t decode_groups(T*, const typename Format::Bits*, std::size_t) {
  return 0;
}
template <class Format, class T>
inline std::size_t encode_groups(typename Format::Bits*, const T*, std::size_t) {
  return 0;
}
#if defined(__F16C__)
template <>
inline std::size_t decode_groups<Half, float>(float* out, const std::uint16_t* memory, std::size_t n) {
  std::size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    _mm256_storeu_ps(out + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(memory + i))));
  }
  return i;
}
template <>
inline std::size_t encode_groups<Half, float>(std::uint16_t* memory, const float* in, std::size_t n) {
  std::size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m128i bits = _mm256_cvtps_ph(_mm256_loadu_ps(in + i), _MM_FROUND_TO_NEAREST_INT);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(memory + i), bits);
  }
  return i;
}
#endif

template <class Format, class T>
void load(void* out, const void* memory, std::size_t n) {
  const auto* bits = static_cast<const typename Format::Bits*>(memory);
  T* values = static_cast<T*>(out);
  const std::size_t done = decode_groups<Format>(values, bits, n);
  for_each(n - done, [=](std::size_t i) { values[done + i] = convert<T>(Format::decode(bits[done + i])); });
}

template <class Format, class T>
void store(void* memory, const void* in, std::size_t n) {
  auto* bits = static_cast<typename Format::Bits*>(memory);
  const T* values = static_cast<const T*>(in);
  const std::size_t done = encode_groups<Format>(bits, values, n);
  for_each(n - done, [=](std::size_t i) { bits[done + i] = Format::encode(values[done + i]); });
}

template <class T>
void load_packed(void* out, const void* memory, std::size_t n) {
  const auto* bytes = static_cast<const std::uint8_t*>(memory);
  T* values = static_cast<T*>(out);
  for_each(n / 2, [=](std::size_t i) {
    values[2 * i] = E2m1::decode(bytes[i] & 0xF);
    values[2 * i + 1] = E2m1::decode(bytes[i] >> 4);
  });
  if (n % 2 != 0) values[n - 1] = E2m1::decode(bytes[n / 2] & 0xF);
}

/// An odd last element shares its byte with one that is not ours.
template <class T>
void store_packed(void* memory, const void* in, std::size_t n) {
  auto* bytes = static_cast<std::uint8_t*>(memory);
  const T* values = static_cast<const T*>(in);
  for_each(n / 2, [=](std::size_t i) {
    bytes[i] = static_cast<std::uint8_t>(E2m1::encode(values[2 * i]) | E2m1::encode(values[2 * i + 1]) << 4);
  });
  if (n % 2 != 0) {
    bytes[n / 2] = static_cast<std::uint8_t>((bytes[n / 2] & 0xF0) | E2m1::encode(values[n - 1]));
  }
}

template <class To, class From>
void convert_loop(void* out, const void* in, std::size_t n) {
  const From* values = static_cast<const From*>(in);
  To* result = static_cast<To*>(out);
  for_each_lane(n, [=](std::size_t i) { result[i] = convert<To>(values[i]); });
}

/// body(i, i·stride) for i < n, by fours: one running offset would be a chain of n additions.
template <class Body>
[[gnu::always_inline]] inline void for_each_strided(std::size_t n, std::int64_t stride, Body body) {
  std::size_t i = 0;
  std::int64_t offset = 0;
  for (; i + 4 <= n; i += 4, offset += 4 * stride) {
    body(i, offset);
    body(i + 1, offset + stride);
    body(i + 2, offset + 2 * stride);
    body(i + 3, offset + 3 * stride);
  }
  for (; i < n; ++i, offset += stride) body(i, offset);
}

template <class T>
void gather(void* out, const void* memory, std::int64_t stride, std::size_t n) {
  const T* from = static_cast<const T*>(memory);
  T* to = static_cast<T*>(out);
  for_each_strided(n, stride, [=](std::size_t i, std::int64_t offset) { to[i] = from[offset]; });
}

template <class T>
void scatter(void* memory, std::int64_t stride, const void* in, std::size_t n) {
  const T* from = static_cast<const T*>(in);
  T* to = static_cast<T*>(memory);
  for_each_strided(n, stride, [=](std::size_t i, std::int64_t offset) { to[offset] = from[i]; });
}

template <class T>
void fill(void* out, const void* value, std::size_t n) {
  T* values = static_cast<T*>(out);
  const T x = *static_cast<const T*>(value);
  for_each_lane(n, [=](std::size_t i) { values[i] = x; });
}

// ---- which conversion exists for which types ----

template <class Format, class... T>
constexpr void loads(Kernels& table, DType dtype, Registers<T...>) {
  ((table.load[static_cast<std::size_t>(dtype)][register_index<T>] = &load<Format, T>), ...);
}
template <class... T>
constexpr void packed_loads(Kernels& table, Registers<T...>) {
  ((table.load[static_cast<std::size_t>(DType::float4_e2m1)][register_index<T>] = &load_packed<T>), ...);
}

constexpr void add_loads(Kernels& table) {
  loads<Boolean>(table, DType::boolean, booleans);
  loads<Plain<std::int8_t>>(table, DType::int8, Registers<std::int32_t>{});
  loads<Plain<std::uint8_t>>(table, DType::uint8, Registers<std::int32_t>{});
  loads<Plain<std::int32_t>>(table, DType::int32, Registers<std::int32_t>{});
  loads<Plain<std::int64_t>>(table, DType::int64, Registers<std::int64_t>{});
  loads<Half>(table, DType::float16, floats);
  loads<Bfloat16>(table, DType::bfloat16, floats);
  loads<Plain<float>>(table, DType::float32, floats);
  loads<Plain<double>>(table, DType::float64, Registers<double>{});
  loads<E4m3>(table, DType::float8_e4m3, floats);
  loads<E5m2>(table, DType::float8_e5m2, floats);
  loads<E8m0>(table, DType::float8_e8m0, floats);
  packed_loads(table, floats);
}

template <class From>
constexpr void add_stores(StoreKernel* row) {
  const auto set = [row](DType dtype, StoreKernel kernel) { row[static_cast<std::size_t>(dtype)] = kernel; };
  set(DType::boolean, &store<Boolean, From>);
  set(DType::int8, &store<Plain<std::int8_t>, From>);
  set(DType::uint8, &store<Plain<std::uint8_t>, From>);
  set(DType::int32, &store<Plain<std::int32_t>, From>);
  set(DType::int64, &store<Plain<std::int64_t>, From>);
  set(DType::float16, &store<Half, From>);
  set(DType::bfloat16, &store<Bfloat16, From>);
  set(DType::float32, &store<Plain<float>, From>);
  set(DType::float64, &store<Plain<double>, From>);
  set(DType::float8_e4m3, &store<E4m3, From>);
  set(DType::float8_e5m2, &store<E5m2, From>);
  set(DType::float8_e8m0, &store<E8m0, From>);
  set(DType::float4_e2m1, &store_packed<From>);
}

template <class From, class... To>
constexpr void add_converts(ConvertKernel* row, Registers<To...>) {
  ((row[register_index<To>] = &convert_loop<To, From>), ...);
}

/// What is the same for each register type.
template <class... T>
constexpr void add_transfers(Kernels& table, Registers<T...>) {
  (add_stores<T>(table.store[register_index<T>]), ...);
  (add_converts<T>(table.convert[register_index<T>], all), ...);
  ((table.fill[register_index<T>] = &fill<T>), ...);
}

template <class... T>
constexpr void add_strided(Kernels& table, Registers<T...>) {
  std::size_t log2_bytes = 0;
  ((table.gather[log2_bytes] = &gather<T>, table.scatter[log2_bytes] = &scatter<T>, ++log2_bytes), ...);
}
