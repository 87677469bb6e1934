// SPDX-License-Identifier: Apache-2.0
// Normalisations: which operands fit together, and what comes out. batch_norm with given statistics is
// arithmetic; the others are structured operations.
#include <cmath>

#include "ops/structured.hpp"
#include "stiletto/nn.hpp"
#include "stiletto/ops.hpp"

namespace stiletto {
namespace detail {
namespace {

/// x, and scale over its trailing axes.
struct Normalised {
  const ArrayBody *x, *scale;
  std::size_t axes = 0;

  Normalised(const Array& x_array, const Array& scale_array, const char* name)
      : x(&array_operand(x_array, name, "x")), scale(&array_operand(scale_array, name, "scale")) {
    check_floating(*x, name, "x");
    axes = scale->shape.size();
    const std::size_t rank = x->shape.size();
    bool fits = axes >= 1 && axes <= rank;
    for (std::size_t i = 0; fits && i < axes; ++i) fits = scale->shape[i] == x->shape[rank - axes + i];
    if (!fits)
      throw_shape(name, "scale has shape ", scale->shape, "; it has to be that of x's last axes, and x is ",
                  x->shape);
    for (std::int64_t extent : scale->shape)
      if (extent == 0)
        throw_shape(name, "scale of shape ", scale->shape,
                    " normalises over nothing; give it axes that have elements");
  }

  Shape statistics_shape() const {
    Shape shape = x->shape;
    for (std::size_t i = shape.size() - axes; i < shape.size(); ++i) shape[i] = 1;
    return shape;
  }
  ResultSpec y() const { return {x->shape, order_like(x->shape, *x), x->dtype}; }
  ResultSpec statistics() const {
    return {statistics_shape(), row_major(statistics_shape()), statistics_dtype(x->dtype)};
  }
  ResultSpec parameter() const { return {scale->shape, row_major(scale->shape), scale->dtype}; }
};

/// scale and bias of engines are memory.
void check_parameter(const Array& array, const char* name, const char* what) {
  const ArrayBody& body = array_operand(array, name, what);
  check_floating(body, name, what);
  const Trace* trace = Trace::current();
  if (trace == nullptr || body.kind != ArrayBody::Kind::traced || body.trace != trace->id()) return;
  if (!trace->is_leaf_or_view(body.node))
    throw TraceError(text(operation_text(name), ": ", what, " is a computed value (",
                          name_of(trace->nodes()[body.node].op), "); pass it as an argument or capture it"));
}

void check_same(const Array& array, const ArrayBody& scale, const char* name, const char* what) {
  check_parameter(array, name, what);
  const ArrayBody& body = *ArrayAccess::body_or_null(array);
  if (body.shape != scale.shape || body.dtype != scale.dtype)
    throw_shape(name, what, " is ", body.dtype, body.shape, " and scale ", scale.dtype, scale.shape,
                "; they have to be of one shape and dtype");
}

void check_epsilon(float epsilon, const char* name) {
  if (!(epsilon >= 0) || std::isinf(epsilon))
    throw_shape(name, "epsilon is ", epsilon, "; it has to be 0 or positive, and finite");
}

/// An operand of a backward function that its forward function made or took.
void check_saved(const Array& array, const Shape& shape, DType dtype, const char* name, const char* what) {
  const ArrayBody& body = array_operand(array, name, what);
  if (body.shape != shape) throw_shape(name, what, " has shape ", body.shape, "; it has to be ", shape);
  if (body.dtype != dtype) throw_dtype(name, what, " is ", body.dtype, "; it has to be ", dtype);
}

StructuredCall rms(const char* name, const Array& x, const Array& scale, const RmsNormOptions& options) {
  const Normalised n(x, scale, name);
  check_parameter(scale, name, "scale");
  check_epsilon(options.epsilon, name);
  StructuredCall call{Op::rms_norm, name, {}, {x, scale}, {n.y(), n.statistics()}};
  if (options.bias) {
    check_same(*options.bias, *n.scale, name, "bias");
    call.operands.push_back(*options.bias);
  }
  call.attributes = NormAttributes{static_cast<std::uint32_t>(n.axes),
                                   options.bias.has_value(),
                                   {static_cast<double>(options.epsilon)},
                                   {}};
  return call;
}

StructuredCall layer(const char* name, const Array& x, const Array& scale, const Array& bias,
                     const LayerNormOptions& options) {
  const Normalised n(x, scale, name);
  check_parameter(scale, name, "scale");
  check_same(bias, *n.scale, name, "bias");
  check_epsilon(options.epsilon, name);
  const NormAttributes attributes{
      static_cast<std::uint32_t>(n.axes), true, {static_cast<double>(options.epsilon)}, {}};
  return {Op::layer_norm, name, attributes, {x, scale, bias}, {n.y(), n.statistics(), n.statistics()}};
}

/// x (batch, channels, spatial…) and a vector of the channels.
struct Channels {
  const ArrayBody *x, *scale;

