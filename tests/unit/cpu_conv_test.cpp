// SPDX-License-Identifier: Apache-2.0
// The CPU's convolution and its gradients against sums over the window in float64: dtypes, layouts, groups,
// strides, dilation, uneven padding, one to three spatial axes, special values, and one thread against many.
#include <gtest/gtest.h>

#include "structured_support.hpp"

namespace stiletto::detail::cpu::test {
namespace {

struct Case {
  Shape x, w;
  ConvAttributes attributes;

  std::int64_t groups() const { return x[1] / w[1]; }
  Shape y() const {
    Shape y{x[0], w[0]};
    for (std::size_t axis = 0; axis < attributes.stride.size(); ++axis) {
      const std::int64_t reach = attributes.dilation[axis] * (w[2 + axis] - 1) + 1;
      const std::int64_t padded = x[2 + axis] + attributes.pre_padding[axis] + attributes.post_padding[axis];
      y.push_back((padded - reach) / attributes.stride[axis] + 1);
    }
    return y;
  }
  double terms() const {
    double terms = static_cast<double>(w[1]);
    for (std::size_t axis = 2; axis < w.size(); ++axis) terms *= static_cast<double>(w[axis]);
    return terms;
  }
};

std::int64_t extent(const Shape& shape, std::size_t axis) { return axis < shape.size() ? shape[axis] : 1; }
std::int64_t setting(const Dims& dims, std::size_t axis, std::int64_t otherwise) {
  return axis < dims.size() ? dims[axis] : otherwise;
}

std::int64_t flat(const Shape& shape, std::int64_t first, std::int64_t second, const std::int64_t (&at)[3]) {
  std::int64_t index = first * shape[1] + second;
  for (std::size_t axis = 0; axis < 3; ++axis) index = index * extent(shape, 2 + axis) + at[axis];
  return index;
}

/// f(index in x, in w) for every product that an element of y is the sum of.
template <class F>
void for_each_product_of(const Case& c, std::int64_t output, const F& f) {
  const Shape y = c.y();
  std::int64_t out[3], rest = output;
  for (std::size_t axis = 3; axis-- > 0; rest /= extent(y, 2 + axis)) out[axis] = rest % extent(y, 2 + axis);
  const std::int64_t n = rest / y[1], k = rest % y[1], group = k / (y[1] / c.groups());
  const std::int64_t window = extent(c.w, 2) * extent(c.w, 3) * extent(c.w, 4);
  for (std::int64_t tap = 0; tap < window; ++tap) {
    std::int64_t in[3], element[3], rest_tap = tap;
    bool inside = true;
    for (std::size_t axis = 3; axis-- > 0; rest_tap /= extent(c.w, 2 + axis)) {
      element[axis] = rest_tap % extent(c.w, 2 + axis);
      in[axis] = out[axis] * setting(c.attributes.stride, axis, 1) -
                 setting(c.attributes.pre_padding, axis, 0) +
                 element[axis] * setting(c.attributes.dilation, axis, 1);
      inside = inside && in[axis] >= 0 && in[axis] < extent(c.x, 2 + axis);
    }
    for (std::int64_t channel = 0; inside && channel < c.w[1]; ++channel)
      f(flat(c.x, n, group * c.w[1] + channel, in), flat(c.w, k, channel, element));
  }
}

enum class Kind { forward, data, filter };

Values reference(const Case& c, Kind kind, const Values& a, const Values& b) {
  const Shape result = kind == Kind::forward ? c.y() : kind == Kind::data ? c.x : c.w;
  Values sums(static_cast<std::size_t>(element_count_unchecked(result)));
  for (std::int64_t y = 0; y < element_count_unchecked(c.y()); ++y)
    for_each_product_of(c, y, [&](std::int64_t in, std::int64_t weight) {
      const auto X = static_cast<std::size_t>(in), W = static_cast<std::size_t>(weight),
                 Y = static_cast<std::size_t>(y);
      if (kind == Kind::forward) sums[Y] += a[X] * b[W];
      if (kind == Kind::data) sums[X] += a[Y] * b[W];
      if (kind == Kind::filter) sums[W] += a[Y] * b[X];
    });
  return sums;
}

constexpr Kernel kernels_of[] = {conv, conv_backward_data, conv_backward_filter};

void check(const Case& c, Kind kind, Tensor a, Tensor b, DType result_type, Layout result_layout) {
  const Shape shape = kind == Kind::forward ? c.y() : kind == Kind::data ? c.x : c.w;
  Tensor result(result_type, shape, result_layout);
  run_both(kernels_of[static_cast<int>(kind)], c.attributes, {a.view(), b.view()}, {&result});
  double terms = c.terms();
  if (kind != Kind::forward) terms = static_cast<double>(element_count_unchecked(c.y()));
  double allowed = tolerance(result_type, terms);
  if (kind == Kind::filter) allowed = std::max(allowed, result_type == DType::float32 ? 1e-5 : 0);
  expect_near(result, reference(c, kind, a.values(), b.values()), allowed, to_string(a.dtype()));
}

void check_all(const Case& c, DType dtype, Random& random, Layout x, Layout w, Layout y) {
  SCOPED_TRACE(testing::Message() << "x " << c.x << " w " << c.w << " layouts " << static_cast<int>(x)
                                  << static_cast<int>(w) << static_cast<int>(y));
  const bool integers = is_integer(dtype);
  const Layout written = y == Layout::broadcast ? Layout::row_major : y;
  const Layout written_x = x == Layout::broadcast ? Layout::gaps : x;
  const Layout written_w = w == Layout::broadcast ? Layout::gaps : w;
  check(c, Kind::forward, random.tensor(dtype, c.x, x), random.tensor(dtype, c.w, w),
        integers ? DType::int32 : dtype, written);
  if (integers) return;
  check(c, Kind::data, random.tensor(dtype, c.y(), y), random.tensor(dtype, c.w, w), dtype, written_x);
  check(c, Kind::filter, random.tensor(dtype, c.y(), y), random.tensor(dtype, c.x, x), dtype, written_w);
}

constexpr DType all_dtypes[] = {DType::float32, DType::float16, DType::bfloat16,
                                DType::float64, DType::int8,    DType::uint8};

Case random_case(Random& random, std::size_t axes, std::int64_t groups, std::int64_t in, std::int64_t out) {
  Case c{{random.between(1, 3), groups * in}, {groups * out, in}, {}};
  for (std::size_t axis = 0; axis < axes; ++axis) {
    const std::int64_t window = random.between(1, 3), dilation = random.between(1, 2);
    c.attributes.stride.push_back(random.between(1, 3));
    c.attributes.dilation.push_back(dilation);
    c.attributes.pre_padding.push_back(random.between(0, window));
    c.attributes.post_padding.push_back(random.between(0, window));
    c.x.push_back(random.between(dilation * (window - 1) + 1, axes == 3 ? 6 : 11));
    c.w.push_back(window);
  }
  return c;
}

TEST(CpuConv, EveryDtypeLayoutAndRank) {
  Random random(1);
  for (const DType dtype : all_dtypes)
    for (std::size_t axes = 1; axes <= 3; ++axes)
      for (const Layout x : all_layouts)
        for (const Layout y : writable_layouts) {
          const Layout w = all_layouts[random.between(0, 4)];
          check_all(random_case(random, axes, 1, random.between(1, 5), random.between(1, 5)), dtype, random,
                    x, w, y);
          if (testing::Test::HasFatalFailure()) return;
        }
}

TEST(CpuConv, Groups) {
  Random random(2);
  for (const DType dtype : all_dtypes)
    for (const std::int64_t groups : {2, 5, 16})
      for (const std::int64_t each : {1, 2, 16})
        for (const Layout layout : {Layout::row_major, Layout::channels_last}) {
          check_all(random_case(random, 2, groups, each, each), dtype, random, layout, Layout::row_major,
                    layout);
          if (testing::Test::HasFatalFailure()) return;
        }
}

// Shapes that fast implementations take, in both memory orders, cut into several tasks.
TEST(CpuConv, Large) {
  Random random(3);
  const ConvAttributes same{{1, 1}, {1, 1}, {1, 1}, {1, 1}}, strided{{2, 2}, {1, 1}, {1, 1}, {1, 0}};
  const Case cases[] = {{{3, 16, 17, 19}, {48, 16, 3, 3}, same},
                        {{1, 64, 12, 10}, {32, 64, 3, 3}, strided},
                        {{1, 3, 40, 40}, {16, 3, 3, 3}, same},
                        {{2, 64, 30, 30}, {64, 1, 3, 3}, same},
                        {{3, 17, 20, 20}, {33, 17, 1, 1}, {{1, 1}, {1, 1}, {0, 0}, {0, 0}}}};
  for (const Case& c : cases)
    for (const DType dtype : {DType::float32, DType::bfloat16, DType::float64})
      for (const Layout layout : {Layout::row_major, Layout::channels_last}) {
        check_all(c, dtype, random, layout, layout, layout);
        if (testing::Test::HasFatalFailure()) return;
      }
}

TEST(CpuConv, MixedDtypesAndWiderResults) {
  Random random(4);
  const Case c{{2, 4, 9, 9}, {6, 4, 3, 3}, {{1, 1}, {1, 1}, {1, 1}, {1, 1}}};
  const auto run = [&](DType a, DType b, DType result) {
    check(c, Kind::forward, random.tensor(a, c.x), random.tensor(b, c.w), result, Layout::row_major);
  };
  run(DType::float16, DType::float32, DType::float32);
  run(DType::bfloat16, DType::bfloat16, DType::float32);
  run(DType::bfloat16, DType::float16, DType::float32);
  run(DType::float32, DType::float64, DType::float64);
  run(DType::int8, DType::float32, DType::float32);
  run(DType::int8, DType::uint8, DType::int32);
  run(DType::uint8, DType::int8, DType::int32);
  run(DType::int32, DType::int8, DType::int32);
  run(DType::int64, DType::int32, DType::int64);
}

// Samples so large that tasks take some of their rows: outputs here and there.
TEST(CpuConv, PartsOfSamples) {
  Random random(7);
  const Case cases[] = {
      {{1, 64, 66, 64}, {96, 64, 3, 3}, {{1, 1}, {1, 1}, {1, 1}, {1, 1}}},
      {{2, 64, 131, 40}, {96, 64, 3, 3}, {{2, 1}, {3, 1}, {4, 0}, {2, 1}}},
      {{1, 32, 12, 20, 18}, {64, 32, 3, 3, 3}, {{1, 1, 1}, {1, 1, 1}, {1, 1, 0}, {1, 1, 0}}}};
  for (const Case& c : cases)
    for (const Layout layout : {Layout::row_major, Layout::channels_last}) {
      Tensor x = random.tensor(DType::float32, c.x, layout), w = random.tensor(DType::float32, c.w);
      Tensor y(DType::float32, c.y(), layout);
      run_both(conv, c.attributes, {x.view(), w.view()}, {&y});
      for (int i = 0; i < 300; ++i) {
        const std::int64_t at = random.between(0, y.size() - 1);
        double sum = 0;
        for_each_product_of(c, at,
                            [&](std::int64_t in, std::int64_t weight) { sum += x.get(in) * w.get(weight); });
        ASSERT_NEAR(y.get(at), sum, 1e-3) << c.x << " at " << at;
      }
    }
}

// A NaN reaches the outputs whose windows hold it and no others; padding multiplies nothing.
TEST(CpuConv, SpecialValues) {
  Random random(5);
  const Case c{{2, 16, 12, 12}, {16, 16, 3, 3}, {{1, 1}, {1, 1}, {1, 1}, {1, 1}}};
  for (const DType dtype : {DType::float32, DType::float16, DType::float64})
    for (const double special : {not_a_number, infinity}) {
      Tensor x = random.tensor(dtype, c.x), w = random.tensor(dtype, c.w);
      x.set(30, special);
      check(c, Kind::forward, x, w, dtype, Layout::row_major);
    }
}

TEST(CpuConv, GradientsByFiniteDifferences) {
  Random random(6);
  const Case c{{2, 4, 5, 4}, {6, 2, 3, 2}, {{2, 1}, {1, 2}, {1, 0}, {2, 1}}};
  Tensor x = random.tensor(DType::float64, c.x), w = random.tensor(DType::float64, c.w);
  Tensor dy = random.tensor(DType::float64, c.y());
  const Values dx = finite_differences(
      x.values(), dy.values(), [&](const Values& at) { return reference(c, Kind::forward, at, w.values()); });
  const Values dw = finite_differences(
      w.values(), dy.values(), [&](const Values& at) { return reference(c, Kind::forward, x.values(), at); });
  for (const DType dtype : {DType::float64, DType::float32}) {
    Tensor got_x(dtype, c.x), got_w(dtype, c.w), x_here(dtype, c.x), w_here(dtype, c.w),
        dy_here(dtype, c.y());
    for (const auto& [to, from] : {std::pair{&x_here, &x}, {&w_here, &w}, {&dy_here, &dy}})
      for (std::int64_t i = 0; i < from->size(); ++i) to->set(i, from->get(i));
    run_both(conv_backward_data, c.attributes, {dy_here.view(), w_here.view()}, {&got_x});
    run_both(conv_backward_filter, c.attributes, {dy_here.view(), x_here.view()}, {&got_w});
    expect_near(got_x, dx, dtype == DType::float64 ? 1e-8 : 1e-5, "dx");
    expect_near(got_w, dw, dtype == DType::float64 ? 1e-8 : 1e-5, "dw");
  }
}

}  // namespace
}  // namespace stiletto::detail::cpu::test
