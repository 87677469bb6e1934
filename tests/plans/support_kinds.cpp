// SPDX-License-Identifier: Apache-2.0
// Kinds of graphs of several operations, whose rows docs/support.md begins with.
#include <utility>

#include "plans/support_page.hpp"

namespace plans {
namespace {

using stiletto::matmul;
using stiletto::mean;
using stiletto::sum;

constexpr DType bf16 = DType::bfloat16, f32 = DType::float32, f64 = DType::float64, i8 = DType::int8,
                i32 = DType::int32, e4m3 = DType::float8_e4m3;

Array product(const Arrays& a) { return matmul(a[0], a[1]); }
Array difference(const Arrays& a) { return a[0] - a[1]; }
Array total(const Arrays& a) { return sum(a[0], -1); }

std::vector<Row> product_kinds() {
  const Operand x{{64, 128}, bf16}, w{{128, 96}, bf16};
  auto bias_gelu = [](const Arrays& a) { return stiletto::gelu(matmul(a[0], a[1]) + a[2]); };
  auto update = [](const Arrays& a) { stiletto::matmul_into(a[2], a[0], a[1], 0.5, 2); };
  auto swiglu = [](const Arrays& a) { return stiletto::silu(matmul(a[0], a[1])) * matmul(a[0], a[2]); };
  auto prologue = [](const Arrays& a) { return matmul(stiletto::relu(a[0]), a[1]); };
  auto column_sums = [](const Arrays& a) { return sum(matmul(a[0], a[1]), 0); };
  auto normalised = [](const Arrays& a) { return stiletto::softmax(matmul(a[0], a[1])); };
  auto chain = [](const Arrays& a) { return matmul(matmul(a[0], a[1]), a[2]); };
  return {{"product, bias and activation", bias_gelu, {x, w, {{96}, bf16}}},
          {"`alpha·a·b + beta·c` in place", update, {x, w, {{64, 96}, bf16}}},
          {"two products that share an operand (SwiGLU)", swiglu, {x, w, w}},
          {"an operation in front of a product", prologue, {x, w}},
          {"batched product", product, {{{8, 64, 128}, bf16}, {{8, 128, 96}, bf16}}},
          {"product whose operands both have batch axes that do not merge",
           product,
           {{{2, 1, 64, 128}, bf16}, {{1, 3, 128, 96}, bf16}}},
          {"product of `int8`", product, {{{64, 128}, i8}, {{128, 96}, i8, {1, 128}}}},
          {"product of `float8_e4m3`", product, {{{64, 128}, e4m3}, {{128, 96}, e4m3, {1, 128}}}},
          {"product of `float64`", product, {{{64, 128}, f64}, {{128, 96}, f64}}},
          {"product and column or row sums of it", column_sums, {x, w}},
          {"product and softmax of it", normalised, {x, w}},
          {"product of a product", chain, {x, w, {{96, 32}, bf16}}}};
}

std::vector<Row> other_kinds() {
  const Operand rows{{256, 512}, bf16}, rank4{{3, 5, 7, 9}, bf16};
  auto chain = [](const Arrays& a) { return stiletto::tanh(a[0]) * a[1] + 0.5f; };
  auto affine = [](const Arrays& a) { return (a[0] - a[1]) * a[2]; };
  auto three = [](const Arrays& a) { return a[0] + a[1] * a[2]; };
  auto transposed = [](const Arrays& a) { return a[0] + stiletto::transpose(a[1]); };
  auto reversed = [](const Arrays& a) {
    return a[0] + stiletto::slice(a[0], {stiletto::Slice{}, stiletto::Slice{{}, {}, -1}});
  };
  auto rms_norm = [](const Arrays& a) {
    return a[0] * stiletto::rsqrt(mean(stiletto::square(a[0]), -1, true) + 1e-5f);
  };
  return {{"pointwise, contiguous, any rank", chain, {rank4, rank4}},
          {"pointwise with a row and a column", affine, {rows, {{256, 1}, bf16}, {{512}, bf16}}},
          {"pointwise over four axes that do not merge",
           three,
           {rank4, {{3, 1, 7, 9}, bf16}, {{3, 5, 1, 9}, bf16}}},
          {"pointwise with one operand of 16 bits transposed", transposed, {rows, {{512, 256}, bf16}}},
          {"pointwise with one operand reversed", reversed, {rows}},
          {"pointwise arithmetic of `float64`", difference, {{{256, 512}, f64}, {{256, 512}, f64}}},
          {"arithmetic of integers", difference, {{{256, 512}, i32}, {{256, 512}, i32}}},
          {"`sum`, `mean` of `float16`, `bfloat16`", total, {rows}},
          {"`sum`, `mean` of `float32`", total, {{{256, 512}, f32}}},
          {"`max`, `min`, `abs_max`", [](const Arrays& a) { return stiletto::max(a[0], -1); }, {rows}},
          {"`softmax`", [](const Arrays& a) { return stiletto::softmax(a[0]); }, {rows}},
          {"normalisation by a mean of squares", rms_norm, {rows}}};
}

/// Of `float16`; the channels lie innermost where nothing else is said.
std::vector<Row> image_kinds() {
  const DType f16 = DType::float16;
  const Operand x{{2, 32, 14, 16}, f16, {7168, 1, 512, 32}}, w{{64, 32, 3, 3}, f16, {288, 1, 96, 32}},
      first{{2, 32, 14, 16}, f16}, channel{{32}, f16}, bias{{64, 1, 1}, f16};
  auto batch_norm = [](const Arrays& a) { return stiletto::batch_norm(a[0], a[1], a[2], a[3], a[4]); };
  auto conv_relu = [](const Arrays& a) {
    return stiletto::relu(stiletto::conv(a[0], a[1], {.pre_padding = 1}) + a[2]);
  };
  auto residual = [](const Arrays& a) {
    return stiletto::relu(stiletto::conv(a[0], a[1], {.pre_padding = 1}) + a[2] + a[3]);
  };
  const Operand y{{2, 64, 14, 16}, f16, {14336, 1, 1024, 64}};
  return {
      {"batch norm for inference, channels-last", batch_norm, {x, channel, channel, channel, channel}},
      {"batch norm for inference, channels-first", batch_norm, {first, channel, channel, channel, channel}},
      {"convolution, bias and `relu`", conv_relu, {x, w, bias}},
      {"convolution, bias, residual and `relu`", residual, {x, w, bias, y}},
      {"the same, channels-first", residual, {first, {{64, 32, 3, 3}, f16}, bias, {{2, 64, 14, 16}, f16}}}};
}

}  // namespace

std::vector<Row> support_kinds() {
  std::vector<Row> result;
  for (std::vector<Row>& part : std::vector{product_kinds(), other_kinds(), image_kinds()})
    std::move(part.begin(), part.end(), std::back_inserter(result));
  return result;
}

}  // namespace plans
