// SPDX-License-Identifier: Apache-2.0
// What build_loop is made of: LoopBuilder decides on phases, buffers and stores, ProgramBuilder emits one
// phase's code.
#pragma once
#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "backends/cpu/loop.hpp"

namespace stiletto::detail::cpu {

constexpr std::size_t index_of(DType d) { return static_cast<std::size_t>(d); }
constexpr std::size_t index_of(Register r) { return static_cast<std::size_t>(r); }
inline std::int64_t align64(std::int64_t bytes) { return (bytes + 63) / 64 * 64; }

class LoopBuilder;

/// Joins neighbouring cheap operations into runs, which prefetch what they read if asked to; see
/// loop_runs.cpp.
void join_runs(Program&, bool prefetches);

/// Emits one phase's code in one space.
class ProgramBuilder {
 public:
  ProgramBuilder(LoopBuilder& loop, Program& program, bool rows)
      : loop_(loop), program_(program), rows_(rows) {}
  /// Emits the operands first, whatever the depth, and then the expression itself.
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
  bool is_leaf(std::uint32_t expression);
  bool is_cached(std::uint32_t expression) const;
  std::uint32_t emit_one(std::uint32_t expression);
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
  bool reduced_here(std::uint32_t i) const { return reduction_index(i) < request_.reductions.size(); }
  /// Its place in Loop::reductions; their number when it is reduced elsewhere.
  std::size_t reduction_index(std::uint32_t i) const {
    const auto& list = request_.reductions;
    return static_cast<std::size_t>(std::find(list.begin(), list.end(), i) - list.begin());
  }
  std::size_t level(std::uint32_t i);
  bool per_row(std::uint32_t i) { return level(i) > 0 && (at(i).axes & ~request_.kept) == 0; }
  std::int64_t row_buffer(std::uint32_t i);
  std::uint32_t memory_index(const Memory& memory);
  void collect_strides(std::uint32_t i, std::vector<bool>& seen,
                       std::vector<const std::vector<std::int64_t>*>& out) const;
  void add_reductions();
  void build_full(std::size_t phase, ProgramBuilder& code, std::size_t last);
  void build_row(std::size_t phase, Program& program, std::size_t last);
  std::size_t phase_of(const Root& root, std::size_t last);
  std::int64_t keep_in_cache(std::size_t phase, std::uint32_t slot_index);
  static void assign_blocks(Program& program, std::int64_t& bytes);

  const CanonicalGraph& graph_;
  const Expressions& expressions_;
  const LoopRequest& request_;
  const std::vector<const Memory*>& resident_;
  Loop loop_;
  std::vector<std::size_t> levels_;                    // of the first expressions
  std::map<std::uint32_t, std::int64_t> row_buffers_;  // expression → buffer
  struct Computed {
    std::size_t phase;
    std::uint32_t slot;
  };
  std::map<std::uint32_t, Computed> computed_;  // by a full phase
  std::size_t phase_ = 0;                       // being built
  bool can_cache_ = false;
};

}  // namespace stiletto::detail::cpu
