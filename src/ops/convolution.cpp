// SPDX-License-Identifier: Apache-2.0
// Convolution and pooling: windows over spatial axes.
#include <algorithm>

#include "ops/structured.hpp"
#include "stiletto/nn.hpp"
#include "stiletto/ops.hpp"

namespace stiletto {
namespace detail {
namespace {

constexpr std::size_t most_spatial = 3;

std::size_t spatial_axes(const Shape& x, const char* name, const char* what) {
  const std::size_t rank = x.size();
  if (rank < 3 || rank > 2 + most_spatial)
    throw_shape(name, what, " has shape ", x,
                "; it has to have two axes and then 1 to 3 spatial ones: expand_dims or reshape it");
  return rank - 2;
}

/// One value for each spatial axis, at least `least`.
Dims per_axis(const PerAxis& given, std::size_t spatial, const Dims& otherwise, std::int64_t least,
              const char* name, const char* what) {
  Dims values = given.values().size() == 0 ? otherwise : given.values();
  if (values.size() == 1)
    for (std::size_t i = 1; i < spatial; ++i) values.push_back(values[0]);
  if (values.size() != spatial)
    throw_shape(name, what, " has ", values.size(), " values for ", spatial,
                " spatial axes; give one for all or one each");
  for (std::int64_t value : values)
    if (value < least) throw_shape(name, what, " is ", values, "; it has to be at least ", least);
  return values;
}

/// How far a window with gaps reaches.
std::int64_t reach(std::int64_t window, std::int64_t dilation, const char* name) {
  std::int64_t result = 0;
  if (__builtin_mul_overflow(window - 1, dilation, &result) || __builtin_add_overflow(result, 1, &result))
    throw_shape(name, "a window of ", window, " with dilation ", dilation, " does not fit 64 bits");
  return result;
}

/// Positions of a window along one axis.
std::int64_t positions(std::int64_t extent, std::int64_t before, std::int64_t after, std::int64_t window,
                       std::int64_t stride, const char* name) {
  std::int64_t padded = 0;
  if (__builtin_add_overflow(extent, before, &padded) || __builtin_add_overflow(padded, after, &padded))
    throw_shape(name, "an extent of ", extent, " with padding ", before, " and ", after,
                " does not fit 64 bits");
  if (window > padded)
    throw_shape(name, "a window that reaches over ", window, " elements is larger than the padded extent ",
                padded, "; pad more or take a smaller window");
  return (padded - window) / stride + 1;
}

struct Convolution {
  ConvAttributes attributes;
  Shape y;

