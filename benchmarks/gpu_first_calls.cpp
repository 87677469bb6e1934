// SPDX-License-Identifier: Apache-2.0
#include "gpu_first_calls.hpp"

#include <benchmark/benchmark.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>

#include "gpu_frontend.hpp"
#include "gpu_measure.hpp"

namespace st = stiletto;

namespace {

// ---- plans chosen by time ----

struct TunedRow {
  std::string name, stiletto_plan, frontend_plan;
  double stiletto, frontend;
};
std::vector<TunedRow>& tuned_rows() {
  static std::vector<TunedRow> rows;
  return rows;
}

void compare_tuned(benchmark::State& state, const Workload& work) {
  const WorkMemory memory(work);
  const auto tuned = compile_in_place(work, memory, {.autotune = st::Autotune::on});
  Stream stream;
  FrontendGraph by_hand(work, memory.pointers());
  by_hand.use_stream(stream.handle);
  auto batch_of = [&](const std::function<void(CUstream_st*)>& call) {
    const double once = std::max(Batch(stream, call, 20).microseconds(), 1.0);
    return std::clamp(static_cast<int>(10000 / once), 5, 2000);
  };
  auto frontend_call = [&](CUstream_st*) { by_hand.execute(); };
  auto stiletto_call = [&](CUstream_st* on) {
    const st::StreamGuard guard(on);
    tuned(memory.ours, memory.operands);
  };
  // The frontend's best: every plan that can be built and launched, timed.
  int best = by_hand.plan_index();
  double fastest = 0;
  for (int plan = 0; plan < by_hand.plan_count(); ++plan) {
    try {
      if (!by_hand.choose(plan)) continue;
      Batch batch(stream, frontend_call, batch_of(frontend_call));
      const double time = std::min(batch.microseconds(), batch.microseconds());
      if (fastest == 0 || time < fastest) best = plan, fastest = time;
    } catch (const std::runtime_error&) {  // it cannot be launched
      cuda_status("cudaGetLastError");
    }
  }
  by_hand.choose(best);
  stiletto_call(stream.handle);
  frontend_call(stream.handle);
  synchronize();
  if (const double apart = difference(memory.ours, memory.theirs); !(apart <= work.tolerance)) {
    state.SkipWithError(("the two results differ by " + std::to_string(apart)).c_str());
    return;
  }
  const int calls = batch_of(frontend_call);
  const Batch stiletto_batch(stream, stiletto_call, calls), frontend_batch(stream, frontend_call, calls);
  std::vector<double> a, b;
  for ([[maybe_unused]] auto _ : state) {
    a.push_back(stiletto_batch.microseconds());
    b.push_back(frontend_batch.microseconds());
    state.SetIterationTime(a.back() * 1e-6);
  }
  const std::string plan = plan_of(tuned.graph());
  tuned_rows().push_back({work.name, plan.substr(0, plan.find('\n')), by_hand.plan(), median(a), median(b)});
  state.counters["ratio"] = median(a) / median(b);
}

// ---- W7: the host's time of a call ----

struct HostRow {
  std::string name;
  std::vector<HostTime> times;  // in place, allocating, jit, replayed
};
std::vector<HostRow>& host_rows() {
  static std::vector<HostRow> rows;
  return rows;
}

st::Array twelve_operations(const st::Array& x, const st::Array& y) {
  const st::Array a = st::tanh(x * y + 1), b = st::relu(x - y) * 0.5;
  return st::sigmoid(a + b) * st::square(a - b) + st::exp(-a);
}

template <class F>
void measure_host(benchmark::State& state, const char* name, const F& f, const st::Array& x,
                  const st::Array& y) {
  const auto allocating = st::compile(f, x, y);
  const st::Array out = allocating(x, y);
  const auto in_place = st::compile(
      [&](const st::Array& to, const st::Array& a, const st::Array& b) { st::assign(to, f(a, b)); }, out, x,
      y);
  in_place(out, x, y);
  st::jit(f, x, y);
  Stream stream;
  void *graph = nullptr, *executable = nullptr;
  {
    const st::StreamGuard guard(stream.handle);
    cuda("cudaStreamBeginCapture", stream.handle, 1);
    in_place(out, x, y);
    cuda("cudaStreamEndCapture", stream.handle, &graph);
  }
  cuda("cudaGraphInstantiate", &executable, graph, 0ULL);
  for ([[maybe_unused]] auto _ : state) {
    const std::vector<HostTime> times =
        host_times({[&] { in_place(out, x, y); }, [&] { benchmark::DoNotOptimize(allocating(x, y)); },
                    [&] { benchmark::DoNotOptimize(st::jit(f, x, y)); },
                    [&] { cuda("cudaGraphLaunch", executable, stream.handle); }});
    host_rows().push_back({name, times});
    state.SetIterationTime(times[0].steady * 1e-6);
    state.counters["jit_us"] = times[2].steady;
  }
  cuda("cudaGraphExecDestroy", executable);
  cuda("cudaGraphDestroy", graph);
}

void host_of_w1(benchmark::State& state) {
  const st::Array x = random_on_gpu({64, 48}, st::DType::float32, 1),
                  w = random_on_gpu({48, 32}, st::DType::float32, 2);
  measure_host(
      state, "W7, W1: tanh(x·w / 20)",
      [](const st::Array& a, const st::Array& b) { return st::tanh(st::matmul(a, b) / 20); }, x, w);
}
void host_of_twelve(benchmark::State& state) {
  const st::Array x = random_on_gpu({64, 64}, st::DType::float32, 1),
                  y = random_on_gpu({64, 64}, st::DType::float32, 2);
  measure_host(state, "W7, 12 operations", twelve_operations, x, y);
}

// ---- W8: first calls ----

struct FirstRow {
  std::string name;
  double cold, disk, saved, frontend;  // milliseconds
};
std::vector<FirstRow>& first_rows() {
  static std::vector<FirstRow> rows;
  return rows;
}

double milliseconds(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  synchronize();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
}

void measure_first_calls(benchmark::State& state, const Workload& work) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::temp_directory_path() / ("stiletto-first-" + std::to_string(getpid()));
  fs::create_directories(folder);
  const WorkMemory memory(work);
  const List& operands = memory.operands;
  auto f = [&](const List& a) { return work.function(a); };
  const st::CompileOptions cached{.cache_folder = folder}, not_cached{.cache_folder = fs::path()};
  st::compile(not_cached, f, operands).save(folder / "saved.plan");
  st::compile(cached, f, operands)(operands);
  std::vector<double> cold, disk, saved, frontend;
  for ([[maybe_unused]] auto _ : state) {
    cold.push_back(milliseconds([&] { st::compile(not_cached, f, operands)(operands); }));
    disk.push_back(milliseconds([&] { st::compile(cached, f, operands)(operands); }));
    saved.push_back(milliseconds([&] { st::load<List(List)>(folder / "saved.plan")(operands); }));
    frontend.push_back(milliseconds([&] { FrontendGraph(work, memory.pointers()).execute(); }));
    state.SetIterationTime(cold.back() * 1e-3);
  }
  fs::remove_all(folder);
  first_rows().push_back({work.name, median(cold), median(disk), median(saved), median(frontend)});
}

