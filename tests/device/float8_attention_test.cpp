// SPDX-License-Identifier: Apache-2.0
// Attention in float8 on a GPU against its definition. cuDNN rounds probabilities before they are divided by
// their sum, so that results differ by roundings of float8.
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

/// The largest difference, relative to the largest value.
Real distance(const Tensor& made, const Tensor& wanted) {
  Real largest = 0, most = 0;
  for (const Real value : wanted.values) largest = std::fmax(largest, std::fabs(value));
  for (std::size_t i = 0; i < made.size(); ++i)
    most =
        std::isnan(made.values[i]) ? infinity : std::fmax(most, std::fabs(made.values[i] - wanted.values[i]));
  return most / largest;
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
  Float8Attention wanted = float8_attention_reference(t.input, s.factors);
  const auto made =
      stiletto::attention_float8(t.arrays[0], t.arrays[1], t.arrays[2], s.factors.arrays(gpu), options);
  const Tensor out = read(made.out), stats = read(made.stats);
  for_each_index(out.shape, [&](const Extents& i) {
    if (i[1] >= t.input.queries(i[0])) element(wanted.output.out, i) = out.at(i);
  });
  for_each_index(stats.shape, [&](const Extents& i) {
    if (i[2] >= t.input.queries(i[0])) element(wanted.output.stats, i) = stats.at(i);
  });
  const Real step = tolerance(dtype);  // half the distance of two values is step/2
  Real stats_apart = 0;
  for (std::size_t i = 0; i < stats.size(); ++i)
    stats_apart = std::fmax(stats_apart, std::fabs(stats.values[i] - wanted.output.stats.values[i]));
  std::printf("%s %s: out %.4f, stats %.6f, amax_s %.6f instead of %.6f, amax_out %.5f instead of %.5f\n",
              stiletto::to_string(dtype), name, static_cast<double>(distance(out, wanted.output.out)),
              static_cast<double>(stats_apart), static_cast<double>(only(made.amax_s)),
              static_cast<double>(wanted.amax_s), static_cast<double>(only(made.amax_out)),
              static_cast<double>(wanted.amax_out));
  EXPECT_LE(distance(out, wanted.output.out), 1.5L * step);
  EXPECT_LE(stats_apart, 1e-3L);
  EXPECT_NEAR(only(made.amax_s), wanted.amax_s, 1e-3L * wanted.amax_s);
  EXPECT_NEAR(only(made.amax_out), wanted.amax_out, step * wanted.amax_out);
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
    const Float8Attention wanted = float8_attention_reference(t.input, {});
    const auto made =
        stiletto::attention_float8(t.arrays[0], t.arrays[1], t.arrays[2], Float8Factors{}.arrays(gpu));
    EXPECT_LE(distance(read(made.out), wanted.output.out), 1.5L * tolerance(dtype));
  }
}

/// Printed: what cuDNN makes of NaN, and of an output that does not fit.
TEST(Float8OnGpu, measured) {
  for (const DType dtype : {e4m3, e5m2}) {
    Trial t = random_trial(92, dtype, {1, 70, 2, 64}, {1, 70, 2, 64}, gpu);
    Tensor poisoned = t.input.v;
    element(poisoned, {0, 69, 1, 3}) = not_a_number;
    const auto nan = stiletto::attention_float8(t.arrays[0], t.arrays[1], to_array(poisoned, gpu),
                                                Float8Factors{}.arrays(gpu), {.causal = Causal::top_left});
    const Tensor out = read(nan.out);
    int count = 0;
    for (const Real value : out.values) count += std::isnan(value);
    std::printf("%s: a NaN in v: %d NaN in out (1 is right), amax_out %g (NaN is right), amax_s %g\n",
                stiletto::to_string(dtype), count, static_cast<double>(only(nan.amax_out)),
                static_cast<double>(only(nan.amax_s)));
    const Tensor ones = tabulate(dtype, {1, 70, 2, 64}, [](const Extents&) { return Real{1}; });
    const auto large = stiletto::attention_float8(t.arrays[0], t.arrays[1], to_array(ones, gpu),
                                                  Float8Factors{.scale_out = 1e6F}.arrays(gpu));
    std::printf("  1e6 in out: %g, amax_out %g\n", static_cast<double>(read(large.out).values[5]),
                static_cast<double>(only(large.amax_out)));
    const auto scaled =
        stiletto::attention_float8(t.arrays[0], t.arrays[1], to_array(ones, gpu),
                                   Float8Factors{.descale_s = 1e-6F, .scale_s = 1e6F}.arrays(gpu));
    std::printf("  probabilities of 1e6/70 before rounding: out %g, amax_out %g, amax_s %g\n",
                static_cast<double>(read(scaled.out).values[5]), static_cast<double>(only(scaled.amax_out)),
                static_cast<double>(only(scaled.amax_s)));
  }
}

}  // namespace
