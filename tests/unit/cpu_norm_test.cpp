// SPDX-License-Identifier: Apache-2.0
// The CPU's normalisations and their gradients against two passes in float64: dtypes, layouts, parameters of
// another dtype, results that nobody wants, means that dwarf the spread, special values, and finite
// differences.
#include <gtest/gtest.h>

#include "structured_support.hpp"

namespace stiletto::detail::cpu::test {
namespace {

constexpr double epsilon = 1e-5;
constexpr DType floats[] = {DType::float32, DType::float16, DType::bfloat16, DType::float64};

DType statistics_type(DType x) { return x == DType::float64 ? DType::float64 : DType::float32; }

struct Reference {
  Values y, mean, inv;
};

/// A matrix of rows by columns, which stand in `index(row, column)`.
struct Matrix {
  std::int64_t rows, columns;
  std::function<std::size_t(std::int64_t, std::int64_t)> index;

  static Matrix of_rows(std::int64_t rows, std::int64_t columns) {
    return {rows, columns,
            [columns](std::int64_t r, std::int64_t c) { return static_cast<std::size_t>(r * columns + c); }};
  }
  /// Channels (axis 1) by all other axes.
  static Matrix of_channels(const Shape& shape) {
    const std::int64_t inner = element_count_unchecked(shape) / shape[0] / shape[1], channels = shape[1];
    return {channels, shape[0] * inner, [=](std::int64_t r, std::int64_t c) {
              return static_cast<std::size_t>((c / inner * channels + r) * inner + c % inner);
            }};
  }
};

/// scale and bias per column, or per row.
Reference normalised(const Matrix& m, const Values& x, const Values& scale, const Values& bias, bool centred,
                     bool per_row) {
  Reference result{Values(x.size()), {}, {}};
  for (std::int64_t r = 0; r < m.rows; ++r) {
    double mean = 0, square = 0;
    for (std::int64_t c = 0; centred && c < m.columns; ++c) mean += x[m.index(r, c)];
    mean /= static_cast<double>(m.columns);
    for (std::int64_t c = 0; c < m.columns; ++c) square += std::pow(x[m.index(r, c)] - mean, 2);
    const double inv = 1 / std::sqrt(square / static_cast<double>(m.columns) + epsilon);
    for (std::int64_t c = 0; c < m.columns; ++c) {
      const auto at = static_cast<std::size_t>(per_row ? r : c);
      result.y[m.index(r, c)] = (x[m.index(r, c)] - mean) * inv * scale[at] + (bias.empty() ? 0 : bias[at]);
    }
    result.mean.push_back(mean);
    result.inv.push_back(inv);
  }
  return result;
}

NormAttributes attributes_for(std::uint32_t axes, bool bias = false) {
  return {axes, bias, {epsilon}, {0.25}};
}

struct Case {
  Shape x;
  std::uint32_t axes;

