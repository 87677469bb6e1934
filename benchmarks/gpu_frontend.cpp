// SPDX-License-Identifier: Apache-2.0
#include "gpu_frontend.hpp"

#include <algorithm>
#include <stdexcept>

#include "gpu_graph_writer.hpp"

namespace {

void check(fe::error_t status) {
  if (status.is_bad()) throw std::runtime_error("cudnn-frontend: " + status.get_message());
}
void check(cudnnStatus_t status) {
  if (status != CUDNN_STATUS_SUCCESS)
    throw std::runtime_error(std::string("cuDNN: ") + fe::detail::get_error_string(status));
}

fe::DataType_t type_of(stiletto::DType dtype) {
  switch (dtype) {
    case stiletto::DType::bfloat16:
      return fe::DataType_t::BFLOAT16;
    case stiletto::DType::float16:
      return fe::DataType_t::HALF;
    default:
      return fe::DataType_t::FLOAT;
  }
}

}  // namespace

struct FrontendGraph::State {
  fe::graph::Graph graph;
  cudnnHandle_t handle = nullptr;
  std::int64_t plan = -1;
  std::vector<void*> pointers;  // in the order of the uids
  stiletto::Array workspace;

  void take(std::int64_t index) {
    std::int64_t bytes = 0;
    check(graph.get_workspace_size_plan_at_index(index, bytes));
    workspace = stiletto::empty({std::max<std::int64_t>(bytes, 1)}, stiletto::DType::uint8,
                                stiletto::Device::cuda(0));
    plan = index;
  }
};

FrontendGraph::FrontendGraph(const Workload& workload, std::vector<void*> pointers)
    : state_(std::make_unique<State>()) {
  State& s = *state_;
  check(fe::detail::create_handle(&s.handle));
  GraphWriter writer(s.graph, type_of(workload.dtype));
  workload.graph(writer);
  check(s.graph.validate());
  check(s.graph.build_operation_graph(s.handle));
  check(s.graph.create_execution_plans({fe::HeurMode_t::A, fe::HeurMode_t::FALLBACK}));
  std::string reasons;
  for (std::int64_t i = 0; i < s.graph.get_execution_plan_count() && s.plan < 0; ++i) {
    auto status = s.graph.build_plan_at_index(i);
    if (status.is_good())
      s.plan = i;
    else
      reasons += "\n  " + status.get_message();
  }
  if (s.plan < 0) throw std::runtime_error("cudnn-frontend has no plan for " + workload.name + reasons);
  s.take(s.plan);
  s.pointers = std::move(pointers);
}

int FrontendGraph::plan_index() const { return static_cast<int>(state_->plan); }
int FrontendGraph::plan_count() const { return static_cast<int>(state_->graph.get_execution_plan_count()); }
bool FrontendGraph::choose(int index) {
  if (index != state_->plan && state_->graph.build_plan_at_index(index).is_bad()) return false;
  state_->take(index);
  return true;
}

FrontendGraph::~FrontendGraph() {
  if (state_->handle != nullptr) fe::detail::destroy_handle(state_->handle);
}

void FrontendGraph::use_stream(CUstream_st* stream) { check(fe::detail::set_stream(state_->handle, stream)); }

void FrontendGraph::execute() {
  State& s = *state_;
  check(s.graph.execute_plan_at_index(s.handle, s.pointers.data(), static_cast<int>(s.pointers.size()),
                                      s.workspace.raw_data(), s.plan));
}

std::string FrontendGraph::plan() const {
  std::string name;
  check(state_->graph.get_plan_name_at_index(state_->plan, name));
  return name;
}
