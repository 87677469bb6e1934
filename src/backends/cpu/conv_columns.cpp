// SPDX-License-Identifier: Apache-2.0
// Convolution by matrix products, for every dtype and layout: float64, integers and what oneDNN refuses. A
// task multiplies a block of output positions of one sample and group, or, for the gradient by the weights, a
// block of input channels over all samples in order.
#include "backends/cpu/conv_columns.hpp"

#include <algorithm>

#include "backends/cpu/channels_last.hpp"
#include "backends/cpu/matmul.hpp"

namespace stiletto::detail::cpu {

ConvMap::ConvMap(const ConvProblem& problem, bool from_y) {
  out = in = window = {1, 1, 1};
  std::array<std::int64_t, 3> stride{1, 1, 1}, dilation{1, 1, 1}, padding{0, 0, 0};
  const std::size_t axes = problem.spatial_axes();
  const ConvAttributes& attributes = problem.attributes;
  for (std::size_t axis = 0; axis < axes; ++axis) {
    const std::size_t at = 3 - axes + axis;
    out[at] = (from_y ? problem.y : problem.x).shape[2 + axis];
    in[at] = (from_y ? problem.x : problem.y).shape[2 + axis];
    window[at] = problem.w.shape[2 + axis];
    stride[at] = attributes.stride[axis];
    dilation[at] = attributes.dilation[axis];
    padding[at] = attributes.pre_padding[axis];
  }
  for (std::size_t axis = 0; axis < 3; ++axis)
    for (std::int64_t tap = 0; tap < window[axis]; ++tap)
      for (std::int64_t position = 0; position < out[axis]; ++position) {
        const std::int64_t shift = tap * dilation[axis] - padding[axis];
        const std::int64_t step = stride[axis];
        std::int64_t at = from_y ? position * step + shift : position - shift;
        if (!from_y) at = at % step == 0 ? at / step : -1;
        sources_[axis].push_back(at >= 0 && at < in[axis] ? at : -1);
      }
}

namespace {

constexpr std::int64_t column_elements = 1 << 16;  // of a block, about: what a second-level cache holds

/// Calls f with a null pointer to the type of an operand's elements.
template <class F>
void with_type(DType dtype, const F& f) {
  switch (dtype) {
    case DType::float32:
      return f(static_cast<float*>(nullptr));
    case DType::float64:
      return f(static_cast<double*>(nullptr));
    case DType::int8:
      return f(static_cast<std::int8_t*>(nullptr));
    case DType::uint8:
      return f(static_cast<std::uint8_t*>(nullptr));
    case DType::int32:
      return f(static_cast<std::int32_t*>(nullptr));
    default:
      return f(static_cast<std::int64_t*>(nullptr));
  }
}

/// load_run for bytes, too, which stay as they are.
template <class T>
void load_elements(T* out, const TensorView& view, std::int64_t offset, std::int64_t stride, std::int64_t n) {
  const std::byte* const from = element(view, offset);
  if constexpr (sizeof(T) == 1) {
    kernels().gather[0](out, from, stride, static_cast<std::size_t>(n));
  } else {
    load_run(out, view.dtype, from, stride, n);
  }
}

/// A group of channels by the spatial axes of a tensor, from `channel` on.
AxisGroup channel_group(const TensorView& view, std::int64_t channels) {
  Dims extents{channels}, strides{view.strides[1]};
  for (std::size_t axis = 2; axis < view.shape.size(); ++axis) {
    extents.push_back(view.shape[axis]);
    strides.push_back(view.strides[axis]);
  }
  return axis_group(extents, strides);
}

/// Elements first to first + n − 1 of the group that starts at `base`.
template <class T>
void load_group(T* out, const TensorView& view, std::int64_t base, const AxisGroup& group, std::int64_t first,
                std::int64_t n) {
  for_each_run(group, first, n,
               [&](std::int64_t done, std::int64_t offset, std::int64_t stride, std::int64_t count) {
                 load_elements(out + done, view, base + offset, stride, count);
               });
}

class ColumnConv final : public ConvPlan {
 public:
  explicit ColumnConv(const ConvProblem& problem);
  void execute(const ConvPointers& pointers, const Finish& finish) const override;

