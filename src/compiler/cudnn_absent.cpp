// SPDX-License-Identifier: Apache-2.0
// What cudnn.hpp and cuda.hpp declare, in builds without the cuDNN backend: there is nothing of cuDNN's to
// give or take.
#ifndef STILETTO_HAS_CUDNN
#include "core/text.hpp"
#include "stiletto/cuda.hpp"
#include "stiletto/cudnn.hpp"
#include "stiletto/error.hpp"

namespace stiletto {

namespace {

[[noreturn]] void refuse(const char* function) {
  throw DeviceError(detail::text(function, ": this build has no cuDNN backend; configure with ",
                                 "-DSTILETTO_CUDA=ON (scripts/bootstrap.sh --cuda fetches the headers)"));
}

}  // namespace

int cudnn_frontend_version() { return 0; }
std::size_t cudnn_version() { refuse("cudnn_version"); }

CUgraphNode_st* add_node(CUgraph_st*, std::span<CUgraphNode_st* const>, const Graph&, const Bindings&) {
  refuse("add_node");
}
void update_node(CUgraphExec_st*, CUgraphNode_st*, const Graph&, const Bindings&) { refuse("update_node"); }

namespace detail {
std::shared_ptr<const Executable> adopt(std::shared_ptr<cudnn_frontend::graph::Graph>,
                                        const std::vector<std::int64_t>&, const std::vector<std::int64_t>&,
                                        std::size_t, std::size_t, Device) {
  refuse("from_cudnn_graph");
}
}  // namespace detail

}  // namespace stiletto
#endif
