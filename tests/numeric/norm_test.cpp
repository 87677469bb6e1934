// SPDX-License-Identifier: Apache-2.0
// rms_norm, layer_norm and batch_norm with their statistics and gradients over types, layouts and shapes;
// float32 parameters beside narrow x; operations behind them; what may not cancel.
#include <gtest/gtest.h>

#include "support/cases.hpp"
#include "support/norm_reference.hpp"

namespace {

using namespace support;

constexpr float epsilon_given = 1e-3F;
constexpr Real epsilon = epsilon_given;

enum class Norm { rms, rms_bias, layer };

struct Setting {
  Norm norm;
  Extents x, scale;
  DType dtype, parameter;
  Layout layout;
  Mode mode;
};

std::string describe(const Setting& s) {
  const char* const names[] = {"rms_norm", "rms_norm with bias", "layer_norm"};
  return std::string("\n  in ") + names[static_cast<int>(s.norm)] + " of " + stiletto::to_string(s.dtype) +
         support::describe(s.x) + " by " + stiletto::to_string(s.parameter) + support::describe(s.scale) +
         " " + to_string(s.layout) + ", " + to_string(s.mode);
}

/// All results of one norm: y and the statistics.
std::vector<Array> results(Norm norm, const std::vector<Array>& a) {
  if (norm == Norm::layer) {
    const auto r = stiletto::layer_norm_with_stats(a[0], a[1], a[2], {epsilon_given});
    return {r.y, r.mean, r.inv_std};
  }
  stiletto::RmsNormOptions options{.epsilon = epsilon_given};
  if (norm == Norm::rms_bias) options.bias = a[2];
  const auto r = stiletto::rms_norm_with_stats(a[0], a[1], options);
  return {r.y, r.inv_rms};
}

Array only_y(Norm norm, const std::vector<Array>& a) {
  if (norm == Norm::layer) return stiletto::layer_norm(a[0], a[1], a[2], {epsilon_given});
  stiletto::RmsNormOptions options{.epsilon = epsilon_given};
  if (norm == Norm::rms_bias) options.bias = a[2];
  return stiletto::rms_norm(a[0], a[1], options);
}

testing::AssertionResult check(Random& random, const Setting& s) {
  const Operand x = operand(random, s.dtype, s.x, s.layout, {-3, 3}),
                scale = operand(random, s.parameter, s.scale, Layout::contiguous, {0.5L, 1.5L}),
                bias = operand(random, s.parameter, s.scale, Layout::contiguous, {-1, 1}),
                d_y = operand(random, s.dtype, s.x, s.layout, {-1, 1});
  const bool centred = s.norm == Norm::layer, biased = s.norm != Norm::rms;
  const std::vector<Array> arrays{x.array, scale.array, bias.array};
  const auto parameters = static_cast<std::size_t>(count_of(s.scale));
  const std::size_t groups = x.values.size() / parameters;
  const Grouping at = trailing(parameters);
  const Moments m = moments(x.values, groups, at, epsilon, centred);
  const Real terms = static_cast<Real>(parameters);
  try {
    const Tensor y =
        normalised(x.values, m, at, scale.values.values, biased ? bias.values.values : std::vector<Real>());
    if (auto ok = agrees(run([&](const std::vector<Array>& a) { return only_y(s.norm, a); }, arrays, s.mode),
                         y, {.terms = terms});
        !ok)
      return ok << describe(s);
    Extents saved_shape = s.x;
    std::fill(saved_shape.end() - static_cast<std::ptrdiff_t>(s.scale.size()), saved_shape.end(), 1);
    const DType saved = s.dtype == DType::float64 ? s.dtype : DType::float32;
    const std::vector<Array> made = results(s.norm, arrays);
    if (auto ok = agrees(made[0], y, {.terms = terms}); !ok) return ok << " with stats" << describe(s);
    if (auto ok = agrees(made.back(), Tensor(saved, saved_shape, m.inverse), {.terms = terms, .factor = 4});
        !ok)
      return ok << " inverse" << describe(s);
    if (centred)
      if (auto ok = agrees(made[1], Tensor(saved, saved_shape, m.mean), {.terms = terms, .factor = 4}); !ok)
        return ok << " mean" << describe(s);
    std::vector<Array> backward = arrays;
    backward.push_back(d_y.array);
    backward.insert(backward.end(), made.begin() + 1, made.end());
    const NormDerivatives wanted = norm_gradients(d_y.values, x.values, m, at, scale.values.values, centred);
    const std::vector<Array> gradients = run_all(
        [&](const std::vector<Array>& a) {
          const auto g = s.norm == Norm::layer
                             ? stiletto::layer_norm_backward(a[3], a[0], a[1], a[4], a[5])
                             : stiletto::rms_norm_backward(a[3], a[0], a[1], a[4], s.norm == Norm::rms_bias);
          return biased ? std::vector<Array>{g.dx, g.dscale, g.dbias} : std::vector<Array>{g.dx, g.dscale};
        },
        backward, s.mode);
    // Differences; a GPU rounds the statistics more.
    const Real cancelled = device().is_cpu() ? 1 : 10;
    const Allowance allowance{.terms = terms, .factor = 8, .absolute = cancelled * tolerance(s.dtype)};
    const Allowance summed{
        .terms = static_cast<Real>(groups), .factor = 8, .absolute = tolerance(s.parameter)};
    if (auto ok = agrees(gradients[0], wanted.dx, allowance); !ok) return ok << " dx" << describe(s);
    if (auto ok = agrees(gradients[1], Tensor(s.parameter, s.scale, wanted.dscale), summed); !ok)
      return ok << " dscale" << describe(s);
    if (biased)
      if (auto ok = agrees(gradients[2], Tensor(s.parameter, s.scale, wanted.dbias), summed); !ok)
        return ok << " dbias" << describe(s);
    return testing::AssertionSuccess();
  } catch (const std::exception& error) {
    return testing::AssertionFailure() << "threw: " << error.what() << describe(s);
  }
}

class Norms : public testing::TestWithParam<DType> {};

TEST_P(Norms, every_shape_and_layout) {
  Failures failures;
  Random random(71);
  int number = 0;
  const std::pair<Extents, Extents> shapes[] = {{{3, 5}, {5}},       {{1, 1}, {1}},   {{7, 33, 65}, {65}},
                                                {{4, 3, 8}, {3, 8}}, {{6}, {6}},      {{2, 3, 4, 16}, {16}},
                                                {{1, 130}, {130}},   {{130, 1}, {1}}, {{2, 257}, {257}}};
  for (const auto& [x, scale] : shapes)
    for (const Norm norm : {Norm::rms, Norm::rms_bias, Norm::layer})
      for (const Layout layout : layouts) {
        const Mode mode = ++number % 5 == 0 ? Mode::eager : number % 5 == 1 ? Mode::compiled : Mode::jit;
        const DType parameter = number % 2 == 0 && GetParam() != DType::float64 ? DType::float32 : GetParam();
        if (!failures.expect(check(random, {norm, x, scale, GetParam(), parameter, layout, mode}))) return;
      }
}

TEST_P(Norms, batches) {
  Failures failures;
  Random random(72);
  for (const Extents& shape : {Extents{4, 3, 5}, Extents{4, 8, 6, 5}, Extents{2, 7, 3, 4},
                               Extents{1, 2, 2, 3, 5}, Extents{5, 1, 1}}) {
    const DType dtype = GetParam(), saved = dtype == DType::float64 ? dtype : DType::float32;
    const Extents channels{shape[1]};
    const Operand x = operand(random, dtype, shape, Layout::contiguous, {-3, 3}),
                  d_y = operand(random, dtype, shape, Layout::contiguous, {-1, 1});
    std::vector<Operand> vectors;
    for (int i = 0; i < 4; ++i)
      vectors.push_back(operand(random, saved, channels, Layout::contiguous, {0.5L, 1.5L}));
    const auto& [scale, bias, mean, variance] = std::tie(vectors[0], vectors[1], vectors[2], vectors[3]);
    const Grouping at = per_channel(shape);
    const Moments m = moments(x.values, static_cast<std::size_t>(shape[1]), at, epsilon, true);
    const Tensor y = normalised(x.values, m, at, scale.values.values, bias.values.values);
    const auto r = stiletto::batch_norm_training(x.array, scale.array, bias.array, mean.array, variance.array,
                                                 {.epsilon = epsilon_given, .momentum = 0.25F});
    const std::string where = " of " + support::describe(shape);
    const Allowance allowance{.terms = m.count[0], .factor = 8, .absolute = tolerance(dtype)};
    failures.expect(agrees(r.y, y, allowance) << where);
    failures.expect(agrees(r.mean, Tensor(saved, channels, m.mean), allowance) << where << " mean");
    failures.expect(agrees(r.inv_std, Tensor(saved, channels, m.inverse), allowance) << where << " inv_std");
    std::vector<Real> next_mean(m.mean.size()), next_variance(m.mean.size());
    for (std::size_t c = 0; c < m.mean.size(); ++c) {
      const Real n = m.count[c], unbiased = n > 1 ? m.variance[c] * n / (n - 1) : m.variance[c];
      next_mean[c] = 0.75L * mean.values.values[c] + 0.25L * m.mean[c];
      next_variance[c] = 0.75L * variance.values.values[c] + 0.25L * unbiased;
    }
    failures.expect(agrees(r.running_mean, Tensor(saved, channels, next_mean), allowance)
                    << where << " next mean");
    failures.expect(agrees(r.running_variance, Tensor(saved, channels, next_variance), allowance)
                    << where << " next variance");
    const auto wanted = norm_gradients(d_y.values, x.values, m, at, scale.values.values, true);
    const auto g = stiletto::batch_norm_backward(d_y.array, x.array, scale.array, r.mean, r.inv_std);
    failures.expect(agrees(g.dx, wanted.dx, allowance) << where << " dx");
    failures.expect(agrees(g.dscale, Tensor(saved, channels, wanted.dscale), allowance)
                    << where << " dscale");
    failures.expect(agrees(g.dbias, Tensor(saved, channels, wanted.dbias), allowance) << where << " dbias");
    // Inference with the batch's own statistics is the same.
    const Array inferred =
        run([](const std::vector<Array>& a) { return stiletto::batch_norm(a[0], a[1], a[2], a[3], a[4]); },
            {x.array, scale.array, bias.array, r.mean, r.inv_std}, Mode::jit);
    failures.expect(agrees(inferred, y, allowance) << where << " inference");
  }
}

TEST_P(Norms, with_operations_behind_and_into_the_callers_array) {
  Random random(73);
  const Operand x = operand(random, GetParam(), {9, 20}, Layout::contiguous, {-3, 3}),
                scale = operand(random, GetParam(), {20}, Layout::contiguous, {0.5L, 1.5L});
  const Moments m = moments(x.values, 9, trailing(20), epsilon, false);
  Tensor y = normalised(x.values, m, trailing(20), scale.values.values, {});
  const Array to = stiletto::zeros({9, 20}, GetParam(), device());
  stiletto::rms_norm_into(to, x.array, scale.array, {.epsilon = epsilon_given});
  EXPECT_TRUE(agrees(to, y, {.terms = 20}));
  for (Real& value : y.values) value = value > 0 ? value : 0;
  const Array relu = run(
      [](const std::vector<Array>& a) {
        return stiletto::relu(stiletto::rms_norm(a[0], a[1], {.epsilon = epsilon_given}));
      },
      {x.array, scale.array}, Mode::jit);
  EXPECT_TRUE(agrees(relu, y, {.terms = 20}));
}

INSTANTIATE_TEST_SUITE_P(Types, Norms, testing::ValuesIn(float_dtypes),
                         [](const auto& info) { return std::string(stiletto::to_string(info.param)); });

TEST(Norm, a_large_mean_does_not_cancel_the_spread) {
  constexpr std::int64_t width = 512;
  std::vector<float> values(width);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = 40000.0F + 0.00390625F * static_cast<float>(i % 5);
  const Tensor x(DType::float32, {1, width}, std::vector<Real>(values.begin(), values.end()));
  const Moments m = moments(x, 1, trailing(width), 0, true);
  const std::vector<Real> one(width, 1), zero(width, 0);
  const Array scale = stiletto::ones({width}, DType::float32, device()),
              bias = stiletto::zeros({width}, DType::float32, device());
  // cuDNN rounds the mean to float32: half a step of 0.0039 beside a spread of two.
  EXPECT_TRUE(agrees(stiletto::layer_norm(to_array(x), scale, bias, {.epsilon = 0}),
                     normalised(x, m, trailing(width), one, zero),
                     {.factor = 100, .absolute = device().is_cpu() ? Real{0} : Real{0.01L}}));
}

}  // namespace
