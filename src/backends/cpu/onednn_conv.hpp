// SPDX-License-Identifier: Apache-2.0
// A convolution of part of the batch by oneDNN, with the channels innermost: its primitive, and its memory
// objects. Included by onednn_conv*.cpp only.
#pragma once
#include <atomic>
#include <cstddef>
#include <initializer_list>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "backends/cpu/channels_last.hpp"
#include "backends/cpu/conv_problem.hpp"
#include "backends/cpu/onednn.hpp"

namespace stiletto::detail::cpu {

/// The part of x and y that a task convolves. Where the rows are not all, the padding is what is left of it.
struct ConvPiece {
  TensorPart x, y;
  std::int64_t pre_padding, post_padding;  // of the first spatial axis

  bool same_shape(const ConvPiece& other) const {
    return x.samples == other.x.samples && x.rows == other.x.rows && y.rows == other.y.rows &&
           pre_padding == other.pre_padding && post_padding == other.post_padding;
  }
};

/// A primitive whose arguments are pointers. Each call takes memory objects that no other call uses.
class OnednnCall {
 public:
  OnednnCall(const dnnl::primitive& primitive, std::vector<int> names,
             std::vector<dnnl::memory::desc> descriptors)
      : primitive_(primitive), names_(std::move(names)), descriptors_(std::move(descriptors)) {}
  OnednnCall(const OnednnCall&) = delete;
  OnednnCall& operator=(const OnednnCall&) = delete;
  ~OnednnCall();
  void execute(std::initializer_list<const void*> pointers) const;
  const dnnl::memory::desc& descriptor(std::size_t argument) const { return descriptors_[argument]; }

 private:
  struct Binding;
  static constexpr std::size_t spares = 64;
  std::unique_ptr<Binding> take() const;
  void give(std::unique_ptr<Binding> binding) const;

  dnnl::primitive primitive_;
  std::vector<int> names_;
  std::vector<dnnl::memory::desc> descriptors_;
  mutable std::atomic<Binding*> spare_[spares]{};
};

/// One shape of piece: input, weights, output, scratchpad. Which of x, w and y is the output, the problem's
/// kind says.
struct PieceCall {
  ConvPiece shape;
  std::unique_ptr<OnednnCall> call;
  std::size_t scratchpad;  // bytes
};

using WeightsDescriptor = dnnl::memory::desc;

/// `weights`: in the layout that the first piece chose; chosen here while it is empty. Null where oneDNN has
/// only a reference implementation.
std::optional<PieceCall> make_piece_call(const ConvProblem& problem, dnnl::memory::data_type type,
                                         dnnl::memory::data_type result, const ConvPiece& piece,
                                         std::optional<WeightsDescriptor>& weights);

/// Weights in memory, with an axis for the groups; `dense`: in row-major order.
WeightsDescriptor plain_weights(const ConvProblem& problem, dnnl::memory::data_type type, bool dense);

}  // namespace stiletto::detail::cpu
