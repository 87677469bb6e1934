// SPDX-License-Identifier: Apache-2.0
// Stiletto against oneDNN called directly, in one process: matmul + bias + gelu (target: at least 0.95 of
// oneDNN's speed) and softmax over the rows of 4096×4096. Both write memory that exists already.
#include <benchmark/benchmark.h>

#include <dnnl.hpp>

#include "random.hpp"

namespace st = stiletto;
using Tag = dnnl::memory::format_tag;

namespace {

dnnl::memory::desc matrix(std::int64_t rows, std::int64_t columns) {
  return {{rows, columns}, dnnl::memory::data_type::f32, Tag::ab};
}

void gflops(benchmark::State& state, std::int64_t n) {
  state.counters["GFLOP/s"] = benchmark::Counter(2.0 * static_cast<double>(n * n * n) * 1e-9,
                                                 benchmark::Counter::kIsIterationInvariantRate);
}

void matmul_bias_gelu_stiletto(benchmark::State& state) {
  const std::int64_t n = state.range(0);
  const st::Array x = random_normal({n, n}, 1), w = random_normal({n, n}, 2), b = random_normal({n}, 3),
                  y = st::zeros({n, n});
  const auto f =
      st::compile([](const st::Array& out, const st::Array& a, const st::Array& v,
                     const st::Array& bias) { st::assign(out, st::gelu(st::matmul(a, v) + bias)); },
                  y, x, w, b);
  for (auto _ : state) f(y, x, w, b);
  gflops(state, n);
}
BENCHMARK(matmul_bias_gelu_stiletto)->Arg(512)->Arg(1024)->UseRealTime()->Unit(benchmark::kMicrosecond);

void matmul_bias_gelu_onednn(benchmark::State& state) {
  const std::int64_t n = state.range(0);
  const st::Array x = random_normal({n, n}, 1), w = random_normal({n, n}, 2), b = random_normal({n}, 3),
                  y = st::zeros({n, n});
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  dnnl::stream stream(engine);
  dnnl::primitive_attr attributes;
  dnnl::post_ops post;
  post.append_eltwise(dnnl::algorithm::eltwise_gelu_erf, 0, 0);
  attributes.set_post_ops(post);
  const dnnl::matmul product(dnnl::matmul::primitive_desc(engine, matrix(n, n), matrix(n, n), matrix(1, n),
                                                          matrix(n, n), attributes));
  dnnl::memory a(matrix(n, n), engine, x.raw_data()), v(matrix(n, n), engine, w.raw_data()),
      bias(matrix(1, n), engine, b.raw_data()), out(matrix(n, n), engine, y.raw_data());
  for (auto _ : state) {
    product.execute(stream,
                    {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, v}, {DNNL_ARG_BIAS, bias}, {DNNL_ARG_DST, out}});
    stream.wait();
  }
  gflops(state, n);
}
BENCHMARK(matmul_bias_gelu_onednn)->Arg(512)->Arg(1024)->UseRealTime()->Unit(benchmark::kMicrosecond);

void softmax_rows_stiletto(benchmark::State& state) {
  const st::Array x = random_normal({4096, 4096}, 1), y = st::zeros({4096, 4096});
  const auto f =
      st::compile([](const st::Array& out, const st::Array& a) { st::assign(out, st::softmax(a)); }, y, x);
  for (auto _ : state) f(y, x);
}
BENCHMARK(softmax_rows_stiletto)->UseRealTime()->Unit(benchmark::kMillisecond);

void softmax_rows_onednn(benchmark::State& state) {
  const st::Array x = random_normal({4096, 4096}, 1), y = st::zeros({4096, 4096});
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  dnnl::stream stream(engine);
  const dnnl::softmax_forward softmax(dnnl::softmax_forward::primitive_desc(
      engine, dnnl::prop_kind::forward_inference, dnnl::algorithm::softmax_accurate, matrix(4096, 4096),
      matrix(4096, 4096), 1));
  dnnl::memory in(matrix(4096, 4096), engine, x.raw_data()), out(matrix(4096, 4096), engine, y.raw_data());
  for (auto _ : state) {
    softmax.execute(stream, {{DNNL_ARG_SRC, in}, {DNNL_ARG_DST, out}});
    stream.wait();
  }
}
BENCHMARK(softmax_rows_onednn)->UseRealTime()->Unit(benchmark::kMillisecond);

}  // namespace
