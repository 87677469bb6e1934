// SPDX-License-Identifier: Apache-2.0
#include "backends/cudnn/cudnn_plan.hpp"

#include <algorithm>
#include <cstring>

#include "backends/cudnn/checking.hpp"
#include "backends/cudnn/cuda_runtime.hpp"
#include "backends/cudnn/engine_archive.hpp"
#include "backends/cudnn/graph_memory.hpp"
#include "backends/cudnn/handles.hpp"
#include "backends/cudnn/profiler_range.hpp"
#include "backends/cudnn/recording.hpp"
#include "backends/cudnn/stored_graph.hpp"
#include "backends/cudnn/streams.hpp"
#include "backends/cudnn/target.hpp"
#include "backends/cudnn/workspace.hpp"
#include "core/device_memory.hpp"
#include "core/dtype_info.hpp"
#include "core/text.hpp"
#include "core/thread_own.hpp"
#include "graph/op_table.hpp"
#include "stiletto/error.hpp"

namespace stiletto::detail::cudnn {

CudnnPlan::CudnnPlan(EngineGraph graph, std::unique_ptr<const BuiltGraph> built, Origin origin, int device,
                     bool present)
    : graph_(std::move(graph)),
      range_("stiletto: " + graph_.name),
      built_(std::move(built)),
      origin_(std::move(origin)),
      device_(device),
      present_(present) {
  constants_.reserve(graph_.tensors.size());  // their addresses are kept
  for (const EngineTensor& t : graph_.tensors) {
    if (t.role == EngineTensor::Role::intermediate) continue;
    void* pointer = nullptr;
    if (t.role == EngineTensor::Role::constant) {
      constants_.push_back(static_cast<float>(t.value));
      pointer = &constants_.back();
    } else if (t.role == EngineTensor::Role::ones) {
      if (present) pointer = ones_on_device(device, t.dtype, t.span());
    } else {
      slots_.push_back({pointers_.size(), &t});
    }
    pointers_.push_back(pointer);
  }
}

CudnnPlan::~CudnnPlan() { unload(built_, present_); }

template <class Memory>
void CudnnPlan::bind(Frame& frame, const Memory& memory, std::span<const ScalarValue> scalars) const {
  frame.pointers = pointers_;
  frame.numbers.resize(scalars.size());
  for (const auto& [at, t] : slots_) {
    if (t->role != EngineTensor::Role::number) {
      frame.pointers[at] = memory(*t);
      continue;
    }
    frame.numbers[t->source] = static_cast<float>(scalars[t->source].as_double());
    frame.pointers[at] = &frame.numbers[t->source];
  }
}

void CudnnPlan::bind_invocation(Frame& frame, const Invocation& invocation) const {
  bind(
      frame,
      [&](const EngineTensor& t) -> void* {
        return t.role == EngineTensor::Role::input ? invocation.tensors[t.source]
                                                   : invocation.stores[t.source];
      },
      invocation.scalars);
}

void CudnnPlan::execute(const Invocation& invocation) const {
  if (!present_) throw_absent_gpu();
  const ProfilerRange range(range_.c_str());
  const CurrentDevice current(device_);
  const StreamKey key = use_current_stream(device_);
  keep_with_capture(key, invocation);
  CUstream_st* const stream = key.handle;
  Frame late;
  Frame* const kept = ThreadOwn<Frame>::get();
  Frame& frame = kept != nullptr ? *kept : late;
  bind_invocation(frame, invocation);
  if (checking() && !key.is_captured()) check_values(graph_, frame.pointers, device_);
  built_->execute(handle_for(device_, stream), frame.pointers,
                  cudnn::workspace(device_, stream, workspace()));
}

NativePack CudnnPlan::native_pack(const Invocation& invocation, std::span<std::uint64_t> numbers) const {
  Frame frame;
  bind_invocation(frame, invocation);
  NativePack pack;
  for (std::size_t i = 0; i < graph_.tensors.size(); ++i) {
    const EngineTensor& t = graph_.tensors[i];
    if (t.role == EngineTensor::Role::intermediate) continue;
    void* pointer = frame.pointers[pack.size()];
    if (t.role == EngineTensor::Role::number)
      pointer = std::memcpy(&numbers[t.source], pointer, sizeof frame.numbers[t.source]);
    pack.emplace_back(uid_of(i), pointer);
  }
  return pack;
}

std::string CudnnPlan::summary() const {
  return text("cudnn ", built_->engine(), ", ", graph_.form, ", workspace ", workspace(), " bytes");
}

std::string CudnnPlan::describe() const { return text("  ", summary(), "\n", report_); }

void CudnnPlan::save(Writer& writer) const {
  writer(origin_, graph_, report_, built_->engine(), static_cast<std::uint64_t>(workspace()),
         built_->serialize());
}

void check_origin(const Origin& saved, const Origin& here) {
  auto refuse = [](const std::string& what, const std::string& there, const std::string& now) {
    throw DeviceError(text("this plan was built ", what, there, ", and here is ", now, "; compile it here"));
  };
  if (saved.target != here.target) refuse("for ", saved.target, here.target);
  if (saved.library != here.library) refuse("with ", saved.library, here.library);
  const char* const texts[] = {"TF32 off", "TF32 allowed"};
  if (saved.tf32 != here.tf32)
    refuse("with ", texts[static_cast<int>(saved.tf32)], texts[static_cast<int>(here.tf32)]);
}

std::unique_ptr<const CudnnPlan> CudnnPlan::load(Reader& reader, const std::optional<Origin>& here,
                                                 int device) {
  Origin origin;
  EngineGraph graph;
  StoredPlan stored;
  std::string report;
  std::uint64_t workspace = 0;
  reader(origin, graph, report, stored.engine, workspace, stored.bytes);
  stored.workspace = static_cast<std::size_t>(workspace);
  auto plan_of = [&](std::unique_ptr<const BuiltGraph> built) {
    auto plan = std::make_unique<CudnnPlan>(std::move(graph), std::move(built), std::move(origin), device,
                                            here.has_value());
    plan->set_report(std::move(report));
    return plan;
  };
  if (!here) return plan_of(std::make_unique<StoredGraph>(std::move(stored)));
  check_origin(origin, *here);
  const CurrentDevice current(device);
  auto plan = plan_of(load_graph(graph, stored, handle_of(device)));
  if (const std::string problem = plan->launch_problem(); !problem.empty())
    throw DeviceError(
        text("this plan was built without its GPU and does not run on it: ", problem, "; compile it here"));
  return plan;
}

std::string CudnnPlan::launch_problem() const {
  const CurrentDevice current(device_);
  std::size_t numbers = 0;
  for (const EngineTensor& t : graph_.tensors)
    if (t.role == EngineTensor::Role::number) numbers = std::max<std::size_t>(numbers, t.source + 1);
  const std::vector<ScalarValue> scalars(numbers);
  // Kernels' arguments are not followed, so any address will do; but what a plan clears before it adds to it,
  // its workspace and the outputs of reductions and gradients, has to be memory.
  std::vector<std::shared_ptr<Storage>> cleared{cuda_memory().allocate(Device::cuda(device_), workspace())};
  Frame frame;
  constexpr std::uintptr_t somewhere = std::uintptr_t{1} << 40U;
  std::uintptr_t apart = 0;
  auto address = [&](const EngineTensor& t) -> void* {
    const bool reduced = std::any_of(graph_.nodes.begin(), graph_.nodes.end(), [&](const EngineNode& node) {
      const Family family = row_of(node.op).family;
      bool result = false;
      node.each_result([&](std::uint32_t tensor) { result = result || &graph_.tensors[tensor] == &t; });
      return result && (family == Family::reduction || family == Family::structured);
    });
    // NOLINTNEXTLINE(performance-no-int-to-ptr)
    if (!reduced) return reinterpret_cast<void*>(somewhere + (apart++ << 32U));
    cleared.push_back(cuda_memory().allocate(Device::cuda(device_), bytes_for(t.dtype, t.span())));
    return cleared.back()->data;
  };
  bind(frame, address, scalars);
  handle_of(device_);  // made before the capture, during which it could not be
  Recording recording("trying a plan");
  try {
    built_->execute(handle_for(device_, recording.stream()), frame.pointers, cleared.front()->data);
  } catch (const DeviceError& error) {
    return error.what();
  }
  cudaGraph_t graph = recording.end();
  if (graph == nullptr) return "its launch could not be captured";
  cudaGraphExec_t executable = nullptr;
  const cudaError_t status = cuda().GraphInstantiate(&executable, graph, 0);
  cuda().GraphDestroy(graph);
  if (executable != nullptr) cuda().GraphExecDestroy(executable);
  return status == cudaSuccess ? "" : text("launching it fails: ", cuda().GetErrorString(status));
}

namespace {

/// A recorded graph that can be launched and timed; everything of CUDA's that this takes.
class Launcher {
 public:
  explicit Launcher(Recording& recording) {
    cudaGraph_t graph = recording.end();
    if (graph == nullptr) throw DeviceError("timing a plan: its launch could not be captured");
    const cudaError_t status = cuda().GraphInstantiate(&executable_, graph, 0);
    cuda().GraphDestroy(graph);
    check(status, what);
    for (cudaEvent_t* event : {&begin_, &end_}) check(cuda().EventCreateWithFlags(event, 0), what);
  }
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;
  ~Launcher() {
    for (cudaEvent_t event : {begin_, end_})
      if (event != nullptr) cuda().EventDestroy(event);
    if (executable_ != nullptr) cuda().GraphExecDestroy(executable_);
  }
  /// Microseconds of one launch.
  double time(cudaStream_t stream) {
    check(cuda().EventRecord(begin_, stream), what);
    check(cuda().GraphLaunch(executable_, stream), what);
    check(cuda().EventRecord(end_, stream), what);
    check(cuda().StreamSynchronize(stream), what);
    float milliseconds = 0;
    check(cuda().EventElapsedTime(&milliseconds, begin_, end_), what);
    return static_cast<double>(milliseconds) * 1000;
  }

