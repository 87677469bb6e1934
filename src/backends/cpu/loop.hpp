// SPDX-License-Identifier: Apache-2.0
// A loop: pointwise maps and reductions over one iteration space, evaluated block by block so that nothing of
// the space's size is ever written but the results. Reductions split it into phases: what depends on a
// reduction runs in the next pass over the same rows, which are still in cache.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "backends/cpu/expression.hpp"
#include "backends/cpu/kernels.hpp"
#include "compiler/backend.hpp"

namespace stiletto::detail::cpu {

/// Memory a loop reads or writes.
struct Memory {
  enum class Home : std::uint8_t { tensor, store, temporary };
  Home home = Home::tensor;
  std::uint32_t index = 0;     // of the graph's tensors or stores
  std::int64_t workspace = 0;  // temporary: byte offset
  DType dtype = DType::float32;
  std::vector<std::int64_t> strides;  // per graph axis, in elements

  std::byte* address(const Invocation& invocation, std::byte* temporaries) const {
    if (home == Home::temporary) return temporaries + workspace;
    return static_cast<std::byte*>((home == Home::tensor ? invocation.tensors : invocation.stores)[index]);
  }
};

/// The memory of one of the graph's stores.
Memory memory_of_store(const CanonicalGraph& graph, std::uint32_t store);

/// The dtype whose memory is a register's own bytes.
constexpr DType native_dtype(Register r) {
  constexpr DType of[] = {DType::float32, DType::float64, DType::int32, DType::int64, DType::boolean};
  return of[static_cast<std::size_t>(r)];
}

/// What a loop is asked for: a value written to memory, at each index of `space`.
struct Root {
  std::uint32_t expression = 0;
  AxisMask space = 0;
  Memory memory;
  bool in_place_possible = false;  // the caller's memory: written last, after every read of the loop
};

/// How an operand moves through an iteration space: a stride per axis of the space, in elements.
struct Access {
  std::vector<std::int64_t> strides;
  bool linear = false;    // element p of the space is element p of the memory
  bool constant = false;  // one element for all
};

/// Where an instruction finds or leaves a value: a block of scratch, filled by a load, once with a number, or
/// by another instruction. A slot whose memory can be used as it is points there instead.
struct Slot {
  enum class Kind : std::uint8_t {
    computed,
    constant,     // a number
    memory,       // of the graph, or a temporary
    accumulator,  // a reduction's result per kept index
    row,          // a value per kept index, left by an earlier phase
    cache         // a value per index of the group, left by an earlier phase
  };
  Kind kind = Kind::computed;
  Register reg = Register::f32;
  std::int64_t block = 0;     // byte offset of its block in the task's scratch
  std::int64_t buffer = 0;    // accumulator, row, cache: byte offset of the buffer in its area
  std::uint32_t memory = 0;   // memory: index in Loop::memories
  LoadKernel load = nullptr;  // memory: null where the register's own bytes lie there
  Access access;              // memory, accumulator, row
  std::int64_t element = 0;   // bytes of one element as stored
  bool literal = false;       // constant: `number`, else the graph's scalar `source`
  double number = 0;
  std::uint32_t source = 0;
  int direct_store = -1;  // computed: may be computed right in this store's memory
  bool streamed = false;  // a direct store to memory larger than the caches
  bool cached = false;    // computed: right in the group's cache, at `buffer`
};

struct Instruction {
  enum class Kind : std::uint8_t { load, map, convert, round, run };
  Kind kind = Kind::map;
  MapKernel map = nullptr;
  RunCode code = RunCode::none;  // map: what it is as a step of a run
  RunKernel run = nullptr;
  std::uint32_t first = 0, steps = 0;  // run: in Program::run_parts
  ConvertKernel convert = nullptr;
  StoreKernel narrow = nullptr;  // round: to the dtype and back
  LoadKernel widen = nullptr;
  std::uint32_t out = 0;  // run: the last slot it stores
  std::array<std::uint32_t, 3> in{};
  std::uint8_t arity = 0;
  double coefficient = 0;
};

/// A step of a run, its operand still a slot.
struct RunPart {
  RunCode code;
  std::uint32_t slot;
};
inline constexpr std::uint32_t no_slot = ~std::uint32_t{0};  // of a step without an operand
inline constexpr std::size_t max_run_maps = 16;  // operations joined in one run, each at most four steps
inline constexpr std::size_t max_run_steps = 4 * max_run_maps;

/// A value that leaves the block: to memory, or to a row buffer that later phases read.
struct StoreTarget {
  std::uint32_t slot = 0;
  std::int64_t row = -1;     // byte offset of the row buffer, or
  std::uint32_t memory = 0;  // index in Loop::memories
  DType dtype = DType::float32;
  Access access;
  StoreKernel store = nullptr;  // to contiguous memory
  bool native = false;          // the register's own bytes are what is stored
};

struct Accumulation {
  std::uint32_t slot = 0;
  std::uint32_t reduction = 0;  // index in Loop::reductions
};

/// Straight-line code for one block of one phase.
struct Program {
  std::vector<Slot> slots;
  std::vector<Instruction> code;
  std::vector<RunPart> run_parts;
  std::vector<StoreTarget> stores;
  std::vector<Accumulation> accumulations;
  /// f(slot, whether it is written) for each slot that the instruction reads or writes.
  template <class F>
  void each_slot(const Instruction& instruction, const F& f) const {
    for (std::size_t k = 0; k < instruction.steps; ++k) {
      const RunPart& part = run_parts[instruction.first + k];
      if (part.slot != no_slot) f(part.slot, part.code == RunCode::store);
    }
    for (std::size_t k = 0; k < instruction.arity; ++k) f(instruction.in[k], false);
    if (instruction.kind != Instruction::Kind::run) f(instruction.out, true);
  }
  bool empty() const { return stores.empty() && accumulations.empty(); }
};

struct Reduction {
  Combine combine = Combine::sum;
  Register input = Register::f32, accumulator = Register::f64;
  std::int64_t base = 0;  // byte offset of its accumulators in their area
};

struct Phase {
  Program full;  // over the loop's whole space
  Program row;   // over the kept axes, after it
};

/// How a loop is cut into groups that run in parallel.
enum class Split : std::uint8_t {
  rows,     // ranges of the leading kept axes, all phases of a group at once
  columns,  // ranges of the outermost kept axis, where a contracted axis lies outside it
  chunks    // ranges of the whole space; partial accumulators are merged, in order, after each phase
};

struct Loop {
  std::vector<std::size_t> axes;          // graph axes, outermost first
  std::vector<std::int64_t> extents;      // of those
  std::vector<std::int64_t> row_strides;  // in the kept space; 0 where contracted
  std::vector<Memory> memories;
  std::vector<Reduction> reductions;
  std::vector<Phase> phases;
  std::int64_t size = 1;       // of the space
  std::int64_t kept_size = 1;  // of the kept space
  Split split = Split::rows;
  std::size_t split_axis = 0;  // columns
  std::int64_t leading = 1;    // what is cut: leading indices, columns or elements
  std::int64_t group = 1;      // of those per group
  std::int64_t groups = 1;
  std::int64_t pointer_bytes = 0;  // at the end of the blocks' area: where each slot is at the moment
  std::int64_t block_bytes = 0;    // areas of the scratch: blocks, then accumulators, row buffers, cache
  std::int64_t accumulator_bytes = 0;
  std::int64_t row_bytes = 0;
  std::int64_t cache_bytes = 0;

