// SPDX-License-Identifier: Apache-2.0
// The part of frontend.cpp that takes graphs which a program wrote in the frontend's own words; included
// there and nowhere else.

namespace {

constexpr const char* operation = "from_cudnn_graph: ";

/// The other direction of type_of; a program's own booleans are bytes by that name.
std::optional<DType> dtype_of(fe::DataType_t type) {
  if (type == fe::DataType_t::BYTE_BOOLEAN) return DType::boolean;
  for (auto i = static_cast<int>(DType::int8); i <= static_cast<int>(DType::float4_e2m1); ++i)
    if (type_of(static_cast<DType>(i)) == type) return static_cast<DType>(i);
  return std::nullopt;
}

/// What of a graph is for its own kind only.
class Insides : public fe::graph::Graph {
 public:
  /// Whether the tensor comes out of an operation; nothing is known of graphs that were deserialised.
  static std::optional<bool> computes(const fe::graph::Graph& graph, std::int64_t uid) {
    const auto& results = graph.*&Insides::full_graph_outputs;
    if (results.empty()) return std::nullopt;
    return std::any_of(results.begin(), results.end(),
                       [&](const auto& t) { return t->has_uid() && t->get_uid() == uid; });
  }
  static bool lowered(const fe::graph::Graph& graph) {
    return graph.*&Insides::operation_graph != nullptr || chosen_plan(graph) != -1;
  }
  static bool has_properties(const fe::graph::Graph& graph) {
    return graph.*&Insides::device_properties != nullptr;
  }
  static const fe::DeviceProperties& properties(const fe::graph::Graph& graph) {
    return *(graph.*&Insides::device_properties);
  }
  static std::int64_t chosen_plan(const fe::graph::Graph& graph) {
    return (graph.*&Insides::plans).candidate;
  }
  /// Whether lowering the graph has exchanged the tensor's last two axes: attention does that to K, and its
  /// backward to V as well, in the tensors that the program described.
  static bool is_turned(const fe::graph::Graph& graph, std::int64_t uid) {
    using Forward = fe::graph::SDPA_attributes::input_names;
    using Backward = fe::graph::SDPA_backward_attributes::input_names;
    using Backward8 = fe::graph::SDPA_fp8_backward_attributes::input_names;
    bool turned = false;
    for (const auto& node : graph.*&Insides::sub_nodes) {
      if (const auto* forward = dynamic_cast<const fe::graph::CompositeSDPANode*>(node.get())) {
        if (forward->is_paged_k()) continue;
        turned ^= has(forward->attributes, Forward::K, uid);
        if (forward->is_mxfp8_scaling()) turned ^= has(forward->attributes, Forward::Descale_K, uid);
      } else if (const auto* backward =
                     dynamic_cast<const fe::graph::CompositeSDPABackwardNode*>(node.get())) {
        for (const auto name : {Backward::K, Backward::V}) turned ^= has(backward->attributes, name, uid);
      } else if (const auto* backward8 = dynamic_cast<const fe::graph::SDPAFP8BackwardNode*>(node.get())) {
        for (const auto name : {Backward8::K, Backward8::V}) turned ^= has(backward8->attributes, name, uid);
        if (!backward8->is_mxfp8_scaling()) continue;
        for (const auto name : {Backward8::Descale_K, Backward8::Descale_V})
          turned ^= has(backward8->attributes, name, uid);
      }
    }
    return turned;
  }

 private:
  template <class Attributes>
  static bool has(const Attributes& attributes, typename Attributes::input_names name, std::int64_t uid) {
    const auto at = attributes.inputs.find(name);
    return at != attributes.inputs.end() && at->second && at->second->has_uid() &&
           at->second->get_uid() == uid;
  }
};

/// Validation leaves a type that the program did not set to lowering, which takes the graph's.
fe::DataType_t data_type(const fe::graph::Graph& graph, const fe::graph::Tensor_attributes& tensor) {
  const fe::DataType_t type = tensor.get_data_type();
  return type == fe::DataType_t::NOT_SET ? graph.context.get_io_data_type() : type;
}

std::string described(std::int64_t uid, const std::string& name) {
  return text("uid ", uid, name.empty() ? "" : " (" + name + ")");
}

/// Memory without gaps, of which the axes lie in any order.
bool is_dense(const Shape& shape, const Strides& strides) {
  std::vector<std::size_t> order(shape.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return strides[a] > strides[b]; });
  return canonical_strides(shape, dense_strides(shape, order)) == canonical_strides(shape, strides);
}

