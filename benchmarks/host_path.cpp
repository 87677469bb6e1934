// SPDX-License-Identifier: Apache-2.0
// Time on the host, apart from the work itself: recording a trace and hashing its key, and what a call costs
// on arrays so small that nothing else counts. Target: trace and key of 12 operations in at most 1 µs.
#include <benchmark/benchmark.h>

#include <stiletto/stiletto.hpp>

namespace st = stiletto;

namespace {

st::Array operations(const st::Array& x, const st::Array& y, int count) {
  st::Array value = x;
  for (int i = 0; i < count; ++i) {
    switch (i % 4) {
      case 0:
        value = value + y;
        break;
      case 1:
        value = st::tanh(value);
        break;
      case 2:
        value = value * x;
        break;
      default:
        value = value - y;
    }
  }
  return value;
}

void trace_and_key(benchmark::State& state) {
  const int count = static_cast<int>(state.range(0));
  const st::Array x = st::ones({64, 32}), y = st::ones({64, 32});
  const st::CompileOptions options;
  auto f = [&](const st::Array& a, const st::Array& b) { return operations(a, b, count); };
  for (auto _ : state) {
    st::detail::Tracing tracing(options);
    const auto result = st::detail::trace_call<st::Array>(tracing, f, std::tuple<st::Array, st::Array>{x, y});
    benchmark::DoNotOptimize(tracing.key());
  }
}
BENCHMARK(trace_and_key)->Arg(1)->Arg(12)->Arg(60);

void compiled_rank_0(benchmark::State& state) {
  const st::Array x = st::full({}, 2);
  const auto f = st::compile([](const st::Array& a) { return a * a; }, x);
  for (auto _ : state) benchmark::DoNotOptimize(f(x));
}
BENCHMARK(compiled_rank_0);

void compiled_rank_0_in_place(benchmark::State& state) {
  const st::Array x = st::full({}, 1);
  const auto f = st::compile([](const st::Array& a) { st::assign(a, a * a); }, x);
  for (auto _ : state) f(x);
}
BENCHMARK(compiled_rank_0_in_place);

void compiled_12_operations(benchmark::State& state) {
  const st::Array x = st::ones({4}), y = st::ones({4});
  const auto f =
      st::compile([](const st::Array& a, const st::Array& b) { return operations(a, b, 12); }, x, y);
  for (auto _ : state) benchmark::DoNotOptimize(f(x, y));
}
BENCHMARK(compiled_12_operations);

void jit_12_operations(benchmark::State& state) {
  const st::Array x = st::ones({4}), y = st::ones({4});
  auto f = [](const st::Array& a, const st::Array& b) { return operations(a, b, 12); };
  for (auto _ : state) benchmark::DoNotOptimize(st::jit(f, x, y));
}
BENCHMARK(jit_12_operations);

void compile_12_operations(benchmark::State& state) {
  const st::Array x = st::ones({64, 32}), y = st::ones({64, 32});
  auto f = [](const st::Array& a, const st::Array& b) { return operations(a, b, 12); };
  for (auto _ : state) benchmark::DoNotOptimize(st::compile(f, x, y));
}
BENCHMARK(compile_12_operations)->Unit(benchmark::kMicrosecond);

}  // namespace
