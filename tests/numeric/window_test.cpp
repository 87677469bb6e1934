// SPDX-License-Identifier: Apache-2.0
// conv, its gradients, max_pool and avg_pool over types, layouts (both memory orders among them), one to
// three spatial axes, groups, strides, dilations and uneven padding; operations behind them; the callers'
// arrays.
#include <gtest/gtest.h>

#include "support/cases.hpp"
#include "support/window_reference.hpp"

namespace {

using namespace support;

stiletto::PerAxis per_axis(const Extents& values) {
  if (values.size() == 1) return {values[0]};
  if (values.size() == 2) return {values[0], values[1]};
  return {values[0], values[1], values[2]};
}

struct Shapes {
  Extents x, w;  // w: (out, in per group, window…)
  Extents stride, dilation, pre, post;
  Windows windows() const { return {spatial_of(w), stride, dilation, pre, post}; }
  stiletto::ConvOptions options() const {
    return {per_axis(stride), per_axis(dilation), per_axis(pre), per_axis(post)};
  }
};

const std::vector<Shapes> shape_list = {
    {{2, 3, 11}, {5, 3, 3}, {1}, {1}, {0}, {0}},
    {{1, 4, 9}, {4, 1, 3}, {1}, {2}, {4}, {0}},  // depthwise, causal
    {{2, 8, 7, 9}, {16, 8, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {{1, 6, 10, 7}, {4, 3, 3, 2}, {2, 1}, {1, 2}, {1, 0}, {0, 2}},
    {{3, 5, 6, 6}, {7, 5, 1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}},
    {{1, 8, 5, 5}, {8, 1, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {{1, 2, 1, 1}, {3, 2, 1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}},
    {{1, 2, 5, 4, 6}, {4, 2, 3, 2, 3}, {1, 2, 1}, {1, 1, 2}, {1, 0, 1}, {1, 1, 0}},
    {{0, 3, 5, 5}, {2, 3, 3, 3}, {1, 1}, {1, 1}, {0, 0}, {0, 0}},
    {{2, 16, 20, 20}, {24, 16, 5, 5}, {2, 2}, {1, 1}, {2, 2}, {2, 2}}};

/// With the channels innermost in memory.
Operand channels_last(Random& random, DType dtype, const Extents& shape, Range range) {
  Extents memory{shape[0]};
  memory.insert(memory.end(), shape.begin() + 2, shape.end());
  memory.push_back(shape[1]);
  Operand o = operand(random, dtype, memory, Layout::contiguous, range);
  std::vector<std::size_t> axes{0, shape.size() - 1};
  for (std::size_t i = 1; i + 1 < shape.size(); ++i) axes.push_back(i);
  o.values = transposed(o.values, axes);
  o.array = stiletto::transpose(o.array, dims(Extents(axes.begin(), axes.end())));
  return o;
}
Operand image(Random& random, DType dtype, const Extents& shape, int layout) {
  const Range range = is_exact(dtype) ? Range{0, 9} : Range{-2, 2};
  if (layout == 0) return channels_last(random, dtype, shape, range);
  return operand(random, dtype, shape, layouts[static_cast<std::size_t>(layout - 1)], range);
}
constexpr int image_layouts = static_cast<int>(std::size(layouts)) + 1;

std::string describe(const Shapes& s, DType dtype, int layout) {
  return std::string("\n  in ") + stiletto::to_string(dtype) + " x " + support::describe(s.x) + " w " +
         support::describe(s.w) + " stride " + support::describe(s.stride) + " dilation " +
         support::describe(s.dilation) + " padding " + support::describe(s.pre) + support::describe(s.post) +
         (layout == 0 ? " channels last"
                      : std::string(" ") + to_string(layouts[static_cast<std::size_t>(layout - 1)]));
}

Real terms_of(const Shapes& s) { return static_cast<Real>(count_of(s.w) / s.w[0]); }

template <class F>
testing::AssertionResult guarded(const std::string& where, const F& f) {
  try {
    return f() << where;
  } catch (const std::exception& error) {
    return testing::AssertionFailure() << "threw: " << error.what() << where;
  }
}

class Windowed : public testing::TestWithParam<DType> {};

TEST_P(Windowed, conv) {
  Failures failures;
  Random random(81);
  const DType dtype = GetParam(), result = is_exact(dtype) ? DType::int32 : dtype;
  int number = 0;
  for (const Shapes& s : shape_list)
    for (int layout = 0; layout < image_layouts; ++layout) {
      const Operand x = image(random, dtype, s.x, layout), w = image(random, dtype, s.w, layout % 3);
      const Mode mode = ++number % 5 == 0 ? Mode::eager : number % 5 == 1 ? Mode::compiled : Mode::jit;
      const auto check = [&] {
        const Array y =
            run([&](const std::vector<Array>& a) { return stiletto::conv(a[0], a[1], s.options()); },
                {x.array, w.array}, mode);
        return agrees(y, conv_reference(result, x.values, w.values, s.windows()), {.terms = terms_of(s)});
      };
      if (!failures.expect(guarded(describe(s, dtype, layout), check))) return;
    }
}

TEST_P(Windowed, gradients_of_conv) {
  if (is_exact(GetParam())) return;  // refused: see the error texts
  Failures failures;
  Random random(82);
  const DType dtype = GetParam();
  for (const Shapes& s : shape_list)
    for (int layout = 0; layout < 3; ++layout) {
      const Operand x = image(random, dtype, s.x, layout), w = image(random, dtype, s.w, layout),
                    d_y = image(random, dtype, conv_shape(s.x, s.w, s.windows()), layout);
      const auto data = [&] {
        const Array dx = run(
            [&](const std::vector<Array>& a) {
              return stiletto::conv_backward_data(a[0], a[1], dims(s.x), s.options());
            },
            {d_y.array, w.array}, Mode::jit);
        return agrees(dx, conv_data_reference(d_y.values, w.values, s.x, s.windows()),
                      {.terms = terms_of(s) * 4});
      };
      const auto filter = [&] {
        const Array dw = run(
            [&](const std::vector<Array>& a) {
              return stiletto::conv_backward_filter(a[0], a[1], dims(s.w), s.options());
            },
            {d_y.array, x.array}, Mode::jit);
        return agrees(dw, conv_filter_reference(d_y.values, x.values, s.w, s.windows()),
                      {.terms = std::fmax(static_cast<Real>(count_of(d_y.values.shape)), 1)});
      };
      if (!failures.expect(guarded(" data" + describe(s, dtype, layout), data))) return;
      if (!failures.expect(guarded(" filter" + describe(s, dtype, layout), filter))) return;
    }
}

TEST_P(Windowed, operations_behind_conv) {
  if (is_exact(GetParam())) return;
  Random random(83);
  const Shapes& s = shape_list[2];
  const Operand x = image(random, GetParam(), s.x, 0), w = image(random, GetParam(), s.w, 0),
                bias = operand(random, GetParam(), {16, 1, 1}, Layout::contiguous, {-1, 1});
  Tensor y = conv_reference(GetParam(), x.values, w.values, s.windows());
  for_each_index(y.shape, [&](const Extents& at) {
    Real& value = y.values[flat(at, y)];
    value = std::fmax(value + bias.values.values[static_cast<std::size_t>(at[1])], 0);
  });
  const Array made = run(
      [&](const std::vector<Array>& a) {
        return stiletto::relu(stiletto::conv(a[0], a[1], s.options()) + a[2]);
      },
      {x.array, w.array, bias.array}, Mode::jit);
  EXPECT_TRUE(agrees(made, y, {.terms = terms_of(s)}));
  EXPECT_EQ(made.strides()[1], 1) << "the result is channels-last, as x is";
}

TEST_P(Windowed, pools) {
  Failures failures;
  Random random(84);
  const DType dtype = GetParam();
  const std::vector<Shapes> shapes = {
      {{2, 3, 11}, {1, 1, 3}, {3}, {1}, {0}, {0}},
      {{2, 5, 8, 9}, {1, 1, 2, 3}, {2, 1}, {1, 1}, {1, 0}, {0, 2}},
      {{1, 8, 6, 6}, {1, 1, 2, 2}, {2, 2}, {1, 1}, {0, 0}, {0, 0}},
      {{1, 2, 5, 4, 6}, {1, 1, 2, 2, 3}, {2, 2, 1}, {1, 1, 1}, {1, 0, 2}, {0, 1, 1}}};
  for (const Shapes& s : shapes)
    for (int layout = 0; layout < image_layouts; ++layout)
      for (const Pool kind : {Pool::max, Pool::average, Pool::average_with_padding}) {
        if (is_exact(dtype) && kind != Pool::max) continue;
        Operand x = image(random, dtype, s.x, layout);
        const auto check = [&] {
          const Array y = run(
              [&](const std::vector<Array>& a) {
                const auto window = per_axis(spatial_of(s.w)), stride = per_axis(s.stride),
                           pre = per_axis(s.pre), post = per_axis(s.post);
                if (kind == Pool::max) return stiletto::max_pool(a[0], window, {stride, pre, post});
                return stiletto::avg_pool(a[0], window,
                                          {stride, pre, post, kind == Pool::average_with_padding});
              },
              {x.array}, layout % 2 == 0 ? Mode::jit : Mode::eager);
          return agrees(y, pool_reference(kind, x.values, s.windows()), {.terms = 9});
        };
        if (!failures.expect(guarded(describe(s, dtype, layout), check))) return;
      }
}

INSTANTIATE_TEST_SUITE_P(Types, Windowed,
                         testing::Values(DType::int8, DType::float16, DType::bfloat16, DType::float32,
                                         DType::float64),
                         [](const auto& info) { return std::string(stiletto::to_string(info.param)); });

TEST(Window, not_a_number_wins_and_padding_never_does) {
  const Array x = to_array(Tensor(DType::float32, {1, 1, 4}, {-3, not_a_number, -1, -infinity}));
  // A window of -infinity only is the lowest number to cuDNN.
  const Real least = device().is_cpu() ? -infinity : Real{std::numeric_limits<float>::lowest()};
  EXPECT_TRUE(equals(stiletto::max_pool(x, 2, {.stride = 1, .pre_padding = 1}), DType::float32, {1, 1, 5},
                     {-3, not_a_number, not_a_number, -1, least}));
}

TEST(Window, into_the_callers_array_of_another_type) {
  Random random(85);
  const Shapes& s = shape_list[2];
  const Operand x = image(random, DType::float16, s.x, 1), w = image(random, DType::float16, s.w, 1);
  const Tensor y = conv_reference(DType::float32, x.values, w.values, s.windows());
  const Array to = stiletto::zeros(dims(y.shape), DType::float32, device());
  stiletto::conv_into(to, x.array, w.array, s.options());
  EXPECT_TRUE(agrees(to, y, {.terms = terms_of(s), .factor = device().is_cpu() ? Real{1} : Real{1000}}));
}

}  // namespace
