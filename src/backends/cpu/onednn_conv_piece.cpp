// SPDX-License-Identifier: Apache-2.0
// Describing a piece of a convolution to oneDNN. With the channels innermost oneDNN 3.2 has fast
// implementations of the forward pass and of both gradients, for groups and depthwise too.
#include <string_view>
#include <utility>

#include "backends/cpu/onednn_conv.hpp"

namespace stiletto::detail::cpu {
namespace {

using dnnl::memory;

memory::desc activations(const ConvTensor& tensor, const TensorPart& part, memory::data_type type) {
  memory::dims extents{part.samples, tensor.shape[1], part.rows};
  for (std::size_t axis = 3; axis < tensor.shape.size(); ++axis) extents.push_back(tensor.shape[axis]);
  memory::dims strides(extents.size());
  std::int64_t stride = tensor.shape[1];
  strides[1] = 1;
  for (std::size_t axis = extents.size(); axis-- > 2; stride *= extents[axis]) strides[axis] = stride;
  strides[0] = stride;
  return {extents, type, strides};
}

memory::dims vector_of(const Dims& dims, std::int64_t less = 0) {
  memory::dims result(dims.begin(), dims.end());
  for (std::int64_t& value : result) value -= less;
  return result;
}

struct Settings {
  memory::dims stride, dilation, pre, post;

  Settings(const ConvAttributes& attributes, const ConvPiece& piece)
      : stride(vector_of(attributes.stride)),
        dilation(vector_of(attributes.dilation, 1)),  // oneDNN counts the gaps
        pre(vector_of(attributes.pre_padding)),
        post(vector_of(attributes.post_padding)) {
    pre[0] = piece.pre_padding;
    post[0] = piece.post_padding;
  }
};

dnnl::primitive_attr primitive_attributes() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  attributes.set_fpmath_mode(dnnl::fpmath_mode::strict);  // whatever oneDNN's environment variables say
  return attributes;
}

template <class Description>
bool is_fast(const Description& description) {
  const std::string_view name = description.impl_info_str();
  return name.find("ref") == std::string_view::npos && name.find("gemm") == std::string_view::npos;
}

struct Descriptors {
  memory::desc x, w, y;
};

PieceCall call_of(const dnnl::primitive& primitive, const dnnl::primitive_desc& description,
                  const ConvPiece& piece, std::vector<int> names, std::vector<memory::desc> descriptors) {
  const memory::desc scratchpad = description.scratchpad_desc();
  names.push_back(DNNL_ARG_SCRATCHPAD);
  descriptors.push_back(scratchpad);
  return {piece, std::make_unique<OnednnCall>(primitive, std::move(names), std::move(descriptors)),
          scratchpad.get_size()};
}

std::optional<PieceCall> forward_call(const Descriptors& d, const Settings& s, const ConvPiece& piece) {
  const dnnl::convolution_forward::primitive_desc description(
      onednn_engine(), dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_direct, d.x, d.w, d.y,
      s.stride, s.dilation, s.pre, s.post, primitive_attributes());
  if (!is_fast(description)) return std::nullopt;
  return call_of(dnnl::convolution_forward(description), description, piece,
                 {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST}, {d.x, description.weights_desc(), d.y});
}

dnnl::convolution_forward::primitive_desc hint(const Descriptors& d, const Settings& s) {
  return {onednn_engine(),
          dnnl::prop_kind::forward_training,
          dnnl::algorithm::convolution_direct,
          d.x,
          memory::desc(d.w.get_dims(), d.x.get_data_type(), memory::format_tag::any),
          d.y,
          s.stride,
          s.dilation,
          s.pre,
          s.post};
}

std::optional<PieceCall> data_call(const Descriptors& d, const Settings& s, const ConvPiece& piece) {
  const dnnl::convolution_backward_data::primitive_desc description(
      onednn_engine(), dnnl::algorithm::convolution_direct, d.x, d.w, d.y, s.stride, s.dilation, s.pre,
      s.post, hint(d, s), primitive_attributes());
  if (!is_fast(description)) return std::nullopt;
  return call_of(dnnl::convolution_backward_data(description), description, piece,
                 {DNNL_ARG_DIFF_DST, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_SRC},
                 {d.y, description.weights_desc(), d.x});
}

std::optional<PieceCall> filter_call(const Descriptors& d, const Settings& s, const ConvPiece& piece) {
  const dnnl::convolution_backward_weights::primitive_desc description(
      onednn_engine(), dnnl::algorithm::convolution_direct, d.x, d.w, d.y, s.stride, s.dilation, s.pre,
      s.post, hint(d, s), primitive_attributes());
  if (!is_fast(description)) return std::nullopt;
  return call_of(dnnl::convolution_backward_weights(description), description, piece,
                 {DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_SRC},
                 {d.y, description.diff_weights_desc(), d.x});
}

}  // namespace

