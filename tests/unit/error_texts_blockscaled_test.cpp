// SPDX-License-Identifier: Apache-2.0
// The texts of what block-scaled arrays and their operations throw, word by word.
#include "unit/error_text.hpp"

namespace {

using namespace stiletto;
using unit::expect_text;
using Blocked = BlockscaledArray;
using Format = BlockFormat;

class BlockscaledErrorTexts : public testing::Test {
 protected:
  const Array x = zeros({32, 64}), bytes = zeros({2048}, DType::uint8),
              scale_bytes = zeros({512}, DType::uint8);
  const Blocked q = Blocked::empty({32, 64}, Format::mxfp8_e4m3, -1),
                narrow = Blocked::empty({32, 64}, Format::nvfp4, -1);
};

TEST_F(BlockscaledErrorTexts, formats_shapes_and_axes) {
  expect_text([&] { Blocked::empty({32, 64}, {DType::float8_e4m3, DType::float8_e4m3, 16}, -1); },
              "DTypeError: BlockscaledArray::empty: there is no format of 16 float8_e4m3 that share a "
              "float8_e4m3; take mxfp8_e4m3, mxfp8_e5m2, mxfp4 or nvfp4");
  expect_text([&] { quantize(zeros({64}), Format::nvfp4, -1); },
              "ShapeError: quantize: shape (64) has no matrix to block; give it two axes with reshape or "
              "expand_dims");
  expect_text([&] { quantize(zeros({32, 64, 3}), Format::mxfp4, 0); },
              "ShapeError: quantize: axis 0 of shape (32, 64, 3) is not one of the last two, along which "
              "blocks lie; take -1 or -2");
  expect_text([&] { Blocked::spec({32, 64}, Format::mxfp4, 2); },
              "ShapeError: BlockscaledArray::spec: axis 2 of shape (32, 64) is not one of the last two, "
              "along which blocks lie; take -1 or -2");
  expect_text([&] { quantize(zeros({32, 48}), Format::mxfp8_e5m2, -1); },
              "ShapeError: quantize: axis -1 of shape (32, 48) has extent 48, which is no multiple of the "
              "block size 32; pad it with zeros");
  expect_text([&] { Blocked::empty({std::int64_t{1} << 40, std::int64_t{1} << 40}, Format::mxfp8_e5m2, -1); },
              "ShapeError: BlockscaledArray::empty: shape (1099511627776, 34359738368) has more elements "
              "than 64 bits can address in bytes; use smaller extents");
  expect_text([&] { Blocked::spec({std::int64_t{1} << 59, 32}, Format::mxfp8_e5m2, -1); },
              "ShapeError: BlockscaledArray::spec: shape (576460752303423488, 4) has more elements than 64 "
              "bits can address in bytes; use smaller extents");
}

TEST_F(BlockscaledErrorTexts, what_is_quantized) {
  expect_text(
      [&] { quantize(zeros({32, 64}, DType::int32), Format::mxfp4, -1); },
      "DTypeError: quantize: x is int32; it has to be float16, bfloat16, float32 or float64: cast it first");
  expect_text([&] { quantize(zeros({32, 64}, DType::float8_e4m3), Format::mxfp4, -1); },
              "DTypeError: quantize: x is float8_e4m3; it has to be float16, bfloat16, float32 or float64: "
              "cast it first");
  expect_text([&] { quantize(1.f, Format::mxfp4, -1); },
              "ShapeError: quantize: x is a number; it has to be an array");
  expect_text(
      [&] { quantize(Array(), Format::mxfp4, -1); },
      "ArgumentError: quantize: the array is an empty handle; make it with zeros, empty, from_data or wrap");
  expect_text([&] { quantize(spec({32, 64}, DType::float32), Format::mxfp4, -1); },
              "TraceError: quantize: an operand is a spec (float32(32, 64)) without memory; compile with it, "
              "or make the array with zeros, empty, from_data or wrap");
  expect_text([&] { quantize_into(q, zeros({64, 64})); },
              "ShapeError: quantize_into: x has shape (64, 64), the destination (32, 64); a block-scaled "
              "array is written whole, because scales couple elements");
  expect_text([&] { assign(q, 1.f); }, "ShapeError: assign: x is a number; it has to be an array");
  expect_text([&] { quantize_into(Blocked::spec({32, 64}, Format::mxfp4, -1), x); },
              "TraceError: quantize_into: the destination is a spec (float4_e2m1(32, 64)) without memory; "
              "compile with it, or make the array with zeros, empty, from_data or wrap");
  expect_text(
      [&] { assign(q, zeros({32, 64}, DType::int8)); },
      "DTypeError: assign: x is int8; it has to be float16, bfloat16, float32 or float64: cast it first");
  expect_text([&] { matmul_into(q, zeros({32, 64}), zeros({64, 32})); },
              "ShapeError: operation 5, quantize_into: x has shape (32, 32), the destination (32, 64); a "
              "block-scaled array is written whole, because scales couple elements");
  expect_text(
      [&] {
        Blocked d = Blocked::from_parts(broadcast_to(zeros({1, 64}, DType::float8_e4m3), {32, 64}),
                                        scale_bytes, {32, 64}, Format::mxfp8_e4m3, -1);
        quantize_into(d, x);
      },
      "AliasError: quantize_into: the destination of shape (32, 64) with strides (0, 1) reaches an element "
      "more than once; store to an array without overlap");
  expect_text(
      [&] {
        Array buf = zeros({32, 64});
        Blocked d = Blocked::from_parts(wrap(buf.raw_data(), {2048}, DType::uint8, Device::cpu()),
                                        scale_bytes, {32, 64}, Format::mxfp8_e4m3, -1);
        quantize_into(d, buf);
      },
      "AliasError: quantize_into: the destination of shape (32, 64) with strides (64, 1) overlaps an operand "
      "or another destination; nothing was written: store to other memory, or copy() what is read");
  expect_text(
      [&] {
        Array buf = zeros({4096}, DType::uint8);
        Blocked d = Blocked::from_parts(slice(buf, {Slice{0, 2048}}), slice(buf, {Slice{1800, 2312}}),
                                        {32, 64}, Format::mxfp8_e4m3, -1);
        quantize_into(d, x);
      },
      "AliasError: quantize_into: the destination of shape (32, 64) with strides (64, 1) overlaps an operand "
      "or another destination; nothing was written: store to other memory, or copy() what is read");
}

TEST_F(BlockscaledErrorTexts, what_is_dequantized_and_multiplied) {
  expect_text([&] { dequantize(q, DType::int8); },
              "DTypeError: dequantize: the result is to be int8; it has to be float16, bfloat16, float32 or "
              "float64: cast it afterwards");
  expect_text([&] { dequantize(q, DType::float8_e4m3); },
              "DTypeError: dequantize: the result is to be float8_e4m3; it has to be float16, bfloat16, "
              "float32 or float64: cast it afterwards");
  expect_text([&] { dequantize(Blocked::spec({32, 64}, Format::mxfp4, -1)); },
              "TraceError: dequantize: an operand is a spec (float4_e2m1(32, 64)) without memory; compile "
              "with it, or make the array with zeros, empty, from_data or wrap");
  expect_text([&] { matmul(q, narrow); },
              "ShapeError: operation 6, matmul: (32, 64) · (32, 64): the last axis of the first (64) and "
              "axis 0 of the second (32) have to be equal; transpose one?");
  expect_text(
      [&] { matmul(q, zeros({64, 4}, DType::boolean)); },
      "DTypeError: operation 4, matmul: does not take boolean; cast the operand, for instance to float32");
  expect_text([&] { matmul(q, 2.f); },
              "ShapeError: operation 4, matmul: (32, 64) · (): a rank-0 operand; use * to scale");
}

TEST_F(BlockscaledErrorTexts, empty_handles) {
  expect_text(
      [&] { Blocked().shape(); },
      "ArgumentError: shape: the array is an empty handle; make it with zeros, empty, from_data or wrap");
  expect_text(
      [&] { Blocked().format(); },
      "ArgumentError: format: the array is an empty handle; make it with zeros, empty, from_data or wrap");
  expect_text(
      [&] { Blocked().axis(); },
      "ArgumentError: axis: the array is an empty handle; make it with zeros, empty, from_data or wrap");
  expect_text(
      [&] { Blocked().rank(); },
      "ArgumentError: rank: the array is an empty handle; make it with zeros, empty, from_data or wrap");
  expect_text(
      [&] { Blocked().device(); },
      "ArgumentError: device: the array is an empty handle; make it with zeros, empty, from_data or wrap");
  expect_text(
      [&] { Blocked().is_traced(); },
      "ArgumentError: is_traced: the array is an empty handle; make it with zeros, empty, from_data or wrap");
  expect_text(
      [&] { Blocked().nbytes(); },
      "ArgumentError: nbytes: the array is an empty handle; make it with zeros, empty, from_data or wrap");
  expect_text(
      [&] { Blocked().to(Device::cpu()); },
      "ArgumentError: to: the array is an empty handle; make it with zeros, empty, from_data or wrap");
  expect_text(
      [&] { Blocked().elements(); },
      "ArgumentError: elements: the array is an empty handle; make it with zeros, empty, from_data or wrap");
  expect_text(
      [&] { Blocked().scales(); },
      "ArgumentError: scales: the array is an empty handle; make it with zeros, empty, from_data or wrap");
  expect_text([&] { Blocked().plain_scales(); },
              "ArgumentError: plain_scales: the array is an empty handle; make it with zeros, empty, "
              "from_data or wrap");
  expect_text(
      [&] { Blocked().scale_at({0, 0}); },
      "ArgumentError: scale_at: the array is an empty handle; make it with zeros, empty, from_data or wrap");
  expect_text([&] { dequantize(Blocked()); },
              "ArgumentError: dequantize: the array is an empty handle; make it with zeros, empty, from_data "
              "or wrap");
  expect_text([&] { quantize_into(Blocked(), x); },
              "ArgumentError: quantize_into: the array is an empty handle; make it with zeros, empty, "
              "from_data or wrap");
  expect_text([&] { matmul(Blocked(), x); },
              "ArgumentError: argument 0 (arg0.0) is an empty handle; make the array with zeros, empty, "
              "from_data or wrap");
}

TEST_F(BlockscaledErrorTexts, parts) {
  expect_text(
      [&] { Blocked::from_parts(x, scale_bytes, {32, 64}, Format::mxfp8_e4m3, -1); },
      "DTypeError: BlockscaledArray::from_parts: elements are float32; mxfp8_e4m3 has float8_e4m3, or uint8");
  expect_text(
      [&] {
        Blocked::from_parts(zeros({64, 32}, DType::float8_e4m3), scale_bytes, {32, 64}, Format::mxfp8_e4m3,
                            -1);
      },
      "ShapeError: BlockscaledArray::from_parts: elements have shape (64, 32), not (32, 64); reshape them, "
      "or pass their bytes as uint8");
  expect_text(
      [&] {
        Blocked::from_parts(zeros({2047}, DType::uint8), scale_bytes, {32, 64}, Format::mxfp8_e4m3, -1);
      },
      "ShapeError: BlockscaledArray::from_parts: elements of shape (2047) with strides (1) are not 2048 "
      "bytes behind one another; pass a contiguous array of that many");
  expect_text(
      [&] {
        Blocked::from_parts(transpose(zeros({64, 32}, DType::uint8)), scale_bytes, {32, 64},
                            Format::mxfp8_e4m3, -1);
      },
      "ShapeError: BlockscaledArray::from_parts: elements of shape (32, 64) with strides (1, 32) are not "
      "2048 bytes behind one another; pass a contiguous array of that many");
  expect_text(
      [&] {
        Blocked::from_parts(narrow.elements(), zeros({2048}, DType::uint8), {32, 64}, Format::nvfp4, -2);
      },
      "ShapeError: BlockscaledArray::from_parts: elements of shape (32, 64) with strides (64, 1) are not "
      "adjacent along axis 0, along which float4_e2m1 is blocked; block along the other axis");
  expect_text(
      [&] { Blocked::from_parts(bytes, zeros({512}, DType::float8_e4m3), {32, 64}, Format::mxfp8_e4m3, -1); },
      "DTypeError: BlockscaledArray::from_parts: scales are float8_e4m3; mxfp8_e4m3 has float8_e8m0, or "
      "uint8");
  expect_text(
      [&] { Blocked::from_parts(bytes, zeros({64}, DType::uint8), {32, 64}, Format::mxfp8_e4m3, -1); },
      "ShapeError: BlockscaledArray::from_parts: scales of shape (64) are not the (128, 4) that mxfp8_e4m3 "
      "of shape (32, 64) has");
  expect_text(
      [&] {
        Blocked::from_parts(bytes, slice(zeros({1024}, DType::uint8), {Slice{0, 1024, 2}}), {32, 64},
                            Format::mxfp8_e4m3, -1);
      },
      "ShapeError: BlockscaledArray::from_parts: scales of shape (512) with strides (2) are not 512 bytes "
      "behind one another; pass a contiguous array of that many");
  expect_text(
      [&] { Blocked::from_parts(bytes, spec({512}, DType::uint8), {32, 64}, Format::mxfp8_e4m3, -1); },
      "DeviceError: BlockscaledArray::from_parts: elements are on cpu, scales on cuda:0; move one with "
      "to(device)");
  expect_text(
      [&] { Blocked::from_plain_parts(bytes, zeros({64}, DType::uint8), {32, 64}, Format::mxfp8_e4m3, -1); },
      "ShapeError: BlockscaledArray::from_plain_parts: scales have shape (64), not (32, 2): one for each "
      "block; reshape them");
  expect_text(
      [&] { Blocked::from_plain_parts(bytes, zeros({63}, DType::uint8), {32, 64}, Format::mxfp8_e4m3, -1); },
      "ShapeError: BlockscaledArray::from_plain_parts: scales of shape (63) are not the (32, 2) that "
      "mxfp8_e4m3 of shape (32, 64) has");
  expect_text(
      [&] {
        Blocked::from_plain_parts(bytes, spec({32, 2}, DType::uint8, {}, Device::cpu()), {32, 64},
                                  Format::mxfp8_e4m3, -1);
      },
      "TraceError: BlockscaledArray::from_plain_parts: an array that has no memory has no bytes to look at "
      "yet; do it outside the traced function");
}

TEST_F(BlockscaledErrorTexts, scales) {
  expect_text([&] { q.scale_at({32, 0}); },
              "ArgumentError: scale_at: there is no scale (32, 0) among (32, 2); give one index for each "
              "axis, blocks along axis 1");
  expect_text([&] { q.scale_at({0}); },
              "ArgumentError: scale_at: there is no scale (0) among (32, 2); give one index for each axis, "
              "blocks along axis 1");
  expect_text([&] { q.scale_at({0, -1}); },
              "ArgumentError: scale_at: there is no scale (0, -1) among (32, 2); give one index for each "
              "axis, blocks along axis 1");
  expect_text([&] { Blocked::spec({32, 64}, Format::mxfp4, -1).scale_at({0, 0}); },
              "TraceError: scale_at: an array that has no memory has no bytes to look at yet; do it outside "
              "the traced function");
  expect_text([&] { Blocked::spec({32, 64}, Format::mxfp4, -1).plain_scales(); },
              "TraceError: plain_scales: an array that has no memory has no bytes to look at yet; do it "
              "outside the traced function");
}

TEST_F(BlockscaledErrorTexts, inside_a_trace) {
  expect_text([&] { compile([](const Blocked& a) { return a.plain_scales(); }, q); },
              "TraceError: operation 2, plain_scales: an array that is traced has no bytes to look at yet; "
              "do it outside the traced function");
  expect_text(
      [&] {
        compile(
            [](const Blocked& a) {
              a.scale_at({0, 0});
              return dequantize(a);
            },
            q);
      },
      "TraceError: operation 2, scale_at: an array that is traced has no bytes to look at yet; do it outside "
      "the traced function");
  expect_text(
      [&] { compile([](const Blocked&) { return Blocked::empty({32, 64}, Format::mxfp4, -1); }, q); },
      "TraceError: operation 2, empty: memory cannot be made inside a trace; make it outside and pass or "
      "capture it (zeros, ones and full are constants here)");
  expect_text(
      [&] {
        compile(
            [](const Array& a, const Array& s) {
              return dequantize(Blocked::from_parts(a, s, {32, 64}, Format::mxfp8_e4m3, -1));
            },
            bytes, scale_bytes);
      },
      "TraceError: operation 2, BlockscaledArray::from_parts: an array that is traced has no bytes to look "
      "at yet; do it outside the traced function");
  expect_text(
      [&] {
        compile(
            [](const Array& a, const Array& s) {
              return dequantize(Blocked::from_parts(a, s, {32, 64}, Format::mxfp8_e4m3, -1));
            },
            q.elements(), scale_bytes);
      },
      "TraceError: operation 2, BlockscaledArray::from_parts: an array that is traced has no bytes to look "
      "at yet; do it outside the traced function");
  expect_text(
      [&] {
        compile(
            [&](const Array& a) {
              return dequantize(Blocked::from_plain_parts(bytes, a, {32, 64}, Format::mxfp8_e4m3, -1));
            },
            zeros({32, 2}, DType::uint8));
      },
      "TraceError: operation 1, BlockscaledArray::from_plain_parts: an array that is traced has no bytes to "
      "look at yet; do it outside the traced function");
  expect_text([&] { compile([&](const Array& a) { quantize_into(q, a); }, x); },
              "TraceError: operation 2, quantize_into: the destination is captured; pass it as an argument "
              "of the traced function");
  expect_text([&] { compile([&](const Array& a) { quantize_into(quantize(a, Format::mxfp4, -1), a); }, x); },
              "TraceError: operation 3, quantize_into: the destination %1 is a computed value (quantize); "
              "store to an argument, a captured array or a view of one");
  expect_text([&] { compile([&](const Blocked& d, const Array& a) { assign(d.elements(), a); }, q, x); },
              "TraceError: operation 3, assign: the destination is part of a block-scaled array, whose "
              "elements and scales have to fit each other; write all of it with quantize_into");
  expect_text(
      [&] {
        compile([&](const Blocked& d, const Array& a) { assign(slice(d.elements(), {Slice{0, 1}}), a); }, q,
                zeros({1, 64}));
      },
      "TraceError: operation 4, assign: the destination is part of a block-scaled array, whose elements and "
      "scales have to fit each other; write all of it with quantize_into");
  expect_text([&] { compile([&](const Blocked& d, const Array& a) { assign(d.scales(), a); }, q, x); },
              "DTypeError: operation 3, assign: the destination is float8_e8m0, which holds block scales and "
              "is not computed with; store to another dtype");
  expect_text(
      [&] {
        compile([&](const Blocked& d, const Array& a) { matmul_into(d.elements(), a, a); },
                Blocked::empty({64, 64}, Format::mxfp8_e4m3, -1), zeros({64, 64}));
      },
      "TraceError: operation 3, matmul_into: the destination is part of a block-scaled array, whose elements "
      "and scales have to fit each other; write all of it with quantize_into");
  expect_text(
      [&] {
        Blocked a = quantize(ones({64, 64}), Format::mxfp8_e4m3, -1);
        compile(
            [](const Blocked& d, const Array& y) {
              quantize_into(d, y);
              return dequantize(d);
            },
            a, ones({64, 64}));
      },
      "TraceError: operation 5, dequantize: reads arg0.0 after the trace stored to it; use the value that "
      "was stored, or compute this before the store");
}

TEST_F(BlockscaledErrorTexts, calls) {
  expect_text(
      [&] {
        Blocked a = quantize(ones({64, 64}), Format::mxfp8_e4m3, -1),
                b = quantize(ones({64, 64}), Format::mxfp8_e4m3, -2);
        matmul_into(a, a, b);
      },
      "AliasError: operation 11, store: the destination arg0.0 overlaps arg1.0, which is read at other "
      "places than it is written; nothing was written: store to other memory, or copy() the input");
  expect_text(
      [&] {
        Blocked a = quantize(ones({64, 64}), Format::mxfp8_e4m3, -1);
        jit([](const Blocked& d, const Array& y) { quantize_into(d, dequantize(d) + y); }, a, ones({64, 64}));
      },
      "AliasError: operation 7, store: the destination arg0.0 is still read by a product, a reduction or a "
      "later operation when it is written; nothing was written: compute in one call what another one stores "
      "(matmul_into adds a product to its destination), store to other memory, or copy() the input");
  expect_text(
      [&] {
        auto f = compile([](const Blocked& a) { return dequantize(a); }, q);
        f(narrow);
      },
      "DTypeError: argument 0 (arg0.0) was compiled for float8_e4m3(32, 64), called with float4_e2m1(32, "
      "64); cast it, or compile with one like it");
  expect_text(
      [&] {
        auto f = compile([](const Blocked& a) { return dequantize(a); }, q);
        f(Blocked::empty({32, 64}, Format::mxfp8_e4m3, -2));
      },
      "ArgumentError: argument 0 (arg0.0) was compiled for strides (64, 1), called with (1, 32); copy() "
      "makes an array row-major");
}

TEST_F(BlockscaledErrorTexts, scales_in_another_order) {
  const Blocked q = quantize(ones({64, 40}), Format::mxfp8_e4m3, -2);
  expect_text(
      [&] { Blocked::from_parts(q.elements(), q.scales().copy(), q.shape(), q.format(), -2); },
      "ShapeError: BlockscaledArray::from_parts: scales of shape (4, 128) have strides (128, 1), not (1, "
      "4); in this shape they lie as scales() does: pass bytes in F8_128x4 as an array of one axis");
}

}  // namespace
