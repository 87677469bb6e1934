// SPDX-License-Identifier: Apache-2.0
// Describing a block of a product to oneDNN. Which layouts its fast implementations take is what oneDNN 3.2
// does; newer versions take more, and whatever falls to the reference implementation is refused.
#include "backends/cpu/onednn_block.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

#include "backends/cpu/matmul_engine.hpp"
#include "core/text.hpp"
#include "stiletto/error.hpp"

namespace stiletto::detail::cpu {
namespace {

using dnnl::memory;
using Source = BlockArgument::Source;

/// A post-operation's tensor against a block of c. Broadcast axes have stride 0.
struct Broadcast {
  std::int64_t row, column;  // strides, 0 where the block has extent 1
  bool batch;                // varies with a batch axis of the primitive

  bool per_column() const { return row == 0 && column == 1 && !batch; }
  bool per_row() const { return row == 1 && column == 0 && !batch; }
  bool one_number() const { return row == 0 && column == 0 && !batch; }
};

Broadcast broadcast_of(const MatrixLayout& operand, const BlockShape& shape) {
  const std::size_t axes = operand.strides.size();
  Broadcast result{operand.strides[axes - 2], operand.strides[axes - 1], false};
  if (shape.m == 1) result.row = 0;
  if (shape.n == 1) result.column = 0;
  for (std::size_t i = 0; i < shape.batch.size(); ++i)
    if (shape.batch[i] != 1 && operand.strides[i] != 0) result.batch = true;
  return result;
}

/// Full tensors have to lie as c does.
bool lies_like(const MatrixLayout& operand, const MatrixLayout& c, const BlockShape& shape) {
  const std::size_t axes = c.strides.size();
  const auto same = [&](std::size_t axis, std::int64_t extent) {
    return extent == 1 || operand.strides[axis] == c.strides[axis];
  };
  for (std::size_t i = 0; i < shape.batch.size(); ++i)
    if (!same(i, shape.batch[i])) return false;
  return same(axes - 2, shape.m) && same(axes - 1, shape.n);
}

/// For a product of a matrix and a vector oneDNN 3.2's matrix kernels ("brg") take two to six times as long
/// as its gemm, and up to twice with few rows of float32 (measured on Zen 5, one thread).
bool is_for_gemm(const MatmulProblem& p, const BlockShape& shape) {
  if (std::min(shape.m, shape.n) == 1) return p.k * std::max(shape.m, shape.n) >= 1 << 14;
  return p.a.dtype == DType::float32 && shape.m <= 8 && shape.n >= 1024;
}

bool starts_with(const dnnl::matmul::primitive_desc& description, std::string_view prefix) {
  return std::string_view(description.impl_info_str()).starts_with(prefix);
}

}  // namespace

bool starts_with_bias(const MatmulProblem& problem, const PostChain& chain, bool batched) {
  if (chain.links.empty() || !chain.links[0].binary ||
      chain.links[0].algorithm != dnnl::algorithm::binary_add)
    return false;
  const PostOperation& post = problem.post[chain.links[0].operand];
  BlockShape shape{{}, problem.m, problem.n};
  if (batched) shape.batch = problem.batch;
  return !post.number && broadcast_of(post.operand, shape).per_column() &&
         (post.operand.dtype == DType::float32 || post.operand.dtype == problem.a.dtype);
}

class BlockBuilder {
 public:
  BlockBuilder(const MatmulProblem& problem, const PostChain& chain, const BlockShape& shape)
      : p_(problem), chain_(chain), shape_(shape) {}

  std::unique_ptr<const Block> build(bool reference_allowed);

 private:
  std::optional<memory::desc> operand_descriptor(const PostOperation& post) const;
  memory::desc descriptor(const MatrixLayout& layout, std::int64_t rows, std::int64_t columns) const;
  bool collect_post();
  dnnl::matmul::primitive_desc describe(const memory::desc& a, const memory::desc& b,
                                        const memory::desc& c) const;
  std::optional<dnnl::matmul::primitive_desc> choose(const memory::desc& a, const memory::desc& b,
                                                     const memory::desc& c, bool reference_allowed) const;

