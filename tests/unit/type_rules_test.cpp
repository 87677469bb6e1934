// SPDX-License-Identifier: Apache-2.0
// Result dtypes of every operation, by family, as the trace has them: what each takes, what it gives, and
// what C++ numbers do to it.
#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "unit/trace_support.hpp"

namespace {

using stiletto::bfloat16;
using stiletto::DTypeError;
using stiletto::half;
using unit::Array;
using unit::DType;
using unit::Recording;

constexpr DType plain[] = {DType::boolean, DType::int8,     DType::uint8,   DType::int32,  DType::int64,
                           DType::float16, DType::bfloat16, DType::float32, DType::float64};
constexpr DType storage_only[] = {DType::float8_e4m3, DType::float8_e5m2, DType::float8_e8m0,
                                  DType::float4_e2m1};

using Unary = std::function<Array(const Array&)>;
using Binary = std::function<Array(const Array&, const Array&)>;

/// Results for arrays of the nine plain dtypes, in the order above; `boolean` marks a refusal where the
/// result cannot be one.
void expect(const char* name, const Unary& f, const std::vector<DType>& wanted, bool takes_booleans = true) {
  Recording r;
  for (std::size_t i = 0; i < std::size(plain); ++i) {
    const Array x = r.argument({2}, plain[i]);
    if (plain[i] == DType::boolean && !takes_booleans)
      EXPECT_THROW(f(x), DTypeError) << name;
    else
      EXPECT_EQ(f(x).dtype(), wanted[i]) << name << " of " << plain[i];
  }
  for (DType dtype : storage_only)
    EXPECT_THROW(f(r.argument({2}, dtype)), DTypeError) << name << " of " << dtype;
}

constexpr DType b = DType::boolean, i8 = DType::int8, u8 = DType::uint8, i32 = DType::int32,
                i64 = DType::int64, f16 = DType::float16, bf16 = DType::bfloat16, f32 = DType::float32,
                f64 = DType::float64;

TEST(TypeRules, unary) {
  const std::vector<DType> same{b, i8, u8, i32, i64, f16, bf16, f32, f64};
  const std::vector<DType> real{f32, f32, f32, f32, f32, f16, bf16, f32, f64};
  const std::vector<DType> boolean(9, b);
  const std::vector<std::pair<const char*, Unary>> kept{{"negate", [](const Array& x) { return -x; }},
                                                        {"abs", stiletto::abs},
                                                        {"square", stiletto::square},
                                                        {"ceil", stiletto::ceil},
                                                        {"floor", stiletto::floor},
                                                        {"relu", stiletto::relu}};
  for (const auto& [name, f] : kept) expect(name, f, same, false);
  const std::vector<std::pair<const char*, Unary>> transcendental{
      {"exp", stiletto::exp},
      {"log", stiletto::log},
      {"sqrt", stiletto::sqrt},
      {"rsqrt", stiletto::rsqrt},
      {"reciprocal", stiletto::reciprocal},
      {"sin", stiletto::sin},
      {"cos", stiletto::cos},
      {"tan", stiletto::tan},
      {"tanh", stiletto::tanh},
      {"erf", stiletto::erf},
      {"leaky_relu", [](const Array& x) { return stiletto::leaky_relu(x); }},
      {"clipped_relu", [](const Array& x) { return stiletto::clipped_relu(x, 6); }},
      {"sigmoid", stiletto::sigmoid},
      {"silu", stiletto::silu},
      {"softplus", stiletto::softplus},
      {"elu", [](const Array& x) { return stiletto::elu(x); }},
      {"gelu", stiletto::gelu},
      {"gelu_tanh", stiletto::gelu_tanh}};
  for (const auto& [name, f] : transcendental) expect(name, f, real);
  expect("logical_not", stiletto::logical_not, boolean);
}

TEST(TypeRules, reductions) {
  auto over_all = [](Array (*f)(const Array&, stiletto::Axes, bool)) {
    return [f](const Array& x) { return f(x, {}, false); };
  };
  const std::vector<DType> total{i32, i32, i32, i32, i64, f32, f32, f32, f64};
  const std::vector<DType> extremum{b, i8, u8, i32, i64, f32, f32, f32, f64};
  const std::vector<DType> real{f32, f32, f32, f32, f32, f32, f32, f32, f64};
  expect("sum", over_all(stiletto::sum), total);
  expect("prod", over_all(stiletto::prod), total);
  expect("norm1", over_all(stiletto::norm1), total);
  expect("max", over_all(stiletto::max), extremum);
  expect("min", over_all(stiletto::min), extremum);
  expect("abs_max", over_all(stiletto::abs_max), extremum);
  expect("mean", over_all(stiletto::mean), real);
  expect("norm2", over_all(stiletto::norm2), real);
  expect("logsumexp", over_all(stiletto::logsumexp), real);
  expect("softmax", [](const Array& x) { return stiletto::softmax(x); },
         {f32, f32, f32, f32, f32, f16, bf16, f32, f64});
}

TEST(TypeRules, binary_operations_on_equal_types) {
  auto twice = [](const Binary& f) { return [f](const Array& x) { return f(x, x); }; };
  const std::vector<DType> same{b, i8, u8, i32, i64, f16, bf16, f32, f64};
  const std::vector<DType> real{f32, f32, f32, f32, f32, f16, bf16, f32, f64};
  const std::vector<DType> boolean(9, b);
  expect("add", twice([](const Array& x, const Array& y) { return x + y; }), same);
  expect("multiply", twice([](const Array& x, const Array& y) { return x * y; }), same);
  expect("maximum", twice(stiletto::maximum), same);
  expect("minimum", twice(stiletto::minimum), same);
  expect("subtract", twice([](const Array& x, const Array& y) { return x - y; }), same, false);
  expect("fmod", twice(stiletto::fmod), same, false);
  expect("divide", twice([](const Array& x, const Array& y) { return x / y; }), real);
  expect("pow", twice(stiletto::pow), real);
  expect("atan2", twice(stiletto::atan2), real);
  expect("less", twice([](const Array& x, const Array& y) { return x < y; }), boolean);
  expect("less_equal", twice([](const Array& x, const Array& y) { return x <= y; }), boolean);
  expect("greater", twice([](const Array& x, const Array& y) { return x > y; }), boolean);
  expect("greater_equal", twice([](const Array& x, const Array& y) { return x >= y; }), boolean);
  expect("equal", twice([](const Array& x, const Array& y) { return x == y; }), boolean);
  expect("not_equal", twice([](const Array& x, const Array& y) { return x != y; }), boolean);
  expect("logical_and", twice(stiletto::logical_and), boolean);
  expect("logical_or", twice(stiletto::logical_or), boolean);
  expect("clamp", [](const Array& x) { return stiletto::clamp(x, x, x); }, same, false);
}

TEST(TypeRules, binary_operations_promote) {
  Recording r;
  EXPECT_EQ((r.argument({2}, i8) + r.argument({2}, u8)).dtype(), i32);
  EXPECT_EQ((r.argument({2}, i32) * r.argument({2}, bf16)).dtype(), bf16);
  EXPECT_EQ((r.argument({2}, f16) - r.argument({2}, bf16)).dtype(), f32);
  EXPECT_EQ((r.argument({2}, b) + r.argument({2}, i8)).dtype(), i8);
  EXPECT_EQ((r.argument({2}, i32) / r.argument({2}, i64)).dtype(), f32);
  EXPECT_EQ((r.argument({2}, i32) / r.argument({2}, f16)).dtype(), f16);
  EXPECT_EQ(stiletto::where(r.argument({2}, b), r.argument({2}, i8), r.argument({2}, f64)).dtype(), f64);
  EXPECT_EQ(stiletto::clamp(r.argument({2}, i8), r.argument({2}, i32), 100).dtype(), i32);
  for (DType other : {i8, u8, i32, i64, f16, bf16, f32, f64})
    EXPECT_THROW(stiletto::where(r.argument({2}, other), 1, 0), DTypeError)
        << "the condition has to be boolean";
  EXPECT_THROW(r.argument({2}, DType::float8_e4m3) + r.argument({2}, DType::float8_e4m3), DTypeError);
}

TEST(TypeRules, numbers_leave_arrays_alone) {
  Recording r;
  for (DType dtype : {i8, u8, i32, i64, f16, bf16, f32, f64}) {
    const Array x = r.argument({2}, dtype);
    EXPECT_EQ((x + 1).dtype(), dtype);
    EXPECT_EQ((2 * x).dtype(), dtype);
    EXPECT_EQ((x + true).dtype(), dtype);
    EXPECT_EQ((x + 1LL).dtype(), dtype);
    EXPECT_EQ((x - r.like(Array(3))).dtype(), dtype) << "a scalar argument counts like a constant";
    EXPECT_EQ((x + (Array(1) + 2) * 3).dtype(), dtype) << "arithmetic among constants stays a constant";
    const DType with_float = dtype == f64 ? f64 : f32;
    EXPECT_EQ((x + 1.0F).dtype(), with_float);
    EXPECT_EQ((x + 1.0).dtype(), with_float);
    EXPECT_EQ((x * r.like(Array(0.5))).dtype(), with_float);
    EXPECT_EQ(stiletto::where(x > 0, x, 0).dtype(), dtype);
    EXPECT_EQ(stiletto::maximum(x, 0).dtype(), dtype);
    EXPECT_EQ(stiletto::clamp(x, 0, 6).dtype(), dtype);
    EXPECT_EQ(stiletto::clamp(x, 0.0, 6).dtype(), with_float);
  }
  EXPECT_EQ((r.argument({2}, b) + 1).dtype(), i32);
  EXPECT_EQ((r.argument({2}, b) * 1.5F).dtype(), f32);
  EXPECT_EQ((r.argument({2}, f16) * half(2)).dtype(), f16) << "half stays in half";
  EXPECT_EQ((r.argument({2}, f16) * bfloat16(2)).dtype(), f32);
  EXPECT_EQ((r.argument({2}, i32) * bfloat16(2)).dtype(), bf16);
  EXPECT_EQ((r.argument({2}, f32) * half(2)).dtype(), f32);
}

TEST(TypeRules, integers_that_do_not_fit_are_refused) {
  Recording r;
  EXPECT_THROW(r.argument({2}, i8) + 128, DTypeError);
  EXPECT_THROW(r.argument({2}, i8) * -129, DTypeError);
  EXPECT_THROW(r.argument({2}, u8) + -1, DTypeError);
  EXPECT_THROW(stiletto::maximum(r.argument({2}, u8), 256), DTypeError);
  EXPECT_THROW(r.argument({2}, i32) + (1LL << 31), DTypeError);
  EXPECT_THROW((void)(r.argument({2}, i8) < 1000), DTypeError);
  EXPECT_THROW(stiletto::where(r.argument({2}, b), r.argument({2}, i8), 300), DTypeError);
  EXPECT_NO_THROW(r.argument({2}, i8) + 127);
  EXPECT_NO_THROW(r.argument({2}, u8) + 255);
  EXPECT_NO_THROW(r.argument({2}, i64) + (1LL << 62));
  EXPECT_NO_THROW(r.argument({2}, i8) / 1000) << "division is done in float32";
  EXPECT_NO_THROW(stiletto::logical_and(r.argument({2}, i8), 1000));
  EXPECT_NO_THROW(r.argument({2}, f16) + 100000);
}

TEST(TypeRules, casts) {
  Recording r;
  for (DType from : plain)
    for (DType to : {b, i8, u8, i32, i64, f16, bf16, f32, f64, DType::float8_e4m3, DType::float8_e5m2,
                     DType::float4_e2m1})
      EXPECT_EQ(stiletto::cast(r.argument({2}, from), to).dtype(), to);
  for (DType from : storage_only) EXPECT_EQ(stiletto::cast(r.argument({2}, from), f32).dtype(), f32);
  EXPECT_THROW(stiletto::cast(r.argument({2}), DType::float8_e8m0), DTypeError);
  for (DType dtype : {DType::float8_e4m3, DType::float8_e5m2, DType::float4_e2m1, i8, f64})
    EXPECT_EQ(r.argument({2}, dtype).copy().dtype(), dtype);
  EXPECT_THROW(r.argument({2}, DType::float8_e8m0).copy(), DTypeError) << "scales are not computed";
  // A cast makes an array of a number: it counts from then on.
  EXPECT_EQ((stiletto::cast(Array(2), f32) * r.argument({2}, f16)).dtype(), f32);
  EXPECT_EQ((stiletto::cast(Array(2), i64) * r.argument({2}, i8)).dtype(), i64);
}

TEST(TypeRules, matmul) {
  auto product = [](DType x, DType y) {
    Recording r;
    return stiletto::matmul(r.argument({2, 2}, x), r.argument({2, 2}, y)).dtype();
  };
  const DType e4 = DType::float8_e4m3, e5 = DType::float8_e5m2;
  EXPECT_EQ(product(f32, f32), f32);
  EXPECT_EQ(product(f16, f16), f16);
  EXPECT_EQ(product(bf16, bf16), bf16);
  EXPECT_EQ(product(f64, f64), f64);
  EXPECT_EQ(product(f16, bf16), f32);
  EXPECT_EQ(product(f32, f64), f64);
  EXPECT_EQ(product(i8, i8), i32);
  EXPECT_EQ(product(u8, u8), i32);
  EXPECT_EQ(product(u8, i8), i32);
  EXPECT_EQ(product(i8, i64), i64);
  EXPECT_EQ(product(i32, i32), i32);
  EXPECT_EQ(product(i64, f16), f16);
  EXPECT_EQ(product(e4, e4), f32);
  EXPECT_EQ(product(e5, e4), f32);
  EXPECT_THROW(product(e4, f32), DTypeError);
  EXPECT_THROW(product(b, f32), DTypeError);
  EXPECT_THROW(product(f32, b), DTypeError);
  EXPECT_THROW(product(DType::float8_e8m0, f32), DTypeError);
  EXPECT_THROW(product(DType::float4_e2m1, DType::float4_e2m1), DTypeError);
  Recording r;
  const Array x = r.argument({2, 2}, i8), c = r.argument({2, 2}, i32);
  EXPECT_THROW(stiletto::matmul_into(c, x, x, 0.5), DTypeError) << "half of an integer";
  EXPECT_THROW(stiletto::matmul_into(c, x, x, 1, 0.5), DTypeError);
  EXPECT_NO_THROW(stiletto::matmul_into(c, x, x, 2, 1));
}

TEST(TypeRules, stores_take_any_value) {
  Recording r;
  for (DType to : {b, i8, f16, f64, DType::float8_e4m3, DType::float4_e2m1})
    for (DType from : {b, i8, f16, f64, DType::float8_e4m3})
      EXPECT_NO_THROW(stiletto::assign(r.argument({2}, to), r.argument({2}, from)));
  EXPECT_THROW(stiletto::assign(r.argument({2}, DType::float8_e8m0), r.argument({2})), DTypeError);
  EXPECT_THROW(stiletto::assign(r.argument({2}, i8), 200), DTypeError);
}

}  // namespace