  std::int64_t task_bytes() const {
    return block_bytes + (split == Split::chunks ? 0 : accumulator_bytes + row_bytes + cache_bytes);
  }
  std::int64_t shared_bytes() const {
    return split == Split::chunks ? row_bytes + groups * accumulator_bytes : 0;
  }
  std::int64_t rows_per_group() const {  // accumulators, and elements of a row buffer
    return split == Split::chunks ? kept_size : group * (kept_size / leading);
  }
  std::size_t tasks() const;       // that run at the same time
  std::int64_t workspace() const;  // bytes
  std::string describe() const;
};

/// The roots share `space`; stores over `kept` (only with reductions) are written per row.
struct LoopRequest {
  AxisMask space = 0, kept = 0;
  std::vector<std::uint32_t> reductions;  // expressions reduced in this loop
  std::vector<Root> roots;
};

/// `resident`: for each expression already in memory, where (null strides: not there).
Loop build_loop(const CanonicalGraph& graph, const Expressions& expressions, const LoopRequest& request,
                const std::vector<const Memory*>& resident);

/// A loop without reductions can be run part by part.
bool runs_by_parts(const Loop& loop);
/// The elements whose indices along the loop's axes are from `first` up to `last`, on this thread. `scratch`:
/// loop.block_bytes, aligned to 64.
void run_loop_part(const Loop& loop, const std::int64_t* first, const std::int64_t* last,
                   const Invocation& invocation, std::byte* workspace, std::byte* scratch);

/// `workspace` holds the temporaries, `areas` the loop.workspace() bytes of this run; both aligned to 64.
void run_loop(const Loop& loop, const Invocation& invocation, std::byte* workspace, std::byte* areas);

}  // namespace stiletto::detail::cpu
