// SPDX-License-Identifier: Apache-2.0
// Building a loop: which values each phase computes, loads, keeps and stores.
#include "backends/cpu/loop_builder.hpp"

#include <algorithm>

#include "backends/cpu/loop_geometry.hpp"

namespace stiletto::detail::cpu {
namespace {

using Kind = Expression::Kind;

constexpr std::int64_t worth_prefetching = 1 << 18;  // elements of a loop: no first-level cache holds them
constexpr std::int64_t worth_streaming = 32 << 20;   // bytes of a result: little of it would stay in cache

}  // namespace

/// Levels of everything the expression is made of: operands come before it in the list.
std::size_t LoopBuilder::level(std::uint32_t i) {
  for (std::uint32_t next = static_cast<std::uint32_t>(levels_.size()); next <= i; ++next) {
    std::size_t result = 0;
    const Expression& e = at(next);
    if (resident_[next] == nullptr) {
      for (std::size_t k = 0; k < e.arity; ++k) result = std::max(result, levels_[e.inputs[k]]);
      if (reduced_here(next)) ++result;
    }
    levels_.push_back(result);
  }
  return levels_[i];
}

std::uint32_t LoopBuilder::memory_index(const Memory& memory) {
  loop_.memories.push_back(memory);
  return static_cast<std::uint32_t>(loop_.memories.size() - 1);
}

std::int64_t LoopBuilder::row_buffer(std::uint32_t i) {
  const auto [entry, fresh] = row_buffers_.try_emplace(i, loop_.row_bytes);
  if (fresh) {
    loop_.row_bytes += align64(loop_.rows_per_group() * static_cast<std::int64_t>(bytes_of(at(i).held)));
  }
  return entry->second;
}

void LoopBuilder::collect_strides(std::uint32_t root, std::vector<bool>& seen,
                                  std::vector<const std::vector<std::int64_t>*>& out) const {
  std::vector<std::uint32_t> open{root};
  while (!open.empty()) {
    const std::uint32_t i = open.back();
    open.pop_back();
    if (seen[i]) continue;
    seen[i] = true;
    if (resident_[i] != nullptr) {
      out.push_back(&resident_[i]->strides);
      continue;
    }
    for (std::size_t k = at(i).arity; k-- > 0;) open.push_back(at(i).inputs[k]);
  }
}

void LoopBuilder::add_reductions() {
  for (std::uint32_t i : request_.reductions) {
    const Expression& e = at(i);
    Reduction r;
    r.combine = e.combine;
    const Expression& input = at(e.inputs[0]);
    r.input =
        input.kind == Kind::scalar || input.kind == Kind::literal ? expressions_.hold(e.operand) : input.held;
    r.accumulator = accumulator_of(r.combine, r.input);
    r.base = loop_.accumulator_bytes;
    loop_.accumulator_bytes +=
        align64(loop_.rows_per_group() * static_cast<std::int64_t>(bytes_of(r.accumulator)));
    loop_.reductions.push_back(r);
  }
}

/// The caller's memory is written last: until then it may still be an input.
std::size_t LoopBuilder::phase_of(const Root& root, std::size_t last) {
  if (root.in_place_possible) return last;
  const std::size_t l = level(root.expression);
  return root.space == request_.space ? l : l - 1;
}

/// The cache buffer of a slot of an earlier phase: one per slot, since several expressions may be the same
/// slot.
std::int64_t LoopBuilder::keep_in_cache(std::size_t phase, std::uint32_t slot_index) {
  Slot& slot = loop_.phases[phase].full.slots[slot_index];
  if (slot.cached) return slot.buffer;
  slot.cached = true;
  slot.buffer = loop_.cache_bytes;
  // Whole lane groups are written, beyond the last element too.
  const std::int64_t elements =
      loop_.group * (loop_.size / loop_.leading) + static_cast<std::int64_t>(lane_group);
  loop_.cache_bytes += align64(elements * static_cast<std::int64_t>(bytes_of(slot.reg)));
  return slot.buffer;
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
  for (std::size_t i = 0; i < end; ++i)
    program.each_slot(program.code[i], [&](std::uint32_t slot, bool) { last_use[slot] = i; });
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
    program.each_slot(program.code[i], [&](std::uint32_t slot, bool written) {
      if (written) program.slots[slot].block = take();
    });
    program.each_slot(program.code[i], [&](std::uint32_t slot, bool) {
      if (last_use[slot] != i || freed[slot] || program.slots[slot].kind == Slot::Kind::constant) return;
      freed[slot] = true;
      free_blocks.push_back(program.slots[slot].block);
    });
  }
  bytes = std::max(bytes, used);
}

namespace {

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
    slot.streamed = slot.direct_store >= 0 && loop.phases.size() == 1 && loop.kept_size == loop.size &&
                    loop.size * static_cast<std::int64_t>(bytes_of(slot.reg)) >= worth_streaming;
  }
}

}  // namespace

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
    join_runs(phase.full, loop_.size >= worth_prefetching);
    join_runs(phase.row, false);
    choose_direct_stores(request_.roots, loop_, phase.full);
    choose_direct_stores(request_.roots, loop_, phase.row);
    assign_blocks(phase.full, loop_.block_bytes);
    assign_blocks(phase.row, loop_.block_bytes);
    const std::size_t slots = std::max(phase.full.slots.size(), phase.row.slots.size());
    loop_.pointer_bytes =
        std::max(loop_.pointer_bytes, align64(static_cast<std::int64_t>(slots * sizeof(void*))));
  }
  loop_.block_bytes += loop_.pointer_bytes;
  return std::move(loop_);
}

Loop build_loop(const CanonicalGraph& graph, const Expressions& expressions, const LoopRequest& request,
                const std::vector<const Memory*>& resident) {
  return LoopBuilder(graph, expressions, request, resident).run();
}

}  // namespace stiletto::detail::cpu
