// SPDX-License-Identifier: Apache-2.0
// Calls as nodes of a user's CUDA graph. A call is recorded, as a capture would record it, on a stream of its
// own into a graph that becomes the node's child graph: one way for plans with and without cuDNN, in which
// numbers, which cuDNN reads as the call is made, are part of what is recorded. To update a node the call is
// recorded again.
#include "backends/cudnn/graph_memory.hpp"
#include "backends/cudnn/handles.hpp"
#include "backends/cudnn/recording.hpp"
#include "compiler/executable.hpp"
#include "core/text.hpp"
#include "stiletto/cuda.hpp"
#include "stiletto/error.hpp"

namespace stiletto {
namespace detail::cudnn {
namespace {

/// Whose call it is, and what it uses.
struct Call {
  std::shared_ptr<const Executable> executable;
  const BindingTable& bindings;
};

Call call_of(const Graph& graph, const Bindings& bindings, const char* operation) {
  auto executable = Executable::of(graph, operation);
  const BindingTable& table = executable->own(bindings, operation);
  if (executable->device().is_cpu())
    throw ArgumentError(text(operation,
                             ": this Graph runs on the CPU, and the nodes of a CUDA graph on a GPU; ",
                             "compile it for arrays on a GPU"));
  return {std::move(executable), table};
}

/// Recorded work, without an owner.
class Recorded {
 public:
  Recorded(const Call& call, const char* operation) {
    // Relaxed: the call may be the thread's first, which makes it a handle of cuDNN's.
    Recording recording(operation, cudaStreamCaptureModeRelaxed);
    {
      const StreamGuard guard(recording.stream());
      call.executable->execute(call.bindings);
    }
    graph_ = recording.end();
    if (graph_ == nullptr) throw DeviceError(text(operation, ": CUDA could not record the call"));
  }
  Recorded(const Recorded&) = delete;
  Recorded& operator=(const Recorded&) = delete;
  ~Recorded() { cuda().GraphDestroy(graph_); }

  /// The child graph keeps what the call uses: arrays, and the plan where cuDNN did not have it kept already.
  void keep(const Call& call) const {
    struct Used {
      std::shared_ptr<const Executable> executable;
      std::vector<Array> memory;
    };
    keep_with_graph(graph_, std::make_shared<const Used>(Used{call.executable, call.bindings.memory}));
  }
  cudaGraph_t graph() const { return graph_; }

 private:
  cudaGraph_t graph_ = nullptr;
};

}  // namespace
}  // namespace detail::cudnn

using namespace detail::cudnn;

CUgraphNode_st* add_node(CUgraph_st* graph, std::span<CUgraphNode_st* const> dependencies, const Graph& call,
                         const Bindings& bindings) {
  constexpr const char* operation = "add_node";
  if (graph == nullptr) throw ArgumentError(detail::text(operation, ": the CUDA graph is a null pointer"));
  const Call made = call_of(call, bindings, operation);
  const CurrentDevice current(made.executable->device().index());
  cudaGraphNode_t node = nullptr;
  if (made.executable->plan() == nullptr) {
    check(cuda().GraphAddEmptyNode(&node, graph, dependencies.data(), dependencies.size()), operation);
    return node;
  }
  const Recorded recorded(made, operation);
  recorded.keep(made);
  check(
      cuda().GraphAddChildGraphNode(&node, graph, dependencies.data(), dependencies.size(), recorded.graph()),
      operation);
  return node;
}

void update_node(CUgraphExec_st* executable, CUgraphNode_st* node, const Graph& call,
                 const Bindings& bindings) {
  constexpr const char* operation = "update_node";
  if (executable == nullptr || node == nullptr)
    throw ArgumentError(detail::text(
        operation, ": the ", executable == nullptr ? "executable CUDA graph" : "node", " is a null pointer"));
  const Call made = call_of(call, bindings, operation);
  if (made.executable->plan() == nullptr) return;
  const CurrentDevice current(made.executable->device().index());
  const Recorded recorded(made, operation);
  recorded.keep(made);
  check(cuda().GraphExecChildGraphNodeSetParams(executable, node, recorded.graph()),
        "update_node, with the call that add_node was given and an executable of that graph");
}

}  // namespace stiletto
