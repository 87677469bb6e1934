// SPDX-License-Identifier: Apache-2.0
// Which register holds what, and the choice of an instruction set: the widest that this processor has, or the
// one named by the environment variable STILETTO_CPU_ISA (baseline, avx2 or avx512), which tests use; one it
// lacks is ignored.
#include "backends/cpu/kernels.hpp"

#include <cstdlib>
#include <string_view>

namespace stiletto::detail::cpu {

namespace baseline {
extern const Kernels table;
}
#if defined(__x86_64__)
namespace avx2 {
extern const Kernels table;
}
namespace avx512 {
extern const Kernels table;
}
#endif

Register register_of(DType dtype) {
  switch (dtype) {
    case DType::boolean:
      return Register::b8;
    case DType::int8:
    case DType::uint8:
    case DType::int32:
      return Register::i32;
    case DType::int64:
      return Register::i64;
    case DType::float64:
      return Register::f64;
    default:
      return Register::f32;
  }
}

Register accumulator_of(Combine combine, Register values) {
  if (combine == Combine::max || combine == Combine::min) return values;
  return values == Register::f32 || values == Register::f64 ? Register::f64 : Register::i64;
}

const Kernels* kernels_for(const char* instruction_set) {
  const std::string_view wanted = instruction_set;
  if (wanted == "baseline") return &baseline::table;
#if defined(__x86_64__)
  __builtin_cpu_init();  // the caller may be a constructor that runs before the compiler's own
  if (wanted == "avx2" && __builtin_cpu_supports("x86-64-v3")) return &avx2::table;
  if (wanted == "avx512" && __builtin_cpu_supports("x86-64-v4")) return &avx512::table;
#endif
  return nullptr;
}

const Kernels& kernels() {
  static const Kernels& chosen = []() -> const Kernels& {
    const char* wanted = std::getenv("STILETTO_CPU_ISA");
    for (const char* set : {wanted != nullptr ? wanted : "avx512", "avx512", "avx2"}) {
      if (const Kernels* found = kernels_for(set)) return *found;
    }
    return baseline::table;
  }();
  return chosen;
}

}  // namespace stiletto::detail::cpu
