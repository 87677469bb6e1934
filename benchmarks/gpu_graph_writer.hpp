// SPDX-License-Identifier: Apache-2.0
// What the graphs by hand are written with: cudnn-frontend itself, and the numbering of operands and results.
#pragma once
#include <cudnn_frontend.h>

#include <cstdint>
#include <vector>

namespace fe = cudnn_frontend;

class GraphWriter {
 public:
  using Tensor = std::shared_ptr<fe::graph::Tensor_attributes>;
  using Extents = std::vector<std::int64_t>;
  using Mode = fe::PointwiseMode_t;

  /// `type`: of operands and results.
  GraphWriter(fe::graph::Graph& to, fe::DataType_t type) : graph(to) {
    graph.set_io_data_type(type)
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
  }

  Tensor input(const Extents& extents, const Extents& strides) {
    return graph.tensor(fe::graph::Tensor_attributes().set_uid(next_++).set_dim(extents).set_stride(strides));
  }
  Tensor matrix(std::int64_t rows, std::int64_t columns) {
    return input({1, rows, columns}, {rows * columns, columns, 1});
  }
  void output(const Tensor& result) { result->set_output(true).set_uid(next_++); }
  void output(const Tensor& result, const Extents& extents, const Extents& strides) {
    output(result);
    result->set_dim(extents).set_stride(strides);
  }

  Tensor matmul(const Tensor& a, const Tensor& b) {
    return graph.matmul(a, b, fe::graph::Matmul_attributes());
  }
  Tensor pointwise(Mode mode, const Tensor& x) {
    return graph.pointwise(x, fe::graph::Pointwise_attributes().set_mode(mode));
  }
  Tensor pointwise(Mode mode, const Tensor& x, const Tensor& y) {
    return graph.pointwise(x, y, fe::graph::Pointwise_attributes().set_mode(mode));
  }

  fe::graph::Graph& graph;

 private:
  std::int64_t next_ = 1;
};
