// SPDX-License-Identifier: Apache-2.0
#include "backends/cudnn/cudnn_plan.hpp"

#include <algorithm>

#include "backends/cudnn/cuda_runtime.hpp"
#include "backends/cudnn/handles.hpp"
#include "backends/cudnn/profiler_range.hpp"
#include "backends/cudnn/recording.hpp"
#include "backends/cudnn/streams.hpp"
#include "backends/cudnn/target.hpp"
#include "backends/cudnn/workspace.hpp"
#include "core/device_memory.hpp"
#include "core/dtype_info.hpp"
#include "core/text.hpp"
#include "graph/op_table.hpp"
#include "stiletto/error.hpp"

namespace stiletto::detail::cudnn {

CudnnPlan::CudnnPlan(EngineGraph graph, std::unique_ptr<const BuiltGraph> built, int device, bool present)
    : graph_(std::move(graph)),
      range_("stiletto: " + graph_.name),
      built_(std::move(built)),
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
      if (present) pointer = ones_on_device(device, t.dtype, t.dims.back());
    } else {
      slots_.push_back({pointers_.size(), &t});
    }
    pointers_.push_back(pointer);
  }
}

CudnnPlan::Frame& CudnnPlan::frame_of_thread() {
  thread_local Frame frame;
  return frame;
}

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

void CudnnPlan::execute(const Invocation& invocation) const {
  if (!present_) throw_absent_gpu();
  const ProfilerRange range(range_.c_str());
  const CurrentDevice current(device_);
  CUstream_st* stream = use_current_stream(device_).handle;
  Frame& frame = frame_of_thread();
  bind(
      frame,
      [&](const EngineTensor& t) -> void* {
        return t.role == EngineTensor::Role::input ? invocation.tensors[t.source]
                                                   : invocation.stores[t.source];
      },
      invocation.scalars);
  built_->execute(handle_for(device_, stream), frame.pointers,
                  cudnn::workspace(device_, stream, workspace()));
}

std::string CudnnPlan::describe() const {
  return text("  cudnn ", built_->engine(), ", ", graph_.form, ", workspace ", workspace(), " bytes\n");
}

std::string CudnnPlan::launch_problem() const {
  const CurrentDevice current(device_);
  std::size_t numbers = 0;
  for (const EngineTensor& t : graph_.tensors)
    if (t.role == EngineTensor::Role::number) numbers = std::max<std::size_t>(numbers, t.source + 1);
  const std::vector<ScalarValue> scalars(numbers);
  // Kernels' arguments are not followed, so any address will do; but what a plan clears before it adds to it,
  // its workspace and the outputs of reductions, has to be memory.
  std::vector<std::shared_ptr<Storage>> cleared{cuda_memory().allocate(Device::cuda(device_), workspace())};
  Frame frame;
  constexpr std::uintptr_t somewhere = std::uintptr_t{1} << 40U;
  std::uintptr_t apart = 0;
  auto address = [&](const EngineTensor& t) -> void* {
    const bool reduced = std::any_of(graph_.nodes.begin(), graph_.nodes.end(), [&](const EngineNode& node) {
      return &graph_.tensors[node.output] == &t && row_of(node.op).family == Family::reduction;
    });
    // NOLINTNEXTLINE(performance-no-int-to-ptr)
    if (!reduced) return reinterpret_cast<void*>(somewhere + (apart++ << 32U));
    cleared.push_back(cuda_memory().allocate(Device::cuda(device_), bytes_for(t.dtype, t.span())));
    return cleared.back()->data;
  };
  bind(frame, address, scalars);
  handle_for(device_, nullptr);  // made before the capture, during which it could not be
  Recording recording;
  try {
    built_->execute(handle_for(device_, recording.stream()), frame.pointers, cleared.front()->data);
  } catch (const DeviceError& error) {
    handle_for(device_, nullptr);
    return error.what();
  }
  handle_for(device_, nullptr);
  cudaGraph_t graph = recording.end();
  if (graph == nullptr) return "its launch could not be captured";
  cudaGraphExec_t executable = nullptr;
  const cudaError_t status = cuda().GraphInstantiate(&executable, graph, 0);
  cuda().GraphDestroy(graph);
  if (executable != nullptr) cuda().GraphExecDestroy(executable);
  return status == cudaSuccess ? "" : text("launching it fails: ", cuda().GetErrorString(status));
}

}  // namespace stiletto::detail::cudnn
