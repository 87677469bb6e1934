// SPDX-License-Identifier: Apache-2.0
// The half of frontend.cpp that turns plain graphs into the frontend's; included there and nowhere else.

std::optional<fe::DataType_t> type_of(DType dtype) {
  switch (dtype) {
    case DType::boolean:  // bytes: see EngineNode
    case DType::int8:
      return fe::DataType_t::INT8;
    case DType::uint8:
      return fe::DataType_t::UINT8;
    case DType::int32:
      return fe::DataType_t::INT32;
    case DType::int64:
      return fe::DataType_t::INT64;
    case DType::float16:
      return fe::DataType_t::HALF;
    case DType::bfloat16:
      return fe::DataType_t::BFLOAT16;
    case DType::float32:
      return fe::DataType_t::FLOAT;
    case DType::float64:
      return fe::DataType_t::DOUBLE;
    case DType::float8_e4m3:
      return fe::DataType_t::FP8_E4M3;
    case DType::float8_e5m2:
      return fe::DataType_t::FP8_E5M2;
    case DType::float8_e8m0:
      return fe::DataType_t::FP8_E8M0;
    case DType::float4_e2m1:
      return fe::DataType_t::FP4_E2M1;
  }
  return std::nullopt;
}

fe::DataType_t compute_type_of(DType dtype) {
  return dtype == DType::boolean ? fe::DataType_t::BOOLEAN : *type_of(dtype);
}

std::optional<fe::PointwiseMode_t> mode_of(Op op) {
  using Mode = fe::PointwiseMode_t;
  switch (op) {
    case Op::copy:
      return Mode::IDENTITY;
    case Op::negate:
      return Mode::NEG;
    case Op::logical_not:
      return Mode::LOGICAL_NOT;
    case Op::abs:
      return Mode::ABS;
    case Op::exp:
      return Mode::EXP;
    case Op::log:
      return Mode::LOG;
    case Op::sqrt:
      return Mode::SQRT;
    case Op::rsqrt:
      return Mode::RSQRT;
    case Op::reciprocal:
      return Mode::RECIPROCAL;
    case Op::sin:
      return Mode::SIN;
    case Op::cos:
      return Mode::COS;
    case Op::tan:
      return Mode::TAN;
    case Op::tanh:
      return Mode::TANH_FWD;
    case Op::erf:
      return Mode::ERF;
    case Op::ceil:
      return Mode::CEIL;
    case Op::floor:
      return Mode::FLOOR;
    case Op::relu:
    case Op::leaky_relu:
    case Op::clipped_relu:
      return Mode::RELU_FWD;
    case Op::sigmoid:
      return Mode::SIGMOID_FWD;
    case Op::silu:
      return Mode::SWISH_FWD;
    case Op::softplus:
      return Mode::SOFTPLUS_FWD;
    case Op::elu:
      return Mode::ELU_FWD;
    case Op::gelu:
      return Mode::GELU_FWD;
    case Op::gelu_tanh:
      return Mode::GELU_APPROX_TANH_FWD;
    case Op::add:
      return Mode::ADD;
    case Op::subtract:
      return Mode::SUB;
    case Op::multiply:
      return Mode::MUL;
    case Op::divide:
      return Mode::DIV;
    case Op::less:
      return Mode::CMP_LT;
    case Op::less_equal:
      return Mode::CMP_LE;
    case Op::greater:
      return Mode::CMP_GT;
    case Op::greater_equal:
      return Mode::CMP_GE;
    case Op::equal:
      return Mode::CMP_EQ;
    case Op::not_equal:
      return Mode::CMP_NEQ;
    case Op::logical_and:
      return Mode::LOGICAL_AND;
    case Op::logical_or:
      return Mode::LOGICAL_OR;
    case Op::pow:
      return Mode::POW;
    case Op::fmod:
      return Mode::MOD;
    case Op::where:
      return Mode::BINARY_SELECT;
    default:
      return std::nullopt;
  }
}

std::optional<fe::ReductionMode_t> reduction_of(Op op) {
  using Mode = fe::ReductionMode_t;
  switch (op) {
    case Op::sum:
      return Mode::ADD;
    case Op::prod:
      return Mode::MUL;
    case Op::max:
      return Mode::MAX;
    case Op::min:
      return Mode::MIN;
    case Op::abs_max:
      return Mode::AMAX;
    case Op::norm1:
      return Mode::NORM1;
    case Op::norm2:
      return Mode::NORM2;
    default:
      return std::nullopt;
  }
}

fe::HeurMode_t heuristic_of(Heuristic heuristic) {
  switch (heuristic) {
    case Heuristic::b:
      return fe::HeurMode_t::B;
    case Heuristic::fallback:
      return fe::HeurMode_t::FALLBACK;
    default:
      return fe::HeurMode_t::A;
  }
}

template <class T>
T mapped(const std::optional<T>& value, const char* what, Op op) {
  if (!value) throw InternalError(text(what, " of ", name_of(op), " reached cuDNN; please report this"));
  return *value;
}

#include "backends/cudnn/frontend_structured.inl"  // NOLINT(bugprone-suspicious-include): see there

/// Turns an EngineGraph into a frontend graph.
class Translation {
 public:
  Translation(const EngineGraph& graph, fe::graph::Graph& out, bool deterministic)
      : graph_(graph), out_(out), deterministic_(deterministic) {}