  const MatmulProblem& p_;
  const PostChain& chain_;
  const BlockShape& shape_;
  bool lifted_ = false;  // a leading axis of extent 1, under which oneDNN accepts a value per row
  std::optional<memory::desc> bias_;
  dnnl::primitive_attr attributes_;
  struct Extra {
    int name;
    BlockArgument argument;
    memory::desc descriptor;
  };
  std::vector<Extra> extras_;  // bias and post-operations
};

/// Axes of stride 0, and of extent 1, get extent 1 and the stride that a dense layout would have: oneDNN
/// looks at the strides of such axes too, and takes the whole for a strange layout otherwise.
memory::desc BlockBuilder::descriptor(const MatrixLayout& layout, std::int64_t rows,
                                      std::int64_t columns) const {
  const std::size_t axes = layout.strides.size();
  std::int64_t row = layout.strides[axes - 2], column = layout.strides[axes - 1];
  if (columns == 1 && (rows == 1 || row >= 1)) column = 1;
  if (rows == 1) row = column == 1 ? columns : 1;
  if (columns == 1 && column != 1) column = rows;
  memory::dims extents, strides;
  if (lifted_) {
    extents.push_back(1);
    strides.push_back(0);
  }
  for (std::size_t i = 0; i < shape_.batch.size(); ++i) {
    extents.push_back(layout.strides[i] == 0 ? 1 : shape_.batch[i]);
    strides.push_back(layout.strides[i]);
  }
  extents.insert(extents.end(), {rows, columns});
  strides.insert(strides.end(), {row, column});
  std::int64_t reach = std::max(rows * row, columns * column);
  for (std::size_t i = extents.size() - 2; i-- > 0;) {
    if (extents[i] == 1) strides[i] = reach;
    reach = std::max(reach, extents[i] * strides[i]);
  }
  return {extents, *onednn_type(layout.dtype), strides};
}

std::optional<memory::desc> BlockBuilder::operand_descriptor(const PostOperation& post) const {
  if (post.number) {
    MatrixLayout one{DType::float32, std::vector<std::int64_t>(p_.c.strides.size())};
    return descriptor(one, 1, 1);
  }
  if (post.operand.dtype != DType::float32 && post.operand.dtype != DType::bfloat16) return std::nullopt;
  const Broadcast broadcast = broadcast_of(post.operand, shape_);
  if (broadcast.per_row() && shape_.batch.size() > 1) return std::nullopt;
  if (!broadcast.per_row() && !broadcast.per_column() && !broadcast.one_number() &&
      !lies_like(post.operand, p_.c, shape_))
    return std::nullopt;
  return descriptor(post.operand, broadcast.row == 0 ? 1 : shape_.m, broadcast.column == 0 ? 1 : shape_.n);
}

/// Fills extras_ and attributes_.
bool BlockBuilder::collect_post() {
  const bool batched = !shape_.batch.empty();
  if (!batched)
    lifted_ = std::any_of(chain_.links.begin(), chain_.links.end(), [&](const PostLink& link) {
      return link.binary && !p_.post[link.operand].number &&
             broadcast_of(p_.post[link.operand].operand, shape_).per_row();
    });
  const bool bias = p_.alpha == 1 && starts_with_bias(p_, chain_, batched);
  dnnl::post_ops post;
  if (p_.alpha != 1) {
    const PostLink scale = scaling(p_.alpha);
    post.append_eltwise(scale.algorithm, scale.alpha, scale.beta);
  }
  for (std::size_t i = 0; i < chain_.links.size(); ++i) {
    const PostLink& link = chain_.links[i];
    if (!link.binary) {
      post.append_eltwise(link.algorithm, link.alpha, link.beta);
      continue;
    }
    const PostOperation& operation = p_.post[link.operand];
    const auto operand = operand_descriptor(operation);
    if (!operand) return false;
    const BlockArgument argument{operation.number ? Source::number : Source::operand, link.operand};
    if (bias && i == 0) {
      bias_ = operand;
      extras_.push_back({DNNL_ARG_BIAS, argument, *operand});
    } else {
      extras_.push_back({DNNL_ARG_ATTR_MULTIPLE_POST_OP(post.len()) | DNNL_ARG_SRC_1, argument, *operand});
      post.append_binary(link.algorithm, *operand);
    }
  }
  if (p_.accumulate) post.append_sum(1);
  attributes_.set_post_ops(post);
  attributes_.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  attributes_.set_fpmath_mode(dnnl::fpmath_mode::strict);  // whatever oneDNN's environment variables say
  return true;
}

dnnl::matmul::primitive_desc BlockBuilder::describe(const memory::desc& a, const memory::desc& b,
                                                    const memory::desc& c) const {
  const dnnl::engine& engine = onednn_engine();
  if (bias_) return {engine, a, b, *bias_, c, attributes_};
  return {engine, a, b, c, attributes_};
}

std::optional<dnnl::matmul::primitive_desc> BlockBuilder::choose(const memory::desc& a, const memory::desc& b,
                                                                 const memory::desc& c,
                                                                 bool reference_allowed) const {
  // oneDNN 3.2's gemm crashes in generated code when it applies a tensor to a product (a bias is safe).
  const bool gemm_is_safe = std::none_of(extras_.begin(), extras_.end(), [](const Extra& extra) {
    return extra.argument.source == Source::operand && extra.name != DNNL_ARG_BIAS;
  });
  if (gemm_is_safe && is_for_gemm(p_, shape_)) {
    dnnl::matmul::primitive_desc description = describe(a, b, c);
    do {
      if (starts_with(description, "gemm")) return description;
    } while (description.next_impl());
  }
  dnnl::matmul::primitive_desc description = describe(a, b, c);
  while (!gemm_is_safe && starts_with(description, "gemm"))
    if (!description.next_impl()) return std::nullopt;
  if (starts_with(description, "ref") && !reference_allowed) return std::nullopt;
  return description;
}

std::unique_ptr<const Block> BlockBuilder::build(bool reference_allowed) {
  check_onednn_is_there();
  if (!collect_post()) return nullptr;
  const memory::desc a = descriptor(p_.a, shape_.m, p_.k), b = descriptor(p_.b, p_.k, shape_.n);
  const memory::desc c = descriptor(p_.c, shape_.m, shape_.n);
  const auto description = choose(a, b, c, reference_allowed);
  if (!description) return nullptr;
  auto block = std::make_unique<Block>();
  block->shape_ = shape_;
  block->primitive_ = dnnl::matmul(*description);
  block->implementation_ = description->impl_info_str();
  const auto add = [&block](int name, BlockArgument argument, const memory::desc& descriptor) {
    block->names_.push_back(name);
    block->arguments_.push_back(argument);
    block->descriptors_.push_back(descriptor);
  };
  add(DNNL_ARG_SRC, {Source::a}, a);
  add(DNNL_ARG_WEIGHTS, {Source::b}, b);
  add(DNNL_ARG_DST, {Source::c}, c);
  for (const Extra& extra : extras_) add(extra.name, extra.argument, extra.descriptor);
  const memory::desc scratchpad = description->scratchpad_desc();
  block->scratch_ = scratchpad.get_size();
  if (block->scratch_ > 0) add(DNNL_ARG_SCRATCHPAD, {Source::scratch}, scratchpad);
  return block;
}

std::unique_ptr<const Block> Block::make(const MatmulProblem& problem, const PostChain& chain,
                                         const BlockShape& shape, bool reference_allowed) {
  const OnednnOnOneThread alone;
  auto block = unless_refused([&] { return BlockBuilder(problem, chain, shape).build(reference_allowed); });
  return block ? std::move(*block) : nullptr;
}

std::unique_ptr<BlockBinding> Block::bind() const {
  auto binding = std::make_unique<BlockBinding>();
  for (std::size_t i = 0; i < names_.size(); ++i) {
    binding->memories_.emplace_back(descriptors_[i], onednn_engine(), nullptr);
    binding->list_.push_back({names_[i], binding->memories_[i].get()});
  }
  return binding;
}

/// The C interface: the C++ one builds a hash table for each call.
void BlockBinding::set(std::size_t argument, const void* pointer) {
  dnnl::error::wrap_c_api(dnnl_memory_set_data_handle(list_[argument].memory, const_cast<void*>(pointer)),
                          "setting a pointer");
}

void BlockBinding::execute(const dnnl::primitive& primitive) {
  dnnl::error::wrap_c_api(dnnl_primitive_execute(primitive.get(), onednn_stream().get(),
                                                 static_cast<int>(list_.size()), list_.data()),
                          "executing a matmul");
}

}  // namespace stiletto::detail::cpu
