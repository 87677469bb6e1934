// SPDX-License-Identifier: Apache-2.0
#include "support/frontend_graphs.hpp"

#include <cudnn_frontend.h>

#include <stdexcept>

namespace support {
namespace {

namespace fe = cudnn_frontend;
using Tensor = std::shared_ptr<fe::graph::Tensor_attributes>;

void check(fe::error_t status) {
  if (status.is_bad()) throw std::runtime_error("cudnn-frontend: " + status.get_message());
}

}  // namespace

int frontend_version() { return CUDNN_FRONTEND_VERSION; }

NativeGraph empty_graph() { return std::make_shared<fe::graph::Graph>(); }

NativeGraph Layer::describe(NativeGraph graph) const {
  const auto type = in_float64 ? fe::DataType_t::DOUBLE : fe::DataType_t::HALF;
  const auto inner = in_float64 ? fe::DataType_t::DOUBLE : fe::DataType_t::FLOAT;
  graph->set_intermediate_data_type(inner).set_compute_data_type(inner);
  if (has_types) graph->set_io_data_type(type);
  auto input = [&](std::int64_t uid, const char* name, std::int64_t rows, std::int64_t columns) {
    return graph->tensor(fe::graph::Tensor_attributes()
                             .set_uid(uid)
                             .set_name(name)
                             .set_data_type(has_types ? fe::DataType_t::NOT_SET : type)
                             .set_dim({1, rows, columns})
                             .set_stride({rows * columns, columns, 1}));
  };
  auto pointwise = [&](fe::PointwiseMode_t mode) { return fe::graph::Pointwise_attributes().set_mode(mode); };
  const Tensor a = input(x, "x", 64, 128), b = input(w, "w", 128, 96), c = input(bias, "bias", 1, 96);
  auto number = factor_has_value ? fe::graph::Tensor_attributes(2.0F) : fe::graph::Tensor_attributes();
  number.set_uid(factor).set_name("factor").set_dim({1, 1, 1}).set_stride({1, 1, 1});
  const Tensor scale = graph->tensor(number.set_data_type(fe::DataType_t::FLOAT).set_is_pass_by_value(true));
  const Tensor dot = graph->matmul(a, b, fe::graph::Matmul_attributes());
  dot->set_uid(product).set_name("product");
  const Tensor sum = graph->pointwise(dot, c, pointwise(fe::PointwiseMode_t::ADD));
  const Tensor positive = graph->pointwise(sum, pointwise(fe::PointwiseMode_t::RELU_FWD));
  const Tensor result = output == Output::bits
                            ? graph->pointwise(positive, c, pointwise(fe::PointwiseMode_t::CMP_GT))
                            : graph->pointwise(positive, scale, pointwise(fe::PointwiseMode_t::MUL));
  result->set_uid(y).set_name("y").set_output(true);
  if (!has_types) result->set_data_type(type);
  if (output == Output::bits) result->set_data_type(fe::DataType_t::BOOLEAN);
  if (output == Output::transposed) result->set_dim({1, 64, 96}).set_stride({64 * 96, 1, 64});
  if (output == Output::gaps) result->set_dim({1, 64, 96}).set_stride({64 * 100, 100, 1});
  graph->tensor(fe::graph::Tensor_attributes()
                    .set_uid(unused)
                    .set_name("spare")
                    .set_data_type(unused_has_type ? type : fe::DataType_t::NOT_SET)
                    .set_dim(std::vector<std::int64_t>(unused_rank, 1))
                    .set_stride(std::vector<std::int64_t>(unused_rank, 1)));
  return graph;
}

NativeGraph Attention::describe(NativeGraph graph) const {
  graph->set_io_data_type(fe::DataType_t::HALF)
      .set_intermediate_data_type(fe::DataType_t::FLOAT)
      .set_compute_data_type(fe::DataType_t::FLOAT);
  const auto rows = [](fe::graph::Tensor_attributes& tensor, std::int64_t count) -> auto& {
    return tensor.set_dim({1, 2, count, 32}).set_stride({64 * count, 32 * count, 32, 1});
  };
  const auto input = [&](std::int64_t uid, const char* name, std::int64_t count) {
    fe::graph::Tensor_attributes tensor;
    return graph->tensor(rows(tensor.set_uid(uid).set_name(name), count));
  };
  const auto output = [&](const Tensor& tensor, std::int64_t uid, std::int64_t count) {
    rows(tensor->set_output(true).set_uid(uid), count);
  };
  const Tensor a = input(q, "Q", 64), b = input(k, "K", 96), c = input(v, "V", 96);
  if (!backward) {
    const auto [result, statistics] = graph->sdpa(
        a, b, c,
        fe::graph::SDPA_attributes().set_name("attention").set_generate_stats(true).set_attn_scale(0.125F));
    output(result, o, 64);
    statistics->set_output(true).set_uid(stats).set_data_type(fe::DataType_t::FLOAT);
    return graph;
  }
  const Tensor result = input(o, "O", 64), slope = input(d_o, "dO", 64);
  const Tensor statistics = graph->tensor(fe::graph::Tensor_attributes()
                                              .set_uid(stats)
                                              .set_data_type(fe::DataType_t::FLOAT)
                                              .set_dim({1, 2, 64, 1})
                                              .set_stride({128, 64, 1, 1}));
  const auto slopes =
      graph->sdpa_backward(a, b, c, result, slope, statistics,
                           fe::graph::SDPA_backward_attributes().set_name("backward").set_attn_scale(0.125F));
  output(slopes[0], d_q, 64);
  output(slopes[1], d_k, 96);
  output(slopes[2], d_v, 96);
  return graph;
}

void set_target(const NativeGraph& graph, const std::string& json, int sm) {
  auto properties = std::make_shared<fe::DeviceProperties>();
  check(properties->deserialize(std::vector<std::uint8_t>(json.begin(), json.end())));
  graph->set_device_properties(properties);
  graph->set_sm_version(sm);
}

void lower(const NativeGraph& graph, cudnnContext* handle) {
  check(graph->validate());
  check(handle != nullptr ? graph->build_operation_graph(handle) : graph->build_operation_graph());
}

void build(const NativeGraph& graph, cudnnContext* handle) {
  lower(graph, handle);
  check(graph->create_execution_plans({fe::HeurMode_t::A, fe::HeurMode_t::FALLBACK}));
  check(graph->build_plans(fe::BuildPlanPolicy_t::HEURISTICS_CHOICE));
}

std::vector<std::uint8_t> serialize(const NativeGraph& graph) {
  std::vector<std::uint8_t> data;
  check(graph->serialize(data));
  return data;
}

NativeGraph restored(const std::vector<std::uint8_t>& data, const std::string& json, int sm) {
  auto graph = std::make_shared<fe::graph::Graph>();
  set_target(graph, json, sm);
  check(graph->deserialize(data, true));
  return graph;
}

std::vector<std::int64_t> uids_of(const NativeGraph& graph) {
  check(graph->prepare_variant_pack_template());
  return graph->get_variant_pack_uids_sorted();
}

std::int64_t workspace_of(const NativeGraph& graph) {
  std::int64_t bytes = 0;
  check(graph->get_workspace_size(bytes));
  return bytes;
}

std::string plan_of(const NativeGraph& graph) {
  std::string name;
  check(graph->get_plan_name(name));
  return name;
}

Handle::Handle(CUstream_st* stream) {
  if (fe::detail::create_handle(&handle_) != CUDNN_STATUS_SUCCESS ||
      fe::detail::set_stream(handle_, stream) != CUDNN_STATUS_SUCCESS)
    throw std::runtime_error("no cuDNN handle");
}
Handle::~Handle() { fe::detail::destroy_handle(handle_); }

void execute(const NativeGraph& graph, const Handle& handle, const NativePack& pack, void* workspace) {
  std::unordered_map<std::int64_t, void*> pointers(pack.begin(), pack.end());
  check(graph->execute(handle.get(), pointers, workspace));
}

}  // namespace support
