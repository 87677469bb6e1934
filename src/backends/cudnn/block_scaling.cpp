// SPDX-License-Identifier: Apache-2.0
#include "backends/cudnn/block_scaling.hpp"

#include <algorithm>
#include <utility>

#include "backends/cudnn/lower.hpp"
#include "core/block_scales.hpp"
#include "core/text.hpp"
#include "graph/op_table.hpp"
#include "stiletto/blockscaled.hpp"

namespace stiletto::detail::cudnn {
namespace {

bool is_operation(const Value& value, Op op) {
  return value.kind == Value::Kind::operation && value.op == op;
}

BlockFormat format_of(const BlockAttributes& a) { return {a.element, a.scale, static_cast<int>(a.size)}; }

/// The blocked axis of a value that is quantized or dequantized.
int blocked_axis(const Value& value) {
  const AxisList& layout = value.layouts[0];
  return layout[layout.size() - (std::get<BlockAttributes>(value.attributes).last ? 1 : 2)];
}

void add_matrix(const AxisList& layout, AxisMask& axes) {
  for (auto axis = layout.end() - 2; axis != layout.end(); ++axis)
    if (*axis >= 0) axes.set(static_cast<std::size_t>(*axis));
}

/// Which dimension of a matrix is blocked, and which is not.
struct MatrixDimensions {
  std::size_t blocked, other;
  MatrixDimensions(std::size_t rank, bool last)
      : blocked(rank - (last ? 1 : 2)), other(rank - (last ? 2 : 1)) {}
};

/// Of a node that quantizes or dequantizes `value` in this layout, which may turn its matrices round: scales
/// are tiled matrix by matrix, so both axes of a matrix have to be the dimensions of one.
BlockAttributes block_attributes(const Value& value, const Layout& layout) {
  BlockAttributes attributes = std::get<BlockAttributes>(value.attributes);
  const auto own = value.layouts[0].end() - 2;
  const int rows = layout[layout.size() - 2].axis, columns = layout.back().axis;
  const bool turned = rows == own[1] && columns == own[0];
  if (!turned && (rows != own[0] || columns != own[1]))
    throw NotLowered{
        text(name_of(value.op),
             " along axes that are not the rows and columns of the product, as of a product with "
             "a vector, which cuDNN does not take; multiply by a matrix, or use the CPU")};
  if (turned) attributes.last = !attributes.last;
  return attributes;
}

class Checks {
 public:
  explicit Checks(const CanonicalGraph& graph) : graph_(graph), behind_product_(graph.values.size()) {}

  void run() {
    for (std::size_t i = 0; i < graph_.values.size(); ++i) {
      const Value& value = graph_.values[i];
      if (value.kind != Value::Kind::operation) continue;
      behind_product_[i] = value.op == Op::matmul;
      for (std::size_t k = 0; k < value.arity; ++k)
        behind_product_[i] = behind_product_[i] || behind_product_[value.inputs[k]];
      check_operands(value);
    }
    // Behind all operands: one that reads what quantize gives is what is wrong.
    for (std::size_t i = 0; i < graph_.values.size(); ++i)
      if (is_operation(graph_.values[i], Op::quantize)) check_quantize(static_cast<std::uint32_t>(i));
    for (const Store& store : graph_.stores)
      if (is_operation(graph_.values[store.value], Op::dequantize)) refuse_dequantize("stored");
  }

 private:
  [[noreturn]] static void refuse_dequantize(const std::string& use) {
    throw NotLowered{text("what dequantize gives is ", use,
                          ", and cuDNN dequantizes operands of products only; dequantize on the CPU")};
  }

  /// Engines dequantize both operands of a product or neither.
  void check_operands(const Value& user) const {
    if (user.op == Op::part) return;
    const auto operand = [&](std::size_t k) -> const Value& { return graph_.values[user.inputs[k]]; };
    const auto scaled = [&](std::size_t k) { return is_operation(operand(k), Op::dequantize); };
    for (std::size_t k = 0; k < user.arity; ++k) {
      const Value& x = operand(k);
      if (x.kind == Value::Kind::operation && (x.op == Op::quantize || x.op == Op::part))
        throw NotLowered{text(name_of(user.op),
                              " of what quantize gives, which cuDNN only stores; compute it in a "
                              "call of its own")};
      if (scaled(k) && (user.op != Op::matmul || k > 1))
        refuse_dequantize(text("read by ", name_of(user.op)));
    }
    if (user.op != Op::matmul || (!scaled(0) && !scaled(1))) return;
    for (const std::size_t k : {0, 1})
      if (!scaled(k))
        throw NotLowered{text("a product of a block-scaled operand and one of ", operand(k).dtype,
                              ", which cuDNN does not take; quantize that one, too, outside the function")};
    check_formats(operand(0), operand(1));
    for (const std::size_t k : {0, 1})
      if (!user.contracted.test(static_cast<std::size_t>(blocked_axis(operand(k)))))
        throw NotLowered{
            text(k == 0 ? "the left" : "the right",
                 " operand of a product is blocked along an axis that is not summed, which cuDNN "
                 "does not take; quantize it along the other one")};
  }

