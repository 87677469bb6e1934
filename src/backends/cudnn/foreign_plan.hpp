// SPDX-License-Identifier: Apache-2.0
// Plans of graphs that were not traced (<stiletto/cudnn.hpp>, from_cudnn_graph).
#pragma once
#include <memory>
#include <optional>

#include "backends/cudnn/cudnn_plan.hpp"

namespace stiletto::detail::cudnn {

/// Whether the graph says what is read and written, and not what is computed.
bool is_foreign(const CanonicalGraph& graph);

/// What the plan of such a graph saved, for a device whose plans have the origin `here`, or to be looked at
/// where there is no GPU. DeviceError, ArchiveError.
std::unique_ptr<const Plan> load_foreign_plan(Reader& reader, const CanonicalGraph& graph,
                                              const std::optional<Origin>& here, int device);

}  // namespace stiletto::detail::cudnn
