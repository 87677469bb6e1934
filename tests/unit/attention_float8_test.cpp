// SPDX-License-Identifier: Apache-2.0
// Attention in float8 on the CPU against the definition, with the probabilities rounded between the products.
#include <gtest/gtest.h>

#include "core/parallel.hpp"
#include "support/float8_attention.hpp"

namespace {

using namespace support;
using stiletto::Causal;
using stiletto::Float8AttentionResult;
using stiletto::Float8Scales;
using Factors = Float8Factors;

Real only(const Array& array) { return read(array).values.at(0); }

TEST(AttentionFloat8, rounds_what_is_stored) {
  const Factors settings[] = {{}, {0.5F, 2, 0.25F, 1.0F / 256, 256, 32}, {3, 0.7F, 1.3F, 0.01F, 90, 0.3F}};
  for (const DType dtype : {DType::float8_e4m3, DType::float8_e5m2})
    for (const Factors& f : settings)
      for (const Causal causal : {Causal::none, Causal::bottom_right})
        for (const bool lengths : {false, true}) {
          Trial t = random_trial(91, dtype, {2, 70, 4, 24}, {2, 130, 2, 24});
          AttentionOptions options{.causal = causal};
          t.input.causal = causal;
          if (causal != Causal::none) options.window = t.input.window = 50;
          if (lengths) {
            options.seq_len_q = stiletto::from_data<int>({70, 33}, {2}), t.input.len_q = {70, 33};
            options.seq_len_kv = stiletto::from_data<int>({0, 130}, {2}), t.input.len_kv = {0, 130};
          }
          const Float8Attention wanted = float8_attention_reference(t.input, f);
          const Float8AttentionResult made =
              stiletto::attention_float8(t.arrays[0], t.arrays[1], t.arrays[2], f.arrays(), options);
          EXPECT_TRUE(agrees(made.out, wanted.output.out));
          EXPECT_TRUE(agrees(made.stats, wanted.output.stats, near(DType::float32, 1e-5L)));
          EXPECT_NEAR(only(made.amax_s), wanted.amax_s, 1e-5L * wanted.amax_s);
          EXPECT_NEAR(only(made.amax_out), wanted.amax_out, 2e-2L * wanted.amax_out);
        }
}

Tensor stored(const Float8Attention& computed) {
  Tensor out = computed.output.out;
  for (Real& value : out.values) value = round_float(value, out.dtype);
  return out;
}

/// What the CPU computes and what cuDNN does are both the exact result but for roundings, and an attention
/// that is wrong by little is not: what tests on a GPU compare with tells them apart.
TEST(AttentionFloat8, roundings_explain_what_is_stored_and_nothing_else) {
  using enum Float8Between;
  const Factors f{0.5F, 2, 0.25F, 1.0F / 256, 256, 32};
  for (const DType dtype : {DType::float8_e4m3, DType::float8_e5m2}) {
    SCOPED_TRACE(stiletto::to_string(dtype));
    const Trial t = random_trial(91, dtype, {1, 40, 4, 64}, {1, 48, 2, 64});
    const auto reference = [&](const AttentionInput& in, Float8Between between, bool exact) {
      return float8_attention_reference(in, f, between, exact);
    };
    const Float8Attention exact = reference(t.input, exponentials, true);
    const auto made = stiletto::attention_float8(t.arrays[0], t.arrays[1], t.arrays[2], f.arrays());
    EXPECT_TRUE(rounds_to(read(made.out), reference(t.input, probabilities, true)));
    EXPECT_TRUE(rounds_to(stored(reference(t.input, exponentials, false)), exact));
    const auto expect_wrong = [&](const char* what, auto change) {
      AttentionInput wrong = t.input;
      change(wrong);
      EXPECT_FALSE(rounds_to(stored(reference(wrong, exponentials, false)), exact)) << what;
    };
    expect_wrong("a key is missing", [](AttentionInput& in) { in.len_q = {40}, in.len_kv = {47}; });
    expect_wrong("a query is missing", [](AttentionInput& in) { in.len_q = {39}, in.len_kv = {48}; });
    expect_wrong("another scale", [](AttentionInput& in) { in.scale *= 2; });
    expect_wrong("another descale_v", [](AttentionInput& in) {
      for (Real& value : in.v.values) value *= 0.8L;
    });
    expect_wrong("a mask", [](AttentionInput& in) { in.causal = Causal::bottom_right; });
    expect_wrong("rows of v one further", [](AttentionInput& in) {
      std::rotate(in.v.values.begin(), in.v.values.begin() + in.v.shape[2] * in.v.shape[3],
                  in.v.values.end());
    });
    expect_wrong("heads of v in another order", [](AttentionInput& in) {
      for (std::int64_t j = 0; j < in.seq_kv(); ++j)
        std::swap_ranges(vector_of(in.v, 0, j, 0), vector_of(in.v, 0, j, 1), vector_of(in.v, 0, j, 1));
    });
    Tensor one = stored(exact);
    EXPECT_TRUE(rounds_to(one, exact));
    Real& largest = *std::max_element(one.values.begin(), one.values.end());
    largest = -largest;
    EXPECT_FALSE(rounds_to(one, exact)) << "one element";
  }
}

/// Three keys of weight 1/3, which is not a float8, and values of 1: every step is exact.
std::vector<Real> of_thirds(DType dtype, const Factors& f) {
  const Tensor zeros(dtype, {1, 2, 1, 16});
  const Tensor ones = tabulate(dtype, {1, 3, 1, 16}, [](const Extents&) { return Real{1}; });
  const Trial t = trial_of(zeros, ones, ones);
  const auto made = stiletto::attention_float8(t.arrays[0], t.arrays[1], t.arrays[2], f.arrays());
  return {read(made.out).values[5], only(made.amax_s) * 3, only(made.amax_out), read(made.stats).values[1]};
}

TEST(AttentionFloat8, every_step_is_the_documented_one) {
  const auto expect = [](const std::vector<Real>& made, Real out, Real amax_out) {
    EXPECT_EQ(made[0], out);
    EXPECT_NEAR(made[1], 1, 1e-6L);
    EXPECT_NEAR(made[2], amax_out, 1e-5L);
    EXPECT_NEAR(made[3], std::log(Real{3}), 1e-6L);
  };
  const Real third = 0.34375L;                                              // 1/3 in e4m3
  expect(of_thirds(DType::float8_e4m3, {.scale_out = 64}), 64, 3 * third);  // 66 is between 64 and 72
  expect(of_thirds(DType::float8_e4m3, {.descale_v = 2, .descale_s = 4}), 8, 24 * third);
  expect(of_thirds(DType::float8_e4m3, {.scale_s = 4096}), 448, 3 * 448);  // both saturate
  expect(of_thirds(DType::float8_e4m3, {.descale_s = 1.0F / 448, .scale_s = 4096}), 3, 3);
  expect(of_thirds(DType::float8_e5m2, {}), 1, 3 * 0.3125L);  // 0.9375 is between 0.875 and 1
  expect(of_thirds(DType::float8_e5m2, {.scale_s = 1e6F}), 57344, 3 * 57344);
}

TEST(AttentionFloat8, nan_is_kept) {
  for (const std::size_t operand : {0U, 2U}) {
    Trial t = random_trial(92, DType::float8_e4m3, {1, 70, 2, 16}, {1, 70, 2, 16});
    Tensor poisoned = operand == 0 ? t.input.q : t.input.v;
    element(poisoned, {0, 69, 1, 3}) = not_a_number;
    t.arrays[operand] = to_array(poisoned);
    const auto made = stiletto::attention_float8(t.arrays[0], t.arrays[1], t.arrays[2], Factors().arrays(),
                                                 {.causal = Causal::top_left});
    EXPECT_EQ(std::isnan(only(made.amax_s)), operand == 0);
    EXPECT_TRUE(std::isnan(only(made.amax_out)));
    const Tensor out = read(made.out);
    for_each_index(out.shape, [&](const Extents& at) {
      const bool reached = at[1] == 69 && at[2] == 1 && (operand == 0 || at[3] == 3);
      EXPECT_EQ(std::isnan(out.at(at)), reached);
    });
  }
}

TEST(AttentionFloat8, no_keys_give_zeros) {
  for (const std::int64_t queries : {0, 2}) {
    const Trial t =
        trial_of(Tensor(DType::float8_e4m3, {1, queries, 1, 16}), Tensor(DType::float8_e4m3, {1, 0, 1, 16}),
                 Tensor(DType::float8_e4m3, {1, 0, 1, 16}));
    const auto made = stiletto::attention_float8(t.arrays[0], t.arrays[1], t.arrays[2], Factors().arrays());
    for (const Real value : read(made.out).values) EXPECT_EQ(value, 0);
    for (const Real value : read(made.stats).values) EXPECT_EQ(value, -infinity);
    EXPECT_EQ(only(made.amax_s), 0);
    EXPECT_EQ(only(made.amax_out), 0);
  }
}

TEST(AttentionFloat8, results_are_operands_of_what_follows) {
  const Trial t = random_trial(93, DType::float8_e4m3, {1, 9, 2, 16}, {1, 9, 2, 16});
  const Factors f{.scale_out = 8};
  const Float8Scales scales = f.arrays();
  const auto fused = [&](const Arrays& a) -> Arrays {
    const auto r = stiletto::attention_float8(a[0], a[1], a[2], scales);
    return {stiletto::cast(r.out, DType::float32), 1 / r.amax_out, r.amax_s};
  };
  const Float8Attention wanted = float8_attention_reference(t.input, f);
  const Arrays made = stiletto::jit(fused, t.arrays);
  Tensor out = wanted.output.out;
  out.dtype = DType::float32;
  EXPECT_TRUE(agrees(made[0], out, near(DType::float32, 1.0L / 16)));
  EXPECT_NEAR(only(made[1]) * wanted.amax_out, 1, 2e-2L);
  EXPECT_NEAR(only(made[2]), wanted.amax_s, 1e-5L);
}

/// Nested tasks run on the calling thread alone.
TEST(AttentionFloat8, same_bits_on_any_number_of_threads) {
  const Trial t = random_trial(94, DType::float8_e5m2, {2, 150, 4, 16}, {2, 150, 2, 16});
  const auto run = [&] {
    const auto r = stiletto::attention_float8(t.arrays[0], t.arrays[1], t.arrays[2], Factors().arrays());
    return Arrays{r.out, r.stats, r.amax_s, r.amax_out};
  };
  const Arrays many = run();
  Arrays alone;
  stiletto::detail::parallel_for(2, [&](std::size_t task) {
    if (task == 1) alone = run();
  });
  for (std::size_t i = 0; i < many.size(); ++i) EXPECT_TRUE(agrees(many[i], read(alone[i]), {.exact = true}));
}

}  // namespace
