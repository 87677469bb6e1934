// SPDX-License-Identifier: Apache-2.0
// What rides along behind the CPU's matmul: every operation that make_matmul accepts keeps the rules, on
// random products and on NaN, infinities, zeros and large values; those it has to accept are named.
#include <gtest/gtest.h>

#include "matmul_trial.hpp"

namespace stiletto::detail::cpu::test {
namespace {

const std::vector<Op> elementwise{Op::relu,      Op::leaky_relu, Op::clipped_relu, Op::elu,
                                  Op::softplus,  Op::sigmoid,    Op::silu,         Op::gelu,
                                  Op::gelu_tanh, Op::tanh,       Op::exp,          Op::log,
                                  Op::abs,       Op::sqrt,       Op::square,       Op::negate};

PostOperation unary(Op op) {
  PostOperation post;
  post.op = op;
  post.coefficient = op == Op::leaky_relu ? 0.125 : op == Op::clipped_relu ? 1.3 : op == Op::elu ? 1.25 : 0;
  return post;
}

PostOperation with_number(Op op, bool swapped = false) {
  PostOperation post;
  post.op = op;
  post.binary = post.number = true;
  post.swapped = swapped;
  return post;
}

PostOperation with_tensor(Op op, const MatrixLayout& layout, bool swapped = false) {
  PostOperation post = with_number(op, swapped);
  post.number = false;
  post.operand = layout;
  return post;
}

std::vector<Dtypes> float_dtypes() {
  std::vector<Dtypes> all = all_dtypes();
  std::erase_if(all, [](const Dtypes& d) { return !is_floating(d.c) || d.c == DType::float64; });
  return all;
}

std::vector<float> special_values() {
  std::vector<float> values{not_a_number, 3e38F, 2e38F, 1e-20F, 1e-38F, 88, 104, 20, 15, infinity, 0};
  for (int i = -20; i < 20; ++i) values.push_back(std::exp2(static_cast<float>(i) / 4));
  for (std::size_t i = 0, count = values.size(); i < count; ++i) values.push_back(-values[i]);
  return values;
}

/// Products of one term, value·1: the operation sees exactly the values, in whole vectors and in a rest.
TEST(MatmulPost, ElementwiseOnSpecialValues) {
  Random random(1);
  const std::vector<float> values = special_values();
  const auto rows = static_cast<std::int64_t>(values.size());
  std::string declined;
  for (const Dtypes& d : float_dtypes())
    for (const Op op : elementwise)
      for (const std::int64_t columns : {1, 35}) {
        MatmulProblem p = problem_of(d.a, d.b, d.c, {}, rows, columns, 1);
        p.post = {unary(op)};
        Trial trial(p, random);
        if (trial.matmul == nullptr) {
          declined += text(" ", name_of(op));
          continue;
        }
        for (std::int64_t i = 0; i < rows; ++i) trial.a.buffer.set(trial.a.index({i, 0}), values[i]);
        for (std::int64_t j = 0; j < columns; ++j) trial.b.buffer.set(trial.b.index({0, j}), 1);
        Tensor result = trial.c;
        trial.execute(result);
        each_position(result.extents, [&](const Extents& at) {
          const auto x = static_cast<float>(trial.a.buffer.get(trial.a.index({at[0], 0})));
          const double got = result.buffer.get(result.index(at));
          if (x == -infinity && (op == Op::silu || op == Op::gelu || op == Op::gelu_tanh)) return;  // −∞·0
          if (d.a == DType::bfloat16 && std::fpclassify(x) == FP_SUBNORMAL) return;  // zero to the processor
          Buffer want(d.c, 1);
          want.set(0, apply(p.post[0], x, 0));
          const double w = want.get(0);
          const double tolerance = (d.c == DType::bfloat16 ? 8e-3 : 1e-6) *
                                   std::max(std::fabs(w), std::min(std::fabs(double{x}), 1.0));
          EXPECT_TRUE(std::isnan(w)   ? std::isnan(got)
                      : std::isinf(w) ? got == w
                                      : std::fabs(got - w) <= tolerance)
              << trial.describe() << ": " << x << " gives " << got << ", not " << w;
        });
      }
  if (!declined.empty()) std::cout << "declined:" << declined << "\n";
}

/// log of a product near 0 sees that product's rounding error relative to itself.
double rounding(Op op) { return op == Op::log ? 1e-3 : 8e-6; }

TEST(MatmulPost, ElementwiseOnRandomProducts) {
  Random random(2);
  for (const Dtypes& d : float_dtypes())
    for (const Op op : elementwise)
      for (const Order order : {Order::rows, Order::columns})
        for (const std::int64_t gap : {0, 7})
          for (const bool biased : {false, true}) {
            MatmulProblem p =
                problem_of(d.a, d.b, d.c, {2}, 33, 37, 20, Order::rows, Order::rows, order, gap);
            if (biased) p.post.push_back(with_tensor(Op::add, {DType::float32, {0, 0, 1}}));
            p.post.push_back(unary(op));
            p.alpha = biased ? 1 : 0.5;
            Trial trial(p, random);
            if (trial.matmul != nullptr) trial.check((d.c == DType::bfloat16 ? 4e-3 : 0) + rounding(op));
          }
}

TEST(MatmulPost, WhatHasToBeAccepted) {
  Random random(3);
  for (const Dtypes& d : float_dtypes())
    for (const Extents& batch : {Extents{}, Extents{3}}) {
      const MatmulProblem plain = problem_of(d.a, d.b, d.c, batch, 33, 35, 20);
      MatrixLayout column{DType::float32, Extents(batch.size() + 2)};
      column.strides.back() = 1;
      const MatrixLayout full = dense(DType::float32, batch, 33, 35);
      const std::vector<std::vector<PostOperation>> chains{
          {unary(Op::relu)},
          {unary(Op::clipped_relu)},
          {unary(Op::negate), unary(Op::abs)},
          {with_tensor(Op::add, column)},
          {with_tensor(Op::add, column), unary(Op::relu)},
          {with_number(Op::multiply), with_tensor(Op::add, column), unary(Op::clipped_relu)},
          {with_number(Op::subtract, true), with_number(Op::divide), with_number(Op::add)},
          {with_tensor(Op::subtract, full, true), unary(Op::square), with_tensor(Op::add, column)},
          {with_tensor(Op::add, column), with_tensor(Op::multiply, full), with_tensor(Op::add, full),
           unary(Op::relu)},
      };
      for (const auto& chain : chains) {
        MatmulProblem p = plain;
        p.post = chain;
        Trial(p, random).check((d.c == DType::bfloat16 ? 4e-3 : 0) + 2e-5);
      }
    }
}

// What oneDNN has no operation for, or one that breaks the rules, runs on each block of float32 once oneDNN
// has written it; with gaps between c's rows, and rows that are no whole number of vectors.
TEST(MatmulPost, OwnOperationsEndAChain) {
  Random random(8);
  const PostOperation column = with_tensor(Op::add, {DType::float32, {0, 1}});
  for (const auto& [m, n, k] : {std::tuple{1, 1, 3}, std::tuple{33, 35, 20}, std::tuple{300, 530, 64}})
    for (const std::int64_t gap : {0, 3})
      for (const Order order : {Order::rows, Order::columns}) {
        MatmulProblem p = problem_of(DType::float32, DType::float32, DType::float32, {}, m, n, k, Order::rows,
                                     Order::rows, order, gap);
        std::vector<PostOperation> bias;
        if (order == Order::rows && m > 1) bias = {column};  // elsewhere oneDNN declines it
        for (const Op op : {Op::relu, Op::leaky_relu, Op::clipped_relu, Op::elu, Op::softplus, Op::silu,
                            Op::gelu, Op::gelu_tanh}) {
          p.post = bias;
          p.post.push_back(unary(op));
          Trial(p, random).check(8e-6);
        }
        p.post = bias;
        p.post.insert(p.post.end(), {unary(Op::gelu), unary(Op::abs), unary(Op::relu)});
        Trial(p, random).check(2e-5);
      }
}

// Every way an operand can lack axes, both dtypes, c in several layouts. What is declined is counted and
// printed.
TEST(MatmulPost, BinaryOperands) {
  Random random(4);
  int accepted = 0, declined = 0;
  const Extents batch{2, 3};
  for (const Dtypes& d : float_dtypes())
    for (const DType dtype : {DType::float32, DType::bfloat16})
      for (unsigned axes = 0; axes < 16; ++axes)
        for (const Order order : {Order::rows, Order::columns})
          for (const std::int64_t gap : {0, 5})
            for (const Op op : {Op::add, Op::multiply, Op::subtract}) {
              MatmulProblem p =
                  problem_of(d.a, d.b, d.c, batch, 18, 21, 20, Order::rows, Order::rows, order, gap);
              MatrixLayout operand =
                  dense(dtype, {axes & 1 ? 2 : 1, axes & 2 ? 3 : 1}, axes & 4 ? 18 : 1, axes & 8 ? 21 : 1,
                        random() % 3 ? order : Order::rows, axes == 15 ? gap : 0);
              for (std::size_t axis = 0; axis < 4; ++axis)
                if ((axes >> axis & 1) == 0) operand.strides[axis] = 0;
              p.post = {with_tensor(op, operand, random() % 2), with_number(Op::add)};
              Trial trial(p, random);
              ++(trial.matmul ? accepted : declined);
              if (trial.matmul != nullptr) trial.check((d.c == DType::bfloat16 ? 4e-3 : 0) + 1e-5);
            }
  std::cout << accepted << " problems accepted, " << declined << " declined\n";
  EXPECT_GT(accepted, 0);
}

TEST(MatmulPost, BinaryKeepsNanAndInfinity) {
  Random random(5);
  const std::vector<float> values{not_a_number, infinity, -infinity, 0, -0.0F, 3e38F, -2e38F, 1.5F};
  const auto count = static_cast<std::int64_t>(values.size());
  for (const Op op : {Op::add, Op::subtract, Op::multiply, Op::divide, Op::maximum, Op::minimum})
    for (const bool swapped : {false, true})
      for (const bool number : {false, true}) {
        MatmulProblem p = problem_of(DType::float32, DType::float32, DType::float32, {}, count, count, 1);
        p.post = {number ? with_number(op, swapped) : with_tensor(op, {DType::float32, {0, 1}}, swapped)};
        for (const float y : values) {
          Trial trial(p, random);
          if (trial.matmul == nullptr) {
            EXPECT_TRUE(op == Op::maximum || op == Op::minimum || (op == Op::divide && swapped))
                << trial.describe();
            break;
          }
          trial.numbers = {y};
          for (std::int64_t i = 0; i < count; ++i) {
            trial.a.buffer.set(trial.a.index({i, 0}), values[i]);
            trial.b.buffer.set(trial.b.index({0, i}), 1);
            if (!number) trial.operands[0].buffer.set(trial.operands[0].index({0, i}), values[i]);
          }
          trial.check();
        }
      }
}

// A column's stride is not 1: oneDNN 3.2 would read such an operand as if it were dense.
TEST(MatmulPost, StridedColumnOperand) {
  Random random(6);
  for (const std::int64_t stride : {2, -1}) {
    MatmulProblem p = problem_of(DType::float32, DType::float32, DType::float32, {}, 9, 20, 5);
    p.post = {with_tensor(Op::add, {DType::float32, {0, stride}})};
    Trial trial(p, random);
    if (trial.matmul != nullptr) trial.check();
  }
}

// Cut into blocks along rows and columns, with everything that moves along.
TEST(MatmulPost, LargerThanOneBlock) {
  Random random(7);
  for (const Dtypes& d : float_dtypes())
    for (const auto& [m, n, k] : {std::tuple{700, 130, 80}, std::tuple{5, 2500, 70}, std::tuple{2500, 3, 70}})
      for (const bool activation : {false, true}) {
        MatmulProblem p = problem_of(d.a, d.b, d.c, {}, m, n, k);
        p.post = {with_tensor(Op::add, {DType::float32, {0, 1}}), with_number(Op::multiply)};
        p.post.push_back(unary(activation ? Op::tanh : Op::relu));
        Trial(p, random).check((d.c == DType::bfloat16 ? 4e-3 : 0) + 2e-5);
        p.post = {with_tensor(Op::add, {DType::float32, {1, 0}}),
                  with_tensor(Op::add, dense(DType::float32, {}, m, n))};
        Trial(p, random).check((d.c == DType::bfloat16 ? 4e-3 : 0) + 2e-5);
      }
}

TEST(MatmulPost, Declined) {
  MatmulProblem p = problem_of(DType::float32, DType::float32, DType::float32, {}, 9, 20, 5);
  p.post = {unary(Op::gelu), with_number(Op::add)};
  EXPECT_EQ(make_matmul(p), nullptr);
  p.post = {unary(Op::where)};
  EXPECT_EQ(make_matmul(p), nullptr);
  p.post = {with_number(Op::pow)};
  EXPECT_EQ(make_matmul(p), nullptr);
  p.post = {unary(Op::square)};
  p.accumulate = true;
  EXPECT_EQ(make_matmul(p), nullptr);
  p = problem_of(DType::int8, DType::int8, DType::int32, {}, 9, 20, 5);
  p.post = {unary(Op::square)};
  EXPECT_EQ(make_matmul(p), nullptr);
  p = problem_of(DType::float64, DType::float64, DType::float64, {}, 9, 20, 5);
  p.post = {unary(Op::square)};
  EXPECT_EQ(make_matmul(p), nullptr);
}

}  // namespace
}  // namespace stiletto::detail::cpu::test
