// SPDX-License-Identifier: Apache-2.0
// Convolution, its gradients and pooling by definition: every pair of an output and an input element that a
// window joins is visited once.
#pragma once
#include "support/tensor.hpp"

namespace support {

/// Of one spatial axis each.
struct Windows {
  Extents window, stride, dilation, pre, post;

  Extents output(const Extents& spatial) const {
    Extents result;
    for (std::size_t i = 0; i < spatial.size(); ++i)
      result.push_back((spatial[i] + pre[i] + post[i] - (window[i] - 1) * dilation[i] - 1) / stride[i] + 1);
    return result;
  }
  /// The element of the input at a place of the window, or none in the padding.
  bool find(const Extents& out, const Extents& place, const Extents& spatial, Extents& in) const {
    in.clear();
    for (std::size_t i = 0; i < out.size(); ++i) {
      in.push_back(out[i] * stride[i] + place[i] * dilation[i] - pre[i]);
      if (in[i] < 0 || in[i] >= spatial[i]) return false;
    }
    return true;
  }
};

inline Extents spatial_of(const Extents& shape) { return {shape.begin() + 2, shape.end()}; }
inline Extents joined(std::int64_t a, std::int64_t b, const Extents& rest) {
  Extents result{a, b};
  result.insert(result.end(), rest.begin(), rest.end());
  return result;
}
inline Extents conv_shape(const Extents& x, const Extents& w, const Windows& windows) {
  return joined(x[0], w[0], windows.output(spatial_of(x)));
}

/// visit(y's index, x's index, w's index) for each product of the sum.
template <class Visit>
void each_product(const Extents& x, const Extents& w, const Windows& windows, const Visit& visit) {
  const std::int64_t per_group = w[1], groups = x[1] / per_group, outputs = w[0] / groups;
  Extents in;
  for_each_index(conv_shape(x, w, windows), [&](const Extents& y) {
    for_each_index(windows.window, [&](const Extents& place) {
      if (!windows.find(spatial_of(y), place, spatial_of(x), in)) return;
      for (std::int64_t c = 0; c < per_group; ++c)
        visit(y, joined(y[0], y[1] / outputs * per_group + c, in), joined(y[1], c, place));
    });
  });
}

inline std::size_t flat(const Extents& index, const Tensor& t) {
  return static_cast<std::size_t>(dot(index, row_major(t.shape)));
}

inline Tensor conv_reference(DType dtype, const Tensor& x, const Tensor& w, const Windows& windows) {
  Tensor y(dtype, conv_shape(x.shape, w.shape, windows));
  each_product(x.shape, w.shape, windows, [&](const Extents& a, const Extents& b, const Extents& c) {
    y.values[flat(a, y)] += x.values[flat(b, x)] * w.values[flat(c, w)];
  });
  return y;
}
inline Tensor conv_data_reference(const Tensor& d_y, const Tensor& w, const Extents& shape,
                                  const Windows& windows) {
  Tensor dx(d_y.dtype, shape);
  each_product(shape, w.shape, windows, [&](const Extents& a, const Extents& b, const Extents& c) {
    dx.values[flat(b, dx)] += d_y.values[flat(a, d_y)] * w.values[flat(c, w)];
  });
  return dx;
}
inline Tensor conv_filter_reference(const Tensor& d_y, const Tensor& x, const Extents& shape,
                                    const Windows& windows) {
  Tensor dw(d_y.dtype, shape);
  each_product(x.shape, shape, windows, [&](const Extents& a, const Extents& b, const Extents& c) {
    dw.values[flat(c, dw)] += d_y.values[flat(a, d_y)] * x.values[flat(b, x)];
  });
  return dw;
}

enum class Pool { max, average, average_with_padding };

inline Tensor pool_reference(Pool kind, const Tensor& x, const Windows& windows) {
  Extents in;
  const Extents shape = joined(x.shape[0], x.shape[1], windows.output(spatial_of(x.shape)));
  return tabulate(x.dtype, shape, [&](const Extents& y) {
    Real sum = 0, top = -infinity, count = 0;
    for_each_index(windows.window, [&](const Extents& place) {
      if (kind == Pool::average_with_padding) count += 1;
      if (!windows.find(spatial_of(y), place, spatial_of(x.shape), in)) return;
      const Real value = x.at(joined(y[0], y[1], in));
      if (kind == Pool::average) count += 1;
      sum += value;
      top = std::isnan(top) || std::isnan(value) ? not_a_number : std::fmax(top, value);
    });
    return kind == Pool::max ? top : sum / count;
  });
}

}  // namespace support
