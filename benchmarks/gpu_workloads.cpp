// SPDX-License-Identifier: Apache-2.0
// Each workload of the GPU benchmarks twice: traced, and as a graph that someone would write who knows
// cudnn-frontend.
#include <cmath>

#include "gpu_graph_writer.hpp"
#include "gpu_workload.hpp"

namespace st = stiletto;

namespace {

using Mode = GraphWriter::Mode;
using Tensor = GraphWriter::Tensor;
using Extents = GraphWriter::Extents;
constexpr auto float32 = st::DType::float32, bfloat16 = st::DType::bfloat16, float16 = st::DType::float16;

// ---- W1, W2, W6, W9: products and pointwise work ----

Workload tanh_product() {
  return {.name = "W1 tanh(x·w / 20)",
          .dtype = float32,
          .operands = {{{64, 48}}, {{48, 32}}},
          .results = {{{64, 32}}},
          .function = [](const List& a) -> List { return {st::tanh(st::matmul(a[0], a[1]) / 20)}; },
          .graph =
              [](GraphWriter& g) {
                const Tensor x = g.matrix(64, 48), w = g.matrix(48, 32);
                const Tensor scaled = g.pointwise(Mode::MUL, g.matmul(x, w), g.graph.tensor(0.05F));
                g.output(g.pointwise(Mode::TANH_FWD, scaled));
              },
          .tuned = true,
          .first_calls = true};
}

Workload gelu_product(std::int64_t n) {
  return {.name = "W2 gelu_tanh(x·w + b), n = " + std::to_string(n),
          .dtype = bfloat16,
          .operands = {{{n, n}}, {{n, n}}, {{n}}},
          .results = {{{n, n}}},
          .function = [](const List& a) -> List { return {st::gelu_tanh(st::matmul(a[0], a[1]) + a[2])}; },
          .graph =
              [n](GraphWriter& g) {
                const Tensor x = g.matrix(n, n), w = g.matrix(n, n), b = g.matrix(1, n);
                const Tensor sum = g.pointwise(Mode::ADD, g.matmul(x, w), b);
                g.output(g.pointwise(Mode::GELU_APPROX_TANH_FWD, sum));
              },
          .tuned = true,
          .first_calls = true};
}

Workload gated_product() {
  constexpr std::int64_t m = 4096, k = 4096, n = 11008;
  return {.name = "W6 silu(x·w)·(x·v)",
          .dtype = bfloat16,
          .operands = {{{m, k}}, {{k, n}}, {{k, n}}},
          .results = {{{m, n}}},
          .function = [](const List& a) -> List {
            return {st::silu(st::matmul(a[0], a[1])) * st::matmul(a[0], a[2])};
          },
          .graph =
              [](GraphWriter& g) {
                const Tensor x = g.matrix(m, k), w = g.matrix(k, n), v = g.matrix(k, n);
                const Tensor gate = g.matmul(x, w), value = g.matmul(x, v);
                g.output(g.pointwise(Mode::MUL, g.pointwise(Mode::SWISH_FWD, gate), value));
              },
          .tuned = true,
          .first_calls = true};
}

Workload multiply_add() {
  constexpr std::int64_t n = 8192;
  return {.name = "W9 x·y + z",
          .dtype = bfloat16,
          .operands = {{{n, n}}, {{n, n}}, {{n, n}}},
          .results = {{{n, n}}},
          .function = [](const List& a) -> List { return {a[0] * a[1] + a[2]}; },
          .graph =
              [](GraphWriter& g) {
                const Tensor x = g.matrix(n, n), y = g.matrix(n, n), z = g.matrix(n, n);
                g.output(g.pointwise(Mode::ADD, g.pointwise(Mode::MUL, x, y), z));
              },
          .tuned = true,
          .first_calls = true};
}

// ---- W3: attention ----

struct Heads {
  std::int64_t batch, seq, heads = 32, dim = 128;
  bool causal = false;

  Operand operand() const { return {{batch, seq, heads, dim}}; }
  st::AttentionOptions options() const {
    return {.causal = causal ? st::Causal::top_left : st::Causal::none};
  }
  std::string name(const char* direction) const {
    return "W3 attention " + std::string(direction) + ", " + (causal ? "causal" : "dense") + ", b" +
           std::to_string(batch) + " s" + std::to_string(seq);
  }

