// SPDX-License-Identifier: Apache-2.0
// The complete text of every error of src/ops/attention.cpp, normalisation.cpp, convolution.cpp and
// structured.cpp.
#include <gtest/gtest.h>

#include "unit/error_text.hpp"
#include "unit/trace_support.hpp"

namespace {

using namespace stiletto;
using unit::expect_text;
using unit::Recording;

constexpr DType f16 = DType::float16, f32 = DType::float32, i32 = DType::int32;

Array array(const Shape& shape, DType dtype = f32) { return zeros(shape, dtype); }

TEST(StructuredErrorTexts, attention_operands) {
  const Array q = array({2, 3, 4, 8});
  expect_text([&] { attention(array({3, 8}), q, q); },
              "ShapeError: attention: q has shape (3, 8); it has to be (batch, seq, heads, head_dim): "
              "reshape or expand_dims it");
  expect_text([&] { attention(q, 1, q); }, "ShapeError: attention: k is a number; it has to be an array");
  expect_text(
      [&] { attention(Array(), q, q); },
      "ArgumentError: attention: the array is an empty handle; make it with zeros, empty, from_data or wrap");
  expect_text(
      [&] { attention(array({2, 3, 4, 8}, i32), q, q); },
      "DTypeError: attention: q is int32; it has to be float16, bfloat16, float32 or float64: cast it first");
  expect_text([&] { attention(q, array({2, 3, 4, 8}, f16), q); },
              "DTypeError: attention: q is float32 and k float16; they have to be of one dtype: cast one");
  expect_text([&] { attention(q, array({1, 3, 4, 8}), q); },
              "ShapeError: attention: the batches of q (2, 3, 4, 8), k (1, 3, 4, 8) and v (2, 3, 4, 8) "
              "differ; they have to be equal");
  expect_text(
      [&] { attention(q, array({2, 3, 4, 9}), q); },
      "ShapeError: attention: head_dim of q (2, 3, 4, 8) and k (2, 3, 4, 9) differ; they have to be equal");
  expect_text([&] { attention(array({2, 3, 4, 0}), array({2, 3, 4, 0}), q); },
              "ShapeError: attention: head_dim is 0 in q (2, 3, 4, 0); it has to be at least 1");
  expect_text([&] { attention(q, q, array({2, 5, 4, 8})); },
              "ShapeError: attention: k (2, 3, 4, 8) and v (2, 5, 4, 8) differ in seq or heads; only their "
              "last axes may");
  expect_text([&] { attention(q, array({2, 3, 3, 8}), array({2, 3, 3, 8})); },
              "ShapeError: attention: 4 heads of q are no multiple of 3 heads of k and v; each head of k and "
              "v serves as many of q");
}
TEST(StructuredErrorTexts, attention_options) {
  const Array q = array({2, 3, 4, 8}), lengths = array({2}, i32);
  expect_text([&] { attention(q, q, q, {.seq_len_q = lengths}); },
              "ShapeError: attention: seq_len_q is given alone; give both lengths, full ones where a side is "
              "not ragged");
  expect_text([&] { attention(q, q, q, {.seq_len_kv = lengths}); },
              "ShapeError: attention: seq_len_kv is given alone; give both lengths, full ones where a side "
              "is not ragged");
  expect_text([&] { attention(q, q, q, {.seq_len_q = lengths, .seq_len_kv = array({3}, i32)}); },
              "ShapeError: attention: seq_len_kv has shape (3); it has to be (2)");
  expect_text([&] { attention(q, q, q, {.seq_len_q = array({2}), .seq_len_kv = lengths}); },
              "DTypeError: attention: seq_len_q is float32; it has to be int32: cast it");
  expect_text([&] { attention(q, q, q, {.bias = array({2, 3, 3, 3})}); },
              "ShapeError: attention: bias has shape (2, 3, 3, 3); it has to be (2 or 1, 4 or 1, 3, 3)");
  expect_text([&] { attention(q, q, q, {.bias = array({2, 4, 3, 3}, i32)}); },
              "DTypeError: attention: bias is int32; it has to be float16, bfloat16, float32 or float64: "
              "cast it first");
  expect_text([&] { attention(q, q, q, {.sink = array({3})}); },
              "ShapeError: attention: sink has shape (3); it has to be (4)");
  expect_text([&] { attention(q, q, q, {.sink = array({4}, f16)}); },
              "DTypeError: attention: sink is float16; it has to be float32: cast it");
  expect_text([&] { attention(q, q, q, {.window = 4}); },
              "ShapeError: attention: a window of 4 keys without a causal mask; set causal, from whose bound "
              "it counts");
  expect_text([&] { attention(q, q, q, {.causal = Causal::top_left, .window = 0}); },
              "ShapeError: attention: a window of 0 keys; it has to be at least 1");
  expect_text([&] { attention(q, q, q, {.scale = array({1})}); },
              "ShapeError: attention: scale has shape (1); it has to be a number");
  const auto computed = [&](const Array& x) { return attention(x, x, x, {.scale = sum(x)}); };
  expect_text([&] { compile(computed, q); },
              "TraceError: operation 2, attention: scale is computed from arrays; it has to be a number, "
              "bound by value");
  expect_text([&] { attention_into(array({2, 3, 4, 9}), q, q, q); },
              "ShapeError: attention_into: result 0 has shape (2, 3, 4, 8), its destination (2, 3, 4, 9); "
              "store to one of the result's shape");
  expect_text([&] { attention_into(q, q, q, q); },
              "AliasError: attention_into: the destination of shape (2, 3, 4, 8) with strides (96, 32, 8, 1) "
              "overlaps an operand or another destination; nothing was written: store to other memory, or "
              "copy() what is read");
}
TEST(StructuredErrorTexts, attention_gradients) {
  const Array q = array({2, 3, 4, 8}), stats = array({2, 4, 3, 1});
  expect_text([&] { attention_backward(array({2, 3, 4, 7}), q, q, q, q, stats); },
              "ShapeError: attention_backward: d_out has shape (2, 3, 4, 7); it has to be (2, 3, 4, 8)");
  expect_text([&] { attention_backward(array({2, 3, 4, 8}, f16), q, q, q, q, stats); },
              "DTypeError: attention_backward: d_out is float16 and q float32; they have to be of one dtype");
  expect_text([&] { attention_backward(q, q, q, q, q, array({2, 4, 3})); },
              "ShapeError: attention_backward: stats has shape (2, 4, 3); it has to be (2, 4, 3, 1)");
  expect_text(
      [&] { attention_backward(q, q, q, q, q, array({2, 4, 3, 1}, f16)); },
      "DTypeError: attention_backward: stats is float16; it has to be the float32 of attention_with_stats");
}
TEST(StructuredErrorTexts, norms) {
  const Array x = array({2, 3, 4}), scale = array({4});
  expect_text(
      [&] { rms_norm(x, array({3})); },
      "ShapeError: rms_norm: scale has shape (3); it has to be that of x's last axes, and x is (2, 3, 4)");
  expect_text([&] { rms_norm(x, 1); }, "ShapeError: rms_norm: scale is a number; it has to be an array");
  expect_text(
      [&] { rms_norm(x, array({})); },
      "ShapeError: rms_norm: scale has shape (); it has to be that of x's last axes, and x is (2, 3, 4)");
  expect_text(
      [&] { rms_norm(array({2, 0}), array({0})); },
      "ShapeError: rms_norm: scale of shape (0) normalises over nothing; give it axes that have elements");
  expect_text(
      [&] { rms_norm(array({4}, i32), scale); },
      "DTypeError: rms_norm: x is int32; it has to be float16, bfloat16, float32 or float64: cast it first");
  expect_text([&] { rms_norm(x, array({4}, i32)); },
              "DTypeError: rms_norm: scale is int32; it has to be float16, bfloat16, float32 or float64: "
              "cast it first");
  expect_text([&] { rms_norm(x, scale, {.epsilon = -1}); },
              "ShapeError: rms_norm: epsilon is -1; it has to be 0 or positive, and finite");
  expect_text([&] { rms_norm(x, scale, {.bias = array({3, 4})}); },
              "ShapeError: rms_norm: bias is float32(3, 4) and scale float32(4); they have to be of one "
              "shape and dtype");
  expect_text([&] { layer_norm(x, scale, array({4}, f16)); },
              "ShapeError: layer_norm: bias is float16(4) and scale float32(4); they have to be of one shape "
              "and dtype");
  const auto computed = [&](const Array& a, const Array& s) { return rms_norm(a, s * 2); };
  expect_text([&] { compile(computed, x, scale); },
              "TraceError: operation 4, rms_norm: scale is a computed value (multiply); pass it as an "
              "argument or capture it");
  expect_text([&] { rms_norm_backward(array({2, 3}), x, scale, array({2, 3, 1})); },
              "ShapeError: rms_norm_backward: d_y has shape (2, 3); it has to be (2, 3, 4)");
  expect_text([&] { rms_norm_backward(x, x, scale, array({2, 3})); },
              "ShapeError: rms_norm_backward: inv_rms has shape (2, 3); it has to be (2, 3, 1)");
  expect_text([&] { layer_norm_backward(x, x, scale, array({2, 3, 1}, f16), array({2, 3, 1})); },
              "DTypeError: layer_norm_backward: mean is float16; it has to be float32");
  expect_text([&] { batch_norm(array({2, 3}), scale, scale, scale, scale); },
              "ShapeError: batch_norm: x has shape (2, 3); it has to be (batch, channels, spatial…) of rank "
              "3 or more");
  expect_text(
      [&] { batch_norm(x, scale, scale, scale, scale); },
      "ShapeError: batch_norm: scale has shape (4); it has to be a vector of the 3 channels of x (2, 3, 4)");
  expect_text(
      [&] { batch_norm(x, array({3}), array({3}), array({2}), array({3})); },
      "ShapeError: batch_norm: mean has shape (2); it has to be a vector of the 3 channels of x (2, 3, 4)");
  expect_text([&] { batch_norm_into(array({2, 3}), x, array({3}), array({3}), array({3}), array({3})); },
              "ShapeError: batch_norm_into: y has shape (2, 3); it has to be x's, (2, 3, 4)");
  expect_text(
      [&] { batch_norm_training(x, array({3}), array({3}), array({3}), array({3}), {.momentum = 2}); },
      "ShapeError: batch_norm_training: momentum is 2; it has to be from 0 to 1");
  expect_text(
      [&] { batch_norm_training(array({0, 3, 4}), array({3}), array({3}), array({3}), array({3})); },
      "ShapeError: batch_norm_training: x of shape (0, 3, 4) has no elements, and nothing has no mean");
  expect_text([&] { batch_norm_backward(x, x, array({3}), array({4}), array({3})); },
              "ShapeError: batch_norm_backward: mean has shape (4); it has to be (3)");
}
TEST(StructuredErrorTexts, convolutions) {
  const Array x = array({1, 4, 9, 9}), w = array({6, 4, 3, 3});
  expect_text([&] { conv(array({4, 9}), w); },
              "ShapeError: conv: x has shape (4, 9); it has to have two axes and then 1 to 3 spatial ones: "
              "expand_dims or reshape it");
  expect_text([&] { conv(1, w); }, "ShapeError: conv: x is a number; it has to be an array");
  expect_text([&] { conv(x, array({6, 4, 3})); },
              "ShapeError: conv: x has shape (1, 4, 9, 9) and w (6, 4, 3); they have to be of one rank");
  expect_text([&] { conv(x, array({6, 3, 3, 3})); },
              "ShapeError: conv: x has 4 channels and w shape (6, 3, 3, 3); w is (out_channels, "
              "channels/groups, spatial…), groups dividing both");
  expect_text([&] { conv(x, array({5, 2, 3, 3})); },
              "ShapeError: conv: x has 4 channels and w shape (5, 2, 3, 3); w is (out_channels, "
              "channels/groups, spatial…), groups dividing both");
  expect_text([&] { conv(x, array({6, 4, 0, 3})); },
              "ShapeError: conv: w has shape (6, 4, 0, 3); a window of nothing has no convolution");
  expect_text([&] { conv(x, array({6, 4, 10, 3})); },
              "ShapeError: conv: a window that reaches over 10 elements is larger than the padded extent 9; "
              "pad more or take a smaller window");
  expect_text([&] { conv(x, w, {.stride = 0}); },
              "ShapeError: conv: stride is (0, 0); it has to be at least 1");
  expect_text([&] { conv(x, w, {.stride = {1, 1, 1}}); },
              "ShapeError: conv: stride has 3 values for 2 spatial axes; give one for all or one each");
  expect_text([&] { conv(x, w, {.dilation = 0}); },
              "ShapeError: conv: dilation is (0, 0); it has to be at least 1");
  expect_text([&] { conv(x, w, {.pre_padding = -1}); },
              "ShapeError: conv: pre_padding is (-1, -1); it has to be at least 0");
  expect_text([&] { conv(x, w, {.dilation = INT64_MAX}); },
              "ShapeError: conv: a window of 3 with dilation 9223372036854775807 does not fit 64 bits");
  expect_text([&] { conv(x, w, {.pre_padding = INT64_MAX}); },
              "ShapeError: conv: an extent of 9 with padding 9223372036854775807 and 9223372036854775807 "
              "does not fit 64 bits");
  expect_text([&] { conv(array({1, 4, 9, 9}, i32), w); },
              "DTypeError: conv: does not take int32; cast the operand, for instance to float32");
  expect_text([&] { conv(array({1, 4, 9, 9}, DType::float8_e4m3), array({6, 4, 3, 3}, DType::float8_e4m3)); },
              "DTypeError: conv: does not take float8_e4m3; cast the operand, for instance to float32");
  expect_text([&] { conv_into(array({1, 6, 7, 8}), x, w); },
              "ShapeError: conv_into: result 0 has shape (1, 6, 7, 7), its destination (1, 6, 7, 8); store "
              "to one of the result's shape");
  expect_text([&] { conv_backward_data(array({1, 6, 7, 8}), w, {1, 4, 9, 9}); },
              "ShapeError: conv_backward_data: d_y has shape (1, 6, 7, 8); the convolution's result has (1, "
              "6, 7, 7)");
  expect_text(
      [&] {
        conv_backward_data(array({1, 6, 7, 7}, DType::int8), array({6, 4, 3, 3}, DType::int8), {1, 4, 9, 9});
      },
      "DTypeError: conv_backward_data: there are no gradients of integers; cast the operands to float32");
  expect_text([&] { conv_backward_filter(array({1, 6, 7, 7}), x, {6, 4, 3}); },
              "ShapeError: conv_backward_filter: x has shape (1, 4, 9, 9) and w (6, 4, 3); they have to be "
              "of one rank");
}
TEST(StructuredErrorTexts, pools) {
  const Array x = array({1, 4, 9, 9});
  expect_text([&] { max_pool(array({4, 9}), 2); },
              "ShapeError: max_pool: x has shape (4, 9); it has to have two axes and then 1 to 3 spatial "
              "ones: expand_dims or reshape it");
  expect_text([&] { max_pool(x, {}); },
              "ShapeError: max_pool: the window is empty; give one extent for all spatial axes or one each");
  expect_text([&] { max_pool(x, 0); }, "ShapeError: max_pool: window is (0, 0); it has to be at least 1");
  expect_text([&] { max_pool(x, {2, 2, 2}); },
              "ShapeError: max_pool: window has 3 values for 2 spatial axes; give one for all or one each");
  expect_text([&] { max_pool(x, 10); },
              "ShapeError: max_pool: a window that reaches over 10 elements is larger than the padded extent "
              "9; pad more or take a smaller window");
  expect_text([&] { max_pool(x, 2, {.pre_padding = 2}); },
              "ShapeError: max_pool: padding (2, 2) and (2, 2) of a window (2, 2); padding has to be smaller "
              "than the window");
  expect_text([&] { max_pool(array({1, 4, 9, 9}, DType::boolean), 2); },
              "DTypeError: max_pool: does not take boolean; cast x, for instance to float32");
  expect_text(
      [&] { avg_pool(array({1, 4, 9, 9}, i32), 2); },
      "DTypeError: avg_pool: x is int32; it has to be float16, bfloat16, float32 or float64: cast it first");
}

}  // namespace
