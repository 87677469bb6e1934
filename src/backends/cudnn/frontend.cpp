// SPDX-License-Identifier: Apache-2.0
// The one translation unit that includes cudnn-frontend (half a minute of compiling): our plain graphs become
// its objects, and its plans are built and executed.
#include "backends/cudnn/frontend.hpp"

#include <cudnn_frontend.h>

#include <algorithm>
#include <limits>
#include <mutex>
#include <numeric>
#include <string_view>

#include "backends/cudnn/foreign_graph.hpp"
#include "backends/cudnn/libraries.hpp"
#include "backends/cudnn/operand_forms.hpp"
#include "backends/cudnn/reasons.hpp"
#include "backends/cudnn/target.hpp"
#include "core/layout.hpp"
#include "core/text.hpp"
#include "graph/op_table.hpp"
#include "stiletto/export.hpp"

namespace cudnn_frontend {
/// Where cudnn-frontend looks cuDNN's functions up; a program that includes it with dynamic loading links to
/// this one.
STILETTO_API void* cudnn_dlhandle = nullptr;
}  // namespace cudnn_frontend

namespace stiletto::detail::cudnn {
namespace {

namespace fe = cudnn_frontend;
using TensorPointer = std::shared_ptr<fe::graph::Tensor_attributes>;

#include "backends/cudnn/frontend_graph.inl"  // NOLINT(bugprone-suspicious-include): see there

class FrontendGraph : public fe::graph::Graph {
 public:
  cudnnBackendDescriptor_t plan_at(std::int64_t index) const {
    return plans.execution_plans[static_cast<std::size_t>(index)]->get_raw_desc();
  }
  /// The plan that the frontend's own functions take.
  void choose(std::int64_t index) {
    if (plans.candidate != index) plans.candidate = index;  // others may be executing it
  }

  /// Where the pointers that the frontend's own execute() wants lie among those of `uids`. Nullopt where
  /// cuDNN can be handed the latter as they are: nodes that the frontend expands, attention among them, have
  /// numbers and scratch memory of its own.
  std::optional<std::vector<std::size_t>> own_pointers(const std::vector<std::int64_t>& uids) {
    auto status = prepare_variant_pack_template();
    if (status.is_bad()) throw DeviceError(text("cuDNN's list of pointers: ", status.get_message()));
    const auto& all = varpack_template.all_uids;
    const auto& wanted = varpack_template.user_slots;
    if (wanted.size() == all.size() && std::is_permutation(all.begin(), all.end(), uids.begin(), uids.end()))
      return std::nullopt;
    std::vector<std::size_t> result;
    for (const int slot : wanted) {
      const auto at = std::find(uids.begin(), uids.end(), all[static_cast<std::size_t>(slot)]);
      if (at == uids.end()) throw DeviceError("cuDNN wants a pointer that this plan does not have");
      result.push_back(static_cast<std::size_t>(at - uids.begin()));
    }
    return result;
  }
};

/// `what` is no string: a call that goes well makes none.
void check(cudnnStatus_t status, std::string_view what) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  throw DeviceError(text(what, " failed: ", fe::detail::get_error_string(status), ", ",
                         one_line(fe::detail::get_last_error_string_())));
}

/// The pointers of one execution.
class VariantPack {
 public:
  VariantPack(const std::vector<std::int64_t>& uids, const std::vector<void*>& pointers, void* workspace) {
    set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, pointers.size(),
        static_cast<const void*>(pointers.data()));
    set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, uids.size(), uids.data());
    set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, static_cast<const void*>(&workspace));
    check(fe::detail::finalize(descriptor_.handle), what);
  }
  cudnnBackendDescriptor_t descriptor() const { return descriptor_.handle; }

 private:
  static constexpr const char* what = "handing cuDNN the pointers";
  struct Descriptor {
    Descriptor() {
      check(fe::detail::create_descriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &handle), what);
    }
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
    ~Descriptor() { fe::detail::destroy_descriptor(handle); }
    cudnnBackendDescriptor_t handle = nullptr;
  };
  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::size_t count,
           const void* values) {
    check(fe::detail::set_attribute(descriptor_.handle, name, type, static_cast<std::int64_t>(count), values),
          what);
  }

  Descriptor descriptor_;
};

std::string name_at(const fe::graph::Graph& graph, std::int64_t index) {
  std::string name;
  if (graph.get_plan_name_at_index(index, name).is_bad()) name = text("plan ", index);
  return name;
}

std::size_t workspace_at(const fe::graph::Graph& graph, std::int64_t index) {
  std::int64_t bytes = 0;
  if (graph.get_workspace_size_plan_at_index(index, bytes).is_bad()) return 0;
  return static_cast<std::size_t>(std::max<std::int64_t>(bytes, 0));
}

