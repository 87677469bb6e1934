// SPDX-License-Identifier: Apache-2.0
// The choice of the attention kernels: those of the instruction set that kernels() chose.
#include "backends/cpu/attention_kernels.hpp"

#include "backends/cpu/kernels.hpp"

namespace stiletto::detail::cpu {

namespace baseline {
extern const AttentionKernels<float> attention_table_float;
extern const AttentionKernels<double> attention_table_double;
}  // namespace baseline
#if defined(__x86_64__)
namespace avx2 {
extern const AttentionKernels<float> attention_table_float;
extern const AttentionKernels<double> attention_table_double;
}  // namespace avx2
namespace avx512 {
extern const AttentionKernels<float> attention_table_float;
extern const AttentionKernels<double> attention_table_double;
}  // namespace avx512
#endif

template <>
const AttentionKernels<float>& attention_kernels<float>() {
#if defined(__x86_64__)
  if (&kernels() == kernels_for("avx512")) return avx512::attention_table_float;
  if (&kernels() == kernels_for("avx2")) return avx2::attention_table_float;
#endif
  return baseline::attention_table_float;
}
template <>
const AttentionKernels<double>& attention_kernels<double>() {
#if defined(__x86_64__)
  if (&kernels() == kernels_for("avx512")) return avx512::attention_table_double;
  if (&kernels() == kernels_for("avx2")) return avx2::attention_table_double;
#endif
  return baseline::attention_table_double;
}

}  // namespace stiletto::detail::cpu
