// SPDX-License-Identifier: Apache-2.0
#include "backends/cudnn/checking.hpp"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>

#include "core/device_memory.hpp"
#include "core/dtype_info.hpp"
#include "core/text.hpp"
#include "graph/op_table.hpp"
#include "stiletto/error.hpp"

namespace stiletto::detail::cudnn {
namespace {

/// A tensor of the graph, copied to the host: (batch, heads, sequence, width).
class HostTensor {
 public:
  HostTensor(const EngineTensor& tensor, const void* pointer, int device)
      : tensor_(tensor), bytes_(bytes_for(tensor.dtype, tensor.span())) {
    cuda_memory().read(bytes_.data(), Device::cuda(device), pointer, bytes_.size(), "STILETTO_CHECK");
  }
  std::int64_t extent(std::size_t dimension) const { return tensor_.dims[dimension]; }
  /// Of lengths, and of page tables (batch, 1, pages, 1).
  std::int32_t whole(std::int64_t batch, std::int64_t page = 0) const {
    std::int32_t value = 0;
    std::memcpy(&value, bytes_.data() + (batch * tensor_.strides[0] + page * tensor_.strides[2]) * 4,
                sizeof value);
    return value;
  }
  bool is_finite(std::int64_t b, std::int64_t h, std::int64_t s, std::int64_t d) const {
    const std::int64_t at =
        b * tensor_.strides[0] + h * tensor_.strides[1] + s * tensor_.strides[2] + d * tensor_.strides[3];
    const std::size_t bytes = bytes_for(tensor_.dtype, 1);
    std::uint32_t code = 0;
    std::memcpy(&code, bytes_.data() + static_cast<std::size_t>(at) * bytes, bytes);
    const std::uint32_t special = special_bits();
    return (code & special) != special;
  }

 private:
  /// Set in infinity and NaN alone.
  std::uint32_t special_bits() const {
    switch (tensor_.dtype) {
      case DType::float8_e4m3:
        return 0x7F;
      case DType::float8_e5m2:
        return 0x7C;
      case DType::float16:
        return 0x7C00;
      case DType::bfloat16:
        return 0x7F80;
      default:
        return 0x7F800000;
    }
  }
  const EngineTensor& tensor_;
  std::vector<std::byte> bytes_;
};

class AttentionCheck {
 public:
  AttentionCheck(const EngineGraph& graph, const EngineNode& node, const std::vector<void*>& pointers,
                 int device)
      : graph_(graph), node_(node), pointers_(pointers), device_(device) {}

  /// What lies between packed sequences does no harm, and those without keys get zeros (9.19).
  void run() const {
    const auto& attributes = std::get<AttentionAttributes>(node_.attributes);
    if (attributes.has(AttentionOperand::offsets_q)) return;
    const std::size_t q = node_.op == Op::attention_backward ? 1 : 0, lengths = first_optional();
    check_padding("q", host(q), host(lengths), false);
    if (attributes.has(AttentionOperand::table_k)) {
      const std::size_t table =
          lengths +
          static_cast<std::size_t>(std::popcount(attributes.operands & (bit(AttentionOperand::table_k) - 1)));
      check_pages("k", host(q + 1), host(table), host(lengths + 1));
      check_pages("v", host(q + 2), host(table + 1), host(lengths + 1));
    } else {
      check_padding("k", host(q + 1), host(lengths + 1), true);
      check_padding("v", host(q + 2), host(lengths + 1), true);
    }
  }

 private:
  HostTensor host(std::size_t operand) const {
    const std::uint32_t tensor = node_.inputs[operand];
    std::size_t at = 0;
    for (std::uint32_t i = 0; i < tensor; ++i)
      if (graph_.tensors[i].role != EngineTensor::Role::intermediate) ++at;
    return {graph_.tensors[tensor], pointers_[at], device_};
  }

  static std::uint32_t bit(AttentionOperand operand) { return 1U << static_cast<unsigned>(operand); }
  /// See AttentionAttributes.
  std::size_t first_optional() const {
    constexpr std::size_t forward = 4, backward = 7, blocks = 7, float8 = 10;
    switch (node_.op) {
      case Op::attention_backward:
        return backward;
      case Op::attention_blockscaled:
        return blocks;
      case Op::attention_float8:
        return float8;
      default:
        return forward;
    }
  }

  void check_length(std::int64_t batch, std::int64_t length) const {
    if (length > 0) return;
    throw ArgumentError(text(name_of(node_.op), ": seq_len_kv is ", length, " for batch entry ", batch,
                             ", which cuDNN makes NaN; leave the entry out, or give it a key"));
  }
  /// Of one row, s of entry b, which lies at row `at` of `rows`.
  void check_row(const char* name, const HostTensor& rows, std::int64_t entry, std::int64_t at,
                 std::int64_t b, std::int64_t s, std::int64_t length) const {
    for (std::int64_t h = 0; h < rows.extent(1); ++h)
      for (std::int64_t d = 0; d < rows.extent(3); ++d)
        if (!rows.is_finite(entry, h, at, d))
          throw ArgumentError(text(name_of(node_.op), ": ", name, " has infinity or NaN at row ", s,
                                   " of batch entry ", b, ", past its length ", length,
                                   ", and cuDNN lets it into the result; fill the padding with zeros"));
  }

  void check_pages(const char* name, const HostTensor& pool, const HostTensor& table,
                   const HostTensor& lengths) const {
    const std::int64_t size = pool.extent(2);
    for (std::int64_t b = 0; b < table.extent(0); ++b) {
      const std::int64_t length = lengths.whole(b);
      check_length(b, length);
      for (std::int64_t page = 0; page < table.extent(2); ++page) {
        const std::int64_t place = table.whole(b, page);
        if (place < 0 || place >= pool.extent(0))
          throw ArgumentError(text(name_of(node_.op), ": table_", name, "[", b, ", ", page, "] is ", place,
                                   ", and the pool has ", pool.extent(0),
                                   " pages; give every entry a page, also those past the length"));
        for (std::int64_t i = std::clamp<std::int64_t>(length - page * size, 0, size); i < size; ++i)
          check_row(name, pool, place, i, b, page * size + i, length);
      }
    }
  }

  void check_padding(const char* name, const HostTensor& rows, const HostTensor& lengths, bool keys) const {
    for (std::int64_t b = 0; b < rows.extent(0); ++b) {
      const std::int64_t length = lengths.whole(b);
      if (keys) check_length(b, length);
      for (std::int64_t s = length; s < rows.extent(2); ++s) check_row(name, rows, b, s, b, s, length);
    }
  }

  const EngineGraph& graph_;
  const EngineNode& node_;
  const std::vector<void*>& pointers_;
  int device_;
};

}  // namespace

bool checking() {
  static const bool asked = [] {
    const char* const variable = std::getenv("STILETTO_CHECK");
    return variable != nullptr && std::strcmp(variable, "1") == 0;
  }();
  return asked;
}

void check_values(const EngineGraph& graph, const std::vector<void*>& pointers, int device) {
  for (const EngineNode& node : graph.nodes) {
    const auto* attention = std::get_if<AttentionAttributes>(&node.attributes);
    if (attention != nullptr && attention->has(AttentionOperand::seq_len_q))
      AttentionCheck(graph, node, pointers, device).run();
  }
}

}  // namespace stiletto::detail::cudnn
