// SPDX-License-Identifier: Apache-2.0
// Result shapes of every family of operations, and the memory order of what they make, as the trace has them
// before anything is compiled.
#include <gtest/gtest.h>

#include <vector>

#include "unit/trace_support.hpp"

namespace {

using stiletto::Axes;
using stiletto::Dims;
using stiletto::ShapeError;
using unit::Array;
using unit::DType;
using unit::Recording;
using unit::Shape;
using unit::Strides;

// ---- elementwise ----------------------------------------------------------------------------------------

TEST(ShapeRules, elementwise_broadcasts) {
  Recording r;
  const Array x = r.argument({2, 1, 3}), y = r.argument({5, 1}), scalar = r.argument({}), z = r.argument({0});
  EXPECT_EQ((x + y).shape(), (Dims{2, 5, 3}));
  EXPECT_EQ((y < x).shape(), (Dims{2, 5, 3}));
  EXPECT_EQ((x * scalar).shape(), (Dims{2, 1, 3}));
  EXPECT_EQ((2 - y).shape(), (Dims{5, 1}));
  EXPECT_EQ((z + y).shape(), (Dims{5, 0}));
  EXPECT_EQ(stiletto::where(y > 0, x, scalar).shape(), (Dims{2, 5, 3}));
  EXPECT_EQ(stiletto::clamp(scalar, y, x).shape(), (Dims{2, 5, 3}));
  EXPECT_EQ(stiletto::exp(x).shape(), (Dims{2, 1, 3}));
  EXPECT_EQ(stiletto::cast(x, DType::int8).shape(), (Dims{2, 1, 3}));
  EXPECT_EQ(x.copy().shape(), (Dims{2, 1, 3}));
  EXPECT_THROW(x + r.argument({2}), ShapeError);
  EXPECT_THROW(z * x, ShapeError) << "0 is not 1";
  EXPECT_THROW(stiletto::where(r.argument({4}, DType::boolean), x, y), ShapeError);
  EXPECT_THROW(stiletto::clamp(x, y, r.argument({4})), ShapeError);
}

TEST(ShapeRules, a_broadcast_result_that_overflows) {
  Recording r;
  const std::int64_t large = std::int64_t{1} << 40;
  EXPECT_THROW(r.argument({large, 1}) + r.argument({large}), ShapeError);
  EXPECT_NO_THROW(r.argument({large, 1}) + r.argument({1 << 20}));
}

// ---- reductions -----------------------------------------------------------------------------------------

TEST(ShapeRules, reductions) {
  Recording r;
  const Array x = r.argument({2, 3, 4});
  using Reduction = Array (*)(const Array&, Axes, bool);
  for (Reduction f :
       {Reduction(stiletto::sum), Reduction(stiletto::mean), Reduction(stiletto::max),
        Reduction(stiletto::min), Reduction(stiletto::abs_max), Reduction(stiletto::prod),
        Reduction(stiletto::norm1), Reduction(stiletto::norm2), Reduction(stiletto::logsumexp)}) {
    EXPECT_EQ(f(x, {}, false).shape(), Dims());
    EXPECT_EQ(f(x, {}, true).shape(), (Dims{1, 1, 1}));
    EXPECT_EQ(f(x, 1, false).shape(), (Dims{2, 4}));
    EXPECT_EQ(f(x, -1, true).shape(), (Dims{2, 3, 1}));
    EXPECT_EQ(f(x, {0, 2}, false).shape(), (Dims{3}));
    EXPECT_EQ(f(x, {-1, 0}, false).shape(), (Dims{3})) << "in any order";
    EXPECT_EQ(f(x, {2, 1, 0}, false).shape(), Dims());
    EXPECT_EQ(f(r.argument({}), {}, false).shape(), Dims());
    EXPECT_THROW(f(x, 3, false), ShapeError);
    EXPECT_THROW(f(x, -4, false), ShapeError);
    EXPECT_THROW(f(x, {1, 1}, false), ShapeError);
    EXPECT_THROW(f(x, {1, -2}, false), ShapeError);
    EXPECT_THROW(f(r.argument({}), 0, false), ShapeError);
    EXPECT_TRUE(f(r.argument({2, 3}, DType::float32, {1, 2}), 0, true).is_contiguous()) << "row-major";
  }
  EXPECT_EQ(stiletto::softmax(x).shape(), (Dims{2, 3, 4}));
  EXPECT_EQ(stiletto::softmax(x, 0).shape(), (Dims{2, 3, 4}));
  EXPECT_THROW(stiletto::softmax(x, 3), ShapeError);
  EXPECT_THROW(stiletto::softmax(r.argument({})), ShapeError);
}

TEST(ShapeRules, extrema_of_nothing) {
  Recording r;
  const Array x = r.argument({3, 0});
  EXPECT_THROW(stiletto::max(x, 1), ShapeError);
  EXPECT_THROW(stiletto::min(x), ShapeError);
  EXPECT_THROW(stiletto::abs_max(x, -1, true), ShapeError);
  EXPECT_EQ(stiletto::max(x, 0).shape(), (Dims{0})) << "there is nothing to have a value";
  for (const Array& total : {stiletto::sum(x, 1), stiletto::mean(x, 1), stiletto::prod(x, 1),
                             stiletto::norm1(x, 1), stiletto::norm2(x, 1), stiletto::logsumexp(x, 1)})
    EXPECT_EQ(total.shape(), (Dims{3}));
}

// ---- matmul ---------------------------------------------------------------------------------------------

TEST(ShapeRules, matmul) {
  Recording r;
  auto product = [&](const Shape& a, const Shape& b) {
    const Array c = stiletto::matmul(r.argument(a), r.argument(b));
    EXPECT_TRUE(c.is_contiguous());
    return c.shape();
  };
  EXPECT_EQ(product({2, 3}, {3, 4}), (Dims{2, 4}));
  EXPECT_EQ(product({3}, {3, 4}), (Dims{4}));
  EXPECT_EQ(product({2, 3}, {3}), (Dims{2}));
  EXPECT_EQ(product({3}, {3}), Dims());
  EXPECT_EQ(product({5, 2, 3}, {3, 4}), (Dims{5, 2, 4}));
  EXPECT_EQ(product({2, 3}, {5, 3, 4}), (Dims{5, 2, 4}));
  EXPECT_EQ(product({5, 1, 2, 3}, {6, 3, 4}), (Dims{5, 6, 2, 4}));
  EXPECT_EQ(product({3}, {5, 3, 4}), (Dims{5, 4}));
  EXPECT_EQ(product({5, 2, 3}, {3}), (Dims{5, 2}));
  EXPECT_EQ(product({2, 0}, {0, 4}), (Dims{2, 4}));
  EXPECT_EQ(product({0, 3}, {3, 4}), (Dims{0, 4}));
  EXPECT_EQ(product({0, 2, 3}, {1, 3, 4}), (Dims{0, 2, 4}));
  EXPECT_THROW(product({2, 3}, {4, 5}), ShapeError);
  EXPECT_THROW(product({3}, {4}), ShapeError);
  EXPECT_THROW(product({}, {3}), ShapeError);
  EXPECT_THROW(product({3, 3}, {}), ShapeError);
  EXPECT_THROW(product({2, 2, 3}, {3, 3, 4}), ShapeError) << "batch axes 2 and 3";
  EXPECT_THROW(product({2, 1}, {3, 4}), ShapeError) << "the inner axis does not broadcast";
}

TEST(ShapeRules, matmul_into) {
  Recording r;
  const Array a = r.argument({2, 3}), b = r.argument({3, 4});
  EXPECT_NO_THROW(stiletto::matmul_into(r.argument({2, 4}), a, b));
  EXPECT_NO_THROW(stiletto::matmul_into(r.argument({2, 4}), a, b, 2, 0.5));
  for (double beta : {0.0, 1.0}) {
    EXPECT_THROW(stiletto::matmul_into(r.argument({1, 2, 4}), a, b, 1, beta), ShapeError);
    EXPECT_THROW(stiletto::matmul_into(r.argument({4}), a, b, 1, beta), ShapeError);
    EXPECT_THROW(stiletto::matmul_into(r.argument({2, 5}), a, b, 1, beta), ShapeError);
  }
}

// ---- stores ---------------------------------------------------------------------------------------------

TEST(ShapeRules, assign_broadcasts_to_the_destination) {
  Recording r;
  const Array y = r.argument({2, 3});
  for (const Shape& value : {Shape{2, 3}, Shape{3}, Shape{2, 1}, Shape{}, Shape{1}, Shape{1, 1}})
    EXPECT_NO_THROW(stiletto::assign(y, r.argument(value))) << value;
  for (const Shape& value : {Shape{2}, Shape{3, 2}, Shape{1, 2, 3}, Shape{2, 0}, Shape{2, 3, 1}})
    EXPECT_THROW(stiletto::assign(y, r.argument(value)), ShapeError) << value;
  EXPECT_THROW(stiletto::assign(r.argument({1}), y), ShapeError);
}

// ---- constants ------------------------------------------------------------------------------------------

TEST(ShapeRules, constants_of_a_trace) {
  Recording r;
  r.argument({1});
  EXPECT_EQ(stiletto::zeros({2, 3}).shape(), (Dims{2, 3}));
  EXPECT_EQ(stiletto::full({}, 2).shape(), Dims());
  EXPECT_EQ(stiletto::ones({0, 3}, DType::int8).dtype(), DType::int8);
  EXPECT_TRUE(stiletto::zeros({2, 3}).is_traced());
  EXPECT_THROW(stiletto::zeros({-1}), ShapeError);
  EXPECT_THROW(stiletto::full({2}, r.argument({2})), ShapeError);
}

// ---- memory order ---------------------------------------------------------------------------------------

constexpr auto float32 = DType::float32;
const Strides channels_last{60, 1, 15, 3};  // of (2, 3, 4, 5)
const Shape image{2, 3, 4, 5};

TEST(MemoryOrderRules, operands_that_share_an_order_pass_it_on) {
  Recording r;
  const Array x = r.argument(image, float32, channels_last), y = r.argument(image, float32, channels_last);
  for (const Array& z : {x + y, stiletto::exp(x), stiletto::where(x > y, x, y), stiletto::clamp(x, y, y),
                         stiletto::cast(x, DType::float16), stiletto::softmax(x, 1), x * 2, 1 / x})
    EXPECT_EQ(z.strides(), channels_last);
  EXPECT_EQ((x + stiletto::exp(y)).strides(), channels_last) << "through computed values";
}

TEST(MemoryOrderRules, operands_that_broadcast_have_no_say) {
  Recording r;
  const Array x = r.argument(image, float32, channels_last);
  EXPECT_EQ((x + r.argument({5})).strides(), channels_last);
  EXPECT_EQ((x + r.argument({3, 1, 1})).strides(), channels_last);
  EXPECT_EQ((r.argument({2, 1, 1, 1}) + x).strides(), channels_last);
  EXPECT_EQ((x + r.argument({2, 3, 1, 5})).strides(), channels_last);
  const Array repeated = stiletto::broadcast_to(r.argument({5}), image);
  EXPECT_EQ((x + repeated).strides(), channels_last) << "stride 0 is broadcasting too";
  EXPECT_EQ((repeated * 2).strides(), (Strides{60, 20, 5, 1}));
}

TEST(MemoryOrderRules, else_row_major) {
  Recording r;
  const Array x = r.argument(image, float32, channels_last), y = r.argument(image);
  EXPECT_EQ((x + y).strides(), (Strides{60, 20, 5, 1}));
  EXPECT_EQ((y + x).strides(), (Strides{60, 20, 5, 1}));
  EXPECT_EQ(stiletto::where(x > 0, x, y).strides(), (Strides{60, 20, 5, 1}));
  const Array a = r.argument({3, 1}), b = r.argument({1, 4});
  EXPECT_EQ((a + b).strides(), (Strides{4, 1})) << "none has the full shape";
}

TEST(MemoryOrderRules, gaps_and_reversals_do_not_count) {
  Recording r;
  const Array padded = r.argument(image, float32, {200, 1, 30, 5});
  EXPECT_EQ((padded * 2).strides(), channels_last) << "dense, in the same order";
  const Array backwards = r.argument(image, float32, {-60, -1, 15, -3});
  EXPECT_EQ((backwards * 2).strides(), channels_last);
  EXPECT_EQ((backwards + padded).strides(), channels_last);
  EXPECT_EQ((r.argument({3, 4}, float32, {8, 2}) + 1).strides(), (Strides{4, 1}));
}

TEST(MemoryOrderRules, extents_of_1_fit_any_order) {
  Recording r;
  const Array x = r.argument({1, 3, 4, 5}, float32, {7, 1, 15, 3});
  const Strides strides = (x + 1).strides();
  EXPECT_EQ((Strides{strides[1], strides[2], strides[3]}), (Strides{1, 15, 3}));
  const Array y = r.argument({2, 1, 4, 5}, float32, {20, 20, 5, 1});
  const Array z = r.argument({2, 1, 4, 5}, float32, {20, 1, 5, 1});
  EXPECT_EQ((y + z).strides(), (Strides{20, 20, 5, 1}));
  EXPECT_TRUE((y + z).is_contiguous());
}

TEST(MemoryOrderRules, products_and_reductions_are_row_major) {
  Recording r;
  const Array x = r.argument({3, 4}, float32, {1, 3});
  EXPECT_EQ(stiletto::matmul(x, stiletto::transpose(x)).strides(), (Strides{3, 1}));
  EXPECT_EQ(stiletto::sum(r.argument(image, float32, channels_last), 0).strides(), (Strides{20, 5, 1}));
}

TEST(MemoryOrderRules, a_copy_is_row_major) {
  Recording r;
  EXPECT_EQ(r.argument(image, float32, channels_last).copy().strides(), (Strides{60, 20, 5, 1}));
  EXPECT_EQ(r.argument({4}, float32, {-1}).copy().strides(), (Strides{1}));
}

}  // namespace
