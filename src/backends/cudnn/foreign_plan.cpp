// SPDX-License-Identifier: Apache-2.0
// A graph of cudnn-frontend that was not traced, as an executable like any other: its description takes the
// place of the trace, and its canonical graph says what is read and written, not what is computed.
#include <algorithm>
#include <cstring>

#include "backends/cudnn/cuda_runtime.hpp"
#include "backends/cudnn/foreign_graph.hpp"
#include "backends/cudnn/foreign_plan.hpp"
#include "backends/cudnn/frontend.hpp"
#include "backends/cudnn/graph_memory.hpp"
#include "backends/cudnn/handles.hpp"
#include "backends/cudnn/profiler_range.hpp"
#include "backends/cudnn/streams.hpp"
#include "backends/cudnn/target.hpp"
#include "backends/cudnn/target_json.hpp"
#include "backends/cudnn/workspace.hpp"
#include "compiler/executable.hpp"
#include "core/text.hpp"
#include "core/tf32.hpp"
#include "core/thread_own.hpp"
#include "stiletto/cudnn.hpp"
#include "stiletto/error.hpp"

namespace stiletto::detail {
namespace cudnn {
namespace {

/// Where the memory of a uid comes from.
struct Source {
  enum class Kind : std::uint8_t { tensor, number, store };
  std::int64_t uid = 0;
  Kind kind = Kind::tensor;
  std::uint32_t index = 0;
};
template <class Archive, Archived<Source> T>
void archive(Archive& ar, T& s) {
  ar(s.uid, s.kind, s.index);
}

/// What is saved.
struct ForeignParts {
  Origin origin;
  std::vector<Source> sources;  // by ascending uid, as the graph takes them
  std::string engine;
  std::uint64_t workspace = 0;
  std::string bytes;  // of the plan; empty where there is the graph
};
template <class Archive, Archived<ForeignParts> T>
void archive(Archive& ar, T& p) {
  ar(p.origin, p.sources, p.engine, p.workspace, p.bytes);
}

class ForeignPlan : public Plan {
 public:
  /// `graph`: none where the plan can only be looked at.
  ForeignPlan(ForeignParts parts, std::optional<ForeignGraph> graph, const CanonicalGraph& canonical,
              int device, bool present)
      : parts_(std::move(parts)),
        graph_(std::move(graph)),
        device_(device),
        present_(present),
        number_types_(canonical.scalars) {}
  ForeignPlan(const ForeignPlan&) = delete;
  ForeignPlan& operator=(const ForeignPlan&) = delete;
  ~ForeignPlan() override { unload(graph_, present_); }

  std::size_t workspace() const override { return static_cast<std::size_t>(parts_.workspace); }
  /// What the graph reads when is not known.
  bool allows_in_place(std::size_t, std::size_t) const override { return false; }
  std::string describe() const override {
    return text("  cudnn ", parts_.engine, ", a graph that was not traced, workspace ", workspace(),
                " bytes\n");
  }

  void execute(const Invocation& invocation) const override {
    if (!present_) throw_absent_gpu();
    const ProfilerRange range("stiletto: cudnn-frontend graph");
    const CurrentDevice current(device_);
    const StreamKey stream = use_current_stream(device_);
    keep_with_capture(stream, invocation);
    Frame late;
    Frame* const kept = ThreadOwn<Frame>::get();
    Frame& frame = kept != nullptr ? *kept : late;
    frame.numbers.resize(number_types_.size());
    frame.pointers.clear();
    for (const Source& source : parts_.sources)
      frame.pointers.push_back(pointer(source, invocation, frame.numbers));
    graph_->execute(handle_for(device_, stream.handle), frame.pointers,
                    cudnn::workspace(device_, stream.handle, workspace()));
  }

  void* native_graph() const override {
    if (!graph_) throw_absent_gpu();
    return graph_->native();
  }
  void save(Writer& writer) const override {
    ForeignParts parts = parts_;
    if (graph_) parts.bytes = graph_->serialize();
    writer(parts);
  }
  NativePack native_pack(const Invocation& invocation, std::span<std::uint64_t> numbers) const override {
    NativePack pack;
    for (const Source& source : parts_.sources)
      pack.emplace_back(source.uid, pointer(source, invocation, numbers));
    return pack;
  }

 private:
  struct Frame {
    std::vector<void*> pointers;
    std::vector<std::uint64_t> numbers;
  };

  void* pointer(const Source& source, const Invocation& invocation, std::span<std::uint64_t> numbers) const {
    if (source.kind == Source::Kind::tensor) return invocation.tensors[source.index];
    if (source.kind == Source::Kind::store) return invocation.stores[source.index];
    std::byte bytes[8] = {};
    encode_number(invocation.scalars[source.index], number_types_[source.index], bytes);
    return std::memcpy(&numbers[source.index], bytes, sizeof bytes);
  }

