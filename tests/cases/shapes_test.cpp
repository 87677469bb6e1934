// SPDX-License-Identifier: Apache-2.0
// Public fault reports about shapes, strides and views: zero extents, broadcasting, overlap, rank limits.
// Numbers are those of the list in README.md; each test runs its case as reported.
#include <gtest/gtest.h>

#include "support/cases.hpp"

namespace {

using namespace support;
using stiletto::Dims;
using stiletto::Slice;

const DType float32 = DType::float32;

Array of(const Extents& shape, std::vector<Real> values, DType dtype = float32) {
  return to_array(Tensor(dtype, shape, std::move(values)));
}

TEST(PublicCases, case_2) {
  const Array a = stiletto::empty({10, 1, 0}), b = stiletto::empty({10, 0, 7});
  const Tensor zero(float32, {10, 1, 7});
  Tensor two = zero;
  for (Real& value : two.values) value = 2;
  const Array c = stiletto::full({10, 1, 7}, 123.0F);
  stiletto::matmul_into(c, a, b, 1, 0);
  EXPECT_TRUE(agrees(c, zero, {.exact = true}));
  const Array d = stiletto::full({10, 1, 7}, 2.0F);
  stiletto::jit([](const Array& z, const Array& x, const Array& y) { stiletto::matmul_into(z, x, y, 1, 1); },
                d, a, b);
  EXPECT_TRUE(agrees(d, two, {.exact = true}));
  EXPECT_TRUE(agrees(stiletto::matmul(a, b), zero, {.exact = true}));
}

TEST(PublicCases, case_3) {
  for (DType dtype : {float32, DType::int8, DType::int32}) {
    const Array a = stiletto::empty({0, 4}, dtype), b = stiletto::ones({3, 4}, dtype);
    const Array turned = stiletto::transpose(b);
    ASSERT_EQ(turned.strides(), Dims({1, 4}));
    for (Mode mode : {Mode::jit, Mode::compiled, Mode::eager}) {
      const Array c =
          run([](const std::vector<Array>& x) { return stiletto::matmul(x[0], x[1]); }, {a, turned}, mode);
      EXPECT_EQ(c.shape(), Dims({0, 3}));
      EXPECT_EQ(c.dtype(), matmul_dtype(dtype, dtype));
    }
  }
}

TEST(PublicCases, case_6) {
  auto last = [](const Array& x) { return stiletto::max(x, -1); };
  EXPECT_EQ(stiletto::jit(last, stiletto::zeros({0, 2})).shape(), Dims({0}));
  EXPECT_EQ(stiletto::jit(last, stiletto::zeros({3, 0, 2})).shape(), Dims({3, 0}));
  try {
    stiletto::jit(last, stiletto::zeros({2, 0}));
    FAIL() << "max over an empty axis";
  } catch (const stiletto::ShapeError& error) {
    EXPECT_NE(std::string(error.what()).find('1'), std::string::npos) << error.what();  // the axis
  }
}

TEST(PublicCases, case_7) {
  const Array x = stiletto::zeros({2, 0, 4});
  for (bool eager : {false, true}) {
    auto call = [&](auto f) { return eager ? f(x) : stiletto::jit(f, x); };
    EXPECT_TRUE(equals(call([](const Array& a) { return stiletto::sum(a); }), float32, {}, {0}));
    EXPECT_TRUE(std::isnan(call([](const Array& a) { return stiletto::mean(a); }).template item<float>()));
    EXPECT_TRUE(equals(call([](const Array& a) { return stiletto::sum(a, 1, true); }), float32, {2, 1, 4},
                       std::vector<Real>(8, 0)));
  }
}

TEST(PublicCases, case_8) {
  const Array x = stiletto::zeros({1, 0, 32, 64});
  EXPECT_THROW(stiletto::reshape(x, {1, 0, -1}), stiletto::ShapeError);
  EXPECT_THROW(stiletto::jit([](const Array& a) { return stiletto::reshape(a, {1, 0, -1}); }, x),
               stiletto::ShapeError);
  EXPECT_THROW(stiletto::zeros({2, -1}), stiletto::ShapeError);
  EXPECT_THROW(stiletto::spec({2, -1}, float32), stiletto::ShapeError);
  EXPECT_THROW(stiletto::broadcast_to(stiletto::ones({1}), {-1}), stiletto::ShapeError);
  EXPECT_THROW(stiletto::as_strided(stiletto::ones({4}), {-1}, {1}), stiletto::ShapeError);
}

TEST(PublicCases, case_9) {
  const Array a = of({1, 2, 2}, {1, 2, 3, 4});
  for (const Dims& strides : {Dims{2, 1, 1}, Dims{2, 1, 0}, Dims{2, 1, 2}, Dims{0, 1, 99}}) {
    const Array storage = of({2}, {10, 20});
    const Array b = stiletto::wrap(storage.raw_data(), {1, 2, 1}, float32, device(), strides);
    for (Mode mode : {Mode::jit, Mode::compiled, Mode::eager})
      EXPECT_TRUE(equals(run(operation("add").call, {a, b}, mode), float32, {1, 2, 2}, {11, 12, 23, 24}));
  }
}

TEST(PublicCases, case_12) {
  const Array x = of({1, 3, 4}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  const Array storage = stiletto::zeros({12});
  const Array out = stiletto::as_strided(storage, {1, 3, 4}, {0, 4, 1});
  stiletto::jit([](const Array& d, const Array& a) { stiletto::assign(d, 2 * a); }, out, x);
  EXPECT_TRUE(equals(storage, float32, {12}, {0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22}));
}

TEST(PublicCases, case_13) {
  const Array one = stiletto::full({1}, 7.0F), x = stiletto::ones({3});
  const Array out = stiletto::broadcast_to(one, {3});
  EXPECT_THROW(
      stiletto::jit([](const Array& d, const Array& a) { stiletto::assign(d, stiletto::cos(a)); }, out, x),
      stiletto::AliasError);
  EXPECT_THROW(stiletto::assign(out, x), stiletto::AliasError);
  EXPECT_EQ(one.item<float>(), 7.0F);
}

TEST(PublicCases, case_14) {
  const Array a = of({2, 2}, {1, 2, 3, 4});
  auto f = [](const Array& d) { stiletto::assign(d, d - stiletto::slice(d, {Slice{}, Slice{0, 1}})); };
  EXPECT_THROW(stiletto::jit(f, a), stiletto::AliasError);
  EXPECT_TRUE(equals(a, float32, {2, 2}, {1, 2, 3, 4}));
  auto apart = [](const Array& d, const Array& whole, const Array& column) {
    stiletto::assign(d, whole - column);
  };
  const Array column = stiletto::slice(a, {Slice{}, Slice{0, 1}});
  EXPECT_THROW(stiletto::jit(apart, a, a, column), stiletto::AliasError);
  EXPECT_TRUE(equals(a, float32, {2, 2}, {1, 2, 3, 4}));
  EXPECT_TRUE(equals(a - column, float32, {2, 2}, {0, 1, 0, 1}));
}

TEST(PublicCases, case_17) {
  const Array data = of({6}, {1, 2, 3, 4, 5, 6});
  const Array view = stiletto::as_strided(data, {2, 3}, {3, 0}), zero = stiletto::zeros({2, 3});
  for (Mode mode : {Mode::jit, Mode::compiled, Mode::eager}) {
    EXPECT_TRUE(equals(run(operation("add").call, {view, zero}, mode), float32, {2, 3}, {1, 1, 1, 4, 4, 4}));
    EXPECT_TRUE(equals(run(operation("add").call, {zero, view}, mode), float32, {2, 3}, {1, 1, 1, 4, 4, 4}));
  }
}

TEST(PublicCases, case_19) {
  const Tensor a =
      tabulate(float32, {2, 1, 1, 1, 1, 2, 2}, [](const Extents& i) { return static_cast<Real>(i[0] + 1); });
  const Tensor b = tabulate(float32, {2, 3, 1, 1, 1, 2, 2},
                            [](const Extents& i) { return static_cast<Real>(10 << i[1]); });
  const Array out =
      stiletto::jit([](const Array& x, const Array& y) { return x + y; }, to_array(a), to_array(b));
  ASSERT_EQ(out.rank(), 7);
  for (std::int64_t n : {0, 1})
    for (std::int64_t m : {0, 1, 2})
      for (std::int64_t i : {0, 1})
        for (std::int64_t j : {0, 1})
          EXPECT_EQ(out.at<float>({n, m, 0, 0, 0, i, j}), static_cast<float>((10 << m) + n + 1));
}

// Rank 9: refused by name, wherever it would arise.
TEST(PublicCases, case_20) {
  const Extents nine(9, 2);
  auto names_the_limit = [](auto f) {
    try {
      f();
      ADD_FAILURE() << "rank 9 was taken";
    } catch (const stiletto::ShapeError& error) {
      EXPECT_NE(std::string(error.what()).find('8'), std::string::npos) << error.what();
    }
  };
  names_the_limit([&] { dims(nine); });
  names_the_limit([] { Dims({2, 2, 2, 2, 2, 2, 2, 2, 2}); });
  const Array eight = stiletto::zeros({2, 2, 2, 2, 2, 2, 2, 2});
  names_the_limit([&] { stiletto::expand_dims(eight, 0); });
  names_the_limit(
      [&] { stiletto::jit([](const Array& x) { return stiletto::expand_dims(x, -1) + 1; }, eight); });
  // Within the limit the permutation is the bit reversal of the index.
  const Tensor x = tabulate(float32, Extents(8, 2), [n = Real{0}](const Extents&) mutable { return n++; });
  EXPECT_TRUE(agrees(stiletto::jit([](const Array& v) { return stiletto::transpose(v) + 0; }, to_array(x)),
                     transposed(x), {.exact = true}));
}

TEST(PublicCases, case_21) {
  const Array a = stiletto::zeros({2, 1, 16, 16}), b = stiletto::zeros({2, 1, 16, 256});
  try {
    stiletto::compile([](const Array& x, const Array& y) { return x + y; }, a, b);
    FAIL() << "incompatible shapes compiled";
  } catch (const stiletto::ShapeError& error) {
    const std::string text = error.what();
    for (const char* fact : {"(2, 1, 16, 16)", "(2, 1, 16, 256)", "3", "add"})
      EXPECT_NE(text.find(fact), std::string::npos) << fact << " in: " << text;
  }
}

TEST(PublicCases, case_22) {
  const Tensor a =
      tabulate(float32, {10, 8}, [](const Extents& i) { return static_cast<Real>(100 * i[0] + i[1]); });
  const Tensor b =
      tabulate(float32, {2, 1, 8}, [](const Extents& i) { return static_cast<Real>(10000 * i[0]); });
  const Tensor expected = tabulate(float32, {2, 10, 8}, [](const Extents& i) {
    return static_cast<Real>(10000 * i[0] + 100 * i[1] + i[2]);
  });
  for (Mode mode : {Mode::jit, Mode::compiled, Mode::eager}) {
    EXPECT_TRUE(
        agrees(run(operation("add").call, {to_array(a), to_array(b)}, mode), expected, {.exact = true}));
    EXPECT_TRUE(
        agrees(run(operation("add").call, {to_array(b), to_array(a)}, mode), expected, {.exact = true}));
  }
}

TEST(PublicCases, case_23) {
  const Tensor gates =
      tabulate(float32, {4, 4}, [](const Extents& i) { return static_cast<Real>(i[0]) - i[1] / 2.0L; });
  const Array view = stiletto::slice(to_array(gates), {Slice{}, Slice{0, 2}});
  ASSERT_EQ(view.strides(), Dims({4, 1}));
  const Array y = stiletto::jit([](const Array& x) { return stiletto::softmax(x); }, view);
  std::vector<Real> rows;
  for (int i = 0; i < 4; ++i) rows.insert(rows.end(), {0.62245933L, 0.37754067L});
  EXPECT_TRUE(agrees(y, Tensor(float32, {4, 2}, rows)));
  EXPECT_NEAR(stiletto::sum(y).item<float>(), 4.0F, 1e-6);
}

TEST(PublicCases, case_28) {
  EXPECT_EQ(stiletto::zeros({3, 4}).strides(), Dims({4, 1}));
  EXPECT_EQ(stiletto::zeros({2, 3, 5}).strides(), Dims({15, 5, 1}));
  EXPECT_EQ(stiletto::zeros({1}).strides(), Dims({1}));
  EXPECT_EQ(stiletto::zeros({}).strides(), Dims());
  EXPECT_EQ(stiletto::spec({3, 4}, float32).strides(), Dims({4, 1}));
  EXPECT_EQ(stiletto::jit([](const Array& x) { return x + 1; }, stiletto::zeros({2, 3, 5})).strides(),
            Dims({15, 5, 1}));
  EXPECT_EQ(stiletto::reshape(stiletto::zeros({12}), {3, 4}).strides(), Dims({4, 1}));
  float memory[12] = {};
  EXPECT_EQ(stiletto::wrap(memory, {3, 4}, float32, stiletto::Device::cpu()).strides(), Dims({4, 1}));
  EXPECT_EQ(stiletto::full({3, 4}, 1).copy().strides(), Dims({4, 1}));
}

TEST(PublicCases, case_31) {
  const Array x = of({2, 3}, {1, 2, 3, 4, 5, 6});
  const Array view = stiletto::slice(x, {Slice{{}, {}, -1}, Slice{{}, {}, -1}});
  ASSERT_EQ(view.strides(), Dims({-3, -1}));
  ASSERT_EQ(view.data<float>(), x.data<float>() + 5);
  const Array identity = of({3, 3}, {1, 0, 0, 0, 1, 0, 0, 0, 1});
  for (Mode mode : {Mode::jit, Mode::compiled, Mode::eager}) {
    EXPECT_TRUE(equals(
        run([](const std::vector<Array>& a) { return stiletto::matmul(a[0], a[1]); }, {view, identity}, mode),
        float32, {2, 3}, {6, 5, 4, 3, 2, 1}));
    EXPECT_TRUE(equals(run([](const std::vector<Array>& a) { return stiletto::sum(a[0], 0); }, {view}, mode),
                       float32, {3}, {9, 7, 5}));
  }
}

}  // namespace
