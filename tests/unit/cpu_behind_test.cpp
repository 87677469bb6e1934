// SPDX-License-Identifier: Apache-2.0
// Pointwise work behind convolutions and norms, which runs on each part of their result while that is in
// cache: the same bits as in a call of its own, for all layouts, cuts and dtypes, no memory beside the
// result's own where that can hold it, and separate steps where the work needs more than the result.
#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <string>
#include <vector>

#include "stiletto/stiletto.hpp"

namespace unit_behind {
namespace {

namespace st = stiletto;
using st::Array;
using st::DType;
using st::Shape;
using Arrays = std::vector<Array>;
using Function = std::function<Arrays(const Arrays&)>;

Array random_array(const Shape& shape, DType dtype, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(1);
  for (const std::int64_t extent : shape) values.resize(values.size() * static_cast<std::size_t>(extent));
  for (float& value : values) value = normal(generator);
  return st::cast(st::from_data(values, shape), dtype);
}
/// The channels lie innermost.
Array channels_last(const Array& x) {
  st::Dims to{0}, back{0, static_cast<std::int64_t>(x.rank()) - 1};
  for (std::int64_t axis = 2; axis < static_cast<std::int64_t>(x.rank()); ++axis) to.push_back(axis);
  to.push_back(1);
  for (std::int64_t axis = 1; axis < static_cast<std::int64_t>(x.rank()) - 1; ++axis) back.push_back(axis);
  return st::transpose(st::transpose(x, to).copy(), back);
}

bool by_parts(const std::string& plan) { return plan.find("on its parts") != std::string::npos; }

/// `behind` gets what `first` computes, and then `more`: in one graph and in two.
void expect_same(const Function& first, const Function& behind, const Arrays& operands, const Arrays& more,
                 bool parts = true) {
  const auto whole = [&](const Arrays& a) {
    const Arrays given(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(operands.size()));
    Arrays next = first(given);
    next.insert(next.end(), a.begin() + static_cast<std::ptrdiff_t>(operands.size()), a.end());
    return behind(next);
  };
  Arrays all = operands;
  all.insert(all.end(), more.begin(), more.end());
  const auto compiled = st::compile(whole, all);
  EXPECT_EQ(by_parts(compiled.graph().to_string()), parts) << compiled.graph().to_string();
  const Arrays got = compiled(all);
  Arrays between = st::compile([&](const Arrays& a) { return first(a); }, operands)(operands);
  between.insert(between.end(), more.begin(), more.end());
  const Arrays want = st::compile([&](const Arrays& a) { return behind(a); }, between)(between);
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].strides(), want[i].strides());
    EXPECT_EQ(st::cast(got[i], DType::float64).to_vector<double>(),
              st::cast(want[i], DType::float64).to_vector<double>());
  }
}

Arrays convolved(const Arrays& a) { return {st::conv(a[0], a[1], {.pre_padding = 1})}; }
Arrays layer(const Arrays& a) { return {st::relu(a[0] + a[1] + a[2])}; }

// ---- convolution

struct Images {
  const char* name;
  Shape x, w;
};
/// Many samples in a piece, one, rows of one; without oneDNN's fast implementations; one and three spatial
/// axes.
const Images images[] = {{"many small samples", {70, 4, 5, 6}, {8, 4, 3, 3}},
                         {"large samples", {2, 64, 56, 56}, {64, 64, 3, 3}},
                         {"one sample, odd rows", {1, 64, 61, 59}, {40, 64, 3, 3}},
                         {"one channel", {3, 1, 9, 7}, {1, 1, 3, 3}},
                         {"one spatial axis", {3, 4, 40}, {6, 4, 3}},
                         {"three spatial axes", {2, 4, 5, 6, 7}, {6, 4, 3, 3, 3}}};

class Behind : public testing::TestWithParam<Images> {};

TEST_P(Behind, a_convolution_gives_the_same_bits) {
  const auto& [name, x, w] = GetParam();
  SCOPED_TRACE(name);
  Shape y = x, bias{w[0]};
  y[1] = w[0];
  for (std::size_t axis = 2; axis < x.size(); ++axis) bias.push_back(1);
  for (const DType dtype : {DType::float32, DType::float64}) {
    if (dtype == DType::float64 && x[1] == 64) continue;  // for its time
    const Array image = random_array(x, dtype, 1), filter = random_array(w, dtype, 2),
                b = random_array(bias, dtype, 3), residual = random_array(y, dtype, 4);
    // Channels-first, a part is a piece of memory for each channel.
    expect_same(convolved, layer, {image, filter}, {b, residual}, w[0] == 1);
    expect_same(convolved, layer, {channels_last(image), channels_last(filter)},
                {b, channels_last(residual)});
    expect_same(convolved, layer, {channels_last(image), filter}, {b, residual}, w[0] == 1);
  }
}

