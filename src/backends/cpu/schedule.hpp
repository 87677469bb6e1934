// SPDX-License-Identifier: Apache-2.0
// A canonical graph as steps: matrix products, with what can ride along behind them, and loops that fuse
// everything else.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "backends/cpu/loop.hpp"
#include "backends/cpu/matmul.hpp"
#include "backends/cpu/structured.hpp"

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

struct StructuredStep {
  /// What the kernel is handed, but for the address.
  struct Operand {
    TensorView view;
    Memory memory;
    int scalar = -1;       // of the graph: a number instead of memory
    bool literal = false;  // a number known here
    double value = 0;
    bool unwanted = false;  // a result that nobody reads
  };
  Op op = Op::attention;
  Attributes attributes;
  std::vector<Operand> operands, results;
  /// Pointwise work on the first result, done on each part of that as soon as it is there.
  std::optional<Loop> behind = {};
  std::vector<std::size_t> behind_axes = {};  // of the result: which one each axis of that loop is
};

struct Step {
  std::variant<Loop, MatmulStep, StructuredStep> work;
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