  ForeignParts parts_;
  std::optional<ForeignGraph> graph_;
  int device_;
  bool present_;
  std::vector<DType> number_types_;
};

/// Axes of a graph of which nothing is known but its tensors: within a tensor they differ, and tensors share
/// those of equal extents in order.
class Axes {
 public:
  explicit Axes(CanonicalGraph& graph) : graph_(graph) {}
  void place(const ForeignTensor& from, Tensor& tensor) {
    for (std::size_t dim = 0; dim < from.shape.size(); ++dim) {
      if (from.shape[dim] == 1) continue;
      std::size_t axis = 0;
      while (axis < graph_.extents.size() &&
             (graph_.extents[axis] != from.shape[dim] || tensor.axes.test(axis)))
        ++axis;
      if (axis == graph_.extents.size()) graph_.extents.push_back(from.shape[dim]);
      tensor.axes.set(axis);
      tensor.strides.resize(graph_.extents.size());
      tensor.strides[axis] = from.strides[dim];
    }
  }
  /// Once all tensors have been placed.
  void finish() {
    for (Tensor& tensor : graph_.tensors) tensor.strides.resize(graph_.extents.size());
    for (Store& store : graph_.stores) store.tensor.strides.resize(graph_.extents.size());
  }

 private:
  CanonicalGraph& graph_;
};

Tensor tensor_of(const ForeignTensor& from, Tensor::Home home, std::size_t index) {
  Tensor tensor;
  tensor.home = home;
  tensor.index = static_cast<std::uint32_t>(index);
  tensor.dtype = from.dtype;
  tensor.alignment = from.alignment;
  tensor.name = text(home == Tensor::Home::output ? "out" : "arg", index);
  return tensor;
}

/// All but the plan.
Executable::Parts parts_of(const ForeignGraph& foreign, Device device) {
  Executable::Parts parts;
  parts.device = device;
  parts.text = "cudnn-frontend graph\n";
  CanonicalGraph& graph = parts.lowered.graph;
  Axes axes(graph);
  auto describe = [&](const std::string& name, const ForeignTensor& t) {
    parts.text +=
        text("  ", name, " = ", t.name, ": ", t.dtype, t.number ? text(" by value") : text(t.shape), '\n');
  };
  for (std::size_t i = 0; i < foreign.inputs().size(); ++i) {
    const ForeignTensor& t = foreign.inputs()[i];
    ArgumentSpec spec;
    spec.shape = t.shape;
    spec.strides = canonical_strides(t.shape, t.strides);
    spec.dtype = t.dtype;
    spec.device = device;
    spec.alignment = t.alignment;
    spec.number = t.number;
    spec.position = static_cast<int>(i);
    Value value;
    value.dtype = t.dtype;
    if (t.number) {
      HostScalars& scalars = parts.lowered.scalars;
      spec.scalar = value.source = static_cast<std::uint32_t>(graph.scalars.size());
      scalars.slots.push_back(static_cast<std::uint32_t>(scalars.steps.size()));
      scalars.steps.push_back({.trace_scalar = spec.scalar, .literal = {}, .node = {}});
      graph.scalars.push_back(t.dtype);
      value.kind = Value::Kind::scalar;
    } else {
      value.kind = Value::Kind::tensor;
      value.source = static_cast<std::uint32_t>(graph.tensors.size());
      graph.tensors.push_back(tensor_of(t, Tensor::Home::argument, i));
      axes.place(t, graph.tensors.back());
      value.axes = graph.tensors.back().axes;
    }
    graph.values.push_back(value);
    describe(spec.name(), t);
    parts.arguments.push_back(spec);
  }
  for (std::size_t i = 0; i < foreign.outputs().size(); ++i) {
    const ForeignTensor& t = foreign.outputs()[i];
    Store store;
    store.value = static_cast<std::uint32_t>(graph.values.size());
    store.tensor = tensor_of(t, Tensor::Home::output, i);
    axes.place(t, store.tensor);
    Value value;
    value.kind = Value::Kind::foreign;
    value.dtype = t.dtype;
    value.source = static_cast<std::uint32_t>(i);
    value.axes = store.tensor.axes;
    graph.values.push_back(value);
    graph.stores.push_back(store);
    const Strides strides = canonical_strides(t.shape, t.strides);
    parts.lowered.outputs.push_back({t.shape, strides, t.dtype});
    parts.lowered.results.push_back(
        {Tensor::Home::output, static_cast<std::uint32_t>(i), true, t.shape, strides, 0});
    describe(store.tensor.name, t);
  }
  axes.finish();
  return parts;
}

std::vector<Source> sources_of(const ForeignGraph& foreign) {
  std::vector<Source> sources;
  std::uint32_t tensors = 0, numbers = 0, stores = 0;
  for (const ForeignTensor& t : foreign.inputs())
    sources.push_back(t.number ? Source{t.uid, Source::Kind::number, numbers++}
                               : Source{t.uid, Source::Kind::tensor, tensors++});
  for (const ForeignTensor& t : foreign.outputs()) sources.push_back({t.uid, Source::Kind::store, stores++});
  std::sort(sources.begin(), sources.end(), [](const Source& a, const Source& b) { return a.uid < b.uid; });
  return sources;
}

/// Of the GPU whose properties the graph has, or of one that nothing is known of.
Origin origin_of(const ForeignGraph& foreign, Device device, bool present) {
  if (present) return origin_here(device);
  Origin origin{"a GPU that is not here", cudnn_backend().library(), tf32_allowed()};
  const std::string properties = foreign.properties();
  if (properties.empty()) return origin;
  std::string name, version;
  for (const JsonMember& member : parse_json_object(properties)) {
    if (member.key == "deviceName") name = member.value.substr(1, member.value.size() - 2);
    if (member.key == "deviceVer") version = member.value.substr(0, member.value.size() - 1);
  }
  if (!name.empty()) origin.target = text(name, " (sm_", version, ")");
  return origin;
}

/// "2 arguments, and 3 inputs": how a signature and a list differ.
void check_count(const char* in, std::size_t wanted, const char* listed, std::size_t given) {
  if (wanted == given) return;
  throw ArgumentError(text("from_cudnn_graph: the signature has ", wanted, ' ', in, wanted == 1 ? "" : "s",
                           ", and ", given, ' ', listed, given == 1 ? " is" : "s are",
                           " listed; give one uid for each, in order"));
}

}  // namespace

bool is_foreign(const CanonicalGraph& graph) {
  return std::any_of(graph.values.begin(), graph.values.end(),
                     [](const Value& value) { return value.kind == Value::Kind::foreign; });
}

std::unique_ptr<const Plan> load_foreign_plan(Reader& reader, const CanonicalGraph& graph,
                                              const std::optional<Origin>& here, int device) {
  ForeignParts parts;
  reader(parts);
  for (const Source& source : parts.sources) {
    const std::size_t size = source.kind == Source::Kind::tensor   ? graph.tensors.size()
                             : source.kind == Source::Kind::number ? graph.scalars.size()
                                                                   : graph.stores.size();
    if (source.index >= size) throw ArchiveError("is damaged");
  }
  if (!here) return std::make_unique<ForeignPlan>(std::move(parts), std::nullopt, graph, device, false);
  check_origin(parts.origin, *here);
  const CurrentDevice current(device);
  open_frontend(false);
  ForeignGraph foreign(parts.bytes, handle_of(device));
  if (foreign.uids().size() != parts.sources.size()) throw ArchiveError("is damaged");
  parts.bytes.clear();
  return std::make_unique<ForeignPlan>(std::move(parts), std::move(foreign), graph, device, true);
}

}  // namespace cudnn

std::shared_ptr<const Executable> adopt(std::shared_ptr<cudnn_frontend::graph::Graph> graph,
                                        const std::vector<std::int64_t>& inputs,
                                        const std::vector<std::int64_t>& outputs, std::size_t arguments,
                                        std::size_t results, Device device) {
  constexpr const char* operation = "from_cudnn_graph";
  if (!graph) throw ArgumentError(text(operation, ": the graph is a null pointer"));
  if (!device.is_cuda())
    throw ArgumentError(
        text(operation, ": the device is ", device, "; cuDNN's graphs run on a GPU: Device::cuda(0)"));
  cudnn::check_count("argument", arguments, "input", inputs.size());
  cudnn::check_count("result", results, "output", outputs.size());
  cudnn::refuse_while_captured("from_cudnn_graph: a plan cannot be built");
  const bool present = cudnn::has_driver();
  cudnn::open_frontend(!present);
  std::optional<cudnn::CurrentDevice> current;
  std::optional<cudnn::BesideCapture> beside;  // cuDNN loads and unloads kernels
  if (present) {
    current.emplace(device.index());
    beside.emplace();
  }
  cudnn::ForeignGraph foreign(std::move(graph), inputs, outputs);
  if (!present && !foreign.knows_its_gpu())
    throw DeviceError(text(operation,
                           ": there is no GPU here to build the graph for; give it the properties of ",
                           "one with set_device_properties, or build its plans before"));
  const cudnn::Origin origin = cudnn::origin_of(foreign, device, present);
  std::vector<EngineReason> reasons;
  if (!foreign.build(present ? cudnn::handle_of(device.index()) : nullptr, reasons))
    throw_unsupported(cudnn::parts_of(foreign, device).lowered.graph,
                      {origin.target,
                       origin.library,
                       std::move(reasons),
                       {},
                       "change the graph so that cuDNN has an engine for it"});
  Executable::Parts parts = cudnn::parts_of(foreign, device);
  cudnn::ForeignParts kept{origin, cudnn::sources_of(foreign), foreign.engine(), foreign.workspace(), {}};
  parts.plan = std::make_unique<cudnn::ForeignPlan>(std::move(kept), std::move(foreign), parts.lowered.graph,
                                                    device.index(), present);
  return Executable::assemble(std::move(parts));
}

}  // namespace stiletto::detail

namespace stiletto {

int cudnn_frontend_version() { return detail::cudnn::frontend_version(); }

std::size_t cudnn_version() {
  const bool planning = !detail::cudnn::has_driver();
  detail::cudnn::open_frontend(planning);
  return (planning ? detail::cudnn::libraries_for_planning() : detail::cudnn::libraries_for_device())
      .cudnn_version;
}

}  // namespace stiletto
