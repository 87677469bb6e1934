// SPDX-License-Identifier: Apache-2.0
// The kernels for x86-64-v4 processors: AVX-512 F, BW, CD, DQ and VL.
// The build adds the compiler's options; kernels.inl holds the code.
#define STILETTO_KERNEL_SET avx512
#define STILETTO_KERNEL_NAME "x86-64-v4"
#include "backends/cpu/kernels.inl"
