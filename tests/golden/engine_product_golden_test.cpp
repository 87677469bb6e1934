// SPDX-License-Identifier: Apache-2.0
// Golden texts of cuDNN graphs: matrix products and what is around them.
#ifdef STILETTO_HAS_CUDNN
#include "golden/engine_golden.hpp"

namespace {

using golden::engine_text;
using golden::expect_text;
using stiletto::Array;
using stiletto::DType;
using unit::on_cpu;

constexpr DType f16 = DType::float16, bf16 = DType::bfloat16, f32 = DType::float32, i8 = DType::int8;
using stiletto::matmul;
using stiletto::transpose;

TEST(EngineProduct, plain) {
  auto f = [](const Array& x, const Array& w) { return stiletto::matmul(x, w); };
  expect_text(engine_text(f, on_cpu({64, 128}, f16), on_cpu({128, 96}, f16)), R"(
cudnn graph, 1 x 64 x 96
  t0 = tensor0: float16(1, 64, 128) strides (8192, 128, 1)
  t1 = tensor1: float16(1, 128, 96) strides (12288, 96, 1)
  t2 = matmul(t0, t1) in float32: store0: float16(1, 64, 96) strides (6144, 96, 1)
)");
}

TEST(EngineProduct, vector) {
  auto f = [](const Array& x, const Array& w) { return stiletto::matmul(x, w); };
  expect_text(engine_text(f, on_cpu({64, 128}), on_cpu({128})), R"(
cudnn graph, 1 x 64 x 1
  t0 = tensor0: float32(1, 64, 128) strides (8192, 128, 1)
  t1 = tensor1: float32(1, 128, 1) strides (128, 1, 1)
  t2 = matmul(t0, t1) in float32: store0: float32(1, 64, 1) strides (64, 1, 1)
)");
}

TEST(EngineProduct, bias_and_gelu) {
  auto f = [](const Array& x, const Array& w, const Array& b) { return stiletto::gelu(matmul(x, w) + b); };
  expect_text(engine_text(f, on_cpu({64, 128}, f16), on_cpu({128, 96}, f16), on_cpu({96}, f16)), R"(
cudnn graph, 1 x 64 x 96
  t0 = tensor0: float16(1, 64, 128) strides (8192, 128, 1)
  t1 = tensor1: float16(1, 128, 96) strides (12288, 96, 1)
  t3 = tensor2: float16(1, 1, 96) strides (96, 96, 1)
  t2 = matmul(t0, t1) in float32: float32(1, 64, 96)
  t4 = add(t2, t3) in float32: float32(1, 64, 96)
  t5 = relu(t4, from -50) in float32: float32(1, 64, 96)
  t6 = gelu(t5) in float32: store0: float16(1, 64, 96) strides (6144, 96, 1)
)");
}

TEST(EngineProduct, bias_and_tanh_of_float32) {
  auto f = [](const Array& x, const Array& w, const Array& b) { return stiletto::tanh(matmul(x, w) + b); };
  expect_text(engine_text(f, on_cpu({64, 128}), on_cpu({128, 96}), on_cpu({96})), R"(
cudnn graph, 1 x 64 x 96
  t0 = tensor0: float32(1, 64, 128) strides (8192, 128, 1)
  t1 = tensor1: float32(1, 128, 96) strides (12288, 96, 1)
  t3 = tensor2: float32(1, 1, 96) strides (96, 96, 1)
  t2 = matmul(t0, t1) in float32: float32(1, 64, 96)
  t4 = add(t2, t3) in float32: float32(1, 64, 96)
  t5 = tanh(t4) in float32: store0: float32(1, 64, 96) strides (6144, 96, 1)
)");
}

TEST(EngineProduct, batch) {
  auto f = [](const Array& x, const Array& w) { return stiletto::matmul(x, w); };
  expect_text(engine_text(f, on_cpu({8, 64, 128}, f16), on_cpu({8, 128, 96}, f16)), R"(
cudnn graph, 8 x 64 x 96
  t0 = tensor0: float16(8, 64, 128) strides (8192, 128, 1)
  t1 = tensor1: float16(8, 128, 96) strides (12288, 96, 1)
  t2 = matmul(t0, t1) in float32: store0: float16(8, 64, 96) strides (6144, 96, 1)
)");
}

TEST(EngineProduct, a_right_operand_for_all) {
  auto f = [](const Array& x, const Array& w) { return stiletto::matmul(x, w); };
  expect_text(engine_text(f, on_cpu({8, 64, 128}, f16), on_cpu({128, 96}, f16)), R"(
cudnn graph, 1 x 512 x 96
  t0 = tensor0: float16(1, 512, 128) strides (65536, 128, 1)
  t1 = tensor1: float16(1, 128, 96) strides (12288, 96, 1)
  t2 = matmul(t0, t1) in float32: store0: float16(1, 512, 96) strides (49152, 96, 1)
)");
}

TEST(EngineProduct, batches_that_merge) {
  auto f = [](const Array& x, const Array& w) { return stiletto::matmul(x, w); };
  expect_text(engine_text(f, on_cpu({2, 3, 64, 128}, f16), on_cpu({2, 3, 128, 96}, f16)), R"(
cudnn graph, 6 x 64 x 96
  t0 = tensor0: float16(6, 64, 128) strides (8192, 128, 1)
  t1 = tensor1: float16(6, 128, 96) strides (12288, 96, 1)
  t2 = matmul(t0, t1) in float32: store0: float16(6, 64, 96) strides (6144, 96, 1)
)");
}

TEST(EngineProduct, batches_that_do_not) {
  auto f = [](const Array& x, const Array& w) { return stiletto::matmul(x, w); };
  expect_text(engine_text(f, on_cpu({2, 1, 64, 128}, f16), on_cpu({1, 3, 128, 96}, f16)), R"(
cudnn graph, 2 x 3 x 64 x 96
  t0 = tensor0: float16(2, 1, 64, 128) strides (8192, 8192, 128, 1)
  t1 = tensor1: float16(1, 3, 128, 96) strides (36864, 12288, 96, 1)
  t2 = matmul(t0, t1) in float32: store0: float16(2, 3, 64, 96) strides (18432, 6144, 96, 1)
)");
}

TEST(EngineProduct, operands_transposed) {
  auto f = [](const Array& x, const Array& w) { return matmul(transpose(x), transpose(w)); };
  expect_text(engine_text(f, on_cpu({128, 64}, f16), on_cpu({96, 128}, f16)), R"(
cudnn graph, 1 x 64 x 96
  t0 = tensor0: float16(1, 64, 128) strides (8192, 1, 64)
  t1 = tensor1: float16(1, 128, 96) strides (12288, 1, 128)
  t2 = matmul(t0, t1) in float32: store0: float16(1, 64, 96) strides (6144, 96, 1)
)");
}

TEST(EngineProduct, result_transposed) {
  auto f = [](const Array& x, const Array& w) { return transpose(stiletto::relu(matmul(x, w))); };
  expect_text(engine_text(f, on_cpu({64, 128}, f16), on_cpu({128, 96}, f16)), R"(
cudnn graph, 1 x 64 x 96
  t0 = tensor0: float16(1, 64, 128) strides (8192, 128, 1)
  t1 = tensor1: float16(1, 128, 96) strides (12288, 96, 1)
  t2 = matmul(t0, t1) in float32: float32(1, 64, 96)
  t3 = relu(t2) in float32: store0: float16(1, 64, 96) strides (6144, 1, 64)
)");
}

TEST(EngineProduct, batch_innermost) {
  auto f = [](const Array& x, const Array& w) { return transpose(matmul(x, w), {1, 2, 0}); };
  expect_text(engine_text(f, on_cpu({4, 64, 128}), on_cpu({4, 128, 96})), R"(
not 4 x 64 x 96: out0 has gaps between its elements along every axis that cuDNN could walk innermost; pass a copy of it made outside the function, in the order of the result
)");
}

TEST(EngineProduct, alpha_and_beta_in_place) {
  auto f = [](const Array& c, const Array& x, const Array& w) { stiletto::matmul_into(c, x, w, 0.5, 2); };
  expect_text(engine_text(f, on_cpu({64, 96}, f16), on_cpu({64, 128}, f16), on_cpu({128, 96}, f16)), R"(
cudnn graph, 1 x 64 x 96
  t0 = tensor0: float16(1, 64, 128) strides (8192, 128, 1)
  t1 = tensor1: float16(1, 128, 96) strides (12288, 96, 1)
  t3 = 0.5: float32 constant
  t5 = tensor2: float16(1, 64, 96) strides (6144, 96, 1)
  t6 = 2: float32 constant
  t2 = matmul(t0, t1) in float32: float32(1, 64, 96)
  t4 = multiply(t2, t3) in float32: float32(1, 64, 96)
  t7 = multiply(t5, t6) in float32: float32(1, 64, 96)
  t8 = add(t4, t7) in float32: store0: float16(1, 64, 96) strides (6144, 96, 1)
)");
}

TEST(EngineProduct, swiglu) {
  auto f = [](const Array& x, const Array& u, const Array& v) {
    return stiletto::silu(matmul(x, u)) * matmul(x, v);
  };
  expect_text(engine_text(f, on_cpu({64, 128}, bf16), on_cpu({128, 96}, bf16), on_cpu({128, 96}, bf16)), R"(
cudnn graph, 1 x 64 x 96
  t0 = tensor0: bfloat16(1, 64, 128) strides (8192, 128, 1)
  t1 = tensor1: bfloat16(1, 128, 96) strides (12288, 96, 1)
  t5 = tensor2: bfloat16(1, 128, 96) strides (12288, 96, 1)
  t2 = matmul(t0, t1) in float32: float32(1, 64, 96)
  t3 = relu(t2, from -200) in float32: float32(1, 64, 96)
  t4 = silu(t3) in float32: float32(1, 64, 96)
  t6 = matmul(t0, t5) in float32: float32(1, 64, 96)
  t7 = multiply(t4, t6) in float32: store0: bfloat16(1, 64, 96) strides (6144, 96, 1)
)");
}

TEST(EngineProduct, prologue) {
  auto f = [](const Array& x, const Array& s, const Array& w) { return matmul(stiletto::relu(x * s), w); };
  expect_text(engine_text(f, on_cpu({64, 128}, f16), on_cpu({128}, f16), on_cpu({128, 96}, f16)), R"(
cudnn graph, 1 x 64 x 96
  t0 = tensor0: float16(1, 64, 128) strides (8192, 128, 1)
  t1 = tensor1: float16(1, 1, 128) strides (128, 128, 1)
  t5 = tensor2: float16(1, 128, 96) strides (12288, 96, 1)
  t2 = multiply(t0, t1) in float32: float32(1, 64, 128)
  t3 = relu(t2) in float32: float32(1, 64, 128)
  t4 = identity(t3) in float32: float16(1, 64, 128)
  t6 = matmul(t4, t5) in float32: store0: float16(1, 64, 96) strides (6144, 96, 1)
)");
}

TEST(EngineProduct, an_operand_in_two_places) {
  auto f = [](const Array& x, const Array& w) { return x + matmul(x, w); };
  expect_text(engine_text(f, on_cpu({64, 64}, f16), on_cpu({64, 64}, f16)), R"(
cudnn graph, 1 x 64 x 64
  t0 = tensor2: float16(1, 64, 64) strides (4096, 64, 1)
  t1 = tensor0: float16(1, 64, 64) strides (4096, 64, 1)
  t2 = tensor1: float16(1, 64, 64) strides (4096, 64, 1)
  t3 = matmul(t1, t2) in float32: float32(1, 64, 64)
  t4 = add(t0, t3) in float32: store0: float16(1, 64, 64) strides (4096, 64, 1)
)");
}

TEST(EngineProduct, two_types) {
  auto f = [](const Array& x, const Array& w) { return stiletto::matmul(x, w); };
  expect_text(engine_text(f, on_cpu({64, 128}, f16), on_cpu({128, 96}, bf16)), R"(
cudnn graph, 1 x 64 x 96
  t0 = tensor0: float16(1, 64, 128) strides (8192, 128, 1)
  t1 = tensor1: bfloat16(1, 128, 96) strides (12288, 96, 1)
  t2 = identity(t0) in float32: float32(1, 64, 128)
  t3 = identity(t1) in float32: float32(1, 128, 96)
  t4 = matmul(t2, t3) in float32: store0: float32(1, 64, 96) strides (6144, 96, 1)
)");
}

TEST(EngineProduct, int8) {
  auto f = [](const Array& x, const Array& w) { return stiletto::matmul(x, w); };
  expect_text(engine_text(f, on_cpu({64, 128}, i8), on_cpu({128, 96}, i8)), R"(
cudnn graph, 1 x 64 x 96
  t0 = tensor0: int8(1, 64, 128) strides (8192, 128, 1)
  t1 = tensor1: int8(1, 128, 96) strides (12288, 96, 1)
  t2 = matmul(t0, t1) in int32: store0: int32(1, 64, 96) strides (6144, 96, 1)
)");
}

TEST(EngineProduct, float8_scaled) {
  auto f = [](const Array& x, const Array& w, const Array& s) {
    return stiletto::cast(matmul(x, w) * s, bf16);
  };
  expect_text(engine_text(f, on_cpu({64, 128}, DType::float8_e4m3),
                          on_cpu({128, 96}, DType::float8_e4m3, {1, 128}), on_cpu({1})),
              R"(
cudnn graph, 1 x 64 x 96
  t0 = tensor0: float8_e4m3(1, 64, 128) strides (8192, 128, 1)
  t1 = tensor1: float8_e4m3(1, 128, 96) strides (12288, 1, 128)
  t3 = tensor2: float32(1, 1, 1) strides (1, 1, 1)
  t2 = matmul(t0, t1) in float32: float32(1, 64, 96)
  t4 = multiply(t2, t3) in float32: float32(1, 64, 96)
  t5 = identity(t4) in float32: store0: bfloat16(1, 64, 96) strides (6144, 96, 1)
)");
}

TEST(EngineProduct, int8_with_alpha) {
  auto f = [](const Array& c, const Array& x, const Array& w) { stiletto::matmul_into(c, x, w, 2); };
  expect_text(engine_text(f, on_cpu({64, 96}, DType::int32), on_cpu({64, 128}, i8), on_cpu({128, 96}, i8)),
              R"(
not 1 x 64 x 96: alpha and beta of int32 products are not exact in cuDNN's float32
)");
}

TEST(EngineProduct, a_mask_behind) {
  auto f = [](const Array& x, const Array& w, const Array& m) {
    return stiletto::where(m, matmul(x, w), 0.0f);
  };
  expect_text(
      engine_text(f, on_cpu({64, 128}, f16), on_cpu({128, 96}, f16), on_cpu({64, 96}, DType::boolean)), R"(
cudnn graph, 1 x 64 x 96
  t0 = tensor0: boolean(1, 64, 96) strides (6144, 96, 1)
  t1 = tensor1: float16(1, 64, 128) strides (8192, 128, 1)
  t2 = tensor2: float16(1, 128, 96) strides (12288, 96, 1)
  t4 = scalar0: float32 by value
  t3 = matmul(t1, t2) in float32: float32(1, 64, 96)
  t5 = where(t3, t4, t0) in float32: store0: float32(1, 64, 96) strides (6144, 96, 1)
)");
}

TEST(EngineProduct, two_outputs) {
  auto f = [](const Array& x, const Array& w) {
    const Array y = matmul(x, w);
    return std::vector<Array>{y, stiletto::cast(y, f32) * 2.0f};
  };
  expect_text(engine_text(f, on_cpu({64, 128}, f16), on_cpu({128, 96}, f16)), R"(
cudnn graph, 1 x 64 x 96
  t0 = tensor0: float16(1, 64, 128) strides (8192, 128, 1)
  t1 = tensor1: float16(1, 128, 96) strides (12288, 96, 1)
  t3 = scalar0: float32 by value
  t2 = matmul(t0, t1) in float32: float32(1, 64, 96)
  t4 = multiply(t2, t3) in float32: store1: float32(1, 64, 96) strides (6144, 96, 1)
  t5 = identity(t2) in float32: store0: float16(1, 64, 96) strides (6144, 96, 1)
)");
}

TEST(EngineProduct, feeding_a_product) {
  auto f = [](const Array& x, const Array& u, const Array& v) { return matmul(matmul(x, u), v); };
  expect_text(engine_text(f, on_cpu({64, 128}, f16), on_cpu({128, 96}, f16), on_cpu({96, 32}, f16)), R"(
not 32 x 64 x 96: a product of a product; store the first and multiply it in a call of its own
)");
}

TEST(EngineProduct, a_number_as_an_operand) {
  auto f = [](const Array& x, const Array& number) {
    return matmul(x, stiletto::broadcast_to(number, {128, 96}));
  };
  expect_text(engine_text(f, on_cpu({64, 128}), Array(2.0f)), R"(
not 96 x 64 x 1: an operand of a product that repeats along the summed axis, which cuDNN reads once
)");
}

TEST(EngineProduct, float32_read_twice_before_it) {
  auto f = [](const Array& x, const Array& w) {
    const Array y = stiletto::exp(x);
    return matmul(y + stiletto::relu(y), w);
  };
  expect_text(engine_text(f, on_cpu({64, 128}), on_cpu({128, 96})), R"(
not 1 x 64 x 96: a float32 value that is read twice before a product, which cuDNN overwrites between
)");
}

}  // namespace
#endif
