// SPDX-License-Identifier: Apache-2.0
// Public fault reports about attention: empty batches, views of packed memory, both orders of heads and
// sequences, masks, lengths, odd sizes, statistics and gradients of single queries.
#include <gtest/gtest.h>

#include <cstdlib>
#include <stop_token>
#include <thread>

#include "support/attention_trial.hpp"
#include "support/errors.hpp"
#include "support/raw_arrays.hpp"
#include "support/refused.hpp"
#include "support/sparse_memory.hpp"

namespace {

using namespace support;
using stiletto::Causal;
using stiletto::Dims;
using stiletto::Slice;

constexpr DType f16 = DType::float16, bf16 = DType::bfloat16, f32 = DType::float32, i32 = DType::int32;
constexpr Mode modes[] = {Mode::jit, Mode::compiled, Mode::eager};

Array lengths(const std::vector<Real>& values) {
  return to_array(Tensor(i32, {static_cast<std::int64_t>(values.size())}, values));
}
Tensor batch_of(const Array& x, std::int64_t b) { return read(stiletto::slice(x, {Slice{b, b + 1}})); }
Arrays batch_of(const Arrays& arrays, std::int64_t b) {
  Arrays result;
  result.reserve(arrays.size());
  for (const Array& x : arrays) result.push_back(stiletto::slice(x, {Slice{b, b + 1}}));
  return result;
}

/// In memory the heads are outside of the sequence.
Array stored_by_head(const Tensor& t) {
  return stiletto::transpose(to_array(transposed(t, {0, 2, 1, 3})), {0, 2, 1, 3});
}
Arrays stored_by_head(const AttentionInput& in) {
  return {stored_by_head(in.q), stored_by_head(in.k), stored_by_head(in.v)};
}

void expect_gradients(const Arrays& made, const AttentionDerivatives& wanted, const std::string& where) {
  const std::pair<const char*, const Tensor*> list[] = {
      {"dq", &wanted.dq}, {"dk", &wanted.dk}, {"dv", &wanted.dv}};
  for (std::size_t i = 0; i < 3; ++i)
    EXPECT_TRUE(agrees(made[i], *list[i].second, near_gradient(list[i].second->dtype)))
        << list[i].first << " " << where;
}

testing::AssertionResult all_finite(const Array& x) {
  for (const Real value : read(x).values)
    if (!std::isfinite(value)) return testing::AssertionFailure() << static_cast<double>(value);
  return testing::AssertionSuccess();
}
testing::AssertionResult all_zero(const Tensor& x) {
  for (const Real value : x.values)
    if (value != 0) return testing::AssertionFailure() << static_cast<double>(value);
  return testing::AssertionSuccess();
}

TEST(PublicCases, case_1) {
  const Array q = stiletto::zeros({0, 8, 10, 64}, f16, device());
  const Array kv = stiletto::zeros({0, 16, 10, 64}, f16, device());
  for (Mode mode : modes) {
    const Arrays made = forward({q, kv, kv}, {}, mode), gradients = backward({q, kv, kv}, q, {}, mode);
    EXPECT_EQ(made[0].shape(), q.shape());
    EXPECT_EQ(made[1].shape(), Dims({0, 10, 8, 1}));
    EXPECT_EQ(gradients[0].shape(), q.shape());
    EXPECT_EQ(gradients[2].shape(), kv.shape());
  }
}

TEST(PublicCases, case_25) {
  Random random(25);
  const Tensor packed = random_tensor(random, f16, {32, 1, 6, 64}, {-1, 1});
  const Array by_batch = stiletto::transpose(to_array(packed), {1, 0, 2, 3});
  const Tensor in_order = transposed(packed, {1, 0, 2, 3});
  const auto view = [&](std::int64_t begin, std::int64_t end) {
    return stiletto::slice(by_batch, {Slice{}, Slice{}, Slice{begin, end}});
  };
  const auto values = [&](std::int64_t begin, std::int64_t count) {
    return sliced(in_order, {0, 0, begin, 0}, {1, 1, 1, 1}, {1, 32, count, 64});
  };
  Trial t = trial_of(values(0, 4), values(4, 1), values(5, 1));
  t.input.causal = Causal::top_left;
  const AttentionOptions options{.causal = Causal::top_left};
  const Tensor wanted = attention_reference(t.input).out;
  for (Mode mode : modes) {
    const Array out = forward({view(0, 4), view(4, 5), view(5, 6)}, options, mode)[0];
    EXPECT_TRUE(agrees(read(out), read(forward(t.arrays, options, mode)[0]), apart(2e-3L)));
    EXPECT_TRUE(agrees(out, wanted, apart(5e-3L)));
  }
}

TEST(PublicCases, case_26) {
  const Trial t = random_trial(26, bf16, {3, 5, 2, 64}, {3, 5, 2, 64});
  const Tensor wanted = attention_reference(t.input).out;
  for (const Arrays& arrays : {t.arrays, stored_by_head(t.input)}) {
    const Array joint = forward(arrays)[0];
    EXPECT_TRUE(agrees(joint, wanted, near(bf16, 1.6e-2L)));
    for (std::int64_t b = 0; b < 3; ++b) {
      const Tensor together = batch_of(joint, b), alone = read(forward(batch_of(arrays, b))[0]);
      for (std::size_t i = 0; i < alone.size(); ++i) {
        const int exponent = std::max(std::ilogb(alone.values[i]), -126);
        EXPECT_LE(std::fabs(together.values[i] - alone.values[i]), std::ldexp(Real{1}, exponent - 7))
            << "batch " << b << " element " << i;
      }
    }
  }
}

TEST(PublicCases, case_32) {
  Random random(32);
  const Tensor k = random_tensor(random, f16, {1, 4, 1, 64});
  const Tensor v = tabulate(f16, {1, 4, 1, 64}, [](const Extents& i) -> Real { return i[1] == i[3]; });
  const Trial t = trial_of(Tensor(f16, {1, 2, 1, 64}), k, v);
  const std::pair<Causal, std::vector<std::vector<Real>>> rows[] = {
      {Causal::top_left, {{1, 0, 0, 0}, {0.5L, 0.5L, 0, 0}}},
      {Causal::bottom_right, {{1 / 3.0L, 1 / 3.0L, 1 / 3.0L, 0}, {0.25L, 0.25L, 0.25L, 0.25L}}},
      {Causal::none, {{0.25L, 0.25L, 0.25L, 0.25L}, {0.25L, 0.25L, 0.25L, 0.25L}}}};
  for (const auto& [causal, weights] : rows) {
    const auto expected = tabulate(f16, {1, 2, 1, 64}, [&, &w = weights](const Extents& i) {
      return i[3] < 4 ? w[static_cast<std::size_t>(i[1])][static_cast<std::size_t>(i[3])] : 0;
    });
    for (Mode mode : modes)
      EXPECT_TRUE(agrees(forward(t.arrays, {.causal = causal}, mode)[0], expected))
          << static_cast<int>(causal);
  }
}

TEST(PublicCases, case_34) {
  for (DType dtype : {f16, f32}) {
    Trial t = random_trial(34, dtype, {1, 8, 1, 8}, {1, 8, 1, 8});
    t.input.bias = tabulate(dtype, {1, 1, 8, 8},
                            [](const Extents& i) { return i[2] < 4 && i[3] < 4 ? Real{0} : -infinity; });
    const AttentionOptions options{.bias = to_array(*t.input.bias)};
    const AttentionOutput wanted = attention_reference(t.input);
    const Tensor d_out = random_gradient(t);
    const Extents step{1, 1, 1, 1}, hidden{0, 4, 0, 0}, half{1, 4, 1, 8};
    for (Mode mode : modes) {
      const Arrays made = forward(t.arrays, options, mode);
      EXPECT_TRUE(agrees(made[0], wanted.out, near(dtype, 5e-3L)));
      EXPECT_TRUE(agrees(made[1], wanted.stats, near(f32, 5e-3L)));
      EXPECT_TRUE(all_zero(sliced(read(made[0]), hidden, step, half)));
      right_or_refused(
          [&] {
            const Arrays gradients = backward(t.arrays, to_array(d_out), options, mode);
            for (const Array& gradient : gradients)
              EXPECT_TRUE(all_zero(sliced(read(gradient), hidden, step, half)));
            expect_gradients(gradients, attention_gradients(t.input, d_out), to_string(mode));
          },
          {"attention_backward of float16 and bfloat16, not of float32"});
    }
  }
}

TEST(PublicCases, case_35) {
  const Trial t = random_trial(35, f16, {2, 16, 1, 64}, {2, 16, 1, 64});
  const AttentionOptions options{.seq_len_q = lengths({16, 16}), .seq_len_kv = lengths({0, 16})};
  const Tensor d_out = random_gradient(t);
  const Arrays made = forward(t.arrays, options), alone = forward(batch_of(t.arrays, 1));
  EXPECT_TRUE(agrees(batch_of(made[0], 1), read(alone[0]), near(f16, 5e-3L)));
  EXPECT_TRUE(agrees(batch_of(made[1], 1), read(alone[1]), near(f32, 1e-3L)));
  if (device().is_cuda()) {  // cuDNN 9.19 makes the entry NaN, as documented; others 0
    for (const Real value : batch_of(made[0], 0).values) EXPECT_TRUE(value == 0 || std::isnan(value));
    return;
  }
  EXPECT_TRUE(all_zero(batch_of(made[0], 0)));
  for (const Real value : batch_of(made[1], 0).values) EXPECT_EQ(value, -infinity);
  const Arrays gradients = backward(t.arrays, to_array(d_out), options);
  for (const Array& gradient : gradients) EXPECT_TRUE(all_zero(batch_of(gradient, 0)));
  const Arrays gradients_alone =
      backward(batch_of(t.arrays, 1), stiletto::slice(to_array(d_out), {Slice{1, 2}}));
  for (std::size_t i = 0; i < 3; ++i)
    EXPECT_TRUE(agrees(batch_of(gradients[i], 1), read(gradients_alone[i]), near_gradient(f16)));
}

TEST(PublicCases, case_39) {
  Random random(39);
  const auto with_first = [&](const Extents& shape, Real first) {
    return tabulate(bf16, shape, [&](const Extents& i) {
      return i[3] == 0 ? first : round_float(random.uniform(-0.1L, 0.1L), bf16);
    });
  };
  const Tensor q = with_first({1, 1, 2, 64}, 1), k = with_first({1, 128, 2, 64}, -960);
  const Trial t = trial_of(q, k, random_tensor(random, bf16, k.shape, {-0.1L, 0.1L}));
  const Tensor d_out = random_gradient(t);
  const AttentionDerivatives wanted = attention_gradients(t.input, d_out);
  if (device().is_cuda()) {  // NaN on cuDNN 9.19, too, so that gradients of one query are refused
    EXPECT_THROW(backward(t.arrays, to_array(d_out), {}), stiletto::UnsupportedGraphError);
    return;
  }
  for (Mode mode : modes) {
    const Arrays made = backward(t.arrays, to_array(d_out), {}, mode);
    for (const Array& gradient : made) EXPECT_TRUE(all_finite(gradient));
    EXPECT_TRUE(agrees(made[2], wanted.dv, near_gradient(bf16)));
  }
}

/// Ends the process, with 0 when the gradients are right or refused.
[[noreturn]] void one_query_of_one_head() {
  int status = 1;
  try {
    const Trial t = random_trial(40, bf16, {1, 1, 1, 64}, {1, 128, 1, 64});
    const Tensor d_out = random_gradient(t);
    const Arrays made = backward(t.arrays, to_array(d_out));
    const AttentionDerivatives wanted = attention_gradients(t.input, d_out);
    const bool right = agrees(made[0], wanted.dq, near_gradient(bf16)) &&
                       agrees(made[1], wanted.dk, near_gradient(bf16)) &&
                       agrees(made[2], wanted.dv, near_gradient(bf16));
    status = right ? 0 : 2;
  } catch (const stiletto::UnsupportedGraphError&) {
    status = 0;
  }
  std::exit(status);
}

TEST(PublicCases, case_40) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(one_query_of_one_head(), testing::ExitedWithCode(0), "");
}

