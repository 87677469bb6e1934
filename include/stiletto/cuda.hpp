// SPDX-License-Identifier: Apache-2.0
// CUDA streams, where work on the GPU goes, and CUDA graphs, of which compiled calls can be nodes. Needs no
// CUDA header.
#pragma once
#include <span>

#include "stiletto/export.hpp"

struct CUstream_st;     // what CUDA's cudaStream_t and CUstream point to,
struct CUgraph_st;      // cudaGraph_t and CUgraph,
struct CUgraphNode_st;  // cudaGraphNode_t and CUgraphNode,
struct CUgraphExec_st;  // cudaGraphExec_t and CUgraphExec

namespace stiletto {

class Bindings;
class Graph;

/// While it lives, this thread's work on GPUs goes to `stream`; nested guards restore the one before. Without
/// a guard the work goes to CUDA's default stream, so that plain cudaMemcpy calls around it stay in order.
/// The stream belongs to the device of the arrays that are used with it, and outlives the guard.
class STILETTO_API StreamGuard {
 public:
  explicit StreamGuard(CUstream_st* stream);
  ~StreamGuard();
  StreamGuard(const StreamGuard&) = delete;
  StreamGuard& operator=(const StreamGuard&) = delete;

 private:
  CUstream_st* before_;
};

/// Adds a call, which is call.execute(bindings), to a CUDA graph as one node, a child graph that runs after
/// the `dependencies`. Nothing is executed. The node has the memory and the numbers that the bindings have
/// now; the graph, its clones and its executables keep that memory, the plan and its scratch alive.
/// ArgumentError for a call on the CPU, AliasError like a call's, DeviceError with CUDA's words.
STILETTO_API CUgraphNode_st* add_node(CUgraph_st* graph, std::span<CUgraphNode_st* const> dependencies,
                                      const Graph& call, const Bindings& bindings);

/// The node in an executable made of that graph gets the memory and the numbers that the bindings have now,
/// from its next launch on; launches under way keep theirs, and the graph itself is left as it was. `call`
/// has to be the one that the node was added with.
STILETTO_API void update_node(CUgraphExec_st* executable, CUgraphNode_st* node, const Graph& call,
                              const Bindings& bindings);

namespace detail {
CUstream_st* current_stream();  // of this thread
}

}  // namespace stiletto
