// SPDX-License-Identifier: Apache-2.0
// The kernels of one instruction set. kernels_<set>.cpp defines STILETTO_KERNEL_SET, the namespace, and
// STILETTO_KERNEL_NAME, and includes this. Everything that is compiled here has internal linkage or is always
// inlined, and only constants are taken from the standard library: the linker keeps one copy of a shared
// inline function, and it must not be the one for a processor that this is not.
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "backends/cpu/kernels.hpp"
#include "core/float_bits.hpp"

#if defined(__clang__)
// Not every loop marked as free of dependences is one that clang can vectorise.
#pragma clang diagnostic ignored "-Wpass-failed"
#define STILETTO_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define STILETTO_INDEPENDENT _Pragma("GCC ivdep")
#endif

namespace stiletto::detail::cpu::STILETTO_KERNEL_SET {
namespace {

/// body(i) for i < n. The iterations are independent even if an output is an input: i needs only element i.
template <class Body>
[[gnu::always_inline]] inline void for_each(std::size_t n, Body body) {
  STILETTO_INDEPENDENT
  for (std::size_t i = 0; i < n; ++i) body(i);
}

/// The same over whole groups of lanes, which leaves no remainder to a scalar loop.
template <class Body>
[[gnu::always_inline]] inline void for_each_lane(std::size_t n, Body body) {
  for_each(n & ~(lane_group - 1), body);
}

/// An element of a boolean register, 0 or 1; loops over bool itself do not vectorise.
enum class Truth : std::uint8_t {};
constexpr Truth operator|(Truth a, Truth b) {
  return Truth(static_cast<std::uint8_t>(a) | static_cast<std::uint8_t>(b));
}
constexpr Truth operator&(Truth a, Truth b) {
  return Truth(static_cast<std::uint8_t>(a) & static_cast<std::uint8_t>(b));
}

/// Register types, for the lists of what exists.
template <class... T>
struct Registers {};
inline constexpr Registers<Truth> booleans;
inline constexpr Registers<float, double> floats;
inline constexpr Registers<float, double, std::int32_t, std::int64_t> numbers;
inline constexpr Registers<float, double, std::int32_t, std::int64_t, Truth> all;

template <class T>
inline constexpr std::size_t register_index =
    static_cast<std::size_t>(std::is_same_v<T, float>          ? Register::f32
                             : std::is_same_v<T, double>       ? Register::f64
                             : std::is_same_v<T, std::int32_t> ? Register::i32
                             : std::is_same_v<T, std::int64_t> ? Register::i64
                                                               : Register::b8);

// clang-format off: each uses what those above it define
#include "backends/cpu/kernels_convert.inl"
#include "backends/cpu/kernels_math.inl"
#include "backends/cpu/kernels_pointwise.inl"
#include "backends/cpu/kernels_reduce.inl"
#include "backends/cpu/kernels_run.inl"
// clang-format on

constexpr Kernels make_table() {
  Kernels table{};
  table.name = STILETTO_KERNEL_NAME;
  add_unary(table);
  add_activations(table);
  add_binary_and_ternary(table);
  add_loads(table);
  add_transfers(table, all);
  add_strided(table, Registers<std::uint8_t, std::uint16_t, std::uint32_t, std::uint64_t>{});
  add_reductions(table, all);
  add_runs(table, floats);
  return table;
}

}  // namespace

extern constinit const Kernels table = make_table();

}  // namespace stiletto::detail::cpu::STILETTO_KERNEL_SET

#undef STILETTO_INDEPENDENT
