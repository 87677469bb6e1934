// SPDX-License-Identifier: Apache-2.0
// A cuDNN graph as plain data: what the lowering produces, what golden tests compare, and what the one
// translation unit that knows cudnn-frontend turns into its objects. All tensors of a graph have one rank.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "graph/attributes.hpp"
#include "graph/op.hpp"
#include "stiletto/dtype.hpp"

namespace stiletto::detail::cudnn {

struct EngineTensor {
  static constexpr std::uint32_t dense = 0xFFFFFFFF;
  enum class Role : std::uint8_t {
    input,         // memory: tensors[source] of the canonical graph
    output,        // memory: stores[source]
    number,        // on the host, bound at each call: scalars[source]
    constant,      // `value`, part of the plan
    ones,          // a vector of ones in device memory, which all plans share
    intermediate,  // inside the engine
  };
  Role role = Role::intermediate;
  std::uint32_t source = 0;
  DType dtype = DType::float32;
  std::vector<std::int64_t> dims, strides;  // elements; empty strides of an intermediate: the engine's own
  int alignment = 16;                       // bytes
  double value = 0;
  bool tiled = false;  // scales of blocks, in F8_128x4: core/block_scales.hpp
  /// Of packed sequences, (batch, heads, longest sequence, width): the tensor with the element at which each
  /// of them begins, and how many rows there are in all.
  std::uint32_t offsets = dense;
  std::int64_t rows = 0;

  bool is_packed() const { return offsets != dense; }
  /// Elements from the first to the last, gaps included; of memory.
  std::int64_t span() const {
    std::int64_t last = 0;
    for (std::size_t i = is_packed() ? 1 : 0; i < dims.size(); ++i)
      last += ((is_packed() && i == 2 ? rows : dims[i]) - 1) * strides[i];
    return last + 1;
  }
};

/// Booleans are bytes of 0 and 1 here as in our memory, which to cuDNN are INT8: its own BOOLEAN is a bit in
/// memory, and as a mask inside a graph it does not compile for sizes that are not multiples of 8 (9.19).
///
/// One operation. Pointwise: Op names the mode (copy is the identity, where takes value, other value, mask;
/// all else in the order of the canonical graph). Reductions: sum, prod, max, min, abs_max, norm1, norm2.
/// Structured operations: the operands of the canonical graph; behind those of norms a constant epsilon, and
/// of batch_norm_training a constant momentum. quantize, dequantize: BlockAttributes::last is of the dims.
struct EngineNode {
  static constexpr std::uint32_t absent = 0xFFFFFFFF;
  Op op = Op::copy;
  std::vector<std::uint32_t> inputs;
  std::uint32_t output = 0;
  DType compute = DType::float32;
  double coefficient = 0;  // slope, bound or alpha of an activation
  double lower = 0;        // relu: max(x, lower), NaN kept
  Attributes attributes;   // of a structured operation, over the dimensions that its tensors have here
  std::vector<std::uint32_t> further;  // its results after `output`; `absent`: not computed

  /// Calls visit(tensor) for each result.
  template <class Visit>
  void each_result(const Visit& visit) const {
    visit(output);
    for (const std::uint32_t result : further)
      if (result != absent) visit(result);
  }
};

struct EngineGraph {
  std::string name;  // what it computes, shortened: "tanh(matmul(arg0, arg1))"
  std::string form;  // how the canonical graph was re-expressed: "as it is", "65536 x 1024 x 64", …
  std::vector<EngineTensor> tensors;
  std::vector<EngineNode> nodes;  // topological

  std::string to_string() const;
};

}  // namespace stiletto::detail::cudnn
