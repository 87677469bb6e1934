// SPDX-License-Identifier: Apache-2.0
// Plans on disk, so that another process need not build them: a folder of files named by what a plan depends
// on, which any number of processes may share.
#pragma once
#include <functional>
#include <memory>

#include "compiler/backend.hpp"

namespace stiletto::detail {

/// The plan from the options' cache folder, or one that is built, and left there. A file that cannot be used
/// is told to the log and replaced; nothing that is wrong with the folder keeps a plan from being built.
/// `trial` is asked for when plans have to be timed.
std::unique_ptr<const Plan> find_or_build_plan(const Backend& backend, const CanonicalGraph& graph,
                                               const CompileOptions& options, Device device,
                                               const std::function<Trial()>& trial);

}  // namespace stiletto::detail
