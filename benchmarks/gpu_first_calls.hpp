// SPDX-License-Identifier: Apache-2.0
// Plans chosen by time against the best that the frontend has, what a call costs the host in each of its
// forms (W7), and first calls: cold, from the disk cache, from a saved plan (W8).
#pragma once
#include <benchmark/benchmark.h>

#include <cstddef>
#include <exception>
#include <vector>

#include "gpu_workload.hpp"

/// What cannot be measured fails alone; the others' tables are printed.
template <class Run>
void guarded(benchmark::State& state, const Run& run) {
  try {
    run();
  } catch (const std::exception& error) {
    state.SkipWithError(error.what());
  }
}

/// `workloads` have to live until the benchmarks have run.
void add_call_benchmarks(const std::vector<Workload>& workloads);
/// The number of benchmarks that have a row.
std::size_t print_call_tables();
