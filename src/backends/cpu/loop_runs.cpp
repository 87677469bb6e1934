// SPDX-License-Identifier: Apache-2.0
// Joining runs: maps that follow one another in a program and are steps of a run kernel become one
// instruction. A value that only the next step reads never reaches memory.
#include <algorithm>
#include <utility>

#include "backends/cpu/loop_builder.hpp"

namespace stiletto::detail::cpu {
namespace {

bool is_step(const Instruction& instruction) { return instruction.code != RunCode::none; }

/// Whether the map goes on from the value at hand: it reads `value`, as the operand that steps replace, once.
bool goes_on_from(std::uint32_t value, const Instruction& map) {
  if (map.arity == 1) return map.in[0] == value;
  if (map.in[0] == map.in[1]) return false;
  const bool commutes = map.code == RunCode::add || map.code == RunCode::multiply;
  return map.in[0] == value || (commutes && map.in[1] == value);
}

class RunJoiner {
 public:
  RunJoiner(Program& program, bool prefetches)
      : program_(program), prefetches_(prefetches), reads_(program.slots.size()) {
    for (const Instruction& instruction : program_.code)
      program_.each_slot(instruction, [&](std::uint32_t slot, bool written) { reads_[slot] += !written; });
    for (const StoreTarget& store : program_.stores) ++reads_[store.slot];
    for (const Accumulation& accumulation : program_.accumulations) ++reads_[accumulation.slot];
    for (std::size_t slot = 0; slot < reads_.size(); ++slot) reads_[slot] += program_.slots[slot].cached;
  }

  void join() {
    const std::vector<Instruction> code = std::move(program_.code);
    program_.code.clear();
    for (std::size_t begin = 0; begin < code.size();) {
      std::vector<Instruction> loads, maps;
      const std::size_t end = collect(code, begin, loads, maps);
      if (maps.size() < 2) {
        program_.code.push_back(code[begin++]);
        continue;
      }
      program_.code.insert(program_.code.end(), loads.begin(), loads.end());
      program_.code.push_back(joined(maps));
      begin = end;
    }
  }

 private:
  /// The maps from `begin` on that can be one run, and the loads between them, which come before it. Returns
  /// the end of what was collected.
  std::size_t collect(const std::vector<Instruction>& code, std::size_t begin,
                      std::vector<Instruction>& loads, std::vector<Instruction>& maps) const {
    std::size_t end = begin, loads_before_end = 0;
    if (!is_step(code[begin])) return begin;
    const Register reg = program_.slots[code[begin].out].reg;
    for (std::size_t i = begin; i < code.size() && maps.size() < max_run_maps; ++i) {
      if (code[i].kind == Instruction::Kind::load) {
        loads.push_back(code[i]);
        continue;
      }
      if (!is_step(code[i]) || program_.slots[code[i].out].reg != reg) break;
      maps.push_back(code[i]);
      end = i + 1;
      loads_before_end = loads.size();
    }
    loads.resize(loads_before_end);
    return end;
  }

  Instruction joined(const std::vector<Instruction>& maps) {
    Instruction run;
    run.kind = Instruction::Kind::run;
    run.out = maps.back().out;
    run.run = kernels().run[index_of(program_.slots[run.out].reg)];
    run.first = static_cast<std::uint32_t>(program_.run_parts.size());
    std::uint32_t at_hand = no_slot;
    for (std::size_t i = 0; i < maps.size(); ++i) {
      const Instruction& map = maps[i];
      std::uint32_t operand = map.arity == 1 ? no_slot : map.in[1];
      for (std::size_t k = 0; k < map.arity; ++k) prefetch(run, map.in[k]);
      if (!goes_on_from(at_hand, map))
        program_.run_parts.push_back({RunCode::load, map.in[0]});
      else if (operand == at_hand)
        operand = map.in[0];
      program_.run_parts.push_back({map.code, operand});
      at_hand = map.out;
      const bool only_the_next_reads_it =
          i + 1 < maps.size() && reads_[at_hand] == 1 && goes_on_from(at_hand, maps[i + 1]);
      if (!only_the_next_reads_it) program_.run_parts.push_back({RunCode::store, at_hand});
    }
    run.steps = static_cast<std::uint32_t>(program_.run_parts.size()) - run.first;
    return run;
  }

  /// Before the first step that reads memory in the order in which it lies.
  void prefetch(const Instruction& run, std::uint32_t slot_index) {
    const Slot& slot = program_.slots[slot_index];
    if (!prefetches_ || slot.kind != Slot::Kind::memory || !slot.access.linear || slot.load != nullptr)
      return;
    const auto begin = program_.run_parts.begin() + run.first;
    const bool done = std::any_of(begin, program_.run_parts.end(), [&](const RunPart& part) {
      return part.code == RunCode::prefetch && part.slot == slot_index;
    });
    if (!done) program_.run_parts.push_back({RunCode::prefetch, slot_index});
  }

  Program& program_;
  bool prefetches_;
  std::vector<int> reads_;  // per slot, by instructions and by whatever comes after the block
};

}  // namespace

void join_runs(Program& program, bool prefetches) { RunJoiner(program, prefetches).join(); }

}  // namespace stiletto::detail::cpu