  Shape parameters() const {
    Shape shape;
    for (std::size_t axis = x.size() - axes; axis < x.size(); ++axis) shape.push_back(x[axis]);
    return shape;
  }
  Shape statistics() const {
    Shape shape = x;
    for (std::size_t axis = x.size() - axes; axis < x.size(); ++axis) shape[axis] = 1;
    return shape;
  }
  std::int64_t columns() const { return element_count_unchecked(parameters()); }
  Matrix matrix() const { return Matrix::of_rows(element_count_unchecked(x) / columns(), columns()); }
};

const Case cases[] = {{{5, 7, 33}, 1}, {{3, 4, 5, 6}, 2}, {{2, 3, 2, 5}, 3},
                      {{3, 5001}, 1},  {{300, 40}, 1},    {{4, 1}, 1}};

void check_forward(const Case& c, DType dtype, DType parameter_type, Layout layout, Layout written,
                   bool centred, bool with_bias, Random& random) {
  SCOPED_TRACE(testing::Message() << c.x << " axes " << c.axes << " " << dtype << " layout "
                                  << static_cast<int>(layout));
  Tensor x = random.tensor(dtype, c.x, layout);
  Tensor scale = random.tensor(parameter_type, c.parameters()),
         bias = random.tensor(parameter_type, c.parameters());
  const Reference reference = normalised(c.matrix(), x.values(), scale.values(),
                                         with_bias ? bias.values() : Values{}, centred, false);
  Tensor y(dtype, c.x, written), mean(statistics_type(dtype), c.statistics()), inv = mean;
  std::vector<TensorView> operands{x.view(), scale.view()};
  if (with_bias) operands.push_back(bias.view());
  if (centred)
    run_both(layer_norm, attributes_for(c.axes), operands, {&y, &mean, &inv});
  else
    run_both(rms_norm, attributes_for(c.axes, with_bias), operands, {&y, &inv});
  const auto terms = static_cast<double>(c.columns());
  // In float64 the reference's own mean is rounded, which counts where a row is one value.
  expect_near(y, reference.y, dtype == DType::float64 ? 1e-10 : tolerance(dtype, terms), "y");
  if (centred) expect_near(mean, reference.mean, tolerance(statistics_type(dtype), terms), "mean");
  expect_near(inv, reference.inv, tolerance(statistics_type(dtype), terms), "inv");
}

TEST(CpuNorm, EveryDtypeAndLayout) {
  Random random(1);
  for (const Case& c : cases)
    for (const DType dtype : floats)
      for (const Layout layout : all_layouts)
        for (const Layout written : writable_layouts)
          for (const bool centred : {true, false}) {
            check_forward(c, dtype, dtype, layout, written, centred, true, random);
            check_forward(c, dtype, DType::float32, layout, written, centred, centred, random);
            if (testing::Test::HasFatalFailure()) return;
          }
}

TEST(CpuNorm, UnwantedResultsAndWiderOnes) {
  Random random(2);
  const Case& c = cases[0];
  Tensor x = random.tensor(DType::float16, c.x), scale = random.tensor(DType::float32, c.parameters());
  Tensor y(DType::float32, c.x), inv(DType::float32, c.statistics());
  const Reference reference = normalised(c.matrix(), x.values(), scale.values(), {}, false, false);
  const std::vector<TensorView> operands{x.view(), scale.view()};
  rms_norm(attributes_for(1), operands, std::vector<TensorView>{y.view(), inv.unwanted()});
  expect_near(y, reference.y, 1e-5, "y");
  rms_norm(attributes_for(1), operands, std::vector<TensorView>{y.unwanted(), inv.view()});
  expect_near(inv, reference.inv, 1e-5, "inv");
}

// A few float32 steps (0.0039 each) around 40000.
TEST(CpuNorm, MeansThatDwarfTheSpread) {
  Random random(3);
  const Case c{{6, 1000}, 1};
  Tensor x(DType::float32, c.x), ones(DType::float32, c.parameters()), zeros = ones;
  x.fill([&] { return 40000 + 0.00390625 * static_cast<double>(random.between(-3, 3)); });
  ones.fill([] { return 1; });
  zeros.fill([] { return 0; });
  Tensor y(DType::float32, c.x), mean(DType::float32, c.statistics()), inv = mean;
  run_both(layer_norm, attributes_for(1), {x.view(), ones.view(), zeros.view()}, {&y, &mean, &inv});
  const Reference reference = normalised(c.matrix(), x.values(), ones.values(), {}, true, false);
  expect_near(y, reference.y, 1e-5, "y");
  expect_near(inv, reference.inv, 1e-5, "inv");
}

TEST(CpuNorm, SpecialValues) {
  Random random(4);
  const Case c{{4, 50}, 1};
  for (const double special : {not_a_number, infinity}) {
    Tensor x = random.tensor(DType::float32, c.x), scale = random.tensor(DType::float32, c.parameters());
    x.set(60, special);
    Tensor y(DType::float32, c.x), inv(DType::float32, c.statistics());
    run_both(rms_norm, attributes_for(1), {x.view(), scale.view()}, {&y, &inv});
    expect_near(y, normalised(c.matrix(), x.values(), scale.values(), {}, false, false).y, 1e-5, "y");
  }
}

struct Gradients {
  Values dx, dscale, dbias;
};

/// By the formulas, from the statistics given.
Gradients gradients(const Matrix& m, const Values& dy, const Values& x, const Values& scale,
                    const Values& mean, const Values& inv, bool per_row) {
  const auto parameters = static_cast<std::size_t>(per_row ? m.rows : m.columns);
  Gradients result{Values(x.size()), Values(parameters), Values(parameters)};
  for (std::int64_t r = 0; r < m.rows; ++r) {
    const auto row = static_cast<std::size_t>(r);
    const double centre = mean.empty() ? 0 : mean[row];
    double sum = 0, product = 0;
    for (std::int64_t c = 0; c < m.columns; ++c) {
      const std::size_t i = m.index(r, c), at = per_row ? row : static_cast<std::size_t>(c);
      const double g = dy[i] * scale[at], normal = (x[i] - centre) * inv[row];
      sum += g;
      product += g * normal;
      result.dscale[at] += dy[i] * normal;
      result.dbias[at] += dy[i];
    }
    const auto count = static_cast<double>(m.columns);
    for (std::int64_t c = 0; c < m.columns; ++c) {
      const std::size_t i = m.index(r, c), at = per_row ? row : static_cast<std::size_t>(c);
      const double normal = (x[i] - centre) * inv[row];
      result.dx[i] =
          inv[row] * (dy[i] * scale[at] - (mean.empty() ? 0 : sum / count) - normal * product / count);
    }
  }
  return result;
}

double gradient_tolerance(DType dtype) {
  return dtype == DType::float32 ? 2e-5 : dtype == DType::float64 ? 1e-12 : tolerance(dtype, 1);
}

void check_backward(const Case& c, DType dtype, Layout layout, Layout written, bool centred, Random& random) {
  SCOPED_TRACE(testing::Message() << c.x << " axes " << c.axes << " " << dtype);
  const DType narrow = statistics_type(dtype);
  Tensor x = random.tensor(dtype, c.x, layout), dy = random.tensor(dtype, c.x, written);
  Tensor scale = random.tensor(narrow, c.parameters()), mean(narrow, c.statistics()), inv = mean;
  const Reference forward = normalised(c.matrix(), x.values(), scale.values(), {}, centred, false);
  for (std::int64_t i = 0; i < inv.size(); ++i) {
    inv.set(i, forward.inv[static_cast<std::size_t>(i)]);
    mean.set(i, forward.mean[static_cast<std::size_t>(i)]);
  }
  const Gradients reference = gradients(c.matrix(), dy.values(), x.values(), scale.values(),
                                        centred ? mean.values() : Values{}, inv.values(), false);
  Tensor dx(dtype, c.x, written), dscale(narrow, c.parameters()), dbias = dscale;
  if (centred)
    run_both(layer_norm_backward, attributes_for(c.axes),
             {dy.view(), x.view(), scale.view(), mean.view(), inv.view()}, {&dx, &dscale, &dbias});
  else
    run_both(rms_norm_backward, attributes_for(c.axes, true), {dy.view(), x.view(), scale.view(), inv.view()},
             {&dx, &dscale, &dbias});
  // Of one column dx is 0 but for epsilon's part, and rounding is all that is left.
  if (c.columns() > 1) expect_near(dx, reference.dx, gradient_tolerance(dtype), "dx");
  expect_near(dscale, reference.dscale, gradient_tolerance(narrow), "dscale");
  expect_near(dbias, reference.dbias, gradient_tolerance(narrow), "dbias");
}

TEST(CpuNorm, BackwardOfEveryDtypeAndLayout) {
  Random random(5);
  for (const Case& c : cases)
    for (const DType dtype : floats)
      for (const Layout layout : all_layouts)
        for (const Layout written : writable_layouts)
          for (const bool centred : {true, false}) {
            check_backward(c, dtype, layout, written, centred, random);
            if (testing::Test::HasFatalFailure()) return;
          }
}

TEST(CpuNorm, GradientsByFiniteDifferences) {
  Random random(6);
  const Case c{{3, 8}, 1};
  const DType f64 = DType::float64;
  Tensor x = random.tensor(f64, c.x), dy = random.tensor(f64, c.x);
  Tensor scale = random.tensor(f64, c.parameters()), zeros(f64, c.parameters());
  zeros.fill([] { return 0; });
  for (const bool centred : {true, false}) {
    Tensor y(f64, c.x), mean(f64, c.statistics()), inv = mean, dx(f64, c.x), dscale(f64, c.parameters());
    Tensor dbias = dscale;
    if (centred) {
      run_both(layer_norm, attributes_for(1), {x.view(), scale.view(), zeros.view()}, {&y, &mean, &inv});
      run_both(layer_norm_backward, attributes_for(1),
               {dy.view(), x.view(), scale.view(), mean.view(), inv.view()}, {&dx, &dscale, &dbias});
    } else {
      run_both(rms_norm, attributes_for(1), {x.view(), scale.view()}, {&y, &inv});
      run_both(rms_norm_backward, attributes_for(1), {dy.view(), x.view(), scale.view(), inv.view()},
               {&dx, &dscale});
    }
    expect_near(dx,
                finite_differences(x.values(), dy.values(),
                                   [&](const Values& at) {
                                     return normalised(c.matrix(), at, scale.values(), {}, centred, false).y;
                                   }),
                1e-7, "dx");
    expect_near(dscale,
                finite_differences(scale.values(), dy.values(),
                                   [&](const Values& at) {
                                     return normalised(c.matrix(), x.values(), at, {}, centred, false).y;
                                   }),
                1e-7, "dscale");
  }
}

// ---- batch normalisation

const Shape batches[] = {{4, 5, 7, 3}, {3, 33, 40}, {2, 1, 5}, {1, 4, 1}, {2, 64, 30, 31}};

void check_batch(const Shape& shape, DType dtype, Layout layout, Layout written, Random& random) {
  SCOPED_TRACE(testing::Message() << shape << " " << dtype << " layout " << static_cast<int>(layout));
  const DType narrow = statistics_type(dtype);
  const Shape channels{shape[1]};
  const Matrix m = Matrix::of_channels(shape);
  Tensor x = random.tensor(dtype, shape, layout), dy = random.tensor(dtype, shape, written);
  Tensor scale = random.tensor(narrow, channels), bias = random.tensor(narrow, channels);
  Tensor running_mean = random.tensor(narrow, channels), running_variance = random.tensor(narrow, channels);
  Tensor y(dtype, shape, written), mean(narrow, channels), inv = mean, next_mean = mean, next_variance = mean;
  run_both(batch_norm_training, attributes_for(0),
           {x.view(), scale.view(), bias.view(), running_mean.view(), running_variance.view()},
           {&y, &mean, &inv, &next_mean, &next_variance});
  const Reference reference = normalised(m, x.values(), scale.values(), bias.values(), true, true);
  const double wide = tolerance(narrow, static_cast<double>(m.columns));
  // Samples that are all alike leave the mean's rounding, divided by the root of epsilon.
  const double allowed = dtype == DType::float32   ? 3e-5
                         : dtype == DType::float64 ? 1e-12
                                                   : tolerance(dtype, 1);
  expect_near(y, reference.y, allowed, "y");
  expect_near(mean, reference.mean, wide, "mean");
  expect_near(inv, reference.inv, wide, "inv");
  Values means, variances;
  for (std::size_t c = 0; c < reference.mean.size(); ++c) {
    const auto count = static_cast<double>(m.columns);
    const double biased = 1 / (reference.inv[c] * reference.inv[c]) - epsilon;
    const auto at = static_cast<std::int64_t>(c);
    means.push_back(0.75 * running_mean.get(at) + 0.25 * reference.mean[c]);
    variances.push_back(0.75 * running_variance.get(at) +
                        0.25 * biased * (m.columns == 1 ? 1 : count / (count - 1)));
  }
  expect_near(next_mean, means, wide, "next mean");
  expect_near(next_variance, variances, wide, "next variance");

  Tensor dx(dtype, shape, written), dscale(narrow, channels), dbias = dscale;
  run_both(batch_norm_backward, attributes_for(0),
           {dy.view(), x.view(), scale.view(), mean.view(), inv.view()}, {&dx, &dscale, &dbias});
  const Gradients gradient =
      gradients(m, dy.values(), x.values(), scale.values(), mean.values(), inv.values(), true);
  if (m.columns > 1) expect_near(dx, gradient.dx, gradient_tolerance(dtype), "dx");
  const double sums = narrow == DType::float32 ? 1e-4 : 1e-11;
  if (m.columns > 1) expect_near(dscale, gradient.dscale, sums, "dscale");
  expect_near(dbias, gradient.dbias, sums, "dbias");
}

TEST(CpuNorm, BatchNormOfEveryDtypeAndLayout) {
  Random random(7);
  for (const Shape& shape : batches)
    for (const DType dtype : floats)
      for (const Layout layout : all_layouts)
        for (const Layout written : writable_layouts) {
          check_batch(shape, dtype, layout, written, random);
          if (testing::Test::HasFatalFailure()) return;
        }
}

TEST(CpuNorm, BatchNormGradientByFiniteDifferences) {
  Random random(8);
  const Shape shape{2, 3, 4};
  const DType f64 = DType::float64;
  Tensor x = random.tensor(f64, shape), dy = random.tensor(f64, shape), scale = random.tensor(f64, {3});
  const Reference forward =
      normalised(Matrix::of_channels(shape), x.values(), scale.values(), {}, true, true);
  Tensor mean(f64, {3}), inv = mean, dx(f64, shape), dscale = mean, dbias = mean;
  for (std::int64_t c = 0; c < 3; ++c) {
    mean.set(c, forward.mean[static_cast<std::size_t>(c)]);
    inv.set(c, forward.inv[static_cast<std::size_t>(c)]);
  }
  run_both(batch_norm_backward, attributes_for(0),
           {dy.view(), x.view(), scale.view(), mean.view(), inv.view()}, {&dx, &dscale, &dbias});
  const auto y_of = [&](const Values& x_at, const Values& scale_at) {
    return normalised(Matrix::of_channels(shape), x_at, scale_at, {}, true, true).y;
  };
  expect_near(
      dx,
      finite_differences(x.values(), dy.values(), [&](const Values& at) { return y_of(at, scale.values()); }),
      1e-7, "dx");
  expect_near(
      dscale,
      finite_differences(scale.values(), dy.values(), [&](const Values& at) { return y_of(x.values(), at); }),
      1e-7, "dscale");
}

}  // namespace
}  // namespace stiletto::detail::cpu::test