  // The frontend's axes are (batch, heads, seq, head_dim).
  Extents extents() const { return {batch, heads, seq, dim}; }
  Extents strides() const { return {seq * heads * dim, dim, heads * dim, 1}; }
  Tensor input(GraphWriter& g) const { return g.input(extents(), strides()); }
  template <class Attributes>
  Attributes attributes(const char* node) const {
    Attributes made;
    made.set_name(node).set_attn_scale(1 / std::sqrt(static_cast<float>(dim)));
    if (causal)
      made.set_diagonal_alignment(fe::DiagonalAlignment_t::TOP_LEFT).set_diagonal_band_right_bound(0);
    return made;
  }
};

Workload attention(const Heads& of) {
  return {.name = of.name("forward"),
          .dtype = bfloat16,
          .operands = {of.operand(), of.operand(), of.operand()},
          .results = {of.operand()},
          .function = [of](const List& a) -> List { return {st::attention(a[0], a[1], a[2], of.options())}; },
          .graph =
              [of](GraphWriter& g) {
                const Tensor q = of.input(g), k = of.input(g), v = of.input(g);
                const auto [out, stats] = g.graph.sdpa(
                    q, k, v, of.attributes<fe::graph::SDPA_attributes>("sdpa").set_generate_stats(false));
                g.output(out, of.extents(), of.strides());
              },
          .tuned = of.seq == 2048 && !of.causal,
          .first_calls = of.seq == 2048 && !of.causal};
}

Workload attention_backward(const Heads& of) {
  return {.name = of.name("backward"),
          .dtype = bfloat16,
          .operands = {of.operand(), of.operand(), of.operand(), of.operand()},
          .results = {of.operand(), of.operand(), of.operand()},
          .function = [of](const List& a) -> List {
            const st::AttentionGradients gradients =
                st::attention_backward(a[0], a[1], a[2], a[3], a[4], a[5], of.options());
            return {gradients.dq, gradients.dk, gradients.dv};
          },
          .graph =
              [of](GraphWriter& g) {
                const Tensor d_out = of.input(g), q = of.input(g), k = of.input(g), v = of.input(g),
                             out = of.input(g);
                const Tensor stats =
                    g.input({of.batch, of.heads, of.seq, 1}, {of.heads * of.seq, of.seq, 1, 1});
                stats->set_data_type(fe::DataType_t::FLOAT);
                for (const Tensor& gradient : g.graph.sdpa_backward(
                         q, k, v, out, d_out, stats,
                         of.attributes<fe::graph::SDPA_backward_attributes>("sdpa_backward")))
                  g.output(gradient, of.extents(), of.strides());
              },
          .further = [of](const List& a) -> List {
            const auto forward = st::compile(
                [of](const st::Array& q, const st::Array& k, const st::Array& v) {
                  const auto [out, stats] = st::attention_with_stats(q, k, v, of.options());
                  return List{out, stats};
                },
                a[1], a[2], a[3]);
            return forward(a[1], a[2], a[3]);
          }};
}

// ---- W4: norms ----

constexpr std::int64_t norm_rows = 16384;

/// The last axis of a matrix as the channels, as the frontend's samples have it.
Tensor norm_operand(GraphWriter& g, std::int64_t rows, std::int64_t n) {
  return g.input({rows, n, 1, 1}, {n, 1, n, n});
}

Workload rms_norm(std::int64_t n) {
  return {.name = "W4 rms_norm of 16384 × " + std::to_string(n),
          .dtype = bfloat16,
          .operands = {{{norm_rows, n}}, {{n}}},
          .results = {{{norm_rows, n}}},
          .function = [](const List& a) -> List { return {st::rms_norm(a[0], a[1])}; },
          .graph =
              [n](GraphWriter& g) {
                Tensor epsilon = g.graph.tensor(1e-5F);
                const Tensor x = norm_operand(g, norm_rows, n), scale = norm_operand(g, 1, n);
                g.output(g.graph.rmsnorm(x, scale,
                                         fe::graph::Rmsnorm_attributes()
                                             .set_forward_phase(fe::NormFwdPhase_t::INFERENCE)
                                             .set_epsilon(epsilon))[0]);
              }};
}

Workload layer_norm(std::int64_t n) {
  return {.name = "W4 layer_norm of 16384 × " + std::to_string(n),
          .dtype = bfloat16,
          .operands = {{{norm_rows, n}}, {{n}}, {{n}}},
          .results = {{{norm_rows, n}}},
          .function = [](const List& a) -> List { return {st::layer_norm(a[0], a[1], a[2])}; },
          .graph =
              [n](GraphWriter& g) {
                Tensor epsilon = g.graph.tensor(1e-5F);
                const Tensor x = norm_operand(g, norm_rows, n), scale = norm_operand(g, 1, n),
                             bias = norm_operand(g, 1, n);
                g.output(g.graph.layernorm(x, scale, bias,
                                           fe::graph::Layernorm_attributes()
                                               .set_forward_phase(fe::NormFwdPhase_t::INFERENCE)
                                               .set_epsilon(epsilon))[0]);
              },
          .tuned = n == 4096};
}

// ---- W5: convolutions ----

struct Images {
  std::int64_t batch, channels, out_channels, extent, window, padding;

