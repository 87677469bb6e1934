// SPDX-License-Identifier: Apache-2.0
// Attention of packed sequences and of keys in pages on the CPU: the same as of padded arrays, with nothing
// read between the sequences and zeros written there.
#include <gtest/gtest.h>

#include "support/dropout_reference.hpp"
#include "support/packed_trial.hpp"

namespace {

using namespace support;
using stiletto::Causal;
using stiletto::PackedSequences;
using stiletto::PagedKeys;

/// Out of order, with gaps, and one sequence without queries.
PackedPlaces places() {
  return {{40, 0, 13, 25}, {110, 30, 7, 100}, {20, 60, 2, 70}, {150, 0, 132, 31}, 40, 110, 100, 260};
}

void check(const PackedSetting& setting, Mode mode = Mode::jit, bool dropout = false) {
  PackedTrial t(setting, places());
  if (dropout) {
    t.options.dropout = {0.25, stiletto::from_data<std::int64_t>({5}, {1}),
                         stiletto::from_data<std::int64_t>({6}, {1})};
    t.padded.kept = kept_probabilities(5, 6, 0.25, {4, setting.heads, t.at.max_q, t.at.max_kv});
  }
  const DType dtype = setting.dtype;
  const Real bound = dtype == DType::float64 ? 1e-12L : dtype == DType::float32 ? 1e-5L : 1.6e-2L;
  const Real gradient = dtype == DType::float64 ? 1e-6L : dtype == DType::float32 ? 1e-4L : 3e-2L;
  const Arrays qkv = t.operands();
  const AttentionOutput wanted = attention_reference(t.padded);
  const Arrays made = forward(qkv, t.options, mode);
  EXPECT_TRUE(agrees(made[0], t.pack(wanted.out, true, 0), near(dtype, bound)));
  EXPECT_TRUE(agrees(made[1], wanted.stats, near(DType::float32, std::fmax(bound, 1e-6L))));
  const AttentionDerivatives g = attention_gradients(t.padded, t.d_out);
  const auto got = stiletto::attention_backward(t.packed(t.d_out, true), qkv[0], qkv[1], qkv[2], made[0],
                                                made[1], t.options);
  EXPECT_TRUE(agrees(got.dq, t.pack(g.dq, true, 0), near(dtype, gradient)));
  EXPECT_TRUE(agrees(got.dk, t.pack(g.dk, false, 0), near(dtype, gradient)));
  EXPECT_TRUE(agrees(got.dv, t.pack(g.dv, false, 0), near(dtype, gradient)));
  if (setting.bias) {
    EXPECT_TRUE(agrees(got.dbias, g.dbias, near(dtype, gradient)));
  }
  if (setting.sink) {
    EXPECT_TRUE(agrees(got.dsink, g.dsink, near(DType::float32, gradient)));
  }
}

TEST(AttentionPacked, is_that_of_padded_sequences) {
  for (const DType dtype : {DType::float32, DType::float64, DType::float16}) {
    SCOPED_TRACE(stiletto::to_string(dtype));
    check({dtype});
    check({dtype, DType::int64, Causal::top_left}, Mode::eager);
    check({dtype, DType::int32, Causal::bottom_right, 9}, Mode::compiled);
    check({dtype, DType::int64, Causal::bottom_right, 0, true, true});
    check({dtype, DType::int32, Causal::top_left, 0, true, true}, Mode::jit, true);
  }
}

/// The tiles of keys are the same, so the bits are.
TEST(AttentionPacked, is_that_of_each_sequence_alone) {
  PackedTrial t({.causal = Causal::bottom_right}, places());
  const Arrays qkv = t.operands();
  const Array &q = qkv[0], &k = qkv[1], &v = qkv[2];
  const std::vector<float> all = stiletto::attention(q, k, v, t.options).to_vector<float>();
  for (std::size_t b = 0; b < 4; ++b) {
    const auto queries = static_cast<std::int64_t>(t.at.len_q[b]),
               keys = static_cast<std::int64_t>(t.at.len_kv[b]);
    const auto sequence = [&](const Array& x, std::int64_t first, std::int64_t count) {
      return stiletto::expand_dims(stiletto::slice(x, {stiletto::Slice{first, first + count}}), 0);
    };
    const Array one =
        stiletto::attention(sequence(q, t.at.first_q[b], queries), sequence(k, t.at.first_kv[b], keys),
                            sequence(v, t.at.first_kv[b], keys), {.causal = Causal::bottom_right});
    const std::vector<float> alone = one.to_vector<float>();
    const auto begin = all.begin() + t.at.first_q[b] * t.s.heads * t.s.width;
    EXPECT_TRUE(std::equal(alone.begin(), alone.end(), begin)) << b;
  }
}

/// q, k and v of one projection lie side by side; offsets count the elements of each, not what is between.
TEST(AttentionPacked, offsets_count_the_elements_of_a_view) {
  Random random(82);
  const Array all = to_array(random_tensor(random, DType::float32, {30, 3, 2, 8}, {-1, 1}));
  const auto part = [&](std::int64_t i) {
    return stiletto::reshape(stiletto::slice(all, {{}, stiletto::Slice{i, i + 1}}), {30, 2, 8});
  };
  const Array offsets = stiletto::from_data<int>({0, 11 * 16, 30 * 16}, {3});
  AttentionOptions options{.seq_len_q = stiletto::from_data<int>({11, 19}, {2}),
                           .seq_len_kv = stiletto::from_data<int>({11, 19}, {2})};
  options.packed = PackedSequences{offsets, offsets, offsets, offsets, 19, 19};
  const Arrays views{part(0), part(1), part(2)};
  const Arrays copies{views[0].copy(), views[1].copy(), views[2].copy()};
  const Arrays of_views = forward(views, options), of_copies = forward(copies, options);
  EXPECT_EQ(of_views[0].to_vector<float>(), of_copies[0].to_vector<float>());
  const Arrays gradients = backward(views, of_views[0], options);
  const Arrays expected = backward(copies, of_copies[0], options);
  for (std::size_t i = 0; i < 3; ++i)
    EXPECT_EQ(gradients[i].to_vector<float>(), expected[i].to_vector<float>());
}

/// Offsets and lengths that reach outside are cut off, and nothing outside is touched.
TEST(AttentionPacked, what_reaches_outside_is_cut_off) {
  const Array x = stiletto::ones({10, 1, 4});
  const Array offsets = stiletto::from_data<std::int64_t>({-4, 1000, 32, std::int64_t{1} << 62, 0}, {5});
  const Array lengths = stiletto::from_data<int>({5, 5, 2000000000, 5}, {4});
  AttentionOptions options{.seq_len_q = lengths, .seq_len_kv = lengths};
  options.packed = PackedSequences{offsets, offsets, offsets, offsets, 1000, 1000};
  const Arrays made = forward({x, x, x}, options);
  const std::vector<float> out = made[0].to_vector<float>();
  for (std::size_t i = 0; i < out.size(); ++i) EXPECT_NEAR(out[i], i < 32 ? 0 : 1, 1e-6) << i;
  for (const Array& gradient : backward({x, x, x}, x, options))
    for (const float value : gradient.to_vector<float>()) EXPECT_TRUE(std::isfinite(value));
}

TEST(AttentionPacked, no_sequences_give_zeros) {
  const Array x = stiletto::ones({10, 1, 4}), offsets = stiletto::zeros({1}, DType::int32);
  AttentionOptions options{.seq_len_q = stiletto::zeros({0}, DType::int32),
                           .seq_len_kv = stiletto::zeros({0}, DType::int32)};
  options.packed = PackedSequences{offsets, offsets, offsets, offsets, 3, 3};
  EXPECT_EQ(forward({x, x, x}, options)[0].to_vector<float>(), std::vector<float>(40));
}

TEST(AttentionPacked, gradients_are_differences) {
  Random random(83);
  const auto tensor = [&] { return to_array(random_tensor(random, DType::float64, {9, 1, 3}, {-1, 1})); };
  const Arrays qkv{tensor(), tensor(), tensor()};
  const Array offsets = stiletto::from_data<int>({3, 15, 27}, {3});
  AttentionOptions options{.causal = Causal::top_left,
                           .seq_len_q = stiletto::from_data<int>({3, 4}, {2}),
                           .seq_len_kv = stiletto::from_data<int>({4, 2}, {2})};
  options.packed = PackedSequences{offsets, offsets, offsets, offsets, 4, 4};
  const Array d_out = tensor();
  const std::vector<double> upstream = d_out.to_vector<double>();
  const auto objective = [&] {
    const std::vector<double> out = forward(qkv, options)[0].to_vector<double>();
    return std::inner_product(out.begin(), out.end(), upstream.begin(), 0.0);
  };
  const Arrays gradients = backward(qkv, d_out, options);
  for (std::size_t operand = 0; operand < 3; ++operand) {
    const std::vector<double> gradient = gradients[operand].to_vector<double>();
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      double& value = qkv[operand].data<double>()[i];
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

// ---- pages ----

TEST(AttentionPaged, is_that_of_keys_in_rows) {
  for (const DType dtype : {DType::float32, DType::float64, DType::bfloat16})
    for (const auto& [page_size, pages] : {std::pair{1, 9}, {16, 8}, {5, 30}, {100, 1}})
      for (const Causal causal : {Causal::none, Causal::bottom_right}) {
        PagedTrial t(dtype, {.page_size = page_size, .pages_each = pages});
        t.options.causal = causal;
        t.options.bias =
            to_array(random_tensor(t.random, dtype, {3, 1, 7, std::int64_t{page_size} * pages}, {-1, 1}));
        const Arrays wanted = forward(t.rows, t.options);
        t.options.paged = t.pages;
        const Arrays made = forward(t.paged, t.options);
        EXPECT_TRUE(agrees(made[0], read(wanted[0]), {.exact = true})) << page_size;
        EXPECT_TRUE(agrees(made[1], read(wanted[1]), {.exact = true})) << page_size;
      }
}

TEST(AttentionPaged, pages_past_a_sequence_may_be_any) {
  PagedTrial t(DType::float32, {.page_size = 16, .pages_each = 4});
  t.options.seq_len_kv = stiletto::from_data<int>({20, 0, 64}, {3});
  const Array wanted = forward(t.rows, t.options)[0];
  t.options.paged = t.pages;
  for (const Array& table : {t.pages.table_k, t.pages.table_v}) {
    for (std::int64_t i = 2; i < 8; ++i) table.data<int>()[i] = i % 2 == 0 ? -7 : 1 << 30;
  }
  EXPECT_TRUE(agrees(forward(t.paged, t.options)[0], read(wanted), {.exact = true}));
}

TEST(AttentionPaged, numbers_of_a_trace_are_lengths) {
  PagedTrial t(DType::float32, {.page_size = 4, .pages_each = 3});
  t.options.seq_len_q = stiletto::from_data<int>({7, 7, 7}, {3});
  t.options.seq_len_kv = stiletto::from_data<int>({5, 5, 5}, {3});
  const Array wanted = forward(t.rows, t.options)[0];
  const auto f = [&](const Arrays& a) -> Arrays {
    const AttentionOptions options{.seq_len_q = stiletto::full({3}, 7, DType::int32),
                                   .seq_len_kv = stiletto::full({3}, 5, DType::int32),
                                   .paged = PagedKeys{a[3], a[4]}};
    return {stiletto::attention(a[0], a[1], a[2], options)};
  };
  Arrays arguments = t.paged;
  arguments.insert(arguments.end(), {t.pages.table_k, t.pages.table_v});
  EXPECT_TRUE(agrees(stiletto::jit(f, arguments)[0], read(wanted), {.exact = true}));
}

}  // namespace
