// SPDX-License-Identifier: Apache-2.0
// The CPU's attention and its gradients: sizes, dtypes, layouts, masks, sequence lengths, bias, sink, values
// that are not finite, and the same bits on any number of threads.
#include <cstdint>

#include "attention_trial.hpp"
#include "backends/cpu/attention_kernels.hpp"
#include "core/parallel.hpp"

namespace stiletto::detail::cpu::attention_test {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr DType dtypes[] = {DType::float16, DType::bfloat16, DType::float32, DType::float64};

TEST(CpuAttention, Sizes) {
  Random random(1);
  const std::int64_t sizes[] = {1, 3, 17, 65, 130};
  for (const std::int64_t queries : sizes)
    for (const std::int64_t keys : sizes) {
      SCOPED_TRACE(testing::Message() << queries << " queries, " << keys << " keys");
      Trial({.batch = 1, .queries = queries, .keys = keys, .heads = 2, .heads_kv = 1}, random).check();
    }
}

TEST(CpuAttention, Widths) {
  Random random(2);
  const std::int64_t widths[][2] = {{8, 8},     {40, 40}, {64, 64}, {128, 128},
                                    {256, 256}, {1, 3},   {40, 64}, {128, 40}};
  for (const auto& [qk, v] : widths)
    for (const DType dtype : {DType::float32, DType::float64}) {
      SCOPED_TRACE(testing::Message() << qk << ", " << v);
      Trial({.dtype = dtype,
             .batch = 1,
             .queries = 17,
             .keys = 100,
             .heads = 1,
             .heads_kv = 1,
             .width_qk = qk,
             .width_v = v},
            random)
          .check();
    }
}

TEST(CpuAttention, DtypesInLayouts) {
  Random random(3);
  for (const DType dtype : dtypes)
    for (const Layout layout :
         {Layout::plain, Layout::packed, Layout::reversed, Layout::apart, Layout::shared, Layout::swapped}) {
      SCOPED_TRACE(testing::Message() << to_string(dtype) << ", layout " << static_cast<int>(layout));
      Trial({.dtype = dtype,
             .queries = 35,
             .keys = 50,
             .heads = 4,
             .heads_kv = 2,
             .width_qk = 20,
             .width_v = 12,
             .causal = Causal::bottom_right,
             .layout = layout},
            random)
          .check();
    }
}

TEST(CpuAttention, ResultsOfAnotherDtype) {
  Random random(4);
  for (const DType dtype : dtypes)
    for (const DType result : dtypes) {
      SCOPED_TRACE(testing::Message() << to_string(dtype) << " to " << to_string(result));
      Trial trial({.dtype = dtype, .bias = DType::float32, .sink = true, .result = result}, random);
      trial.forward();
      trial.make_reference();
      const bool narrow = result == DType::float16 || result == DType::bfloat16;
      Trial::compare("out", trial.out, trial.reference.out, narrow ? 4e-3 : 5e-6);
    }
}

TEST(CpuAttention, RoundsOnce) {  // half operands are exact in float32, so that is as good as the result gets
  Random random(5);
  Trial trial({.dtype = DType::float16, .queries = 65, .keys = 130, .result = DType::float32}, random);
  trial.forward();
  trial.make_reference();
  Trial::compare("out", trial.out, trial.reference.out, 3e-6);
}

TEST(CpuAttention, CausalAndWindow) {
  Random random(6);
  for (const Causal causal : {Causal::top_left, Causal::bottom_right})
    for (const std::int64_t window : {0, 1, 5, 64, 1000})
      for (const auto& [queries, keys] : {std::pair{70, 70}, {130, 30}, {20, 150}, {1, 9}, {200, 200}}) {
        SCOPED_TRACE(testing::Message() << queries << ", " << keys << ", window " << window);
        Trial({.batch = 1,
               .queries = queries,
               .keys = keys,
               .heads = 2,
               .heads_kv = 1,
               .causal = causal,
               .window = window},
              random)
            .check();
      }
}

TEST(CpuAttention, WindowBeyondAnySize) {
  Random random(7);
  Trial({.causal = Causal::top_left, .window = std::numeric_limits<std::int64_t>::max()}, random).check();
}

TEST(CpuAttention, SequenceLengths) {
  Random random(8);
  for (const Causal causal : {Causal::none, Causal::top_left, Causal::bottom_right})
    for (const DType dtype : {DType::float32, DType::float64, DType::bfloat16})
      for (const bool sink : {false, true})
        Trial({.dtype = dtype,
               .batch = 6,
               .queries = 40,
               .keys = 110,
               .heads = 4,
               .heads_kv = 2,
               .causal = causal,
               .seq_len_q = {0, 40, 13, 40, -5, 99},
               .seq_len_kv = {110, 0, 7, 110, 3, 1000},
               .sink = sink},
              random)
            .check();
}

TEST(CpuAttention, OneSidedLengths) {
  Random random(9);
  Trial({.seq_len_q = {3, 17}}, random).check();
  Trial({.seq_len_kv = {5, 0}}, random).check();
}

TEST(CpuAttention, NoKeys) {
  Random random(20);
  for (const bool sink : {false, true})
    Trial({.keys = 0, .bias = DType::float32, .sink = sink}, random).check();
}

TEST(CpuAttention, Bias) {
  Random random(10);
  for (const DType bias : dtypes)
    for (const bool of_batch : {false, true})
      for (const bool of_head : {false, true}) {
        SCOPED_TRACE(testing::Message() << to_string(bias) << of_batch << of_head);
        Trial({.dtype = bias == DType::float64 ? DType::float32 : bias,
               .batch = 3,
               .queries = 70,
               .keys = 101,
               .heads = 4,
               .heads_kv = 2,
               .causal = Causal::top_left,
               .bias = bias,
               .bias_of_batch = of_batch,
               .bias_of_head = of_head},
              random)
            .check();
      }
}

TEST(CpuAttention, Everything) {
  Random random(11);
  for (const DType dtype : dtypes)
    Trial({.dtype = dtype,
           .batch = 2,
           .queries = 131,
           .keys = 205,
           .heads = 6,
           .heads_kv = 2,
           .width_qk = 24,
           .width_v = 40,
           .causal = Causal::bottom_right,
           .window = 60,
           .seq_len_q = {131, 77},
           .seq_len_kv = {190, 205},
           .bias = dtype,
           .bias_of_head = true,
           .sink = true,
           .layout = Layout::packed},
          random)
        .check();
}

/// What is past the lengths never matters, whatever it is.
TEST(CpuAttention, NanPastTheLengths) {
  Random random(12);
  for (const double poison : {nan, infinity})
    for (const Causal causal : {Causal::none, Causal::bottom_right}) {
      Trial trial({.queries = 80,
                   .keys = 120,
                   .heads = 2,
                   .heads_kv = 1,
                   .causal = causal,
                   .seq_len_q = {50, 80},
                   .seq_len_kv = {120, 97},
                   .bias = DType::float32},
                  random);
      for (Tensor* t : {&trial.k, &trial.v})
        t->each([&](auto i) {
          if (i[0] == 1 && i[1] >= 97) t->set(i, poison);
        });
      for (Tensor* t : {&trial.q, &trial.d_out})
        t->each([&](auto i) {
          if (i[0] == 0 && i[1] >= 50) t->set(i, poison);
        });
      trial.check();
    }
}

/// A key that only some rows see makes these NaN, and no others.
TEST(CpuAttention, NanBehindTheMask) {
  Random random(13);
  for (const DType dtype : {DType::float32, DType::float64})
    for (const std::int64_t window : {0, 20})
      for (const bool in_rows : {false, true}) {
        Trial trial({.dtype = dtype,
                     .batch = 1,
                     .queries = 150,
                     .keys = 150,
                     .heads = 2,
                     .heads_kv = 1,
                     .causal = Causal::top_left,
                     .window = window},
                    random);
        const auto poison = [&](Tensor& t, std::int64_t row) { t.set({0, row, 0, 3}, nan); };
        poison(in_rows ? trial.q : trial.k, 77);
        poison(in_rows ? trial.d_out : trial.v, 30);
        trial.check();
      }
}

TEST(CpuAttention, InfiniteLogits) {
  Random random(14);
  Trial trial({.batch = 1, .queries = 6, .keys = 120, .heads = 1, .heads_kv = 1, .bias = DType::float32},
              random);
  for (std::int64_t j = 0; j < 120; ++j) {
    if (j < 100) trial.bias.set({0, 0, 1, j}, -infinity);  // the first tile of keys and more
    trial.bias.set({0, 0, 2, j}, -infinity);
    if (j >= 100) trial.bias.set({0, 0, 3, j}, -infinity);
  }
  trial.bias.set({0, 0, 4, 50}, infinity);
  trial.bias.set({0, 0, 5, 119}, infinity);
  trial.check();
  EXPECT_EQ(trial.out.at({0, 2, 0, 0}), 0);
  EXPECT_TRUE(std::isnan(trial.out.at({0, 4, 0, 0})));
  EXPECT_FALSE(std::isnan(trial.out.at({0, 1, 0, 0})));
}

TEST(CpuAttention, LargeLogits) {
  Random random(15);
  Trial trial({.dtype = DType::float64, .keys = 130}, random);
  trial.scale.set({}, 300);
  trial.forward();
  trial.make_reference();
  Trial::compare("out", trial.out, trial.reference.out, 1e-11);
}

TEST(CpuAttention, ResultsThatNobodyWants) {
  Random random(16);
  Trial all({.bias = DType::float32, .sink = true}, random), one = all;
  all.check();
  one.forward();
  TensorView unwanted;
  std::vector<TensorView> operands{one.d_out.view(), one.q.view(),    one.k.view(),
                                   one.v.view(),     one.out.view(),  one.stats.view(),
                                   one.scale.view(), one.bias.view(), one.sink.view()};
  AttentionAttributes attributes;
  attributes.operands = 0b1100;
  const std::array<Tensor*, 5> results{&one.dq, &one.dk, &one.dv, &one.d_bias, &one.d_sink};
  const std::array<Tensor*, 5> expected{&all.dq, &all.dk, &all.dv, &all.d_bias, &all.d_sink};
  for (std::size_t i = 0; i < results.size(); ++i) {
    std::array<TensorView, 5> views;
    views[i] = results[i]->view();
    attention_backward(Attributes(attributes), operands, views);
    EXPECT_EQ(results[i]->bytes(), expected[i]->bytes());
  }
}

/// Nested tasks run on the calling thread alone.
TEST(CpuAttention, SameBitsOnAnyNumberOfThreads) {
  Random random(17);
  for (const DType dtype : {DType::float32, DType::bfloat16}) {
    Trial many({.dtype = dtype,
                .queries = 300,
                .keys = 300,
                .heads = 4,
                .heads_kv = 2,
                .width_qk = 32,
                .width_v = 32,
                .causal = Causal::top_left,
                .bias = dtype,
                .sink = true},
               random);
    Trial alone = many;
    many.forward();
    many.backward();
    parallel_for(2, [&](std::size_t task) {
      if (task == 0) return;
      alone.forward();
      alone.backward();
    });
    EXPECT_EQ(many.out.bytes(), alone.out.bytes());
    EXPECT_EQ(many.stats.bytes(), alone.stats.bytes());
    EXPECT_EQ(many.dq.bytes(), alone.dq.bytes());
    EXPECT_EQ(many.dk.bytes(), alone.dk.bytes());
    EXPECT_EQ(many.dv.bytes(), alone.dv.bytes());
    EXPECT_EQ(many.d_bias.bytes(), alone.d_bias.bytes());
    EXPECT_EQ(many.d_sink.bytes(), alone.d_sink.bytes());
  }
}

/// The rows computed beside a row do not change its bits.
TEST(CpuAttention, SameBitsInAnyCompany) {
  Random random(18);
  Trial all(
      {.batch = 1, .queries = 90, .keys = 250, .heads = 1, .heads_kv = 1, .width_qk = 32, .width_v = 32},
      random);
  Trial few({.batch = 1, .queries = 3, .keys = 250, .heads = 1, .heads_kv = 1, .width_qk = 32, .width_v = 32},
            random);
  few.k = all.k, few.v = all.v;
  few.q.each([&](auto i) { few.q.set(i, all.q.at({0, i[1] + 80, 0, i[3]})); });
  all.forward();
  few.forward();
  few.out.each([&](auto i) { EXPECT_EQ(few.out.at(i), all.out.at({0, i[1] + 80, 0, i[3]})); });
}

/// The sum of d_out·out, which the gradients are of.
double objective(Trial& trial) {
  trial.forward();
  double sum = 0;
  trial.out.each([&](auto i) { sum += trial.out.at(i) * trial.d_out.at(i); });
  return sum;
}

TEST(CpuAttention, GradientsAreDifferences) {
  Random random(19);
  Trial trial({.dtype = DType::float64,
               .batch = 2,
               .queries = 5,
               .keys = 7,
               .heads = 2,
               .heads_kv = 1,
               .width_qk = 3,
               .width_v = 4,
               .causal = Causal::bottom_right,
               .seq_len_q = {4, 5},
               .seq_len_kv = {7, 6},
               .bias = DType::float64,
               .sink = true},
              random);
  trial.forward();
  trial.backward();
  const auto check = [&](const char* name, Tensor& operand, const Tensor& gradient, double step,
                         double tolerance) {
    operand.each([&](auto i) {
      const double value = operand.at(i);
      operand.set(i, value + step);
      const double above = objective(trial), higher = operand.at(i);
      operand.set(i, value - step);
      const double below = objective(trial), lower = operand.at(i);
      operand.set(i, value);
      EXPECT_NEAR(gradient.at(i), (above - below) / (higher - lower), tolerance) << name;
    });
  };
  check("dq", trial.q, trial.dq, 1e-5, 1e-8);
  check("dk", trial.k, trial.dk, 1e-5, 1e-8);
  check("dv", trial.v, trial.dv, 1e-5, 1e-8);
  check("dbias", trial.bias, trial.d_bias, 1e-5, 1e-8);
  check("dsink", trial.sink, trial.d_sink, 1e-3, 2e-6);
}

/// The exponentials alone, over their range: sums of one key are what the kernel calls 2^(x − maximum).
TEST(CpuAttention, ExponentialsAreAccurate) {
  constexpr std::int64_t lanes = 64;
  std::vector<float> scores(lanes * 2), maximum(lanes), sum(lanes), correction(lanes);
  for (int step = 0; step < 335; ++step) {
    const double x = -0.37 * step;
    for (std::size_t i = 0; i < lanes; ++i) {
      scores[i] = static_cast<float>(x - static_cast<double>(i) / 200);
      scores[lanes + i] = 0;
      maximum[i] = -std::numeric_limits<float>::infinity(), sum[i] = 0;
    }
    const std::vector<float> given = scores;
    SoftmaxTile<float> tile{};
    tile.scores = scores.data(), tile.keys = 2, tile.lanes = lanes;
    tile.maximum = maximum.data(), tile.sum = sum.data(), tile.correction = correction.data();
    attention_kernels<float>().softmax(tile);
    for (std::size_t i = 0; i < lanes; ++i)
      EXPECT_NEAR(scores[i] / std::exp2(static_cast<double>(given[i])), 1, 1.5e-7) << given[i];
  }
}

}  // namespace
}  // namespace stiletto::detail::cpu::attention_test
