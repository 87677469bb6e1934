// SPDX-License-Identifier: Apache-2.0
#include "backends/cudnn/lower_checks.hpp"

#include <algorithm>

#include "backends/cudnn/lower.hpp"
#include "core/dtype_info.hpp"
#include "core/text.hpp"
#include "graph/op_table.hpp"

namespace stiletto::detail::cudnn {
namespace {

class Checks {
 public:
  Checks(const EngineGraph& graph, const CanonicalGraph& canonical) : graph_(graph), canonical_(canonical) {}

  void run() const {
    check_types();
    check_strides();
    check_broadcasts();
    check_prologues();
    check_alignment();
  }

 private:
  const EngineTensor& at(std::uint32_t tensor) const { return graph_.tensors[tensor]; }
  std::size_t rank() const { return graph_.tensors.front().dims.size(); }

  /// Engines take the innermost dimension for contiguous (9.19): pointwise ones the last that has an extent,
  /// products one of the two matrix dimensions, but not where the product is one of ones.
  void check_strides() const {
    const bool carried = is_behind_ones(), product = has_product() && !carried;
    for (const EngineTensor& t : graph_.tensors) {
      if (t.role != EngineTensor::Role::input && t.role != EngineTensor::Role::output) continue;
      const std::size_t rank = t.dims.size();
      const bool columns = carried ? in_order(t) : t.dims[rank - 1] == 1 || t.strides[rank - 1] == 1;
      const bool rows = product && (t.dims[rank - 2] == 1 || t.strides[rank - 2] == 1);
      if (columns || rows) continue;
      const bool input = t.role == EngineTensor::Role::input;
      throw NotLowered{
          text((input ? canonical_.tensors[t.source] : canonical_.stores[t.source].tensor).name,
               " has gaps between its elements along every axis that cuDNN could walk innermost; pass a copy "
               "of it made outside the function, in the order of the result")};
    }
  }

  /// Contiguous along the last dimension, and the others in their order.
  static bool in_order(const EngineTensor& t) {
    std::int64_t inner = 0;
    for (std::size_t i = t.dims.size(); i-- > 0;) {
      if (t.dims[i] == 1) continue;
      if (inner == 0 ? t.strides[i] != 1 : t.strides[i] < inner) return false;
      inner = t.strides[i];
    }
    return true;
  }

  bool has_product() const {
    return std::any_of(graph_.nodes.begin(), graph_.nodes.end(),
                       [](const EngineNode& node) { return node.op == Op::matmul; });
  }

  bool is_behind_ones() const {
    return std::any_of(graph_.nodes.begin(), graph_.nodes.end(), [&](const EngineNode& node) {
      return node.op == Op::matmul && at(node.inputs[0]).role == EngineTensor::Role::ones &&
             at(node.inputs[1]).role == EngineTensor::Role::ones;
    });
  }

  /// Marks the operands of products that `counts` holds for, and what they are computed from.
  template <class Condition>
  std::vector<bool> before_operands(Condition counts) const {
    std::vector<bool> before(graph_.tensors.size());
    for (std::size_t i = graph_.nodes.size(); i-- > 0;) {
      const EngineNode& node = graph_.nodes[i];
      for (std::uint32_t input : node.inputs)
        if (before[node.output] || (node.op == Op::matmul && counts(at(input)))) before[input] = true;
    }
    return before;
  }

  /// Before a product rows are read in vectors of 16 bytes, wherever they begin; results of another type than
  /// the operands are written so.
  void check_alignment() const {
    const std::vector<bool> before_product = before_operands(
        [](const EngineTensor& operand) { return operand.role == EngineTensor::Role::intermediate; });
    DType operand = DType::float32;  // of the first product
    for (std::size_t i = graph_.nodes.size(); i-- > 0;)
      if (graph_.nodes[i].op == Op::matmul) operand = at(graph_.nodes[i].inputs[0]).dtype;
    for (std::size_t i = 0; i < graph_.tensors.size(); ++i) {
      const EngineTensor& t = graph_.tensors[i];
      const bool read = t.role == EngineTensor::Role::input && before_product[i] && !t.tiled;
      const bool written = t.role == EngineTensor::Role::output && has_product() && t.dtype != operand;
      if ((read && (t.alignment < vector || !whole_rows(t))) || (written && t.alignment < vector))
        throw NotLowered{
            text((read ? canonical_.tensors[t.source] : canonical_.stores[t.source].tensor).name,
                 read ? ", computed with before a product, has rows that are no multiple of 16 bytes"
                      : ", of another type than the operands of its product, is not aligned to 16 bytes")};
    }
  }

  static constexpr int vector = 16;  // bytes

  /// Whether every row, wherever it begins, is a whole number of vectors.
  static bool whole_rows(const EngineTensor& t) {
    for (std::size_t i = 0; i < t.dims.size(); ++i) {
      const std::int64_t elements = t.strides[i] == 1 ? t.dims[i] : t.strides[i];
      if (t.dims[i] > 1 && bytes_for(t.dtype, elements) % vector != 0) return false;
    }
    return true;
  }

