// SPDX-License-Identifier: Apache-2.0
// Attention, convolution and layer_norm of float32, the latter two with what follows them in a network, too,
// against oneDNN called directly, in one process, whose results are compared first. Both sides write memory
// that exists already. oneDNN's attention is three primitives: product, softmax, product; its convolution
// reads filters, and in one case images, in the format that it likes best, to which they are brought
// beforehand.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <unordered_map>

#include <dnnl.hpp>

#include "random.hpp"

namespace st = stiletto;
using Tag = dnnl::memory::format_tag;
using Descriptor = dnnl::memory::desc;
constexpr auto f32 = dnnl::memory::data_type::f32;

namespace {

/// False, and the benchmark fails, where the two differ by more than rounding.
bool agree(benchmark::State& state, const st::Array& ours, const st::Array& theirs) {
  const std::vector<float> a = ours.to_vector<float>(), b = theirs.to_vector<float>();
  float largest = 0, most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    largest = std::max(largest, std::fabs(b[i]));
    if (const float apart = std::fabs(a[i] - b[i]); !(apart <= most)) most = apart;  // NaN stays
  }
  if (most <= 1e-4F * largest) return true;
  state.SkipWithError(("the two results differ by " + std::to_string(most / largest)).c_str());
  return false;
}

struct OneDnn {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};

  dnnl::memory memory(const Descriptor& as, const st::Array& array) const {
    return {as, engine, array.raw_data()};
  }
};

// ---- attention ----

constexpr std::int64_t batch = 2, seq = 512, heads = 8, head_dim = 64;

struct AttentionArrays {
  st::Array q = random_normal({batch, seq, heads, head_dim}, 1),
            k = random_normal({batch, seq, heads, head_dim}, 2),
            v = random_normal({batch, seq, heads, head_dim}, 3),
            out = st::zeros({batch, seq, heads, head_dim});
};

void attention_flops(benchmark::State& state) {
  state.counters["GFLOP/s"] = benchmark::Counter(4e-9 * batch * heads * seq * seq * head_dim,
                                                 benchmark::Counter::kIsIterationInvariantRate);
}

void attention_stiletto(benchmark::State& state) {
  const AttentionArrays a;
  const auto f = st::compile([](const st::Array& out, const st::Array& q, const st::Array& k,
                                const st::Array& v) { st::assign(out, st::attention(q, k, v)); },
                             a.out, a.q, a.k, a.v);
  for (auto _ : state) f(a.out, a.q, a.k, a.v);
  attention_flops(state);
}
BENCHMARK(attention_stiletto)->UseRealTime()->Unit(benchmark::kMicrosecond);

/// On the arrays as they lie, by their strides.
class DirectAttention {
 public:
  explicit DirectAttention(const AttentionArrays& a)
      : q_(on_.memory(rows(), a.q)),
        k_(on_.memory(columns(), a.k)),
        v_(on_.memory(rows(), a.v)),
        out_(on_.memory(rows(), a.out)),
        scores_(score(), on_.engine) {}

  void operator()() {
    scores_of_.execute(on_.stream, {{DNNL_ARG_SRC, q_}, {DNNL_ARG_WEIGHTS, k_}, {DNNL_ARG_DST, scores_}});
    softmax_.execute(on_.stream, {{DNNL_ARG_SRC, scores_}, {DNNL_ARG_DST, scores_}});
    values_of_.execute(on_.stream, {{DNNL_ARG_SRC, scores_}, {DNNL_ARG_WEIGHTS, v_}, {DNNL_ARG_DST, out_}});
    on_.stream.wait();
  }

 private:
  static Descriptor rows() {
    return {{batch, heads, seq, head_dim}, f32, {seq * heads * head_dim, head_dim, heads * head_dim, 1}};
  }
  static Descriptor columns() {
    return {{batch, heads, head_dim, seq}, f32, {seq * heads * head_dim, head_dim, 1, heads * head_dim}};
  }
  static Descriptor score() { return {{batch, heads, seq, seq}, f32, Tag::abcd}; }
  static dnnl::primitive_attr scaled() {
    dnnl::post_ops post;
    post.append_eltwise(dnnl::algorithm::eltwise_linear, 1 / std::sqrt(static_cast<float>(head_dim)), 0);
    dnnl::primitive_attr attributes;
    attributes.set_post_ops(post);
    return attributes;
  }

  OneDnn on_;
  dnnl::memory q_, k_, v_, out_, scores_;
  dnnl::matmul scores_of_{dnnl::matmul::primitive_desc(on_.engine, rows(), columns(), score(), scaled())};
  dnnl::softmax_forward softmax_{
      dnnl::softmax_forward::primitive_desc(on_.engine, dnnl::prop_kind::forward_inference,
                                            dnnl::algorithm::softmax_accurate, score(), score(), 3)};
  dnnl::matmul values_of_{dnnl::matmul::primitive_desc(on_.engine, score(), rows(), rows())};
};

