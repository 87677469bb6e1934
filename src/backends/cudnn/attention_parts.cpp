// SPDX-License-Identifier: Apache-2.0
#include "backends/cudnn/attention_parts.hpp"

#include <algorithm>
#include <vector>

namespace stiletto::detail::cudnn {

bool has_attention_in_parts(const CanonicalGraph& graph) {
  enum Behind : unsigned char { neither, product, softmax_of_product };
  std::vector<Behind> behind;
  for (const Value& value : graph.values) {
    Behind most = neither;
    for (std::size_t i = 0; i < value.arity; ++i) most = std::max(most, behind[value.inputs[i]]);
    if (value.kind == Value::Kind::operation) {
      if (value.op == Op::matmul && most == softmax_of_product) return true;
      if (value.op == Op::matmul) most = product;
      if (value.op == Op::softmax && most == product) most = softmax_of_product;
    }
    behind.push_back(most);
  }
  return false;
}

}  // namespace stiletto::detail::cudnn
