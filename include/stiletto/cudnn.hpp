// SPDX-License-Identifier: Apache-2.0
// To and from cudnn-frontend: the graph behind a compiled function, executed by hand, and a graph that
// somebody wrote with cudnn-frontend as a compiled function. Needs no header of NVIDIA's; who uses the type
// cudnn_frontend::graph::Graph includes the cudnn-frontend that Stiletto was built with.
#pragma once
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "stiletto/compile.hpp"
#include "stiletto/device.hpp"
#include "stiletto/export.hpp"

namespace cudnn_frontend::graph {
class Graph;
}

namespace stiletto {

/// The cudnn-frontend that Stiletto was built with, as CUDNN_FRONTEND_VERSION counts (13200 for 1.32.0): the
/// layout of Graph is that version's. 0 in builds without the cuDNN backend.
STILETTO_API int cudnn_frontend_version();

/// The cuDNN that Stiletto found, as cudnnGetVersion() counts (91900 for 9.19.0). Opens it, and has
/// cudnn-frontend find it where that is compiled with NV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING. DeviceError
/// where it is missing.
STILETTO_API std::size_t cudnn_version();

/// The graph behind a compiled function, with its plan as the one that execute(handle, pack, workspace) runs;
/// it keeps the function's plan alive. Workspace: Compiled::workspace() bytes. ArgumentError for graphs that
/// are executed without cuDNN (on the CPU, or filling memory), DeviceError where the plan was built in
/// another process, for a GPU that is not here.
STILETTO_API std::shared_ptr<cudnn_frontend::graph::Graph> cudnn_graph(const Graph& graph);

/// What that graph is executed with: the uid of every tensor outside the graph and its memory, of numbers and
/// constants on the host. The pointers hold as long as the bindings do; after Bindings::set the pack has to
/// be made again. ArgumentError like cudnn_graph, AliasError like a call.
STILETTO_API std::vector<std::pair<std::int64_t, void*>> variant_pack(const Bindings& bindings);

namespace detail {

STILETTO_API std::shared_ptr<const Executable> adopt(std::shared_ptr<cudnn_frontend::graph::Graph> graph,
                                                     const std::vector<std::int64_t>& inputs,
                                                     const std::vector<std::int64_t>& outputs,
                                                     std::size_t arguments, std::size_t results,
                                                     Device device);

/// Makes a Compiled without a function.
struct CompiledAccess {
  template <class R, class... Args>
  static void set(Compiled<R(Args...)>& compiled, std::shared_ptr<const Executable> executable, R prototype) {
    compiled.executable_ = std::move(executable);
    compiled.graph_ = graph_of(compiled.executable_);
    compiled.prototype_ = std::make_shared<const R>(std::move(prototype));
  }
};

template <class Signature>
struct Adoption;
template <class R, class... Args>
struct Adoption<R(Args...)> {
  static_assert((std::same_as<Args, Array> && ...),
                "from_cudnn_graph: every argument is an Array, numbers too");
  static Compiled<R(Args...)> run(std::shared_ptr<cudnn_frontend::graph::Graph> graph,
                                  const std::vector<std::int64_t>& inputs,
                                  const std::vector<std::int64_t>& outputs, Device device) {
    R prototype{};
    if constexpr (std::same_as<R, std::vector<Array>>) prototype.resize(outputs.size());
    std::size_t results = 0;
    auto count = [&](const Array&) { ++results; };
    visit_arrays(prototype, count);
    Compiled<R(Args...)> compiled;
    CompiledAccess::set(compiled, adopt(std::move(graph), inputs, outputs, sizeof...(Args), results, device),
                        std::move(prototype));
    return compiled;
  }
};

}  // namespace detail

/// A graph written with cudnn-frontend as a compiled function: `inputs` and `outputs` are the uids of its
/// arguments and results, in order.
///
///   auto layer = from_cudnn_graph<Array(Array, Array, Array)>(graph, {x_uid, w_uid, bias_uid}, {y_uid});
///
/// Every tensor outside the graph is listed, except numbers that have their value in it. Shapes, strides,
/// dtypes and alignments are those of its tensors; tensors passed by value are numbers. The result is an
/// Array, or a tuple, pair, std::array or std::vector of them; results are allocated, dense, in the tensors'
/// order of axes, and may not be the memory of an argument (Bindings::set gives them other memory).
///
/// A tensor without a data type has the graph's io type. K and V of attention have the shapes that the
/// program gave them, also where cudnn-frontend has exchanged their last axes since; not in graphs that were
/// deserialised, which do not tell.
///
/// The graph may have been described only, or be anywhere on its way to a plan: what is missing is built, and
/// a plan that it has is the one that runs. The function keeps it; it may not be changed afterwards.
/// ArgumentError, DTypeError and ShapeError name the uid that is missing, unknown or not fit; where cuDNN has
/// no engine for it UnsupportedGraphError; DeviceError where there is no GPU to build for.
template <class Signature>
Compiled<Signature> from_cudnn_graph(std::shared_ptr<cudnn_frontend::graph::Graph> graph,
                                     const std::vector<std::int64_t>& inputs,
                                     const std::vector<std::int64_t>& outputs,
                                     Device device = Device::cuda(0)) {
  return detail::Adoption<Signature>::run(std::move(graph), inputs, outputs, device);
}

}  // namespace stiletto