void attention_onednn(benchmark::State& state) {
  const AttentionArrays a;
  DirectAttention direct(a);
  direct();
  if (!agree(state, st::attention(a.q, a.k, a.v), a.out)) return;
  for (auto _ : state) direct();
  attention_flops(state);
}
BENCHMARK(attention_onednn)->UseRealTime()->Unit(benchmark::kMicrosecond);

// ---- convolution ----

constexpr std::int64_t images = 8, channels = 64, extent = 56, window = 3;

struct ConvArrays {
  st::Array x, w, y, residual, bias = random_normal({channels, 1, 1}, 4);

  explicit ConvArrays(bool channels_last)
      : x(laid({images, channels, extent, extent}, 1, channels_last)),
        w(laid({channels, channels, window, window}, 2, channels_last)),
        y(laid({images, channels, extent, extent}, 3, channels_last)),
        residual(laid({images, channels, extent, extent}, 5, channels_last)) {}

 private:
  static st::Array laid(const st::Shape& shape, unsigned seed, bool channels_last) {
    if (!channels_last) return random_normal(shape, seed);
    return st::transpose(random_normal({shape[0], shape[2], shape[3], shape[1]}, seed), {0, 3, 1, 2});
  }
};

void conv_flops(benchmark::State& state) {
  state.counters["GFLOP/s"] =
      benchmark::Counter(2e-9 * images * channels * channels * extent * extent * window * window,
                         benchmark::Counter::kIsIterationInvariantRate);
}

void conv_stiletto(benchmark::State& state, bool channels_last) {
  const ConvArrays a(channels_last);
  const auto f = st::compile([](const st::Array& y, const st::Array& x,
                                const st::Array& w) { st::assign(y, st::conv(x, w, {.pre_padding = 1})); },
                             a.y, a.x, a.w);
  for (auto _ : state) f(a.y, a.x, a.w);
  conv_flops(state);
}
BENCHMARK_CAPTURE(conv_stiletto, channels_first, false)->UseRealTime()->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(conv_stiletto, channels_last, true)->UseRealTime()->Unit(benchmark::kMicrosecond);

/// A layer of a network: a bias, what came before it, relu.
st::Array layer(const st::Array& x, const st::Array& w, const st::Array& bias, const st::Array& residual) {
  return st::relu(st::conv(x, w, {.pre_padding = 1}) + bias + residual);
}

void conv_layer_stiletto(benchmark::State& state, bool channels_last) {
  const ConvArrays a(channels_last);
  const auto f = st::compile([](const st::Array& x, const st::Array& w, const st::Array& bias,
                                const st::Array& residual) { return layer(x, w, bias, residual); },
                             a.x, a.w, a.bias, a.residual);
  for (auto _ : state) benchmark::DoNotOptimize(f(a.x, a.w, a.bias, a.residual));
  conv_flops(state);
}
BENCHMARK_CAPTURE(conv_layer_stiletto, channels_first, false)->UseRealTime()->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(conv_layer_stiletto, channels_last, true)->UseRealTime()->Unit(benchmark::kMicrosecond);

/// With `as_layer` bias, residual and relu are fused by oneDNN.
dnnl::convolution_forward::primitive_desc conv_primitive(const OneDnn& on, Tag images_as, Tag filters_as,
                                                         bool as_layer) {
  const dnnl::memory::dims shape{images, channels, extent, extent};
  const Descriptor image(shape, f32, images_as),
      filter({channels, channels, window, window}, f32, filters_as);
  if (!as_layer)
    return {on.engine,
            dnnl::prop_kind::forward_inference,
            dnnl::algorithm::convolution_direct,
            image,
            filter,
            image,
            {1, 1},
            {1, 1},
            {1, 1}};
  dnnl::post_ops post;
  post.append_binary(dnnl::algorithm::binary_add, image);
  post.append_eltwise(dnnl::algorithm::eltwise_relu, 0, 0);
  dnnl::primitive_attr attributes;
  attributes.set_post_ops(post);
  return {on.engine,
          dnnl::prop_kind::forward_inference,
          dnnl::algorithm::convolution_direct,
          image,
          filter,
          {{channels}, f32, Tag::a},
          image,
          {1, 1},
          {1, 1},
          {1, 1},
          attributes};
}