  void run() {
    std::vector<bool> computed(graph_.tensors.size());
    for (const EngineNode& node : graph_.nodes)
      node.each_result([&](std::uint32_t tensor) { computed[tensor] = true; });
    tensors_.resize(graph_.tensors.size());
    for (std::size_t i = 0; i < tensors_.size(); ++i)
      if (!computed[i]) tensors_[i] = leaf(i);
    for (std::size_t i = 0; i < tensors_.size(); ++i)
      if (!computed[i]) set_offsets(i);
    for (const EngineNode& node : graph_.nodes) add(node);
  }

 private:
  TensorPointer leaf(std::size_t index) {
    const EngineTensor& t = graph_.tensors[index];
    const bool on_host = t.role == EngineTensor::Role::number || t.role == EngineTensor::Role::constant;
    return out_.tensor(fe::graph::Tensor_attributes()
                           .set_uid(uid_of(index))
                           .set_name(text("t", index))
                           .set_dim(t.dims)
                           .set_stride(t.strides)
                           .set_data_type(*type_of(t.dtype))
                           .set_is_pass_by_value(on_host)
                           .set_alignment(t.alignment)
                           .set_reordering_type(order_of(t)));
  }
  static fe::TensorReordering_t order_of(const EngineTensor& t) {
    return t.tiled ? fe::TensorReordering_t::F8_128x4 : fe::TensorReordering_t::NONE;
  }

  void set_offsets(std::size_t index) {
    const EngineTensor& t = graph_.tensors[index];
    if (t.is_packed()) tensors_[index]->set_ragged_offset(tensors_[t.offsets]);
  }

  void add(const EngineNode& node) {
    if (row_of(node.op).family == Family::structured) return add_structured(node);
    const EngineTensor& t = graph_.tensors[node.output];
    TensorPointer result = node.op == Op::matmul   ? matmul(node)
                           : reduction_of(node.op) ? reduction(node)
                                                   : pointwise(node);
    if (t.role == EngineTensor::Role::intermediate && t.dims != inferred(node)) set_packed(*result, t.dims);
    define(node.output, std::move(result));
  }

  void add_structured(const EngineNode& node) {
    ResultList results = StructuredTranslation(graph_, node, out_, tensors_, deterministic_).run();
    define(node.output, std::move(results.front()));
    for (std::size_t i = 0; i < node.further.size(); ++i)
      if (node.further[i] != EngineNode::absent) define(node.further[i], std::move(results[i + 1]));
  }

  void define(std::uint32_t tensor, TensorPointer result) {
    const EngineTensor& t = graph_.tensors[tensor];
    result->set_uid(uid_of(tensor)).set_name(text("t", tensor)).set_data_type(*type_of(t.dtype));
    if (t.tiled) result->set_reordering_type(order_of(t));
    if (t.role == EngineTensor::Role::output) result->set_output(true).set_alignment(t.alignment);
    if (!t.strides.empty()) result->set_dim(t.dims).set_stride(t.strides);
    tensors_[tensor] = std::move(result);
    set_offsets(tensor);
  }

  /// What the frontend would give a pointwise result; of other nodes their own.
  std::vector<std::int64_t> inferred(const EngineNode& node) const {
    if (node.op == Op::matmul || reduction_of(node.op)) return graph_.tensors[node.output].dims;
    std::vector<std::int64_t> dims = graph_.tensors[node.inputs[0]].dims;
    for (std::uint32_t input : node.inputs)
      for (std::size_t i = 0; i < dims.size(); ++i)
        dims[i] = std::max(dims[i], graph_.tensors[input].dims[i]);
    return dims;
  }

  static void set_packed(fe::graph::Tensor_attributes& tensor, const std::vector<std::int64_t>& dims) {
    std::vector<std::int64_t> strides(dims.size());
    std::int64_t stride = 1;
    for (std::size_t i = dims.size(); i-- > 0; stride *= dims[i]) strides[i] = stride;
    tensor.set_dim(dims).set_stride(strides);
  }

  TensorPointer matmul(const EngineNode& node) {
    return out_.matmul(tensors_[node.inputs[0]], tensors_[node.inputs[1]],
                       fe::graph::Matmul_attributes().set_compute_data_type(compute_type_of(node.compute)));
  }

  TensorPointer reduction(const EngineNode& node) {
    auto result = out_.reduction(tensors_[node.inputs[0]],
                                 fe::graph::Reduction_attributes()
                                     .set_mode(mapped(reduction_of(node.op), "a reduction mode", node.op))
                                     .set_compute_data_type(compute_type_of(node.compute)));
    set_packed(*result, graph_.tensors[node.output].dims);
    return result;
  }

  TensorPointer pointwise(const EngineNode& node) {
    auto attributes = fe::graph::Pointwise_attributes()
                          .set_mode(mapped(mode_of(node.op), "a pointwise mode", node.op))
                          .set_compute_data_type(compute_type_of(node.compute));
    const auto coefficient = static_cast<float>(node.coefficient);
    if (node.op == Op::leaky_relu) attributes.set_relu_lower_clip_slope(coefficient);
    if (node.op == Op::clipped_relu) attributes.set_relu_lower_clip(0).set_relu_upper_clip(coefficient);
    if (node.op == Op::relu && node.lower != 0)
      attributes.set_relu_lower_clip(static_cast<float>(node.lower));
    if (node.op == Op::elu) attributes.set_elu_alpha(coefficient);
    const auto input = [&](std::size_t i) { return tensors_[node.inputs[i]]; };
    if (node.inputs.size() == 1) return out_.pointwise(input(0), attributes);
    if (node.inputs.size() == 2) return out_.pointwise(input(0), input(1), attributes);
    return out_.pointwise(input(0), input(1), input(2), attributes);
  }

  const EngineGraph& graph_;
  fe::graph::Graph& out_;
  bool deterministic_;
  std::vector<TensorPointer> tensors_;
};