TEST(PublicCases, case_41) {
  const Trial t = random_trial(41, bf16, {1, 1, 16, 64}, {1, 1024, 16, 64});
  const Array one = stiletto::ones({1, 1, 1, 1}, bf16, device());
  const Array expanded = stiletto::broadcast_to(one, {1, 1, 16, 64});
  if (device().is_cuda()) {  // see case 39
    EXPECT_THROW(backward(t.arrays, expanded.copy()), stiletto::UnsupportedGraphError);
    return;
  }
  ASSERT_EQ(expanded.strides()[2], 0);
  ASSERT_EQ(expanded.strides()[3], 0);
  const Arrays written = backward(t.arrays, expanded.copy());
  std::vector<AttentionRow> rows;
  rows.reserve(16);
  for (std::int64_t h = 0; h < 16; ++h) rows.push_back(attention_row(t.input, 0, h, 0));
  const Tensor dv = tabulate(bf16, {1, 1024, 16, 64}, [&](const Extents& i) {
    return rows[static_cast<std::size_t>(i[2])].weights[static_cast<std::size_t>(i[1])];
  });
  EXPECT_TRUE(agrees(written[2], dv, near_gradient(bf16)));
  right_or_refused(
      [&] {
        const Arrays made = backward(t.arrays, expanded);
        for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(elements_of(made[i]) == elements_of(written[i])) << i;
      },
      {"arg0.0 repeats its elements"});
}

