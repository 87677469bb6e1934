// SPDX-License-Identifier: Apache-2.0
// The attention kernels for every processor of this architecture.
// The build adds the compiler's options; attention_kernels.inl holds the code.
#define STILETTO_KERNEL_SET baseline
#define STILETTO_VECTOR_BYTES 16
#define STILETTO_TILE_VECTORS 2
#include "backends/cpu/attention_kernels.inl"