WeightsDescriptor plain_weights(const ConvProblem& problem, memory::data_type type, bool dense) {
  const std::int64_t groups = problem.groups();
  memory::dims extents(problem.w.shape.begin(), problem.w.shape.end());
  memory::dims strides(problem.w.strides.begin(), problem.w.strides.end());
  std::int64_t stride = 1;
  for (std::size_t axis = extents.size(); dense && axis-- > 0; stride *= extents[axis])
    strides[axis] = stride;
  if (groups > 1) {
    extents[0] /= groups;
    extents.insert(extents.begin(), groups);
    strides.insert(strides.begin(), strides[0] * extents[1]);
  }
  return {extents, type, strides};
}

std::optional<PieceCall> make_piece_call(const ConvProblem& problem, memory::data_type type,
                                         memory::data_type result, const ConvPiece& piece,
                                         std::optional<WeightsDescriptor>& weights) {
  const bool forward = problem.kind == ConvKind::forward, filter = problem.kind == ConvKind::filter_gradient;
  const memory::data_type weights_type = filter ? memory::data_type::f32 : type;
  const memory::dims extents = plain_weights(problem, weights_type, true).get_dims();
  const Descriptors descriptors{
      activations(problem.x, piece.x, problem.kind == ConvKind::data_gradient ? result : type),
      weights ? *weights : memory::desc(extents, weights_type, memory::format_tag::any),
      activations(problem.y, piece.y, forward ? result : type)};
  const Settings settings(problem.attributes, piece);
  auto call = unless_refused([&] {
    return forward  ? forward_call(descriptors, settings, piece)
           : filter ? filter_call(descriptors, settings, piece)
                    : data_call(descriptors, settings, piece);
  });
  if (!call || !*call) return std::nullopt;
  if (!weights) weights = (*call)->call->descriptor(1);
  return std::move(*call);
}

// ---- memory objects

struct OnednnCall::Binding {
  std::vector<dnnl::memory> memories;
  std::vector<dnnl_exec_arg_t> list;
};

OnednnCall::~OnednnCall() {
  for (auto& spare : spare_) delete spare.load();
}

std::unique_ptr<OnednnCall::Binding> OnednnCall::take() const {
  for (auto& spare : spare_)
    if (spare.load(std::memory_order_relaxed) != nullptr)
      if (Binding* const binding = spare.exchange(nullptr, std::memory_order_acquire))
        return std::unique_ptr<Binding>(binding);
  auto binding = std::make_unique<Binding>();
  for (std::size_t i = 0; i < names_.size(); ++i) {
    binding->memories.emplace_back(descriptors_[i], onednn_engine(), nullptr);
    binding->list.push_back({names_[i], binding->memories[i].get()});
  }
  return binding;
}

void OnednnCall::give(std::unique_ptr<Binding> binding) const {
  for (auto& spare : spare_) {
    Binding* none = nullptr;
    if (spare.compare_exchange_strong(none, binding.get(), std::memory_order_release,
                                      std::memory_order_relaxed)) {
      binding.release();
      return;
    }
  }
}

/// The C interface: the C++ one builds a hash table for each call.
void OnednnCall::execute(std::initializer_list<const void*> pointers) const {
  const OnednnOnOneThread alone;
  std::unique_ptr<Binding> binding = take();
  std::size_t index = 0;
  for (const void* const pointer : pointers)
    dnnl::error::wrap_c_api(
        dnnl_memory_set_data_handle(binding->list[index++].memory, const_cast<void*>(pointer)),
        "setting a pointer");
  dnnl::error::wrap_c_api(
      dnnl_primitive_execute(primitive_.get(), onednn_stream().get(), static_cast<int>(binding->list.size()),
                             binding->list.data()),
      "executing a convolution");
  give(std::move(binding));
}

}  // namespace stiletto::detail::cpu