 private:
  static constexpr const char* what = "timing a plan";
  cudaGraphExec_t executable_ = nullptr;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

}  // namespace

double CudnnPlan::microseconds(const Invocation& invocation) const {
  const CurrentDevice current(device_);
  const auto scratch = cuda_memory().allocate(Device::cuda(device_), workspace());
  // What is queued on the current stream may still write the arguments, and would disturb the clock.
  check(cuda().StreamSynchronize(use_current_stream(device_).handle), "timing a plan");
  Frame frame;
  bind_invocation(frame, invocation);
  handle_of(device_);  // made before the capture, during which it could not be
  auto median_of = [&](int executions, int launches) {
    Recording recording("timing a plan");
    const auto handle = handle_for(device_, recording.stream());
    for (int i = 0; i < executions; ++i) built_->execute(handle, frame.pointers, scratch->data);
    Launcher launcher(recording);
    launcher.time(recording.stream());  // the first one loads the kernels
    std::vector<double> times;
    times.reserve(static_cast<std::size_t>(launches));
    for (int i = 0; i < launches; ++i) times.push_back(launcher.time(recording.stream()) / executions);
    std::ranges::sort(times);
    return times[times.size() / 2];
  };
  // Long enough for the launch itself not to count.
  const double once = median_of(1, 1);
  const int executions = static_cast<int>(std::clamp(500 / std::max(once, 1.0), 1.0, 50.0));
  return median_of(executions, 7);
}

}  // namespace stiletto::detail::cudnn