  Channels(const Array& x_array, const Array& scale_array, const char* name)
      : x(&array_operand(x_array, name, "x")), scale(&array_operand(scale_array, name, "scale")) {
    check_floating(*x, name, "x");
    check_floating(*scale, name, "scale");
    if (x->shape.size() < 3)
      throw_shape(name, "x has shape ", x->shape,
                  "; it has to be (batch, channels, spatial…) of rank 3 or more");
    check_vector(*scale, name, "scale");
  }
  void check_vector(const Array& array, const char* name, const char* what) const {
    const ArrayBody& body = array_operand(array, name, what);
    check_floating(body, name, what);
    check_vector(body, name, what);
  }
  void check_vector(const ArrayBody& body, const char* name, const char* what) const {
    if (body.shape != Shape{x->shape[1]})
      throw_shape(name, what, " has shape ", body.shape, "; it has to be a vector of the ", x->shape[1],
                  " channels of x ", x->shape);
  }
  ResultSpec y() const { return {x->shape, order_like(x->shape, *x), x->dtype}; }
  ResultSpec vector(DType dtype) const { return {{x->shape[1]}, row_major({x->shape[1]}), dtype}; }
};

}  // namespace
}  // namespace detail

Array rms_norm(const Array& x, const Array& scale, const RmsNormOptions& options) {
  return detail::results_of(detail::rms("rms_norm", x, scale, options), 1)[0];
}
void rms_norm_into(const Array& y, const Array& x, const Array& scale, const RmsNormOptions& options) {
  detail::write_results(detail::rms("rms_norm_into", x, scale, options), {y});
}
RmsNormResult rms_norm_with_stats(const Array& x, const Array& scale, const RmsNormOptions& options) {
  const auto results = detail::results_of(detail::rms("rms_norm_with_stats", x, scale, options), 2);
  return {results[0], results[1]};
}
NormGradients rms_norm_backward(const Array& d_y, const Array& x, const Array& scale, const Array& inv_rms,
                                bool bias) {
  constexpr const char* name = "rms_norm_backward";
  const detail::Normalised n(x, scale, name);
  detail::check_parameter(scale, name, "scale");
  detail::check_saved(d_y, n.x->shape, n.x->dtype, name, "d_y");
  detail::check_saved(inv_rms, n.statistics_shape(), detail::statistics_dtype(n.x->dtype), name, "inv_rms");
  const detail::NormAttributes attributes{static_cast<std::uint32_t>(n.axes), bias, {}, {}};
  detail::StructuredCall call{detail::Op::rms_norm_backward,
                              name,
                              attributes,
                              {d_y, x, scale, inv_rms},
                              {n.y(), n.parameter(), n.parameter()}};
  call.results[2].exists = bias;
  const auto results = detail::results_of(call, 3);
  return {results[0], results[1], results[2]};
}

Array layer_norm(const Array& x, const Array& scale, const Array& bias, const LayerNormOptions& options) {
  return detail::results_of(detail::layer("layer_norm", x, scale, bias, options), 1)[0];
}
void layer_norm_into(const Array& y, const Array& x, const Array& scale, const Array& bias,
                     const LayerNormOptions& options) {
  detail::write_results(detail::layer("layer_norm_into", x, scale, bias, options), {y});
}
LayerNormResult layer_norm_with_stats(const Array& x, const Array& scale, const Array& bias,
                                      const LayerNormOptions& options) {
  const auto results = detail::results_of(detail::layer("layer_norm_with_stats", x, scale, bias, options), 3);
  return {results[0], results[1], results[2]};
}
NormGradients layer_norm_backward(const Array& d_y, const Array& x, const Array& scale, const Array& mean,
                                  const Array& inv_std) {
  constexpr const char* name = "layer_norm_backward";
  const detail::Normalised n(x, scale, name);
  detail::check_parameter(scale, name, "scale");
  detail::check_saved(d_y, n.x->shape, n.x->dtype, name, "d_y");
  detail::check_saved(mean, n.statistics_shape(), detail::statistics_dtype(n.x->dtype), name, "mean");
  detail::check_saved(inv_std, n.statistics_shape(), detail::statistics_dtype(n.x->dtype), name, "inv_std");
  const detail::NormAttributes attributes{static_cast<std::uint32_t>(n.axes), true, {}, {}};
  const auto results = detail::results_of({detail::Op::layer_norm_backward,
                                           name,
                                           attributes,
                                           {d_y, x, scale, mean, inv_std},
                                           {n.y(), n.parameter(), n.parameter()}},
                                          3);
  return {results[0], results[1], results[2]};
}

namespace {

/// A vector of the channels beside (batch, channels, spatial…).
Array per_channel(const Array& vector, std::int64_t rank) {
  Shape shape;
  shape.push_back(vector.dim(0));
  for (std::int64_t i = 2; i < rank; ++i) shape.push_back(1);
  return reshape(vector, shape);
}

}  // namespace

Array batch_norm(const Array& x, const Array& scale, const Array& bias, const Array& mean,
                 const Array& inv_variance) {
  constexpr const char* name = "batch_norm";
  const detail::Channels channels(x, scale, name);
  const std::pair<const Array*, const char*> vectors[] = {
      {&bias, "bias"}, {&mean, "mean"}, {&inv_variance, "inv_variance"}};
  for (const auto& [vector, what] : vectors) channels.check_vector(*vector, name, what);
  const auto normalise = [](const Array& a, const Array& s, const Array& b, const Array& m, const Array& i) {
    const std::int64_t rank = a.rank();
    const Array y =
        (a - per_channel(m, rank)) * per_channel(i, rank) * per_channel(s, rank) + per_channel(b, rank);
    return y.dtype() == a.dtype() ? y : cast(y, a.dtype());
  };
  if (detail::tracing()) return normalise(x, scale, bias, mean, inv_variance);
  for (const Array* array : {&x, &scale, &bias, &mean, &inv_variance})
    detail::check_runs_now(name, "an operand", detail::ArrayAccess::body(*array, name));
  return jit(normalise, x, scale, bias, mean, inv_variance);
}
void batch_norm_into(const Array& y, const Array& x, const Array& scale, const Array& bias, const Array& mean,
                     const Array& inv_variance) {
  constexpr const char* name = "batch_norm_into";
  detail::check_destination(y, name);
  if (y.shape() != x.shape())
    detail::throw_shape(name, "y has shape ", y.shape(), "; it has to be x's, ", x.shape());
  const auto store = [](const Array& to, const Array& a, const Array& s, const Array& b, const Array& m,
                        const Array& i) { assign(to, batch_norm(a, s, b, m, i)); };
  if (detail::tracing()) return store(y, x, scale, bias, mean, inv_variance);
  jit(store, y, x, scale, bias, mean, inv_variance);
}

BatchNormResult batch_norm_training(const Array& x, const Array& scale, const Array& bias,
                                    const Array& running_mean, const Array& running_variance,
                                    const BatchNormOptions& options) {
  constexpr const char* name = "batch_norm_training";
  const detail::Channels channels(x, scale, name);
  const DType saved = detail::statistics_dtype(channels.x->dtype);
  const std::pair<const Array*, const char*> vectors[] = {
      {&bias, "bias"}, {&running_mean, "running_mean"}, {&running_variance, "running_variance"}};
  for (const auto& [vector, what] : vectors) channels.check_vector(*vector, name, what);
  detail::check_epsilon(options.epsilon, name);
  const bool fits = options.momentum >= 0 && options.momentum <= 1;  // false of NaN
  if (!fits) detail::throw_shape(name, "momentum is ", options.momentum, "; it has to be from 0 to 1");
  if (detail::element_count_unchecked(channels.x->shape) == 0)
    detail::throw_shape(name, "x of shape ", channels.x->shape, " has no elements, and nothing has no mean");
  const detail::NormAttributes attributes{
      0, true, {static_cast<double>(options.epsilon)}, {static_cast<double>(options.momentum)}};
  const detail::ResultSpec vector = channels.vector(saved);
  const auto r = detail::results_of({detail::Op::batch_norm_training,
                                     name,
                                     attributes,
                                     {x, scale, bias, running_mean, running_variance},
                                     {channels.y(), vector, vector, vector, vector}},
                                    5);
  return {r[0], r[1], r[2], r[3], r[4]};
}
NormGradients batch_norm_backward(const Array& d_y, const Array& x, const Array& scale, const Array& mean,
                                  const Array& inv_std) {
  constexpr const char* name = "batch_norm_backward";
  const detail::Channels channels(x, scale, name);
  const DType saved = detail::statistics_dtype(channels.x->dtype);
  detail::check_saved(d_y, channels.x->shape, channels.x->dtype, name, "d_y");
  detail::check_saved(mean, {channels.x->shape[1]}, saved, name, "mean");
  detail::check_saved(inv_std, {channels.x->shape[1]}, saved, name, "inv_std");
  const detail::ResultSpec vector = channels.vector(channels.scale->dtype);
  const auto r = detail::results_of({detail::Op::batch_norm_backward,
                                     name,
                                     detail::NormAttributes{0, true, {}, {}},
                                     {d_y, x, scale, mean, inv_std},
                                     {channels.y(), vector, vector}},
                                    3);
  return {r[0], r[1], r[2]};
}

}  // namespace stiletto
