// SPDX-License-Identifier: Apache-2.0
// A chain of 8 operations on 16 Mi floats against the loop a person would write for it: fused by hand,
// vectorised with the kernels' flags, on as many threads. Target: at least 0.8 of the loop's speed. Both
// write memory that exists already.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <thread>
#include <vector>

#include "random.hpp"

namespace st = stiletto;

namespace {

constexpr std::int64_t size = std::int64_t{16} << 20;

st::Array cheap(const st::Array& x, const st::Array& y) {
  return st::maximum((x * y + x) * 0.5f - y, 0) * x + y * 2.0f;
}
void cheap_by_hand(const float* x, const float* y, float* out, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    const float t = (x[i] * y[i] + x[i]) * 0.5f - y[i];
    const float relu = t > 0 || std::isnan(t) ? t : 0;
    out[i] = relu * x[i] + y[i] * 2.0f;
  }
}

st::Array with_tanh(const st::Array& x, const st::Array& y) {
  return st::tanh((x * y + x) * 0.5f - y) * x + st::exp(-y);
}

template <class F>
void on_all_threads(const F& f) {
  const std::int64_t count = std::max(1U, std::thread::hardware_concurrency());
  std::vector<std::thread> threads;
  threads.reserve(static_cast<std::size_t>(count));
  const std::int64_t part = (size + count - 1) / count;
  for (std::int64_t i = 0; i < count; ++i)
    threads.emplace_back([&, i] { f(i * part, std::min(size, (i + 1) * part)); });
  for (std::thread& thread : threads) thread.join();
}

void report(benchmark::State& state) {
  state.SetBytesProcessed(state.iterations() * size * 3 * static_cast<std::int64_t>(sizeof(float)));
}

void chain_8_stiletto(benchmark::State& state) {
  const st::Array x = random_normal({size}, 1), y = random_normal({size}, 2), out = st::zeros({size});
  const auto f = st::compile(
      [](const st::Array& o, const st::Array& a, const st::Array& b) { st::assign(o, cheap(a, b)); }, out, x,
      y);
  for (auto _ : state) f(out, x, y);
  report(state);
}
BENCHMARK(chain_8_stiletto)->UseRealTime()->Unit(benchmark::kMillisecond);

void chain_8_by_hand(benchmark::State& state) {
  const st::Array x = random_normal({size}, 1), y = random_normal({size}, 2), out = st::zeros({size});
  const float *px = x.data<float>(), *py = y.data<float>();
  float* po = out.data<float>();
  for (auto _ : state)
    on_all_threads([&](std::int64_t begin, std::int64_t end) {
      cheap_by_hand(px + begin, py + begin, po + begin, end - begin);
    });
  report(state);
}
BENCHMARK(chain_8_by_hand)->UseRealTime()->Unit(benchmark::kMillisecond);

void chain_with_tanh_and_exp_stiletto(benchmark::State& state) {
  const st::Array x = random_normal({size}, 1), y = random_normal({size}, 2), out = st::zeros({size});
  const auto f = st::compile(
      [](const st::Array& o, const st::Array& a, const st::Array& b) { st::assign(o, with_tanh(a, b)); }, out,
      x, y);
  for (auto _ : state) f(out, x, y);
  report(state);
}
BENCHMARK(chain_with_tanh_and_exp_stiletto)->UseRealTime()->Unit(benchmark::kMillisecond);

void chain_with_tanh_and_exp_by_hand(benchmark::State& state) {
  const st::Array x = random_normal({size}, 1), y = random_normal({size}, 2), out = st::zeros({size});
  const float *px = x.data<float>(), *py = y.data<float>();
  float* po = out.data<float>();
  for (auto _ : state)
    on_all_threads([&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i)
        po[i] = std::tanh((px[i] * py[i] + px[i]) * 0.5f - py[i]) * px[i] + std::exp(-py[i]);
    });
  report(state);
}
BENCHMARK(chain_with_tanh_and_exp_by_hand)->UseRealTime()->Unit(benchmark::kMillisecond);

void sum_all(benchmark::State& state) {
  const st::Array x = random_normal({size}, 1);
  const auto f = st::compile([](const st::Array& a) { return st::sum(a); }, x);
  for (auto _ : state) benchmark::DoNotOptimize(f(x));
  state.SetBytesProcessed(state.iterations() * size * static_cast<std::int64_t>(sizeof(float)));
}
BENCHMARK(sum_all)->UseRealTime()->Unit(benchmark::kMillisecond);

void sum_over_axis(benchmark::State& state) {
  const st::Array x = random_normal({4096, 4096}, 1);
  const int axis = static_cast<int>(state.range(0));
  const auto f = st::compile([axis](const st::Array& a) { return st::sum(a, axis); }, x);
  for (auto _ : state) benchmark::DoNotOptimize(f(x));
  state.SetBytesProcessed(state.iterations() * size * static_cast<std::int64_t>(sizeof(float)));
}
BENCHMARK(sum_over_axis)->Arg(0)->Arg(1)->UseRealTime()->Unit(benchmark::kMillisecond);

}  // namespace