TEST(PublicCases, case_42) {
  for (DType dtype : {f16, bf16}) {
    const Trial t = random_trial(42, dtype, {2, 4, 4, 64}, {2, 4, 4, 64});
    const Tensor d_out = random_gradient(t), out = attention_reference(t.input).out;
    const AttentionDerivatives wanted = attention_gradients(t.input, d_out);
    for (Mode mode : modes) {
      const Arrays by_head = stored_by_head(t.input);
      EXPECT_TRUE(agrees(forward(t.arrays, {}, mode)[0], out, near(dtype, 1.6e-2L)));
      EXPECT_TRUE(agrees(forward(by_head, {}, mode)[0], out, near(dtype, 1.6e-2L)));
      const Arrays first = backward(t.arrays, to_array(d_out), {}, mode);
      const Arrays second = backward(by_head, stored_by_head(d_out), {}, mode);
      for (std::size_t i = 0; i < 3; ++i)
        EXPECT_TRUE(agrees(read(first[i]), read(second[i]), near(dtype, 1e-2L)));
      expect_gradients(first, wanted, "by sequence");
      expect_gradients(second, wanted, "by head");
    }
  }
}

TEST(PublicCases, case_44) {
  for (std::int64_t width : {8, 20, 96, 160, 192, 256, 257}) {
    SCOPED_TRACE(width);
    const Trial t = random_trial(44, bf16, {1, 16, 1, width}, {1, 16, 1, width});
    const Tensor d_out = random_gradient(t);
    const std::initializer_list<std::string> facts = {"head_dim " + std::to_string(width), "multiples of 8"};
    right_or_refused(
        [&] {
          EXPECT_TRUE(agrees(forward(t.arrays)[0], attention_reference(t.input).out, near(bf16, 1.6e-2L)));
        },
        facts);
    right_or_refused(
        [&] {
          expect_gradients(backward(t.arrays, to_array(d_out)), attention_gradients(t.input, d_out), "");
        },
        facts);
  }
}