  // Channels-last in memory; both sides see (batch, channels, rows, columns).
  static Operand operand(std::int64_t n, std::int64_t c, std::int64_t extent) {
    return {{n, extent, extent, c}, {0, 3, 1, 2}};
  }
  static Extents extents(std::int64_t n, std::int64_t c, std::int64_t extent) {
    return {n, c, extent, extent};
  }
  static Extents strides(std::int64_t c, std::int64_t extent) {
    return {extent * extent * c, 1, extent * c, c};
  }
  static Tensor input(GraphWriter& g, std::int64_t n, std::int64_t c, std::int64_t extent) {
    return g.input(extents(n, c, extent), strides(c, extent));
  }
};

void write_convolution(GraphWriter& g, const Images& of) {
  const Tensor x = Images::input(g, of.batch, of.channels, of.extent),
               w = Images::input(g, of.out_channels, of.channels, of.window),
               b = Images::input(g, 1, of.out_channels, 1);
  const Tensor y = g.graph.conv_fprop(x, w,
                                      fe::graph::Conv_fprop_attributes()
                                          .set_pre_padding({of.padding, of.padding})
                                          .set_post_padding({of.padding, of.padding})
                                          .set_stride({1, 1})
                                          .set_dilation({1, 1}));
  const Extents extents = Images::extents(of.batch, of.out_channels, of.extent);
  const Extents strides = Images::strides(of.out_channels, of.extent);
  y->set_dim(extents).set_stride(strides);
  g.output(g.pointwise(Mode::RELU_FWD, g.pointwise(Mode::ADD, y, b)), extents, strides);
}

Workload convolution(const Images& of, bool tuned = false) {
  const std::string extent = std::to_string(of.extent), window = std::to_string(of.window);
  return {.name = "W5 relu(conv(x, w) + b), n" + std::to_string(of.batch) + " c" +
                  std::to_string(of.channels) + " k" + std::to_string(of.out_channels) + " " + extent + "×" +
                  extent + ", " + window + "×" + window,
          .dtype = float16,
          .operands = {Images::operand(of.batch, of.channels, of.extent),
                       Images::operand(of.out_channels, of.channels, of.window),
                       {{of.out_channels, 1, 1}}},
          .results = {Images::operand(of.batch, of.out_channels, of.extent)},
          .function = [of](const List& a) -> List {
            return {st::relu(st::conv(a[0], a[1], {.pre_padding = of.padding}) + a[2])};
          },
          .graph = [of](GraphWriter& g) { write_convolution(g, of); },
          .tuned = tuned};
}

}  // namespace

std::vector<Workload> gpu_workloads() {
  std::vector<Workload> all{tanh_product(),     gelu_product(1024), gelu_product(4096),
                            gelu_product(8192), gated_product(),    multiply_add()};
  const Heads heads[] = {{.batch = 8, .seq = 2048},
                         {.batch = 8, .seq = 2048, .causal = true},
                         {.batch = 2, .seq = 8192},
                         {.batch = 2, .seq = 8192, .causal = true}};
  for (const Heads& of : heads) all.push_back(attention(of));
  for (const Heads& of : heads) all.push_back(attention_backward(of));
  for (const std::int64_t n : {1024, 4096, 8192}) all.push_back(rms_norm(n));
  for (const std::int64_t n : {1024, 4096, 8192}) all.push_back(layer_norm(n));
  all.push_back(convolution({32, 256, 256, 28, 3, 1}, true));
  all.push_back(convolution({32, 64, 64, 56, 3, 1}));
  all.push_back(convolution({32, 512, 2048, 14, 1, 0}));
  return all;
}

std::vector<MemoryBound> memory_bound() {
  using stiletto::Array;
  const auto first = [](const Array& x) { return stiletto::sum(x, 0); };
  const auto last = [](const Array& x) { return stiletto::sum(x, -1); };
  const auto middle = [](const Array& x) { return stiletto::sum(x, 1); };
  const auto outer = [](const Array& x) { return stiletto::sum(x, {0, 2}); };
  const auto all = [](const Array& x) { return stiletto::sum(x); };
  const auto pointwise = [](const Array& x) { return stiletto::cast(x * x + x, bfloat16); };
  const stiletto::Shape matrix{16384, 4096}, cube{128, 128, 4096};
  return {{"sum over the first axis of 16384 × 4096", matrix, first},
          {"sum over the last axis of 16384 × 4096", matrix, last},
          {"sum of 16384 × 4096", matrix, all},
          {"sum over the middle axis of 128 × 128 × 4096", cube, middle},
          {"sum over the first and last axis of 128 × 128 × 4096", cube, outer},
          {"sum of 1000003, a prime", {1000003}, all},
          {"sum of 67108859, a prime", {67108859}, all},
          {"x·x + x of 2²⁰", {1 << 20}, pointwise},
          {"x·x + x of 1000003, a prime", {1000003}, pointwise},
          {"x·x + x of 2²⁶", {1 << 26}, pointwise},
          {"x·x + x of 67108856 = 8·47·178481", {67108856}, pointwise},
          {"x·x + x of 67108859, a prime", {67108859}, pointwise}};
}