 private:
  template <class In, class Weight, class Sum>
  void positions(const TensorView& in, const TensorView& w, const TensorView& out) const;
  template <class In, class Sum>
  void filter(const TensorView& x, const TensorView& y, const TensorView& w) const;
  template <class T>
  ConvOperand<T> operand(const TensorView& view) const;
  template <class T>
  const T* pack_weights(const TensorView& w) const;
  template <class Sum>
  void store_block(const TensorView& out, std::int64_t base, std::int64_t first, std::int64_t n,
                   const Sum* sums) const;
  std::unique_ptr<const Matmul> product(std::int64_t positions, std::int64_t channels) const;
  const Matmul& product_for(const ConvBlock& block) const;

  ConvProblem p_;
  bool filter_;
  ConvMap map_;
  DType in_type_, other_type_, sum_type_;
  std::int64_t groups_, in_channels_, out_channels_;  // of a group
  std::int64_t rows_, block_rows_, block_channels_;
  // by whether the block has the full number of rows, and of channels
  std::array<std::array<std::unique_ptr<const Matmul>, 2>, 2> products_;
};

ColumnConv::ColumnConv(const ConvProblem& problem)
    : p_(problem),
      filter_(p_.kind == ConvKind::filter_gradient),
      map_(p_, p_.kind != ConvKind::data_gradient),
      groups_(p_.groups()) {
  const bool data = p_.kind == ConvKind::data_gradient;
  const ConvTensor &in = data ? p_.y : p_.x, &other = filter_ ? p_.y : p_.w;
  in_type_ = conv_operand_type(in.dtype, other.dtype);
  other_type_ = conv_operand_type(other.dtype, in.dtype);
  sum_type_ = product_dtype(other_type_, in_type_);
  in_channels_ = in.shape[1] / groups_;
  out_channels_ = (data ? p_.x : p_.y).shape[1] / groups_;
  rows_ = map_.out[0] * map_.out[1];
  const std::int64_t window = map_.window_size();
  block_channels_ = filter_ ? std::clamp<std::int64_t>(64 / window, 1, in_channels_) : in_channels_;
  block_rows_ =
      std::clamp<std::int64_t>(column_elements / (block_channels_ * window * map_.out[2]), 1, rows_);
  for (const bool all_rows : {false, true})
    for (const bool all_channels : {false, true}) {
      const std::int64_t rows = all_rows ? block_rows_ : rows_ % block_rows_;
      const std::int64_t channels = all_channels ? block_channels_ : in_channels_ % block_channels_;
      if (rows != 0 && channels != 0)
        products_[all_rows][all_channels] = product(rows * map_.out[2], channels);
    }
}

/// Forward and data gradient: (out channels, window) · (window, positions). Filter gradient: (out channels,
/// positions) · (positions, window), whose right side lies as the columns do.
std::unique_ptr<const Matmul> ColumnConv::product(std::int64_t positions, std::int64_t channels) const {
  const std::int64_t terms = channels * map_.window_size();
  MatmulProblem problem;
  problem.m = out_channels_;
  problem.n = filter_ ? terms : positions;
  problem.k = filter_ ? positions : terms;
  problem.a = {other_type_, {problem.k, 1}};
  problem.b = {in_type_, {filter_ ? 1 : positions, filter_ ? positions : 1}};
  problem.c = {sum_type_, {problem.n, 1}};
  return make_matmul(problem);
}

const Matmul& ColumnConv::product_for(const ConvBlock& block) const {
  return *products_[block.rows == block_rows_][block.channels == block_channels_];
}

/// In place where the elements have the type, else a copy in row-major order.
template <class T>
ConvOperand<T> ColumnConv::operand(const TensorView& view) const {
  const std::size_t axes = p_.spatial_axes();
  ConvOperand<T> result{reinterpret_cast<const T*>(view.data), view.strides[0], view.strides[1], {0, 0, 0}};
  if (view.dtype == in_type_) {
    for (std::size_t axis = 0; axis < axes; ++axis) result.spatial[3 - axes + axis] = view.strides[2 + axis];
    return result;
  }
  const std::int64_t size = map_.in_size(), planes = view.shape[0] * view.shape[1];
  T* const copy = scratch<T>(ScratchPlace::staging, planes * size);
  const AxisGroup group = channel_group(view, 1);
  for_each_piece(planes, size, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t plane = first; plane < last; ++plane) {
      const std::int64_t sample = plane / view.shape[1], channel = plane % view.shape[1];
      load_group(copy + plane * size, view, sample * view.strides[0] + channel * view.strides[1], group, 0,
                 size);
    }
  });
  return {copy, view.shape[1] * size, size, {map_.in[1] * map_.in[2], map_.in[2], 1}};
}