INSTANTIATE_TEST_SUITE_P(Cpu, Behind, testing::ValuesIn(images), [](const auto& info) {
  std::string name = info.param.name;
  for (char& c : name)
    if (c == ' ' || c == ',') c = '_';
  return name;
});

TEST(BehindCpu, a_convolution_of_integers_gives_the_same_bits) {
  const Array x = st::cast(random_array({3, 4, 9, 8}, DType::float32, 1) * 9, DType::int8),
              w = st::cast(random_array({5, 4, 3, 3}, DType::float32, 2) * 9, DType::int8),
              b = st::cast(random_array({5, 1, 1}, DType::float32, 3) * 9, DType::int32);
  expect_same(convolved, [](const Arrays& a) { return Arrays{st::maximum(a[0] + a[1], 0)}; },
              {channels_last(x), w}, {b});
}

/// float32 in memory of its own, as bfloat16 cannot hold it between.
TEST(BehindCpu, bfloat16_is_rounded_once) {
  const auto make = [](const Shape& shape, unsigned seed) {
    return random_array(shape, DType::bfloat16, seed);
  };
  const Arrays all{channels_last(make({4, 8, 9, 8}, 1)), make({8, 8, 3, 3}, 2), make({8, 1, 1}, 3)};
  const auto f = [](const Arrays& a) { return Arrays{st::tanh(convolved(a)[0] * a[2])}; };
  const auto compiled = st::compile(f, all);
  EXPECT_TRUE(by_parts(compiled.graph().to_string())) << compiled.graph().to_string();
  EXPECT_GE(compiled.workspace(), 4U * 4 * 8 * 9 * 8);
  Arrays wide;
  for (const Array& array : all) wide.push_back(st::cast(array, DType::float32));
  const Array want = st::cast(st::compile(f, wide)(wide)[0], DType::bfloat16);
  EXPECT_EQ(st::cast(compiled(all)[0], DType::float32).to_vector<float>(),
            st::cast(want, DType::float32).to_vector<float>());
}

TEST(BehindCpu, the_result_alone_is_what_memory_is_taken_for) {
  const Array x = channels_last(random_array({4, 16, 20, 20}, DType::float32, 1)),
              w = random_array({16, 16, 3, 3}, DType::float32, 2),
              b = random_array({16, 1, 1}, DType::float32, 3),
              r = channels_last(random_array({4, 16, 20, 20}, DType::float32, 4));
  const auto f = [](const Array& i, const Array& v, const Array& bias, const Array& residual) {
    return layer({convolved({i, v})[0], bias, residual})[0];
  };
  EXPECT_EQ(st::compile(f, x, w, b, r).workspace(), 0U);
  const auto norm = [](const Array& a, const Array& s) { return st::silu(st::rms_norm(a, s)); };
  EXPECT_EQ(
      st::compile(norm, random_array({64, 96}, DType::float32, 1), random_array({96}, DType::float32, 2))
          .workspace(),
      0U);
}

TEST(BehindCpu, what_is_added_may_be_the_destination) {
  const Array x = channels_last(random_array({2, 64, 56, 56}, DType::float32, 1)),
              w = random_array({64, 64, 3, 3}, DType::float32, 2),
              r = channels_last(random_array({2, 64, 56, 56}, DType::float32, 3));
  const Array want = st::relu(st::conv(x, w, {.pre_padding = 1}) + r);
  const auto f = st::compile(
      [](const Array& to, const Array& image, const Array& filter, const Array& add) {
        st::assign(to, st::relu(st::conv(image, filter, {.pre_padding = 1}) + add));
      },
      r, x, w, r);
  EXPECT_TRUE(by_parts(f.graph().to_string()));
  f(r, x, w, r);
  EXPECT_EQ(r.to_vector<float>(), want.to_vector<float>());
  EXPECT_THROW(f(x, x, w, r), st::AliasError);  // pieces of it are still convolved
}

TEST(BehindCpu, a_value_that_is_returned_as_well_stays_what_it_is) {
  const Array x = random_array({3, 8, 12, 11}, DType::float32, 1),
              w = random_array({8, 8, 3, 3}, DType::float32, 2);
  expect_same(convolved,
              [](const Arrays& a) { return Arrays{a[0], st::relu(a[0]), st::cast(a[0], DType::float16)}; },
              {channels_last(x), w}, {});
}

