// SPDX-License-Identifier: Apache-2.0
// Golden texts of cuDNN graphs: pointwise operations.
#ifdef STILETTO_HAS_CUDNN
#include "golden/engine_golden.hpp"

namespace {

using golden::engine_text;
using golden::expect_text;
using stiletto::Array;
using stiletto::DType;
using unit::on_cpu;

constexpr DType f16 = DType::float16, f32 = DType::float32, i8 = DType::int8, i32 = DType::int32,
                boolean = DType::boolean;

TEST(EnginePointwise, row) {
  auto f = [](const Array& x, const Array& y) { return x + y; };
  expect_text(engine_text(f, on_cpu({64, 96}, f16), on_cpu({96}, f16)), R"(
cudnn graph, 1 x 64 x 96
  t0 = tensor0: float16(1, 64, 96) strides (6144, 96, 1)
  t1 = tensor1: float16(1, 1, 96) strides (96, 96, 1)
  t2 = add(t0, t1) in float32: store0: float16(1, 64, 96) strides (6144, 96, 1)
not 1 x 96 x 64: arg0 has gaps between its elements along every axis that cuDNN could walk innermost; pass a copy of it made outside the function, in the order of the result
not 64 x 96 x 1: arg1 spans some of several axes that do not merge, or has gaps there, and cuDNN reads it at wrong places
)");
}

TEST(EnginePointwise, column) {
  auto f = [](const Array& x, const Array& y) { return x + y; };
  expect_text(engine_text(f, on_cpu({64, 96}, f16), on_cpu({64, 1}, f32)), R"(
cudnn graph, 1 x 64 x 96
  t0 = tensor0: float16(1, 64, 96) strides (6144, 96, 1)
  t1 = tensor1: float32(1, 64, 1) strides (64, 1, 1)
  t2 = add(t0, t1) in float32: store0: float32(1, 64, 96) strides (6144, 96, 1)
not 1 x 96 x 64: arg0 has gaps between its elements along every axis that cuDNN could walk innermost; pass a copy of it made outside the function, in the order of the result
not 64 x 96 x 1: arg1 spans some of several axes that do not merge, or has gaps there, and cuDNN reads it at wrong places
)");
}

TEST(EnginePointwise, batch) {
  auto f = [](const Array& x, const Array& y) { return x + y; };
  expect_text(engine_text(f, on_cpu({8, 64, 96}), on_cpu({64, 96})), R"(
cudnn graph, 1 x 8 x 6144
  t0 = tensor0: float32(1, 8, 6144) strides (49152, 6144, 1)
  t1 = tensor1: float32(1, 1, 6144) strides (6144, 6144, 1)
  t2 = add(t0, t1) in float32: store0: float32(1, 8, 6144) strides (49152, 6144, 1)
not 1 x 6144 x 8: arg0 has gaps between its elements along every axis that cuDNN could walk innermost; pass a copy of it made outside the function, in the order of the result
not 8 x 6144 x 1: arg1 spans some of several axes that do not merge, or has gaps there, and cuDNN reads it at wrong places
)");
}

TEST(EnginePointwise, one_element) {
  auto f = [](const Array& x, const Array& y) { return x + y; };
  expect_text(engine_text(f, on_cpu({64, 96}), on_cpu({1})), R"(
cudnn graph, 1 x 6 x 1024
  t0 = tensor0: float32(1, 6, 1024) strides (6144, 1024, 1)
  t1 = tensor1: float32(1, 1, 1) strides (1, 1, 1)
  t2 = add(t0, t1) in float32: store0: float32(1, 6, 1024) strides (6144, 1024, 1)
else 1 x 1 x 6144
else 1 x 6144 x 1
)");
}

TEST(EnginePointwise, numbers_by_value) {
  auto f = [](const Array& x) { return x * 2.0f + 0.5f * x * 2.0f; };
  expect_text(engine_text(f, on_cpu({64, 96})), R"(
cudnn graph, 1 x 6 x 1024
  t0 = tensor0: float32(1, 6, 1024) strides (6144, 1024, 1)
  t1 = scalar0: float32 by value
  t3 = scalar1: float32 by value
  t5 = scalar2: float32 by value
  t2 = multiply(t0, t1) in float32: float32(1, 6, 1024)
  t4 = multiply(t3, t0) in float32: float32(1, 6, 1024)
  t6 = multiply(t4, t5) in float32: float32(1, 6, 1024)
  t7 = add(t2, t6) in float32: store0: float32(1, 6, 1024) strides (6144, 1024, 1)
else 1 x 1 x 6144
else 1 x 6144 x 1
)");
}

TEST(EnginePointwise, two_axes_missing) {
  auto f = [](const Array& x, const Array& y) { return x + y; };
  expect_text(engine_text(f, on_cpu({4, 64, 96}), on_cpu({64, 1})), R"(
not 4 x 64 x 96: arg1 spans some of several axes that do not merge, or has gaps there, and cuDNN reads it at wrong places
cudnn graph, 4 x 64 x 96, behind a product of ones
  t0 = tensor0: float32(4, 64, 96) strides (6144, 96, 1)
  t1 = ones: float16(4, 64, 1) strides (0, 1, 1)
  t2 = ones: float16(1, 1, 96) strides (96, 96, 1)
  t5 = tensor1: float32(1, 64, 1) strides (64, 1, 1)
  t3 = matmul(t1, t2) in float32: float32(4, 64, 96)
  t4 = multiply(t3, t0) in float32: float32(4, 64, 96)
  t6 = add(t4, t5) in float32: store0: float32(4, 64, 96) strides (6144, 96, 1)
)");
}

TEST(EnginePointwise, a_transposed_operand_of_16_bits) {
  auto f = [](const Array& x, const Array& y) { return x + stiletto::transpose(y); };
  expect_text(engine_text(f, on_cpu({64, 96}), on_cpu({96, 64}, f16)), R"(
not 1 x 64 x 96: arg1 has gaps between its elements along every axis that cuDNN could walk innermost; pass a copy of it made outside the function, in the order of the result
not 1 x 96 x 64: arg0 has gaps between its elements along every axis that cuDNN could walk innermost; pass a copy of it made outside the function, in the order of the result
cudnn graph, 64 x 96 x 1
  t0 = tensor0: float32(64, 96, 1) strides (96, 1, 1)
  t1 = tensor1: float16(64, 96, 1) strides (1, 64, 1)
  t2 = add(t0, t1) in float32: store0: float32(64, 96, 1) strides (96, 1, 1)
cudnn graph, 64 x 1 x 96, other orders as products with a one
  t0 = tensor0: float32(64, 1, 96) strides (96, 96, 1)
  t1 = ones: float16(64, 1, 1) strides (0, 1, 1)
  t2 = tensor1: float16(64, 1, 96) strides (1, 1, 64)
  t3 = matmul(t1, t2) in float32: float32(64, 1, 96)
  t4 = add(t0, t3) in float32: store0: float32(64, 1, 96) strides (96, 96, 1)
)");
}

TEST(EnginePointwise, quotients) {
  auto f = [](const Array& x, const Array& row, const Array& column, const Array& number) {
    return x / row / column / number / 20.0f;
  };
  expect_text(engine_text(f, on_cpu({64, 96}), on_cpu({96}), on_cpu({64, 1}), on_cpu({1})), R"(
cudnn graph, 1 x 64 x 96
  t0 = tensor0: float32(1, 64, 96) strides (6144, 96, 1)
  t1 = tensor1: float32(1, 1, 96) strides (96, 96, 1)
  t3 = 8.50706e+37: float32 constant
  t5 = 0.25: float32 constant
  t9 = 0.25: float32 constant
  t12 = tensor2: float32(1, 64, 1) strides (64, 1, 1)
  t14 = tensor3: float32(1, 1, 1) strides (1, 1, 1)
  t16 = scalar0: float32 by value
  t2 = abs(t1) in float32: float32(1, 64, 96)
  t4 = less(t3, t2) in float32: boolean(1, 64, 96)
  t6 = multiply(t1, t5) in float32: float32(1, 64, 96)
  t7 = where(t6, t1, t4) in float32: float32(1, 64, 96)
  t8 = divide(t0, t7) in float32: float32(1, 64, 96)
  t10 = multiply(t8, t9) in float32: float32(1, 64, 96)
  t11 = where(t10, t8, t4) in float32: float32(1, 64, 96)
  t13 = divide(t11, t12) in float32: float32(1, 64, 96)
  t15 = divide(t13, t14) in float32: float32(1, 64, 96)
  t17 = divide(t15, t16) in float32: store0: float32(1, 64, 96) strides (6144, 96, 1)
not 1 x 96 x 64: arg0 has gaps between its elements along every axis that cuDNN could walk innermost; pass a copy of it made outside the function, in the order of the result
not 64 x 96 x 1: arg1 spans some of several axes that do not merge, or has gaps there, and cuDNN reads it at wrong places
)");
}

TEST(EnginePointwise, function_of_a_row) {
  auto f = [](const Array& x, const Array& row) { return x + stiletto::exp(row); };
  expect_text(engine_text(f, on_cpu({64, 96}), on_cpu({96})), R"(
cudnn graph, 1 x 64 x 96
  t0 = tensor0: float32(1, 64, 96) strides (6144, 96, 1)
  t1 = tensor1: float32(1, 1, 96) strides (96, 96, 1)
  t2 = exp(t1) in float32: float32(1, 64, 96)
  t3 = add(t0, t2) in float32: store0: float32(1, 64, 96) strides (6144, 96, 1)
not 1 x 96 x 64: arg0 has gaps between its elements along every axis that cuDNN could walk innermost; pass a copy of it made outside the function, in the order of the result
not 64 x 96 x 1: arg1 spans some of several axes that do not merge, or has gaps there, and cuDNN reads it at wrong places
)");
}

TEST(EnginePointwise, tan) {
  auto f = [](const Array& x) { return stiletto::tan(x); };
  expect_text(engine_text(f, on_cpu({64})), R"(
cudnn graph, 1 x 1 x 64
  t0 = tensor0: float32(1, 1, 64) strides (64, 64, 1)
  t1 = 0.5: float32 constant
  t2 = 0.31831: float32 constant
  t6 = 3.14062: float32 constant
  t9 = 0.000967503: float32 constant
  t12 = 1.50996e-07: float32 constant
  t17 = 0.0093854: float32 constant
  t18 = 0.00311992: float32 constant
  t21 = 0.0244301: float32 constant
  t24 = 0.0534113: float32 constant
  t27 = 0.133388: float32 constant
  t30 = 0.333332: float32 constant
  t36 = 0.785: float32 constant
  t3 = multiply(t0, t2) in float32: float32(1, 1, 64)
  t4 = add(t3, t1) in float32: float32(1, 1, 64)
  t5 = floor(t4) in float32: float32(1, 1, 64)
  t7 = multiply(t5, t6) in float32: float32(1, 1, 64)
  t8 = subtract(t0, t7) in float32: float32(1, 1, 64)
  t10 = multiply(t5, t9) in float32: float32(1, 1, 64)
  t11 = subtract(t8, t10) in float32: float32(1, 1, 64)
  t13 = multiply(t5, t12) in float32: float32(1, 1, 64)
  t14 = subtract(t11, t13) in float32: float32(1, 1, 64)
  t15 = tan(t14) in float32: float32(1, 1, 64)
  t16 = multiply(t14, t14) in float32: float32(1, 1, 64)
  t19 = multiply(t17, t16) in float32: float32(1, 1, 64)
  t20 = add(t19, t18) in float32: float32(1, 1, 64)
  t22 = multiply(t20, t16) in float32: float32(1, 1, 64)
  t23 = add(t22, t21) in float32: float32(1, 1, 64)
  t25 = multiply(t23, t16) in float32: float32(1, 1, 64)
  t26 = add(t25, t24) in float32: float32(1, 1, 64)
  t28 = multiply(t26, t16) in float32: float32(1, 1, 64)
  t29 = add(t28, t27) in float32: float32(1, 1, 64)
  t31 = multiply(t29, t16) in float32: float32(1, 1, 64)
  t32 = add(t31, t30) in float32: float32(1, 1, 64)
  t33 = multiply(t32, t16) in float32: float32(1, 1, 64)
  t34 = multiply(t33, t14) in float32: float32(1, 1, 64)
  t35 = add(t34, t14) in float32: float32(1, 1, 64)
  t37 = abs(t14) in float32: float32(1, 1, 64)
  t38 = less(t37, t36) in float32: boolean(1, 1, 64)
  t39 = where(t35, t15, t38) in float32: store0: float32(1, 1, 64) strides (64, 64, 1)
else 1 x 64 x 1
)");
}

TEST(EnginePointwise, a_store_that_broadcasts) {
  auto f = [](const Array& to, const Array& x) { stiletto::assign(to, -x); };
  expect_text(engine_text(f, on_cpu({64, 96}), on_cpu({96})), R"(
cudnn graph, 1 x 64 x 96
  t0 = tensor0: float32(1, 1, 96) strides (96, 96, 1)
  t1 = negate(t0) in float32: store0: float32(1, 64, 96) strides (6144, 96, 1)
not 1 x 96 x 64: a store that repeats its value along the columns, which cuDNN writes at wrong places
not 64 x 96 x 1: arg1 spans some of several axes that do not merge, or has gaps there, and cuDNN reads it at wrong places
)");
}

TEST(EnginePointwise, a_store_that_repeats_columns) {
  auto f = [](const Array& to, const Array& x) { stiletto::assign(to, -x); };
  expect_text(engine_text(f, on_cpu({64, 96}), on_cpu({64, 1})), R"(
not 1 x 64 x 96: a store that repeats its value along the columns, which cuDNN writes at wrong places
not 1 x 96 x 64: arg0 has gaps between its elements along every axis that cuDNN could walk innermost; pass a copy of it made outside the function, in the order of the result
not 64 x 96 x 1: arg1 spans some of several axes that do not merge, or has gaps there, and cuDNN reads it at wrong places
not 1 x 64 x 96, behind a product of ones: no floating-point operand over all axes that a product of ones could multiply
)");
}

TEST(EnginePointwise, one_operand_transposed) {
  auto f = [](const Array& x, const Array& y) { return x + stiletto::transpose(y); };
  expect_text(engine_text(f, on_cpu({64, 96}), on_cpu({96, 64})), R"(
not 1 x 64 x 96: arg1 has gaps between its elements along every axis that cuDNN could walk innermost; pass a copy of it made outside the function, in the order of the result
not 1 x 96 x 64: arg0 has gaps between its elements along every axis that cuDNN could walk innermost; pass a copy of it made outside the function, in the order of the result
cudnn graph, 64 x 96 x 1
  t0 = tensor0: float32(64, 96, 1) strides (96, 1, 1)
  t1 = tensor1: float32(64, 96, 1) strides (1, 64, 1)
  t2 = add(t0, t1) in float32: store0: float32(64, 96, 1) strides (96, 1, 1)
not 64 x 1 x 96, other orders as products with a one: arg1 lies in another order than the result, and float32 operands of a product are rounded; pass a copy of it made outside the function in the order of the result
)");
}

TEST(EnginePointwise, one_operand_reversed) {
  auto f = [](const Array& x) { return x + stiletto::slice(x, {stiletto::Slice{{}, {}, -1}}); };
  expect_text(engine_text(f, on_cpu({64})), R"(
not 1 x 1 x 64: arg0 is walked backwards along an axis that others walk forwards; cuDNN takes no negative strides
not 1 x 64 x 1: arg0 is walked backwards along an axis that others walk forwards; cuDNN takes no negative strides
)");
}

TEST(EnginePointwise, alignment) {
  auto f = [](const Array& x) {
    return stiletto::exp(stiletto::slice(x, {stiletto::Slice{1, {}}})) *
           stiletto::slice(x, {stiletto::Slice{0, -1}});
  };
  expect_text(engine_text(f, on_cpu({97}, f16)), R"(
cudnn graph, 1 x 1 x 96
  t0 = tensor0: float16(1, 1, 96) strides (96, 96, 1) align 2
  t2 = tensor1: float16(1, 1, 96) strides (96, 96, 1)
  t1 = exp(t0) in float32: float32(1, 1, 96)
  t3 = multiply(t1, t2) in float32: store0: float16(1, 1, 96) strides (96, 96, 1)
else 1 x 96 x 1
)");
}

TEST(EnginePointwise, rank_4) {
  auto f = [](const Array& x, const Array& y) { return x + y; };
  expect_text(engine_text(f, on_cpu({3, 5, 7, 9}), on_cpu({3, 1, 7, 1})), R"(
cudnn graph, 3 x 5 x 7 x 9
  t0 = tensor0: float32(3, 5, 7, 9) strides (315, 63, 9, 1)
  t1 = tensor1: float32(3, 1, 7, 1) strides (7, 7, 1, 1)
  t2 = add(t0, t1) in float32: store0: float32(3, 5, 7, 9) strides (315, 63, 9, 1)
)");
}

TEST(EnginePointwise, select) {
  auto f = [](const Array& m, const Array& x) { return stiletto::where(m, x, 0.0f); };
  expect_text(engine_text(f, on_cpu({64, 96}, boolean), on_cpu({64, 96}, f16)), R"(
cudnn graph, 1 x 6 x 1024
  t0 = tensor0: boolean(1, 6, 1024) strides (6144, 1024, 1)
  t1 = tensor1: float16(1, 6, 1024) strides (6144, 1024, 1)
  t2 = scalar0: float32 by value
  t3 = where(t1, t2, t0) in float32: store0: float32(1, 6, 1024) strides (6144, 1024, 1)
else 1 x 1 x 6144
else 1 x 6144 x 1
)");
}

TEST(EnginePointwise, a_comparison) {
  auto f = [](const Array& x, const Array& y) { return stiletto::logical_not(x < y); };
  expect_text(engine_text(f, on_cpu({64, 96}), on_cpu({64, 96})), R"(
cudnn graph, 1 x 6 x 1024
  t0 = tensor0: float32(1, 6, 1024) strides (6144, 1024, 1)
  t1 = tensor1: float32(1, 6, 1024) strides (6144, 1024, 1)
  t2 = less(t0, t1) in float32: boolean(1, 6, 1024)
  t3 = logical_not(t2) in boolean: store0: boolean(1, 6, 1024) strides (6144, 1024, 1)
else 1 x 1 x 6144
else 1 x 6144 x 1
)");
}

TEST(EnginePointwise, booleans_as_numbers) {
  auto f = [](const Array& m, const Array& x) { return m * x; };
  expect_text(engine_text(f, on_cpu({64, 96}, boolean), on_cpu({64, 96})), R"(
cudnn graph, 1 x 6 x 1024
  t0 = tensor0: boolean(1, 6, 1024) strides (6144, 1024, 1)
  t1 = tensor1: float32(1, 6, 1024) strides (6144, 1024, 1)
  t2 = multiply(t0, t1) in float32: store0: float32(1, 6, 1024) strides (6144, 1024, 1)
else 1 x 1 x 6144
else 1 x 6144 x 1
)");
}

TEST(EnginePointwise, where_of_booleans) {
  auto f = [](const Array& m, const Array& x, const Array& y) { return stiletto::where(m, x, y); };
  expect_text(engine_text(f, on_cpu({96}, boolean), on_cpu({96}, boolean), on_cpu({96}, boolean)), R"(
cudnn graph, 1 x 1 x 96
  t0 = tensor0: boolean(1, 1, 96) strides (96, 96, 1)
  t1 = tensor1: boolean(1, 1, 96) strides (96, 96, 1)
  t2 = tensor2: boolean(1, 1, 96) strides (96, 96, 1)
  t3 = logical_and(t0, t1) in boolean: boolean(1, 1, 96)
  t4 = logical_not(t0) in boolean: boolean(1, 1, 96)
  t5 = logical_and(t4, t2) in boolean: boolean(1, 1, 96)
  t6 = logical_or(t3, t5) in boolean: store0: boolean(1, 1, 96) strides (96, 96, 1)
else 1 x 96 x 1
)");
}

TEST(EnginePointwise, maximum) {
  auto f = [](const Array& x, const Array& y) { return stiletto::maximum(x, y); };
  expect_text(engine_text(f, on_cpu({64}), on_cpu({64})), R"(
cudnn graph, 1 x 1 x 64
  t0 = tensor0: float32(1, 1, 64) strides (64, 64, 1)
  t1 = tensor1: float32(1, 1, 64) strides (64, 64, 1)
  t2 = greater(t0, t1) in float32: boolean(1, 1, 64)
  t3 = where(t0, t1, t2) in float32: float32(1, 1, 64)
  t4 = not_equal(t0, t0) in float32: boolean(1, 1, 64)
  t5 = where(t0, t3, t4) in float32: store0: float32(1, 1, 64) strides (64, 64, 1)
else 1 x 64 x 1
)");
}

TEST(EnginePointwise, minimum) {
  auto f = [](const Array& x, const Array& y) { return stiletto::minimum(x, y); };
  expect_text(engine_text(f, on_cpu({64}), on_cpu({64})), R"(
cudnn graph, 1 x 1 x 64
  t0 = tensor0: float32(1, 1, 64) strides (64, 64, 1)
  t1 = tensor1: float32(1, 1, 64) strides (64, 64, 1)
  t2 = less(t0, t1) in float32: boolean(1, 1, 64)
  t3 = where(t0, t1, t2) in float32: float32(1, 1, 64)
  t4 = not_equal(t0, t0) in float32: boolean(1, 1, 64)
  t5 = where(t0, t3, t4) in float32: store0: float32(1, 1, 64) strides (64, 64, 1)
else 1 x 64 x 1
)");
}

TEST(EnginePointwise, clamp) {
  auto f = [](const Array& x) { return stiletto::clamp(x, -1.0f, 1.0f); };
  expect_text(engine_text(f, on_cpu({64}, f16)), R"(
cudnn graph, 1 x 1 x 64
  t0 = tensor0: float16(1, 1, 64) strides (64, 64, 1)
  t1 = scalar0: float32 by value
  t2 = scalar1: float32 by value
  t3 = greater(t0, t1) in float32: boolean(1, 1, 64)
  t4 = where(t0, t1, t3) in float32: float32(1, 1, 64)
  t5 = not_equal(t0, t0) in float32: boolean(1, 1, 64)
  t6 = where(t0, t4, t5) in float32: float32(1, 1, 64)
  t7 = less(t6, t2) in float32: boolean(1, 1, 64)
  t8 = where(t6, t2, t7) in float32: float32(1, 1, 64)
  t9 = not_equal(t6, t6) in float32: boolean(1, 1, 64)
  t10 = where(t6, t8, t9) in float32: store0: float32(1, 1, 64) strides (64, 64, 1)
else 1 x 64 x 1
)");
}

TEST(EnginePointwise, activations) {
  auto f = [](const Array& x) {
    return stiletto::elu(stiletto::leaky_relu(stiletto::clipped_relu(x, 6)), 0.5);
  };
  expect_text(engine_text(f, on_cpu({64})), R"(
cudnn graph, 1 x 1 x 64
  t0 = tensor0: float32(1, 1, 64) strides (64, 64, 1)
  t1 = clipped_relu(t0, 6) in float32: float32(1, 1, 64)
  t2 = leaky_relu(t1, 0.01) in float32: float32(1, 1, 64)
  t3 = elu(t2, 0.5) in float32: store0: float32(1, 1, 64) strides (64, 64, 1)
else 1 x 64 x 1
)");
}

TEST(EnginePointwise, silu_of_infinities) {
  auto f = [](const Array& x) { return stiletto::silu(x); };
  expect_text(engine_text(f, on_cpu({64}, f16)), R"(
cudnn graph, 1 x 1 x 64
  t0 = tensor0: float16(1, 1, 64) strides (64, 64, 1)
  t1 = relu(t0, from -200) in float32: float32(1, 1, 64)
  t2 = silu(t1) in float32: store0: float16(1, 1, 64) strides (64, 64, 1)
else 1 x 64 x 1
)");
}

TEST(EnginePointwise, sine) {
  auto f = [](const Array& x) { return stiletto::sin(x); };
  expect_text(engine_text(f, on_cpu({64}, f16)), R"(
cudnn graph, 1 x 1 x 64
  t0 = tensor0: float16(1, 1, 64) strides (64, 64, 1)
  t1 = 0.5: float32 constant
  t2 = 0.159155: float32 constant
  t6 = 6.28125: float32 constant
  t9 = 0.00193501: float32 constant
  t12 = 3.01992e-07: float32 constant
  t17 = -0.000195153: float32 constant
  t18 = 0.00833216: float32 constant
  t21 = -0.166667: float32 constant
  t27 = 0.785: float32 constant
  t3 = multiply(t0, t2) in float32: float32(1, 1, 64)
  t4 = add(t3, t1) in float32: float32(1, 1, 64)
  t5 = floor(t4) in float32: float32(1, 1, 64)
  t7 = multiply(t5, t6) in float32: float32(1, 1, 64)
  t8 = subtract(t0, t7) in float32: float32(1, 1, 64)
  t10 = multiply(t5, t9) in float32: float32(1, 1, 64)
  t11 = subtract(t8, t10) in float32: float32(1, 1, 64)
  t13 = multiply(t5, t12) in float32: float32(1, 1, 64)
  t14 = subtract(t11, t13) in float32: float32(1, 1, 64)
  t15 = sin(t14) in float32: float32(1, 1, 64)
  t16 = multiply(t14, t14) in float32: float32(1, 1, 64)
  t19 = multiply(t17, t16) in float32: float32(1, 1, 64)
  t20 = add(t19, t18) in float32: float32(1, 1, 64)
  t22 = multiply(t20, t16) in float32: float32(1, 1, 64)
  t23 = add(t22, t21) in float32: float32(1, 1, 64)
  t24 = multiply(t23, t16) in float32: float32(1, 1, 64)
  t25 = multiply(t24, t14) in float32: float32(1, 1, 64)
  t26 = add(t25, t14) in float32: float32(1, 1, 64)
  t28 = abs(t14) in float32: float32(1, 1, 64)
  t29 = less(t28, t27) in float32: boolean(1, 1, 64)
  t30 = where(t26, t15, t29) in float32: store0: float16(1, 1, 64) strides (64, 64, 1)
else 1 x 64 x 1
)");
}

TEST(EnginePointwise, accurate_tanh) {
  auto f = [](const Array& x) { return stiletto::tanh(x); };
  expect_text(engine_text(f, on_cpu({64})), R"(
cudnn graph, 1 x 1 x 64
  t0 = tensor0: float32(1, 1, 64) strides (64, 64, 1)
  t3 = 1: float32 constant
  t5 = 2: float32 constant
  t7 = 1: float32 constant
  t10 = -0.00570499: float32 constant
  t11 = 0.0206391: float32 constant
  t14 = -0.0537397: float32 constant
  t17 = 0.133314: float32 constant
  t20 = -0.333333: float32 constant
  t26 = 0.625: float32 constant
  t1 = add(t0, t0) in float32: float32(1, 1, 64)
  t2 = exp(t1) in float32: float32(1, 1, 64)
  t4 = add(t2, t3) in float32: float32(1, 1, 64)
  t6 = divide(t5, t4) in float32: float32(1, 1, 64)
  t8 = subtract(t7, t6) in float32: float32(1, 1, 64)
  t9 = multiply(t0, t0) in float32: float32(1, 1, 64)
  t12 = multiply(t10, t9) in float32: float32(1, 1, 64)
  t13 = add(t12, t11) in float32: float32(1, 1, 64)
  t15 = multiply(t13, t9) in float32: float32(1, 1, 64)
  t16 = add(t15, t14) in float32: float32(1, 1, 64)
  t18 = multiply(t16, t9) in float32: float32(1, 1, 64)
  t19 = add(t18, t17) in float32: float32(1, 1, 64)
  t21 = multiply(t19, t9) in float32: float32(1, 1, 64)
  t22 = add(t21, t20) in float32: float32(1, 1, 64)
  t23 = multiply(t22, t9) in float32: float32(1, 1, 64)
  t24 = multiply(t23, t0) in float32: float32(1, 1, 64)
  t25 = add(t24, t0) in float32: float32(1, 1, 64)
  t27 = abs(t0) in float32: float32(1, 1, 64)
  t28 = less(t27, t26) in float32: boolean(1, 1, 64)
  t29 = where(t25, t8, t28) in float32: store0: float32(1, 1, 64) strides (64, 64, 1)
else 1 x 64 x 1
)");
}

TEST(EnginePointwise, tanh_of_a_narrow_type) {
  auto f = [](const Array& x) { return stiletto::tanh(x); };
  expect_text(engine_text(f, on_cpu({64}, f16)), R"(
cudnn graph, 1 x 1 x 64
  t0 = tensor0: float16(1, 1, 64) strides (64, 64, 1)
  t1 = tanh(t0) in float32: store0: float16(1, 1, 64) strides (64, 64, 1)
else 1 x 64 x 1
)");
}

TEST(EnginePointwise, arc_tangent) {
  auto f = [](const Array& x, const Array& y) { return stiletto::atan2(x, y); };
  expect_text(engine_text(f, on_cpu({64}), on_cpu({64})), R"(
not 1 x 1 x 64: cuDNN has no atan2
not 1 x 64 x 1: cuDNN has no atan2
)");
}

TEST(EnginePointwise, int32_sum) {
  auto f = [](const Array& x, const Array& y) { return x + y; };
  expect_text(engine_text(f, on_cpu({64}, i32), on_cpu({64}, i32)), R"(
not 1 x 1 x 64: add of int32 is computed in float32 by cuDNN, which is not exact; cast to a floating-point dtype first
not 1 x 64 x 1: add of int32 is computed in float32 by cuDNN, which is not exact; cast to a floating-point dtype first
)");
}

TEST(EnginePointwise, int8_maximum) {
  auto f = [](const Array& x, const Array& y) { return stiletto::maximum(x, y); };
  expect_text(engine_text(f, on_cpu({64}, i8), on_cpu({64}, i8)), R"(
cudnn graph, 1 x 1 x 64
  t0 = tensor0: int8(1, 1, 64) strides (64, 64, 1)
  t1 = tensor1: int8(1, 1, 64) strides (64, 64, 1)
  t2 = greater(t0, t1) in float32: boolean(1, 1, 64)
  t3 = where(t0, t1, t2) in float32: float32(1, 1, 64)
  t4 = not_equal(t0, t0) in float32: boolean(1, 1, 64)
  t5 = where(t0, t3, t4) in float32: store0: int8(1, 1, 64) strides (64, 64, 1)
else 1 x 64 x 1
)");
}

TEST(EnginePointwise, rounded_once) {
  auto f = [](const Array& x, const Array& y) {
    return stiletto::cast(stiletto::cast(x * y, DType::bfloat16), f32);
  };
  expect_text(engine_text(f, on_cpu({64}), on_cpu({64})), R"(
cudnn graph, 1 x 1 x 64
  t0 = tensor0: float32(1, 1, 64) strides (64, 64, 1)
  t1 = tensor1: float32(1, 1, 64) strides (64, 64, 1)
  t2 = multiply(t0, t1) in float32: float32(1, 1, 64)
  t3 = identity(t2) in float32: bfloat16(1, 1, 64)
  t4 = identity(t3) in float32: store0: float32(1, 1, 64) strides (64, 64, 1)
else 1 x 64 x 1
)");
}

TEST(EnginePointwise, held_in_float16) {
  auto f = [](const Array& x, const Array& y) { return x * y + x; };
  expect_text(engine_text({.intermediate_dtype = f16}, f, on_cpu({64}, f16), on_cpu({64}, f16)), R"(
cudnn graph, 1 x 1 x 64
  t0 = tensor0: float16(1, 1, 64) strides (64, 64, 1)
  t1 = tensor1: float16(1, 1, 64) strides (64, 64, 1)
  t2 = multiply(t0, t1) in float32: float16(1, 1, 64)
  t3 = add(t2, t0) in float32: store0: float16(1, 1, 64) strides (64, 64, 1)
else 1 x 64 x 1
)");
}

TEST(EnginePointwise, two_outputs) {
  auto f = [](const Array& x) {
    const Array y = stiletto::exp(x);
    return std::vector<Array>{y, y * x};
  };
  expect_text(engine_text(f, on_cpu({64}, f16)), R"(
cudnn graph, 1 x 1 x 64
  t0 = tensor0: float16(1, 1, 64) strides (64, 64, 1)
  t1 = exp(t0) in float32: float32(1, 1, 64)
  t2 = multiply(t1, t0) in float32: store1: float16(1, 1, 64) strides (64, 64, 1)
  t3 = identity(t1) in float32: store0: float16(1, 1, 64) strides (64, 64, 1)
else 1 x 64 x 1
)");
}

TEST(EnginePointwise, a_fill_beside_values) {
  auto f = [](const Array& to, const Array& x) {
    stiletto::assign(to, 0.5f);
    return stiletto::exp(x);
  };
  expect_text(engine_text(f, on_cpu({64}), on_cpu({64})), R"(
not 1 x 1 x 64: a plain fill beside computed values; fill that array in a call of its own
not 1 x 64 x 1: a plain fill beside computed values; fill that array in a call of its own
)");
}

TEST(EnginePointwise, too_many_values) {
  auto f = [](const Array& x) {
    Array y = x;
    for (int i = 0; i < 2000; ++i) y = stiletto::exp(y);
    return y;
  };
  expect_text(engine_text(f, on_cpu({64})), R"(
not 1 x 1 x 64: a graph of 2001 values; cuDNN is given at most 2000
not 1 x 64 x 1: a graph of 2001 values; cuDNN is given at most 2000
)");
}

}  // namespace
#endif
