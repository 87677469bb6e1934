// SPDX-License-Identifier: Apache-2.0
// Attention with dropout on the CPU: which probabilities are dropped, as the generator's definition has it,
// and that both directions, any tiles and any number of threads agree on them.
#include <gtest/gtest.h>

#include <set>

#include "core/parallel.hpp"
#include "support/attention_trial.hpp"
#include "support/dropout_reference.hpp"

namespace {

using namespace support;
using stiletto::AttentionDropout;
using stiletto::Causal;

Array number(std::int64_t value) { return stiletto::from_data<std::int64_t>({value}, {1}); }

AttentionDropout dropout(double probability, std::int64_t seed, std::int64_t offset) {
  return {probability, number(seed), number(offset)};
}

Extents probabilities(const AttentionInput& in) { return {in.batch(), in.heads(), in.seq_q(), in.seq_kv()}; }

TEST(AttentionDropout, the_generator_is_philox) {  // the authors' known answers
  EXPECT_EQ(philox({}, {}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr std::uint32_t ones = 0xffffffff;
  EXPECT_EQ(philox({ones, ones, ones, ones}, {ones, ones}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
}

struct Setting {
  Extents q, k;
  Causal causal = Causal::none;
  std::int64_t window = 0;
  bool lengths = false, bias = false, sink = false;
};

/// Results of both directions against the reference with the mask of the definition.
void check(DType dtype, const Setting& s) {
  Trial t = random_trial(71, dtype, s.q, s.k);
  Random random(72);
  AttentionOptions options{.causal = s.causal};
  options.dropout = dropout(0.3, 0x123456789abcdefLL, (std::int64_t{1} << 32) - 5);
  t.input.causal = s.causal, t.input.window = s.window;
  t.input.kept = kept_probabilities(0x123456789abcdefULL, (1ULL << 32U) - 5, 0.3, probabilities(t.input));
  if (s.window != 0) options.window = s.window;
  if (s.lengths) {
    options.seq_len_q = stiletto::from_data<int>({3, 40}, {2}), t.input.len_q = {3, 40};
    options.seq_len_kv = stiletto::from_data<int>({100, 61}, {2}), t.input.len_kv = {100, 61};
  }
  if (s.bias) {
    t.input.bias = random_tensor(random, dtype, {1, s.q[2], s.q[1], s.k[1]}, {-1, 1});
    options.bias = to_array(*t.input.bias);
  }
  if (s.sink) {
    const Tensor sink = random_tensor(random, DType::float32, {s.q[2]}, {-1, 1});
    t.input.sink = sink.values, options.sink = to_array(sink);
  }
  const AttentionOutput wanted = attention_reference(t.input);
  const Arrays made = forward(t.arrays, options);
  const Real bound = dtype == DType::float64 ? 1e-13L : dtype == DType::float32 ? 1e-5L : 1.6e-2L;
  EXPECT_TRUE(agrees(made[0], wanted.out, near(dtype, bound)));
  EXPECT_TRUE(agrees(made[1], wanted.stats, near(DType::float32, std::fmax(bound, 1e-6L))));
  const Tensor d_out = random_tensor(random, dtype, wanted.out.shape, {-1, 1});
  const auto g = attention_gradients(t.input, d_out);
  const auto got = stiletto::attention_backward(to_array(d_out), t.arrays[0], t.arrays[1], t.arrays[2],
                                                made[0], made[1], options);
  const Real gradient = dtype == DType::float64 ? 1e-6L : dtype == DType::float32 ? 1e-4L : 3e-2L;
  EXPECT_TRUE(agrees(got.dq, g.dq, near(dtype, gradient)));
  EXPECT_TRUE(agrees(got.dk, g.dk, near(dtype, gradient)));
  EXPECT_TRUE(agrees(got.dv, g.dv, near(dtype, gradient)));
  if (s.bias) {
    EXPECT_TRUE(agrees(got.dbias, g.dbias, near(dtype, gradient)));
  }
  if (s.sink) {
    EXPECT_TRUE(agrees(got.dsink, g.dsink, near(DType::float32, gradient)));
  }
}

TEST(AttentionDropout, drops_what_the_generator_says) {
  const Extents q{2, 70, 4, 16}, k{2, 131, 2, 16};
  for (const DType dtype : {DType::float32, DType::float64, DType::bfloat16}) {
    SCOPED_TRACE(stiletto::to_string(dtype));
    check(dtype, {q, k});
    check(dtype, {q, k, Causal::bottom_right, 31});
    check(dtype, {q, k, Causal::top_left, 0, false, true, true});
    check(dtype, {q, k, Causal::none, 0, true, true});
    check(dtype, {{3, 1, 2, 8}, {3, 5, 2, 8}});
  }
}

/// One query per row that weighs all keys alike, with the identity as v: the probabilities themselves.
std::vector<float> probabilities_of(const AttentionDropout& dropped, std::int64_t queries = 64,
                                    std::int64_t keys = 128) {
  Array v = stiletto::zeros({1, keys, 1, keys});
  for (std::int64_t i = 0; i < keys; ++i) v.data<float>()[i * keys + i] = 1;
  const Array q = stiletto::zeros({1, queries, 1, 8}), k = stiletto::zeros({1, keys, 1, 8});
  return stiletto::attention(q, k, v, {.dropout = dropped}).to_vector<float>();
}

TEST(AttentionDropout, keeps_the_rate_and_the_mean) {
  for (const double probability : {0.0, 0.1, 0.5, 0.9}) {
    double sum = 0, dropped = 0, count = 0;
    for (std::int64_t seed = 0; seed < 40; ++seed)
      for (const float p : probabilities_of(dropout(probability, seed, 0))) {
        sum += p;
        dropped += p == 0;
        ++count;
        EXPECT_TRUE(p == 0 || std::fabs(p * 128 * (1 - probability) - 1) < 1e-5);
      }
    const double deviation = std::sqrt(probability * (1 - probability) / count);
    EXPECT_NEAR(dropped / count, probability, 4 * deviation);
    EXPECT_NEAR(sum / count * 128, 1, 4 * deviation / (1 - probability) + 1e-5);
  }
}

TEST(AttentionDropout, nearly_everything_may_be_dropped) {
  double kept = 0;
  for (const float p : probabilities_of(dropout(1 - 1e-12, 5, 0))) kept += p != 0;
  EXPECT_EQ(kept, 0);
}

TEST(AttentionDropout, masks_are_equal_where_seed_and_offset_are) {
  const auto first = probabilities_of(dropout(0.5, 7, 11));
  EXPECT_EQ(first, probabilities_of(dropout(0.5, 7, 11)));
  EXPECT_NE(first, probabilities_of(dropout(0.5, 8, 11)));
  EXPECT_NE(first, probabilities_of(dropout(0.5, 7 + (std::int64_t{1} << 32), 11)));
  EXPECT_NE(first, probabilities_of(dropout(0.5, 7, 11 + 64 * 128)));
  EXPECT_NE(first, probabilities_of(dropout(0.5, -7, -11)));
}

TEST(AttentionDropout, every_head_and_row_has_draws_of_its_own) {
  const Tensor kept = kept_probabilities(3, 0, 0.5, {2, 3, 8, 37});
  std::set<std::vector<Real>> rows;
  for (std::size_t row = 0; row < 48; ++row)
    rows.insert({kept.values.begin() + static_cast<std::ptrdiff_t>(row * 37),
                 kept.values.begin() + static_cast<std::ptrdiff_t>(row * 37 + 37)});
  EXPECT_EQ(rows.size(), 48U);
}

TEST(AttentionDropout, seed_and_offset_are_read_at_each_call) {
  const Trial t = random_trial(73, DType::float32, {1, 9, 2, 8}, {1, 9, 2, 8});
  const auto f = [&](const Arrays& a) -> Arrays {
    return {stiletto::attention(a[0], a[1], a[2], {.dropout = AttentionDropout{0.5, a[3], a[4]}})};
  };
  Arrays arguments = t.arrays;
  arguments.insert(arguments.end(), {number(1), number(2)});
  const auto compiled = stiletto::compile(f, arguments);
  for (const std::int64_t seed : {1, 2, 3}) {
    arguments[3] = number(seed);
    AttentionInput input = t.input;
    input.kept = kept_probabilities(static_cast<std::uint64_t>(seed), 2, 0.5, {1, 2, 9, 9});
    EXPECT_TRUE(agrees(compiled(arguments)[0], attention_reference(input).out, near(DType::float32, 1e-5L)));
  }
}

TEST(AttentionDropout, numbers_of_a_trace_and_arrays_without_axes_are_operands) {
  const Trial t = random_trial(74, DType::float32, {1, 9, 2, 8}, {1, 9, 2, 8});
  const auto f = [&](const Arrays& a) -> Arrays {
    const Array seed = stiletto::full({1}, 6, DType::int64);
    return {stiletto::attention(a[0], a[1], a[2], {.dropout = AttentionDropout{0.5, seed, a[3]}})};
  };
  Arrays arguments = t.arrays;
  arguments.push_back(stiletto::from_data<std::int64_t>({9}, {}));
  AttentionInput input = t.input;
  input.kept = kept_probabilities(6, 9, 0.5, {1, 2, 9, 9});
  EXPECT_TRUE(
      agrees(stiletto::jit(f, arguments)[0], attention_reference(input).out, near(DType::float32, 1e-5L)));
}

/// Nested tasks run on the calling thread alone.
TEST(AttentionDropout, same_bits_on_any_number_of_threads) {
  const Trial t = random_trial(75, DType::float32, {2, 200, 4, 16}, {2, 200, 2, 16});
  const AttentionOptions options{.causal = Causal::top_left, .dropout = dropout(0.2, 1, 2)};
  const auto run = [&] {
    const Arrays made = forward(t.arrays, options);
    Arrays all = backward(t.arrays, made[0], options);
    all.push_back(made[0]);
    return all;
  };
  const Arrays many = run();
  Arrays alone;
  stiletto::detail::parallel_for(2, [&](std::size_t task) {
    if (task == 1) alone = run();
  });
  for (std::size_t i = 0; i < many.size(); ++i)
    EXPECT_EQ(many[i].to_vector<float>(), alone[i].to_vector<float>()) << i;
}

TEST(AttentionDropout, gradients_are_differences) {
  Trial t = random_trial(76, DType::float64, {1, 5, 2, 3}, {1, 7, 1, 3});
  const AttentionOptions options{.causal = Causal::bottom_right, .dropout = dropout(0.4, 3, 4)};
  Random random(77);
  const Tensor d_out = random_tensor(random, DType::float64, {1, 5, 2, 3}, {-1, 1});
  const auto objective = [&] {
    const std::vector<double> out = forward(t.arrays, options)[0].to_vector<double>();
    double sum = 0;
    for (std::size_t i = 0; i < out.size(); ++i) sum += out[i] * static_cast<double>(d_out.values[i]);
    return sum;
  };
  const Arrays gradients = backward(t.arrays, to_array(d_out), options);
  for (std::size_t operand = 0; operand < 3; ++operand) {
    const std::vector<double> gradient = gradients[operand].to_vector<double>();
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      double& value = t.arrays[operand].data<double>()[i];
      const double before = value;
      value = before + 1e-5;
      const double above = objective();
      value = before - 1e-5;
      const double below = objective();
      value = before;
      EXPECT_NEAR(gradient[i], (above - below) / 2e-5, 1e-8) << operand << ' ' << i;
    }
  }
}

}  // namespace
