// SPDX-License-Identifier: Apache-2.0
// Arithmetic among C++ numbers, which is done on the host: every pointwise operation gives what the same
// operation gives on arrays, integers wrap and saturate like theirs, and doubles keep their precision.
#include "graph/host_scalars.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "ops/apply.hpp"
#include "unit/trace_support.hpp"

namespace {

using unit::Array;
using unit::DType;
namespace detail = stiletto::detail;
using detail::Op;

const double infinity = std::numeric_limits<double>::infinity();
const double nan = std::numeric_limits<double>::quiet_NaN();

/// An operation with the attribute that some carry.
Array run(Op op, std::initializer_list<const Array*> operands) {
  const bool coefficient = op == Op::leaky_relu || op == Op::clipped_relu || op == Op::elu;
  return coefficient ? detail::apply(op, operands, detail::CoefficientAttributes{{0.75}})
                     : detail::apply(op, operands);
}

void expect_same(const std::string& what, const Array& number, const Array& array) {
  ASSERT_EQ(number.dtype(), array.dtype()) << what;
  ASSERT_EQ(number.rank(), 0) << what;
  double x = stiletto::cast(number, DType::float64).item<double>();
  const double y = stiletto::cast(array, DType::float64).item<double>();
  if (number.dtype() == DType::float32) x = static_cast<float>(x);  // a number's own type is finer
  if (std::isnan(x) || std::isnan(y) || std::isinf(y))
    EXPECT_TRUE(x == y || (std::isnan(x) && std::isnan(y))) << what << ": " << x << " and " << y;
  else
    EXPECT_NEAR(x, y, 1e-5 * std::max(1.0, std::abs(y))) << what;
}

TEST(HostScalars, real_operations_agree_with_arrays) {
  const std::vector<double> points{0.0,  -0.0,  1.0,  -1.0,     0.5,       -2.5,
                                   3.25, -20.0, 30.0, infinity, -infinity, nan};
  for (const detail::OpRow& row : detail::op_table()) {
    if (row.family != detail::Family::pointwise || row.rule == detail::TypeRule::cast) continue;
    for (double p : points)
      for (double q : points) {
        const Array a(p), b(q), c(0.25), x = stiletto::full({}, p), y = stiletto::full({}, q),
                                         z = stiletto::full({}, 0.25);
        const std::string what =
            std::string(row.name) + " of " + std::to_string(p) + ", " + std::to_string(q);
        if (row.op == Op::where) {
          expect_same(what, run(row.op, {&(const Array&)(a > b), &a, &b}), stiletto::where(x > y, x, y));
        } else if (row.arity == 3) {
          expect_same(what, run(row.op, {&a, &b, &c}), run(row.op, {&x, &y, &z}));
        } else if (row.arity == 2) {
          expect_same(what, run(row.op, {&a, &b}), run(row.op, {&x, &y}));
        } else if (q == 0) {
          expect_same(what, run(row.op, {&a}), run(row.op, {&x}));
        }
      }
  }
}

TEST(HostScalars, integer_operations_agree_with_arrays) {
  const int low = std::numeric_limits<int>::min(), high = std::numeric_limits<int>::max();
  const std::vector<int> points{0, 1, -1, 7, -13, low, high};
  for (const detail::OpRow& row : detail::op_table()) {
    if (row.family != detail::Family::pointwise || row.rule == detail::TypeRule::cast) continue;
    if (row.rule == detail::TypeRule::real) continue;
    for (int p : points)
      for (int q : points) {
        const Array a(p), b(q), c(5), x = stiletto::full({}, p, DType::int32),
                                      y = stiletto::full({}, q, DType::int32),
                                      z = stiletto::full({}, 5, DType::int32);
        const std::string what =
            std::string(row.name) + " of " + std::to_string(p) + ", " + std::to_string(q);
        if (row.op == Op::where)
          expect_same(what, run(row.op, {&(const Array&)(a > b), &a, &b}), stiletto::where(x > y, x, y));
        else if (row.arity == 3)
          expect_same(what, run(row.op, {&a, &b, &c}), run(row.op, {&x, &y, &z}));
        else if (row.arity == 2)
          expect_same(what, run(row.op, {&a, &b}), run(row.op, {&x, &y}));
        else
          expect_same(what, run(row.op, {&a}), run(row.op, {&x}));
      }
  }
}

TEST(HostScalars, doubles_keep_their_precision) {
  const double third = 1.0 / 3.0;
  EXPECT_EQ((stiletto::zeros({}, DType::float64) + Array(1.0) / 3.0).item<double>(), third);
  EXPECT_EQ((stiletto::zeros({}, DType::float64) + stiletto::exp(Array(1.0))).item<double>(), std::exp(1.0));
  EXPECT_EQ((stiletto::zeros({}, DType::float64) + 1e300 * Array(10.0)).item<double>(), 1e301);
}

TEST(HostScalars, half_numbers_round_at_every_step) {
  const stiletto::half one(1.0F), tiny(0.0004F);
  EXPECT_EQ(static_cast<float>((Array(one) + tiny).item<stiletto::half>()), 1.0F);
  EXPECT_EQ((Array(one) + tiny).dtype(), DType::float16);
  EXPECT_TRUE(std::isinf(
      static_cast<float>((Array(stiletto::half(60000)) * stiletto::half(2)).item<stiletto::half>())));
}

TEST(HostScalars, casts) {
  auto as = [](const Array& x, DType dtype) { return stiletto::cast(x, dtype); };
  EXPECT_EQ(as(Array(3.9), DType::int32).item<int>(), 3);
  EXPECT_EQ(as(Array(-3.9), DType::int8).item<std::int8_t>(), -3);
  EXPECT_EQ(as(Array(1000.0), DType::int8).item<std::int8_t>(), 127) << "saturates";
  EXPECT_EQ(as(Array(-5.0), DType::uint8).item<std::uint8_t>(), 0);
  EXPECT_EQ(as(Array(nan), DType::int32).item<int>(), 0);
  EXPECT_EQ(as(Array(infinity), DType::int64).item<std::int64_t>(), std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(as(Array(-infinity), DType::int64).item<std::int64_t>(),
            std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(as(Array(300), DType::uint8).item<std::uint8_t>(), 44) << "integers wrap";
  EXPECT_EQ(as(Array(1LL << 40), DType::int32).item<int>(), 0);
  EXPECT_TRUE(as(Array(0.5), DType::boolean).item<bool>());
  EXPECT_EQ(as(Array(0.1), DType::float32).item<float>(), 0.1F);
  EXPECT_EQ(as(Array(0.1), DType::float64).item<double>(), 0.1);
  EXPECT_EQ(static_cast<float>(as(Array(1e6), DType::float16).item<stiletto::half>()), infinity);
  EXPECT_EQ(static_cast<float>(as(Array(1e6), DType::float8_e4m3).item<stiletto::float8_e4m3>()), 448.0F);
  for (int i : {0, 1, 5, -7, 200, 1000}) {
    expect_same("int8", as(Array(i), DType::int8), as(stiletto::full({}, i, DType::int32), DType::int8));
    expect_same("half", as(Array(i), DType::float16),
                as(stiletto::full({}, i, DType::int32), DType::float16));
  }
}

}  // namespace
