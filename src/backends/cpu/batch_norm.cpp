// SPDX-License-Identifier: Apache-2.0
// Batch normalisation in training and its gradients, per channel (axis 1) over all other axes. A task takes a
// few channels over part of the samples; partial sums are added in the order of the parts, whose number
// depends on the shape alone.
#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "backends/cpu/norm_loops.hpp"
#include "backends/cpu/norm_rows.hpp"

namespace stiletto::detail::cpu {
namespace {

using Views = std::span<const TensorView>;

/// Of one channel, so that a group of adjacent channels stays in a cache while each is read in turn.
constexpr std::int64_t piece_samples = 512;

/// A tensor as channels by samples, the batch and spatial axes.
struct Channels {
  explicit Channels(const TensorView& v) : view(v), channel_stride(v.strides[1]) {
    Dims extents, strides;
    for (std::size_t axis = 0; axis < v.shape.size(); ++axis)
      if (axis != 1) {
        extents.push_back(v.shape[axis]);
        strides.push_back(v.strides[axis]);
      }
    samples = axis_group(extents, strides);
  }
  const TensorView& view;
  std::int64_t channel_stride;
  AxisGroup samples;
};

/// How the work is cut: channels that lie beside each other are read together.
struct Cut {
  std::int64_t channels, samples, group, part;  // group: channels of a task; part: samples of one

  explicit Cut(const Channels& x)
      : channels(x.view.shape[1]),
        samples(x.samples.count),
        group(std::abs(x.channel_stride) == 1 && channels > 1 ? std::min<std::int64_t>(16, channels) : 1) {
    const std::int64_t parts =
        std::clamp<std::int64_t>(group * samples / (1 << 15), 1, std::max<std::int64_t>(1, 256 / channels));
    part = ceil_divide(samples, parts);
  }
  std::int64_t parts() const { return ceil_divide(samples, part); }
  std::int64_t groups() const { return ceil_divide(channels, group); }

  /// f(channel, part, first, n) for pieces of samples, on all threads; those of one channel and part come in
  /// order, from one task.
  template <class F>
  void for_each(const F& f) const {
    for_each_piece(groups() * parts(), group * part, [&](std::int64_t first_task, std::int64_t last_task) {
      for (std::int64_t task = first_task; task < last_task; ++task) run(task, f);
    });
  }

