// SPDX-License-Identifier: Apache-2.0
// Convolution through oneDNN, cut into pieces of the batch, and of the rows where samples are large, that run
// on one thread each. The cut depends on the problem alone, so that no sum depends on the number of threads.
#include "backends/cpu/onednn_conv.hpp"

#include <algorithm>

#include "backends/cpu/matmul_engine.hpp"
#include "backends/cpu/tensor_rows.hpp"
#include "core/text.hpp"
#include "stiletto/error.hpp"

namespace stiletto::detail::cpu {
namespace {

using dnnl::memory;

constexpr std::int64_t most_pieces = 64;
constexpr std::int64_t large_piece = 1 << 25, small_piece = 1 << 22;  // multiplications

std::int64_t multiplications_per_sample(const ConvProblem& p) {
  std::int64_t count = p.y.shape[1] * p.w.shape[1];
  for (std::size_t axis = 2; axis < p.w.shape.size(); ++axis) count *= p.w.shape[axis] * p.y.shape[axis];
  return count;
}

/// Rows of x that rows of y are made of, and the padding beside them.
ConvPiece piece_of(const ConvProblem& p, const TensorPart& y) {
  const std::int64_t stride = p.attributes.stride[0], extent = p.x.shape[2];
  const std::int64_t reach = p.attributes.dilation[0] * (p.w.shape[2] - 1) + 1;
  const std::int64_t first = y.first_row * stride - p.attributes.pre_padding[0];
  const std::int64_t last = (y.first_row + y.rows - 1) * stride - p.attributes.pre_padding[0] + reach;
  const std::int64_t from = std::clamp<std::int64_t>(first, 0, extent - 1);
  const std::int64_t to = std::clamp<std::int64_t>(last, from + 1, extent);
  return {{y.first_sample, y.samples, from, to - from}, y, from - first, last - to};
}

std::vector<ConvPiece> cut(const ConvProblem& p) {
  const std::int64_t samples = p.y.shape[0], rows = p.y.shape[2], work = multiplications_per_sample(p);
  std::int64_t samples_each = std::clamp<std::int64_t>(small_piece / work, 1, samples);
  samples_each = std::max(samples_each, ceil_divide(samples, most_pieces));
  std::int64_t row_pieces = 1;
  if (p.kind == ConvKind::forward && samples_each == 1)
    row_pieces =
        std::clamp<std::int64_t>(work / large_piece, 1, std::min(rows, ceil_divide(most_pieces, samples)));
  if (p.kind == ConvKind::filter_gradient) {  // each piece has weights of its own
    std::int64_t weights = 1;
    for (const std::int64_t extent : p.w.shape) weights *= extent;
    const std::int64_t pieces = std::clamp<std::int64_t>((1 << 22) / weights, 1, 16);
    samples_each = std::max(samples_each, ceil_divide(samples, pieces));
  }
  const std::int64_t rows_each = ceil_divide(rows, row_pieces);
  std::vector<ConvPiece> pieces;
  for (std::int64_t sample = 0; sample < samples; sample += samples_each)
    for (std::int64_t row = 0; row < rows; row += rows_each) {
      const TensorPart y{sample, std::min(samples_each, samples - sample), row,
                         std::min(rows_each, rows - row)};
      ConvPiece piece = piece_of(p, y);
      if (rows_each == rows) {  // the whole of x, whatever y does not reach
        piece.x.first_row = 0;
        piece.x.rows = p.x.shape[2];
        piece.pre_padding = p.attributes.pre_padding[0];
        piece.post_padding = p.attributes.post_padding[0];
      }
      pieces.push_back(piece);
    }
  return pieces;
}

std::int64_t elements_of(const ConvTensor& tensor, const TensorPart& part) {
  std::int64_t count = part.samples * tensor.shape[1] * part.rows;
  for (std::size_t axis = 3; axis < tensor.shape.size(); ++axis) count *= tensor.shape[axis];
  return count;
}

std::int64_t round_up(std::int64_t bytes) { return ceil_divide(bytes, 64) * 64; }

TensorView view_of(const ConvTensor& tensor, std::byte* data) {
  return {data, tensor.dtype, tensor.shape, tensor.strides};
}

/// x or y: where a piece lies as oneDNN reads or writes it.
struct Activations {
  TensorView view;
  memory::data_type type;
  bool in_place;

  Activations(const ConvTensor& tensor, std::byte* data, memory::data_type element)
      : view(view_of(tensor, data)),
        type(element),
        in_place(onednn_type(tensor.dtype) == element && is_channels_last(tensor.shape, tensor.strides)) {}

