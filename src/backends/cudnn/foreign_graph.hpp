// SPDX-License-Identifier: Apache-2.0
// A graph that somebody else wrote with cudnn-frontend: its tensors as plain data, and its plan.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "compiler/backend.hpp"
#include "stiletto/array.hpp"

struct cudnnContext;
namespace cudnn_frontend::graph {
class Graph;
}

namespace stiletto::detail::cudnn {

/// CUDNN_FRONTEND_VERSION of the headers that this was compiled with.
int frontend_version();

struct ForeignTensor {
  std::int64_t uid = 0;
  std::string name;  // "uid 3 (bias)", for texts
  Shape shape;
  Strides strides;
  DType dtype = DType::float32;
  int alignment = 16;   // bytes, at most 16
  bool number = false;  // on the host, passed by value
};

/// Errors begin with "from_cudnn_graph: " and name the uid.
class ForeignGraph {
 public:
  /// Takes the graph and looks its inputs and outputs up, after cudnn-frontend has validated it unless it is
  /// further already. ArgumentError for uids that are unknown, named twice, of values inside the graph, of
  /// numbers with a value, or on the wrong side; DTypeError and ShapeError for what no array can be.
  ForeignGraph(std::shared_ptr<cudnn_frontend::graph::Graph> graph, const std::vector<std::int64_t>& inputs,
               const std::vector<std::int64_t>& outputs);
  /// What serialize() gave, on the handle's device, without descriptions. DeviceError.
  ForeignGraph(const std::string& bytes, cudnnContext* handle);
  /// Builds what is missing, with a handle or, without, for the device properties that the graph has. False
  /// with what cuDNN said in `reasons`. ArgumentError where a tensor is neither an input nor an output.
  bool build(cudnnContext* handle, std::vector<EngineReason>& reasons);

  const std::vector<ForeignTensor>& inputs() const { return inputs_; }
  const std::vector<ForeignTensor>& outputs() const { return outputs_; }
  /// The properties of the GPU that it is built for, as cuDNN serialises them, where the graph has them.
  std::string properties() const;
  /// Whether it can be built, or has been, where there is no GPU.
  bool knows_its_gpu() const;
  /// After build(): the uids of inputs and outputs, ascending.
  const std::vector<std::int64_t>& uids() const { return uids_; }
  std::size_t workspace() const;
  std::string engine() const;
  /// `pointers`: in the order of uids(). Any thread. DeviceError.
  void execute(cudnnContext* handle, std::vector<void*>& pointers, void* workspace) const;
  /// The plan. DeviceError where cuDNN cannot.
  std::string serialize() const;
  cudnn_frontend::graph::Graph* native() const { return graph_.get(); }

 private:
  bool build_plan(cudnnContext* handle, std::vector<EngineReason>& reasons);
  ForeignTensor look_up(std::int64_t uid, bool output) const;
  void check_complete() const;
  /// Once lowered, which may give tensors without a type another one than the graph's.
  void settle_dtypes();

  std::shared_ptr<cudnn_frontend::graph::Graph> graph_;
  std::vector<ForeignTensor> inputs_, outputs_;
  std::vector<std::int64_t> uids_;
};

}  // namespace stiletto::detail::cudnn
