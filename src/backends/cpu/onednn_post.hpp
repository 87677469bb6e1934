// SPDX-License-Identifier: Apache-2.0
// Post-operations in oneDNN's terms. An elementwise one is taken only if this build of oneDNN, on this
// processor, computes it by the rules of docs/semantics.md, which is asked once per operation and
// coefficient. Included by onednn*.cpp only.
#pragma once
#include <optional>
#include <span>
#include <vector>

#include "backends/cpu/kernels.hpp"
#include "backends/cpu/matmul.hpp"
#include "backends/cpu/onednn.hpp"

namespace stiletto::detail::cpu {

/// One link of the chain: elementwise, or binary with the post-operation's operand on the right.
struct PostLink {
  dnnl::algorithm algorithm;
  float alpha = 0, beta = 0;
  bool binary = false;
  std::size_t operand = 0;  // index of the post-operation, if binary
};

/// Multiplication by a number, exact and with the sign of zero: adding −0 changes nothing.
inline PostLink scaling(double factor) {
  return {dnnl::algorithm::eltwise_linear, static_cast<float>(factor), -0.0F};
}

/// An elementwise operation that the library's own kernel does, in a pass over what oneDNN has written.
struct OwnOperation {
  MapKernel kernel;
  double coefficient;
};

struct PostChain {
  std::vector<PostLink> links;
  std::vector<OwnOperation> own;  // after the links
};

/// `c` is the dtype in which oneDNN writes the product. Empty when one of the operations cannot be had.
std::optional<PostChain> post_chain(std::span<const PostOperation> post, DType c);

}  // namespace stiletto::detail::cpu
