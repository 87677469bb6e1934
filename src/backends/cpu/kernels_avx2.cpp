// SPDX-License-Identifier: Apache-2.0
// The kernels for x86-64-v3 processors: AVX2, FMA, F16C.
// The build adds the compiler's options; kernels.inl holds the code.
#define STILETTO_KERNEL_SET avx2
#define STILETTO_KERNEL_NAME "x86-64-v3"
#include "backends/cpu/kernels.inl"
