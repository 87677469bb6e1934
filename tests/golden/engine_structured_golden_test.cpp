// SPDX-License-Identifier: Apache-2.0
// Engine graphs around one structured operation: how operands are described, which results are computed, what
// follows, and what is refused before cuDNN is asked.
#include "golden/engine_golden.hpp"

namespace {

using golden::engine_text;
using golden::expect_text;
using stiletto::Array;
using stiletto::AttentionOptions;
using stiletto::Causal;
using stiletto::DType;

constexpr DType f16 = DType::float16, f32 = DType::float32, i32 = DType::int32;

using Arrays = std::vector<Array>;

Array on_cpu(const stiletto::Shape& shape, DType dtype = f16, const stiletto::Strides& strides = {}) {
  return unit::on_cpu(shape, dtype, strides);
}
Array channels_last(const stiletto::Shape& s, DType dtype = f16) {
  return on_cpu(s, dtype, {s[1] * s[2] * s[3], 1, s[3] * s[1], s[1]});
}

// ---- attention ----

TEST(EngineStructured, attention) {
  auto f = [](const Array& q, const Array& k, const Array& v) { return stiletto::attention(q, k, v); };
  expect_text(engine_text(f, on_cpu({2, 16, 8, 64}), on_cpu({2, 32, 2, 64}), on_cpu({2, 32, 2, 128})), R"(
cudnn graph, a node attention
  t0 = tensor0: float16(2, 8, 16, 64) strides (8192, 64, 512, 1)
  t1 = tensor1: float16(2, 2, 32, 64) strides (4096, 64, 128, 1)
  t2 = tensor2: float16(2, 2, 32, 128) strides (8192, 128, 256, 1)
  t3 = scalar0: float32 by value
  t4 = attention(t0, t1, t2, t3) in float32: store0: float16(2, 8, 16, 128) strides (16384, 128, 1024, 1)
)");
}

TEST(EngineStructured, attention_with_every_option) {
  auto f = [](auto... arrays) {
    const Arrays a{arrays...};
    const AttentionOptions options{.scale = Array(0.5),
                                   .causal = Causal::top_left,
                                   .seq_len_q = a[3],
                                   .seq_len_kv = a[4],
                                   .bias = a[5],
                                   .window = 8,
                                   .sink = a[6]};
    const auto r = stiletto::attention_with_stats(a[0], a[1], a[2], options);
    return Arrays{r.out, r.stats};
  };
  const Array x = on_cpu({2, 16, 8, 64});
  expect_text(
      engine_text(f, x, x, x, on_cpu({2}, i32), on_cpu({2}, i32), on_cpu({1, 8, 16, 16}), on_cpu({8}, f32)),
      R"(
cudnn graph, a node attention
  t0 = tensor0: float16(2, 8, 16, 64) strides (8192, 64, 512, 1)
  t1 = tensor1: float16(2, 8, 16, 64) strides (8192, 64, 512, 1)
  t2 = tensor2: float16(2, 8, 16, 64) strides (8192, 64, 512, 1)
  t3 = scalar0: float32 by value
  t4 = tensor3: int32(2, 1, 1, 1) strides (1, 1, 1, 1)
  t5 = tensor4: int32(2, 1, 1, 1) strides (1, 1, 1, 1)
  t6 = tensor5: float16(1, 8, 16, 16) strides (2048, 256, 16, 1)
  t7 = tensor6: float32(1, 8, 1, 1) strides (8, 1, 1, 1)
  t8 = attention(t0, t1, t2, t3, t4, t5, t6, t7, causal top_left, window=8, with seq_len_q, seq_len_kv, bias, sink) in float32: store0: float16(2, 8, 16, 64) strides (8192, 64, 512, 1)
  t9 = result 1 of it: store1: float32(2, 8, 16, 1) strides (128, 16, 1, 1)
)");
}

// One array three times is three tensors; the window holds every key.
TEST(EngineStructured, attention_of_one_array) {
  auto f = [](const Array& x) {
    return stiletto::attention(x, x, x, {.causal = Causal::bottom_right, .window = 16});
  };
  expect_text(engine_text(f, on_cpu({1, 16, 8, 64}, f16, {24576, 1536, 72, 1})), R"(
cudnn graph, a node attention
  t0 = tensor0: float16(1, 8, 16, 64) strides (24576, 72, 1536, 1)
  t1 = tensor1: float16(1, 8, 16, 64) strides (24576, 72, 1536, 1)
  t2 = tensor2: float16(1, 8, 16, 64) strides (24576, 72, 1536, 1)
  t3 = scalar0: float32 by value
  t4 = attention(t0, t1, t2, t3, causal bottom_right) in float32: store0: float16(1, 8, 16, 64) strides (8192, 64, 512, 1)
)");
}

TEST(EngineStructured, attention_backward) {
  auto f = [](auto... arrays) {
    const Arrays a{arrays...};
    const auto g = stiletto::attention_backward(a[0], a[1], a[2], a[3], a[4], a[5],
                                                {.causal = Causal::top_left, .bias = a[6], .sink = a[7]});
    return Arrays{g.dq, g.dk, g.dv, g.dsink};
  };
  const Array x = on_cpu({2, 16, 8, 64}), stats = on_cpu({2, 8, 16, 1}, f32);
  expect_text(engine_text(f, x, x, x, x, x, stats, on_cpu({1, 1, 16, 16}), on_cpu({8}, f32)), R"(
cudnn graph, a node attention_backward
  t0 = tensor0: float16(2, 8, 16, 64) strides (8192, 64, 512, 1)
  t1 = tensor1: float16(2, 8, 16, 64) strides (8192, 64, 512, 1)
  t2 = tensor2: float16(2, 8, 16, 64) strides (8192, 64, 512, 1)
  t3 = tensor3: float16(2, 8, 16, 64) strides (8192, 64, 512, 1)
  t4 = tensor4: float16(2, 8, 16, 64) strides (8192, 64, 512, 1)
  t5 = tensor5: float32(2, 8, 16, 1) strides (128, 16, 1, 1)
  t6 = scalar0: float32 by value
  t7 = tensor6: float16(1, 1, 16, 16) strides (256, 256, 16, 1)
  t8 = tensor7: float32(1, 8, 1, 1) strides (8, 1, 1, 1)
  t9 = attention_backward(t0, t1, t2, t3, t4, t5, t6, t7, t8, causal top_left, with bias, sink) in float32: store0: float16(2, 8, 16, 64) strides (8192, 64, 512, 1)
  t10 = result 1 of it: store1: float16(2, 8, 16, 64) strides (8192, 64, 512, 1)
  t11 = result 2 of it: store2: float16(2, 8, 16, 64) strides (8192, 64, 512, 1)
  t12 = result 4 of it: store3: float32(1, 8, 1, 1) strides (8, 1, 1, 1)
)");
}

TEST(EngineStructured, refused_attention) {
  const Array x = on_cpu({2, 16, 8, 64}), shorter = on_cpu({2, 8, 8, 64}), stats = on_cpu({2, 8, 16, 1}, f32);
  const Array bias = on_cpu({1, 8, 16, 16}), f64 = on_cpu({2, 16, 8, 64}, DType::float64);
  std::string text;
  const auto add = [&](const AttentionOptions& options, const Array& q, const Array& kv) {
    text += engine_text(
        [options](const Array& a, const Array& b) { return stiletto::attention(a, b, b, options); }, q, kv);
  };
  add({.causal = Causal::bottom_right}, x, shorter);
  add({.causal = Causal::top_left, .window = 4}, x, shorter);
  add({}, f64, f64);
  add({}, on_cpu({2, 16, 8, 60}), on_cpu({2, 16, 8, 60}));
  text += engine_text(
      [](const Array& a, const Array& b) {
        return stiletto::attention(a, a, a, {.causal = Causal::bottom_right, .bias = b});
      },
      x, bias);
  text += engine_text([](const Array& a) { return stiletto::relu(stiletto::attention(a, a, a)); }, x);
  text += engine_text([](const Array& a) { return stiletto::attention(stiletto::relu(a), a, a); }, x);
  text += engine_text(
      [](const Array& a, const Array& s) { return stiletto::attention_backward(a, a, a, a, a, s).dq; }, x,
      stats);
  text += engine_text(
      [](const Array& a) { return stiletto::exp(stiletto::attention_with_stats(a, a, a).stats); }, x);
  expect_text(text, R"(
not a node attention: a bottom_right mask with 16 queries and 8 keys, of which the first queries see nothing; cuDNN takes it only with seq_len_q and seq_len_kv
not a node attention: a window with 16 queries and 8 keys; cuDNN takes more queries than keys only with seq_len_q and seq_len_kv
not a node attention: q of attention is float64, and cuDNN has no float64 outside of products
not a node attention: q of attention has head_dim 60, and cuDNN takes multiples of 8; pad it with zeros
not a node attention: a bottom_right mask and a bias, which cuDNN does not take together; let the bias have minus infinity where the mask would be, and leave causal out
not a node attention: relu of what attention computes, which cuDNN only stores; compute it in a call of its own
not a node attention: q of attention is computed (by relu), and cuDNN reads it from memory; store it first and pass it
not a node attention_backward: dk of attention_backward is not used, and cuDNN computes it in any case; return or store it, too
not a node attention: exp of stats of attention, which cuDNN only stores; compute it in a call of its own
)");
}

// ---- norms ----

TEST(EngineStructured, rms_norm_and_relu) {
  auto f = [](const Array& x, const Array& s) { return stiletto::relu(stiletto::rms_norm(x, s)); };
  expect_text(engine_text(f, on_cpu({4, 8, 64}), on_cpu({64})), R"(
cudnn graph, a node rms_norm
  t0 = tensor0: float16(32, 64, 1, 1) strides (64, 1, 64, 64)
  t1 = tensor1: float16(1, 64, 1, 1) strides (64, 1, 64, 64)
  t2 = 1e-05: float32 constant
  t3 = rms_norm(t0, t1, t2, axes=1, epsilon=1e-05) in float32: float32(32, 64, 1, 1)
  t4 = relu(t3) in float32: store0: float16(32, 64, 1, 1) strides (64, 1, 64, 64)
)");
}

TEST(EngineStructured, rms_norm_with_bias_and_stats) {
  auto f = [](const Array& x, const Array& s, const Array& b) {
    const auto r = stiletto::rms_norm_with_stats(x, s, {.bias = b, .epsilon = 1e-3F});
    return Arrays{r.y, r.inv_rms};
  };
  expect_text(engine_text(f, on_cpu({4, 8, 64}), on_cpu({8, 64}, f32), on_cpu({8, 64}, f32)), R"(
cudnn graph, a node rms_norm
  t0 = tensor0: float16(4, 512, 1, 1) strides (512, 1, 512, 512)
  t1 = tensor1: float32(1, 512, 1, 1) strides (512, 1, 512, 512)
  t2 = tensor2: float32(1, 512, 1, 1) strides (512, 1, 512, 512)
  t3 = 0.001: float32 constant
  t4 = rms_norm(t0, t1, t2, t3, axes=2, epsilon=0.001) in float32: store0: float16(4, 512, 1, 1) strides (512, 1, 512, 512)
  t5 = result 1 of it: store1: float32(4, 1, 1, 1) strides (1, 1, 1, 1)
)");
}

TEST(EngineStructured, layer_norm_with_stats) {
  auto f = [](const Array& x, const Array& s, const Array& b) {
    const auto r = stiletto::layer_norm_with_stats(x, s, b);
    return Arrays{r.y, r.mean, r.inv_std};
  };
  expect_text(engine_text(f, on_cpu({32, 64}), on_cpu({64}), on_cpu({64})), R"(
cudnn graph, a node layer_norm
  t0 = tensor0: float16(32, 64, 1, 1) strides (64, 1, 64, 64)
  t1 = tensor1: float16(1, 64, 1, 1) strides (64, 1, 64, 64)
  t2 = tensor2: float16(1, 64, 1, 1) strides (64, 1, 64, 64)
  t3 = 1e-05: float32 constant
  t4 = layer_norm(t0, t1, t2, t3, axes=1, epsilon=1e-05) in float32: store0: float16(32, 64, 1, 1) strides (64, 1, 64, 64)
  t5 = result 1 of it: store1: float32(32, 1, 1, 1) strides (1, 1, 1, 1)
  t6 = result 2 of it: store2: float32(32, 1, 1, 1) strides (1, 1, 1, 1)
)");
}

TEST(EngineStructured, norm_gradients) {
  auto rms = [](const Array& x, const Array& s, const Array& n) {
    const auto g = stiletto::rms_norm_backward(x, x, s, n);
    return Arrays{g.dx, g.dscale};
  };
  auto layer = [](const Array& x, const Array& s, const Array& n) {
    const auto g = stiletto::layer_norm_backward(x, x, s, n, n);
    return Arrays{g.dx, g.dscale, g.dbias};
  };
  const Array x = on_cpu({32, 64}), s = on_cpu({64}), n = on_cpu({32, 1}, f32);
  expect_text(engine_text(rms, x, s, n) + engine_text(layer, x, s, n), R"(
cudnn graph, a node rms_norm_backward
  t0 = tensor0: float16(32, 64, 1, 1) strides (64, 1, 64, 64)
  t1 = tensor3: float16(32, 64, 1, 1) strides (64, 1, 64, 64)
  t2 = tensor1: float16(1, 64, 1, 1) strides (64, 1, 64, 64)
  t3 = tensor2: float32(32, 1, 1, 1) strides (1, 1, 1, 1)
  t4 = rms_norm_backward(t0, t1, t2, t3, axes=1) in float32: store0: float16(32, 64, 1, 1) strides (64, 1, 64, 64)
  t5 = result 1 of it: store1: float16(1, 64, 1, 1) strides (64, 1, 64, 64)
cudnn graph, a node layer_norm_backward
  t0 = tensor0: float16(32, 64, 1, 1) strides (64, 1, 64, 64)
  t1 = tensor3: float16(32, 64, 1, 1) strides (64, 1, 64, 64)
  t2 = tensor1: float16(1, 64, 1, 1) strides (64, 1, 64, 64)
  t3 = tensor2: float32(32, 1, 1, 1) strides (1, 1, 1, 1)
  t4 = tensor4: float32(32, 1, 1, 1) strides (1, 1, 1, 1)
  t5 = layer_norm_backward(t0, t1, t2, t3, t4, axes=1) in float32: store0: float16(32, 64, 1, 1) strides (64, 1, 64, 64)
  t6 = result 1 of it: store1: float16(1, 64, 1, 1) strides (64, 1, 64, 64)
  t7 = result 2 of it: store2: float16(1, 64, 1, 1) strides (64, 1, 64, 64)
)");
}

TEST(EngineStructured, refused_norms) {
  auto plain = [](const Array& x, const Array& s) { return stiletto::rms_norm(x, s); };
  auto relu = [](const Array& x, const Array& s) { return stiletto::relu(stiletto::rms_norm(x, s)); };
  auto wider = [](const Array& x, const Array& s) { return stiletto::rms_norm(x, s) * 0.5F; };
  auto sum = [](const Array& x, const Array& s) { return stiletto::sum(stiletto::rms_norm(x, s), -1); };
  auto mean = [](const Array& x, const Array& s) {
    const auto r = stiletto::layer_norm_with_stats(x, s, s);
    return Arrays{r.y, r.mean};
  };
  const Array x = on_cpu({32, 64}), s = on_cpu({64});
  expect_text(engine_text(plain, on_cpu({32, 64}, f16, {128, 1}), s) +
                  engine_text(plain, on_cpu({4, 8, 64}, f16, {1024, 64, 1}), s) +
                  engine_text(relu, x, on_cpu({64}, f32)) + engine_text(wider, x, s) +
                  engine_text(sum, x, s) + engine_text(mean, x, s),
              R"(
not a node rms_norm: arg0 has gaps between its rows, which cuDNN's rms_norm does not take; pass a copy of it made outside the function
not a node rms_norm: arg0 has gaps between axes that are one to cuDNN; pass a copy of it made outside the function
not a node rms_norm: what follows rms_norm of float16 with scale of float32, which cuDNN does not compute in one; cast scale to float16, or compute what follows in a call of its own
not a node rms_norm: what follows rms_norm of float16 is float32, wider than cuDNN writes there; cast it to float16, or compute what follows in a call of its own
not a node rms_norm: sum beside rms_norm; compute it in a call of its own
not a node layer_norm: only one of mean and inv_std of layer_norm is used, and cuDNN computes both; return or store the other, too
)");
}

TEST(EngineStructured, batch_norm) {
  auto training = [](const Array& x, const Array& c) {
    const auto r = stiletto::batch_norm_training(x, c, c, c, c);
    return Arrays{r.y, r.mean, r.inv_std, r.running_mean, r.running_variance};
  };
  auto backward = [](const Array& x, const Array& c) {
    const auto g = stiletto::batch_norm_backward(x, x, c, c, c);
    return Arrays{g.dx, g.dscale, g.dbias};
  };
  const Array x = channels_last({4, 16, 8, 8}), line = on_cpu({4, 16, 8}), c = on_cpu({16}, f32);
  expect_text(engine_text(training, x, c) + engine_text(backward, line, c), R"(
cudnn graph, a node batch_norm_training
  t0 = tensor0: float16(4, 16, 8, 8) strides (1024, 1, 128, 16)
  t1 = tensor1: float32(1, 16, 1, 1) strides (16, 1, 16, 16)
  t2 = tensor2: float32(1, 16, 1, 1) strides (16, 1, 16, 16)
  t3 = tensor3: float32(1, 16, 1, 1) strides (16, 1, 16, 16)
  t4 = tensor4: float32(1, 16, 1, 1) strides (16, 1, 16, 16)
  t5 = 1e-05: float32 constant
  t6 = 0.1: float32 constant
  t7 = batch_norm_training(t0, t1, t2, t3, t4, t5, t6, epsilon=1e-05, momentum=0.1) in float32: store0: float16(4, 16, 8, 8) strides (1024, 1, 128, 16)
  t8 = result 1 of it: store1: float32(1, 16, 1, 1) strides (16, 1, 16, 16)
  t9 = result 2 of it: store2: float32(1, 16, 1, 1) strides (16, 1, 16, 16)
  t10 = result 3 of it: store3: float32(1, 16, 1, 1) strides (16, 1, 16, 16)
  t11 = result 4 of it: store4: float32(1, 16, 1, 1) strides (16, 1, 16, 16)
cudnn graph, a node batch_norm_backward
  t0 = tensor0: float16(4, 16, 1, 8) strides (128, 8, 8, 1)
  t1 = tensor2: float16(4, 16, 1, 8) strides (128, 8, 8, 1)
  t2 = tensor1: float32(1, 16, 1, 1) strides (16, 1, 1, 1)
  t3 = tensor3: float32(1, 16, 1, 1) strides (16, 1, 1, 1)
  t4 = tensor4: float32(1, 16, 1, 1) strides (16, 1, 1, 1)
  t5 = batch_norm_backward(t0, t1, t2, t3, t4) in float32: store0: float16(4, 16, 1, 8) strides (128, 8, 8, 1)
  t6 = result 1 of it: store1: float32(1, 16, 1, 1) strides (16, 1, 1, 1)
  t7 = result 2 of it: store2: float32(1, 16, 1, 1) strides (16, 1, 1, 1)
)");
}

// ---- convolution and pooling ----

TEST(EngineStructured, conv_with_bias_and_residual) {
  auto f = [](const Array& x, const Array& w, const Array& b, const Array& y) {
    return stiletto::relu(stiletto::conv(x, w, {.pre_padding = 1}) + b + y);
  };
  expect_text(engine_text(f, channels_last({2, 32, 14, 16}), channels_last({64, 32, 3, 3}),
                          on_cpu({64, 1, 1}), channels_last({2, 64, 14, 16})),
              R"(
cudnn graph, a node conv
  t0 = tensor0: float16(2, 32, 14, 16) strides (7168, 1, 512, 32)
  t1 = tensor1: float16(64, 32, 3, 3) strides (288, 1, 96, 32)
  t3 = tensor2: float16(1, 64, 1, 1) strides (64, 1, 64, 64)
  t5 = tensor3: float16(2, 64, 14, 16) strides (14336, 1, 1024, 64)
  t2 = conv(t0, t1, stride=(1, 1), padding=(1, 1), dilation=(1, 1)) in float32: float32(2, 64, 14, 16)
  t4 = add(t2, t3) in float32: float32(2, 64, 14, 16)
  t6 = add(t4, t5) in float32: float32(2, 64, 14, 16)
  t7 = relu(t6) in float32: store0: float16(2, 64, 14, 16) strides (14336, 1, 1024, 64)
)");
}

TEST(EngineStructured, conv_over_one_axis) {
  auto f = [](const Array& x, const Array& w) {
    return stiletto::conv(x, w, {.stride = 2, .pre_padding = 3, .post_padding = 0});
  };
  expect_text(engine_text(f, on_cpu({2, 8, 32}), on_cpu({16, 1, 4})), R"(
cudnn graph, a node conv
  t0 = tensor0: float16(2, 8, 1, 32) strides (256, 32, 32, 1)
  t1 = tensor1: float16(16, 1, 1, 4) strides (4, 4, 4, 1)
  t2 = conv(t0, t1, stride=(1, 2), padding=(0, 3), post_padding=(0, 0), dilation=(1, 1)) in float32: store0: float16(2, 16, 1, 16) strides (256, 16, 16, 1)
)");
}

TEST(EngineStructured, conv_over_three_axes) {
  auto f = [](const Array& x, const Array& w) { return stiletto::conv(x, w, {.pre_padding = {1, 0, 2}}); };
  expect_text(engine_text(f, on_cpu({2, 1, 6, 8, 8}, f32), on_cpu({4, 1, 3, 1, 3}, f32)), R"(
cudnn graph, a node conv
  t0 = tensor0: float32(2, 1, 6, 8, 8) strides (384, 384, 64, 8, 1)
  t1 = tensor1: float32(4, 1, 3, 1, 3) strides (9, 9, 3, 3, 1)
  t2 = conv(t0, t1, stride=(1, 1, 1), padding=(1, 0, 2), dilation=(1, 1, 1)) in float32: store0: float32(2, 4, 6, 8, 10) strides (1920, 480, 80, 10, 1)
)");
}

TEST(EngineStructured, conv_gradients) {
  auto data = [](const Array& d_y, const Array& w) {
    return stiletto::conv_backward_data(d_y, w, {2, 32, 14, 16}, {.pre_padding = 1});
  };
  auto filter = [](const Array& d_y, const Array& x) {
    return stiletto::conv_backward_filter(d_y, x, {64, 32, 3, 3}, {.pre_padding = 1});
  };
  const Array d_y = channels_last({2, 64, 14, 16});
  expect_text(engine_text(data, d_y, channels_last({64, 32, 3, 3})) +
                  engine_text(filter, d_y, channels_last({2, 32, 14, 16})),
              R"(
cudnn graph, a node conv_backward_data
  t0 = tensor0: float16(2, 64, 14, 16) strides (14336, 1, 1024, 64)
  t1 = tensor1: float16(64, 32, 3, 3) strides (288, 1, 96, 32)
  t2 = conv_backward_data(t0, t1, stride=(1, 1), padding=(1, 1), dilation=(1, 1)) in float32: store0: float16(2, 32, 14, 16) strides (7168, 1, 512, 32)
cudnn graph, a node conv_backward_filter
  t0 = tensor0: float16(2, 64, 14, 16) strides (14336, 1, 1024, 64)
  t1 = tensor1: float16(2, 32, 14, 16) strides (7168, 1, 512, 32)
  t2 = conv_backward_filter(t0, t1, stride=(1, 1), padding=(1, 1), dilation=(1, 1)) in float32: store0: float16(64, 32, 3, 3) strides (288, 1, 96, 32)
)");
}

TEST(EngineStructured, pools) {
  auto max = [](const Array& x) { return stiletto::max_pool(x, 3, {.stride = 2, .pre_padding = 1}); };
  auto avg = [](const Array& x) { return stiletto::avg_pool(x, 2, {.include_padding = true}); };
  expect_text(engine_text(max, channels_last({2, 8, 8, 8})) + engine_text(avg, on_cpu({2, 8, 32})), R"(
cudnn graph, a node max_pool
  t0 = tensor0: float16(2, 8, 8, 8) strides (512, 1, 64, 8)
  t1 = max_pool(t0, window=(3, 3), stride=(2, 2), padding=(1, 1)) in float32: store0: float16(2, 8, 4, 4) strides (128, 1, 32, 8)
cudnn graph, a node avg_pool
  t0 = tensor0: float16(2, 8, 1, 32) strides (256, 32, 32, 1)
  t1 = avg_pool(t0, window=(1, 2), stride=(1, 2), padding=(0, 0), include_padding) in float32: store0: float16(2, 8, 1, 16) strides (128, 16, 16, 1)
)");
}

TEST(EngineStructured, refused_convolutions) {
  auto two = [](const Array& x, const Array& w) { return stiletto::conv(stiletto::conv(x, w), w); };
  auto pooled = [](const Array& x, const Array& w) { return stiletto::max_pool(stiletto::conv(x, w), 2); };
  auto mixed = [](const Array& x, const Array& w) { return stiletto::conv(x, stiletto::cast(w, f32)); };
  auto reversed = [](const Array& x, const Array& w) {
    return stiletto::conv(stiletto::slice(x, {stiletto::Slice{}, stiletto::Slice{{}, {}, -1}}), w);
  };
  const Array x = on_cpu({2, 4, 8, 8}), w = on_cpu({4, 4, 3, 3});
  expect_text(engine_text(two, x, w) + engine_text(pooled, x, w) + engine_text(mixed, x, w) +
                  engine_text(reversed, x, w),
              R"(
not a node conv: conv and conv in one graph; store what the first computes and pass it to a call of its own
not a node conv: conv and max_pool in one graph; store what the first computes and pass it to a call of its own
not a node conv: x of conv is computed (by cast), and cuDNN reads it from memory; store it first and pass it
not a node conv: arg0 is walked backwards, and cuDNN takes no negative strides; pass a copy of it made outside the function
)");
}

}  // namespace
