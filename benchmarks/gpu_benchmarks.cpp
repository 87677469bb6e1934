// SPDX-License-Identifier: Apache-2.0
// Stiletto against cudnn-frontend used by hand, in one process on one GPU, on the same data: device time by
// CUDA events around replays of a captured batch of calls, so that no call waits for the host, medians of
// batches in which the two sides alternate, and the host's time per call while the GPU's queue is short.
// Target: at most 1.02 of the frontend's device time. gpu_first_calls.cpp has plans chosen by time, what
// calls cost the host in all their forms, and first calls.
//   stiletto_gpu_benchmarks [--batches=9] [Google Benchmark's options: --benchmark_filter, --benchmark_out,
//   …]
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string_view>

#include "gpu_first_calls.hpp"
#include "gpu_frontend.hpp"
#include "gpu_measure.hpp"

namespace st = stiletto;

namespace {

struct Row {
  std::string name, stiletto_plan, frontend_plan;
  double stiletto, frontend, stiletto_host, allocating_host, frontend_host;
};
std::vector<Row>& table() {
  static std::vector<Row> rows;
  return rows;
}
int batches = 9;

/// Calls that allocate their results: an array where there is one, as programs have it.
std::function<void()> allocating_call(const Workload& work, const List& operands) {
  if (work.results.size() == 1)
    return [&operands, f = st::compile([&work](const List& a) { return work.function(a)[0]; }, operands)] {
      benchmark::DoNotOptimize(f(operands));
    };
  return [&operands, f = st::compile([&work](const List& a) { return work.function(a); }, operands)] {
    benchmark::DoNotOptimize(f(operands));
  };
}

void compare(benchmark::State& state, const Workload& work) {
  const WorkMemory memory(work);
  const auto in_place = compile_in_place(work, memory);
  FrontendGraph by_hand(work, memory.pointers());
  const std::function<void()> stiletto = [&] { in_place(memory.ours, memory.operands); };
  const std::function<void()> frontend = [&] { by_hand.execute(); };
  const std::function<void()> returning = allocating_call(work, memory.operands);

  stiletto();
  frontend();
  synchronize();
  if (const double apart = difference(memory.ours, memory.theirs); !(apart <= work.tolerance)) {
    state.SkipWithError(("the two results differ by " + std::to_string(apart)).c_str());
    return;
  }

  Stream stream;
  const auto recorded_frontend = [&](CUstream_st* on) {
    by_hand.use_stream(on);
    by_hand.execute();
  };
  const auto recorded_stiletto = [&](CUstream_st* on) {
    const st::StreamGuard guard(on);
    in_place(memory.ours, memory.operands);
  };
  // Batches of about 20 ms, after a warm-up of as much.
  const double once = std::max(Batch(stream, recorded_frontend, 20).microseconds(), 1.0);
  const int calls = std::clamp(static_cast<int>(20000 / once), 5, 4000);
  const Batch stiletto_batch(stream, recorded_stiletto, calls),
      frontend_batch(stream, recorded_frontend, calls);
  std::vector<double> a, b;
  for ([[maybe_unused]] auto _ : state) {
    a.push_back(stiletto_batch.microseconds());
    b.push_back(frontend_batch.microseconds());
    state.SetIterationTime(a.back() * 1e-6);
  }
  by_hand.use_stream(nullptr);
  const std::vector<HostTime> host = host_times({stiletto, returning, frontend}, once);
  const Row row{work.name,      plan_of(in_place.graph()),
                by_hand.plan(), median(a),
                median(b),      host[0].steady,
                host[1].steady, host[2].steady};
  state.counters["stiletto_us"] = row.stiletto;
  state.counters["frontend_us"] = row.frontend;
  state.counters["ratio"] = row.stiletto / row.frontend;
  state.counters["stiletto_host_us"] = row.stiletto_host;
  state.counters["stiletto_allocating_host_us"] = row.allocating_host;
  state.counters["frontend_host_us"] = row.frontend_host;
  state.counters["calls_per_batch"] = calls;
  table().push_back(row);
}

struct BandwidthRow {
  std::string name;
  double microseconds, gigabytes_per_second;
};
std::vector<BandwidthRow>& bandwidths() {
  static std::vector<BandwidthRow> rows;
  return rows;
}

/// Time of one of many calls in a row, with the outputs that they allocate.
void measure(benchmark::State& state, const MemoryBound& work) {
  const st::Array x = random_on_gpu(work.shape, st::DType::bfloat16, 1);
  const auto f = st::compile(work.function, x);
  const st::Array y = f(x);
  Stream stream;
  const st::StreamGuard guard(stream.handle);
  constexpr int calls = 200;
  const auto batch = [&] {
    Event begin, end;
    begin.record(stream.handle);
    for (int i = 0; i < calls; ++i) benchmark::DoNotOptimize(f(x));
    end.record(stream.handle);
    return end.microseconds_since(begin) / calls;
  };
  batch();
  std::vector<double> times;
  for ([[maybe_unused]] auto _ : state) {
    times.push_back(batch());
    state.SetIterationTime(times.back() * 1e-6);
  }
  const double microseconds = median(times);
  bandwidths().push_back(
      {work.name, microseconds, static_cast<double>(x.nbytes() + y.nbytes()) / microseconds * 1e-3});
  state.counters["GB/s"] = bandwidths().back().gigabytes_per_second;
}

void print_table() {
  std::printf(
      "\n| work | device µs: Stiletto | frontend | ratio | host µs: in place | allocating | frontend |\n");
  std::printf("|---|---|---|---|---|---|---|\n");
  for (const Row& row : table())
    std::printf("| %s | %.2f | %.2f | %.3f | %.2f | %.2f | %.2f |\n", row.name.c_str(), row.stiletto,
                row.frontend, row.stiletto / row.frontend, row.stiletto_host, row.allocating_host,
                row.frontend_host);
  std::printf("\n| work on bfloat16 | µs | GB/s |\n|---|---|---|\n");
  for (const BandwidthRow& row : bandwidths())
    std::printf("| %s | %.2f | %.0f |\n", row.name.c_str(), row.microseconds, row.gigabytes_per_second);
  std::printf("\nplans:\n");
  for (const Row& row : table())
    std::printf("  %s\n    Stiletto: %s\n    frontend: %s\n", row.name.c_str(), row.stiletto_plan.c_str(),
                row.frontend_plan.c_str());
}

template <class Work>
void add(const Work& work, void (*run)(benchmark::State&, const Work&)) {
  benchmark::RegisterBenchmark(
      work.name.c_str(), [&work, run](benchmark::State& state) { guarded(state, [&] { run(state, work); }); })
      ->Iterations(batches)
      ->UseManualTime()
      ->Unit(benchmark::kMicrosecond);
}

/// Takes our own option out of the arguments.
void read_batches(int& argc, char** argv) {
  constexpr std::string_view option = "--batches=";
  for (int i = 1; i < argc; ++i)
    if (std::string_view(argv[i]).starts_with(option)) {
      batches = std::max(7, std::atoi(argv[i] + option.size()));
      std::rotate(argv + i, argv + i + 1, argv + argc);
      --argc;
      return;
    }
}

}  // namespace

int main(int argc, char** argv) try {
  read_batches(argc, argv);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  static const std::vector<Workload> workloads = gpu_workloads();
  for (const Workload& work : workloads) add(work, compare);
  static const std::vector<MemoryBound> bound = memory_bound();
  for (const MemoryBound& work : bound) add(work, measure);
  add_call_benchmarks(workloads);
  const std::size_t ran = benchmark::RunSpecifiedBenchmarks();
  print_table();
  const std::size_t rows = table().size() + bandwidths().size() + print_call_tables();
  return ran > 0 && rows == ran ? 0 : 1;  // one that failed has no row
} catch (const std::exception& error) {
  std::fprintf(stderr, "stiletto_gpu_benchmarks: %s\n", error.what());
  return 1;
}
