// SPDX-License-Identifier: Apache-2.0
// Golden texts of cuDNN graphs with block-scaled operands and results: scales over dimensions of their own,
// in tiles, beside each operand that is dequantized and each result that is quantized.
#ifdef STILETTO_HAS_CUDNN
#include "golden/engine_golden.hpp"

namespace {

using golden::engine_text;
using golden::expect_text;
using stiletto::Array;
using stiletto::BlockFormat;
using stiletto::BlockscaledArray;
using stiletto::DType;
using stiletto::matmul;
using stiletto::quantize_into;
using stiletto::Shape;
using unit::on_cpu;

constexpr DType bf16 = DType::bfloat16, f32 = DType::float32;
constexpr BlockFormat mxfp8 = BlockFormat::mxfp8_e4m3, mxfp4 = BlockFormat::mxfp4, nvfp4 = BlockFormat::nvfp4;

/// A block-scaled argument: two of a traced function's, elements and scales.
struct Blocked {
  Shape shape;
  BlockFormat format;
  int axis;

  Array elements() const { return like(spec().elements()); }
  Array scales() const { return like(spec().scales()); }
  BlockscaledArray of(const Array& e, const Array& s) const {
    return BlockscaledArray::from_parts(e, s, shape, format, axis);
  }

 private:
  BlockscaledArray spec() const { return BlockscaledArray::spec(shape, format, axis); }
  static Array like(const Array& x) { return on_cpu(x.shape(), x.dtype(), x.strides()); }
};

/// Of f(a, b, others…).
template <class F, class... Others>
std::string text_of_two(const F& f, const Blocked& a, const Blocked& b, const Others&... others) {
  return engine_text(
      [&](const Array& ae, const Array& as, const Array& be, const Array& bs,
          const std::conditional_t<true, Array, Others>&... rest) {
        return f(a.of(ae, as), b.of(be, bs), rest...);
      },
      a.elements(), a.scales(), b.elements(), b.scales(), others...);
}
/// Of f(a, b, c), all of them block-scaled.
template <class F>
std::string text_of_three(const F& f, const Blocked& a, const Blocked& b, const Blocked& c) {
  return text_of_two([&](const BlockscaledArray& x, const BlockscaledArray& y, const Array& e,
                         const Array& s) { return f(x, y, c.of(e, s)); },
                     a, b, c.elements(), c.scales());
}

Array product(const BlockscaledArray& a, const BlockscaledArray& b) { return matmul(a, b); }

TEST(EngineBlockscaled, product_of_mxfp8) {
  expect_text(text_of_two(product, {{128, 256}, mxfp8, -1}, {{256, 96}, mxfp8, -2}), R"(
cudnn graph, 1 x 128 x 96
  t0 = tensor0: float8_e4m3(1, 128, 256) strides (32768, 256, 1)
  t1 = tensor1: float8_e8m0(1, 128, 8) strides (1024, 8, 1) in F8_128x4
  t3 = tensor2: float8_e4m3(1, 256, 96) strides (24576, 1, 256)
  t4 = tensor3: float8_e8m0(1, 8, 128) strides (1024, 1, 8) in F8_128x4
  t2 = dequantize(t0, t1, 32 float8_e4m3 by float8_e8m0 along -1) in float32: float32(1, 128, 256)
  t5 = dequantize(t3, t4, 32 float8_e4m3 by float8_e8m0 along -2) in float32: float32(1, 256, 96)
  t6 = matmul(t2, t5) in float32: store0: float32(1, 128, 96) strides (12288, 96, 1)
)");
}

TEST(EngineBlockscaled, product_of_nvfp4_in_a_batch_of_odd_extents) {
  expect_text(text_of_two(product, {{3, 137, 160}, nvfp4, -1}, {{3, 160, 75}, nvfp4, -2}), R"(
cudnn graph, 3 x 137 x 75
  t0 = tensor0: float4_e2m1(3, 137, 160) strides (21920, 160, 1)
  t1 = tensor1: float8_e4m3(3, 256, 12) strides (3072, 12, 1) in F8_128x4
  t3 = tensor2: float4_e2m1(3, 160, 75) strides (12000, 1, 160)
  t4 = tensor3: float8_e4m3(3, 12, 128) strides (1536, 1, 12) in F8_128x4
  t2 = dequantize(t0, t1, 16 float4_e2m1 by float8_e4m3 along -1) in float32: float32(3, 137, 160)
  t5 = dequantize(t3, t4, 16 float4_e2m1 by float8_e4m3 along -2) in float32: float32(3, 160, 75)
  t6 = matmul(t2, t5) in float32: store0: float32(3, 137, 75) strides (10275, 75, 1)
)");
}

TEST(EngineBlockscaled, a_right_operand_for_a_batch) {
  expect_text(text_of_two(product, {{3, 64, 96}, mxfp4, -1}, {{96, 32}, mxfp4, -2}), R"(
cudnn graph, 3 x 64 x 32
  t0 = tensor0: float4_e2m1(3, 64, 96) strides (6144, 96, 1)
  t1 = tensor1: float8_e8m0(3, 128, 4) strides (512, 4, 1) in F8_128x4
  t3 = tensor2: float4_e2m1(1, 96, 32) strides (3072, 1, 96)
  t4 = tensor3: float8_e8m0(1, 4, 128) strides (512, 1, 4) in F8_128x4
  t2 = dequantize(t0, t1, 32 float4_e2m1 by float8_e8m0 along -1) in float32: float32(3, 64, 96)
  t5 = dequantize(t3, t4, 32 float4_e2m1 by float8_e8m0 along -2) in float32: float32(1, 96, 32)
  t6 = matmul(t2, t5) in float32: store0: float32(3, 64, 32) strides (2048, 32, 1)
)");
}

TEST(EngineBlockscaled, bias_and_gelu) {
  auto f = [](const BlockscaledArray& a, const BlockscaledArray& b, const Array& bias) {
    return stiletto::cast(stiletto::gelu(matmul(a, b) + bias), bf16);
  };
  expect_text(text_of_two(f, {{128, 256}, mxfp8, -1}, {{256, 96}, mxfp8, -2}, on_cpu({96}, bf16)), R"(
cudnn graph, 1 x 128 x 96
  t0 = tensor0: float8_e4m3(1, 128, 256) strides (32768, 256, 1)
  t1 = tensor1: float8_e8m0(1, 128, 8) strides (1024, 8, 1) in F8_128x4
  t3 = tensor2: float8_e4m3(1, 256, 96) strides (24576, 1, 256)
  t4 = tensor3: float8_e8m0(1, 8, 128) strides (1024, 1, 8) in F8_128x4
  t7 = tensor4: bfloat16(1, 1, 96) strides (96, 96, 1)
  t2 = dequantize(t0, t1, 32 float8_e4m3 by float8_e8m0 along -1) in float32: float32(1, 128, 256)
  t5 = dequantize(t3, t4, 32 float8_e4m3 by float8_e8m0 along -2) in float32: float32(1, 256, 96)
  t6 = matmul(t2, t5) in float32: float32(1, 128, 96)
  t8 = add(t6, t7) in float32: float32(1, 128, 96)
  t9 = relu(t8, from -50) in float32: float32(1, 128, 96)
  t10 = gelu(t9) in float32: float32(1, 128, 96)
  t11 = identity(t10) in float32: store0: bfloat16(1, 128, 96) strides (12288, 96, 1)
)");
}

TEST(EngineBlockscaled, swiglu) {
  auto f = [](const BlockscaledArray& a, const BlockscaledArray& b, const BlockscaledArray& c) {
    return stiletto::cast(stiletto::silu(matmul(a, b)) * matmul(a, c), bf16);
  };
  expect_text(text_of_three(f, {{128, 256}, nvfp4, -1}, {{256, 96}, nvfp4, -2}, {{256, 96}, nvfp4, -2}), R"(
cudnn graph, 1 x 128 x 96
  t0 = tensor0: float4_e2m1(1, 128, 256) strides (32768, 256, 1)
  t1 = tensor1: float8_e4m3(1, 128, 16) strides (2048, 16, 1) in F8_128x4
  t3 = tensor2: float4_e2m1(1, 256, 96) strides (24576, 1, 256)
  t4 = tensor3: float8_e4m3(1, 16, 128) strides (2048, 1, 16) in F8_128x4
  t9 = tensor4: float4_e2m1(1, 256, 96) strides (24576, 1, 256)
  t10 = tensor5: float8_e4m3(1, 16, 128) strides (2048, 1, 16) in F8_128x4
  t2 = dequantize(t0, t1, 16 float4_e2m1 by float8_e4m3 along -1) in float32: float32(1, 128, 256)
  t5 = dequantize(t3, t4, 16 float4_e2m1 by float8_e4m3 along -2) in float32: float32(1, 256, 96)
  t6 = matmul(t2, t5) in float32: float32(1, 128, 96)
  t7 = relu(t6, from -200) in float32: float32(1, 128, 96)
  t8 = silu(t7) in float32: float32(1, 128, 96)
  t11 = dequantize(t9, t10, 16 float4_e2m1 by float8_e4m3 along -2) in float32: float32(1, 256, 96)
  t12 = matmul(t2, t11) in float32: float32(1, 128, 96)
  t13 = multiply(t8, t12) in float32: float32(1, 128, 96)
  t14 = identity(t13) in float32: store0: bfloat16(1, 128, 96) strides (12288, 96, 1)
)");
}

TEST(EngineBlockscaled, quantized_behind_a_product_of_bfloat16) {
  const Blocked to{{128, 96}, mxfp8, -1};
  auto f = [&](const Array& e, const Array& s, const Array& x, const Array& w) {
    quantize_into(to.of(e, s), matmul(x, w));
  };
  expect_text(engine_text(f, to.elements(), to.scales(), on_cpu({128, 256}, bf16), on_cpu({256, 96}, bf16)),
              R"(
cudnn graph, 1 x 128 x 96
  t0 = tensor0: bfloat16(1, 128, 256) strides (32768, 256, 1)
  t1 = tensor1: bfloat16(1, 256, 96) strides (24576, 96, 1)
  t2 = matmul(t0, t1) in float32: float32(1, 128, 96)
  t3 = quantize(t2, 32 float8_e4m3 by float8_e8m0 along -1) in float32: store0: float8_e4m3(1, 128, 96) strides (12288, 96, 1)
  t4 = result 1 of it: store1: float8_e8m0(1, 128, 4) strides (512, 4, 1) in F8_128x4
)");
}

TEST(EngineBlockscaled, narrow_to_narrow) {
  auto f = [](const BlockscaledArray& a, const BlockscaledArray& b, const BlockscaledArray& to) {
    quantize_into(to, stiletto::relu(matmul(a, b)));
  };
  expect_text(text_of_three(f, {{128, 256}, mxfp8, -1}, {{256, 96}, mxfp8, -2}, {{128, 96}, nvfp4, -1}), R"(
cudnn graph, 1 x 128 x 96
  t0 = tensor0: float8_e4m3(1, 128, 256) strides (32768, 256, 1)
  t1 = tensor1: float8_e8m0(1, 128, 8) strides (1024, 8, 1) in F8_128x4
  t3 = tensor2: float8_e4m3(1, 256, 96) strides (24576, 1, 256)
  t4 = tensor3: float8_e8m0(1, 8, 128) strides (1024, 1, 8) in F8_128x4
  t2 = dequantize(t0, t1, 32 float8_e4m3 by float8_e8m0 along -1) in float32: float32(1, 128, 256)
  t5 = dequantize(t3, t4, 32 float8_e4m3 by float8_e8m0 along -2) in float32: float32(1, 256, 96)
  t6 = matmul(t2, t5) in float32: float32(1, 128, 96)
  t7 = relu(t6) in float32: float32(1, 128, 96)
  t8 = quantize(t7, 16 float4_e2m1 by float8_e4m3 along -1) in float32: store0: float4_e2m1(1, 128, 96) strides (12288, 96, 1)
  t9 = result 1 of it: store1: float8_e4m3(1, 128, 8) strides (1024, 8, 1) in F8_128x4
)");
}

TEST(EngineBlockscaled, narrow_to_narrow_along_rows) {
  auto f = [](const BlockscaledArray& a, const BlockscaledArray& b, const BlockscaledArray& to) {
    quantize_into(to, matmul(a, b));
  };
  expect_text(text_of_three(f, {{2, 3, 128, 256}, mxfp8, -1}, {{2, 3, 256, 96}, mxfp8, -2},
                            {{2, 3, 128, 96}, mxfp8, -2}),
              R"(
cudnn graph, 6 x 128 x 96
  t0 = tensor0: float8_e4m3(6, 128, 256) strides (32768, 256, 1)
  t1 = tensor1: float8_e8m0(6, 128, 8) strides (1024, 8, 1) in F8_128x4
  t3 = tensor2: float8_e4m3(6, 256, 96) strides (24576, 1, 256)
  t4 = tensor3: float8_e8m0(6, 8, 128) strides (1024, 1, 8) in F8_128x4
  t2 = dequantize(t0, t1, 32 float8_e4m3 by float8_e8m0 along -1) in float32: float32(6, 128, 256)
  t5 = dequantize(t3, t4, 32 float8_e4m3 by float8_e8m0 along -2) in float32: float32(6, 256, 96)
  t6 = matmul(t2, t5) in float32: float32(6, 128, 96)
  t7 = quantize(t6, 32 float8_e4m3 by float8_e8m0 along -2) in float32: store0: float8_e4m3(6, 128, 96) strides (12288, 1, 128)
  t8 = result 1 of it: store1: float8_e8m0(6, 4, 128) strides (512, 1, 4) in F8_128x4
)");
}

TEST(EngineBlockscaled, transposed_result) {
  auto f = [](const BlockscaledArray& a, const BlockscaledArray& b) {
    return stiletto::transpose(matmul(a, b));
  };
  expect_text(text_of_two(f, {{128, 256}, mxfp8, -1}, {{256, 96}, mxfp8, -2}), R"(
cudnn graph, 1 x 128 x 96
  t0 = tensor0: float8_e4m3(1, 128, 256) strides (32768, 256, 1)
  t1 = tensor1: float8_e8m0(1, 128, 8) strides (1024, 8, 1) in F8_128x4
  t3 = tensor2: float8_e4m3(1, 256, 96) strides (24576, 1, 256)
  t4 = tensor3: float8_e8m0(1, 8, 128) strides (1024, 1, 8) in F8_128x4
  t2 = dequantize(t0, t1, 32 float8_e4m3 by float8_e8m0 along -1) in float32: float32(1, 128, 256)
  t5 = dequantize(t3, t4, 32 float8_e4m3 by float8_e8m0 along -2) in float32: float32(1, 256, 96)
  t6 = matmul(t2, t5) in float32: store0: float32(1, 128, 96) strides (12288, 1, 128)
)");
}

/// A single line lies as many would.
TEST(EngineBlockscaled, one_column) {
  expect_text(text_of_two(product, {{128, 256}, nvfp4, -1}, {{256, 1}, nvfp4, -2}), R"(
cudnn graph, 1 x 128 x 1
  t0 = tensor0: float4_e2m1(1, 128, 256) strides (32768, 256, 1)
  t1 = tensor1: float8_e4m3(1, 128, 16) strides (2048, 16, 1) in F8_128x4
  t3 = tensor2: float4_e2m1(1, 256, 1) strides (256, 1, 256)
  t4 = tensor3: float8_e4m3(1, 16, 128) strides (2048, 1, 16) in F8_128x4
  t2 = dequantize(t0, t1, 16 float4_e2m1 by float8_e4m3 along -1) in float32: float32(1, 128, 256)
  t5 = dequantize(t3, t4, 16 float4_e2m1 by float8_e4m3 along -2) in float32: float32(1, 256, 1)
  t6 = matmul(t2, t5) in float32: store0: float32(1, 128, 1) strides (128, 1, 1)
)");
}

TEST(EngineBlockscaled, one_row) {
  expect_text(text_of_two(product, {{1, 256}, mxfp4, -1}, {{256, 96}, mxfp4, -2}), R"(
cudnn graph, 1 x 1 x 96
  t0 = tensor0: float4_e2m1(1, 1, 256) strides (256, 256, 1)
  t1 = tensor1: float8_e8m0(1, 128, 8) strides (1024, 8, 1) in F8_128x4
  t3 = tensor2: float4_e2m1(1, 256, 96) strides (24576, 1, 256)
  t4 = tensor3: float8_e8m0(1, 8, 128) strides (1024, 1, 8) in F8_128x4
  t2 = dequantize(t0, t1, 32 float4_e2m1 by float8_e8m0 along -1) in float32: float32(1, 1, 256)
  t5 = dequantize(t3, t4, 32 float4_e2m1 by float8_e8m0 along -2) in float32: float32(1, 256, 96)
  t6 = matmul(t2, t5) in float32: store0: float32(1, 1, 96) strides (96, 96, 1)
)");
}

TEST(EngineBlockscaled, both_results) {
  auto f = [](const BlockscaledArray& a, const BlockscaledArray& b) {
    const Array y = matmul(a, b);
    const BlockscaledArray narrow = stiletto::quantize(y, mxfp4, -1);
    return std::vector<Array>{narrow.elements(), narrow.scales(), y};
  };
  expect_text(text_of_two(f, {{128, 256}, mxfp4, -1}, {{256, 96}, mxfp4, -2}), R"(
cudnn graph, 1 x 128 x 96
  t0 = tensor0: float4_e2m1(1, 128, 256) strides (32768, 256, 1)
  t1 = tensor1: float8_e8m0(1, 128, 8) strides (1024, 8, 1) in F8_128x4
  t3 = tensor2: float4_e2m1(1, 256, 96) strides (24576, 1, 256)
  t4 = tensor3: float8_e8m0(1, 8, 128) strides (1024, 1, 8) in F8_128x4
  t2 = dequantize(t0, t1, 32 float4_e2m1 by float8_e8m0 along -1) in float32: float32(1, 128, 256)
  t5 = dequantize(t3, t4, 32 float4_e2m1 by float8_e8m0 along -2) in float32: float32(1, 256, 96)
  t6 = matmul(t2, t5) in float32: store2: float32(1, 128, 96) strides (12288, 96, 1)
  t7 = quantize(t6, 32 float4_e2m1 by float8_e8m0 along -1) in float32: store0: float4_e2m1(1, 128, 96) strides (12288, 96, 1)
  t8 = result 1 of it: store1: float8_e8m0(1, 128, 4) strides (512, 4, 1) in F8_128x4
)");
}

TEST(EngineBlockscaled, column_sums) {
  auto f = [](const BlockscaledArray& a, const BlockscaledArray& b) {
    return stiletto::sum(matmul(a, b), 0);
  };
  expect_text(text_of_two(f, {{128, 256}, mxfp8, -1}, {{256, 96}, mxfp8, -2}), R"(
cudnn graph, 1 x 128 x 96
  t0 = tensor0: float8_e4m3(1, 128, 256) strides (32768, 256, 1)
  t1 = tensor1: float8_e8m0(1, 128, 8) strides (1024, 8, 1) in F8_128x4
  t3 = tensor2: float8_e4m3(1, 256, 96) strides (24576, 1, 256)
  t4 = tensor3: float8_e8m0(1, 8, 128) strides (1024, 1, 8) in F8_128x4
  t2 = dequantize(t0, t1, 32 float8_e4m3 by float8_e8m0 along -1) in float32: float32(1, 128, 256)
  t5 = dequantize(t3, t4, 32 float8_e4m3 by float8_e8m0 along -2) in float32: float32(1, 256, 96)
  t6 = matmul(t2, t5) in float32: float32(1, 128, 96)
  t7 = sum(t6) in float32: store0: float32(1, 1, 96) strides (96, 96, 1)
)");
}

TEST(EngineBlockscaled, alpha_and_beta) {
  auto f = [](const BlockscaledArray& a, const BlockscaledArray& b, const Array& to) {
    stiletto::matmul_into(to, a, b, 2, 0.5);
  };
  expect_text(text_of_two(f, {{128, 256}, mxfp8, -1}, {{256, 96}, mxfp8, -2}, on_cpu({128, 96}, f32)), R"(
cudnn graph, 1 x 128 x 96
  t0 = tensor0: float8_e4m3(1, 128, 256) strides (32768, 256, 1)
  t1 = tensor1: float8_e8m0(1, 128, 8) strides (1024, 8, 1) in F8_128x4
  t3 = tensor2: float8_e4m3(1, 256, 96) strides (24576, 1, 256)
  t4 = tensor3: float8_e8m0(1, 8, 128) strides (1024, 1, 8) in F8_128x4
  t7 = 2: float32 constant
  t9 = tensor4: float32(1, 128, 96) strides (12288, 96, 1)
  t10 = 0.5: float32 constant
  t2 = dequantize(t0, t1, 32 float8_e4m3 by float8_e8m0 along -1) in float32: float32(1, 128, 256)
  t5 = dequantize(t3, t4, 32 float8_e4m3 by float8_e8m0 along -2) in float32: float32(1, 256, 96)
  t6 = matmul(t2, t5) in float32: float32(1, 128, 96)
  t8 = multiply(t6, t7) in float32: float32(1, 128, 96)
  t11 = multiply(t9, t10) in float32: float32(1, 128, 96)
  t12 = add(t8, t11) in float32: store0: float32(1, 128, 96) strides (12288, 96, 1)
)");
}

/// Matrices of one row each stay matrices, and their batch one: each has tiles of scales of its own.
TEST(EngineBlockscaled, a_batch_of_single_rows) {
  expect_text(text_of_two(product, {{5, 1, 64}, mxfp8, -1}, {{64, 7}, mxfp8, -2}), R"(
cudnn graph, 5 x 1 x 7
  t0 = tensor0: float8_e4m3(5, 1, 64) strides (64, 64, 1)
  t1 = tensor1: float8_e8m0(5, 128, 4) strides (512, 4, 1) in F8_128x4
  t3 = tensor2: float8_e4m3(1, 64, 7) strides (448, 1, 64)
  t4 = tensor3: float8_e8m0(1, 4, 128) strides (512, 1, 4) in F8_128x4
  t2 = dequantize(t0, t1, 32 float8_e4m3 by float8_e8m0 along -1) in float32: float32(5, 1, 64)
  t5 = dequantize(t3, t4, 32 float8_e4m3 by float8_e8m0 along -2) in float32: float32(1, 64, 7)
  t6 = matmul(t2, t5) in float32: store0: float32(5, 1, 7) strides (7, 7, 1)
)");
}

TEST(EngineBlockscaled, single_rows_are_quantized) {
  const Blocked to{{5, 1, 32}, mxfp8, -1};
  auto f = [&](const Array& e, const Array& s, const Array& x, const Array& w) {
    quantize_into(to.of(e, s), matmul(x, w));
  };
  expect_text(engine_text(f, to.elements(), to.scales(), on_cpu({5, 1, 64}, bf16), on_cpu({64, 32}, bf16)),
              R"(
cudnn graph, 5 x 1 x 32
  t0 = tensor0: bfloat16(5, 1, 64) strides (64, 64, 1)
  t1 = tensor1: bfloat16(1, 64, 32) strides (2048, 32, 1)
  t2 = matmul(t0, t1) in float32: float32(5, 1, 32)
  t3 = quantize(t2, 32 float8_e4m3 by float8_e8m0 along -1) in float32: store0: float8_e4m3(5, 1, 32) strides (32, 32, 1)
  t4 = result 1 of it: store1: float8_e8m0(5, 128, 4) strides (512, 4, 1) in F8_128x4
)");
}

/// Rows of the result are further apart than its matrices; the operands' matrices do not change for it.
TEST(EngineBlockscaled, a_result_of_interleaved_matrices) {
  auto f = [](const BlockscaledArray& a, const BlockscaledArray& b, const Array& to) {
    stiletto::matmul_into(to, a, b);
  };
  expect_text(
      text_of_two(f, {{3, 33, 64}, mxfp8, -1}, {{64, 7}, mxfp8, -2}, on_cpu({3, 33, 7}, f32, {7, 21, 1})),
      R"(
cudnn graph, 3 x 33 x 7
  t0 = tensor0: float8_e4m3(3, 33, 64) strides (2112, 64, 1)
  t1 = tensor1: float8_e8m0(3, 128, 4) strides (512, 4, 1) in F8_128x4
  t3 = tensor2: float8_e4m3(1, 64, 7) strides (448, 1, 64)
  t4 = tensor3: float8_e8m0(1, 4, 128) strides (512, 1, 4) in F8_128x4
  t2 = dequantize(t0, t1, 32 float8_e4m3 by float8_e8m0 along -1) in float32: float32(3, 33, 64)
  t5 = dequantize(t3, t4, 32 float8_e4m3 by float8_e8m0 along -2) in float32: float32(1, 64, 7)
  t6 = matmul(t2, t5) in float32: store0: float32(3, 33, 7) strides (7, 21, 1)
)");
}

/// Both axes of the result are rows of the product.
TEST(EngineBlockscaled, a_product_with_a_vector_is_not_quantized) {
  const Blocked to{{5, 32}, mxfp8, -1};
  auto f = [&](const Array& e, const Array& s, const Array& x, const Array& w) {
    quantize_into(to.of(e, s), matmul(x, w));
  };
  expect_text(engine_text(f, to.elements(), to.scales(), on_cpu({5, 32, 64}, bf16), on_cpu({64}, bf16)), R"(
not 5 x 32 x 1: quantize along axes that are not the rows and columns of the product, as of a product with a vector, which cuDNN does not take; multiply by a matrix, or use the CPU
)");
}

// ---- attention ----

/// Of q, k and v: as blocks of this format, but v adjacent along its width.
template <class F>
std::string text_of_attention(const F& f, const Blocked& q, const Blocked& k, const Blocked& v) {
  return engine_text([&](const Array& qe, const Array& qs, const Array& ke, const Array& ks, const Array& ve,
                         const Array& vs) { return f(q.of(qe, qs), k.of(ke, ks), v.of(ve, vs)); },
                     q.elements(), q.scales(), k.elements(), k.scales(), on_cpu(v.shape, v.format.element),
                     v.scales());
}

/// Scales of v are tiled along its width, those of q and k along their rows.
TEST(EngineBlockscaled, attention) {
  auto f = [](const BlockscaledArray& q, const BlockscaledArray& k, const BlockscaledArray& v) {
    return stiletto::attention(q, k, v);
  };
  expect_text(text_of_attention(f, {{2, 8, 200, 64}, mxfp8, -1}, {{2, 2, 96, 64}, mxfp8, -1},
                                {{2, 2, 96, 160}, mxfp8, -2}),
              R"(
cudnn graph, a node attention_blockscaled
  t0 = tensor0: float8_e4m3(2, 8, 200, 64) strides (102400, 12800, 64, 1)
  t1 = tensor1: float8_e4m3(2, 2, 96, 64) strides (12288, 6144, 64, 1)
  t2 = tensor2: float8_e4m3(2, 2, 96, 160) strides (30720, 15360, 160, 1)
  t3 = scalar0: float32 by value
  t4 = tensor3: float8_e8m0(2, 8, 256, 4) strides (8192, 1024, 4, 1) in F8_128x4
  t5 = tensor4: float8_e8m0(2, 2, 128, 4) strides (1024, 512, 4, 1) in F8_128x4
  t6 = tensor5: float8_e8m0(2, 2, 4, 256) strides (2048, 1024, 1, 4) in F8_128x4
  t7 = attention_blockscaled(t0, t1, t2, t3, t4, t5, t6) in float32: store0: float32(2, 8, 200, 160) strides (256000, 160, 1280, 1)
)");
}

TEST(EngineBlockscaled, attention_with_stats_and_options) {
  auto f = [](const BlockscaledArray& q, const BlockscaledArray& k, const BlockscaledArray& v) {
    const auto r = stiletto::attention_with_stats(
        q, k, v, {.scale = 0.5F, .causal = stiletto::Causal::bottom_right, .window = 16});
    return std::vector<Array>{r.out, r.stats};
  };
  constexpr BlockFormat e5m2 = BlockFormat::mxfp8_e5m2;
  expect_text(text_of_attention(f, {{1, 4, 64, 32}, e5m2, -1}, {{1, 4, 64, 32}, e5m2, -1},
                                {{1, 4, 64, 32}, e5m2, -2}),
              R"(
cudnn graph, a node attention_blockscaled
  t0 = tensor0: float8_e5m2(1, 4, 64, 32) strides (8192, 2048, 32, 1)
  t1 = tensor1: float8_e5m2(1, 4, 64, 32) strides (8192, 2048, 32, 1)
  t2 = tensor2: float8_e5m2(1, 4, 64, 32) strides (8192, 2048, 32, 1)
  t3 = scalar0: float32 by value
  t4 = tensor3: float8_e8m0(1, 4, 128, 4) strides (2048, 512, 4, 1) in F8_128x4
  t5 = tensor4: float8_e8m0(1, 4, 128, 4) strides (2048, 512, 4, 1) in F8_128x4
  t6 = tensor5: float8_e8m0(1, 4, 4, 128) strides (2048, 512, 1, 4) in F8_128x4
  t7 = attention_blockscaled(t0, t1, t2, t3, t4, t5, t6, causal bottom_right, window=16) in float32: store0: float32(1, 4, 64, 32) strides (8192, 32, 128, 1)
  t8 = result 1 of it: store1: float32(1, 4, 64, 1) strides (256, 64, 1, 1)
)");
}

TEST(EngineBlockscaled, attention_computes_nothing_behind_itself) {
  auto f = [](const BlockscaledArray& q, const BlockscaledArray& k, const BlockscaledArray& v) {
    return stiletto::cast(stiletto::attention(q, k, v), bf16);
  };
  expect_text(text_of_attention(f, {{1, 4, 64, 32}, mxfp8, -1}, {{1, 4, 64, 32}, mxfp8, -1},
                                {{1, 4, 64, 32}, mxfp8, -2}),
              R"(
not a node attention_blockscaled: cast of what attention_blockscaled computes, which cuDNN only stores; compute it in a call of its own
)");
}

/// Axes of a batch merge; those of matrices, of elements and of scales, do not.
TEST(CanonicalBlockscaled, batches_merge) {
  auto f = [](const BlockscaledArray& a, const BlockscaledArray& b, const BlockscaledArray& to) {
    quantize_into(to, matmul(a, b));
  };
  const Blocked a{{2, 3, 4, 32}, mxfp8, -1}, b{{2, 3, 32, 64}, mxfp8, -2}, to{{2, 3, 4, 64}, nvfp4, -1};
  expect_text(
      unit::canonical([&](const Array& ae, const Array& as, const Array& be, const Array& bs, const Array& te,
                          const Array& ts) { f(a.of(ae, as), b.of(be, bs), to.of(te, ts)); },
                      a.elements(), a.scales(), b.elements(), b.scales(), to.elements(), to.scales()),
      R"(
graph
  axes i=6 j=4 k=64 l=128 m=4 n=32 o=128 p=4 q=128 r=4
  %0 = arg0: float8_e4m3[i,j,n] strides (128, 32, 1)
  %1 = arg1: float8_e8m0[i,o,p] strides (512, 4, 1)
  %2 = dequantize(%0[1,i,j,n], %1[1,i,o,p], 32 float8_e4m3 by float8_e8m0 along -1): float32[i,j,n]
  %3 = arg2: float8_e4m3[i,k,n] strides (2048, 32, 1)
  %4 = arg3: float8_e8m0[i,q,r] strides (512, 4, 1)
  %5 = dequantize(%3[1,i,n,k], %4[1,i,r,q], 32 float8_e4m3 by float8_e8m0 along -2): float32[i,k,n]
  %6 = matmul(%2, %5, over n): float32[i,j,k]
  %7 = quantize(%6[1,i,j,k], 16 float4_e2m1 by float8_e4m3 along -1): float4_e2m1[i,j,k]
  %8 = part(%7, result=1): float8_e4m3[i,l,m]
  %7 -> arg4: float4_e2m1[i,j,k] strides (256, 64, 1)
  %8 -> arg5: float8_e4m3[i,l,m] strides (512, 4, 1)
)");
}

TEST(CanonicalBlockscaled, a_batch_that_one_operand_repeats) {
  const Blocked a{{2, 3, 4, 32}, mxfp8, -1}, b{{3, 32, 5}, mxfp8, -2};
  expect_text(unit::canonical([&](const Array& ae, const Array& as, const Array& be,
                                  const Array& bs) { return matmul(a.of(ae, as), b.of(be, bs)); },
                              a.elements(), a.scales(), b.elements(), b.scales()),
              R"(
graph
  axes i=2 j=3 k=4 l=5 m=32 n=128 o=4 p=128 q=4
  %0 = arg0: float8_e4m3[i,j,k,m] strides (384, 128, 32, 1)
  %1 = arg1: float8_e8m0[i,j,n,o] strides (1536, 512, 4, 1)
  %2 = dequantize(%0[i,j,k,m], %1[i,j,n,o], 32 float8_e4m3 by float8_e8m0 along -1): float32[i,j,k,m]
  %3 = arg2: float8_e4m3[j,l,m] strides (160, 32, 1)
  %4 = arg3: float8_e8m0[j,p,q] strides (512, 4, 1)
  %5 = dequantize(%3[j,m,l], %4[j,q,p], 32 float8_e4m3 by float8_e8m0 along -2): float32[j,l,m]
  %6 = matmul(%2, %5, over m): float32[i,j,k,l]
  %6 -> out0: float32[i,j,k,l] strides (60, 20, 5, 1)
)");
}

}  // namespace
#endif
