// SPDX-License-Identifier: Apache-2.0
// What is measured on the GPU.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include <stiletto/stiletto.hpp>

class GraphWriter;
using List = std::vector<stiletto::Array>;

/// An array as it lies in memory, row-major, and the order in which the function sees its axes.
struct Operand {
  stiletto::Shape stored;
  stiletto::Dims axes = {};

  stiletto::Array view(const stiletto::Array& memory) const {
    return axes.size() == 0 ? memory : stiletto::transpose(memory, axes);
  }
};

struct Workload {
  std::string name;
  stiletto::DType dtype;  // of the operands and results
  std::vector<Operand> operands, results;
  std::function<List(const List&)> function;
  /// The same by hand: reads the operands in their order, then writes the results in theirs.
  std::function<void(GraphWriter&)> graph;
  double tolerance = 0.02;   // between both sides' results, relative to the largest value
  bool tuned = false;        // against the frontend's best plan, too
  bool first_calls = false;  // W8, too
  /// Operands behind the random ones that have to fit them.
  std::function<List(const List&)> further = {};
};

std::vector<Workload> gpu_workloads();

/// Work that waits for memory alone: its bandwidth is what counts.
struct MemoryBound {
  std::string name;
  stiletto::Shape shape;  // of one bfloat16 operand
  stiletto::Array (*function)(const stiletto::Array&);
};

std::vector<MemoryBound> memory_bound();