  static void check_formats(const Value& a, const Value& b) {
    const BlockFormat left = format_of(std::get<BlockAttributes>(a.attributes)),
                      right = format_of(std::get<BlockAttributes>(b.attributes));
    const auto is_mxfp8 = [](const BlockFormat& f) { return f.element != DType::float4_e2m1; };
    if (left != right && !(is_mxfp8(left) && is_mxfp8(right)))
      throw NotLowered{text("a product of ", left, " and ", right,
                            "; cuDNN takes operands of one format, or both of MXFP8")};
  }

  void check_quantize(std::uint32_t index) const {
    if (!behind_product_[graph_.values[index].inputs[0]])
      throw NotLowered{
          "quantize of what no product in the graph computes, which cuDNN does not take; put the "
          "product and quantize into one function, or quantize on the CPU"};
    const auto stored = [&](const auto& is_it) {
      return std::any_of(graph_.stores.begin(), graph_.stores.end(),
                         [&](const Store& store) { return is_it(store.value); });
    };
    const bool scales = stored([&](std::uint32_t v) {
      return is_operation(graph_.values[v], Op::part) && graph_.values[v].inputs[0] == index;
    });
    if (!scales || !stored([&](std::uint32_t v) { return v == index; }))
      throw NotLowered{
          text(scales ? "the elements" : "the scales",
               " that quantize gives are not used, and cuDNN computes both; return or store both")};
  }

  const CanonicalGraph& graph_;
  std::vector<bool> behind_product_;
};

}  // namespace

bool has_block_scaling(const CanonicalGraph& graph) {
  return std::any_of(graph.values.begin(), graph.values.end(), [](const Value& value) {
    return value.kind == Value::Kind::operation &&
           (is_block_scaling(value.op) || value.op == Op::attention_blockscaled);
  });
}

AxisMask scale_axes(const CanonicalGraph& graph) {
  AxisMask axes;
  for (const Value& value : graph.values) {
    if (is_operation(value, Op::dequantize)) add_matrix(value.layouts[2], axes);
    if (is_operation(value, Op::part) && is_operation(graph.values[value.inputs[0]], Op::quantize))
      add_matrix(value.layouts[0], axes);
  }
  return axes;
}

AxisMask matrix_axes(const CanonicalGraph& graph) {
  AxisMask axes;
  for (const Value& value : graph.values)
    if (value.kind == Value::Kind::operation && is_block_scaling(value.op))
      add_matrix(value.layouts[0], axes);
  return axes;
}

void check_block_scaling(const CanonicalGraph& graph) { Checks(graph).run(); }

std::uint32_t add_dequantize(GraphBuilder& builder, const CanonicalGraph& graph, const Value& value,
                             const Layout& layout, std::uint32_t elements) {
  const BlockAttributes attributes = block_attributes(value, layout);
  const std::vector<std::int64_t> dims = builder.at(elements).dims;
  // A single line lies as many would, by which engines tell along what elements are adjacent.
  const auto [blocked, other] = MatrixDimensions(dims.size(), attributes.last);
  if (dims[other] == 1) builder.at(elements).strides[other] = dims[blocked];
  const std::uint32_t source = graph.values[value.inputs[1]].source;
  EngineTensor scales = scales_beside(graph.tensors[source], layout, dims, attributes);
  scales.role = EngineTensor::Role::input;
  scales.source = source;
  const std::uint32_t result = builder.node(value.op, {elements, builder.add(std::move(scales))},
                                            builder.held(value.dtype), dims, builder.compute_of(value.dtype));
  builder.graph_.nodes.back().attributes = attributes;
  return result;
}

std::size_t add_quantize(GraphBuilder& builder, const Value& value, const Layout& layout, std::uint32_t x) {
  const BlockAttributes attributes = block_attributes(value, layout);
  builder.node(value.op, {x}, value.dtype, builder.at(x).dims, builder.compute_of(DType::float32));
  EngineTensor scales;
  scales.dtype = attributes.scale;
  const std::uint32_t further = builder.add(std::move(scales));
  EngineNode& node = builder.graph_.nodes.back();
  node.attributes = attributes;
  node.further = {further};
  return builder.graph_.nodes.size() - 1;
}

EngineTensor scales_beside(const Tensor& scales, const Layout& layout, const std::vector<std::int64_t>& dims,
                           const BlockAttributes& attributes) {
  const std::size_t rank = dims.size();
  const auto [blocked, other] = MatrixDimensions(rank, attributes.last);
  const ScaleGrid grid{dims[other], dims[blocked] / static_cast<std::int64_t>(attributes.size)};
  EngineTensor t;
  t.dtype = scales.dtype;
  t.alignment = scales.alignment;
  t.tiled = true;
  t.dims = dims;
  t.strides.assign(rank, grid.count());
  t.dims[other] = grid.padded_lines(), t.strides[other] = grid.padded_blocks();
  t.dims[blocked] = grid.padded_blocks(), t.strides[blocked] = 1;
  for (std::size_t i = 0; i + 2 < rank; ++i)
    if (dims[i] > 1) t.strides[i] = scales.strides[static_cast<std::size_t>(layout[i].axis)] * layout[i].step;
  return t;
}

}  // namespace stiletto::detail::cudnn
