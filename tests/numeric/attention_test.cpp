// SPDX-License-Identifier: Apache-2.0
// attention and its gradients against the definition in long double: dtypes, layouts, head widths, sequence
// lengths, masks, bias, sinks, grouped heads, and what may not leak.
#include <gtest/gtest.h>

#include "support/attention_reference.hpp"
#include "support/cases.hpp"

namespace {

using namespace support;
using stiletto::AttentionOptions;
using stiletto::Causal;

struct Sizes {
  std::int64_t batch, seq_q, seq_kv, heads, heads_kv, head_dim, width;
  Extents q() const { return {batch, seq_q, heads, head_dim}; }
  Extents k() const { return {batch, seq_kv, heads_kv, head_dim}; }
  Extents v() const { return {batch, seq_kv, heads_kv, width}; }
  Extents out() const { return {batch, seq_q, heads, width}; }
};

/// What one call is given.
struct Setting {
  Sizes sizes;
  Causal causal = Causal::none;
  bool lengths = false, bias = false, sink = false;
  std::int64_t window = 0;
};

std::string describe(const Setting& s, DType dtype) {
  const Sizes& z = s.sizes;
  return "\n  in " + std::string(stiletto::to_string(dtype)) + " q " + support::describe(z.q()) + " k " +
         support::describe(z.k()) + " v " + support::describe(z.v()) + " causal " +
         std::to_string(static_cast<int>(s.causal)) + " window " + std::to_string(s.window) +
         (s.lengths ? " lengths" : "") + (s.bias ? " bias" : "") + (s.sink ? " sink" : "");
}

AttentionOptions options_of(const Setting& s, const std::vector<Array>& a, std::size_t next) {
  AttentionOptions options{.causal = s.causal};
  if (s.window != 0) options.window = s.window;
  if (s.lengths) {
    options.seq_len_q = a[next++];
    options.seq_len_kv = a[next++];
  }
  if (s.bias) options.bias = a[next++];
  if (s.sink) options.sink = a[next++];
  return options;
}

/// On a GPU without 0, which makes the batch entry NaN (semantics.md, Attention).
Operand lengths_operand(Random& random, std::int64_t batch, std::int64_t most) {
  const Real least = device().is_cpu() ? 0 : 1;
  return operand(random, DType::int32, {batch}, Layout::contiguous, {least, static_cast<Real>(most)});
}

struct Trial {
  std::vector<Array> arrays;  // q, k, v, optional operands
  AttentionInput input;
};

Trial trial_of(Random& random, const Setting& s, DType dtype, Layout layout) {
  Trial t;
  const auto take = [&](const Operand& o) {
    t.arrays.push_back(o.array);
    return o.values;
  };
  const Range range{-1.5L, 1.5L};
  t.input.q = take(operand(random, dtype, s.sizes.q(), layout, range));
  t.input.k = take(operand(random, dtype, s.sizes.k(), layout, range));
  t.input.v = take(operand(random, dtype, s.sizes.v(), layout, range));
  t.input.scale = 1 / std::sqrt(static_cast<Real>(s.sizes.head_dim));
  t.input.causal = s.causal;
  t.input.window = s.window;
  if (s.lengths) {
    t.input.len_q = take(lengths_operand(random, s.sizes.batch, s.sizes.seq_q)).values;
    t.input.len_kv = take(lengths_operand(random, s.sizes.batch, s.sizes.seq_kv)).values;
  }
  if (s.bias) {
    const Extents shape{s.sizes.batch % 2 == 0 ? 1 : s.sizes.batch, s.sizes.heads, s.sizes.seq_q,
                        s.sizes.seq_kv};
    t.input.bias = take(operand(random, dtype, shape, layout, range));
  }
  if (s.sink)
    t.input.sink = take(operand(random, DType::float32, {s.sizes.heads}, Layout::contiguous, range)).values;
  return t;
}

/// semantics.md: relative to the largest value; float32 products on a GPU are TF32 (device_results.hpp).
Real tolerance_of(DType dtype) {
  switch (dtype) {
    case DType::float64:
      return 1e-12L;
    case DType::float32:
      return 2e-5L;
    case DType::float16:
      return 5e-3L;
    default:
      return 1.6e-2L;
  }
}

/// `cancelled`: gradients that are differences of values around 1.
Allowance within(Real tolerance, DType dtype, Real cancelled = 0) {
  return {.factor = tolerance / support::tolerance(dtype), .absolute = cancelled * support::tolerance(dtype)};
}

/// Rows past seq_len_q are undefined: they are compared as what they are.
void forget_padding(const Setting& s, const AttentionInput& input, Tensor& reference, const Tensor& result,
                    std::size_t seq_axis) {
  if (!s.lengths) return;
  for_each_index(reference.shape, [&](const Extents& at) {
    if (at[seq_axis] >= input.queries(at[0])) element(reference, at) = result.at(at);
  });
}

testing::AssertionResult check_forward(Random& random, const Setting& s, DType dtype, Layout layout,
                                       Mode mode) {
  Trial t = trial_of(random, s, dtype, layout);
  const auto f = [&](bool stats) {
    return [&, stats](const std::vector<Array>& a) {
      const auto r = stiletto::attention_with_stats(a[0], a[1], a[2], options_of(s, a, 3));
      return stats ? r.stats : r.out;
    };
  };
  try {
    AttentionOutput wanted = attention_reference(t.input);
    const Array out = run(f(false), t.arrays, mode), stats = run(f(true), t.arrays, mode);
    forget_padding(s, t.input, wanted.out, read(out), 1);
    forget_padding(s, t.input, wanted.stats, read(stats), 2);
    if (auto ok = agrees(out, wanted.out, within(tolerance_of(dtype), dtype)); !ok)
      return ok << describe(s, dtype) << ' ' << to_string(layout);
    return agrees(stats, wanted.stats, within(std::fmax(tolerance_of(dtype), 1e-5L), DType::float32))
           << describe(s, dtype) << " stats";
  } catch (const std::exception& error) {
    return testing::AssertionFailure() << "threw: " << error.what() << describe(s, dtype);
  }
}

testing::AssertionResult check_backward(Random& random, const Setting& s, DType dtype, Mode mode) {
  Trial t = trial_of(random, s, dtype, Layout::contiguous);
  const Operand d_out = operand(random, dtype, s.sizes.out(), Layout::contiguous, {-1, 1});
  try {
    const AttentionOutput forward = attention_reference(t.input);
    const auto wanted = attention_gradients(t.input, d_out.values);
    const auto r =
        stiletto::attention_with_stats(t.arrays[0], t.arrays[1], t.arrays[2], options_of(s, t.arrays, 3));
    std::vector<Array> arrays = t.arrays;
    arrays.insert(arrays.end(), {d_out.array, r.out, r.stats});
    const std::size_t n = t.arrays.size();
    const std::pair<const char*, Tensor> results[] = {{"dq", wanted.dq},
                                                      {"dk", wanted.dk},
                                                      {"dv", wanted.dv},
                                                      {"dbias", wanted.dbias},
                                                      {"dsink", wanted.dsink}};
    const std::vector<Array> made = run_all(
        [&](const std::vector<Array>& a) {
          const auto d =
              stiletto::attention_backward(a[n], a[0], a[1], a[2], a[n + 1], a[n + 2], options_of(s, a, 3));
          std::vector<Array> gradients{d.dq, d.dk, d.dv};
          if (s.bias) gradients.push_back(d.dbias);
          if (s.sink) gradients.push_back(d.dsink);
          return gradients;
        },
        arrays, mode);
    // On a GPU out and stats are those of TF32 products.
    const Real single = device().is_cpu() ? 1e-4L : 2e-2L;
    const Real tolerance = dtype == DType::float64 ? 1e-6L : dtype == DType::float32 ? single : 3e-2L;
    const Real cancelled = device().is_cpu() || dtype != DType::float32 ? 1 : 1000;
    std::size_t next = 0;
    for (const auto& [name, reference] : results) {
      if ((name == std::string("dbias") && !s.bias) || (name == std::string("dsink") && !s.sink)) continue;
      if (auto ok = agrees(made[next++], reference, within(tolerance, reference.dtype, cancelled)); !ok)
        return ok << name << describe(s, dtype);
    }
    return testing::AssertionSuccess();
  } catch (const std::exception& error) {
    return testing::AssertionFailure() << "threw: " << error.what() << describe(s, dtype);
  }
}

const std::vector<Sizes> sizes = {{1, 1, 1, 1, 1, 8, 8},     {2, 17, 33, 3, 3, 40, 24},
                                  {1, 65, 65, 4, 2, 64, 64}, {3, 1, 130, 6, 1, 32, 32},
                                  {2, 5, 3, 2, 2, 128, 8},   {1, 130, 127, 2, 1, 256, 256}};

std::vector<Setting> settings_of(const Sizes& z) {
  return {{z},
          {z, Causal::top_left},
          {z, Causal::bottom_right},
          {z, Causal::none, true},
          {z, Causal::bottom_right, true},
          {z, Causal::top_left, false, false, false, 3},
          {z, Causal::none, false, true},
          {z, Causal::bottom_right, true, true, true},
          {z, Causal::none, false, false, true}};
}

class Attention : public testing::TestWithParam<DType> {};

TEST_P(Attention, every_option_and_layout) {
  Failures failures;
  Random random(61);
  int number = 0;
  for (const Sizes& z : sizes)
    for (const Setting& setting : settings_of(z)) {
      ++number;
      const Layout layout = layouts[static_cast<std::size_t>(number) % std::size(layouts)];
      const Mode mode = number % 3 == 0 ? Mode::eager : number % 3 == 1 ? Mode::jit : Mode::compiled;
      if (!failures.expect(check_forward(random, setting, GetParam(), layout, mode))) return;
    }
}

TEST_P(Attention, gradients) {
  Failures failures;
  Random random(62);
  int number = 0;
  for (const Sizes& z : sizes)
    for (const Setting& setting : settings_of(z)) {
      if (z.head_dim == 256 && setting.causal == Causal::none) continue;  // the reference takes seconds
      const Mode mode = ++number % 3 == 0 ? Mode::eager : number % 3 == 1 ? Mode::jit : Mode::compiled;
      if (!failures.expect(check_backward(random, setting, GetParam(), mode))) return;
    }
}

INSTANTIATE_TEST_SUITE_P(Types, Attention, testing::ValuesIn(float_dtypes),
                         [](const auto& info) { return std::string(stiletto::to_string(info.param)); });

}  // namespace
