// SPDX-License-Identifier: Apache-2.0
// Golden texts of cuDNN graphs: reductions, and sums as products with ones.
#ifdef STILETTO_HAS_CUDNN
#include "golden/engine_golden.hpp"

namespace {

using golden::engine_text;
using golden::expect_text;
using stiletto::Array;
using stiletto::DType;
using unit::on_cpu;

constexpr DType f16 = DType::float16, bf16 = DType::bfloat16, f32 = DType::float32;
using stiletto::matmul;

TEST(EngineReduction, columns_of_a_product) {
  auto f = [](const Array& x, const Array& w) { return stiletto::sum(matmul(x, w), 0); };
  expect_text(engine_text(f, on_cpu({64, 128}, f16), on_cpu({128, 96}, f16)), R"(
cudnn graph, 1 x 64 x 96
  t0 = tensor0: float16(1, 64, 128) strides (8192, 128, 1)
  t1 = tensor1: float16(1, 128, 96) strides (12288, 96, 1)
  t2 = matmul(t0, t1) in float32: float32(1, 64, 96)
  t3 = sum(t2) in float32: store0: float32(1, 1, 96) strides (96, 96, 1)
)");
}

TEST(EngineReduction, mean_of_rows_of_a_product) {
  auto f = [](const Array& x, const Array& w) { return stiletto::mean(matmul(x, w), 1); };
  expect_text(engine_text(f, on_cpu({64, 128}, f16), on_cpu({128, 96}, f16)), R"(
cudnn graph, 1 x 64 x 96
  t0 = tensor0: float16(1, 64, 128) strides (8192, 128, 1)
  t1 = tensor1: float16(1, 128, 96) strides (12288, 96, 1)
  t3 = 0.0104167: float32 constant
  t2 = matmul(t0, t1) in float32: float32(1, 64, 96)
  t4 = multiply(t2, t3) in float32: float32(1, 64, 96)
  t5 = sum(t4) in float32: store0: float32(1, 64, 1) strides (64, 1, 1)
)");
}

TEST(EngineReduction, norm1_of_rows_of_a_product) {
  auto f = [](const Array& x, const Array& w) { return stiletto::norm1(matmul(x, w), 1); };
  expect_text(engine_text(f, on_cpu({64, 128}), on_cpu({128, 96})), R"(
cudnn graph, 1 x 64 x 96
  t0 = tensor0: float32(1, 64, 128) strides (8192, 128, 1)
  t1 = tensor1: float32(1, 128, 96) strides (12288, 96, 1)
  t2 = matmul(t0, t1) in float32: float32(1, 64, 96)
  t3 = abs(t2) in float32: float32(1, 64, 96)
  t4 = sum(t3) in float32: store0: float32(1, 64, 1) strides (64, 1, 1)
)");
}

TEST(EngineReduction, maxima_of_a_product) {
  auto f = [](const Array& x, const Array& w) { return stiletto::max(matmul(x, w), 1); };
  expect_text(engine_text(f, on_cpu({64, 128}), on_cpu({128, 96})), R"(
not 1 x 64 x 96: cuDNN's max over an axis drops NaN
)");
}

TEST(EngineReduction, columns) {
  auto f = [](const Array& x) { return stiletto::sum(x, 0); };
  expect_text(engine_text(f, on_cpu({256, 512}, f16)), R"(
cudnn graph, 1 x 256 x 512
  t0 = tensor0: float16(1, 256, 512) strides (131072, 512, 1)
  t1 = sum(t0) in float32: store0: float32(1, 1, 512) strides (512, 512, 1)
cudnn graph, 1 x 1 x 512, sum as a product with 256 ones
  t0 = tensor0: float16(1, 256, 512) strides (131072, 512, 1)
  t1 = ones: float16(1, 1, 256) strides (256, 256, 1)
  t2 = matmul(t1, t0) in float32: store0: float32(1, 1, 512) strides (512, 512, 1)
)");
}

TEST(EngineReduction, rows) {
  auto f = [](const Array& x) { return stiletto::sum(x, 1); };
  expect_text(engine_text(f, on_cpu({256, 512}, f16)), R"(
cudnn graph, 1 x 256 x 512
  t0 = tensor0: float16(1, 256, 512) strides (131072, 512, 1)
  t1 = sum(t0) in float32: store0: float32(1, 256, 1) strides (256, 1, 1)
cudnn graph, 1 x 1 x 256, sum as a product with 512 ones
  t0 = tensor0: float16(1, 512, 256) strides (131072, 1, 512)
  t1 = ones: float16(1, 1, 512) strides (512, 512, 1)
  t2 = matmul(t1, t0) in float32: store0: float32(1, 1, 256) strides (256, 256, 1)
)");
}

TEST(EngineReduction, mean_of_rows) {
  auto f = [](const Array& x) { return stiletto::mean(x, 1); };
  expect_text(engine_text(f, on_cpu({256, 512}, bf16)), R"(
cudnn graph, 1 x 256 x 512
  t0 = tensor0: bfloat16(1, 256, 512) strides (131072, 512, 1)
  t1 = 0.00195312: float32 constant
  t2 = multiply(t0, t1) in float32: float32(1, 256, 512)
  t3 = sum(t2) in float32: store0: float32(1, 256, 1) strides (256, 1, 1)
cudnn graph, 1 x 1 x 256, sum as a product with 512 ones
  t0 = tensor0: bfloat16(1, 512, 256) strides (131072, 1, 512)
  t1 = ones: bfloat16(1, 1, 512) strides (512, 512, 1)
  t3 = 0.00195312: float32 constant
  t2 = matmul(t1, t0) in float32: float32(1, 1, 256)
  t4 = multiply(t2, t3) in float32: store0: float32(1, 1, 256) strides (256, 256, 1)
)");
}

TEST(EngineReduction, everything) {
  auto f = [](const Array& x) { return stiletto::sum(x); };
  expect_text(engine_text(f, on_cpu({256, 512}, f16)), R"(
cudnn graph, 1 x 1 x 131072
  t0 = tensor0: float16(1, 1, 131072) strides (131072, 131072, 1)
  t1 = sum(t0) in float32: store0: float32(1, 1, 1) strides (1, 1, 1)
cudnn graph, 1 x 1 x 512, sum as a product with 256 ones
  t0 = tensor0: float16(1, 256, 512) strides (131072, 512, 1)
  t1 = ones: float16(1, 1, 256) strides (256, 256, 1)
  t2 = matmul(t1, t0) in float32: float32(1, 1, 512)
  t3 = sum(t2) in float32: store0: float32(1, 1, 1) strides (1, 1, 1)
cudnn graph, 1 x 1 x 1, sum as a product with 131072 ones
  t0 = tensor0: float16(1, 131072, 1) strides (131072, 1, 1)
  t1 = ones: float16(1, 1, 131072) strides (131072, 131072, 1)
  t2 = matmul(t1, t0) in float32: store0: float32(1, 1, 1) strides (1, 1, 1)
)");
}

TEST(EngineReduction, everything_of_a_prime_number) {
  auto f = [](const Array& x) { return stiletto::sum(x); };
  expect_text(engine_text(f, on_cpu({10007}, f16)), R"(
cudnn graph, 1 x 1 x 10007
  t0 = tensor0: float16(1, 1, 10007) strides (10007, 10007, 1)
  t1 = sum(t0) in float32: store0: float32(1, 1, 1) strides (1, 1, 1)
cudnn graph, 1 x 1 x 1, sum as a product with 10007 ones
  t0 = tensor0: float16(1, 10007, 1) strides (10007, 1, 1)
  t1 = ones: float16(1, 1, 10007) strides (10007, 10007, 1)
  t2 = matmul(t1, t0) in float32: store0: float32(1, 1, 1) strides (1, 1, 1)
)");
}

TEST(EngineReduction, middle_axis) {
  auto f = [](const Array& x) { return stiletto::sum(x, 1); };
  expect_text(engine_text(f, on_cpu({8, 32, 64}, f16)), R"(
cudnn graph, 8 x 32 x 64
  t0 = tensor0: float16(8, 32, 64) strides (2048, 64, 1)
  t1 = sum(t0) in float32: store0: float32(8, 1, 64) strides (64, 64, 1)
cudnn graph, 8 x 1 x 64, sum as a product with 32 ones
  t0 = tensor0: float16(8, 32, 64) strides (2048, 64, 1)
  t1 = ones: float16(1, 1, 32) strides (32, 32, 1)
  t2 = matmul(t1, t0) in float32: store0: float32(8, 1, 64) strides (64, 64, 1)
)");
}

TEST(EngineReduction, outer_axes) {
  auto f = [](const Array& x) { return stiletto::sum(x, {0, 2}); };
  expect_text(engine_text(f, on_cpu({8, 32, 64}, f16)), R"(
cudnn graph, 8 x 32 x 64
  t0 = tensor0: float16(8, 32, 64) strides (2048, 64, 1)
  t1 = sum(t0) in float32: store0: float32(1, 32, 1) strides (32, 1, 1)
cudnn graph, 32 x 1 x 64, sum as a product with 8 ones
  t0 = tensor0: float16(32, 8, 64) strides (64, 2048, 1)
  t1 = ones: float16(1, 1, 8) strides (8, 8, 1)
  t2 = matmul(t1, t0) in float32: float32(32, 1, 64)
  t3 = sum(t2) in float32: store0: float32(32, 1, 1) strides (1, 1, 1)
)");
}

TEST(EngineReduction, all_but_the_channels) {
  auto f = [](const Array& x) { return stiletto::sum(x, {0, 2, 3}); };
  expect_text(engine_text(f, on_cpu({2, 16, 8, 8}, f16)), R"(
cudnn graph, 2 x 16 x 64
  t0 = tensor0: float16(2, 16, 64) strides (1024, 64, 1)
  t1 = sum(t0) in float32: store0: float32(1, 16, 1) strides (16, 1, 1)
cudnn graph, 16 x 1 x 64, sum as a product with 2 ones
  t0 = tensor0: float16(16, 2, 64) strides (64, 1024, 1)
  t1 = ones: float16(1, 1, 2) strides (2, 2, 1)
  t2 = matmul(t1, t0) in float32: float32(16, 1, 64)
  t3 = sum(t2) in float32: store0: float32(16, 1, 1) strides (1, 1, 1)
)");
}

TEST(EngineReduction, every_other_axis) {
  auto f = [](const Array& x) { return stiletto::sum(x, {0, 2, 4}); };
  expect_text(engine_text(f, on_cpu({2, 3, 4, 5, 6}, f16)), R"(
cudnn graph, 2 x 3 x 4 x 5 x 6
  t0 = tensor0: float16(2, 3, 4, 5, 6) strides (360, 120, 30, 6, 1)
  t1 = sum(t0) in float32: store0: float32(1, 3, 1, 5, 1) strides (15, 5, 5, 1, 1)
)");
}

TEST(EngineReduction, of_relu) {
  auto f = [](const Array& x) { return stiletto::sum(stiletto::relu(x), 0); };
  expect_text(engine_text(f, on_cpu({256, 512}, f16)), R"(
cudnn graph, 1 x 256 x 512
  t0 = tensor0: float16(1, 256, 512) strides (131072, 512, 1)
  t1 = relu(t0) in float32: float32(1, 256, 512)
  t2 = sum(t1) in float32: store0: float32(1, 1, 512) strides (512, 512, 1)
cudnn graph, 1 x 1 x 512, sum as a product with 256 ones
  t0 = tensor0: float16(1, 256, 512) strides (131072, 512, 1)
  t2 = ones: float16(1, 1, 256) strides (256, 256, 1)
  t1 = relu(t0) in float32: float16(1, 256, 512)
  t3 = matmul(t2, t1) in float32: store0: float32(1, 1, 512) strides (512, 512, 1)
)");
}

TEST(EngineReduction, of_values_cast) {
  auto f = [](const Array& x) { return stiletto::sum(stiletto::cast(x, f16), 0); };
  expect_text(engine_text(f, on_cpu({256, 512}, f32)), R"(
cudnn graph, 1 x 256 x 512
  t0 = tensor0: float32(1, 256, 512) strides (131072, 512, 1)
  t1 = identity(t0) in float32: float16(1, 256, 512)
  t2 = sum(t1) in float32: store0: float32(1, 1, 512) strides (512, 512, 1)
cudnn graph, 1 x 1 x 512, sum as a product with 256 ones
  t0 = tensor0: float32(1, 256, 512) strides (131072, 512, 1)
  t2 = ones: float16(1, 1, 256) strides (256, 256, 1)
  t1 = identity(t0) in float32: float16(1, 256, 512)
  t3 = matmul(t2, t1) in float32: store0: float32(1, 1, 512) strides (512, 512, 1)
)");
}

TEST(EngineReduction, of_squares) {
  auto f = [](const Array& x) { return stiletto::sum(x * x, 0); };
  expect_text(engine_text(f, on_cpu({256, 512}, f16)), R"(
cudnn graph, 1 x 256 x 512
  t0 = tensor0: float16(1, 256, 512) strides (131072, 512, 1)
  t1 = multiply(t0, t0) in float32: float32(1, 256, 512)
  t2 = sum(t1) in float32: store0: float32(1, 1, 512) strides (512, 512, 1)
not 1 x 1 x 512, sum as a product with 256 ones: the sum of a multiply as a product with ones would round each term to float16
)");
}

TEST(EngineReduction, of_float32) {
  auto f = [](const Array& x) { return stiletto::sum(x, 0); };
  expect_text(engine_text(f, on_cpu({256, 512})), R"(
cudnn graph, 1 x 256 x 512
  t0 = tensor0: float32(1, 256, 512) strides (131072, 512, 1)
  t1 = sum(t0) in float32: store0: float32(1, 1, 512) strides (512, 512, 1)
not 1 x 1 x 512, sum as a product with 256 ones: a sum as a product with ones would round float32 operands
)");
}

TEST(EngineReduction, behind_ones) {
  auto squares = [](const Array& x) { return stiletto::sum(x * x, 0); };
  expect_text(golden::text_behind_ones(squares, on_cpu({256, 512})), R"(
cudnn graph, 1 x 256 x 512, behind a product of ones
  t0 = tensor0: float32(1, 256, 512) strides (131072, 512, 1)
  t1 = ones: float16(1, 256, 1) strides (1, 1, 1)
  t2 = ones: float16(1, 1, 512) strides (512, 512, 1)
  t3 = matmul(t1, t2) in float32: float32(1, 256, 512)
  t4 = multiply(t3, t0) in float32: float32(1, 256, 512)
  t5 = multiply(t4, t4) in float32: float32(1, 256, 512)
  t6 = sum(t5) in float32: store0: float32(1, 1, 512) strides (512, 512, 1)
)");
  auto all = [](const Array& x) { return stiletto::mean(x); };
  expect_text(golden::text_behind_ones(all, on_cpu({3 * 4096})), R"(
cudnn graph, 1 x 12 x 1024, behind a product of ones
  t0 = tensor0: float32(1, 12, 1024) strides (12288, 1024, 1)
  t1 = ones: float16(1, 12, 1) strides (1, 1, 1)
  t2 = ones: float16(1, 1, 1024) strides (1024, 1024, 1)
  t5 = 8.13802e-05: float32 constant
  t3 = matmul(t1, t2) in float32: float32(1, 12, 1024)
  t4 = multiply(t3, t0) in float32: float32(1, 12, 1024)
  t6 = multiply(t4, t5) in float32: float32(1, 12, 1024)
  t7 = sum(t6) in float32: store0: float32(1, 1, 1) strides (1, 1, 1)
)");
}

TEST(EngineReduction, of_int32) {
  auto f = [](const Array& x) { return stiletto::sum(x, 0); };
  expect_text(engine_text(f, on_cpu({256, 512}, DType::int32)), R"(
not 1 x 256 x 512: sum of int32 is not exact in cuDNN's float32
not 1 x 1 x 512, sum as a product with 256 ones: sum of int32 is not exact in cuDNN's float32
not 1 x 256 x 512, behind a product of ones: no floating-point operand that a product of ones could multiply
)");
}

TEST(EngineReduction, axes_of_extent_1) {
  auto f = [](const Array& x) { return stiletto::norm2(x, 1); };
  expect_text(engine_text(f, on_cpu({256, 1})), R"(
cudnn graph, 1 x 1 x 256
  t0 = tensor0: float32(1, 1, 256) strides (256, 256, 1)
  t1 = abs(t0) in float32: store0: float32(1, 1, 256) strides (256, 256, 1)
else 1 x 256 x 1
)");
}

TEST(EngineReduction, minimum) {
  auto f = [](const Array& x) { return stiletto::min(x, 0); };
  expect_text(engine_text(f, on_cpu({256, 512})), R"(
not 1 x 256 x 512: cuDNN's min over an axis drops NaN
)");
}

TEST(EngineReduction, abs_max) {
  auto f = [](const Array& x) { return stiletto::abs_max(x, 0); };
  expect_text(engine_text(f, on_cpu({256, 512})), R"(
not 1 x 256 x 512: cuDNN's abs_max over an axis drops NaN; take it out first, as in abs_max(where(x == x, x, 0))
)");
}

TEST(EngineReduction, norm2) {
  auto f = [](const Array& x) { return stiletto::norm2(x, 1); };
  expect_text(engine_text(f, on_cpu({256, 512})), R"(
cudnn graph, 1 x 256 x 512
  t0 = tensor0: float32(1, 256, 512) strides (131072, 512, 1)
  t1 = multiply(t0, t0) in float32: float32(1, 256, 512)
  t2 = sum(t1) in float32: float32(1, 256, 1)
  t3 = sqrt(t2) in float32: store0: float32(1, 256, 1) strides (256, 1, 1)
)");
}

TEST(EngineReduction, logsumexp) {
  auto f = [](const Array& x) { return stiletto::logsumexp(x, 1); };
  expect_text(engine_text(f, on_cpu({256, 512})), R"(
cudnn graph, 1 x 256 x 512
  t0 = tensor0: float32(1, 256, 512) strides (131072, 512, 1)
  t2 = inf: float32 constant
  t5 = 0: float32 constant
  t1 = max(t0) in float32: float32(1, 256, 1)
  t3 = abs(t1) in float32: float32(1, 256, 1)
  t4 = less(t3, t2) in float32: boolean(1, 256, 1)
  t6 = where(t1, t5, t4) in float32: float32(1, 256, 1)
  t7 = subtract(t0, t6) in float32: float32(1, 256, 512)
  t8 = exp(t7) in float32: float32(1, 256, 512)
  t9 = sum(t8) in float32: float32(1, 256, 1)
  t10 = log(t9) in float32: float32(1, 256, 1)
  t11 = add(t10, t6) in float32: store0: float32(1, 256, 1) strides (256, 1, 1)
)");
}

TEST(EngineReduction, softmax) {
  auto f = [](const Array& x) { return stiletto::softmax(x); };
  expect_text(engine_text(f, on_cpu({256, 512}, f16)), R"(
cudnn graph, 1 x 256 x 512
  t0 = tensor0: float16(1, 256, 512) strides (131072, 512, 1)
  t1 = max(t0) in float32: float32(1, 256, 1)
  t2 = subtract(t0, t1) in float32: float32(1, 256, 512)
  t3 = exp(t2) in float32: float32(1, 256, 512)
  t4 = sum(t3) in float32: float32(1, 256, 1)
  t5 = divide(t3, t4) in float32: store0: float16(1, 256, 512) strides (131072, 512, 1)
)");
}

TEST(EngineReduction, of_a_select) {
  auto f = [](const Array& m, const Array& x, const Array& y) {
    return stiletto::sum(stiletto::where(m, x, y), 1);
  };
  expect_text(
      engine_text(f, on_cpu({256, 512}, DType::boolean), on_cpu({256, 512}, f16), on_cpu({256, 512}, f16)),
      R"(
cudnn graph, 1 x 256 x 512
  t0 = tensor0: boolean(1, 256, 512) strides (131072, 512, 1)
  t1 = tensor1: float16(1, 256, 512) strides (131072, 512, 1)
  t2 = tensor2: float16(1, 256, 512) strides (131072, 512, 1)
  t3 = where(t1, t2, t0) in float32: float32(1, 256, 512)
  t4 = sum(t3) in float32: store0: float32(1, 256, 1) strides (256, 1, 1)
cudnn graph, 1 x 1 x 256, sum as a product with 512 ones
  t0 = tensor0: boolean(1, 512, 256) strides (131072, 1, 512)
  t1 = tensor1: float16(1, 512, 256) strides (131072, 1, 512)
  t2 = tensor2: float16(1, 512, 256) strides (131072, 1, 512)
  t4 = ones: float16(1, 1, 512) strides (512, 512, 1)
  t3 = where(t1, t2, t0) in float32: float16(1, 512, 256)
  t5 = matmul(t4, t3) in float32: store0: float32(1, 1, 256) strides (256, 256, 1)
)");
}

TEST(EngineReduction, scaled_afterwards) {
  auto f = [](const Array& x, const Array& s) { return stiletto::sum(x, 1) * s; };
  expect_text(engine_text(f, on_cpu({256, 512}, f16), on_cpu({256})), R"(
cudnn graph, 1 x 256 x 512
  t0 = tensor0: float16(1, 256, 512) strides (131072, 512, 1)
  t2 = tensor1: float32(1, 256, 1) strides (256, 1, 1)
  t1 = sum(t0) in float32: float32(1, 256, 1)
  t3 = multiply(t1, t2) in float32: store0: float32(1, 256, 1) strides (256, 1, 1)
cudnn graph, 1 x 1 x 256, sum as a product with 512 ones
  t0 = tensor0: float16(1, 512, 256) strides (131072, 1, 512)
  t1 = ones: float16(1, 1, 512) strides (512, 512, 1)
  t3 = tensor1: float32(1, 1, 256) strides (256, 256, 1)
  t2 = matmul(t1, t0) in float32: float32(1, 1, 256)
  t4 = multiply(t2, t3) in float32: store0: float32(1, 1, 256) strides (256, 256, 1)
)");
}

TEST(EngineReduction, beside_its_operand) {
  auto f = [](const Array& x) { return std::vector<Array>{stiletto::sum(x, 0), x * 2.0f}; };
  expect_text(engine_text(f, on_cpu({256, 512}, f16)), R"(
cudnn graph, 1 x 256 x 512
  t0 = tensor0: float16(1, 256, 512) strides (131072, 512, 1)
  t2 = scalar0: float32 by value
  t1 = sum(t0) in float32: store0: float32(1, 1, 512) strides (512, 512, 1)
  t3 = multiply(t0, t2) in float32: store1: float32(1, 256, 512) strides (131072, 512, 1)
not 1 x 1 x 512, sum as a product with 256 ones: arg0 has an axis that a product or reduction beside it does not have
)");
}

}  // namespace
#endif
