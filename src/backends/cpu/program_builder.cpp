// SPDX-License-Identifier: Apache-2.0
// Emitting the code of one phase: each value once, in the register its user wants.
#include "backends/cpu/loop_builder.hpp"
#include "backends/cpu/loop_geometry.hpp"
#include "core/dtype_info.hpp"
#include "core/text.hpp"
#include "graph/op_table.hpp"
#include "stiletto/error.hpp"

namespace stiletto::detail::cpu {
namespace {

using Kind = Expression::Kind;

RunCode run_code(Op op) {
  switch (op) {
    case Op::add:
      return RunCode::add;
    case Op::subtract:
      return RunCode::subtract;
    case Op::multiply:
      return RunCode::multiply;
    case Op::divide:
      return RunCode::divide;
    case Op::maximum:
      return RunCode::maximum;
    case Op::minimum:
      return RunCode::minimum;
    case Op::negate:
      return RunCode::negate;
    case Op::square:
      return RunCode::square;
    case Op::relu:
      return RunCode::relu;
    default:
      return RunCode::none;
  }
}

/// What numbers are turned into before a store or cast converts them: exact for every value they can have.
Register exact_register(DType number) {
  return number == DType::boolean ? Register::b8 : is_integer(number) ? Register::i64 : Register::f64;
}

}  // namespace

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

/// Whether the expression is found somewhere rather than computed from its operands.
bool ProgramBuilder::is_leaf(std::uint32_t index) {
  if (loop_.resident_[index] != nullptr || emitted_.contains(index)) return true;
  return rows_ ? loop_.reduced_here(index) : loop_.per_row(index) || is_cached(index);
}

/// Whether an earlier phase has left it in the group's cache, or can be made to.
bool ProgramBuilder::is_cached(std::uint32_t index) const {
  const auto before = loop_.computed_.find(index);
  return !rows_ && loop_.can_cache_ && before != loop_.computed_.end() && before->second.phase < loop_.phase_;
}

std::uint32_t ProgramBuilder::emit(std::uint32_t root) {
  struct Visit {
    std::uint32_t expression;
    std::size_t operand;
  };
  std::vector<Visit> path{{root, 0}};
  for (;;) {
    Visit& visit = path.back();
    const Expression& e = loop_.at(visit.expression);
    if (visit.operand < e.arity && !is_leaf(visit.expression)) {
      const std::uint32_t next = e.inputs[visit.operand++];
      const Kind kind = loop_.at(next).kind;
      if (kind != Kind::scalar && kind != Kind::literal) path.push_back({next, 0});
      continue;
    }
    const std::uint32_t slot = emit_one(visit.expression);
    path.pop_back();
    if (path.empty()) return slot;
  }
}

std::uint32_t ProgramBuilder::emit_one(std::uint32_t index) {
  const Expression& e = loop_.at(index);
  if (e.kind == Kind::scalar) return emit_in(index, exact_register(e.dtype));
  if (e.kind == Kind::literal) return emit_in(index, e.held);
  if (const auto known = emitted_.find(index); known != emitted_.end()) return known->second;
  std::uint32_t slot = 0;
  const Memory* resident = loop_.resident_[index];
  if (resident != nullptr) {
    slot = memory(*resident, e.held);
  } else if (loop_.reduced_here(index) && rows_) {
    slot =
        per_row(Slot::Kind::accumulator, e.held, loop_.loop_.reductions[loop_.reduction_index(index)].base);
  } else if (!rows_ && loop_.per_row(index)) {
    slot = per_row(Slot::Kind::row, e.held, loop_.row_buffer(index));
  } else if (is_cached(index)) {
    const LoopBuilder::Computed& before = loop_.computed_.at(index);
    Slot cached;
    cached.kind = Slot::Kind::cache;
    cached.reg = e.held;
    cached.buffer = loop_.keep_in_cache(before.phase, before.slot);
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
  std::uint32_t slot = emit_one(index);
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
  if (kernels().run[index_of(operands)] != nullptr) instruction.code = run_code(e.op);
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
      from.kind == Kind::scalar ? emit_in(e.inputs[0], exact_register(from.dtype)) : emit_one(e.inputs[0]);
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
  const std::size_t position = loop_.reduction_index(reduction);
  const std::uint32_t input = loop_.at(reduction).inputs[0];
  const Kind kind = loop_.at(input).kind;
  if (kind != Kind::scalar && kind != Kind::literal) emit(input);
  program_.accumulations.push_back(
      {emit_in(input, loop_.loop_.reductions[position].input), static_cast<std::uint32_t>(position)});
}

}  // namespace stiletto::detail::cpu
