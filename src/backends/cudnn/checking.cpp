// SPDX-License-Identifier: Apache-2.0
#include "backends/cudnn/checking.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "backends/cudnn/operand_forms.hpp"
#include "core/device_memory.hpp"
#include "core/dtype_info.hpp"
#include "core/text.hpp"
#include "graph/op_table.hpp"
#include "stiletto/error.hpp"

namespace stiletto::detail::cudnn {
namespace {

/// A tensor of the graph, copied to the host.
class HostTensor {
 public:
  HostTensor(const EngineTensor& tensor, const void* pointer, int device)
      : tensor_(tensor), bytes_(bytes_for(tensor.dtype, tensor.span())) {
    cuda_memory().read(bytes_.data(), Device::cuda(device), pointer, bytes_.size(), "STILETTO_CHECK");
  }
  std::int64_t extent(std::size_t dimension) const { return tensor_.dims[dimension]; }
  /// Of int32 or int64, with a batch and, in page tables, a place in it.
  std::int64_t whole(std::int64_t batch, std::int64_t page = 0) const {
    const std::int64_t at = batch * tensor_.strides[0] + page * tensor_.strides[2];
    return tensor_.dtype == DType::int64 ? value<std::int64_t>(at) : value<std::int32_t>(at);
  }
  float number() const { return value<float>(0); }
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
  template <class T>
  T value(std::int64_t at) const {
    T result{};
    std::memcpy(&result, bytes_.data() + static_cast<std::size_t>(at) * sizeof result, sizeof result);
    return result;
  }
  /// Set in infinity and NaN, and in nothing else.
  std::uint32_t special_bits() const {
    switch (tensor_.dtype) {
      case DType::float16:
        return 0x7C00U;
      case DType::bfloat16:
        return 0x7F80U;
      case DType::float8_e4m3:
        return 0x7FU;
      case DType::float8_e5m2:
        return 0x7CU;
      default:
        return 0x7F800000U;
    }
  }

  const EngineTensor& tensor_;
  std::vector<std::byte> bytes_;
};

using enum AttentionOperand;

class AttentionCheck {
 public:
  AttentionCheck(const EngineGraph& graph, const EngineNode& node, const std::vector<void*>& pointers,
                 int device)
      : graph_(graph), node_(node), pointers_(pointers), device_(device) {
    value_.op = node.op;
    value_.attributes = node.attributes;
  }

  void run() const {
    if (node_.op == Op::attention_float8) check_scale();
    if (!has(seq_len_q)) return;
    const HostTensor queries = host(index_of(value_, seq_len_q)), keys = host(index_of(value_, seq_len_kv));
    check_lengths("seq_len_q", queries, tensor(first_).dims[2]);
    check_lengths("seq_len_kv", keys, pages() * tensor(first_ + 1).dims[2]);
    if (has(offsets_q)) {
      check_packed(queries, keys);
    } else {
      check_keys(keys);
      check_padding(first_, queries);
      check_padding(first_ + 1, keys, pages_of(first_ + 1, table_k));
      check_padding(first_ + 2, keys, pages_of(first_ + 2, table_v));
    }
  }

 private:
  bool has(AttentionOperand operand) const {
    return std::get<AttentionAttributes>(node_.attributes).has(operand);
  }
  std::string name() const { return name_of(node_.op); }
  const EngineTensor& tensor(std::size_t operand) const { return graph_.tensors[node_.inputs[operand]]; }
  HostTensor host(std::size_t operand) const {
    const std::uint32_t tensor = node_.inputs[operand];
    std::size_t at = 0;
    for (std::uint32_t i = 0; i < tensor; ++i)
      if (graph_.tensors[i].role != EngineTensor::Role::intermediate) ++at;
    return {graph_.tensors[tensor], pointers_[at], device_};
  }
  /// Of one sequence; 1 without page tables.
  std::int64_t pages() const { return has(table_k) ? tensor(index_of(value_, table_k)).dims[2] : 1; }

  void check_lengths(const char* what, const HostTensor& lengths, std::int64_t most) const {
    for (std::int64_t b = 0; b < lengths.extent(0); ++b)
      if (const std::int64_t length = lengths.whole(b); length < 0 || length > most)
        throw ArgumentError(text(name(), ": ", what, " is ", length, " for batch entry ", b, ", which has ",
                                 most, " rows; give it 0 to ", most));
  }