TEST(PublicCases, case_45) {
  for (std::int64_t length : {1, 2, 9, 12, 17, 63, 65, 127, 129}) {
    const Trial t = random_trial(45, f16, {1, length, 2, 128}, {1, length, 2, 128});
    EXPECT_TRUE(agrees(forward(t.arrays)[0], attention_reference(t.input).out, apart(5e-3L))) << length;
  }
}

TEST(PublicCases, case_46) {
  const std::vector<Real> keys{1, 7, 31, 32};
  Trial t = random_trial(46, f16, {4, 32, 4, 64}, {4, 32, 4, 64});
  t.input.len_q = {32, 32, 32, 32}, t.input.len_kv = keys;
  const Tensor wanted = attention_reference(t.input).out;
  const Array by_length =
      forward(t.arrays, {.seq_len_q = lengths(t.input.len_q), .seq_len_kv = lengths(keys)})[0];
  EXPECT_TRUE(agrees(by_length, wanted, near(f16, 5e-3L)));
  const Array mask = to_array(tabulate(f16, {4, 1, 1, 32}, [&](const Extents& i) {
    return static_cast<Real>(i[3]) < keys[static_cast<std::size_t>(i[0])] ? Real{0} : -infinity;
  }));
  const Array every_query = stiletto::broadcast_to(mask, {4, 1, 32, 32});
  ASSERT_EQ(every_query.strides()[2], 0);
  const auto check = [&](const Array& bias) {
    const Array out = forward(t.arrays, {.bias = bias})[0];
    EXPECT_TRUE(agrees(read(out), read(by_length), near(f16, 5e-3L)));
  };
  check(every_query.copy());
  right_or_refused([&] { check(every_query); }, {"with bias", "repeats its elements"});
}