void add(const std::string& name, int iterations, const std::function<void(benchmark::State&)>& run) {
  benchmark::RegisterBenchmark(name.c_str(),
                               [run](benchmark::State& state) { guarded(state, [&] { run(state); }); })
      ->Iterations(iterations)
      ->UseManualTime()
      ->Unit(benchmark::kMicrosecond);
}

}  // namespace

void add_call_benchmarks(const std::vector<Workload>& workloads) {
  add("W7 W1", 1, host_of_w1);
  add("W7 twelve operations", 1, host_of_twelve);
  for (const Workload& work : workloads) {
    if (work.tuned)
      add("tuned " + work.name, 9, [&work](benchmark::State& state) { compare_tuned(state, work); });
    if (work.first_calls)
      add("W8 " + work.name, 5, [&work](benchmark::State& state) { measure_first_calls(state, work); });
  }
}

std::size_t print_call_tables() {
  std::printf(
      "\n| with Autotune::on | device µs: Stiletto | frontend's best plan | ratio |\n|---|---|---|---|\n");
  for (const TunedRow& row : tuned_rows())
    std::printf("| %s | %.2f | %.2f | %.3f |\n", row.name.c_str(), row.stiletto, row.frontend,
                row.stiletto / row.frontend);
  std::printf(
      "\n| host µs per call | in place | allocating | jit | replayed graph |\n|---|---|---|---|---|\n");
  for (const HostRow& row : host_rows())
    for (const auto& [which, time] :
         {std::pair{"in a row", &HostTime::steady}, std::pair{"after a wait", &HostTime::waiting}}) {
      std::printf("| %s, %s |", row.name.c_str(), which);
      for (const HostTime& each : row.times) std::printf(" %.2f |", each.*time);
      std::printf("\n");
    }
  std::printf(
      "\n| first call, ms | cold | disk cache | saved plan | frontend, cold |\n|---|---|---|---|---|\n");
  for (const FirstRow& row : first_rows())
    std::printf("| W8, %s | %.1f | %.1f | %.1f | %.1f |\n", row.name.c_str(), row.cold, row.disk, row.saved,
                row.frontend);
  std::printf("\nplans chosen by time:\n");
  for (const TunedRow& row : tuned_rows())
    std::printf("  %s\n    Stiletto: %s\n    frontend: %s\n", row.name.c_str(), row.stiletto_plan.c_str(),
                row.frontend_plan.c_str());
  return tuned_rows().size() + host_rows().size() + first_rows().size();
}