  void check_keys(const HostTensor& keys) const {
    for (std::int64_t b = 0; b < keys.extent(0); ++b)
      if (keys.whole(b) == 0)
        throw ArgumentError(text(name(), ": seq_len_kv is 0 for batch entry ", b,
                                 ", which cuDNN makes NaN; leave the entry out, or give it a key"));
  }

  /// What lies between packed sequences is not read.
  void check_packed(const HostTensor& queries, const HostTensor& keys) const {
    for (std::int64_t b = 0; b < keys.extent(0); ++b)
      if (keys.whole(b) == 0 && queries.whole(b) > 0)
        throw ArgumentError(text(name(), ": seq_len_kv is 0 for sequence ", b,
                                 ", whose queries cuDNN gives no result; leave it out, or give it a key"));
    for (const AttentionOperand offsets : {offsets_q, offsets_k, offsets_v, offsets_out})
      check_places(index_of(value_, offsets),
                   offsets == offsets_q || offsets == offsets_out ? queries : keys);
  }

  void check_places(std::size_t operand, const HostTensor& lengths) const {
    const auto is_placed = [&](const EngineTensor& t) { return t.offsets == node_.inputs[operand]; };
    const auto placed = std::find_if(graph_.tensors.begin(), graph_.tensors.end(), is_placed);
    const std::int64_t row = placed->strides[2], all = placed->rows * row;
    const HostTensor offsets = host(operand);
    for (std::int64_t b = 0; b < lengths.extent(0); ++b) {
      const std::int64_t first = offsets.whole(b), count = lengths.whole(b) * row;
      if (count > 0 && (first < 0 || first > all - count))
        throw ArgumentError(text(name(), ": ", operand_name(value_, operand), " lets sequence ", b, " of ",
                                 lengths.whole(b), " rows of ", row, " elements begin at element ", first,
                                 " of ", all,
                                 ", and cuDNN reads and writes past the end; give it a place inside"));
    }
  }

  /// Which page of a pool has which rows; none where rows lie in order.
  std::optional<HostTensor> pages_of(std::size_t operand, AttentionOperand which) const {
    if (!has(which)) return {};
    HostTensor table = host(index_of(value_, which));
    const std::int64_t pool = tensor(operand).dims[0];
    for (std::int64_t b = 0; b < table.extent(0); ++b)
      for (std::int64_t i = 0; i < table.extent(2); ++i)
        if (const std::int64_t page = table.whole(b, i); page < 0 || page >= pool)
          throw ArgumentError(text(name(), ": ", operand_name(value_, index_of(value_, which)), "[", b, ", ",
                                   i, "] is ", page, ", and the pool has ", pool,
                                   " pages; give every entry a page, also those past the length"));
    return table;
  }

  void check_padding(std::size_t operand, const HostTensor& lengths,
                     const std::optional<HostTensor>& table = {}) const {
    const HostTensor rows = host(operand);
    const std::int64_t size = rows.extent(2), pages = table ? table->extent(2) : 1;
    for (std::int64_t b = 0; b < lengths.extent(0); ++b)
      for (std::int64_t s = lengths.whole(b); s < pages * size; ++s)
        for (std::int64_t h = 0; h < rows.extent(1); ++h)
          for (std::int64_t d = 0; d < rows.extent(3); ++d)
            if (!rows.is_finite(table ? table->whole(b, s / size) : b, h, s % size, d))
              throw ArgumentError(text(name(), ": ", operand_name(value_, operand),
                                       " has infinity or NaN at row ", s, " of batch entry ", b,
                                       ", past its length ", lengths.whole(b),
                                       ", and cuDNN lets it into the result; fill the padding with zeros"));
  }

  /// cuDNN multiplies by it before it divides by the sum.
  void check_scale() const {
    const std::size_t operand = 8;
    const float scale = host(operand).number(), most = tensor(0).dtype == DType::float8_e4m3 ? 448 : 57344;
    if (scale > most)
      throw ArgumentError(text(name(), ": scale_s is ", scale,
                               ", and cuDNN multiplies numbers up to 1 by it and stores up to ", most, " of ",
                               tensor(0).dtype, "; give ", most, " at most"));
  }

  const EngineGraph& graph_;
  const EngineNode& node_;
  const std::vector<void*>& pointers_;
  int device_;
  Value value_;                                                     // as operands are asked for
  std::size_t first_ = node_.op == Op::attention_backward ? 1 : 0;  // q
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
  for (const EngineNode& node : graph.nodes)
    if (std::holds_alternative<AttentionAttributes>(node.attributes))
      AttentionCheck(graph, node, pointers, device).run();
}

}  // namespace stiletto::detail::cudnn