 private:
  template <class F>
  void run(std::int64_t task, const F& f) const {
    const std::int64_t channel = task / parts() * group, index = task % parts();
    const std::int64_t last_channel = std::min(channels, channel + group);
    const std::int64_t last = std::min(samples, (index + 1) * part);
    for (std::int64_t first = index * part; first < last; first += piece_samples)
      for (std::int64_t c = channel; c < last_channel; ++c)
        f(c, index, first, std::min(piece_samples, last - first));
  }
};

/// Adds up over the parts: sums[part][channel] for each part, into those of the first.
void add_parts(double* sums, const Cut& cut) {
  for (std::int64_t part = 1; part < cut.parts(); ++part)
    for (std::int64_t c = 0; c < cut.channels; ++c) sums[c] += sums[part * cut.channels + c];
}

template <class T>
T* piece_buffer(std::int64_t index) {
  return scratch<T>(ScratchPlace::task, 3 * piece_samples) + index * piece_samples;
}

template <class T>
const T* piece_of(const Channels& x, std::int64_t channel, std::int64_t first, std::int64_t n, T* buffer) {
  return read(x.view, channel * x.channel_stride, x.samples, first, n, buffer);
}

/// compute(to) fills a piece of a result.
template <class T, class Compute>
void write_piece(const Channels& y, std::int64_t channel, std::int64_t first, std::int64_t n,
                 const Compute& compute) {
  const std::int64_t base = channel * y.channel_stride;
  T* const to = target(y.view, base, y.samples, first, piece_buffer<T>(2));
  compute(to);
  write(y.view, base, y.samples, first, n, to);
}

/// `means` and `squares`: of each channel, with place for the partial sums of each part.
template <class T>
void statistics(const Channels& x, const Cut& cut, double* means, double* squares) {
  std::fill_n(means, cut.parts() * cut.channels, 0.0);
  std::fill_n(squares, cut.parts() * cut.channels, 0.0);
  cut.for_each([&](std::int64_t c, std::int64_t part, std::int64_t first, std::int64_t n) {
    const T* const values = piece_of(x, c, first, n, piece_buffer<T>(0));
    means[part * cut.channels + c] += NormLoops<T>::sum(values, n);
  });
  add_parts(means, cut);
  for (std::int64_t c = 0; c < cut.channels; ++c) means[c] /= static_cast<double>(cut.samples);
  cut.for_each([&](std::int64_t c, std::int64_t part, std::int64_t first, std::int64_t n) {
    const T* const values = piece_of(x, c, first, n, piece_buffer<T>(0));
    squares[part * cut.channels + c] += NormLoops<T>::squares(values, n, Mean<T>::of(means[c]));
  });
  add_parts(squares, cut);
}

/// next = (1 − momentum)·running + momentum·batch
void update_running(const TensorView& next, const TensorView& running, std::int64_t c, double momentum,
                    double batch) {
  if (next.data == nullptr) return;
  const auto before = load_one<double>(running, c * running.strides[0]);
  store_one(next, c * next.strides[0], (1 - momentum) * before + momentum * batch);
}

template <class T>
void training(const NormAttributes& attributes, Views operands, Views results) {
  const Channels x(operands[0]);
  const Cut cut(x);
  double* const means = scratch<double>(ScratchPlace::kernel, (2 * cut.parts() + 2) * cut.channels);
  double* const squares = means + cut.parts() * cut.channels;
  double* const factors = squares + cut.parts() * cut.channels;
  double* const biases = factors + cut.channels;
  statistics<T>(x, cut, means, squares);
  const auto count = static_cast<double>(cut.samples);
  for (std::int64_t c = 0; c < cut.channels; ++c) {
    const double inv = 1 / std::sqrt(squares[c] / count + attributes.epsilon.value);
    const double unbiased = squares[c] / std::max(1.0, count - 1);
    factors[c] = inv * load_one<double>(operands[1], c * operands[1].strides[0]);
    biases[c] = load_one<double>(operands[2], c * operands[2].strides[0]);
    store_one(results[1], c * results[1].strides[0], means[c]);
    store_one(results[2], c * results[2].strides[0], inv);
    update_running(results[3], operands[3], c, attributes.momentum.value, means[c]);
    update_running(results[4], operands[4], c, attributes.momentum.value, unbiased);
  }
  if (results[0].data == nullptr) return;
  const Channels y(results[0]);
  cut.for_each([&](std::int64_t c, std::int64_t, std::int64_t first, std::int64_t n) {
    const T* const values = piece_of(x, c, first, n, piece_buffer<T>(0));
    write_piece<T>(y, c, first, n, [&](T* to) {
      NormLoops<T>::transform(to, values, n, Mean<T>::of(means[c]), static_cast<T>(factors[c]),
                              static_cast<T>(biases[c]));
    });
  });
}

template <class T>
void backward(Views operands, Views results) {
  const Channels dy(operands[0]), x(operands[1]);
  const Cut cut(x);
  const std::int64_t size = cut.parts() * cut.channels;
  double* const sums = scratch<double>(ScratchPlace::kernel, 2 * size);
  double* const products = sums + size;
  std::fill_n(sums, 2 * size, 0.0);
  const auto of_channel = [&](std::size_t operand, std::int64_t c) {
    return load_one<double>(operands[operand], c * operands[operand].strides[0]);
  };
  cut.for_each([&](std::int64_t c, std::int64_t part, std::int64_t first, std::int64_t n) {
    const T* const gradients = piece_of(dy, c, first, n, piece_buffer<T>(0));
    const T* const values = piece_of(x, c, first, n, piece_buffer<T>(1));
    double both[2] = {0, 0};
    NormLoops<T>::add_gradient_sums(both, gradients, values, nullptr, n, static_cast<T>(of_channel(3, c)));
    sums[part * cut.channels + c] += both[0];
    products[part * cut.channels + c] += both[1];
  });
  add_parts(sums, cut);
  add_parts(products, cut);
  for (std::int64_t c = 0; c < cut.channels; ++c) {
    store_one(results[1], c * results[1].strides[0], products[c] * of_channel(4, c));
    store_one(results[2], c * results[2].strides[0], sums[c]);
  }
  if (results[0].data == nullptr) return;
  const Channels dx(results[0]);
  const auto count = static_cast<double>(cut.samples);
  cut.for_each([&](std::int64_t c, std::int64_t, std::int64_t first, std::int64_t n) {
    const T* const gradients = piece_of(dy, c, first, n, piece_buffer<T>(0));
    const T* const values = piece_of(x, c, first, n, piece_buffer<T>(1));
    const double inv = of_channel(4, c);
    const typename NormLoops<T>::Gradient by{
        static_cast<T>(of_channel(3, c)), static_cast<T>(sums[c] / count),
        static_cast<T>(inv * inv * (products[c] / count)), static_cast<T>(inv * of_channel(2, c))};
    write_piece<T>(dx, c, first, n,
                   [&](T* to) { NormLoops<T>::gradient(to, gradients, values, nullptr, n, by); });
  });
}

}  // namespace

void batch_norm_training(const Attributes& attributes, Views operands, Views results) {
  const auto& norm = std::get<NormAttributes>(attributes);
  if (operands[0].dtype == DType::float64)
    training<double>(norm, operands, results);
  else
    training<float>(norm, operands, results);
}

void batch_norm_backward(const Attributes&, Views operands, Views results) {
  if (operands[0].dtype == DType::float64)
    backward<double>(operands, results);
  else
    backward<float>(operands, results);
}

}  // namespace stiletto::detail::cpu
