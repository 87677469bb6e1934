// SPDX-License-Identifier: Apache-2.0
// The kernels for every processor of this architecture: the instructions that the compiler assumes by
// default. The build adds the compiler's options; kernels.inl holds the code.
#define STILETTO_KERNEL_SET baseline
#define STILETTO_KERNEL_NAME "baseline"
#include "backends/cpu/kernels.inl"