  std::byte* address(const TensorPart& part) const {
    const std::int64_t row = view.shape[2] == 1 ? 0 : part.first_row * view.strides[2];
    return element(view, (view.shape[0] == 1 ? 0 : part.first_sample * view.strides[0]) + row);
  }
  std::byte* input(const TensorPart& part, std::byte* buffer) const {
    if (in_place) return address(part);
    if (type == memory::data_type::f32)
      pack_channels_last(reinterpret_cast<float*>(buffer), view, part);
    else
      pack_channels_last(reinterpret_cast<std::uint16_t*>(buffer), view, part);
    return buffer;
  }
  std::byte* output(const TensorPart& part, std::byte* buffer) const {
    return in_place ? address(part) : buffer;
  }
  void finish(const TensorPart& part, const std::byte* buffer) const {
    if (in_place) return;
    if (type == memory::data_type::f32)
      unpack_channels_last(view, part, reinterpret_cast<const float*>(buffer));
    else
      unpack_channels_last(view, part, reinterpret_cast<const std::uint16_t*>(buffer));
  }
};

class OnednnConv final : public ConvPlan {
 public:
  OnednnConv(const ConvProblem& problem, memory::data_type type, memory::data_type result)
      : p_(problem), type_(type), result_(result) {}
  /// False where oneDNN refuses a piece.
  bool prepare();
  void execute(const ConvPointers& pointers, const Finish& finish) const override;

 private:
  bool prepare_weights();
  const void* packed_weights(std::byte* w) const;
  void run_piece(std::size_t index, const ConvPointers& pointers, const void* weights, float* sums,
                 const Finish& finish) const;
  void write_weights(std::byte* w, float* sums) const;

