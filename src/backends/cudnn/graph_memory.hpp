// SPDX-License-Identifier: Apache-2.0
// What CUDA graphs keep alive: an object that is given to a graph lives as long as the graph, its clones and
// executables do and until their launches have ended. CUDA then tells so in a thread of its own, in which no
// CUDA function may be called, so that the object goes later, in a thread that asks for memory or a plan.
#pragma once
#include <memory>

#include "backends/cudnn/streams.hpp"
#include "compiler/backend.hpp"

namespace stiletto::detail::cudnn {

/// DeviceError, with the object not kept.
void keep_with_graph(cudaGraph_t graph, std::shared_ptr<const void> object);

/// Drops what graphs keep no longer, unless the current stream is being captured.
void drop_what_graphs_kept();

/// The graph that a stream's work is recorded into. DeviceError where the capture has been invalidated.
cudaGraph_t graph_being_captured(CUstream_st* stream, const char* operation);

/// Where the stream is being captured, gives the execution's owner to the graph: the plan and the arrays that
/// it captured.
void keep_with_capture(const StreamKey& stream, const Invocation& invocation);

/// While the current stream is being captured: ArgumentError that begins with `what` cannot be done.
void refuse_while_captured(const char* what);

}  // namespace stiletto::detail::cudnn