TEST(PublicCases, case_48) {
  const Extents q{2, 5, 3, 64}, k{2, 8, 3, 64};
  Random random(48);
  const Trial flat = trial_of(Tensor(f16, q), random_tensor(random, f16, k), random_tensor(random, f16, k));
  const Tensor logarithm = tabulate(f32, {2, 3, 5, 1}, [](const Extents&) { return std::log(Real{8}); });
  const Trial steep = trial_of(random_tensor(random, f16, q), random_tensor(random, f16, k), flat.input.v);
  for (Mode mode : modes) {
    EXPECT_TRUE(agrees(forward(flat.arrays, {}, mode)[1], logarithm, apart(1e-5L)));
    EXPECT_TRUE(agrees(forward(steep.arrays, {}, mode)[1], attention_reference(steep.input).stats,
                       apart(device().is_cuda() ? 5e-3L : 1e-4L)));
  }
}

/// One operation with a number among its attributes or bound by value, and what two numbers give.
struct Numbered {
  const char* name;
  std::function<Array(double)> call;
  double first, second;
  Tensor wanted_first, wanted_second;
  Allowance allowance = {};
};

void expect_told_apart(const Numbered& row) {
  SCOPED_TRACE(row.name);
  const Array once = row.call(row.first), other = row.call(row.second), again = row.call(row.first);
  EXPECT_TRUE(agrees(once, row.wanted_first, row.allowance));
  EXPECT_TRUE(agrees(other, row.wanted_second, row.allowance));
  EXPECT_EQ(elements_of(once), elements_of(again));
  EXPECT_NE(elements_of(once), elements_of(other));
}

Tensor filled(const Extents& shape, Real value) {
  return tabulate(f32, shape, [&](const Extents&) { return value; });
}

std::vector<Numbered> numbered_operations() {
  const Array ones = stiletto::ones({3, 3}, f32, device()), image = stiletto::reshape(ones, {1, 1, 3, 3});
  const Array rows = to_array(Tensor(f32, {2, 2}, {1, 2, 3, 4}));
  const Array row = stiletto::ones({1, 64}, f32, device()), scale = stiletto::ones({64}, f32, device());
  const auto product = [=](double alpha, double beta) {
    const Array c = stiletto::ones({3, 3}, f32, device());
    stiletto::jit([&](const Array& z, const Array& a) { stiletto::matmul_into(z, a, a, alpha, beta); }, c,
                  ones);
    return c;
  };
  return {
      {"alpha", [=](double n) { return product(n, 0); }, 2, 0.5, filled({3, 3}, 6), filled({3, 3}, 1.5L)},
      {"beta", [=](double n) { return product(1, n); }, 2, -1, filled({3, 3}, 5), filled({3, 3}, 2)},
      {"epsilon",
       [=](double n) {
         const stiletto::RmsNormOptions options{.epsilon = static_cast<float>(n)};
         return stiletto::jit(
             [&](const Array& x, const Array& s) { return stiletto::rms_norm(x, s, options); }, row, scale);
       },
       0,
       3,
       filled({1, 64}, 1),
       filled({1, 64}, 0.5L),
       {.factor = 10}},
      {"slope",
       [=](double n) {
         return stiletto::jit([&](const Array& x) { return stiletto::leaky_relu(-x, n); }, ones);
       },
       0.25, 0.5, filled({3, 3}, -0.25L), filled({3, 3}, -0.5L)},
      {"padding",
       [=](double n) {
         return stiletto::jit(
             [&](const Array& x) {
               return stiletto::conv(x, x, {.pre_padding = static_cast<std::int64_t>(n), .post_padding = 0});
             },
             image);
       },
       0, 1, filled({1, 1, 1, 1}, 9), Tensor(f32, {1, 1, 2, 2}, {4, 6, 6, 9})},
      {"axis",
       [=](double n) {
         return stiletto::jit([&](const Array& x) { return stiletto::sum(x, static_cast<int>(n)); }, rows);
       },
       0, 1, Tensor(f32, {2}, {4, 6}), Tensor(f32, {2}, {3, 7})}};
}

TEST(PublicCases, case_49) {
  Trial t = random_trial(49, f16, {1, 16, 2, 128}, {1, 16, 2, 128});
  const double first = 1 / std::sqrt(128.0), second = 3 * first;
  const auto wanted = [&](double scale) {
    t.input.scale = static_cast<float>(scale);
    return attention_reference(t.input).out;
  };
  const auto call = [&](double scale) { return forward(t.arrays, {.scale = scale})[0]; };
  stiletto::plan_cache().clear();
  const std::size_t before = stiletto::plan_cache().misses();
  expect_told_apart({"scale", call, first, second, wanted(first), wanted(second), near(f16, 1e-2L)});
  EXPECT_EQ(stiletto::plan_cache().misses() - before, 1U) << "numbers are bound by value";
  for (const Numbered& row : numbered_operations()) expect_told_apart(row);
}