  /// Nodes before a float32 product overwrite what they read (9.19, engine 7): a second reader gets the first
  /// one's result.
  void check_prologues() const {
    const std::vector<bool> before_product =
        before_operands([](const EngineTensor& operand) { return operand.dtype == DType::float32; });
    std::vector<int> readers(graph_.tensors.size());
    for (const EngineNode& node : graph_.nodes) {
      if (!before_product[node.output]) continue;
      std::vector<std::uint32_t> inputs = node.inputs;
      std::sort(inputs.begin(), inputs.end());
      inputs.erase(std::unique(inputs.begin(), inputs.end()), inputs.end());
      for (std::uint32_t input : inputs) {
        const EngineTensor& t = at(input);
        const bool on_the_host =
            t.role == EngineTensor::Role::number || t.role == EngineTensor::Role::constant;
        if (t.dtype == DType::float32 && !on_the_host && ++readers[input] > 1)
          throw NotLowered{
              "a float32 value that is read twice before a product, which cuDNN overwrites between"};
      }
    }
  }

  /// The pointwise engine reads operands that lack two of the three dimensions at wrong places, and those
  /// that lack one if there are no columns or gaps in them; it writes no output that lacks a dimension
  /// (9.19). The one behind a product of ones takes operands that lack any, without gaps.
  void check_broadcasts() const {
    const bool carried = is_behind_ones();
    if (rank() > 3 || (has_product() && !carried)) return;  // other engines
    std::vector<std::int64_t> whole(rank(), 1);
    for (const EngineNode& node : graph_.nodes)
      for (std::size_t i = 0; i < whole.size(); ++i) whole[i] = std::max(whole[i], at(node.output).dims[i]);
    for (const EngineTensor& t : graph_.tensors) {
      std::size_t missing = 0, there = 0;
      for (std::size_t i = 0; i < whole.size(); ++i) {
        missing += whole[i] > 1 && t.dims[i] == 1 ? 1U : 0U;
        there += t.dims[i] > 1 ? 1U : 0U;
      }
      const bool computed =
          t.role == EngineTensor::Role::output || t.role == EngineTensor::Role::intermediate;
      if (computed && missing > 0 && !has_reduction())
        throw NotLowered{
            "a value over fewer axes than the others beside it, which cuDNN computes at wrong places"};
      if (t.role != EngineTensor::Role::input || missing == 0 || there == 0) continue;
      if ((!carried && (missing > 1 || whole.back() == 1)) || !is_packed(t))
        throw NotLowered{
            text(canonical_.tensors[t.source].name,
                 " spans some of several axes that do not merge, or has gaps there, and cuDNN reads "
                 "it at wrong places")};
    }
  }

  static bool is_packed(const EngineTensor& t) {
    std::int64_t stride = 1;
    for (std::size_t i = t.dims.size(); i-- > 0; stride *= t.dims[i])
      if (t.dims[i] > 1 && t.strides[i] != stride) return false;
    return true;
  }

  bool has_reduction() const {
    return std::any_of(graph_.nodes.begin(), graph_.nodes.end(),
                       [](const EngineNode& node) { return row_of(node.op).family == Family::reduction; });
  }

  /// What no kernel computes with, or only through float32: 64-bit types, 32-bit integers but as numbers to
  /// convert from, and 8-bit matrices whose rows are not whole vectors of 16 bytes (illegal accesses, 9.19).
  void check_types() const {
    for (const EngineTensor& t : graph_.tensors) {
      if (t.dtype == DType::int64) throw NotLowered{"cuDNN has no arithmetic of int64"};
      const bool memory = t.role == EngineTensor::Role::input || t.role == EngineTensor::Role::output;
      if (memory && !t.tiled && bits_of(t.dtype) == 8 && has_product() && !whole_rows(t))
        throw NotLowered{
            text("a product with a matrix of ", t.dtype, " whose rows are no multiple of 16 elements")};
    }
    for (const EngineNode& node : graph_.nodes) {
      if (node.op == Op::matmul) {
        if (at(node.output).dtype == DType::float64 && at(node.inputs[1]).dtype != DType::float64)
          throw NotLowered{"cuDNN computes with float64 in products of float64 only"};
        continue;
      }
      for (std::uint32_t tensor : {node.inputs[0], node.output}) {
        if (at(tensor).dtype == DType::float64)
          throw NotLowered{"cuDNN computes with float64 in products only"};
      }
      const DType from = at(node.inputs[0]).dtype, to = at(node.output).dtype;
      if (from == DType::int32 && node.op == Op::copy && to != DType::float32)
        throw NotLowered{text("int32 becomes ", to, " through float32, which is not exact")};
    }
  }

  const EngineGraph& graph_;
  const CanonicalGraph& canonical_;
};

}  // namespace

void check_lowered(const EngineGraph& graph, const CanonicalGraph& canonical) {
  Checks(graph, canonical).run();
}

}  // namespace stiletto::detail::cudnn
