// SPDX-License-Identifier: Apache-2.0
// Chains of operations as users write them: twelve pointwise operations, normalisations by hand, small
// networks, composite arguments and results, scalars by value, constants, captures, and generic functions.
#include <gtest/gtest.h>

#include <algorithm>

#include "support/cases.hpp"

namespace {

using namespace support;
using stiletto::DType;

Array filled(const Extents& shape, float value) {
  return stiletto::full(dims(shape), value, DType::float32, device());
}

template <class T>
T twelve(const T& x, const T& y) {
  using std::abs, std::exp, std::sqrt, std::tanh;
  const T a = x * y + x;
  const T b = tanh(a) - y;
  const T c = exp(-abs(b)) * x;
  return sqrt(c * c + 1) / (abs(y) + 2);
}

TEST(Chain, of_twelve_operations) {
  Random random(111);
  for (DType dtype : float_dtypes)
    for (Layout layout : layouts)
      for (const Extents& shape :
           {Extents{}, Extents{1}, Extents{0, 3}, Extents{7, 9}, Extents{3, 1, 4, 5}}) {
        const Operand x = operand(random, dtype, shape, layout), y = operand(random, dtype, shape, layout);
        const Tensor expected =
            map(dtype, {x.values, y.values}, [](const Real* v) { return twelve(v[0], v[1]); });
        for (Mode mode : {Mode::jit, Mode::compiled})
          EXPECT_TRUE(agrees(
              run([](const std::vector<Array>& a) { return twelve(a[0], a[1]); }, {x.array, y.array}, mode),
              expected, {.factor = 3}))
              << stiletto::to_string(dtype) << " " << to_string(layout) << describe(shape);
      }
}

TEST(Chain, of_twelve_operations_on_long_vectors) {
  Random random(112);
  const Operand x = operand(random, DType::float32, {300007}, Layout::contiguous);
  const Operand y = operand(random, DType::float32, {300007}, Layout::reversed);
  const Tensor expected =
      map(DType::float32, {x.values, y.values}, [](const Real* v) { return twelve(v[0], v[1]); });
  EXPECT_TRUE(
      agrees(stiletto::jit([](const Array& a, const Array& b) { return twelve(a, b); }, x.array, y.array),
             expected, {.factor = 3}));
}

/// Values used twice, on the left and on the right of what does not commute, and several results.
template <class T>
std::vector<T> cheap_operations(const T& x, const T& y) {
  const T a = x * y + x, b = y - a, c = (a - b) * a;
  const T d = (1 - c) / (c * c + 2);
  return {d, b * -d + a / 2};
}

// Neighbouring cheap operations are one pass. Sizes around whole tiles and blocks.
TEST(Chain, of_cheap_operations) {
  Random random(114);
  for (DType dtype : float_dtypes)
    for (Layout layout : layouts)
      for (std::int64_t size : {1, 15, 64, 129, 1000, 1024, 1025, 5000}) {
        const Operand x = operand(random, dtype, {size}, layout), y = operand(random, dtype, {size}, layout);
        for (std::size_t result : {0, 1}) {
          const Tensor expected = map(dtype, {x.values, y.values},
                                      [&](const Real* v) { return cheap_operations(v[0], v[1])[result]; });
          EXPECT_TRUE(
              agrees(run([&](const std::vector<Array>& a) { return cheap_operations(a[0], a[1])[result]; },
                         {x.array, y.array}, Mode::compiled),
                     expected, {.factor = 4}))
              << stiletto::to_string(dtype) << " " << to_string(layout) << " " << size;
        }
      }
}

// A result larger than the caches is written past them; so is one that is an operand, or not aligned.
TEST(Chain, of_cheap_operations_on_more_than_the_caches_hold) {
  const std::int64_t size = (9 << 20) + 5;
  for (const std::int64_t offset : {0, 1}) {
    const Array x = stiletto::slice(stiletto::full({size + 1}, 1.5F), {{offset, offset + size}});
    const Array y = stiletto::full({size}, -0.25F),
                out = stiletto::slice(stiletto::zeros({size + 1}), {{offset, offset + size}});
    const auto f = [](const Array& to, const Array& a, const Array& b) {
      stiletto::assign(to, stiletto::maximum((a * b + a) * 0.5F - b, 0) * a + b * 2.0F);
    };
    stiletto::jit(f, out, x, y);
    stiletto::jit(f, x, x, y);
    for (const Array& result : {out, x}) {
      const float* values = result.data<float>();
      EXPECT_EQ(std::count(values, values + size, ((1.5F * -0.25F + 1.5F) * 0.5F + 0.25F) * 1.5F - 0.5F),
                size);
    }
  }
}

TEST(Chain, a_layer_norm_by_hand) {
  Random random(113);
  for (Layout layout : {Layout::contiguous, Layout::transposed, Layout::offset}) {
    const Operand x = operand(random, DType::float32, {6, 50}, layout);
    const Operand scale = operand(random, DType::float32, {50}, Layout::contiguous);
    auto f = [](const Array& a, const Array& s) {
      const Array centred = a - stiletto::mean(a, -1, true);
      return centred * stiletto::rsqrt(stiletto::mean(stiletto::square(centred), -1, true) + 1e-5F) * s;
    };
    const Tensor centred = map(DType::float32, {x.values, reduce(Reduction::mean, x.values, {1}, true)},
                               [](const Real* v) { return v[0] - v[1]; });
    const Tensor squares = map(DType::float32, {centred}, [](const Real* v) { return v[0] * v[0]; });
    const Tensor expected =
        map(DType::float32, {centred, reduce(Reduction::mean, squares, {1}, true), scale.values},
            [](const Real* v) { return v[0] / std::sqrt(v[1] + 1e-5L) * v[2]; });
    EXPECT_TRUE(agrees(stiletto::jit(f, x.array, scale.array), expected, {.terms = 50}));
  }
}

TEST(Chain, attention_by_hand) {
  Random random(114);
  const Operand q = operand(random, DType::float32, {2, 3, 5, 8}, Layout::contiguous);
  const Operand k = operand(random, DType::float32, {2, 3, 6, 8}, Layout::offset);
  const Operand v = operand(random, DType::float32, {2, 3, 6, 4}, Layout::contiguous);
  auto f = [](const Array& a, const Array& b, const Array& c) {
    const Array scores = stiletto::matmul(a, stiletto::transpose(b, {0, 1, 3, 2})) * 0.25F;
    return stiletto::matmul(stiletto::softmax(scores, -1), c);
  };
  const Tensor scores = map(DType::float32, {matmul(q.values, transposed(k.values, {0, 1, 3, 2}))},
                            [](const Real* x) { return x[0] / 4; });
  EXPECT_TRUE(agrees(stiletto::jit(f, q.array, k.array, v.array), matmul(softmax(scores, 3), v.values),
                     {.terms = 48}));
}

struct Dense {
  Array weight, bias;
  int steps = 1;
  auto fields() { return std::tie(weight, bias); }
};
struct Network {
  Dense first, second;
  std::vector<Array> extra;
  auto fields() { return std::tie(first, second, extra); }
};

TEST(Chain, structs_vectors_and_tuples) {
  Random random(115);
  auto make = [&](const Extents& shape) {
    return operand(random, DType::float32, shape, Layout::contiguous, {-1, 1});
  };
  const Operand x = make({4, 6}), w1 = make({6, 5}), b1 = make({5}), w2 = make({5, 3}), b2 = make({3}),
                e = make({3});
  const Network network{{w1.array, b1.array, 1}, {w2.array, b2.array, 2}, {e.array, e.array}};
  auto f = [](const Array& a, const Network& n, const std::tuple<Array, Array>& scale) {
    const Array hidden = stiletto::relu(stiletto::matmul(a, n.first.weight) + n.first.bias);
    Array out = stiletto::matmul(hidden, n.second.weight) + n.second.bias;
    for (const Array& extra : n.extra) out = out + extra * std::get<0>(scale);
    return std::tuple(out * n.second.steps, std::vector<Array>{hidden, hidden * std::get<1>(scale)});
  };
  const std::tuple<double, int> scale(0.5, 3);
  const Tensor hidden = map(DType::float32, {matmul(x.values, w1.values), b1.values},
                            [](const Real* v) { return scalar::maximum(v[0] + v[1], 0); });
  const Tensor out = map(DType::float32, {matmul(hidden, w2.values), b2.values, e.values},
                         [](const Real* v) { return (v[0] + v[1] + v[2]) * 2; });
  const Tensor tripled = map(DType::float32, {hidden}, [](const Real* v) { return v[0] * 3; });
  const auto results = stiletto::jit(f, x.array, network, scale);
  EXPECT_TRUE(agrees(std::get<0>(results), out, {.terms = 12}));
  ASSERT_EQ(std::get<1>(results).size(), 2U);
  EXPECT_TRUE(agrees(std::get<1>(results)[0], hidden, {.terms = 6}));
  EXPECT_TRUE(agrees(std::get<1>(results)[1], tripled, {.terms = 6}));
  const auto compiled = stiletto::compile(f, x.array, network, scale);
  const auto again = compiled(x.array, network, std::tuple<Array, Array>(0.5, 3));
  EXPECT_TRUE(agrees(std::get<0>(again), out, {.terms = 12}));
  const auto other = compiled(x.array, network, std::tuple<Array, Array>(0.0, -1));
  EXPECT_TRUE(agrees(std::get<1>(other)[1],
                     map(DType::float32, {hidden}, [](const Real* v) { return -v[0]; }), {.terms = 6}));
}

TEST(Chain, opted_in_structs_and_arrays_as_results) {
  const Array x = stiletto::full({3}, 2, DType::float32, device());
  auto f = [](const std::array<Array, 2>& a) { return Dense{a[0] * a[1], a[0] + a[1], 7}; };
  const Dense d = stiletto::jit(f, std::array<Array, 2>{x, x});
  EXPECT_EQ(d.steps, 7);
  EXPECT_TRUE(equals(d.weight, DType::float32, {3}, {4, 4, 4}));
  EXPECT_TRUE(equals(d.bias, DType::float32, {3}, {4, 4, 4}));
}

TEST(Chain, scalars_are_bound_by_value) {
  const Array x = stiletto::full({2}, 3, DType::float32, device());
  auto f = [](const Array& a, const Array& s, const Array& t) { return a * s + (s - t) * t; };
  const auto c = stiletto::compile(f, x, 1.0, 1.0);
  const std::size_t misses = stiletto::plan_cache().misses();
  for (int i = 0; i < 20; ++i) {
    const double s = i * 0.5, t = 20 - i;
    const Real expected = 3 * s + (s - t) * t;
    EXPECT_TRUE(equals(stiletto::jit(f, x, s, t), DType::float32, {2}, {expected, expected}));
    EXPECT_TRUE(equals(c(x, s, t), DType::float32, {2}, {expected, expected}));
    EXPECT_TRUE(equals(stiletto::jit([&](const Array& a) { return a * s + (Array(s) - t) * t; }, x),
                       DType::float32, {2}, {expected, expected}));
  }
  EXPECT_LE(stiletto::plan_cache().misses() - misses, 2U);
}

TEST(Chain, attributes_and_captured_flags_tell_traces_apart) {
  const Array x = filled({2}, -2);
  for (double slope : {0.5, 0.25, 0.5})
    for (bool flag : {true, false}) {
      auto f = [&](const Array& a) {
        const Array y = stiletto::leaky_relu(a, slope);
        return flag ? y : stiletto::elu(y, slope) * 0 + y * 2;
      };
      const Real expected = -2 * slope * (flag ? 1 : 2);
      EXPECT_TRUE(equals(stiletto::jit(f, x), DType::float32, {2}, {expected, expected})) << slope << flag;
    }
  // Captured arrays are told apart by what they are, not by what they hold.
  const Array v = filled({2}, 1), w = filled({2}, 5);
  for (const Array& captured : {v, w, v}) {
    const Real expected = captured.at<float>({0}) - 2;
    EXPECT_TRUE(equals(stiletto::jit([&](const Array& a) { return a + captured; }, x), DType::float32, {2},
                       {expected, expected}));
  }
}

TEST(Chain, constants_made_in_a_trace) {
  const Array x = stiletto::full({2, 3}, 3, DType::float32, device());
  auto f = [](const Array& a) {
    return a * stiletto::full({3}, 2) + stiletto::ones({2, 1}) - stiletto::zeros({}) +
           stiletto::full({2, 3}, 0.5, DType::float32);
  };
  EXPECT_TRUE(equals(stiletto::jit(f, x), DType::float32, {2, 3}, {7.5L, 7.5L, 7.5L, 7.5L, 7.5L, 7.5L}));
  auto only = [](const Array& a) {
    return stiletto::full({2, 2}, 4, DType::int32) + stiletto::cast(stiletto::sum(a), DType::int32);
  };
  EXPECT_TRUE(equals(stiletto::jit(only, x), DType::int32, {2, 2}, {22, 22, 22, 22}));
  auto constant = [](const Array&) { return stiletto::full({3}, 4, DType::float16); };
  EXPECT_TRUE(equals(stiletto::jit(constant, x), DType::float16, {3}, {4, 4, 4}));
  auto folded = [](const Array&) { return stiletto::ones({2}) + stiletto::ones({2}); };
  EXPECT_TRUE(equals(stiletto::jit(folded, x), DType::float32, {2}, {2, 2}));
}

TEST(Chain, captures_are_read_at_each_execution) {
  const Array w = filled({3}, 1), x = filled({3}, 2);
  auto f = [&](const Array& a) { return a * w + stiletto::sum(w); };
  const auto c = stiletto::compile(f, x);
  EXPECT_TRUE(equals(c(x), DType::float32, {3}, {5, 5, 5}));
  EXPECT_TRUE(equals(stiletto::jit(f, x), DType::float32, {3}, {5, 5, 5}));
  stiletto::assign(w, filled({3}, 10));
  EXPECT_TRUE(equals(c(x), DType::float32, {3}, {50, 50, 50}));
  EXPECT_TRUE(equals(stiletto::jit(f, x), DType::float32, {3}, {50, 50, 50}));
  auto only_captures = [&](const Array&) { return w * 2; };
  EXPECT_TRUE(equals(stiletto::jit(only_captures, x), DType::float32, {3}, {20, 20, 20}));
}

TEST(Chain, one_value_twice_and_arguments_returned) {
  const Array x = filled({2}, 2);
  auto f = [](const Array& a) {
    const Array y = a * 3;
    return std::tuple(y, y, a, y + a);
  };
  const auto [y, again, same, sum] = stiletto::jit(f, x);
  EXPECT_TRUE(equals(y, DType::float32, {2}, {6, 6}));
  EXPECT_TRUE(equals(again, DType::float32, {2}, {6, 6}));
  EXPECT_TRUE(equals(sum, DType::float32, {2}, {8, 8}));
  EXPECT_EQ(same.raw_data(), x.raw_data());
}

TEST(Chain, jit_inside_a_trace_is_inlined) {
  const Array x = filled({2}, 2);
  auto inner = [](const Array& a, const Array& s) { return a * s; };
  auto outer = [&](const Array& a) { return stiletto::jit(inner, a, 4) + 1; };
  EXPECT_TRUE(equals(stiletto::jit(outer, x), DType::float32, {2}, {9, 9}));
}

TEST(Chain, equal_subexpressions_and_dead_values) {
  const Array x = filled({4}, 0.5F), y = filled({4}, 3);
  auto f = [](const Array& a, const Array& b) {
    const Array dead = stiletto::matmul(stiletto::exp(b), a);
    (void)dead;
    return stiletto::exp(a) * stiletto::exp(a) + stiletto::sum(stiletto::exp(a)) * 0 + b * 0;
  };
  const Tensor expected(DType::float32, {4}, std::vector<Real>(4, std::exp(Real{1})));
  EXPECT_TRUE(agrees(stiletto::jit(f, x, y), expected, {.factor = 2}));
}

}  // namespace
