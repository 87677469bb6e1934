// SPDX-License-Identifier: Apache-2.0
// A plan for a GPU that is not here: it can be looked at and saved.
#pragma once
#include <string>
#include <vector>

#include "backends/cudnn/frontend.hpp"
#include "backends/cudnn/target.hpp"

namespace stiletto::detail::cudnn {

class StoredGraph : public BuiltGraph {
 public:
  explicit StoredGraph(StoredPlan plan) : plan_(std::move(plan)) {}
  std::size_t workspace() const override { return plan_.workspace; }
  std::string engine() const override { return plan_.engine; }
  void execute(cudnnContext*, const std::vector<void*>&, void*) const override { throw_absent_gpu(); }
  std::string serialize() const override { return plan_.bytes; }
  cudnn_frontend::graph::Graph* native() const override { throw_absent_gpu(); }

 private:
  StoredPlan plan_;
};

}  // namespace stiletto::detail::cudnn