  Convolution(const Shape& x_shape, const Shape& w_shape, const ConvOptions& options, const char* name) {
    const std::size_t spatial = spatial_axes(x_shape, name, "x");
    const Dims one{1}, zero{0};
    attributes.stride = per_axis(options.stride, spatial, one, 1, name, "stride");
    attributes.dilation = per_axis(options.dilation, spatial, one, 1, name, "dilation");
    attributes.pre_padding = per_axis(options.pre_padding, spatial, zero, 0, name, "pre_padding");
    attributes.post_padding =
        per_axis(options.post_padding, spatial, attributes.pre_padding, 0, name, "post_padding");
    if (w_shape.size() != x_shape.size())
      throw_shape(name, "x has shape ", x_shape, " and w ", w_shape, "; they have to be of one rank");
    for (std::size_t i = 0; i < w_shape.size(); ++i)
      if (i != 0 && w_shape[i] == 0)
        throw_shape(name, "w has shape ", w_shape, "; a window of nothing has no convolution");
    const std::int64_t groups = x_shape[1] % w_shape[1] == 0 ? x_shape[1] / w_shape[1] : 0;
    if (groups == 0 || w_shape[0] % groups != 0)
      throw_shape(name, "x has ", x_shape[1], " channels and w shape ", w_shape,
                  "; w is (out_channels, channels/groups, spatial…), groups dividing both");
    y = {x_shape[0], w_shape[0]};
    for (std::size_t i = 0; i < spatial; ++i)
      y.push_back(positions(x_shape[i + 2], attributes.pre_padding[i], attributes.post_padding[i],
                            reach(w_shape[i + 2], attributes.dilation[i], name), attributes.stride[i], name));
  }
};

/// The operands at their common dtype.
DType to_common(Array& a, Array& b, const char* name) {
  const ArrayBody &x = *ArrayAccess::body_or_null(a), &w = *ArrayAccess::body_or_null(b);
  for (const ArrayBody* body : {&x, &w})
    if (!is_floating(body->dtype) && body->dtype != DType::int8 && body->dtype != DType::uint8)
      throw_dtype(name, "does not take ", body->dtype, "; cast the operand, for instance to float32");
  if (!is_floating(x.dtype) && !is_floating(w.dtype)) return DType::int32;
  const DType common = promote({x.dtype, false}, {w.dtype, false})->dtype;
  if (x.dtype != common) a = cast(a, common);
  if (w.dtype != common) b = cast(b, common);
  return common;
}

StructuredCall convolution(const char* name, Array x, Array w, const ConvOptions& options) {
  const ArrayBody& body = array_operand(x, name, "x");
  array_operand(w, name, "w");
  const Convolution c(body.shape, w.shape(), options, name);
  const Strides strides = order_like(c.y, body);
  const DType dtype = to_common(x, w, name);
  return {Op::conv, name, c.attributes, {x, w}, {{c.y, strides, dtype}}};
}

/// A gradient by x or w; `other` is the operand that is not d_y.
Array gradient(Op op, const char* name, Array d_y, Array other, const Shape& x_shape, const Shape& w_shape,
               const Shape& result, const ConvOptions& options) {
  const ArrayBody& body = array_operand(d_y, name, "d_y");
  const Convolution c(x_shape, w_shape, options, name);
  if (body.shape != c.y)
    throw_shape(name, "d_y has shape ", body.shape, "; the convolution's result has ", c.y);
  const ArrayBody& like = op == Op::conv_backward_data ? body : *ArrayAccess::body_or_null(other);
  const Strides strides = order_like(result, like);
  const DType dtype = to_common(d_y, other, name);
  if (!is_floating(dtype))
    throw_dtype(name, "there are no gradients of integers; cast the operands to float32");
  return results_of({op, name, c.attributes, {d_y, other}, {{result, strides, dtype}}}, 1)[0];
}

struct PoolArguments {
  PerAxis window, stride, pre_padding, post_padding;
  bool include_padding = false;
};

StructuredCall pool(Op op, const char* name, const Array& x, const PoolArguments& arguments) {
  const ArrayBody& body = array_operand(x, name, "x");
  const std::size_t spatial = spatial_axes(body.shape, name, "x");
  if (op == Op::avg_pool)
    check_floating(body, name, "x");
  else if (is_storage_only(body.dtype) || body.dtype == DType::boolean)
    throw_dtype(name, "does not take ", body.dtype, "; cast x, for instance to float32");
  if (arguments.window.values().size() == 0)
    throw_shape(name, "the window is empty; give one extent for all spatial axes or one each");
  PoolAttributes a;
  const Dims none{0};
  a.window = per_axis(arguments.window, spatial, none, 1, name, "window");
  a.stride = per_axis(arguments.stride, spatial, a.window, 1, name, "stride");
  a.pre_padding = per_axis(arguments.pre_padding, spatial, none, 0, name, "pre_padding");
  a.post_padding = per_axis(arguments.post_padding, spatial, a.pre_padding, 0, name, "post_padding");
  a.include_padding = arguments.include_padding;
  Shape y{body.shape[0], body.shape[1]};
  for (std::size_t i = 0; i < spatial; ++i) {
    if (a.pre_padding[i] >= a.window[i] || a.post_padding[i] >= a.window[i])
      throw_shape(name, "padding ", a.pre_padding, " and ", a.post_padding, " of a window ", a.window,
                  "; padding has to be smaller than the window");
    y.push_back(
        positions(body.shape[i + 2], a.pre_padding[i], a.post_padding[i], a.window[i], a.stride[i], name));
  }
  return {op, name, a, {x}, {{y, order_like(y, body), body.dtype}}};
}

PoolArguments arguments_of(const PerAxis& window, const PoolOptions& o) {
  return {window, o.stride, o.pre_padding, o.post_padding};
}
PoolArguments arguments_of(const PerAxis& window, const AvgPoolOptions& o) {
  return {window, o.stride, o.pre_padding, o.post_padding, o.include_padding};
}

}  // namespace
}  // namespace detail

using detail::Op;

Array conv(const Array& x, const Array& w, const ConvOptions& options) {
  return detail::results_of(detail::convolution("conv", x, w, options), 1)[0];
}
void conv_into(const Array& y, const Array& x, const Array& w, const ConvOptions& options) {
  detail::write_results(detail::convolution("conv_into", x, w, options), {y});
}
Array conv_backward_data(const Array& d_y, const Array& w, const Shape& x_shape, const ConvOptions& options) {
  constexpr const char* name = "conv_backward_data";
  detail::array_operand(w, name, "w");
  return detail::gradient(Op::conv_backward_data, name, d_y, w, x_shape, w.shape(), x_shape, options);
}
Array conv_backward_filter(const Array& d_y, const Array& x, const Shape& w_shape,
                           const ConvOptions& options) {
  constexpr const char* name = "conv_backward_filter";
  detail::array_operand(x, name, "x");
  return detail::gradient(Op::conv_backward_filter, name, d_y, x, x.shape(), w_shape, w_shape, options);
}

Array max_pool(const Array& x, PerAxis window, const PoolOptions& options) {
  return detail::results_of(detail::pool(Op::max_pool, "max_pool", x, detail::arguments_of(window, options)),
                            1)[0];
}
void max_pool_into(const Array& y, const Array& x, PerAxis window, const PoolOptions& options) {
  detail::write_results(detail::pool(Op::max_pool, "max_pool_into", x, detail::arguments_of(window, options)),
                        {y});
}
Array avg_pool(const Array& x, PerAxis window, const AvgPoolOptions& options) {
  return detail::results_of(detail::pool(Op::avg_pool, "avg_pool", x, detail::arguments_of(window, options)),
                            1)[0];
}
void avg_pool_into(const Array& y, const Array& x, PerAxis window, const AvgPoolOptions& options) {
  detail::write_results(detail::pool(Op::avg_pool, "avg_pool_into", x, detail::arguments_of(window, options)),
                        {y});
}

}  // namespace stiletto
