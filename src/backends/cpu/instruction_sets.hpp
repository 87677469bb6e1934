// SPDX-License-Identifier: Apache-2.0
// One always inlined loop compiled for three instruction sets, and the one for this processor: for the few
// loops of structured operations that are not in the table of kernels.hpp.
#pragma once
#include <string_view>

#include "backends/cpu/kernels.hpp"

// clang does not know the preference, and then ignores the whole attribute.
#if defined(__clang__)
#define STILETTO_AVX512_TARGET "arch=x86-64-v4"
#else
#define STILETTO_AVX512_TARGET "arch=x86-64-v4,prefer-vector-width=512"
#endif

namespace stiletto::detail::cpu {

/// Body::run<bytes of a vector> has to be always inlined, so that it is compiled with the target of what
/// calls it.
template <class Body, class Function>
struct InstructionSets;

template <class Body, class... Arguments>
struct InstructionSets<Body, void(Arguments...)> {
  static void baseline(Arguments... arguments) { Body::template run<16>(arguments...); }
#if defined(__x86_64__)
  [[gnu::target("arch=x86-64-v3")]] static void avx2(Arguments... arguments) {
    Body::template run<32>(arguments...);
  }
  [[gnu::target(STILETTO_AVX512_TARGET)]] static void avx512(Arguments... arguments) {
    Body::template run<64>(arguments...);
  }
#endif
  static void (*choose())(Arguments...) {
#if defined(__x86_64__)
    const std::string_view name = kernels().name;
    if (name == "x86-64-v4") return avx512;
    if (name == "x86-64-v3") return avx2;
#endif
    return baseline;
  }
};

/// Calls Body::run as it is compiled for this processor.
template <class Body, class... Arguments>
void run_best(Arguments... arguments) {
  static void (*const chosen)(Arguments...) = InstructionSets<Body, void(Arguments...)>::choose();
  chosen(arguments...);
}

}  // namespace stiletto::detail::cpu

#undef STILETTO_AVX512_TARGET
