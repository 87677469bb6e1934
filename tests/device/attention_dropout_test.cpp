// SPDX-License-Identifier: Apache-2.0
// Dropout of attention on a GPU. cuDNN's masks are its own, so each is read out of the attention that has it:
// with equal logits and the identity for v, the output is the probabilities.
#include "support/cuda_api.hpp"
#include "support/packed_trial.hpp"

namespace {

using namespace support;
using stiletto::Causal;
using stiletto::Device;

const Device gpu = Device::cuda(0);
constexpr DType f16 = DType::float16, bf16 = DType::bfloat16;

Array number(std::int64_t value) { return stiletto::from_data<std::int64_t>({value}, {1}, gpu); }

struct Setting {
  DType dtype = f16;
  Extents q{2, 128, 4, 64}, k{2, 128, 2, 64};
  double rate = 0.3;
  Causal causal = Causal::none;
  std::int64_t window = 0;
  bool lengths = false, bias = false, sink = false;
  std::int64_t seed = 1234567, offset = 99;
};

/// Operands with every option of the setting but dropout, for arrays and for the reference.
Trial trial_of(const Setting& s, AttentionOptions& options) {
  Trial t = random_trial(71, s.dtype, s.q, s.k, gpu);
  Random random(72);
  options.causal = t.input.causal = s.causal;
  t.input.window = s.window;
  if (s.window != 0) options.window = s.window;
  if (s.lengths) {
    t.input.len_q = {static_cast<Real>(s.q[1]), 40}, t.input.len_kv = {61, static_cast<Real>(s.k[1])};
    options.seq_len_q = to_array(Tensor(DType::int32, {2}, t.input.len_q), gpu);
    options.seq_len_kv = to_array(Tensor(DType::int32, {2}, t.input.len_kv), gpu);
  }
  if (s.bias) {
    t.input.bias = random_tensor(random, s.dtype, {1, s.q[2], s.q[1], s.k[1]}, {-1, 1});
    options.bias = to_array(*t.input.bias, gpu);
  }
  if (s.sink) {
    const Tensor sink = random_tensor(random, DType::float32, {s.q[2]}, {-1, 1});
    t.input.sink = sink.values, options.sink = to_array(sink, gpu);
  }
  return t;
}

/// What the mask multiplies each probability by; 1 where there is no probability to see it in.
Tensor mask_of(const Setting& s, const Trial& t, const AttentionOptions& options, bool stats = true) {
  AttentionInput even = t.input;
  for (Real& value : even.q.values) value = 0;
  const std::int64_t keys = s.k[1], width = s.k[3];
  Tensor kept =
      tabulate(DType::float64, {s.q[0], s.q[2], s.q[1], keys}, [](const Extents&) { return Real{1}; });
  const Array q = to_array(even.q, gpu);
  for (std::int64_t first = 0; first < keys; first += width) {
    const Array v = to_array(
        tabulate(s.dtype, s.k, [&](const Extents& i) { return i[1] == first + i[3] ? Real{1} : Real{0}; }),
        gpu);
    const Tensor out = read(stats ? forward({q, t.arrays[1], v}, options)[0]
                                  : stiletto::attention(q, t.arrays[1], v, options));
    each_query(even, [&](std::int64_t b, std::int64_t h, std::int64_t i) {
      if (i >= even.queries(b)) return;
      const AttentionRow row = attention_row(even, b, h, i);
      for (std::int64_t e = 0; e < width && first + e < keys; ++e) {
        const Real weight = row.weights[static_cast<std::size_t>(first + e)];
        if (weight != 0) element(kept, {b, h, i, first + e}) = out.at({b, i, h, e}) / weight;
      }
    });
  }
  return kept;
}

/// The mask with its values made exact, and how many there are of each. Others than the two are failures.
struct Counted {
  Tensor mask;
  double dropped = 0, all = 0;
};
Counted counted(const Setting& s, const Trial& t, Tensor mask) {
  Counted result;
  const Real kept = 1 / (1 - static_cast<Real>(s.rate));
  int wrong = 0;
  each_query(t.input, [&](std::int64_t b, std::int64_t h, std::int64_t i) {
    for (std::int64_t j = 0; j < s.k[1]; ++j) {
      if (!t.input.sees(b, i, j)) continue;
      Real& value = element(mask, {b, h, i, j});
      wrong += std::fabs(value) > 1e-3L && std::fabs(value / kept - 1) > 0.02L;
      value = value < kept / 2 ? 0 : kept;
      result.dropped += value == 0;
      ++result.all;
    }
  });
  EXPECT_EQ(wrong, 0);
  result.mask = std::move(mask);
  return result;
}

void check(const Setting& s, const CompileOptions& compile_options = {}) {
  AttentionOptions options;
  Trial t = trial_of(s, options);
  options.dropout = stiletto::AttentionDropout{s.rate, number(s.seed), number(s.offset)};
  const Counted c = counted(s, t, mask_of(s, t, options));
  const double deviation = std::sqrt(s.rate * (1 - s.rate) / c.all);
  EXPECT_NEAR(c.dropped / c.all, s.rate, 5 * deviation);
  t.input.kept = c.mask;
  AttentionOutput wanted = attention_reference(t.input);
  const Arrays made = forward(t.arrays, options);
  const Tensor out = read(made[0]);
  for_each_index(wanted.out.shape, [&](const Extents& i) {
    if (i[1] >= t.input.queries(i[0])) element(wanted.out, i) = out.at(i);
  });
  EXPECT_TRUE(agrees(out, wanted.out, near(s.dtype, s.dtype == f16 ? 5e-3L : 1.6e-2L))) << "out";
  EXPECT_TRUE(agrees(stiletto::attention(t.arrays[0], t.arrays[1], t.arrays[2], options), out,
                     near(s.dtype, 1.6e-2L)))
      << "without stats";
  Random random(73);
  const Tensor d_out = random_tensor(random, s.dtype, wanted.out.shape, {-1, 1});
  const auto f = [&](const Arrays& a) -> Arrays {
    const auto g = stiletto::attention_backward(a[0], a[1], a[2], a[3], a[4], a[5], options);
    return {g.dq, g.dk, g.dv};
  };
  const AttentionDerivatives g = attention_gradients(t.input, d_out);
  const Arrays got =
      run_all(f, {to_array(d_out, gpu), t.arrays[0], t.arrays[1], t.arrays[2], made[0], made[1]},
              Mode::compiled, compile_options);
  Tensor dq = g.dq;
  const Tensor made_dq = read(got[0]);
  for_each_index(dq.shape, [&](const Extents& i) {
    if (i[1] >= t.input.queries(i[0])) element(dq, i) = made_dq.at(i);
  });
  EXPECT_TRUE(agrees(made_dq, dq, near_gradient(s.dtype))) << "dq";
  EXPECT_TRUE(agrees(got[1], g.dk, near_gradient(s.dtype))) << "dk";
  EXPECT_TRUE(agrees(got[2], g.dv, near_gradient(s.dtype))) << "dv";
}

TEST(DropoutOnGpu, forward_and_gradients_have_one_mask) {
  for (const DType dtype : {f16, bf16}) {
    SCOPED_TRACE(stiletto::to_string(dtype));
    const auto with = [&](auto change) {
      Setting s;
      s.dtype = dtype;
      change(s);
      check(s);
    };
    {
      SCOPED_TRACE("plain");
      with([](Setting&) {});
    }
    {
      SCOPED_TRACE("top_left");
      with([](Setting& s) { s.causal = Causal::top_left; });
    }
    {
      SCOPED_TRACE("window");
      with([](Setting& s) { s.causal = Causal::top_left, s.window = 20; });
    }
    {
      SCOPED_TRACE("lengths");
      with([](Setting& s) { s.lengths = true; });
    }
    {
      SCOPED_TRACE("bias");
      with([](Setting& s) { s.bias = true; });
    }
    {
      SCOPED_TRACE("odd");
      with([](Setting& s) { s.q[1] = 100, s.k[1] = 77; });
    }
    {
      SCOPED_TRACE("longer");
      with([](Setting& s) { s.q[1] = 300, s.k[1] = 260, s.rate = 0.1; });
    }
    {
      SCOPED_TRACE("width 128");
      with([](Setting& s) { s.q[3] = s.k[3] = 128, s.k[2] = 4, s.rate = 0.5; });
    }
    {
      SCOPED_TRACE("large offset");
      with([](Setting& s) { s.offset = (std::int64_t{1} << 32) - 5, s.seed = -3; });
    }
  }
}

TEST(DropoutOnGpu, with_a_sink) {
  Setting s;
  s.sink = true;
  check(s);
  s.causal = Causal::top_left, s.bias = true;
  check(s);
}

TEST(DropoutOnGpu, deterministic_gradients_have_the_mask_too) {
  Setting s;
  check(s, {.deterministic = true});
  s.causal = Causal::top_left;
  check(s, {.deterministic = true});
}

TEST(DropoutOnGpu, rate_0_is_none) {
  const Trial t = random_trial(74, f16, {2, 70, 4, 64}, {2, 90, 4, 64}, gpu);
  const AttentionOptions nothing{.dropout = stiletto::AttentionDropout{0, number(1), number(2)}};
  const Arrays made = forward(t.arrays, nothing), wanted = forward(t.arrays);
  EXPECT_TRUE(agrees(made[0], read(wanted[0]), {.exact = true}));
  EXPECT_TRUE(agrees(made[1], read(wanted[1]), {.exact = true}));
  const Arrays gradients = backward(t.arrays, made[0], nothing), expected = backward(t.arrays, wanted[0]);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(agrees(gradients[i], read(expected[i]), near(f16, 5e-3L)));
}

std::vector<Real> drawn(double rate, const Array& seed, const Array& offset) {
  Setting s;
  s.rate = rate;
  AttentionOptions options;
  const Trial t = trial_of(s, options);
  options.dropout = stiletto::AttentionDropout{rate, seed, offset};
  return counted(s, t, mask_of(s, t, options)).mask.values;
}

TEST(DropoutOnGpu, seed_and_offset_choose_the_mask) {
  const auto first = drawn(0.5, number(7), number(11));
  EXPECT_EQ(first, drawn(0.5, number(7), number(11)));
  EXPECT_NE(first, drawn(0.5, number(8), number(11)));
  EXPECT_NE(first, drawn(0.5, number(7 + (std::int64_t{1} << 32)), number(11)));
  EXPECT_NE(first, drawn(0.5, number(7), number(11 + 2 * 4 * 128 * 128)));
}

/// How much of the mask is the same as with the offset so much larger.
double same_with_offset(std::int64_t further) {
  const auto first = drawn(0.5, number(7), number(11)), other = drawn(0.5, number(7), number(11 + further));
  double same = 0;
  for (std::size_t i = 0; i < first.size(); ++i) same += first[i] == other[i];
  return same / static_cast<double>(first.size());
}

/// The generator's counter counts draws of four numbers.
TEST(DropoutOnGpu, offsets_have_to_be_4_apart) {
  EXPECT_GT(same_with_offset(1), 0.8);
  for (const std::int64_t further : {std::int64_t{4}, std::int64_t{128}, std::int64_t{1} << 32})
    EXPECT_NEAR(same_with_offset(further), 0.5, 0.01) << further;
}

TEST(DropoutOnGpu, rates_are_kept) {
  for (const double rate : {0.05, 0.5, 0.9}) {
    double dropped = 0, all = 0;
    for (std::int64_t seed = 0; seed < 4; ++seed)
      for (const Real factor : drawn(rate, number(seed), number(0))) dropped += factor == 0, ++all;
    EXPECT_NEAR(dropped / all, rate, 5 * std::sqrt(rate * (1 - rate) / all)) << rate;
  }
}

/// Which places of the mask are not independent: rows, heads and batch entries must not repeat.
TEST(DropoutOnGpu, masks_of_rows_heads_and_batch_entries_differ) {
  const auto mask = drawn(0.5, number(3), number(0));  // (2, 4, 128, 128)
  const std::size_t row = 128, head = 128 * row, entry = 4 * head;
  for (const std::size_t step : {row, 16 * row, 64 * row, head, entry}) {
    double same = 0, all = 0;
    for (std::size_t i = 0; i + step < mask.size(); ++i) same += mask[i] == mask[i + step], ++all;
    EXPECT_NEAR(same / all, 0.5, 0.02) << step;
  }
}

TEST(DropoutOnGpu, replays_draw_anew_with_another_seed) {
  const Stream stream;
  const stiletto::StreamGuard guard(stream.get());
  const Trial t = random_trial(75, f16, {1, 64, 2, 64}, {1, 64, 2, 64}, gpu);
  const Array seed = number(1), offset = number(0), out = stiletto::zeros({1, 64, 2, 64}, f16, gpu);
  const auto f = [](const Array& o, const Arrays& a) {
    stiletto::attention_into(o, a[0], a[1], a[2], {.dropout = stiletto::AttentionDropout{0.5, a[3], a[4]}});
  };
  Arrays arguments = t.arrays;
  arguments.insert(arguments.end(), {seed, offset});
  const auto compiled = stiletto::compile(f, out, arguments);
  const auto run_with = [&](std::int64_t value, const auto& execute) {
    cuda_call("cudaMemcpy", seed.raw_data(), static_cast<const void*>(&value), sizeof value, 1);
    execute();
    cuda_synchronize(stream.get());
    return read(out).values;
  };
  const auto call = [&] { compiled(out, arguments); };
  const auto one = run_with(1, call), two = run_with(2, call);
  EXPECT_NE(one, two);
  CapturedGraph graph(stream);
  call();
  ASSERT_EQ(graph.end(), 0);
  const auto launch = [&] { graph.launch(); };
  EXPECT_EQ(run_with(1, launch), one);
  EXPECT_EQ(run_with(2, launch), two);
  EXPECT_EQ(run_with(1, launch), one);
}

// ---- with packed sequences and pages ----

TEST(DropoutOnGpu, of_packed_sequences) {
  PackedSetting s;
  s.dtype = f16;
  s.head_dim = s.width = 64;
  const PackedPlaces places = PackedPlaces::dense({64, 20, 50}, {64, 40, 33});
  const double rate = 0.4;
  PackedTrial t(s, places, gpu);
  t.options.dropout = stiletto::AttentionDropout{rate, number(5), number(6)};
  Arrays even = t.operands(0);
  Tensor zeros = t.padded.q, identity = t.padded.v;
  for (Real& value : zeros.values) value = 0;
  for_each_index(identity.shape, [&](const Extents& i) { element(identity, i) = i[1] == i[3] ? 1 : 0; });
  const Tensor out =
      read(forward({t.packed(zeros, true, 0), even[1], t.packed(identity, false, 0)}, t.options)[0]);
  Tensor kept = tabulate(DType::float64, {3, 4, 64, 64}, [](const Extents&) { return Real{1}; });
  double dropped = 0, all = 0;
  for_each_index(kept.shape, [&](const Extents& i) {
    const auto b = static_cast<std::size_t>(i[0]);
    if (static_cast<Real>(i[2]) >= places.len_q[b] || static_cast<Real>(i[3]) >= places.len_kv[b]) return;
    const Real p = out.at({places.first_q[b] + i[2], i[1], i[3]});
    element(kept, i) = p == 0 ? 0 : 1 / (1 - static_cast<Real>(rate));
    dropped += p == 0, ++all;
  });
  EXPECT_NEAR(dropped / all, rate, 5 * std::sqrt(rate * (1 - rate) / all));
  t.padded.kept = kept;
  const Arrays made = forward(even, t.options);
  const AttentionOutput wanted = attention_reference(t.padded);
  EXPECT_TRUE(agrees(made[0], t.pack(wanted.out, true, 0), near(f16, 5e-3L)));
  const AttentionDerivatives g = attention_gradients(t.padded, t.d_out);
  const auto got = stiletto::attention_backward(t.packed(t.d_out, true, 0), even[0], even[1], even[2],
                                                made[0], made[1], t.options);
  EXPECT_TRUE(agrees(got.dq, t.pack(g.dq, true, 0), near_gradient(f16)));
  EXPECT_TRUE(agrees(got.dk, t.pack(g.dk, false, 0), near_gradient(f16)));
  EXPECT_TRUE(agrees(got.dv, t.pack(g.dv, false, 0), near_gradient(f16)));
}

TEST(DropoutOnGpu, of_keys_in_pages) {
  PagedTrial t(f16, {.page_size = 16, .pages_each = 4, .seq_q = 50, .head_dim = 64, .width = 64}, gpu, 0);
  t.options.dropout = stiletto::AttentionDropout{0.4, number(5), number(6)};
  const Tensor rows = read(forward(t.rows, t.options)[0]);
  t.options.paged = t.pages;
  const Tensor pages = read(forward(t.paged, t.options)[0]);
  for_each_index(rows.shape, [&](const Extents& i) {  // one mask
    if (i[1] >= t.input.queries(i[0])) return;
    EXPECT_NEAR(rows.at(i), pages.at(i), 0.01L);
  });
  Tensor zeros = t.input.q;
  for (Real& value : zeros.values) value = 0;
  double dropped = 0, all = 0;
  Tensor table = read(t.pages.table_v);
  Tensor identity(f16, {t.z.batch * t.z.pages_each + 5, t.z.page_size, t.z.heads_kv, t.z.width});
  for_each_index(identity.shape, [&](const Extents& i) {
    for (std::int64_t b = 0; b < t.z.batch; ++b)
      for (std::int64_t page = 0; page < t.z.pages_each; ++page)
        if (table.at({b, page}) == static_cast<Real>(i[0]) && page * t.z.page_size + i[1] == i[3])
          element(identity, i) = 1;
  });
  const Tensor p = read(forward({to_array(zeros, gpu), t.paged[1], to_array(identity, gpu)}, t.options)[0]);
  for_each_index(p.shape, [&](const Extents& i) {
    if (i[1] >= t.input.queries(i[0]) || i[3] >= t.input.keys(i[0])) return;
    dropped += p.at(i) == 0, ++all;
  });
  EXPECT_NEAR(dropped / all, 0.4, 5 * std::sqrt(0.24 / all));
}

}  // namespace
