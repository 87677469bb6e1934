// SPDX-License-Identifier: Apache-2.0
// A canonical graph as steps: matrix products, with what can ride along behind them, and loops that fuse
// everything else.
#pragma once
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "backends/cpu/loop.hpp"
#include "backends/cpu/matmul.hpp"

namespace stiletto::detail::cpu {

inline constexpr std::size_t max_fused_operations = 16;

struct MatmulStep {
  /// What a post-operation reads: memory, a number, or nothing.
  struct Operand {
    bool reads_memory = false;
    Memory memory;
    bool number = false;
    bool literal = false;
    float value = 0;           // literal
    std::uint32_t scalar = 0;  // of the graph
  };
  std::unique_ptr<const Matmul> matmul;
  Memory a, b, c;
  std::vector<Operand> operands;  // one per post-operation
};

struct Step {
  std::variant<Loop, MatmulStep> work;
};

inline constexpr std::size_t no_step = ~std::size_t{0};

struct Schedule {
  std::vector<Step> steps;
  std::vector<std::size_t> step_of_value;  // of the graph: the first step that computes it; leaves: no_step
  std::int64_t temporaries = 0;            // bytes, at the front of the workspace
  std::int64_t areas = 0;                  // bytes that the largest step needs behind them
};

Schedule schedule(const CanonicalGraph& graph);

}  // namespace stiletto::detail::cpu
