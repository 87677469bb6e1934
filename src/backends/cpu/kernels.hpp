// SPDX-License-Identifier: Apache-2.0
// The inner loops of the CPU backend, on blocks of up to `block_size` elements held in registers of the
// evaluator: small contiguous buffers, aligned to 64 bytes, of one of five element types. kernels.inl is
// compiled once per instruction set; kernels() is the table for this processor.
#pragma once
#include <cstddef>
#include <cstdint>

#include "graph/op.hpp"
#include "stiletto/dtype.hpp"

namespace stiletto::detail::cpu {

inline constexpr std::size_t block_size = 1024;  // elements; a multiple of `lane_group`
inline constexpr std::size_t lane_group = 16;  // map kernels' counts are rounded up to this, registers padded

enum class Register : std::uint8_t { f32, f64, i32, i64, b8 };
inline constexpr std::size_t register_count = 5;
constexpr std::size_t bytes_of(Register r) {
  return r == Register::b8 ? 1 : (r == Register::f64 || r == Register::i64) ? 8 : 4;
}
/// The register that holds a dtype exactly: f32 for narrower floats, i32 for 8-bit integers.
Register register_of(DType);

/// out[i] = op(in[0][i], in[1][i], …) for i < n; n is a multiple of lane_group. `out` may be an input whose
/// elements are of the same size.
using MapKernel = void (*)(void* out, const void* const* in, std::size_t n, double coefficient);
/// Contiguous memory of a dtype to a register, any n. float4_e2m1 starts at an even element.
using LoadKernel = void (*)(void* out, const void* memory, std::size_t n);
/// A register to contiguous memory of a dtype, any n, by the rules of docs/semantics.md: nearest even, float8
/// and float4 saturate, float to integer truncates and saturates with NaN → 0, integer to integer wraps, to
/// boolean: ≠ 0.
using StoreKernel = void (*)(void* memory, const void* in, std::size_t n);
/// Elements of 1, 2, 4 or 8 bytes, any stride of elements apart in memory, to or from a contiguous buffer.
using GatherKernel = void (*)(void* out, const void* memory, std::int64_t stride, std::size_t n);
using ScatterKernel = void (*)(void* memory, std::int64_t stride, const void* in, std::size_t n);
/// Between registers, by the rules of StoreKernel (i64 → i32 wraps). n is a multiple of lane_group.
using ConvertKernel = void (*)(void* out, const void* in, std::size_t n);
/// accumulator[0] = combine(accumulator[0], v[0], …, v[n−1]), any n.
using ReduceKernel = void (*)(void* accumulator, const void* v, std::size_t n);
/// accumulator[i] = combine(accumulator[i], v[i]), any n.
using AccumulateKernel = void (*)(void* accumulator, const void* v, std::size_t n);
/// out[i] = one value, n a multiple of lane_group.
using FillKernel = void (*)(void* out, const void* value, std::size_t n);

/// The steps of a run: operations so cheap that a pass over a block costs more than they do. Each makes a new
/// value at hand of the one before and, but for the last three, of an operand.
enum class RunCode : std::uint8_t {
  none,      // of an operation: it cannot be a step
  end,       // after the last step
  load,      // the operand becomes the value at hand
  store,     // the value at hand is written to the operand
  stream,    // the same past the caches, to memory aligned to stream_alignment; run_fence() has to follow
  prefetch,  // asks for the operand's memory one block ahead
  add,
  subtract,
  multiply,
  divide,
  maximum,
  minimum,
  negate,
  square,
  relu
};
struct RunStep {
  RunCode code;
  void* memory;  // of the operand: as many elements as the block has; not null
};
inline constexpr std::size_t stream_alignment = 64;
/// Applies the steps in order, to a few vectors at a time. n is a multiple of lane_group. What is stored may
/// be an operand of the same or an earlier step.
using RunKernel = void (*)(const RunStep* steps, std::size_t n);
/// Makes what was streamed visible to threads that are told of it afterwards.
inline void run_fence() {
#if defined(__x86_64__)
  __builtin_ia32_sfence();
#endif
}

/// The four reductions that others are made of. max and min give NaN once they have seen one.
enum class Combine : std::uint8_t { sum, prod, max, min };
inline constexpr std::size_t combine_count = 4;
/// Sums and products accumulate in f64 for both floats and in i64 for integers, max and min in place.
Register accumulator_of(Combine, Register);

struct Kernels {
  const char* name;  // "x86-64-v4"
  /// By the operands' register; null where the operation has no such operand.
  MapKernel map[op_count][register_count];
  RunKernel run[register_count];  // null but for f32 and f64
  /// By DType; null except for register_of(dtype), and f64 for the narrower floats.
  LoadKernel load[13][register_count];
  StoreKernel store[register_count][13];
  ConvertKernel convert[register_count][register_count];
  GatherKernel gather[4];  // by log2 of the element's bytes
  ScatterKernel scatter[4];
  ReduceKernel reduce[combine_count][register_count];
  AccumulateKernel accumulate[combine_count][register_count];
  /// Combines two accumulators of accumulator_of's type: a[i] = combine(a[i], b[i]).
  AccumulateKernel merge[combine_count][register_count];  // by the accumulator's register
  FillKernel fill[register_count];
};

const Kernels& kernels();
/// The table of "baseline", "avx2" or "avx512"; null where this processor or this build lacks it.
const Kernels* kernels_for(const char* instruction_set);

}  // namespace stiletto::detail::cpu
