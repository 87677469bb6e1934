// SPDX-License-Identifier: Apache-2.0
// Building a loop: which values each phase computes, loads, keeps and stores.
#include <algorithm>
#include <map>
#include <optional>

#include "backends/cpu/loop.hpp"
#include "backends/cpu/loop_geometry.hpp"
#include "core/dtype_info.hpp"
#include "core/text.hpp"
#include "graph/op_table.hpp"
#include "stiletto/error.hpp"

namespace stiletto::detail::cpu {
namespace {

using Kind = Expression::Kind;

constexpr std::size_t index_of(DType d) { return static_cast<std::size_t>(d); }
constexpr std::size_t index_of(Register r) { return static_cast<std::size_t>(r); }
std::int64_t align64(std::int64_t bytes) { return (bytes + 63) / 64 * 64; }

/// The dtype whose memory is a register's own bytes.
constexpr DType native_dtype(Register r) {
  constexpr DType of[] = {DType::float32, DType::float64, DType::int32, DType::int64, DType::boolean};
  return of[index_of(r)];
}

/// What numbers are turned into before a store or cast converts them: exact for every value they can have.
Register exact_register(DType number) {
  return number == DType::boolean ? Register::b8 : is_integer(number) ? Register::i64 : Register::f64;
}

class LoopBuilder;

/// Emits one phase's code in one space.
class ProgramBuilder {
 public:
  ProgramBuilder(LoopBuilder& loop, Program& program, bool rows)
      : loop_(loop), program_(program), rows_(rows) {}
  std::uint32_t emit(std::uint32_t expression);
  std::uint32_t emit_in(std::uint32_t expression, Register reg);  // converted
  void store(std::uint32_t expression, const Root& root);
  void store_row(std::uint32_t expression, std::int64_t buffer);
  void accumulate(std::uint32_t expression);

 private:
  std::uint32_t add_slot(Slot slot) {
    program_.slots.push_back(std::move(slot));
    return static_cast<std::uint32_t>(program_.slots.size() - 1);
  }
  std::uint32_t add(Instruction instruction, Register out);
  std::uint32_t load(Slot slot);
  std::uint32_t number(const Expression& e, Register reg);
  std::uint32_t memory(const Memory& memory, Register held);
  std::uint32_t per_row(Slot::Kind kind, Register reg, std::int64_t buffer);
  std::uint32_t map(const Expression& e);
  std::uint32_t cast(const Expression& e);
  std::uint32_t convert(std::uint32_t slot, Register to);
  std::uint32_t round(std::uint32_t slot, DType dtype, Register held);

  LoopBuilder& loop_;
  Program& program_;
  bool rows_;
  std::map<std::uint32_t, std::uint32_t> emitted_;
  std::map<std::pair<std::uint32_t, Register>, std::uint32_t> converted_, numbers_;
  std::map<std::pair<std::uint32_t, DType>, std::uint32_t> rounded_;
};

class LoopBuilder {
 public:
  LoopBuilder(const CanonicalGraph& graph, const Expressions& expressions, const LoopRequest& request,
              const std::vector<const Memory*>& resident)
      : graph_(graph), expressions_(expressions), request_(request), resident_(resident) {}

  Loop run();

 private:
  friend class ProgramBuilder;
  const Expression& at(std::uint32_t i) const { return expressions_.list[i]; }
  bool reduced_here(std::uint32_t i) const {
    return std::find(request_.reductions.begin(), request_.reductions.end(), i) != request_.reductions.end();
  }
  std::size_t level(std::uint32_t i);
  bool per_row(std::uint32_t i) { return level(i) > 0 && (at(i).axes & ~request_.kept) == 0; }
  std::int64_t row_buffer(std::uint32_t i);
  std::uint32_t memory_index(const Memory& memory);
  void collect_strides(std::uint32_t i, std::vector<bool>& seen,
                       std::vector<const std::vector<std::int64_t>*>& out);
  void add_reductions();
  void build_full(std::size_t phase, ProgramBuilder& code, std::size_t last);
  void build_row(std::size_t phase, Program& program, std::size_t last);
  std::size_t phase_of(const Root& root, std::size_t last);
  void keep_in_cache(std::uint32_t expression, std::size_t phase, std::int64_t buffer);
  static void assign_blocks(Program& program, std::int64_t& bytes);

