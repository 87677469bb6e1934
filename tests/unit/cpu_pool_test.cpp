// SPDX-License-Identifier: Apache-2.0
// The CPU's pooling against loops over the window: dtypes, integers included, layouts, one to three spatial
// axes, padding that counts or not, special values, and one thread against many.
#include <gtest/gtest.h>

#include "structured_support.hpp"

namespace stiletto::detail::cpu::test {
namespace {

struct Case {
  Shape x;
  PoolAttributes attributes;

  Shape y() const {
    Shape y{x[0], x[1]};
    for (std::size_t axis = 0; axis < attributes.window.size(); ++axis) {
      const std::int64_t padded = x[2 + axis] + attributes.pre_padding[axis] + attributes.post_padding[axis];
      y.push_back((padded - attributes.window[axis]) / attributes.stride[axis] + 1);
    }
    return y;
  }
};

Case random_case(Random& random, std::size_t axes) {
  Case c{{random.between(1, 3), random.between(1, 40)}, {}};
  for (std::size_t axis = 0; axis < axes; ++axis) {
    const std::int64_t window = random.between(1, 4);
    c.attributes.window.push_back(window);
    c.attributes.stride.push_back(random.between(1, 3));
    c.attributes.pre_padding.push_back(random.between(0, window - 1));
    c.attributes.post_padding.push_back(random.between(0, window - 1));
    c.x.push_back(random.between(window, axes == 3 ? 7 : 21));
  }
  return c;
}

/// f(index of the output, values inside its window)
template <class F>
void for_each_window(const Case& c, const Values& x, const F& f) {
  const Shape y = c.y();
  const std::size_t axes = c.attributes.window.size();
  for (std::int64_t out = 0; out < element_count_unchecked(y); ++out) {
    Values inside;
    std::int64_t window = 1;
    for (const std::int64_t extent : c.attributes.window) window *= extent;
    for (std::int64_t element = 0; element < window; ++element) {
      std::int64_t rest = out, rest_element = element, index = 0, step = 1;
      bool is_inside = true;
      for (std::size_t axis = axes; axis-- > 0;) {
        const std::int64_t at = rest % y[2 + axis] * c.attributes.stride[axis] +
                                rest_element % c.attributes.window[axis] - c.attributes.pre_padding[axis];
        is_inside = is_inside && at >= 0 && at < c.x[2 + axis];
        rest /= y[2 + axis];
        rest_element /= c.attributes.window[axis];
        index += at * step;
        step *= c.x[2 + axis];
      }
      if (is_inside) inside.push_back(x[static_cast<std::size_t>(rest * step + index)]);
    }
    f(out, inside, window);
  }
}

Values reference(const Case& c, const Values& x, bool maximum) {
  Values result;
  for_each_window(c, x, [&](std::int64_t, const Values& inside, std::int64_t window) {
    double value = maximum ? -infinity : 0;
    for (const double v : inside) {
      if (!maximum) value += v;
      if (maximum && (std::isnan(v) || v > value)) value = v;
      if (maximum && std::isnan(value)) break;
    }
    if (!maximum) value /= static_cast<double>(c.attributes.include_padding ? window : std::ssize(inside));
    result.push_back(value);
  });
  return result;
}

void check(const Case& c, Tensor x, Layout written, bool maximum) {
  SCOPED_TRACE(testing::Message() << c.x << " window " << c.attributes.window << " stride "
                                  << c.attributes.stride << " " << x.dtype());
  Tensor y(x.dtype(), c.y(), written);
  run_both(maximum ? max_pool : avg_pool, c.attributes, {x.view()}, {&y});
  expect_near(y, reference(c, x.values(), maximum), maximum ? 0 : tolerance(x.dtype(), 64), "y");
}

TEST(CpuPool, EveryDtypeLayoutAndRank) {
  Random random(1);
  for (const DType dtype : {DType::float32, DType::float16, DType::bfloat16, DType::float64, DType::int8,
                            DType::uint8, DType::int32, DType::int64})
    for (std::size_t axes = 1; axes <= 3; ++axes)
      for (const Layout layout : all_layouts)
        for (const Layout written : writable_layouts) {
          Case c = random_case(random, axes);
          check(c, random.tensor(dtype, c.x, layout), written, true);
          for (const bool include : {false, true}) {
            if (is_integer(dtype)) continue;
            c.attributes.include_padding = include;
            check(c, random.tensor(dtype, c.x, layout), written, false);
          }
          if (testing::Test::HasFatalFailure()) return;
        }
}

TEST(CpuPool, SpecialValues) {
  Random random(2);
  const Case c{{2, 3, 9, 9}, {{3, 3}, {2, 2}, {1, 1}, {1, 1}, false}};
  for (const double special : {not_a_number, infinity, -infinity})
    for (const bool maximum : {true, false})
      for (const Layout layout : {Layout::row_major, Layout::channels_last}) {
        Tensor x = random.tensor(DType::float32, c.x, layout);
        x.set(0, special);
        x.set(50, special);
        check(c, x, layout, maximum);
      }
}

// Padding never wins: the largest of negative values, and of −∞ alone.
TEST(CpuPool, NegativeValuesBesidePadding) {
  const Case c{{1, 2, 5}, {{3}, {1}, {2}, {2}, false}};
  Tensor x(DType::float32, c.x), y(DType::float32, c.y());
  for (const double value : {-3.0, -infinity}) {
    x.fill([=] { return value; });
    check(c, x, Layout::row_major, true);
  }
  Tensor lowest(DType::int32, c.x);
  check(c, lowest.fill([] { return std::numeric_limits<std::int32_t>::min(); }), Layout::row_major, true);
}

TEST(CpuPool, WiderResult) {
  Random random(3);
  const Case c{{2, 3, 8, 8}, {{2, 2}, {2, 2}, {0, 0}, {0, 0}, false}};
  Tensor x = random.tensor(DType::float16, c.x), y(DType::float32, c.y());
  run_both(avg_pool, c.attributes, {x.view()}, {&y});
  expect_near(y, reference(c, x.values(), false), 1e-6, "y");
}

}  // namespace
}  // namespace stiletto::detail::cpu::test