DType known_dtype(const ForeignTensor& tensor, fe::DataType_t type) {
  if (type == fe::DataType_t::NOT_SET)
    throw DTypeError(text(operation, tensor.name,
                          " has no data type; give it one with set_data_type, or the graph with ",
                          "set_io_data_type"));
  const std::optional<DType> dtype = dtype_of(type);
  if (!dtype)
    throw DTypeError(text(operation, tensor.name, " is of the type ", nlohmann::json(type).dump(),
                          ", which no array has"));
  return *dtype;
}

[[noreturn]] void throw_refused(const char* what, fe::error_t status) {
  throw ArgumentError(text(operation, what, ": ", one_line(status.get_message())));
}

}  // namespace

int frontend_version() { return CUDNN_FRONTEND_VERSION; }

ForeignGraph::ForeignGraph(std::shared_ptr<fe::graph::Graph> graph, const std::vector<std::int64_t>& inputs,
                           const std::vector<std::int64_t>& outputs)
    : graph_(std::move(graph)) {
  if (!Insides::lowered(*graph_)) {
    auto status = graph_->validate();
    if (status.is_bad()) throw_refused("cudnn-frontend does not accept the graph", status);
  }
  std::vector<std::int64_t> seen;
  auto take = [&](const std::vector<std::int64_t>& uids, bool output, std::vector<ForeignTensor>& tensors) {
    for (const std::int64_t uid : uids) {
      tensors.push_back(look_up(uid, output));
      if (std::find(seen.begin(), seen.end(), uid) != seen.end())
        throw ArgumentError(
            text(operation, tensors.back().name, " is listed twice; list each input and output once"));
      seen.push_back(uid);
    }
  };
  take(inputs, false, inputs_);
  take(outputs, true, outputs_);
}

ForeignGraph::ForeignGraph(const std::string& bytes, cudnnContext* handle)
    : graph_(std::make_shared<fe::graph::Graph>()) {
  deserialize(*graph_, handle, bytes, "the plan");
  uids_ = graph_->get_variant_pack_uids_sorted();
}

ForeignTensor ForeignGraph::look_up(std::int64_t uid, bool output) const {
  fe::graph::Tensor_attributes found;
  if (graph_->query_tensor_attributes_of_uid(uid, found).is_bad())
    throw ArgumentError(
        text(operation, "the graph has no tensor with uid ", uid, "; give tensors theirs with set_uid"));
  ForeignTensor tensor;
  tensor.uid = uid;
  tensor.name = described(uid, found.get_name());
  const char* const list = output ? "outputs" : "inputs";
  if (found.get_is_virtual())
    throw ArgumentError(text(operation, tensor.name,
                             " is a value inside the graph; call set_output(true) on ",
                             "it, or leave it out of the ", list));
  if (Insides::computes(*graph_, uid).value_or(output) != output)
    throw ArgumentError(text(operation, tensor.name, " is ", output ? "read" : "written",
                             " by the graph; list it ", "among the ", output ? "inputs" : "outputs"));
  if (found.get_pass_by_value() || found.get_has_compile_time_constant())
    throw ArgumentError(
        text(operation, tensor.name, " is a number that has its value; leave it out of the ", list));
  tensor.dtype = known_dtype(tensor, data_type(*graph_, found));
  std::vector<std::int64_t> dims = found.get_dim(), strides = found.get_stride();
  if (Insides::lowered(*graph_) && dims.size() >= 2 && Insides::is_turned(*graph_, uid)) {
    std::swap(dims.end()[-1], dims.end()[-2]);
    std::swap(strides.end()[-1], strides.end()[-2]);
  }
  if (dims.size() > Dims::max_rank)
    throw ShapeError(text(operation, tensor.name, " has ", dims.size(), " dimensions; arrays have up to ",
                          Dims::max_rank));
  tensor.shape = Shape(std::span<const std::int64_t>(dims));
  tensor.strides = Strides(std::span<const std::int64_t>(strides));
  tensor.number = found.get_is_pass_by_value();
  tensor.alignment = static_cast<int>(std::clamp<std::int64_t>(found.get_alignment(), 1, 16));
  if (output && !is_dense(tensor.shape, tensor.strides))
    throw ArgumentError(text(operation, tensor.name, " is written with strides ", tensor.strides,
                             " for shape ", tensor.shape,
                             ", which leave gaps; outputs are allocated dense, in any order of axes"));
  return tensor;
}

