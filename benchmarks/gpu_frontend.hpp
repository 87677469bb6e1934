// SPDX-License-Identifier: Apache-2.0
// The same graphs written by hand with cudnn-frontend, as someone would who knows it: the other side of the
// GPU benchmarks.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "gpu_workload.hpp"

struct CUstream_st;

/// A built graph with its pointer list. Stiletto has opened the libraries before.
class FrontendGraph {
 public:
  /// `pointers`: operands, then the results, all in device memory. The first plan of heuristic mode A that
  /// can be built, else the first of mode FALLBACK.
  FrontendGraph(const Workload& workload, std::vector<void*> pointers);
  ~FrontendGraph();
  FrontendGraph(const FrontendGraph&) = delete;
  FrontendGraph& operator=(const FrontendGraph&) = delete;
  void use_stream(CUstream_st* stream);  // at first the default stream
  void execute();
  std::string plan() const;
  int plan_index() const;
  /// That the heuristics propose, whether they can be built or not.
  int plan_count() const;
  /// Executes this one from now on; false where it cannot be built.
  bool choose(int index);

 private:
  struct State;
  std::unique_ptr<State> state_;
};
