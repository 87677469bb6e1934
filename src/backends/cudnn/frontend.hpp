// SPDX-License-Identifier: Apache-2.0
// What the rest of the backend asks of cudnn-frontend, which only frontend.cpp includes.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backends/cudnn/engine_graph.hpp"
#include "compiler/backend.hpp"
#include "stiletto/error.hpp"

struct cudnnContext;
struct CUstream_st;
namespace cudnn_frontend::graph {
class Graph;
}

namespace stiletto::detail::cudnn {

/// A cuDNN graph with a chosen plan. Immutable; any thread may execute it.
class BuiltGraph {
 public:
  BuiltGraph() = default;
  BuiltGraph(const BuiltGraph&) = delete;
  BuiltGraph& operator=(const BuiltGraph&) = delete;
  virtual ~BuiltGraph() = default;
  virtual std::size_t workspace() const = 0;
  virtual std::string engine() const = 0;  // cuDNN's own name of the plan
  /// `pointers`: of the graph's tensors in order, without intermediates; of numbers and constants pointers to
  /// floats on the host. Throws DeviceError.
  virtual void execute(cudnnContext* handle, const std::vector<void*>& pointers, void* workspace) const = 0;
  virtual std::string serialize() const = 0;  // as load_graph takes it
  /// The graph itself, whose own execute() runs the plan. DeviceError where it is not in this process.
  virtual cudnn_frontend::graph::Graph* native() const = 0;
};

/// The uid of EngineGraph::tensors[i].
inline std::int64_t uid_of(std::size_t tensor) { return static_cast<std::int64_t>(tensor) + 1; }

/// What is kept of a built graph.
struct StoredPlan {
  std::string engine;
  std::size_t workspace = 0;
  std::string bytes;  // of BuiltGraph::serialize
};

/// The graph's plan on the handle's device, without looking for one: milliseconds. DeviceError where cuDNN
/// does not take it.
std::unique_ptr<const BuiltGraph> load_graph(const EngineGraph& graph, const StoredPlan& plan,
                                             cudnnContext* handle);

/// Plans of one graph, in the order of cuDNN's preference, built one at a time.
class Candidates {
 public:
  /// With a handle, for its device; without, for `target`. Refusals so far are in `reasons`.
  Candidates(const EngineGraph& graph, const PlanOptions& options, cudnnContext* handle,
             const TargetProperties* target);
  Candidates(const Candidates&) = delete;
  Candidates& operator=(const Candidates&) = delete;
  ~Candidates();
  /// Whether there is a plan to try, built or not.
  bool any() const;
  /// The next plan that can be built; null when there are no more.
  std::unique_ptr<const BuiltGraph> next();
  std::vector<EngineReason> reasons;
  std::optional<std::string> excluded_by;  // the option that removed a candidate

 private:
  struct State;
  std::shared_ptr<State> state_;
};

/// Opens the libraries, and has cudnn-frontend find them; before anything of it is called. Of the GPU that is
/// there, or for planning without one.
void open_frontend(bool planning);

/// Whether cuDNN has a pointwise mode of that name.
bool has_mode(Op op);

cudnnContext* create_handle();                               // of the current device; DeviceError
void set_stream(cudnnContext* handle, CUstream_st* stream);  // DeviceError

}  // namespace stiletto::detail::cudnn