/// Whether the step went wrong, and then what cuDNN said of it in `reasons`.
bool failed(const std::string& step, fe::error_t status, std::vector<EngineReason>& reasons) {
  if (status.is_good()) return false;
  for (EngineReason& reason : engine_reasons(step, status.get_message()))
    reasons.push_back(std::move(reason));
  return true;
}

std::vector<fe::HeurMode_t> usual_heuristics() { return {fe::HeurMode_t::A, fe::HeurMode_t::FALLBACK}; }

/// The plan that is chosen, without the description of the graph.
std::string serialized(const fe::graph::Graph& graph, const std::string& engine) {
  std::vector<std::uint8_t> data;
  auto status = graph.serialize(data, false);
  if (status.is_bad())
    throw DeviceError(text("cuDNN could not serialise ", engine, ": ", one_line(status.get_message())));
  return {data.begin(), data.end()};
}

/// Makes an empty graph the one that `bytes` were serialised of. `plan` names it in the DeviceError.
void deserialize(fe::graph::Graph& graph, cudnnContext* handle, const std::string& bytes,
                 const std::string& plan) {
  std::string problem;
  try {
    // Without the frontend's warm-up, a launch in a capture: the first call pays for it where it happens.
    auto status =
        graph.deserialize(handle, std::vector<std::uint8_t>(bytes.begin(), bytes.end()), true, false);
    if (status.is_bad()) problem = status.get_message();
  } catch (const std::exception& error) {  // of its JSON parser
    problem = error.what();
  }
  if (!problem.empty()) throw DeviceError(text("cuDNN does not take ", plan, ": ", one_line(problem)));
}

class Built : public BuiltGraph {
 public:
  Built(std::shared_ptr<FrontendGraph> graph, std::int64_t index, std::vector<std::int64_t> uids,
        std::string engine, std::size_t workspace)
      : graph_(std::move(graph)),
        index_(index),
        uids_(std::move(uids)),
        workspace_(workspace),
        engine_(std::move(engine)),
        own_pointers_(graph_->own_pointers(uids_)) {}
  std::size_t workspace() const override { return workspace_; }
  std::string engine() const override { return engine_; }

  /// Without the frontend where that is possible: its own execute makes up the list of pointers anew and
  /// takes 0.5 µs longer (H200, cuDNN 9.19).
  void execute(cudnnContext* handle, const std::vector<void*>& pointers, void* workspace) const override {
    if (own_pointers_) return execute_by_frontend(handle, pointers, workspace);
    const VariantPack pack(uids_, pointers, workspace);
    const cudnnStatus_t status = fe::detail::execute(handle, graph_->plan_at(index_), pack.descriptor());
    if (status != CUDNN_STATUS_SUCCESS) check(status, text("executing ", engine_));
  }

  std::string serialize() const override {
    const std::lock_guard lock(choosing());
    graph_->choose(index_);
    return serialized(*graph_, engine_);
  }
  fe::graph::Graph* native() const override {
    const std::lock_guard lock(choosing());
    graph_->choose(index_);
    return graph_.get();
  }

 private:
  void execute_by_frontend(cudnnContext* handle, const std::vector<void*>& pointers, void* workspace) const {
    std::vector<void*> wanted;
    wanted.reserve(own_pointers_->size());
    for (const std::size_t at : *own_pointers_) wanted.push_back(pointers[at]);
    auto status = graph_->execute_plan_at_index(handle, wanted.data(), static_cast<int>(wanted.size()),
                                                workspace, index_);
    if (status.is_bad())
      throw DeviceError(text("executing ", engine_, " failed: ", one_line(status.get_message())));
  }

  /// The choice is the frontend graph's state.
  static std::mutex& choosing() {
    static std::mutex& one_at_a_time = *new std::mutex;
    return one_at_a_time;
  }

  std::shared_ptr<FrontendGraph> graph_;
  std::int64_t index_;
  std::vector<std::int64_t> uids_;
  std::size_t workspace_;
  std::string engine_;
  std::optional<std::vector<std::size_t>> own_pointers_;
};

/// Of what has a pointer, in order.
std::vector<std::int64_t> bound_uids(const EngineGraph& graph) {
  std::vector<std::int64_t> uids;
  for (std::size_t i = 0; i < graph.tensors.size(); ++i)
    if (graph.tensors[i].role != EngineTensor::Role::intermediate) uids.push_back(uid_of(i));
  return uids;
}

}  // namespace