void ForeignGraph::check_complete() const {
  auto has = [](const auto& list, std::int64_t uid) {
    return std::any_of(list.begin(), list.end(), [&](const ForeignTensor& t) { return t.uid == uid; });
  };
  for (const auto* list : {&inputs_, &outputs_})
    for (const ForeignTensor& tensor : *list)
      if (!std::binary_search(uids_.begin(), uids_.end(), tensor.uid))
        throw ArgumentError(text(operation, tensor.name, " is not used by the graph; leave it out"));
  for (const std::int64_t uid : uids_) {
    if (has(inputs_, uid) || has(outputs_, uid)) continue;
    fe::graph::Tensor_attributes found;
    static_cast<void>(graph_->query_tensor_attributes_of_uid(uid, found));
    const bool output = Insides::computes(*graph_, uid).value_or(false);
    throw ArgumentError(
        text(operation, described(uid, found.get_name()), " is ", output ? "written" : "read",
             " by the graph and not listed; list it among the ", output ? "outputs" : "inputs",
             found.get_is_pass_by_value() ? ", or give the number a value in the graph" : ""));
  }
}

void ForeignGraph::settle_dtypes() {
  for (auto* list : {&inputs_, &outputs_})
    for (ForeignTensor& tensor : *list) {
      fe::graph::Tensor_attributes found;
      if (graph_->query_tensor_attributes_of_uid(tensor.uid, found).is_good())
        tensor.dtype = known_dtype(tensor, data_type(*graph_, found));
    }
}

bool ForeignGraph::knows_its_gpu() const {
  return Insides::lowered(*graph_) || Insides::has_properties(*graph_);
}

std::string ForeignGraph::properties() const {
  std::vector<std::uint8_t> bytes;
  if (!Insides::has_properties(*graph_) || Insides::properties(*graph_).serialize(bytes).is_bad()) return {};
  return {bytes.begin(), std::find(bytes.begin(), bytes.end(), 0)};
}

bool ForeignGraph::build(cudnnContext* handle, std::vector<EngineReason>& reasons) {
  try {
    if (!build_plan(handle, reasons)) return false;
  } catch (const std::exception& error) {
    reasons.push_back({"cudnn-frontend", one_line(error.what())});
    return false;
  }
  auto prepared = graph_->prepare_variant_pack_template();
  if (prepared.is_bad()) throw_refused("the graph's tensors cannot be bound", prepared);
  uids_ = graph_->get_variant_pack_uids_sorted();
  check_complete();
  settle_dtypes();
  return true;
}

bool ForeignGraph::build_plan(cudnnContext* handle, std::vector<EngineReason>& reasons) {
  fe::graph::Graph& graph = *graph_;
  if (Insides::chosen_plan(graph) != -1) return true;
  if (!Insides::lowered(graph) &&
      failed("operation graph", handle ? graph.build_operation_graph(handle) : graph.build_operation_graph(),
             reasons))
    return false;
  if (graph.get_execution_plan_count() == 0 &&
      failed("heuristics", graph.create_execution_plans(usual_heuristics()), reasons))
    return false;
  for (std::int64_t i = 0; i < graph.get_execution_plan_count(); ++i)
    if (!failed(name_at(graph, i), graph.build_plan_at_index(i), reasons)) return true;
  return false;
}

std::size_t ForeignGraph::workspace() const {
  return static_cast<std::size_t>(std::max<std::int64_t>(graph_->get_workspace_size(), 0));
}

std::string ForeignGraph::engine() const {
  std::string name;
  return graph_->get_plan_name(name).is_good() ? name : "plan";
}

void ForeignGraph::execute(cudnnContext* handle, std::vector<void*>& pointers, void* workspace) const {
  auto status =
      std::as_const(*graph_).execute(handle, pointers.data(), static_cast<int>(pointers.size()), workspace);
  if (status.is_bad())
    throw DeviceError(text("executing ", engine(), " failed: ", one_line(status.get_message())));
}

std::string ForeignGraph::serialize() const { return serialized(*graph_, engine()); }
