// SPDX-License-Identifier: Apache-2.0
// The attention kernels for x86-64-v3 processors: AVX2, FMA.
// The build adds the compiler's options; attention_kernels.inl holds the code.
#define STILETTO_KERNEL_SET avx2
#define STILETTO_VECTOR_BYTES 32
#define STILETTO_TILE_VECTORS 2
#include "backends/cpu/attention_kernels.inl"
