// SPDX-License-Identifier: Apache-2.0
// Every error text of block-scaled arrays.
#include <gtest/gtest.h>

#include "stiletto/stiletto.hpp"
#include "unit/error_text.hpp"

namespace {

namespace st = stiletto;
using st::Array;
using st::BlockFormat;
using st::BlockscaledArray;
using st::DType;
using unit::expect_text;

BlockscaledArray some() { return st::quantize(st::ones({2, 64}), BlockFormat::mxfp8_e4m3, -1); }

TEST(ErrorTextsBlockscaled, formats_and_shapes) {
  const Array x = st::ones({2, 64});
  expect_text(
      [&] { st::quantize(x, {DType::float8_e4m3, DType::float8_e4m3, 16}, -1); },
      "DTypeError: quantize: there is no format of 16 float8_e4m3 that share a float8_e4m3; take mxfp8_e4m3, "
      "mxfp8_e5m2, mxfp4 or nvfp4");
  expect_text([&] { BlockscaledArray::empty({64}, BlockFormat::mxfp4, 0); },
              "ShapeError: BlockscaledArray::empty: shape (64) has no matrix to block; give it two axes with "
              "reshape or expand_dims");
  expect_text(
      [&] { BlockscaledArray::spec({32, 2, 2}, BlockFormat::mxfp4, 0); },
      "ShapeError: BlockscaledArray::spec: axis 0 of shape (32, 2, 2) is not one of the last two, along "
      "which blocks lie; take -1 or -2");
  expect_text(
      [&] { st::quantize(st::ones({2, 40}), BlockFormat::mxfp4, -1); },
      "ShapeError: quantize: axis -1 of shape (2, 40) has extent 40, which is no multiple of the block "
      "size 32; pad it with zeros");
  expect_text([&] { st::quantize(st::ones({2, 32}, DType::int32), BlockFormat::mxfp4, -1); },
              "DTypeError: quantize: x is int32; it has to be float16, bfloat16, float32 or float64: cast it "
              "first");
  expect_text([&] { st::quantize(3, BlockFormat::mxfp4, -1); },
              "ShapeError: quantize: x is a number; it has to be an array");
  expect_text(
      [&] { st::quantize_into(some(), st::ones({2, 32})); },
      "ShapeError: quantize_into: x has shape (2, 32), the destination (2, 64); a block-scaled array is "
      "written whole, because scales couple elements");
  expect_text([&] { st::dequantize(some(), DType::int8); },
              "DTypeError: dequantize: the result is to be int8; it has to be float16, bfloat16, float32 or "
              "float64: cast it afterwards");
  expect_text([&] { some().scale_at({2, 0}); },
              "ArgumentError: scale_at: there is no scale (2, 0) among (2, 2); give one index for each axis, "
              "blocks along axis 1");
  expect_text(
      [&] { BlockscaledArray().shape(); },
      "ArgumentError: shape: the array is an empty handle; make it with zeros, empty, from_data or wrap");
}

TEST(ErrorTextsBlockscaled, parts) {
  const auto from = [](const Array& elements, const Array& scales, const BlockFormat& format, int axis = -1) {
    BlockscaledArray::from_parts(elements, scales, {2, 64}, format, axis);
  };
  const BlockscaledArray q = some();
  const BlockFormat e4m3 = BlockFormat::mxfp8_e4m3;
  expect_text(
      [&] { from(st::ones({2, 64}), q.scales(), e4m3); },
      "DTypeError: BlockscaledArray::from_parts: elements are float32; mxfp8_e4m3 has float8_e4m3, or "
      "uint8");
  expect_text(
      [&] { from(st::empty({64, 2}, DType::float8_e4m3), q.scales(), e4m3); },
      "ShapeError: BlockscaledArray::from_parts: elements have shape (64, 2), not (2, 64); reshape them, "
      "or pass their bytes as uint8");
  expect_text(
      [&] { from(st::empty({2, 32}, DType::uint8), q.scales(), e4m3); },
      "ShapeError: BlockscaledArray::from_parts: elements of shape (2, 32) with strides (32, 1) are not "
      "128 bytes behind one another; pass a contiguous array of that many");
  expect_text([&] { from(q.elements(), st::ones({128, 4}), e4m3); },
              "DTypeError: BlockscaledArray::from_parts: scales are float32; mxfp8_e4m3 has float8_e8m0, or "
              "uint8");
  expect_text([&] { from(q.elements(), q.plain_scales(), e4m3); },
              "ShapeError: BlockscaledArray::from_parts: scales of shape (2, 2) are not the (128, 4) that "
              "mxfp8_e4m3 of shape (2, 64) has");
  const Array across = st::transpose(st::empty({64, 2}, DType::float4_e2m1));
  expect_text(
      [&] { from(across, st::empty({128, 4}, DType::uint8), BlockFormat::mxfp4); },
      "ShapeError: BlockscaledArray::from_parts: elements of shape (2, 64) with strides (1, 2) are not "
      "adjacent along axis 1, along which float4_e2m1 is blocked; block along the other axis");
  expect_text(
      [&] {
        BlockscaledArray::from_plain_parts(q.elements(), st::empty({4}, DType::uint8), {2, 64}, e4m3, -1);
      },
      "ShapeError: BlockscaledArray::from_plain_parts: scales have shape (4), not (2, 2): one for each "
      "block; "
      "reshape them");
  expect_text(
      [&] { BlockscaledArray::spec({2, 64}, e4m3, -1).plain_scales(); },
      "TraceError: plain_scales: an array that has no memory has no bytes to look at yet; do it outside "
      "the traced function");
  const auto traced = [](const BlockscaledArray& x) {
    x.scale_at({0, 0});
    return st::dequantize(x);
  };
  expect_text([&] { st::compile(traced, q); },
              "TraceError: operation 2, scale_at: an array that is traced has no bytes to look at yet; do it "
              "outside the traced function");
}

TEST(ErrorTextsBlockscaled, destinations_in_traces) {
  const BlockscaledArray q = some();
  const Array x = st::ones({2, 64});
  expect_text(
      [&] { st::compile([&](const Array& v) { st::quantize_into(q, v); }, x); },
      "TraceError: operation 2, quantize_into: the destination is captured; pass it as an argument of the "
      "traced function");
  const auto part = [](const BlockscaledArray& to, const Array& v) { st::assign(to.elements(), v); };
  expect_text(
      [&] { st::compile(part, q, x); },
      "TraceError: operation 3, assign: the destination is part of a block-scaled array, whose elements "
      "and scales have to fit each other; write all of it with quantize_into");
  const auto computed = [](const Array& v) { st::assign(st::quantize(v, BlockFormat::mxfp8_e4m3, -1), v); };
  expect_text(
      [&] { st::compile(computed, x); },
      "TraceError: operation 3, assign: the destination %1 is a computed value (quantize); store to an "
      "argument, a captured array or a view of one");
  const auto behind = [](const BlockscaledArray& to, const Array& v) {
    st::quantize_into(to, v);
    return st::dequantize(to);
  };
  expect_text(
      [&] { st::compile(behind, q, x); },
      "TraceError: operation 5, dequantize: reads arg0.0 after the trace stored to it; use the value that "
      "was stored, or compute this before the store");
}

TEST(ErrorTextsBlockscaled, destinations_that_are_operands) {
  const BlockscaledArray q = st::quantize(st::ones({32, 32}), BlockFormat::mxfp8_e4m3, -1);
  EXPECT_THROW(st::matmul_into(q, q, st::ones({32, 32})), st::AliasError);
}

}  // namespace