  ConvProblem p_;
  memory::data_type type_, result_;
  std::vector<ConvPiece> pieces_;
  std::vector<PieceCall> calls_;            // one per shape
  std::vector<std::size_t> call_of_piece_;  // by piece
  std::optional<WeightsDescriptor> weights_;
  std::unique_ptr<OnednnCall> reorder_;  // between weights in memory and those of oneDNN
  bool weights_in_place_ = false;        // else they are copied in row-major order first
  std::int64_t weight_count_ = 1, weights_bytes_ = 0;
};

bool OnednnConv::prepare() {
  check_onednn_is_there();
  const OnednnOnOneThread alone;
  pieces_ = cut(p_);
  for (const ConvPiece& piece : pieces_) {
    const auto same = [&](const PieceCall& call) { return call.shape.same_shape(piece); };
    auto found = std::find_if(calls_.begin(), calls_.end(), same);
    if (found == calls_.end()) {
      auto call = make_piece_call(p_, type_, result_, piece, weights_);
      if (!call) return false;
      calls_.push_back(std::move(*call));
      found = calls_.end() - 1;
    }
    call_of_piece_.push_back(static_cast<std::size_t>(found - calls_.begin()));
  }
  return prepare_weights();
}

bool OnednnConv::prepare_weights() {
  const bool filter = p_.kind == ConvKind::filter_gradient;
  const memory::data_type type = filter ? memory::data_type::f32 : type_;
  for (const std::int64_t extent : p_.w.shape) weight_count_ *= extent;
  weights_bytes_ = static_cast<std::int64_t>(weights_->get_size());
  weights_in_place_ = onednn_type(p_.w.dtype) == type;
  for (std::size_t axis = 0; axis < p_.w.shape.size(); ++axis)
    weights_in_place_ = weights_in_place_ && p_.w.strides[axis] > 0;
  const memory::desc plain = plain_weights(p_, type, !weights_in_place_);
  const auto make = [&] {
    return filter ? dnnl::reorder::primitive_desc(onednn_engine(), *weights_, onednn_engine(), plain)
                  : dnnl::reorder::primitive_desc(onednn_engine(), plain, onednn_engine(), *weights_);
  };
  const auto description = unless_refused(make);
  if (!description) return false;
  reorder_ = std::make_unique<OnednnCall>(
      dnnl::reorder(*description), std::vector<int>{DNNL_ARG_FROM, DNNL_ARG_TO},
      filter ? std::vector<memory::desc>{*weights_, plain} : std::vector<memory::desc>{plain, *weights_});
  return true;
}

const void* OnednnConv::packed_weights(std::byte* w) const {
  const std::int64_t copy = weights_in_place_ ? 0 : round_up(weight_count_ * 4);
  std::byte* const packed =
      scratch_bytes(ScratchPlace::weights, static_cast<std::size_t>(weights_bytes_ + copy));
  const std::byte* from = w;
  if (!weights_in_place_) {
    std::byte* const plain = packed + round_up(weights_bytes_);
    const TensorView view = view_of(p_.w, w);
    if (type_ == memory::data_type::f32) {
      load_all(reinterpret_cast<float*>(plain), view);
    } else {
      const AxisGroup group = axis_group(view, 0, view.shape.size());
      for_each_run(group, 0, group.count,
                   [&](std::int64_t done, std::int64_t offset, std::int64_t stride, std::int64_t n) {
                     kernels().gather[1](plain + 2 * done, element(view, offset), stride,
                                         static_cast<std::size_t>(n));
                   });
    }
    from = plain;
  }
  reorder_->execute({from, packed});
  return packed;
}

void OnednnConv::run_piece(std::size_t index, const ConvPointers& pointers, const void* weights, float* sums,
                           const Finish& finish) const {
  const ConvPiece& piece = pieces_[index];
  const PieceCall& call = calls_[call_of_piece_[index]];
  const bool data = p_.kind == ConvKind::data_gradient, filter = p_.kind == ConvKind::filter_gradient;
  const Activations x(p_.x, pointers.x, data ? result_ : type_);
  const Activations y(p_.y, pointers.y, p_.kind == ConvKind::forward ? result_ : type_);
  const std::int64_t x_bytes = round_up(4 * elements_of(p_.x, piece.x));
  const std::int64_t y_bytes = round_up(4 * elements_of(p_.y, piece.y));
  std::byte* const x_buffer = scratch_bytes(ScratchPlace::task, static_cast<std::size_t>(x_bytes + y_bytes));
  std::byte* const y_buffer = x_buffer + x_bytes;
  const std::byte* const scratchpad = scratch_bytes(ScratchPlace::workspace, call.scratchpad);
  if (filter) {
    float* const own = sums + static_cast<std::int64_t>(index) * weights_bytes_ / 4;
    call.call->execute({y.input(piece.y, y_buffer), own, x.input(piece.x, x_buffer), scratchpad});
  } else if (data) {
    call.call->execute({y.input(piece.y, y_buffer), weights, x.output(piece.x, x_buffer), scratchpad});
    x.finish(piece.x, x_buffer);
  } else {
    call.call->execute({x.input(piece.x, x_buffer), weights, y.output(piece.y, y_buffer), scratchpad});
    y.finish(piece.y, y_buffer);
    if (finish) finish(part_of(p_.y.shape, piece.y));
  }
}

/// The pieces' sums lie alike, so they are added before they are put in order.
void OnednnConv::write_weights(std::byte* w, float* sums) const {
  const std::int64_t count = weights_bytes_ / 4;
  for_each_piece(count, std::ssize(pieces_), [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t piece = 1; piece < std::ssize(pieces_); ++piece)
      for (std::int64_t i = first; i < last; ++i) sums[i] += sums[piece * count + i];
  });
  if (weights_in_place_) return reorder_->execute({sums, w});
  float* const plain = scratch<float>(ScratchPlace::weights, weight_count_);
  reorder_->execute({sums, plain});
  store_all(view_of(p_.w, w), static_cast<const float*>(plain));
}

void OnednnConv::execute(const ConvPointers& pointers, const Finish& finish) const {
  try {
    const bool filter = p_.kind == ConvKind::filter_gradient;
    float* const sums =
        filter ? scratch<float>(ScratchPlace::staging, std::ssize(pieces_) * (weights_bytes_ / 4)) : nullptr;
    const void* const weights = filter ? nullptr : packed_weights(pointers.w);
    parallel_for(pieces_.size(),
                 [&](std::size_t index) { run_piece(index, pointers, weights, sums, finish); });
    if (filter) write_weights(pointers.w, sums);
  } catch (const dnnl::error& error) {
    throw_ours(error);
  }
}

/// bfloat16 is multiplied in pairs of channels. Where their number is odd, oneDNN 3.2 pairs the last one with
/// what lies behind it, times 0, which spreads infinity and NaN.
bool sums_pairs(const ConvProblem& p) {
  if (p.kind == ConvKind::filter_gradient) return true;
  const std::int64_t channels = p.kind == ConvKind::data_gradient ? p.w.shape[0] / p.groups() : p.w.shape[1];
  return channels % 2 == 0;
}

}  // namespace

std::unique_ptr<const ConvPlan> make_onednn_conv(const ConvProblem& p) {
  const bool data = p.kind == ConvKind::data_gradient, filter = p.kind == ConvKind::filter_gradient;
  const ConvTensor &in = data ? p.y : p.x, &other = filter ? p.y : p.w;
  const ConvTensor& out = data ? p.x : filter ? p.w : p.y;
  if (conv_operand_type(in.dtype, other.dtype) != DType::float32) return nullptr;
  const bool narrow = in.dtype == DType::bfloat16 && other.dtype == DType::bfloat16 &&
                      onednn_multiplies_bfloat16() && sums_pairs(p);
  const memory::data_type type = narrow ? memory::data_type::bf16 : memory::data_type::f32;
  const memory::data_type result =
      narrow && out.dtype == DType::bfloat16 && !filter ? memory::data_type::bf16 : memory::data_type::f32;
  auto plan = std::make_unique<OnednnConv>(p, type, result);
  return plan->prepare() ? std::move(plan) : nullptr;
}

}  // namespace stiletto::detail::cpu
