// SPDX-License-Identifier: Apache-2.0
// Public fault reports about convolution and pooling: empty batches, meaningless strides, uneven padding,
// dilation, groups, arguments out of range, NaN and large values, padding in pools, and plans of other
// layouts.
#include <gtest/gtest.h>

#include "support/cases.hpp"
#include "support/errors.hpp"
#include "support/refused.hpp"
#include "support/sparse_memory.hpp"
#include "support/threads.hpp"
#include "support/window_reference.hpp"

namespace {

using namespace support;
using stiletto::ConvOptions;
using stiletto::Dims;
using stiletto::PerAxis;
using stiletto::ShapeError;
using stiletto::Slice;

using Arrays = std::vector<Array>;

constexpr DType f16 = DType::float16, f32 = DType::float32;
constexpr Mode modes[] = {Mode::jit, Mode::compiled, Mode::eager};

Tensor filled(const Extents& shape, Real value) {
  return tabulate(f32, shape, [&](const Extents&) { return value; });
}
Tensor counting(const Extents& shape) {
  return tabulate(f32, shape, [n = Real{0}](const Extents&) mutable { return n++; });
}
Array ones(const Extents& shape) { return stiletto::ones(dims(shape), f32, device()); }

Array convolved(const Array& x, const Array& w, const ConvOptions& options, Mode mode = Mode::jit) {
  return run([&](const Arrays& a) { return stiletto::conv(a[0], a[1], options); }, {x, w}, mode);
}

void expect_conv(const Tensor& x, const Tensor& w, const ConvOptions& options, const Tensor& expected,
                 Allowance allowance = {.exact = true}) {
  for (Mode mode : modes)
    EXPECT_TRUE(agrees(convolved(to_array(x), to_array(w), options, mode), expected, allowance))
        << to_string(mode);
}

/// Both kinds of pool, all ways to call them; `f` gets the results.
template <class F>
void each_pool(const Array& x, PerAxis window, const stiletto::AvgPoolOptions& o, F f) {
  const stiletto::PoolOptions options{o.stride, o.pre_padding, o.post_padding};
  for (Mode mode : modes) {
    f(true, [&] {
      return run([&](const Arrays& a) { return stiletto::max_pool(a[0], window, options); }, {x}, mode);
    });
    f(false,
      [&] { return run([&](const Arrays& a) { return stiletto::avg_pool(a[0], window, o); }, {x}, mode); });
  }
}

TEST(PublicCases, case_4) {
  const Array x = stiletto::zeros({0, 1, 10, 10}, f32, device()), w = ones({3, 1, 2, 2});
  const auto check = [&](int) {
    for (Mode mode : modes) {
      const Array y = convolved(x, w, {}, mode);
      EXPECT_EQ(y.shape(), Dims({0, 3, 9, 9}));
      EXPECT_EQ(y.dtype(), f32);
    }
  };
  check(0);
  together(check);
}

TEST(PublicCases, case_10) {
  const Array image = to_array(counting({1, 1, 5, 5})), w = ones({1, 1, 3, 3});
  const Tensor expected = tabulate(
      f32, {1, 1, 3, 3}, [](const Extents& i) { return static_cast<Real>(54 + 45 * i[2] + 9 * i[3]); });
  stiletto::plan_cache().clear();
  const std::size_t misses = stiletto::plan_cache().misses();
  for (std::int64_t batch : {0, 1, 7777, 25})
    for (std::int64_t channel : {0, 1, 7777, 25}) {
      const Array x = stiletto::as_strided(image, {1, 1, 5, 5}, {batch, channel, 5, 1});
      EXPECT_TRUE(agrees(convolved(x, w, {}), expected, {.exact = true})) << batch << " " << channel;
    }
  EXPECT_EQ(stiletto::plan_cache().misses() - misses, 1U);
  EXPECT_EQ(stiletto::plan_cache().entries(), 1U);
}

TEST(PublicCases, case_58) {
  const Tensor expected = tabulate(
      f32, {1, 1, 9, 9}, [](const Extents& i) -> Real { return (i[2] == 0 ? 2 : 3) * (i[3] == 0 ? 2 : 3); });
  expect_conv(filled({1, 1, 10, 10}, 1), filled({1, 1, 3, 3}, 1), {.pre_padding = 1, .post_padding = 0},
              expected);
  Real sum = 0;
  for (const Real value : expected.values) sum += value;
  EXPECT_EQ(sum, 676);
}

TEST(PublicCases, case_59) {
  expect_conv(
      counting({1, 1, 8, 8}), filled({1, 1, 3, 3}, 1), {.stride = 2, .pre_padding = 1, .post_padding = 0},
      Tensor(f32, {1, 1, 4, 4}, {18, 36, 48, 60, 99, 162, 180, 198, 195, 306, 324, 342, 291, 450, 468, 486}));
}

TEST(PublicCases, case_60) {
  const Tensor w = filled({1, 1, 7, 1}, 1);
  const Real column[] = {2, 3, 3, 3, 3, 3, 2};
  const auto inside = [](const Extents& i) { return i[3] >= 5 && i[3] < 10; };
  expect_conv(filled({1, 1, 3, 5}, 1), w, {.pre_padding = 5},
              tabulate(f32, {1, 1, 7, 15}, [&](const Extents& i) { return inside(i) ? column[i[2]] : 0; }));
  expect_conv(filled({1, 1, 1, 5}, 1), w, {.pre_padding = 5},
              tabulate(f32, {1, 1, 5, 15}, [&](const Extents& i) -> Real { return inside(i); }));
}

TEST(PublicCases, case_61) {
  expect_conv(counting({1, 1, 5, 12}), filled({1, 1, 2, 3}, 1), {.dilation = {1, 4}},
              Tensor(f32, {1, 1, 4, 4},
                     {60, 66, 72, 78, 132, 138, 144, 150, 204, 210, 216, 222, 276, 282, 288, 294}));
}

TEST(PublicCases, case_63) {
  const Array x = ones({1, 4, 5, 5}), bias = ones({4, 1, 1});
  const Array w = to_array(filled({4, 1, 3, 3}, round_float(1 / 9.0L, f32)));
  const auto inside = [](std::int64_t i) { return i == 2 ? 3 : 2; };
  const Tensor expected = tabulate(
      f32, {1, 4, 5, 5}, [&](const Extents& i) { return 1 + inside(i[2]) * inside(i[3]) / Real{9}; });
  for (Mode mode : modes) {
    const Array y = run(
        [](const Arrays& a) { return stiletto::conv(a[0], a[1], {.dilation = 2, .pre_padding = 2}) + a[2]; },
        {x, w, bias}, mode);
    EXPECT_TRUE(agrees(y, expected, {.terms = 9, .factor = device().is_cuda() ? Real{300} : Real{1}}));
  }
}

TEST(PublicCases, case_64) {
  const auto line = [](std::int64_t c, std::int64_t l) -> Real { return l < 0 || l > 31 ? 0 : c + l; };
  const Tensor x = tabulate(f32, {1, 32, 32}, [&](const Extents& i) { return line(i[1], i[2]); });
  const Tensor w =
      tabulate(f32, {32, 1, 3}, [](const Extents& i) -> Real { return std::int64_t{1} << i[2]; });
  const Tensor expected = tabulate(f32, {1, 32, 32}, [&](const Extents& i) {
    return line(i[1], i[2] - 1) + 2 * line(i[1], i[2]) + 4 * line(i[1], i[2] + 1);
  });
  ASSERT_EQ(expected.at({0, 5, 9}), 7 * 5 + 7 * 9 + 3);
  expect_conv(x, w, {.pre_padding = 1}, expected);
}

TEST(PublicCases, case_66) {
  const Array x = ones({1, 1, 2, 2}), w = ones({2, 1, 3, 3});
  for (Mode mode : modes)
    EXPECT_TRUE(throws<ShapeError>([&] { convolved(x, w, {}, mode); },
                                   {"conv", "reaches over 3 elements", "padded extent 2"}));
}

TEST(PublicCases, case_67) {
  const Array x = ones({1, 1, 20, 20}), w = ones({1, 1, 2, 2});
  for (Mode mode : modes) {
    EXPECT_TRUE(
        throws<ShapeError>([&] { convolved(x, w, {.pre_padding = -1}, mode); }, {"pre_padding", "-1"}));
    EXPECT_TRUE(
        throws<ShapeError>([&] { convolved(x, w, {.post_padding = -1}, mode); }, {"post_padding", "-1"}));
  }
  each_pool(x, 2, {.pre_padding = -1}, [](bool, const auto& pool) {
    EXPECT_TRUE(throws<ShapeError>(pool, {"_pool", "pre_padding", "-1"}));
  });
}

/// The number of groups follows from the extents: none, or 3 of 4 channels, would be such a w.
TEST(PublicCases, case_68) {
  const Array x = ones({1, 4, 8, 8}), w = ones({6, 4, 3, 3});
  for (Mode mode : modes) {
    EXPECT_TRUE(throws<ShapeError>([&] { convolved(x, w, {.dilation = 0}, mode); }, {"dilation is (0, 0)"}));
    EXPECT_TRUE(throws<ShapeError>([&] { convolved(x, w, {.stride = 0}, mode); }, {"stride is (0, 0)"}));
    EXPECT_TRUE(throws<ShapeError>([&] { convolved(x, ones({6, 0, 3, 3}), {}, mode); }, {"(6, 0, 3, 3)"}));
    EXPECT_TRUE(
        throws<ShapeError>([&] { convolved(x, ones({6, 3, 3, 3}), {}, mode); }, {"4 channels", "groups"}));
    EXPECT_TRUE(
        throws<ShapeError>([&] { convolved(x, ones({3, 2, 3, 3}), {}, mode); }, {"4 channels", "groups"}));
  }
}

TEST(PublicCases, case_69) {
  Tensor x = filled({1, 1, 8, 8}, 1), w = filled({1, 1, 3, 3}, 1);
  w.values[4] = not_a_number;
  expect_conv(x, w, {}, filled({1, 1, 6, 6}, not_a_number), {});
  w.values[4] = 1;
  x.values[4 * 8 + 4] = not_a_number;
  expect_conv(x, w, {},
              tabulate(f32, {1, 1, 6, 6},
                       [](const Extents& i) {
                         return i[2] >= 2 && i[2] <= 4 && i[3] >= 2 && i[3] <= 4 ? not_a_number : 9;
                       }),
              {});
}

TEST(PublicCases, case_71) {
  Random random(71);
  const auto whole = [&] { return static_cast<Real>(random.below(7) - 3); };
  const Tensor x =
      tabulate(f32, {1, 6, 14, 14}, [&](const Extents&) { return round_float(whole() * 1e35L, f32); });
  const Tensor w = tabulate(f32, {16, 6, 5, 5}, [&](const Extents&) { return whole() / 512; });
  const Tensor expected = conv_reference(f32, x, w, {{5, 5}, {1, 1}, {1, 1}, {0, 0}, {0, 0}});
  expect_conv(x, w, {}, expected, {.factor = 1000});
}

TEST(PublicCases, case_72) {
  const auto twice = [](const Arrays& a) { return stiletto::conv(stiletto::conv(a[0], a[1]), a[2]); };
  const Arrays arrays{ones({1, 1, 8, 8}), ones({1, 1, 3, 3}), ones({1, 1, 3, 3})};
  const Tensor expected = filled({1, 1, 4, 4}, 81);
  EXPECT_TRUE(agrees(run(twice, arrays, Mode::eager), expected, {.exact = true}));
  for (Mode mode : {Mode::jit, Mode::compiled}) {
    if (device().is_cuda())
      EXPECT_TRUE(throws<stiletto::UnsupportedGraphError>([&] { run(twice, arrays, mode); },
                                                          {"conv and conv in one graph"}));
    else
      EXPECT_TRUE(agrees(run(twice, arrays, mode), expected, {.exact = true}));
  }
}

TEST(PublicCases, case_73) {
  const Tensor x = tabulate(f32, {2, 8, 3, 3, 3}, [](const Extents& i) { return static_cast<Real>(i[1]); });
  expect_conv(x, filled({4, 4, 1, 1, 1}, 1), {},
              tabulate(f32, {2, 4, 3, 3, 3}, [](const Extents& i) -> Real { return i[1] < 2 ? 6 : 22; }));
}

/// Strides keep the work small: what is computed is the last pixel, and three more. tests/device computes
/// all.
TEST(PublicCases, case_74) {
  if (device().is_cuda()) GTEST_SKIP() << "tests/device has this case with every pixel";
  constexpr std::int64_t channels = 128, height = 4096, width = 4100, bytes = 2;
  const SparseMemory memory(std::size_t{channels} * height * width * bytes);
  if (!memory) GTEST_SKIP() << "this machine does not promise 4 GiB that are not used";
  for (std::int64_t c = 0; c < channels; ++c)
    for (std::int64_t y : {std::int64_t{0}, height - 1})
      for (std::int64_t x : {std::int64_t{0}, width - 1})
        store(memory.data(), (c * height + y) * width + x, f16, 1);
  const Array w = stiletto::full({1, channels, 1, 1}, 1.0 / channels, f16);
  const Array corners =
      stiletto::slice(memory.array({1, channels, height, width}, f16),
                      {Slice{}, Slice{}, Slice{.step = height - 1}, Slice{.step = width - 1}});
  for (Mode mode : modes)
    EXPECT_TRUE(equals(convolved(corners, w, {}, mode), f16, {1, 1, 2, 2}, {1, 1, 1, 1}));
}

TEST(PublicCases, case_75) {
  const Array x = to_array(filled({1, 1, 4, 4}, -1));
  for (const bool include : {true, false})
    each_pool(
        x, 2, {.stride = 2, .pre_padding = 1, .include_padding = include}, [&](bool max, const auto& pool) {
          if (max || !include)
            EXPECT_TRUE(agrees(pool(), filled({1, 1, 3, 3}, -1), {.exact = true}));
          else
            EXPECT_TRUE(
                equals(pool(), f32, {1, 1, 3, 3}, {-0.25, -0.5, -0.25, -0.5, -1, -0.5, -0.25, -0.5, -0.25}));
        });
}

TEST(PublicCases, case_76) {
  each_pool(to_array(filled({1, 1, 2, 2}, -1)), 2, {.stride = 2, .pre_padding = 1},
            [](bool, const auto& pool) { EXPECT_TRUE(equals(pool(), f32, {1, 1, 2, 2}, {-1, -1, -1, -1})); });
}

TEST(PublicCases, case_77) {
  each_pool(ones({1, 1, 1, 1}), 3, {.stride = 3, .pre_padding = 3}, [](bool max, const auto& pool) {
    EXPECT_TRUE(throws<ShapeError>(
        pool, {max ? "max_pool" : "avg_pool", "padding (3, 3)", "smaller than the window"}));
  });
}

/// There is no option that rounds the number of windows up.
TEST(PublicCases, case_79) {
  each_pool(
      to_array(Tensor(f32, {1, 1, 5}, {1, 2, 3, 4, 5})), 2, {.stride = 2}, [](bool max, const auto& pool) {
        EXPECT_TRUE(
            equals(pool(), f32, {1, 1, 2}, max ? std::vector<Real>{2, 4} : std::vector<Real>{1.5, 3.5}));
      });
}

TEST(PublicCases, case_82) {
  each_pool(ones({1, 1, 1, 1, 1, 1}), 1, {}, [](bool max, const auto& pool) {
    EXPECT_TRUE(
        throws<ShapeError>(pool, {max ? "max_pool" : "avg_pool", "(1, 1, 1, 1, 1, 1)", "1 to 3 spatial"}));
  });
}

/// With the channels innermost in memory.
Array channels_last(const Tensor& x) {
  return stiletto::transpose(to_array(transposed(x, {0, 2, 3, 1})), {0, 3, 1, 2});
}

TEST(PublicCases, case_116) {
  const Tensor x = tabulate(f32, {2, 8, 6, 6}, [](const Extents& i) {
    return static_cast<Real>((i[0] * 5 + i[1] * 3 + i[2] * 2 + i[3]) % 7 - 3);
  });
  const Tensor w = tabulate(f32, {4, 8, 3, 3}, [](const Extents& i) {
    return static_cast<Real>((i[0] + i[1] * 2 + i[2] * 3 + i[3]) % 5 - 2);
  });
  const Tensor expected = conv_reference(f32, x, w, {{3, 3}, {1, 1}, {1, 1}, {0, 0}, {0, 0}});
  const std::pair<Array, Array> layouts[] = {
      {to_array(x), to_array(w)}, {to_array(x), channels_last(w)}, {channels_last(x), to_array(w)}};
  stiletto::plan_cache().clear();
  const std::size_t misses = stiletto::plan_cache().misses();
  std::size_t computed = 0;
  for (int round = 0; round < 2; ++round)
    for (const auto& [image, window] : layouts)
      computed += right_or_refused(
          [&, &a = image, &b = window] {
            EXPECT_TRUE(agrees(convolved(a, b, {}), expected, {.exact = true}));
          },
          {"conv", "strides"});
  EXPECT_GE(computed, 2U) << "the plain layout is computed everywhere";
  if (computed == 6) {
    EXPECT_EQ(stiletto::plan_cache().misses() - misses, 3U);
    EXPECT_EQ(stiletto::plan_cache().entries(), 3U);
  }
}

TEST(PublicCases, case_131) {
  const auto x_at = [](std::int64_t n, std::int64_t c, std::int64_t i, std::int64_t j) {
    return static_cast<Real>((n + 3 * c + 5 * i + 7 * j) % 5 - 2);
  };
  const auto w_at = [](std::int64_t k, std::int64_t c, std::int64_t i, std::int64_t j) {
    return static_cast<Real>((k + c + 2 * i + j) % 3 - 1);
  };
  const Array x = to_array(
      tabulate(f32, {8, 64, 56, 56}, [&](const Extents& i) { return x_at(i[0], i[1], i[2], i[3]); }));
  const Array w =
      to_array(tabulate(f32, {64, 64, 3, 3}, [&](const Extents& i) { return w_at(i[0], i[1], i[2], i[3]); }));
  const auto expected = [&](const Extents& at) {
    Real sum = 0;
    for_each_index({64, 3, 3}, [&](const Extents& i) {
      sum += x_at(at[0], i[0], at[2] + i[1], at[3] + i[2]) * w_at(at[1], i[0], i[1], i[2]);
    });
    return sum;
  };
  const auto f = [](const Array& a, const Array& b) { return stiletto::conv(a, b); };
  for (const std::optional<std::size_t> limit :
       {std::optional<std::size_t>(0), std::optional<std::size_t>(1 << 20), std::optional<std::size_t>()}) {
    SCOPED_TRACE(limit ? std::to_string(*limit) : "unlimited");
    const auto check = [&] {
      const auto compiled = stiletto::compile({.max_workspace = limit}, f, x, w);
      if (limit) {
        EXPECT_LE(compiled.workspace(), *limit);
      }
      const Tensor y = read(compiled(x, w));
      ASSERT_EQ(y.shape, Extents({8, 64, 54, 54}));
      Random random(131);
      for (int i = 0; i < 200; ++i) {
        const Extents at{random.below(8), random.below(64), random.below(54), random.below(54)};
        EXPECT_EQ(y.at(at), expected(at)) << describe(at);
      }
    };
    right_or_refused(check, {"max_workspace", limit ? std::to_string(*limit) : ""});
  }
}

}  // namespace
