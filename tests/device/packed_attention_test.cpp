// SPDX-License-Identifier: Apache-2.0
// Packed sequences and keys in pages on a GPU, against the definition.
#include "support/packed_trial.hpp"

namespace {

using namespace support;
using stiletto::Causal;
using stiletto::Device;

const Device gpu = Device::cuda(0);
constexpr DType f16 = DType::float16, bf16 = DType::bfloat16, f32 = DType::float32;

Real bound_of(DType dtype) { return dtype == f16 ? 5e-3L : dtype == bf16 ? 1.6e-2L : 2e-3L; }

/// Out of order, with gaps, one row alone, and one sequence without queries.
PackedPlaces apart() {
  return {{100, 0, 1, 25, 128},
          {128, 30, 7, 1, 100},
          {140, 130, 2, 260, 10},
          {150, 0, 132, 31, 280},
          128,
          128,
          290,
          380};
}
PackedPlaces close() { return PackedPlaces::dense({64, 1, 200, 17, 3, 128}, {64, 1, 200, 40, 300, 128}); }

/// cuDNN leaves rows of no sequence, and what belongs to rows past a length, as they were.
void forget_padding(const PackedTrial& t, Tensor& wanted, const Tensor& made) {
  for_each_index(wanted.shape, [&](const Extents& i) {
    if (static_cast<Real>(i[2]) >= t.at.len_q[static_cast<std::size_t>(i[0])])
      element(wanted, i) = made.at(i);
  });
}

/// Beside the values themselves, whatever the memory between the sequences holds.
void expect_packed(const PackedTrial& t, const Array& made, const Tensor& wanted, bool of_queries,
                   Allowance allowance, const char* what) {
  EXPECT_TRUE(agrees(made, t.pack(wanted, of_queries, read(made)), allowance)) << what;
}

PackedSetting wide(DType dtype) {
  PackedSetting s;
  s.dtype = dtype;
  s.head_dim = s.width = 64;
  return s;
}

/// `gap`: what lies between the sequences.
void check_forward(const PackedSetting& s, const PackedPlaces& places, Mode mode = Mode::jit, Real gap = 0) {
  const PackedTrial t(s, places, gpu);
  const Arrays made = forward(t.operands(gap), t.options, mode);
  AttentionOutput wanted = attention_reference(t.padded);
  expect_packed(t, made[0], wanted.out, true, near(s.dtype, bound_of(s.dtype)), "out");
  const Tensor stats = read(made[1]);
  forget_padding(t, wanted.stats, stats);
  EXPECT_TRUE(agrees(stats, wanted.stats, near(f32, bound_of(s.dtype)))) << "stats";
}

void check_backward(const PackedSetting& s, const PackedPlaces& places, const CompileOptions& options = {},
                    Real gap = 0) {
  const PackedTrial t(s, places, gpu);
  const Arrays qkv = t.operands(gap), made = forward(qkv, t.options);
  const auto f = [&](const Arrays& a) -> Arrays {
    const auto g = stiletto::attention_backward(a[0], a[1], a[2], a[3], a[4], a[5], t.options);
    Arrays all{g.dq, g.dk, g.dv};
    if (s.bias) all.push_back(g.dbias);
    return all;
  };
  const Arrays got = run_all(f, {t.packed(t.d_out, true, gap), qkv[0], qkv[1], qkv[2], made[0], made[1]},
                             Mode::compiled, options);
  const AttentionDerivatives g = attention_gradients(t.padded, t.d_out);
  expect_packed(t, got[0], g.dq, true, near_gradient(s.dtype), "dq");
  expect_packed(t, got[1], g.dk, false, near_gradient(s.dtype), "dk");
  expect_packed(t, got[2], g.dv, false, near_gradient(s.dtype), "dv");
  if (s.bias) {
    EXPECT_TRUE(agrees(got[3], g.dbias, near_gradient(s.dtype))) << "dbias";
  }
}

std::vector<std::pair<const char*, PackedSetting>> settings(DType dtype) {
  PackedSetting plain = wide(dtype), top_left = plain, bottom_right = plain, window = plain, bias = plain,
                alone = plain, shared = plain, broad = plain, int64 = plain, narrow = plain;
  top_left.causal = window.causal = Causal::top_left, bottom_right.causal = Causal::bottom_right;
  window.window = 9, bias.bias = true;
  alone.heads_kv = alone.heads, shared.heads_kv = 1;
  broad.head_dim = broad.width = 128, narrow.head_dim = 32, narrow.width = 48;
  int64.offsets = DType::int64;
  return {{"plain", plain},
          {"top_left", top_left},
          {"bottom_right", bottom_right},
          {"window", window},
          {"bias", bias},
          {"one to one", alone},
          {"one head of keys", shared},
          {"head_dim 128", broad},
          {"int64", int64},
          {"head_dim 32, width 48", narrow}};
}

TEST(PackedOnGpu, is_that_of_padded_sequences) {
  for (const DType dtype : {f16, bf16})
    for (const auto& [name, s] : settings(dtype)) {
      SCOPED_TRACE(std::string(stiletto::to_string(dtype)) + ' ' + name);
      check_forward(s, apart());
      check_forward(s, close(), Mode::eager);
    }
}

TEST(PackedOnGpu, float32_and_a_sink) {
  PackedSetting s = wide(f32);
  s.heads_kv = s.heads;
  check_forward(s, apart());
  s = wide(f16);
  s.sink = true;
  check_forward(s, close());
  s.causal = Causal::top_left;
  check_forward(s, apart());
}

TEST(PackedOnGpu, gradients) {
  for (const DType dtype : {f16, bf16})
    for (const auto& [name, s] : settings(dtype)) {
      SCOPED_TRACE(std::string(stiletto::to_string(dtype)) + ' ' + name);
      check_backward(s, apart());
      check_backward(s, close());
    }
}

TEST(PackedOnGpu, deterministic_gradients) {
  check_backward(wide(f16), apart(), {.deterministic = true});
  PackedSetting s = wide(bf16);
  s.causal = Causal::top_left;
  check_backward(s, close(), {.deterministic = true});
}

TEST(PackedOnGpu, a_sequence_alone_and_many) {
  check_forward(wide(f16), PackedPlaces::dense({77}, {90}));
  check_backward(wide(f16), PackedPlaces::dense({77}, {90}));
  std::vector<Real> lengths(40);
  Random random(7);
  for (Real& length : lengths) length = static_cast<Real>(random.below(70));
  check_forward(wide(f16), PackedPlaces::dense(lengths, lengths));
  check_backward(wide(f16), PackedPlaces::dense(lengths, lengths));
}

/// Lengths and places are read at each call.
TEST(PackedOnGpu, replays_with_other_places) {
  const PackedTrial one(wide(f16), apart(), gpu);
  PackedPlaces other = apart();
  other.len_q = {3, 90, 60, 0, 1}, other.len_kv = {9, 128, 60, 2, 77};
  other.first_q = {0, 3, 100, 0, 200}, other.first_kv = {0, 9, 140, 137, 200};
  const PackedTrial two(wide(f16), other, gpu);
  const auto f = [](const Arrays& a) {
    AttentionOptions options{.seq_len_q = a[3], .seq_len_kv = a[4]};
    options.packed = stiletto::PackedSequences{a[5], a[6], a[7], a[8], 128, 128};
    return stiletto::attention(a[0], a[1], a[2], options);
  };
  const auto arguments = [](const PackedTrial& t) {
    Arrays a = t.operands(0);
    const stiletto::PackedSequences& p = *t.options.packed;
    a.insert(a.end(), {*t.options.seq_len_q, *t.options.seq_len_kv, p.offsets_q, p.offsets_k, p.offsets_v,
                       p.offsets_out});
    return a;
  };
  const auto compiled = stiletto::compile(f, arguments(one));
  for (const PackedTrial* t : {&one, &two, &one})
    expect_packed(*t, compiled(arguments(*t)), attention_reference(t->padded).out, true, near(f16, 5e-3L),
                  "out");
}

TEST(PackedOnGpu, what_lies_between_sequences_does_not_matter) {
  PackedSetting s = wide(f16);
  for (const Causal causal : {Causal::none, Causal::top_left}) {
    SCOPED_TRACE(static_cast<int>(causal));
    s.causal = causal;
    check_forward(s, apart(), Mode::jit, not_a_number);
    check_backward(s, apart(), {}, not_a_number);
  }
}

Array sevens(const stiletto::Shape& shape) { return stiletto::full(shape, 7, f16, gpu); }

/// Other than on the CPU, which writes zeros there.
TEST(PackedOnGpu, rows_of_no_sequence_keep_what_was_there) {
  const PackedTrial t(wide(f16), apart(), gpu);
  const Array out = sevens({290, 4, 64});
  const Arrays qkv = t.operands(0);
  stiletto::attention_into(out, qkv[0], qkv[1], qkv[2], t.options);
  EXPECT_TRUE(agrees(out, t.pack(attention_reference(t.padded).out, true, 7), near(f16, 5e-3L)));
}

/// Its rows of keys are of no sequence, and so are its queries' rows of out, other than on the CPU.
TEST(PackedOnGpu, a_sequence_without_keys) {
  PackedPlaces places = apart();
  places.len_kv[2] = 0;
  PackedSetting s = wide(f16);
  for (const Causal causal : {Causal::none, Causal::top_left}) {
    SCOPED_TRACE(static_cast<int>(causal));
    s.causal = causal;
    const PackedTrial t(s, places, gpu);
    const Arrays qkv = t.operands(0);
    const Array out = sevens({290, 4, 64}), stats = stiletto::full({5, 4, 128, 1}, 7, f32, gpu);
    stiletto::attention_with_stats_into(out, stats, qkv[0], qkv[1], qkv[2], t.options);
    const AttentionOutput wanted = attention_reference(t.padded);
    Tensor expected = t.pack(wanted.out, true, 7);
    for_each_index({4, 64},
                   [&](const Extents& i) { element(expected, {places.first_q[2], i[0], i[1]}) = 7; });
    EXPECT_TRUE(agrees(out, expected, near(f16, 5e-3L)));
    Tensor log_sums = wanted.stats;
    forget_padding(t, log_sums, read(stats));
    EXPECT_TRUE(agrees(stats, log_sums, near(f32, 5e-3L)));
    const Array dq = sevens({290, 4, 64}), dk = sevens({380, 2, 64}), dv = sevens({380, 2, 64});
    stiletto::attention_backward_into(dq, dk, dv, t.packed(t.d_out, true, 0), qkv[0], qkv[1], qkv[2], out,
                                      stats, t.options);
    const AttentionDerivatives g = attention_gradients(t.padded, t.d_out);
    EXPECT_TRUE(agrees(dq, t.pack(g.dq, true, read(dq)), near_gradient(f16)));  // 0 of that sequence
    EXPECT_TRUE(agrees(dk, t.pack(g.dk, false, 7), near_gradient(f16)));
    EXPECT_TRUE(agrees(dv, t.pack(g.dv, false, 7), near_gradient(f16)));
  }
}

// ---- pages ----

void check_paged(DType dtype, const PagedSizes& sizes, Causal causal, bool bias = false, bool full = false) {
  PagedTrial t(dtype, sizes, gpu, 0);
  t.input.causal = t.options.causal = causal;
  if (full) {
    const auto batch = static_cast<std::size_t>(sizes.batch);
    t.set_lengths(std::vector<Real>(batch, static_cast<Real>(sizes.seq_q)),
                  std::vector<Real>(batch, static_cast<Real>(sizes.page_size * sizes.pages_each)));
  }
  if (bias) {
    t.input.bias = random_tensor(t.random, dtype,
                                 {1, sizes.heads, sizes.seq_q, sizes.page_size * sizes.pages_each}, {-1, 1});
    t.options.bias = to_array(*t.input.bias, gpu);
  }
  t.options.paged = t.pages;
  const AttentionOutput wanted = attention_reference(t.input);
  for (const bool with_stats : {false, true}) {
    Arrays made;
    if (with_stats)
      made = forward(t.paged, t.options);
    else
      made = {stiletto::attention(t.paged[0], t.paged[1], t.paged[2], t.options)};
    Tensor out = wanted.out, stats = wanted.stats;
    const Tensor got = read(made[0]);
    for_each_index(out.shape, [&](const Extents& i) {
      if (i[1] >= t.input.queries(i[0])) element(out, i) = got.at(i);
    });
    EXPECT_TRUE(agrees(got, out, near(dtype, bound_of(dtype)))) << "stats: " << with_stats;
    if (!with_stats) continue;
    const Tensor log_sums = read(made[1]);
    for_each_index(stats.shape, [&](const Extents& i) {
      if (i[2] >= t.input.queries(i[0])) element(stats, i) = log_sums.at(i);
    });
    EXPECT_TRUE(agrees(log_sums, stats, near(f32, bound_of(dtype))));
  }
}

TEST(PagedOnGpu, is_that_of_keys_in_rows) {
  for (const DType dtype : {f16, bf16})
    for (const auto& [page_size, pages] : {std::pair{1, 70}, {16, 9}, {32, 4}, {64, 5}, {128, 2}})
      for (const std::int64_t queries : {1, 7, 130})
        for (const Causal causal : {Causal::none, Causal::top_left, Causal::bottom_right}) {
          PagedSizes z{
              .page_size = page_size, .pages_each = pages, .seq_q = queries, .head_dim = 64, .width = 64};
          SCOPED_TRACE(testing::Message() << stiletto::to_string(dtype) << " pages of " << page_size << ", "
                                          << queries << " queries, causal " << static_cast<int>(causal));
          check_paged(dtype, z, causal);
        }
}

TEST(PagedOnGpu, heads_widths_biases_and_full_lengths) {
  PagedSizes z{.page_size = 32, .pages_each = 4, .seq_q = 60, .head_dim = 128, .width = 128};
  check_paged(f16, z, Causal::none, false, true);
  check_paged(bf16, z, Causal::bottom_right, false, true);
  z.heads_kv = 4;
  check_paged(f16, z, Causal::none);
  check_paged(f16, z, Causal::none, true);
  z.heads_kv = 1, z.head_dim = 64, z.width = 128;
  check_paged(f16, z, Causal::top_left, true);
  z.heads_kv = z.heads, z.width = 64;
  check_paged(f32, z, Causal::none);
}

}  // namespace
