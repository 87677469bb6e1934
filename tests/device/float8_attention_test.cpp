// SPDX-License-Identifier: Apache-2.0
// Attention in float8 on a GPU: the exact result but for roundings of float8, and which those are.
#include <cstdio>

#include "support/float8_attention.hpp"

namespace {

using namespace support;
using stiletto::Causal;
using stiletto::Device;

const Device gpu = Device::cuda(0);
constexpr DType e4m3 = DType::float8_e4m3, e5m2 = DType::float8_e5m2;

struct Setting {
  Extents q{2, 128, 4, 64}, k{2, 128, 2, 64};
  Float8Factors factors;
  Causal causal = Causal::none;
  std::int64_t window = 0;
  bool lengths = false;
};

Real only(const Array& array) { return read(array).values.at(0); }

Float8Attention cudnn_reference(const AttentionInput& in, const Float8Factors& f, bool exact = false) {
  return float8_attention_reference(in, f, Float8Between::exponentials, exact);
}

/// What cuDNN computes by the model of it: the same but for exponentials of the GPU that are near the middle
/// between two float8. With more keys than a tile has, it rounds by another largest exponential.
void expect_modelled(const Tensor& out, const Float8Attention& model) {
  // On an H200 0.014 was needed for e4m3 and 0.022 for e5m2, whose steps are twice as wide.
  const Real slack = (out.dtype == DType::float8_e4m3 ? 0.02L : 0.04L) * model.largest_out();
  for (std::size_t i = 0; i < out.size(); ++i)
    ASSERT_LE(std::fabs(out.values[i] - model.output.out.values[i]),
              half_step_at(model.output.out.values[i], out.dtype) + slack)
        << "element " << i;
}

void check(DType dtype, const Setting& s, const char* name) {
  SCOPED_TRACE(std::string(stiletto::to_string(dtype)) + ' ' + name);
  Trial t = random_trial(91, dtype, s.q, s.k, gpu);
  AttentionOptions options;
  options.causal = t.input.causal = s.causal, t.input.window = s.window;
  if (s.window != 0) options.window = s.window;
  if (s.lengths) {
    t.input.len_q = {static_cast<Real>(s.q[1]), 33}, t.input.len_kv = {50, static_cast<Real>(s.k[1])};
    options.seq_len_q = to_array(Tensor(DType::int32, {2}, t.input.len_q), gpu);
    options.seq_len_kv = to_array(Tensor(DType::int32, {2}, t.input.len_kv), gpu);
  }
  const Float8Attention exact = cudnn_reference(t.input, s.factors, true),
                        model = cudnn_reference(t.input, s.factors);
  const auto made =
      stiletto::attention_float8(t.arrays[0], t.arrays[1], t.arrays[2], s.factors.arrays(gpu), options);
  Tensor out = read(made.out), stats = read(made.stats);
  for_each_index(out.shape, [&](const Extents& i) {  // what is past a length may be anything
    if (i[1] >= t.input.queries(i[0])) element(out, i) = 0;
  });
  for_each_index(stats.shape, [&](const Extents& i) {
    if (i[2] >= t.input.queries(i[0])) element(stats, i) = -infinity;
  });
  const auto rounded = rounds_to(out, exact);
  EXPECT_TRUE(rounded);
  const bool one_tile = s.k[1] <= 128 && s.q[3] <= 128;
  if (one_tile) expect_modelled(out, model);
  EXPECT_TRUE(agrees(stats, exact.output.stats, apart(1e-3L)));
  EXPECT_NEAR(only(made.amax_s), exact.amax_s, 1e-3L * exact.amax_s);
  EXPECT_NEAR(only(made.amax_out), model.amax_out, (one_tile ? 2e-3L : 2e-2L) * model.amax_out);
  std::printf("%s %s: %s, amax_s %.6f instead of %.6f, amax_out %.5f instead of %.5f\n",
              stiletto::to_string(dtype), name, rounded.message(), static_cast<double>(only(made.amax_s)),
              static_cast<double>(exact.amax_s), static_cast<double>(only(made.amax_out)),
              static_cast<double>(model.amax_out));
}

TEST(Float8OnGpu, is_the_definition_but_for_roundings) {
  for (const DType dtype : {e4m3, e5m2}) {
    const auto with = [&](const char* name, auto change) {
      Setting s;
      change(s);
      check(dtype, s, name);
    };
    with("plain", [](Setting&) {});
    with("factors", [](Setting& s) { s.factors = {0.5F, 2, 0.25F, 1.0F / 256, 256, 32}; });
    with("odd factors", [](Setting& s) { s.factors = {3, 0.7F, 1.3F, 0.01F, 90, 0.3F}; });
    with("top_left", [](Setting& s) { s.causal = Causal::top_left; });
    with("top_left, factors",
         [](Setting& s) { s.causal = Causal::top_left, s.factors = {0.5F, 2, 0.25F, 1.0F / 256, 256, 32}; });
    with("window", [](Setting& s) { s.causal = Causal::top_left, s.window = 20; });
    with("lengths", [](Setting& s) { s.lengths = true; });
    with("lengths, top_left", [](Setting& s) { s.lengths = true, s.causal = Causal::top_left; });
    with("one to one", [](Setting& s) { s.k[2] = 4; });
    with("odd", [](Setting& s) { s.q[1] = 100, s.k[1] = 77; });
    with("more queries", [](Setting& s) { s.q[1] = 200, s.k[1] = 60; });
    with("longer", [](Setting& s) { s.q[1] = 300, s.k[1] = 400; });
    with("head_dim 128", [](Setting& s) { s.q[3] = s.k[3] = 128; });
    with("head_dim 256", [](Setting& s) { s.q[3] = s.k[3] = 256; });
    with("head_dim 48", [](Setting& s) { s.q[3] = s.k[3] = 48; });
  }
}

TEST(Float8OnGpu, another_width) {
  for (const DType dtype : {e4m3, e5m2}) {
    Random random(95);
    const auto tensor = [&](const Extents& shape) { return random_tensor(random, dtype, shape, {-1, 1}); };
    const Trial t = trial_of(tensor({2, 90, 4, 64}), tensor({2, 70, 4, 64}), tensor({2, 70, 4, 128}), gpu);
    const auto made =
        stiletto::attention_float8(t.arrays[0], t.arrays[1], t.arrays[2], Float8Factors{}.arrays(gpu));
    EXPECT_TRUE(rounds_to(read(made.out), cudnn_reference(t.input, {}, true)));
    expect_modelled(read(made.out), cudnn_reference(t.input, {}));
  }
}

/// Other than on the CPU: amax_out leaves NaN out, and NaN in v reaches queries that do not see its key.
TEST(Float8OnGpu, nan_in_v_reaches_every_query) {
  for (const DType dtype : {e4m3, e5m2}) {
    SCOPED_TRACE(stiletto::to_string(dtype));
    const Trial t = random_trial(92, dtype, {1, 70, 2, 64}, {1, 70, 2, 64}, gpu);
    Tensor poisoned = t.input.v;
    element(poisoned, {0, 69, 1, 3}) = not_a_number;
    const auto made = stiletto::attention_float8(t.arrays[0], t.arrays[1], to_array(poisoned, gpu),
                                                 Float8Factors{}.arrays(gpu), {.causal = Causal::top_left});
    const Tensor out = read(made.out);
    for_each_index(out.shape, [&](const Extents& i) {
      EXPECT_EQ(std::isnan(out.at(i)), i[2] == 1 && i[3] == 3) << i[1];
    });
    EXPECT_NEAR(only(made.amax_out), 1, 1e-3);
    EXPECT_NEAR(only(made.amax_s), 1, 1e-3);
  }
}

/// What is stored saturates: the output, and exponentials, of which scale_s has to leave 1.
TEST(Float8OnGpu, what_is_stored_saturates) {
  for (const DType dtype : {e4m3, e5m2}) {
    SCOPED_TRACE(stiletto::to_string(dtype));
    Trial t = random_trial(92, dtype, {1, 70, 2, 64}, {1, 70, 2, 64}, gpu);
    for (Real& value : t.input.v.values) value = 1;
    t.arrays[2] = to_array(t.input.v, gpu);
    const Float8Factors large{.scale_out = 1e6F}, between{.descale_s = 1e-6F, .scale_s = 1e6F};
    const auto made = stiletto::attention_float8(t.arrays[0], t.arrays[1], t.arrays[2], large.arrays(gpu));
    for (const Real value : read(made.out).values) EXPECT_EQ(value, format_of(dtype).largest);
    EXPECT_NEAR(only(made.amax_out), cudnn_reference(t.input, large).amax_out, 2e-3);
    const auto scaled =
        stiletto::attention_float8(t.arrays[0], t.arrays[1], t.arrays[2], between.arrays(gpu));
    const Real amax = cudnn_reference(t.input, between).amax_out;
    EXPECT_NEAR(only(scaled.amax_out), amax, 2e-3L * amax);
    EXPECT_LT(amax, 0.5L);  // of 1
  }
}

}  // namespace
