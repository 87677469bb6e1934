// SPDX-License-Identifier: Apache-2.0
#include "backends/cudnn/checking.hpp"

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
  std::int32_t whole(std::int64_t batch) const {
    std::int32_t value = 0;
    std::memcpy(&value, bytes_.data() + batch * tensor_.strides[0] * 4, sizeof value);
    return value;
  }
  bool is_finite(std::int64_t b, std::int64_t h, std::int64_t s, std::int64_t d) const {
    const std::int64_t at =
        b * tensor_.strides[0] + h * tensor_.strides[1] + s * tensor_.strides[2] + d * tensor_.strides[3];
    const std::size_t bytes = bytes_for(tensor_.dtype, 1);
    std::uint32_t code = 0;
    std::memcpy(&code, bytes_.data() + static_cast<std::size_t>(at) * bytes, bytes);
    const std::uint32_t exponent = tensor_.dtype == DType::float16    ? 0x7C00U
                                   : tensor_.dtype == DType::bfloat16 ? 0x7F80U
                                                                      : 0x7F800000U;
    return (code & exponent) != exponent;
  }

 private:
  const EngineTensor& tensor_;
  std::vector<std::byte> bytes_;
};

class AttentionCheck {
 public:
  AttentionCheck(const EngineGraph& graph, const EngineNode& node, const std::vector<void*>& pointers,
                 int device)
      : graph_(graph), node_(node), pointers_(pointers), device_(device) {}

  void run() const {
    const bool forward = node_.op == Op::attention;
    const std::size_t q = forward ? 0 : 1, lengths = forward ? 4 : 7;
    check_padding("q", host(q), host(lengths), false);
    check_padding("k", host(q + 1), host(lengths + 1), true);
    check_padding("v", host(q + 2), host(lengths + 1), true);
  }

 private:
  HostTensor host(std::size_t operand) const {
    const std::uint32_t tensor = node_.inputs[operand];
    std::size_t at = 0;
    for (std::uint32_t i = 0; i < tensor; ++i)
      if (graph_.tensors[i].role != EngineTensor::Role::intermediate) ++at;
    return {graph_.tensors[tensor], pointers_[at], device_};
  }

  void check_padding(const char* name, const HostTensor& rows, const HostTensor& lengths, bool keys) const {
    for (std::int64_t b = 0; b < rows.extent(0); ++b) {
      const std::int64_t length = lengths.whole(b);
      if (keys && length <= 0)
        throw ArgumentError(text(name_of(node_.op), ": seq_len_kv is ", length, " for batch entry ", b,
                                 ", which cuDNN makes NaN; leave the entry out, or give it a key"));
      for (std::int64_t h = 0; h < rows.extent(1); ++h)
        for (std::int64_t s = length; s < rows.extent(2); ++s)
          for (std::int64_t d = 0; d < rows.extent(3); ++d)
            if (!rows.is_finite(b, h, s, d))
              throw ArgumentError(text(name_of(node_.op), ": ", name, " has infinity or NaN at row ", s,
                                       " of batch entry ", b, ", past its length ", length,
                                       ", and cuDNN lets it into the result; fill the padding with zeros"));
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
