// SPDX-License-Identifier: Apache-2.0
#include "support/block_interpreter.hpp"

#include <stdexcept>

#include "support/block_reference.hpp"

namespace support {
namespace {

using stiletto::detail::BlockAttributes;
using stiletto::detail::Op;
using stiletto::detail::cudnn::EngineGraph;
using stiletto::detail::cudnn::EngineNode;
using Extents = std::vector<std::int64_t>;
using Numbers = std::vector<double>;

/// Elements and scales of a node, and where the blocks lie in both.
class BlockNode {
 public:
  BlockNode(const EngineGraph& graph, const EngineNode& node)
      : attributes_(std::get<BlockAttributes>(node.attributes)),
        size_(static_cast<std::int64_t>(attributes_.size)) {
    const bool reads = node.op == Op::dequantize;
    elements_ = graph.tensors[reads ? node.inputs.at(0) : node.output].dims;
    const auto& scales = graph.tensors[reads ? node.inputs.at(1) : node.further.at(0)];
    scales_ = scales.dims;
    const std::size_t rank = elements_.size();
    blocked_ = rank - (attributes_.last ? 1 : 2), other_ = rank - (attributes_.last ? 2 : 1);
    blocks_ = elements_[blocked_] / size_;
    Extents padded = elements_;
    padded[other_] = (elements_[other_] + 127) / 128 * 128;
    padded[blocked_] = (blocks_ + 3) / 4 * 4;
    if (elements_[blocked_] % size_ != 0 || scales_ != padded || !scales.tiled)
      throw std::logic_error("an engine graph without a meaning: scales that do not fit their elements");
  }

  /// visit(which scale, its block's first element, elements between neighbours)
  template <class Visit>
  void for_each_block(Visit visit) const {
    std::int64_t batch = 1;
    for (std::size_t i = 0; i + 2 < elements_.size(); ++i) batch *= elements_[i];
    const std::int64_t lines = elements_[other_], length = elements_[blocked_], columns = scales_[blocked_];
    for (std::int64_t n = 0; n < batch; ++n)
      for (std::int64_t line = 0; line < lines; ++line)
        for (std::int64_t block = 0; block < blocks_; ++block) {
          // Where in memory, of which a row of the scales' matrix is `columns` bytes.
          const std::int64_t at = block_reference::scale_offset(line, block, blocks_);
          const std::int64_t row = at / columns, column = at % columns;
          const std::int64_t scale =
              n * scales_[other_] * columns +
              (attributes_.last ? row * columns + column : column * scales_[other_] + row);
          const std::int64_t along = block * size_;
          const std::int64_t first =
              n * lines * length + (attributes_.last ? line * length + along : along * lines + line);
          visit(static_cast<std::size_t>(scale), static_cast<std::size_t>(first),
                static_cast<std::size_t>(attributes_.last ? 1 : lines));
        }
  }

  void dequantize(const Numbers& elements, const Numbers& scales, Numbers& result) const {
    result.resize(elements.size());
    for_each_block([&](std::size_t scale, std::size_t first, std::size_t step) {
      for (std::size_t i = 0; i < attributes_.size; ++i)
        result[first + i * step] = elements[first + i * step] * scales[scale];
    });
  }

  void quantize(const Numbers& x, Numbers& elements, Numbers& scales) const {
    const block_reference::Format format{attributes_.element, attributes_.scale, attributes_.size};
    std::size_t count = 1;
    for (const std::int64_t extent : scales_) count *= static_cast<std::size_t>(extent);
    scales.assign(count, block_reference::decode(0, attributes_.scale));
    elements.resize(x.size());
    for_each_block([&](std::size_t scale, std::size_t first, std::size_t step) {
      Numbers block(attributes_.size);
      for (std::size_t i = 0; i < block.size(); ++i) block[i] = x[first + i * step];
      const auto made = block_reference::quantize_block(std::span<const double>(block), format);
      for (std::size_t i = 0; i < block.size(); ++i)
        elements[first + i * step] = block_reference::decode(made.codes[i], attributes_.element);
      scales[scale] = block_reference::decode(made.scale, attributes_.scale);
    });
  }

 private:
  BlockAttributes attributes_;
  std::int64_t size_, blocks_ = 0;
  Extents elements_, scales_;
  std::size_t blocked_ = 0, other_ = 0;
};

}  // namespace

void interpret_blocks(const EngineGraph& graph, const EngineNode& node, std::vector<Numbers>& values) {
  const BlockNode blocks(graph, node);
  if (node.op == Op::dequantize)
    blocks.dequantize(values[node.inputs[0]], values[node.inputs[1]], values[node.output]);
  else
    blocks.quantize(values[node.inputs.at(0)], values[node.output], values[node.further[0]]);
}

EngineNode without_blocks(const EngineGraph& graph, const EngineNode& node, std::vector<Numbers>& values) {
  constexpr std::uint32_t operands = 3, first_scales = 4;  // q, k and v; the scale of logits lies between
  for (std::uint32_t i = 0; i < operands; ++i) {
    const std::uint32_t elements = node.inputs.at(i), scales = node.inputs.at(first_scales + i);
    EngineNode blocks;
    blocks.op = Op::dequantize;
    blocks.inputs = {elements, scales};
    blocks.output = elements;
    blocks.attributes =
        BlockAttributes{graph.tensors[elements].dtype, graph.tensors[scales].dtype, 32, i + 1 < operands};
    interpret_blocks(graph, blocks, values);
  }
  EngineNode attention = node;
  attention.op = Op::attention;
  attention.inputs.erase(attention.inputs.begin() + first_scales,
                         attention.inputs.begin() + first_scales + operands);
  return attention;
}

}  // namespace support
