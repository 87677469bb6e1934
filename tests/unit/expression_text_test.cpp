// SPDX-License-Identifier: Apache-2.0
// Graphs as one line of arithmetic.
#include "compiler/expression_text.hpp"

#include <gtest/gtest.h>

#include "unit/trace_support.hpp"

namespace {

using namespace unit;
using detail::expression_text;

template <class F, class... Examples>
std::string written(F f, const Examples&... examples) {
  return expression_text(lower(f, examples...).graph);
}

const Array square = on_cpu({4, 4});

TEST(ExpressionText, functions_and_operators_are_written_as_in_cpp) {
  EXPECT_EQ(
      written([](const Array& x, const Array& w, const Array& b) { return stiletto::gelu(matmul(x, w) + b); },
              square, square, on_cpu({4})),
      "gelu(matmul(arg0, arg1) + arg2)");
  EXPECT_EQ(written([](const Array& x, const Array& w) { return stiletto::tanh(matmul(x, w) / 20); }, square,
                    square),
            "tanh(matmul(arg0, arg1) / scalar0)");
  EXPECT_EQ(written([](const Array& x) { return stiletto::softmax(cast(x, DType::float64), 1); }, square),
            "softmax(cast(arg0, float64), over j)");
  EXPECT_EQ(written([](const Array& x) { return sum(x, {0}); }, square), "sum(arg0, over j)");
  EXPECT_EQ(written([](const Array& x, const Array& y) { return where(x < y, x, leaky_relu(y, 0.5)); },
                    square, square),
            "where(arg0 < arg1, arg0, leaky_relu(arg1, 0.5))");
}

TEST(ExpressionText, parentheses_are_written_where_they_matter) {
  const auto three = [](auto f) { return written(f, square, square, square); };
  using A = const Array&;
  EXPECT_EQ(three([](A x, A y, A z) { return x + y + z; }), "arg0 + arg1 + arg2");
  EXPECT_EQ(three([](A x, A y, A z) { return x + (y + z); }), "arg0 + (arg1 + arg2)");
  EXPECT_EQ(three([](A x, A y, A z) { return x - (y - z); }), "arg0 - (arg1 - arg2)");
  EXPECT_EQ(three([](A x, A y, A z) { return (x + y) * z; }), "(arg0 + arg1) * arg2");
  EXPECT_EQ(three([](A x, A y, A z) { return x + y * z; }), "arg0 + arg1 * arg2");
  EXPECT_EQ(three([](A x, A y, A z) { return -(x + y) / -z; }), "-(arg0 + arg1) / -arg2");
  EXPECT_EQ(three([](A x, A y, A z) { return -(-x) + y + z; }), "-(-arg0) + arg1 + arg2");
  EXPECT_EQ(three([](A x, A y, A z) { return (x < y) == (y < z); }), "arg0 < arg1 == arg1 < arg2");
}

TEST(ExpressionText, what_is_used_more_than_once_is_named) {
  EXPECT_EQ(written(
                [](const Array& x) {
                  const Array e = stiletto::exp(x);
                  return e / sum(e, {1}, true);
                },
                square),
            "%1 = exp(arg0); %1 / sum(%1, over j)");
  EXPECT_EQ(written(
                [](const Array& x) {
                  const Array y = x * x;
                  return std::vector<Array>{y, stiletto::sqrt(y)};
                },
                square),
            "%1 = arg0 * arg0; out0 = %1; out1 = sqrt(%1)");
}

TEST(ExpressionText, stores_are_named) {
  EXPECT_EQ(written([](const Array& x, const Array& y) { assign(x, x + y); }, square, square),
            "arg0 = arg0 + arg1");
}

TEST(ExpressionText, the_limit_is_kept) {
  const auto chain = [](const Array& x) {
    Array y = x;
    for (int i = 0; i < 20000; ++i) y = -stiletto::relu(y);
    return y;
  };
  const detail::CanonicalGraph graph = lower(chain, square).graph;
  EXPECT_EQ(expression_text(graph, 20), "-relu(-relu(-relu...");
  EXPECT_EQ(expression_text(graph).size(), 20000 * std::string("-relu()").size() + 4);
  const detail::CanonicalGraph small = lower([](const Array& x) { return x + x; }, square).graph;
  EXPECT_EQ(expression_text(small, 11), "arg0 + arg0");
  EXPECT_EQ(expression_text(small, 10), "arg0 + ...");
}

}  // namespace