/// (group, out channel, in channel, window) in row-major order.
template <class T>
const T* ColumnConv::pack_weights(const TensorView& w) const {
  const bool data = p_.kind == ConvKind::data_gradient;
  const std::int64_t window = map_.window_size(), row = in_channels_ * window;
  T* const packed = scratch<T>(ScratchPlace::weights, groups_ * out_channels_ * row);
  const std::int64_t first_axis = data ? in_channels_ : out_channels_;
  const AxisGroup elements = channel_group(w, 1);
  for_each_piece(groups_ * out_channels_, row, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t out = first; out < last; ++out)
      for (std::int64_t in = 0; in < in_channels_; ++in) {
        const std::int64_t group = out / out_channels_, within = out % out_channels_;
        const std::int64_t outer = group * first_axis + (data ? in : within), inner = data ? within : in;
        load_group(packed + out * row + in * window, w, outer * w.strides[0] + inner * w.strides[1], elements,
                   0, window);
      }
  });
  return packed;
}

template <class Sum>
void ColumnConv::store_block(const TensorView& out, std::int64_t base, std::int64_t first, std::int64_t n,
                             const Sum* sums) const {
  const AxisGroup positions = channel_group(out, 1);
  for (std::int64_t channel = 0; channel < out_channels_; ++channel)
    for_each_run(positions, first, n,
                 [&](std::int64_t done, std::int64_t offset, std::int64_t stride, std::int64_t count) {
                   store_run(out.dtype, element(out, base + channel * out.strides[1] + offset), stride,
                             sums + channel * n + done, count);
                 });
}

/// The forward pass and the gradient by the data.
template <class In, class Weight, class Sum>
void ColumnConv::positions(const TensorView& in, const TensorView& w, const TensorView& out) const {
  const ConvOperand<In> from = operand<In>(in);
  const Weight* const weights = pack_weights<Weight>(w);
  const std::int64_t terms = in_channels_ * map_.window_size(), blocks = ceil_divide(rows_, block_rows_);
  parallel_for(static_cast<std::size_t>(out.shape[0] * groups_ * blocks), [&](std::size_t task) {
    const std::int64_t index = static_cast<std::int64_t>(task);
    const std::int64_t sample = index / blocks / groups_, group = index / blocks % groups_;
    const std::int64_t row = index % blocks * block_rows_;
    const ConvBlock block{row, std::min(block_rows_, rows_ - row), group * in_channels_, in_channels_};
    const std::int64_t count = block.rows * map_.out[2];
    In* const columns = scratch<In>(ScratchPlace::task, terms * count);
    fill_columns(columns, map_, from, sample, block);
    Sum* const sums = scratch<Sum>(ScratchPlace::columns, out_channels_ * count);
    const Matmul& product = product_for(block);
    product.execute(weights + group * out_channels_ * terms, columns, sums, {}, {},
                    scratch_bytes(ScratchPlace::workspace, product.workspace()));
    store_block(out, sample * out.strides[0] + group * out_channels_ * out.strides[1], row * map_.out[2],
                count, sums);
  });
}

