// SPDX-License-Identifier: Apache-2.0
// One oneDNN matmul primitive over a block of a product: what it is made from, what it has to be given when
// it runs, and the memory objects for that. Included by onednn*.cpp only.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "backends/cpu/matmul.hpp"
#include "backends/cpu/onednn.hpp"
#include "backends/cpu/onednn_post.hpp"

namespace stiletto::detail::cpu {

struct BlockShape {
  std::vector<std::int64_t> batch;  // of the problem's batch axes all or none
  std::int64_t m, n;
  bool operator==(const BlockShape&) const = default;
};

/// Where a memory argument of the primitive comes from.
struct BlockArgument {
  enum class Source { a, b, c, operand, number, scratch };
  Source source;
  std::size_t post = 0;  // operand, number: index of the post-operation
};

/// Memory objects for one execution at a time; pointers are set before each.
class BlockBinding {
 public:
  void set(std::size_t argument, const void* pointer);
  void execute(const dnnl::primitive& primitive);

 private:
  friend class Block;
  std::vector<dnnl::memory> memories_;
  std::vector<dnnl_exec_arg_t> list_;
};

class Block {
 public:
  /// Null when oneDNN refuses the block, or has only its reference implementation for it and that is not
  /// `allowed`.
  static std::unique_ptr<const Block> make(const MatmulProblem& problem, const PostChain& chain,
                                           const BlockShape& shape, bool reference_allowed);

  const BlockShape& shape() const { return shape_; }
  const dnnl::primitive& primitive() const { return primitive_; }
  const std::string& implementation() const { return implementation_; }
  std::size_t scratch() const { return scratch_; }
  const std::vector<BlockArgument>& arguments() const { return arguments_; }
  std::unique_ptr<BlockBinding> bind() const;

 private:
  friend class BlockBuilder;
  BlockShape shape_;
  dnnl::primitive primitive_;
  std::string implementation_;
  std::size_t scratch_ = 0;
  std::vector<BlockArgument> arguments_;
  std::vector<int> names_;                       // oneDNN's, one per argument
  std::vector<dnnl::memory::desc> descriptors_;  // one per argument
};

/// Whether the chain's first link can be oneDNN's bias: the only binary operation it applies at full speed to
/// a block of c with gaps between rows.
bool starts_with_bias(const MatmulProblem& problem, const PostChain& chain, bool batched);

}  // namespace stiletto::detail::cpu