struct Candidates::State {
  std::shared_ptr<FrontendGraph> graph = std::make_shared<FrontendGraph>();
  std::vector<std::int64_t> uids;  // of what has a pointer
  std::int64_t index = 0, count = 0;
  std::optional<std::size_t> max_workspace;
};

Candidates::Candidates(const EngineGraph& graph, const PlanOptions& options, cudnnContext* handle,
                       const TargetProperties* target)
    : state_(std::make_shared<State>()) {
  open_frontend(handle == nullptr);
  state_->uids = bound_uids(graph);
  state_->max_workspace = options.max_workspace;
  fe::graph::Graph& g = *state_->graph;
  try {
    if (handle == nullptr) {
      auto properties = std::make_shared<fe::DeviceProperties>();
      const std::vector<std::uint8_t> json(target->json.begin(), target->json.end());
      if (failed("device properties", properties->deserialize(json), reasons)) return;
      g.set_device_properties(properties);
      g.set_sm_version(target->sm);
    }
    g.set_io_data_type(fe::DataType_t::FLOAT)
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
    Translation(graph, g, options.deterministic).run();
    if (failed("validation", g.validate(), reasons)) return;
    if (failed("operation graph", handle ? g.build_operation_graph(handle) : g.build_operation_graph(),
               reasons))
      return;
    std::vector<fe::HeurMode_t> modes;
    modes.reserve(options.heuristics.size());
    for (Heuristic heuristic : options.heuristics) modes.push_back(heuristic_of(heuristic));
    if (modes.empty()) modes = usual_heuristics();
    if (failed("heuristics", g.create_execution_plans(modes), reasons)) return;
    if (options.deterministic) g.deselect_numeric_notes({fe::NumericalNote_t::NONDETERMINISTIC});
    if (options.max_workspace)
      g.deselect_workspace_greater_than(static_cast<std::int64_t>(
          std::min<std::size_t>(*options.max_workspace, std::numeric_limits<std::int64_t>::max())));
    state_->count = g.get_execution_plan_count();
  } catch (const std::exception& error) {
    if (dynamic_cast<const Error*>(&error) != nullptr) throw;
    reasons.push_back({"cudnn-frontend", one_line(error.what())});
  }
}

Candidates::~Candidates() = default;

bool Candidates::any() const { return state_->count > 0; }

std::unique_ptr<const BuiltGraph> Candidates::next() {
  while (state_->index < state_->count) {
    const std::int64_t index = state_->index++;
    auto status = state_->graph->build_plan_at_index(index);
    if (status.is_good()) {
      const std::size_t workspace = workspace_at(*state_->graph, index);
      const std::string name = name_at(*state_->graph, index);
      if (!state_->max_workspace || workspace <= *state_->max_workspace)
        return std::make_unique<Built>(state_->graph, index, state_->uids, name, workspace);
      // The frontend's own scratch memory, which its limit does not count.
      excluded_by = "max_workspace";
      reasons.push_back({name, text("needs a workspace of ", workspace, " bytes")});
      continue;
    }
    const std::string message = one_line(status.get_message());
    if (message.find("Deselecting execution plan") != std::string::npos) excluded_by = "deterministic";
    if (message.find("workspace violation") != std::string::npos) excluded_by = "max_workspace";
    reasons.push_back({name_at(*state_->graph, index), message});
  }
  return nullptr;
}

std::unique_ptr<const BuiltGraph> load_graph(const EngineGraph& graph, const StoredPlan& plan,
                                             cudnnContext* handle) {
  open_frontend(false);
  auto loaded = std::make_shared<FrontendGraph>();
  deserialize(*loaded, handle, plan.bytes, "the plan " + plan.engine);
  return std::make_unique<Built>(std::move(loaded), 0, bound_uids(graph), plan.engine, plan.workspace);
}

void open_frontend(bool planning) {
  const Libraries& libraries = planning ? libraries_for_planning() : libraries_for_device();
  // A symbol that the frontend looks up too early stays null.
  static const bool once = [&] {
    fe::cudnn_dlhandle = libraries.cudnn.handle;
    return true;
  }();
  static_cast<void>(once);
}

bool has_mode(Op op) { return mode_of(op).has_value(); }

cudnnContext* create_handle() {
  open_frontend(false);
  cudnnHandle_t handle = nullptr;
  check(fe::detail::create_handle(&handle), "cudnnCreate");
  return handle;
}

void set_stream(cudnnContext* handle, CUstream_st* stream) {
  check(fe::detail::set_stream(handle, stream), "cudnnSetStream");
}

#include "backends/cudnn/foreign_graph.inl"  // NOLINT(bugprone-suspicious-include): see there

}  // namespace stiletto::detail::cudnn