template <class In, class Sum>
void ColumnConv::filter(const TensorView& x, const TensorView& y, const TensorView& w) const {
  const ConvOperand<In> from = operand<In>(x);
  const std::int64_t window = map_.window_size(), blocks = ceil_divide(in_channels_, block_channels_);
  const AxisGroup y_positions = channel_group(y, 1), taps = channel_group(w, 1);
  const std::int64_t most_positions = block_rows_ * map_.out[2], most_terms = block_channels_ * window;
  parallel_for(static_cast<std::size_t>(groups_ * blocks), [&](std::size_t task) {
    const std::int64_t group = static_cast<std::int64_t>(task) / blocks;
    const std::int64_t channel = static_cast<std::int64_t>(task) % blocks * block_channels_;
    const std::int64_t channels = std::min(block_channels_, in_channels_ - channel);
    const std::int64_t size = out_channels_ * channels * window;
    In* const columns = scratch<In>(ScratchPlace::task, (most_terms + out_channels_) * most_positions);
    In* const gradients = columns + most_terms * most_positions;
    double* const totals = scratch<double>(ScratchPlace::columns, 2 * size);
    Sum* const sums = reinterpret_cast<Sum*>(totals + size);
    std::fill_n(totals, size, 0.0);
    for (std::int64_t sample = 0; sample < x.shape[0]; ++sample)
      for (std::int64_t row = 0; row < rows_; row += block_rows_) {
        const ConvBlock block{row, std::min(block_rows_, rows_ - row), group * in_channels_ + channel,
                              channels};
        const std::int64_t count = block.rows * map_.out[2];
        fill_columns(columns, map_, from, sample, block);
        for (std::int64_t out = 0; out < out_channels_; ++out)
          load_group(gradients + out * count, y,
                     sample * y.strides[0] + (group * out_channels_ + out) * y.strides[1], y_positions,
                     row * map_.out[2], count);
        const Matmul& product = product_for(block);
        product.execute(gradients, columns, sums, {}, {},
                        scratch_bytes(ScratchPlace::workspace, product.workspace()));
        for (std::int64_t i = 0; i < size; ++i) totals[i] += static_cast<double>(sums[i]);
      }
    for (std::int64_t out = 0; out < out_channels_; ++out)
      for (std::int64_t c = 0; c < channels; ++c)
        write(w, (group * out_channels_ + out) * w.strides[0] + (channel + c) * w.strides[1], taps, 0, window,
              totals + (out * channels + c) * window);
  });
}

TensorView view_of(const ConvTensor& tensor, std::byte* data) {
  return {data, tensor.dtype, tensor.shape, tensor.strides};
}

void ColumnConv::execute(const ConvPointers& pointers, const Finish& finish) const {
  const TensorView x = view_of(p_.x, pointers.x), w = view_of(p_.w, pointers.w),
                   y = view_of(p_.y, pointers.y);
  const bool data = p_.kind == ConvKind::data_gradient;
  with_type(in_type_, [&]<class In>(In*) {
    using Sum = std::conditional_t<sizeof(In) == 1, std::int32_t, In>;
    if (filter_)
      filter<In, Sum>(x, y, w);
    else
      with_type(other_type_, [&]<class Weight>(Weight*) {
        if constexpr (sizeof(Weight) == sizeof(In)) positions<In, Weight, Sum>(data ? y : x, w, data ? x : y);
      });
  });
  if (!finish) return;
  const auto samples = static_cast<std::size_t>(p_.y.shape[0]);
  parallel_for(samples, [&](std::size_t sample) {
    finish(part_of(p_.y.shape, {static_cast<std::int64_t>(sample), 1, 0, p_.y.shape[2]}));
  });
}

}  // namespace

std::unique_ptr<const ConvPlan> make_column_conv(const ConvProblem& problem) {
  return std::make_unique<ColumnConv>(problem);
}

}  // namespace stiletto::detail::cpu
