// SPDX-License-Identifier: Apache-2.0
// The attention kernels for x86-64-v4 processors: AVX-512 F, BW, CD, DQ and VL.
// The build adds the compiler's options; attention_kernels.inl holds the code.
#define STILETTO_KERNEL_SET avx512
#define STILETTO_VECTOR_BYTES 64
#define STILETTO_TILE_VECTORS 4
#include "backends/cpu/attention_kernels.inl"
