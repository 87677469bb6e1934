// SPDX-License-Identifier: Apache-2.0
// The graphs of the GPU benchmarks in cudnn-frontend's own words.
#include "gpu_frontend.hpp"

#include <cudnn_frontend.h>

#include <stdexcept>

namespace fe = cudnn_frontend;
using TensorPointer = std::shared_ptr<fe::graph::Tensor_attributes>;
using Mode = fe::PointwiseMode_t;

namespace {

void check(fe::error_t status) {
  if (status.is_bad()) throw std::runtime_error("cudnn-frontend: " + status.get_message());
}
void check(cudnnStatus_t status) {
  if (status != CUDNN_STATUS_SUCCESS)
    throw std::runtime_error(std::string("cuDNN: ") + fe::detail::get_error_string(status));
}

class Writer {
 public:
  Writer(fe::graph::Graph& graph, const Workload& workload) : graph_(graph), work_(workload) {
    const bool half = workload.dtype == stiletto::DType::bfloat16;
    graph.set_io_data_type(half ? fe::DataType_t::BFLOAT16 : fe::DataType_t::FLOAT)
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
  }

  void write() {
    TensorPointer result;
    switch (work_.kind) {
      case Workload::Kind::tanh_product: {
        const auto x = input(work_.m, work_.k), w = input(work_.k, work_.n);
        result = pointwise(Mode::TANH_FWD, pointwise(Mode::MUL, matmul(x, w), graph_.tensor(0.05F)));
        break;
      }
      case Workload::Kind::gelu_product: {
        const auto x = input(work_.m, work_.k), w = input(work_.k, work_.n), b = input(1, work_.n);
        result = pointwise(Mode::GELU_APPROX_TANH_FWD, pointwise(Mode::ADD, matmul(x, w), b));
        break;
      }
      case Workload::Kind::gated_product: {
        const auto x = input(work_.m, work_.k), w = input(work_.k, work_.n), v = input(work_.k, work_.n);
        const auto gate = matmul(x, w), value = matmul(x, v);
        result = pointwise(Mode::MUL, pointwise(Mode::SWISH_FWD, gate), value);
        break;
      }
      case Workload::Kind::multiply_add: {
        const auto x = input(work_.m, work_.n), y = input(work_.m, work_.n), z = input(work_.m, work_.n);
        result = pointwise(Mode::ADD, pointwise(Mode::MUL, x, y), z);
        break;
      }
    }
    result->set_output(true).set_uid(next_++);
  }

 private:
  TensorPointer input(std::int64_t rows, std::int64_t columns) {
    return graph_.tensor(fe::graph::Tensor_attributes()
                             .set_uid(next_++)
                             .set_dim({1, rows, columns})
                             .set_stride({rows * columns, columns, 1}));
  }
  TensorPointer matmul(const TensorPointer& a, const TensorPointer& b) {
    return graph_.matmul(a, b, fe::graph::Matmul_attributes());
  }
  TensorPointer pointwise(Mode mode, const TensorPointer& x) {
    return graph_.pointwise(x, fe::graph::Pointwise_attributes().set_mode(mode));
  }
  TensorPointer pointwise(Mode mode, const TensorPointer& x, const TensorPointer& y) {
    return graph_.pointwise(x, y, fe::graph::Pointwise_attributes().set_mode(mode));
  }

  fe::graph::Graph& graph_;
  const Workload& work_;
  std::int64_t next_ = 1;
};

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
  Writer(s.graph, workload).write();
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