/// There is no bound on the right but the causal mask's, so what is tested is the bound on the left.
TEST(PublicCases, case_50) {
  const Trial t = random_trial(50, f16, {1, 64, 2, 64}, {1, 64, 2, 64});
  const Array causal = forward(t.arrays, {.causal = Causal::top_left})[0];
  for (std::int64_t window : {64, 1000}) {
    const Array same = forward(t.arrays, {.causal = Causal::top_left, .window = window})[0];
    EXPECT_TRUE(agrees(read(same), read(causal), apart(1e-3L))) << window;
  }
  const Array one = forward(t.arrays, {.causal = Causal::top_left, .window = 1})[0];
  EXPECT_TRUE(agrees(one, t.input.v, apart(1e-3L))) << "each query sees itself only";
}

/// The elements of a mask lie further and further apart, the last ones beyond 2^32 elements. A window keeps
/// the work small; tests/device has none.
TEST(PublicCases, case_51) {
  if (device().is_cuda()) GTEST_SKIP() << "tests/device has this case with an explicit mask on the GPU";
  constexpr std::int64_t length = 65537, window = 64, width = 8;
  const SparseMemory memory(std::size_t{length} * length * 2);
  if (!memory) GTEST_SKIP() << "this machine does not promise 8 GiB that are not used";
  const Trial t = random_trial(51, bf16, {1, length, 1, width}, {1, length, 1, width});
  const std::int64_t rows[] = {0, 58253, 58254, length - 1};
  for (const std::int64_t row : rows) store(memory.data(), row * length + row, bf16, 3);
  const Array out = forward(
      t.arrays,
      {.causal = Causal::top_left, .bias = memory.array({1, 1, length, length}, bf16), .window = window})[0];
  for (const std::int64_t row : rows) {
    const std::int64_t keys = std::min(row + 1, window);
    AttentionInput one = one_query(t.input, row, row + 1 - keys, keys);
    one.bias = tabulate(bf16, {1, 1, 1, keys},
                        [&](const Extents& i) { return i[3] == keys - 1 ? Real{3} : Real{0}; });
    const Array made = stiletto::slice(out, {Slice{}, Slice{row, row + 1}});
    EXPECT_TRUE(agrees(made, attention_reference(one).out, near(bf16, 1e-2L))) << row;
  }
}

/// A smaller batch than in tests/device.
TEST(PublicCases, case_130) {
  const Trial t = random_trial(130, bf16, {2, 200, 3, 64}, {2, 200, 3, 64});
  const Array d_out = to_array(random_gradient(t));
  const CompileOptions options{.deterministic = true};
  const std::jthread other([](const std::stop_token& stop) {
    const Array x = stiletto::ones({64, 64}, f32, device());
    while (!stop.stop_requested()) stiletto::jit([](const Array& a) { return stiletto::matmul(a, a); }, x);
  });
  const Arrays first = backward(t.arrays, d_out, {}, Mode::jit, options);
  for (int round = 1; round < 10; ++round) {
    const Arrays made = backward(t.arrays, d_out, {}, Mode::jit, options);
    for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(elements_of(made[i]), elements_of(first[i])) << round;
  }
}

TEST(PublicCases, case_133) {
  const Trial t = random_trial(133, DType::float64, {1, 16, 2, 64}, {1, 16, 2, 64});
  if (device().is_cuda())
    EXPECT_TRUE(throws<stiletto::UnsupportedGraphError>(
        [&] { forward(t.arrays); }, {"attention", "float64", "strides (128, 64, 1)", "cuDNN "}));
  else
    EXPECT_TRUE(agrees(forward(t.arrays)[0], attention_reference(t.input).out, near(DType::float64, 1e-12L)));
  const DType f8 = DType::float8_e4m3;
  const Array x = stiletto::zeros({1, 3, 8, 8}, f8, device()),
              w = stiletto::zeros({5, 3, 3, 3}, f8, device());
  for (Mode mode : modes)
    EXPECT_TRUE(throws<stiletto::DTypeError>(
        [&] { run([](const Arrays& a) { return stiletto::conv(a[0], a[1]); }, {x, w}, mode); },
        {"conv", "float8_e4m3"}));
}

}  // namespace