TEST(BehindCpu, convolutions_behind_one_another) {
  const Array x = random_array({3, 8, 12, 11}, DType::float32, 1),
              w = random_array({8, 8, 3, 3}, DType::float32, 2);
  const auto two = [](const Array& image, const Array& filter) {
    const st::ConvOptions same{.pre_padding = 1};
    return st::relu(st::conv(st::relu(st::conv(image, filter, same)), filter, same));
  };
  const auto one = [](const Array& image, const Array& filter) {
    return st::relu(st::conv(image, filter, {.pre_padding = 1}));
  };
  EXPECT_EQ(st::jit(two, x, w).to_vector<float>(), st::jit(one, st::jit(one, x, w), w).to_vector<float>());
}

// ---- norms

struct Norm {
  Shape x;
  std::size_t axes;  // that are normalised
};

/// `last`: x, and so the result, lies so that a part is many pieces of memory.
void expect_norms(const Norm& of, DType dtype, bool last) {
  const Shape scale_shape(std::span(of.x.begin() + (of.x.size() - of.axes), of.axes));
  Array x = random_array(of.x, dtype, 1), gate = random_array(of.x, dtype, 4);
  if (last) x = channels_last(x), gate = channels_last(gate);
  const Array scale = random_array(scale_shape, dtype, 2), bias = random_array(scale_shape, dtype, 3);
  const auto gated = [](const Arrays& a) { return Arrays{st::silu(a[0]) * a[1]}; };
  expect_same([](const Arrays& a) { return Arrays{st::rms_norm(a[0], a[1])}; }, gated, {x, scale}, {gate},
              !last);
  expect_same([](const Arrays& a) { return Arrays{st::layer_norm(a[0], a[1], a[2])}; }, gated,
              {x, scale, bias}, {gate}, !last);
}

TEST(BehindCpu, norms_give_the_same_bits) {
  for (const Norm& of : {Norm{{700, 33}, 1}, Norm{{5, 9000}, 1}, Norm{{300}, 1}, Norm{{3, 50, 64}, 1},
                         Norm{{3, 7, 5, 6}, 2}, Norm{{2, 3, 4, 5, 6}, 1}, Norm{{1, 40, 1, 64}, 1}})
    for (const DType dtype : {DType::float32, DType::float64}) {
      expect_norms(of, dtype, false);
      if (of.x.size() > 2) expect_norms(of, dtype, true);
    }
}

/// Rows of one index of the outer axis lie apart.
TEST(BehindCpu, norms_whose_rows_lie_in_another_order) {
  const Array x = st::transpose(random_array({500, 3, 64}, DType::float32, 1), {1, 0, 2}),
              scale = random_array({64}, DType::float32, 2),
              add = random_array({3, 500, 64}, DType::float32, 3);
  expect_same([](const Arrays& a) { return Arrays{st::rms_norm(a[0], a[1])}; },
              [](const Arrays& a) { return Arrays{st::tanh(a[0]) + a[1]}; }, {x, scale}, {add});
}

TEST(BehindCpu, work_on_the_statistics_too_is_a_step_of_its_own) {
  const Array x = random_array({40, 64}, DType::float32, 1), scale = random_array({64}, DType::float32, 2);
  const auto f = st::compile(
      [](const Array& a, const Array& s) {
        const auto r = st::rms_norm_with_stats(a, s);
        return r.y * r.inv_rms;
      },
      x, scale);
  EXPECT_FALSE(by_parts(f.graph().to_string())) << f.graph().to_string();
  const auto r = st::rms_norm_with_stats(x, scale);
  EXPECT_EQ(f(x, scale).to_vector<float>(), (r.y * r.inv_rms).to_vector<float>());
}

TEST(BehindCpu, a_sum_behind_is_a_step_of_its_own) {
  const Array x = random_array({40, 64}, DType::float32, 1), scale = random_array({64}, DType::float32, 2);
  const auto f = st::compile(
      [](const Array& a, const Array& s) { return st::sum(st::silu(st::rms_norm(a, s)), -1); }, x, scale);
  EXPECT_FALSE(by_parts(f.graph().to_string()));
  EXPECT_EQ(f(x, scale).to_vector<float>(), st::sum(st::silu(st::rms_norm(x, scale)), -1).to_vector<float>());
}

}  // namespace
}  // namespace unit_behind