  const CanonicalGraph& graph_;
  const Expressions& expressions_;
  const LoopRequest& request_;
  const std::vector<const Memory*>& resident_;
  Loop loop_;
  std::map<std::uint32_t, std::size_t> levels_;
  std::map<std::uint32_t, std::int64_t> row_buffers_;  // expression → buffer
  struct Computed {
    std::size_t phase;
    std::uint32_t slot;
  };
  std::map<std::uint32_t, Computed> computed_;    // by a full phase
  std::map<std::uint32_t, std::int64_t> cached_;  // expression → cache buffer
  std::size_t phase_ = 0;                         // being built
  bool can_cache_ = false;
};

// ---- one program
// ----------------------------------------------------------------------------------------------------

std::uint32_t ProgramBuilder::add(Instruction instruction, Register out) {
  Slot slot;
  slot.reg = out;
  instruction.out = add_slot(std::move(slot));
  program_.code.push_back(instruction);
  return instruction.out;
}

std::uint32_t ProgramBuilder::load(Slot slot) {
  const std::uint32_t index = add_slot(std::move(slot));
  Instruction instruction;
  instruction.kind = Instruction::Kind::load;
  instruction.out = index;
  program_.code.push_back(instruction);
  return index;
}

std::uint32_t ProgramBuilder::number(const Expression& e, Register reg) {
  Slot slot;
  slot.kind = Slot::Kind::constant;
  slot.reg = reg;
  slot.literal = e.kind == Kind::literal;
  slot.number = e.coefficient;
  slot.source = e.source;
  slot.number_dtype = e.dtype;
  return add_slot(std::move(slot));
}

std::uint32_t ProgramBuilder::memory(const Memory& memory, Register held) {
  Slot slot;
  slot.kind = Slot::Kind::memory;
  slot.reg = held;
  slot.memory = loop_.memory_index(memory);
  slot.access =
      rows_ ? row_space_access(loop_.loop_, memory.strides) : access_of(loop_.loop_, memory.strides);
  slot.element = bits_of(memory.dtype) / 8;  // 0 for float4_e2m1
  if (memory.dtype == native_dtype(held)) return load(std::move(slot));
  slot.load = kernels().load[index_of(memory.dtype)][index_of(held)];
  if (slot.load != nullptr) return load(std::move(slot));
  slot.reg = register_of(memory.dtype);  // a product accumulated in float64, held in float32
  if (memory.dtype != native_dtype(slot.reg))
    slot.load = kernels().load[index_of(memory.dtype)][index_of(slot.reg)];
  return convert(load(std::move(slot)), held);
}

std::uint32_t ProgramBuilder::per_row(Slot::Kind kind, Register reg, std::int64_t buffer) {
  Slot slot;
  slot.kind = kind;
  slot.reg = reg;
  slot.buffer = buffer;
  slot.element = static_cast<std::int64_t>(bytes_of(reg));
  if (rows_) {
    slot.access.linear = true;
  } else {
    slot.access.strides = loop_.loop_.row_strides;
    finish_access(slot.access, loop_.loop_.extents, false);
  }
  return load(std::move(slot));
}

std::uint32_t ProgramBuilder::emit(std::uint32_t index) {
  const Expression& e = loop_.at(index);
  if (e.kind == Kind::scalar) return emit_in(index, exact_register(e.dtype));
  if (e.kind == Kind::literal) return emit_in(index, e.held);
  if (const auto known = emitted_.find(index); known != emitted_.end()) return known->second;
  std::uint32_t slot = 0;
  const Memory* resident = loop_.resident_[index];
  if (resident != nullptr) {
    slot = memory(*resident, e.held);
  } else if (loop_.reduced_here(index) && rows_) {
    const auto& list = loop_.request_.reductions;
    const auto position = static_cast<std::size_t>(std::find(list.begin(), list.end(), index) - list.begin());
    slot = per_row(Slot::Kind::accumulator, e.held, loop_.loop_.reductions[position].base);
  } else if (!rows_ && loop_.per_row(index)) {
    slot = per_row(Slot::Kind::row, e.held, loop_.row_buffer(index));
  } else if (const auto before = loop_.computed_.find(index); !rows_ && loop_.can_cache_ &&
                                                              before != loop_.computed_.end() &&
                                                              before->second.phase < loop_.phase_) {
    Slot cached;
    cached.kind = Slot::Kind::cache;
    cached.reg = e.held;
    const auto [entry, fresh] = loop_.cached_.try_emplace(index, loop_.loop_.cache_bytes);
    if (fresh) loop_.keep_in_cache(index, before->second.phase, entry->second);
    cached.buffer = entry->second;
    slot = load(std::move(cached));
  } else {
    if (e.kind != Kind::map && e.kind != Kind::cast)
      throw InternalError(text("the CPU backend lost a value of a loop; please report this with\n",
                               loop_.graph_.to_string()));
    slot = e.kind == Kind::map ? map(e) : cast(e);
    if (!rows_ && program_.slots[slot].kind == Slot::Kind::computed)
      loop_.computed_.try_emplace(index, LoopBuilder::Computed{loop_.phase_, slot});
  }
  emitted_[index] = slot;
  return slot;
}

std::uint32_t ProgramBuilder::emit_in(std::uint32_t index, Register reg) {
  const Expression& e = loop_.at(index);
  if (e.kind == Kind::scalar || e.kind == Kind::literal) {
    const auto [entry, fresh] = numbers_.try_emplace({index, reg}, 0);
    if (fresh) entry->second = number(e, reg);
    return entry->second;
  }
  std::uint32_t slot = emit(index);
  if (e.rounds_when_used) slot = round(slot, loop_.expressions_.intermediate, e.held);
  return convert(slot, reg);
}

std::uint32_t ProgramBuilder::convert(std::uint32_t slot, Register to) {
  const Register from = program_.slots[slot].reg;
  if (from == to) return slot;
  const auto [entry, fresh] = converted_.try_emplace({slot, to}, 0);
  if (fresh) {
    Instruction instruction;
    instruction.kind = Instruction::Kind::convert;
    instruction.convert = kernels().convert[index_of(from)][index_of(to)];
    instruction.in[0] = slot;
    instruction.arity = 1;
    entry->second = add(instruction, to);
  }
  return entry->second;
}

std::uint32_t ProgramBuilder::round(std::uint32_t slot, DType dtype, Register held) {
  const auto [entry, fresh] = rounded_.try_emplace({slot, dtype}, 0);
  if (fresh) {
    Instruction instruction;
    instruction.kind = Instruction::Kind::round;
    instruction.narrow = kernels().store[index_of(program_.slots[slot].reg)][index_of(dtype)];
    instruction.widen = kernels().load[index_of(dtype)][index_of(held)];
    instruction.in[0] = slot;
    instruction.arity = 1;
    entry->second = add(instruction, held);
  }
  return entry->second;
}

std::uint32_t ProgramBuilder::map(const Expression& e) {
  const Register operands = loop_.expressions_.hold(e.operand);
  Instruction instruction;
  instruction.map = kernels().map[static_cast<std::size_t>(e.op)][index_of(operands)];
  if (instruction.map == nullptr)
    throw InternalError(text("the CPU backend has no kernel for ", name_of(e.op), " of ", e.operand,
                             "; please report this with\n", loop_.graph_.to_string()));
  instruction.arity = e.arity;
  instruction.coefficient = e.coefficient;
  for (std::size_t i = 0; i < e.arity; ++i)
    instruction.in[i] = emit_in(e.inputs[i], e.op == Op::where && i == 0 ? Register::b8 : operands);
  return add(instruction, row_of(e.op).rule == TypeRule::compare ? Register::b8 : operands);
}

std::uint32_t ProgramBuilder::cast(const Expression& e) {
  const Register held = e.held;
  const Expression& from = loop_.at(e.inputs[0]);
  const std::uint32_t x =
      from.kind == Kind::scalar ? emit_in(e.inputs[0], exact_register(from.dtype)) : emit(e.inputs[0]);
  const bool converts = native_dtype(held) == e.dtype;  // the register holds this dtype and nothing beyond it
  return converts ? convert(x, held) : round(x, e.dtype, held);
}

void ProgramBuilder::store(std::uint32_t expression, const Root& root) {
  StoreTarget target;
  target.slot = emit(expression);
  target.memory = loop_.memory_index(root.memory);
  target.dtype = root.memory.dtype;
  target.access = rows_ ? row_space_access(loop_.loop_, root.memory.strides)
                        : access_of(loop_.loop_, root.memory.strides);
  const Slot& slot = program_.slots[target.slot];
  target.native = native_dtype(slot.reg) == root.memory.dtype;
  target.store = kernels().store[index_of(slot.reg)][index_of(root.memory.dtype)];
  program_.stores.push_back(std::move(target));
}

void ProgramBuilder::store_row(std::uint32_t expression, std::int64_t buffer) {
  StoreTarget target;
  target.slot = emit(expression);
  target.row = buffer;
  target.native = true;
  program_.stores.push_back(std::move(target));
}

void ProgramBuilder::accumulate(std::uint32_t reduction) {
  const auto& list = loop_.request_.reductions;
  const auto position =
      static_cast<std::uint32_t>(std::find(list.begin(), list.end(), reduction) - list.begin());
  program_.accumulations.push_back(
      {emit_in(loop_.at(reduction).inputs[0], loop_.loop_.reductions[position].input), position});
}

// ---- the loop
// -------------------------------------------------------------------------------------------------------

std::size_t LoopBuilder::level(std::uint32_t i) {
  if (resident_[i] != nullptr) return 0;
  if (const auto known = levels_.find(i); known != levels_.end()) return known->second;
  std::size_t result = 0;
  const Expression& e = at(i);
  for (std::size_t k = 0; k < e.arity; ++k) result = std::max(result, level(e.inputs[k]));
  if (reduced_here(i)) ++result;
  levels_[i] = result;
  return result;
}

std::uint32_t LoopBuilder::memory_index(const Memory& memory) {
  loop_.memories.push_back(memory);
  return static_cast<std::uint32_t>(loop_.memories.size() - 1);
}

std::int64_t LoopBuilder::row_buffer(std::uint32_t i) {
  const auto [entry, fresh] = row_buffers_.try_emplace(i, loop_.row_bytes);
  if (fresh) {
    const std::int64_t rows =
        loop_.split == Split::chunks ? loop_.kept_size : loop_.group * (loop_.kept_size / loop_.leading);
    loop_.row_bytes += align64(rows * static_cast<std::int64_t>(bytes_of(at(i).held)));
  }
  return entry->second;
}

void LoopBuilder::collect_strides(std::uint32_t i, std::vector<bool>& seen,
                                  std::vector<const std::vector<std::int64_t>*>& out) {
  if (seen[i]) return;
  seen[i] = true;
  if (resident_[i] != nullptr) return out.push_back(&resident_[i]->strides);
  for (std::size_t k = 0; k < at(i).arity; ++k) collect_strides(at(i).inputs[k], seen, out);
}

void LoopBuilder::add_reductions() {
  const std::int64_t rows =
      loop_.split == Split::chunks ? loop_.kept_size : loop_.group * (loop_.kept_size / loop_.leading);
  for (std::uint32_t i : request_.reductions) {
    const Expression& e = at(i);
    Reduction r;
    r.combine = e.combine;
    const Expression& input = at(e.inputs[0]);
    r.input =
        input.kind == Kind::scalar || input.kind == Kind::literal ? expressions_.hold(e.operand) : input.held;
    r.accumulator = accumulator_of(r.combine, r.input);
    r.base = loop_.accumulator_bytes;
    loop_.accumulator_bytes += align64(rows * static_cast<std::int64_t>(bytes_of(r.accumulator)));
    loop_.reductions.push_back(r);
  }
}

/// The caller's memory is written last: until then it may still be an input.
std::size_t LoopBuilder::phase_of(const Root& root, std::size_t last) {
  if (root.in_place_possible) return last;
  const std::size_t l = level(root.expression);
  return root.space == request_.space ? l : l - 1;
}

void LoopBuilder::keep_in_cache(std::uint32_t expression, std::size_t phase, std::int64_t buffer) {
  Slot& slot = loop_.phases[phase].full.slots[computed_.at(expression).slot];
  slot.cached = true;
  slot.buffer = buffer;
  // Whole lane groups are written, beyond the last element too.
  const std::int64_t elements =
      loop_.group * (loop_.size / loop_.leading) + static_cast<std::int64_t>(lane_group);
  loop_.cache_bytes += align64(elements * static_cast<std::int64_t>(bytes_of(slot.reg)));
}

void LoopBuilder::build_full(std::size_t phase, ProgramBuilder& code, std::size_t last) {
  for (std::uint32_t reduction : request_.reductions)
    if (level(reduction) == phase + 1) code.accumulate(reduction);
  for (const Root& root : request_.roots)
    if (root.space == request_.space && phase_of(root, last) == phase) code.store(root.expression, root);
}

void LoopBuilder::build_row(std::size_t phase, Program& program, std::size_t last) {
  ProgramBuilder code(*this, program, true);
  for (const auto& [expression, buffer] : row_buffers_)
    if (level(expression) == phase + 1) code.store_row(expression, buffer);
  for (const Root& root : request_.roots)
    if (root.space != request_.space && phase_of(root, last) == phase) code.store(root.expression, root);
}

/// Blocks for slots, reused once their last reader has run.
void LoopBuilder::assign_blocks(Program& program, std::int64_t& bytes) {
  constexpr std::int64_t block_bytes = static_cast<std::int64_t>(block_size) * 8;
  const std::size_t end = program.code.size();
  std::vector<std::size_t> last_use(program.slots.size(), 0);
  for (std::size_t i = 0; i < end; ++i) {
    last_use[program.code[i].out] = i;
    for (std::size_t k = 0; k < program.code[i].arity; ++k) last_use[program.code[i].in[k]] = i;
  }
  for (const StoreTarget& store : program.stores) last_use[store.slot] = end;
  for (const Accumulation& a : program.accumulations) last_use[a.slot] = end;
  std::vector<std::int64_t> free_blocks;
  std::int64_t used = 2 * block_bytes;  // the first two are where raw elements are gathered and rounded
  auto take = [&] {
    if (free_blocks.empty()) {
      used += block_bytes;
      return used - block_bytes;
    }
    const std::int64_t block = free_blocks.back();
    free_blocks.pop_back();
    return block;
  };
  for (Slot& slot : program.slots)
    if (slot.kind == Slot::Kind::constant) slot.block = take();
  std::vector<bool> freed(program.slots.size());
  for (std::size_t i = 0; i < end; ++i) {
    const Instruction& instruction = program.code[i];
    program.slots[instruction.out].block = take();
    auto release = [&](std::uint32_t s) {
      if (last_use[s] != i || freed[s] || program.slots[s].kind == Slot::Kind::constant) return;
      freed[s] = true;
      free_blocks.push_back(program.slots[s].block);
    };
    for (std::size_t k = 0; k < instruction.arity; ++k) release(instruction.in[k]);
    release(instruction.out);
  }
  bytes = std::max(bytes, used);
}

/// A value may be computed right in the memory it is stored to, where that is contiguous and nothing is read
/// from there afterwards.
void choose_direct_stores(const std::vector<Root>& roots, const Loop& loop, Program& program) {
  for (std::size_t s = 0; s < program.stores.size(); ++s) {
    const StoreTarget& store = program.stores[s];
    Slot& slot = program.slots[store.slot];
    if (store.row >= 0 || !store.native || !store.access.linear || slot.kind != Slot::Kind::computed ||
        slot.direct_store >= 0 || slot.cached)
      continue;
    const Memory& memory = loop.memories[store.memory];
    const bool callers = std::any_of(roots.begin(), roots.end(), [&](const Root& root) {
      return root.in_place_possible && root.memory.home == memory.home && root.memory.index == memory.index;
    });
    const bool last =
        !program.code.empty() && program.code.back().out == store.slot && program.stores.size() == 1;
    if (!callers || last) slot.direct_store = static_cast<int>(s);
  }
}

Loop LoopBuilder::run() {
  std::vector<const std::vector<std::int64_t>*> operands;
  for (const Root& root : request_.roots)
    if (root.space == request_.space) operands.push_back(&root.memory.strides);
  std::vector<bool> seen(expressions_.list.size());
  std::vector<const std::vector<std::int64_t>*> inputs;
  for (const Root& root : request_.roots) collect_strides(root.expression, seen, inputs);
  for (std::uint32_t reduction : request_.reductions) collect_strides(reduction, seen, inputs);
  auto axes_walked = [](const std::vector<std::int64_t>* strides) {
    return std::count_if(strides->begin(), strides->end(), [](std::int64_t s) { return s != 0; });
  };
  std::stable_sort(inputs.begin(), inputs.end(),
                   [&](const auto* a, const auto* b) { return axes_walked(a) > axes_walked(b); });
  operands.insert(operands.end(), inputs.begin(), inputs.end());
  set_geometry(loop_, graph_, request_.space, request_.kept, operands);

  std::size_t last = 0;
  for (std::uint32_t reduction : request_.reductions) last = std::max(last, level(reduction) - 1);
  for (const Root& root : request_.roots)
    if (root.space == request_.space) last = std::max(last, level(root.expression));
  set_split(loop_, request_.kept, last + 1);
  can_cache_ = can_cache(loop_);
  add_reductions();
  loop_.phases.resize(last + 1);
  for (phase_ = 0; phase_ <= last; ++phase_) {
    ProgramBuilder code(*this, loop_.phases[phase_].full, false);
    build_full(phase_, code, last);
  }
  for (std::size_t phase = 0; phase <= last; ++phase) build_row(phase, loop_.phases[phase].row, last);
  for (Phase& phase : loop_.phases) {
    choose_direct_stores(request_.roots, loop_, phase.full);
    choose_direct_stores(request_.roots, loop_, phase.row);
    assign_blocks(phase.full, loop_.block_bytes);
    assign_blocks(phase.row, loop_.block_bytes);
  }
  return std::move(loop_);
}

}  // namespace

Loop build_loop(const CanonicalGraph& graph, const Expressions& expressions, const LoopRequest& request,
                const std::vector<const Memory*>& resident) {
  return LoopBuilder(graph, expressions, request, resident).run();
}

}  // namespace stiletto::detail::cpu
