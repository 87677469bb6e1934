// SPDX-License-Identifier: Apache-2.0
// Rows with convolutions, their gradients and pooling: spatial axes, both orders in memory, groups, padding,
// what may follow.
#include "plans/table.hpp"

namespace plans {
namespace {

using stiletto::conv;
using stiletto::ConvOptions;

constexpr DType f16 = DType::float16, bf16 = DType::bfloat16, f32 = DType::float32;

/// With the channels innermost.
Operand last(const Shape& shape, DType dtype) {
  stiletto::Strides strides = shape;
  strides[1] = 1;
  std::int64_t stride = shape[1];
  for (std::size_t i = shape.size(); i-- > 2; stride *= shape[i]) strides[i] = stride;
  strides[0] = stride;
  return {shape, dtype, strides};
}
Operand image(const Shape& shape, DType dtype, bool channels_last) {
  return channels_last ? last(shape, dtype) : Operand{shape, dtype};
}

Row forward(const std::string& name, const ConvOptions& options, const Operand& x, const Operand& w) {
  return {name, [options](const Arrays& a) { return conv(a[0], a[1], options); }, {x, w}};
}
Row by_data(const std::string& name, const ConvOptions& options, const Operand& d_y, const Operand& w,
            const Shape& x) {
  return {name,
          [options, x](const Arrays& a) { return stiletto::conv_backward_data(a[0], a[1], x, options); },
          {d_y, w}};
}
Row by_filter(const std::string& name, const ConvOptions& options, const Operand& d_y, const Operand& x,
              const Shape& w) {
  return {name,
          [options, w](const Arrays& a) { return stiletto::conv_backward_filter(a[0], a[1], w, options); },
          {d_y, x}};
}

std::string suffix(DType dtype, bool channels_last) {
  return std::string(stiletto::to_string(dtype)) + (channels_last ? "_channels_last" : "_channels_first");
}

Group convolutions(DType dtype, bool channels_last) {
  const auto operand = [&](const Shape& shape) { return image(shape, dtype, channels_last); };
  const ConvOptions same{.pre_padding = 1};
  const ConvOptions mixed{
      .stride = {2, 1}, .dilation = {1, 2}, .pre_padding = {1, 0}, .post_padding = {2, 1}};
  const ConvOptions causal{.pre_padding = 3, .post_padding = 0};
  const Operand x = operand({2, 32, 14, 16}), w = operand({64, 32, 3, 3});
  return {"conv_" + suffix(dtype, channels_last),
          {forward("two axes", same, x, w),
           forward("three channels", {}, operand({2, 3, 14, 16}), operand({8, 3, 3, 3})),
           forward("one channel", same, operand({2, 1, 14, 16}), operand({8, 1, 3, 3})),
           forward("odd channels", same, operand({2, 5, 14, 16}), operand({7, 5, 3, 3})),
           forward("stride, dilation, uneven padding", mixed, x, w),
           forward("window of 1", {}, x, operand({64, 32, 1, 1})),
           forward("groups", same, x, operand({64, 16, 3, 3})),
           forward("depthwise", same, x, operand({32, 1, 3, 3})),
           forward("one axis", causal, operand({2, 8, 32}), operand({16, 8, 4})),
           forward("one axis, depthwise", causal, operand({2, 8, 32}), operand({8, 1, 4})),
           forward("three axes", same, operand({2, 16, 6, 8, 8}), operand({32, 16, 3, 3, 3})),
           forward("filter of the other order", same, x, image({64, 32, 3, 3}, dtype, !channels_last)),
           forward("batch of one", same, operand({1, 32, 14, 16}), w)}};
}

Group epilogues(DType dtype, bool channels_last) {
  const auto operand = [&](const Shape& shape) { return image(shape, dtype, channels_last); };
  const Operand x = operand({2, 32, 14, 16}), w = operand({64, 32, 3, 3}), y = operand({2, 64, 14, 16});
  const Operand bias{{64, 1, 1}, dtype}, bias32{{64, 1, 1}, f32};
  const ConvOptions same{.pre_padding = 1};
  // Where the channels do not lie innermost: some activations behind a bias, and nothing else.
  const std::string layout = channels_last ? "" : "NOT_SUPPORTED_LAYOUT";
  const auto after = [=](const std::string& name, auto f, std::vector<Operand> more,
                         const std::string& refusal = "") {
    std::vector<Operand> operands{x, w};
    operands.insert(operands.end(), more.begin(), more.end());
    return Row{name, [=](const Arrays& a) { return f(conv(a[0], a[1], same), a); }, operands, refusal};
  };
  using A = const Array&;
  using As = const Arrays&;
  return {"conv_epilogue_" + suffix(dtype, channels_last),
          {after("bias", [](A y_, As a) { return y_ + a[2]; }, {bias}),
           after(
               "float32 bias", [](A y_, As a) { return stiletto::cast(y_ + a[2], a[0].dtype()); }, {bias32},
               dtype == f32 ? "" : layout),
           after(
               "relu", [](A y_, As) { return stiletto::relu(y_); }, {}, layout),
           after("bias, relu", [](A y_, As a) { return stiletto::relu(y_ + a[2]); }, {bias}),
           after(
               "bias, silu", [](A y_, As a) { return stiletto::silu(y_ + a[2]); }, {bias}, layout),
           after(
               "bias, gelu", [](A y_, As a) { return stiletto::gelu(y_ + a[2]); }, {bias}, layout),
           after("bias, sigmoid", [](A y_, As a) { return stiletto::sigmoid(y_ + a[2]); }, {bias}),
           after("bias, tanh", [](A y_, As a) { return stiletto::tanh(y_ + a[2]); }, {bias}),
           after(
               "times a number", [](A y_, As) { return y_ * stiletto::half(2); }, {}, layout),
           after(
               "residual", [](A y_, As a) { return y_ + a[2]; }, {y}, layout),
           after(
               "bias, residual, relu", [](A y_, As a) { return stiletto::relu(y_ + a[2] + a[3]); }, {bias, y},
               layout),
           after("scale and bias", [](A y_, As a) { return y_ * a[2] + a[3]; }, {bias, bias}, layout)}};
}

Group gradients(DType dtype, bool channels_last) {
  const auto operand = [&](const Shape& shape) { return image(shape, dtype, channels_last); };
  const ConvOptions same{.pre_padding = 1}, strided{.stride = 2, .pre_padding = 1};
  const ConvOptions uneven{.pre_padding = {1, 0}, .post_padding = {2, 1}};
  const Shape x{2, 32, 14, 16}, w{64, 32, 3, 3}, y{2, 64, 14, 16}, half{2, 64, 7, 8}, less{2, 64, 15, 15};
  const Shape x1{2, 8, 32}, w1{16, 8, 3}, y1{2, 16, 32};
  const Shape x3{2, 16, 6, 8, 8}, w3{32, 16, 3, 3, 3}, y3{2, 32, 6, 8, 8};
  const Shape grouped{64, 16, 3, 3}, depthwise{32, 1, 3, 3}, ydepth{2, 32, 14, 16};
  return {"conv_gradients_" + suffix(dtype, channels_last),
          {by_data("data", same, operand(y), operand(w), x),
           by_data("data, stride", strided, operand(half), operand(w), x),
           by_data("data, uneven padding", uneven, operand(less), operand(w), x),
           by_data("data, one axis", same, operand(y1), operand(w1), x1),
           by_data("data, three axes", same, operand(y3), operand(w3), x3),
           by_data("data, groups", same, operand(y), operand(grouped), x),
           by_data("data, depthwise", same, operand(ydepth), operand(depthwise), x),
           by_filter("filter", same, operand(y), operand(x), w),
           by_filter("filter, stride", strided, operand(half), operand(x), w),
           by_filter("filter, uneven padding", uneven, operand(less), operand(x), w),
           by_filter("filter, one axis", same, operand(y1), operand(x1), w1),
           by_filter("filter, three axes", same, operand(y3), operand(x3), w3),
           by_filter("filter, groups", same, operand(y), operand(x), grouped),
           by_filter("filter, depthwise", same, operand(ydepth), operand(x), depthwise)}};
}

Group pools(DType dtype, bool channels_last) {
  const auto operand = [&](const Shape& shape) { return image(shape, dtype, channels_last); };
  using stiletto::avg_pool;
  using stiletto::max_pool;
  auto max2 = [](const Arrays& a) { return max_pool(a[0], 2); };
  auto max3 = [](const Arrays& a) {
    return max_pool(a[0], 3, {.stride = 2, .pre_padding = 1, .post_padding = 0});
  };
  auto avg2 = [](const Arrays& a) { return avg_pool(a[0], 2); };
  auto without = [](const Arrays& a) { return avg_pool(a[0], 3, {.stride = 2, .pre_padding = 1}); };
  auto with = [](const Arrays& a) {
    return avg_pool(a[0], 3, {.stride = 2, .pre_padding = 1, .include_padding = true});
  };
  auto relu = [](const Arrays& a) { return stiletto::relu(max_pool(a[0], 2)); };
  const Operand x = operand({2, 8, 8, 8}), x1 = operand({2, 8, 32}), x3 = operand({2, 8, 4, 6, 8});
  Group group{"pool_" + suffix(dtype, channels_last),
              {{"max", max2, {x}},
               {"max, uneven padding", max3, {x}},
               {"max, one axis", max2, {x1}},
               {"max, three axes", max2, {x3}},
               {"max, odd channels", max2, {operand({2, 5, 8, 8})}},
               {"max, relu", relu, {x}, channels_last ? "" : "NOT_SUPPORTED_LAYOUT"},
               {"avg", avg2, {x}},
               {"avg, padding left out", without, {x}},
               {"avg, padding included", with, {x}},
               {"avg, one axis", avg2, {x1}},
               {"avg, three axes", avg2, {x3}}}};
  if (channels_last && dtype == bf16)
    for (Row& row : group.rows) row.refusal = "of bfloat16 in channels-last memory";
  return group;
}

Group types() {
  auto plain = [](const Arrays& a) { return conv(a[0], a[1], {.pre_padding = 1}); };
  auto into = [](const Arrays& a) { stiletto::conv_into(a[2], a[0], a[1], {.pre_padding = 1}); };
  auto max2 = [](const Arrays& a) { return stiletto::max_pool(a[0], 2); };
  auto two = [](const Arrays& a) { return conv(conv(a[0], a[1]), a[1]); };
  auto computed = [](const Arrays& a) { return conv(stiletto::relu(a[0]), a[1]); };
  const Shape x{2, 32, 14, 16}, w{32, 32, 3, 3};
  const DType i8 = DType::int8, f64 = DType::float64;
  return {
      "convolution_types",
      {{"int8, channels last", plain, {last(x, i8), last(w, i8)}, "conv of int8"},
       {"int8, channels first", plain, {{x, i8}, {w, i8}}, "conv of int8"},
       {"float64", plain, {{x, f64}, {w, f64}}, "is float64"},
       {"float32 written from float16", into, {last(x, f16), last(w, f16), last(x, f32)}},
       {"channels first written from channels last", into, {last(x, f16), last(w, f16), {x, f16}}},
       {"float16 and float32", plain, {last(x, f16), last(w, f32)}, "x of conv is computed (by cast)"},
       {"max pool of int8", max2, {last(x, i8)}},
       {"max pool of uint8", max2, {last(x, DType::uint8)}, "max_pool of uint8, which cuDNN does not take"},
       {"conv of conv", two, {last(x, f16), last(w, f16)}, "conv and conv in one graph"},
       {"a computed image", computed, {last(x, f16), last(w, f16)}, "x of conv is computed (by relu)"}}};
}

}  // namespace

std::vector<Group> convolution_groups() {
  std::vector<Group> result{types()};
  for (const DType dtype : {f16, bf16, f32})
    for (const bool channels_last : {false, true})
      for (auto* group : {convolutions, epilogues, gradients, pools})
        result.push_back(group(dtype, channels_last));
  return result;
}

}  // namespace plans