void conv_onednn(benchmark::State& state, bool channels_last, Tag images_as, Tag filters_as, bool as_layer) {
  const ConvArrays a(channels_last);
  OneDnn on;
  const auto primitive = conv_primitive(on, images_as, filters_as, as_layer);
  const dnnl::convolution_forward conv(primitive);
  const Tag lies = channels_last ? Tag::acdb : Tag::abcd;
  const auto given = [&](const st::Array& array) {
    const st::Shape& shape = array.shape();
    return on.memory(Descriptor({shape[0], shape[1], shape[2], shape[3]}, f32, lies), array);
  };
  dnnl::memory x(primitive.src_desc(), on.engine), w(primitive.weights_desc(), on.engine),
      y(primitive.dst_desc(), on.engine), x_given = given(a.x), w_given = given(a.w), y_given = given(a.y),
                                          residual = given(a.residual),
                                          bias = on.memory({{channels}, f32, Tag::a}, a.bias);
  dnnl::reorder(x_given, x).execute(on.stream, x_given, x);
  dnnl::reorder(w_given, w).execute(on.stream, w_given, w);
  std::unordered_map<int, dnnl::memory> arguments{
      {DNNL_ARG_SRC, x}, {DNNL_ARG_WEIGHTS, w}, {DNNL_ARG_DST, y}};
  if (as_layer) {
    arguments.insert({DNNL_ARG_BIAS, bias});
    arguments.insert({DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1, residual});
  }
  const auto run = [&] {
    conv.execute(on.stream, arguments);
    on.stream.wait();
  };
  run();
  dnnl::reorder(y, y_given).execute(on.stream, y, y_given);
  on.stream.wait();
  const st::Array ours = as_layer ? st::jit([](const st::Array& i, const st::Array& f, const st::Array& b,
                                               const st::Array& r) { return layer(i, f, b, r); },
                                            a.x, a.w, a.bias, a.residual)
                                  : st::conv(a.x, a.w, {.pre_padding = 1});
  if (!agree(state, ours, a.y)) return;
  for (auto _ : state) run();
  conv_flops(state);
}
BENCHMARK_CAPTURE(conv_onednn, channels_first, false, Tag::abcd, Tag::any, false)
    ->UseRealTime()
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(conv_onednn, channels_last, true, Tag::acdb, Tag::any, false)
    ->UseRealTime()
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(conv_onednn, own_formats, false, Tag::any, Tag::any, false)
    ->UseRealTime()
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(conv_onednn, layer_channels_first, false, Tag::abcd, Tag::any, true)
    ->UseRealTime()
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(conv_onednn, layer_channels_last, true, Tag::acdb, Tag::any, true)
    ->UseRealTime()
    ->Unit(benchmark::kMicrosecond);

// ---- layer_norm ----

constexpr std::int64_t rows = 4096, columns = 1024;

struct NormArrays {
  st::Array x = random_normal({rows, columns}, 1), scale = random_normal({columns}, 2),
            bias = random_normal({columns}, 3), y = st::zeros({rows, columns});
};

void norm_bytes(benchmark::State& state) {
  state.counters["GB/s"] =
      benchmark::Counter(8e-9 * rows * columns, benchmark::Counter::kIsIterationInvariantRate);
}

void layer_norm_stiletto(benchmark::State& state) {
  const NormArrays a;
  const auto f = st::compile([](const st::Array& y, const st::Array& x, const st::Array& scale,
                                const st::Array& bias) { st::assign(y, st::layer_norm(x, scale, bias)); },
                             a.y, a.x, a.scale, a.bias);
  for (auto _ : state) f(a.y, a.x, a.scale, a.bias);
  norm_bytes(state);
}
BENCHMARK(layer_norm_stiletto)->UseRealTime()->Unit(benchmark::kMicrosecond);

/// With what follows it: silu, and a product with another array.
void norm_layer_stiletto(benchmark::State& state) {
  const std::int64_t many = state.range(0);
  const st::Array x = random_normal({many, columns}, 1), scale = random_normal({columns}, 2),
                  bias = random_normal({columns}, 3), gate = random_normal({many, columns}, 4);
  const auto f = st::compile([](const st::Array& a, const st::Array& s, const st::Array& b,
                                const st::Array& g) { return st::silu(st::layer_norm(a, s, b)) * g; },
                             x, scale, bias, gate);
  for (auto _ : state) benchmark::DoNotOptimize(f(x, scale, bias, gate));
  state.counters["GB/s"] = benchmark::Counter(12e-9 * static_cast<double>(many * columns),
                                              benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK(norm_layer_stiletto)->Arg(4096)->Arg(16384)->UseRealTime()->Unit(benchmark::kMicrosecond);

void layer_norm_onednn(benchmark::State& state) {
  const NormArrays a;
  const OneDnn on;
  const Descriptor matrix({rows, columns}, f32, Tag::ab), vector({columns}, f32, Tag::a);
  const dnnl::layer_normalization_forward norm(dnnl::layer_normalization_forward::primitive_desc(
      on.engine, dnnl::prop_kind::forward_inference, matrix, matrix, 1e-5F,
      dnnl::normalization_flags::use_scale | dnnl::normalization_flags::use_shift));
  dnnl::memory x = on.memory(matrix, a.x), scale = on.memory(vector, a.scale),
               bias = on.memory(vector, a.bias), y = on.memory(matrix, a.y);
  dnnl::stream stream = on.stream;
  const auto run = [&] {
    norm.execute(stream,
                 {{DNNL_ARG_SRC, x}, {DNNL_ARG_SCALE, scale}, {DNNL_ARG_SHIFT, bias}, {DNNL_ARG_DST, y}});
    stream.wait();
  };
  run();
  if (!agree(state, st::layer_norm(a.x, a.scale, a.bias), a.y)) return;
  for (auto _ : state) run();
  norm_bytes(state);
}
BENCHMARK(layer_norm_onednn)->UseRealTime()->Unit(benchmark::kMicrosecond);

}  // namespace
