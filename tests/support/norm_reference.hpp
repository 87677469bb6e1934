// SPDX-License-Identifier: Apache-2.0
// Normalisations and their gradients by definition. A tensor is seen as groups of elements that are
// normalised together, each element with its place among the parameters.
#pragma once
#include <functional>

#include "support/tensor.hpp"

namespace support {

/// Where an element belongs: `group` of those normalised together, `parameter` of scale and bias.
struct Place {
  std::size_t group, parameter;
};
using Grouping = std::function<Place(std::size_t)>;

/// Over the trailing axes that the parameters span.
inline Grouping trailing(std::size_t parameters) {
  return [=](std::size_t i) { return Place{i / parameters, i % parameters}; };
}
/// Per channel of (batch, channels, spatial…).
inline Grouping per_channel(const Extents& shape) {
  std::size_t spatial = 1;
  for (std::size_t i = 2; i < shape.size(); ++i) spatial *= static_cast<std::size_t>(shape[i]);
  const auto channels = static_cast<std::size_t>(shape[1]);
  return [=](std::size_t i) { return Place{i / spatial % channels, i / spatial % channels}; };
}

struct Moments {
  std::vector<Real> mean, inverse, variance;  // of each group; mean 0 where it is not subtracted
  std::vector<Real> count;
};

inline Moments moments(const Tensor& x, std::size_t groups, const Grouping& at, Real epsilon, bool centred) {
  Moments m{std::vector<Real>(groups), std::vector<Real>(groups), std::vector<Real>(groups),
            std::vector<Real>(groups)};
  for (std::size_t i = 0; i < x.size(); ++i) {
    m.count[at(i).group] += 1;
    if (centred) m.mean[at(i).group] += x.values[i];
  }
  for (std::size_t g = 0; g < groups; ++g) m.mean[g] /= m.count[g];
  for (std::size_t i = 0; i < x.size(); ++i) {
    const Real d = x.values[i] - m.mean[at(i).group];
    m.variance[at(i).group] += d * d;
  }
  for (std::size_t g = 0; g < groups; ++g) {
    m.variance[g] /= m.count[g];
    m.inverse[g] = 1 / std::sqrt(m.variance[g] + epsilon);
  }
  return m;
}

inline Tensor normalised(const Tensor& x, const Moments& m, const Grouping& at,
                         const std::vector<Real>& scale, const std::vector<Real>& bias) {
  Tensor y(x.dtype, x.shape);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const auto [g, p] = at(i);
    y.values[i] = (x.values[i] - m.mean[g]) * m.inverse[g] * scale[p] + (bias.empty() ? 0 : bias[p]);
  }
  return y;
}

struct NormDerivatives {
  Tensor dx;
  std::vector<Real> dscale, dbias;
};

inline NormDerivatives norm_gradients(const Tensor& d_y, const Tensor& x, const Moments& m,
                                      const Grouping& at, const std::vector<Real>& scale, bool centred) {
  NormDerivatives d{Tensor(x.dtype, x.shape), std::vector<Real>(scale.size()),
                    std::vector<Real>(scale.size())};
  std::vector<Real> along(m.mean.size()), total(m.mean.size());
  const auto hat = [&](std::size_t i) {
    return (x.values[i] - m.mean[at(i).group]) * m.inverse[at(i).group];
  };
  for (std::size_t i = 0; i < x.size(); ++i) {
    const auto [g, p] = at(i);
    along[g] += d_y.values[i] * scale[p] * hat(i);
    total[g] += d_y.values[i] * scale[p];
    d.dscale[p] += d_y.values[i] * hat(i);
    d.dbias[p] += d_y.values[i];
  }
  for (std::size_t i = 0; i < x.size(); ++i) {
    const auto [g, p] = at(i);
    const Real centre = centred ? total[g] / m.count[g] : 0;
    d.dx.values[i] = m.inverse[g] * (d_y.values[i] * scale[p] - centre - hat(i) * along[g] / m.count[g]);
  }
  return d;
}

}  // namespace support
