// SPDX-License-Identifier: Apache-2.0
#include "backends/cudnn/lower_structured.hpp"

#include <algorithm>
#include <map>

#include "backends/cudnn/graph_builder.hpp"
#include "backends/cudnn/graph_stores.hpp"
#include "backends/cudnn/lower.hpp"
#include "backends/cudnn/operand_forms.hpp"
#include "backends/cudnn/pointwise.hpp"
#include "backends/cudnn/structured_checks.hpp"
#include "core/text.hpp"
#include "graph/op_table.hpp"

namespace stiletto::detail::cudnn {
namespace {

bool is_structured(const Value& value) {
  return value.kind == Value::Kind::operation && row_of(value.op).family == Family::structured &&
         !is_block_scaling(value.op);  // which are nodes beside a product
}
bool is_part(const Value& value) { return value.kind == Value::Kind::operation && value.op == Op::part; }

std::uint32_t structured_value(const CanonicalGraph& graph) {
  const auto found = std::find_if(graph.values.begin(), graph.values.end(), is_structured);
  return static_cast<std::uint32_t>(found - graph.values.begin());
}

class StructuredLowering {
 public:
  StructuredLowering(const CanonicalGraph& graph, std::size_t rank)
      : graph_(graph),
        index_(structured_value(graph)),
        value_(graph.values[index_]),
        rank_(rank),
        builder_(rank, graph.intermediate_dtype, graph.compute_dtype) {}

  EngineGraph run(const std::string& form) {
    builder_.graph_.form = form;
    check_structured(graph_, index_);
    order_ = image_order();
    groups_ = groups_of(value_.layouts[0], result_form(value_, 0));
    add_node();
    for (const Store& store : graph_.stores)
      stored_.push_back(is_part(graph_.values[store.value]) ? part_of(store) : lower(store.value));
    for (std::size_t s = 0; s < graph_.stores.size(); ++s) write(s);
    check_rows();
    return std::move(builder_.graph_);
  }

 private:
  using Dims = std::vector<std::int64_t>;

  // ---- forms ----

  std::size_t normalised() const {
    const auto* norm = std::get_if<NormAttributes>(&value_.attributes);
    return norm == nullptr ? 0 : norm->axes;
  }
  std::vector<AxisGroup> groups_of(const AxisList& layout, OperandForm form) const {
    std::vector<AxisGroup> groups = grouped(layout, form, normalised());
    groups.resize(rank_);
    return groups;
  }
  EngineTensor memory(const Tensor& tensor, const AxisList& layout, OperandForm form) const {
    EngineTensor t = described(tensor, groups_of(layout, form), graph_.extents, form, order_);
    t.tiled = form == OperandForm::tiles;
    const bool rows = form == OperandForm::sequence || form == OperandForm::packed_rows ||
                      form == OperandForm::heads_first || form == OperandForm::scores;
    if (rows && t.dims[3] > 1 && t.strides[3] != 1)
      throw NotLowered{text(tensor.name, " has gaps between its elements along the last axis, which cuDNN's ",
                            name_of(value_.op),
                            " does not take; pass a copy of it made outside the function")};
    return t;
  }

  EngineTensor result_memory(const Tensor& tensor, const AxisList& layout, std::size_t result) const {
    EngineTensor t = memory(tensor, layout, result_form(value_, result));
    if (result_form(value_, result) == OperandForm::packed_rows)
      cut(t, packed_result(value_, result), tensor.name);
    return t;
  }

  /// Rows of an array become sequences behind one another. cuDNN's offsets count what lies between rows, too,
  /// and ours do not.
  void cut(EngineTensor& t, const PackedForm& form, const std::string& name) const {
    const std::int64_t rows = t.dims[2], row = t.dims[1] * t.dims[3];
    if (rows > 1 && t.strides[2] != row)
      throw NotLowered{text(name,
                            " has gaps between its rows, over which the offsets of packed sequences do not "
                            "count and cuDNN's do; pass a copy of it made outside the function")};
    t.rows = rows;
    t.offsets = inputs_.at(index_of(value_, form.offsets));
    t.dims[0] = builder_.at(t.offsets).dims[0] - 1;
    t.dims[2] = form.longest;
    t.strides[2] = row;
    t.strides[0] = row * form.longest;
  }

  /// Results count, too: x may have one channel.
  ImageOrder image_order() const {
    std::vector<const Tensor*> tensors;
    std::vector<AxisList> layouts;
    for (std::size_t i = 0; i < value_.arity; ++i) {
      if (operand_form(value_, i) != OperandForm::image) continue;
      tensors.push_back(&graph_.tensors[graph_.values[value_.inputs[i]].source]);
      layouts.push_back(value_.layouts[i + 1]);
    }
    for (const Store& store : graph_.stores) {
      if (store.value != index_ || result_form(value_, 0) != OperandForm::image) continue;
      tensors.push_back(&store.tensor);
      layouts.push_back(value_.layouts[0]);
    }
    return order_of(tensors, layouts, graph_.extents);
  }

  // ---- the node ----

  void add_node() {
    EngineNode node;
    node.op = value_.op;
    node.compute = value_.dtype == DType::int32 ? DType::int32 : builder_.compute_of(value_.dtype);
    node.attributes = attributes();
    add_operands();
    for (const std::uint32_t input : inputs_)
      if (input != EngineNode::absent) node.inputs.push_back(input);
    if (const auto* norm = std::get_if<NormAttributes>(&value_.attributes)) {
      const bool forward = value_.op == Op::rms_norm || value_.op == Op::layer_norm;
      if (forward || value_.op == Op::batch_norm_training)
        node.inputs.push_back(builder_.constant(norm->epsilon.value));
      if (value_.op == Op::batch_norm_training)
        node.inputs.push_back(builder_.constant(norm->momentum.value));
    }
    node.output = builder_.add(first_result());
    node.further.assign(results_of(value_.op) - 1, EngineNode::absent);
    while (!node.further.empty() && !is_stored(node.further.size())) node.further.pop_back();
    builder_.graph_.nodes.push_back(std::move(node));
  }

  void add_operands() {
    for (std::size_t i = 0; i < value_.arity; ++i)
      inputs_.push_back(is_idle(i) ? EngineNode::absent : operand(i));
    for (std::size_t i = 0; i < value_.arity; ++i)
      if (operand_form(value_, i) == OperandForm::packed_rows)
        cut(builder_.at(inputs_[i]), packed_operand(value_, i), operand_name(value_, i));
  }

  /// Seed and offset of a dropout that drops nothing.
  bool is_idle(std::size_t operand) const {
    const auto* attention = std::get_if<AttentionAttributes>(&value_.attributes);
    return attention != nullptr && attention->has(AttentionOperand::seed) && attention->dropout.value == 0 &&
           (operand == index_of(value_, AttentionOperand::seed) ||
            operand == index_of(value_, AttentionOperand::offset));
  }
  static void drop_idle_dropout(AttentionAttributes& attention) {
    if (attention.dropout.value != 0) return;
    for (const AttentionOperand operand : {AttentionOperand::seed, AttentionOperand::offset})
      attention.operands &= ~(1U << static_cast<unsigned>(operand));
  }

  /// A window that holds every key up to the causal bound, which cuDNN takes in fewer cases than none.
  void drop_idle_window(AttentionAttributes& attention) const {
    const SequenceLengths longest = longest_sequences(graph_, value_);
    const bool top_left =
        attention.causal == Causal::top_left;  // the sequence whose last index bounds the keys
    if (attention.window >= (top_left ? longest.queries : longest.keys)) attention.window = 0;
  }

  /// Those of one-dimensional images, as images of height 1.
  Attributes attributes() const {
    Attributes result = value_.attributes;
    if (auto* attention = std::get_if<AttentionAttributes>(&result)) {
      drop_idle_window(*attention);
      drop_idle_dropout(*attention);
    }
    if (value_.layouts[0].size() != 3) return result;
    if (auto* conv = std::get_if<ConvAttributes>(&result)) {
      prepend(conv->stride, 1), prepend(conv->dilation, 1);
      prepend(conv->pre_padding, 0), prepend(conv->post_padding, 0);
    }
    if (auto* pool = std::get_if<PoolAttributes>(&result)) {
      prepend(pool->window, 1), prepend(pool->stride, 1);
      prepend(pool->pre_padding, 0), prepend(pool->post_padding, 0);
    }
    return result;
  }
  static void prepend(stiletto::Dims& dims, std::int64_t value) {
    stiletto::Dims result{value};
    for (const std::int64_t d : dims) result.push_back(d);
    dims = result;
  }

  /// Each operand is a tensor of its own, also where two are the same memory: the frontend turns keys round.
  std::uint32_t operand(std::size_t i) {
    const Value& operand = graph_.values[value_.inputs[i]];
    if (operand.kind == Value::Kind::scalar) return builder_.number(operand.source);
    EngineTensor t = memory(graph_.tensors[operand.source], value_.layouts[i + 1], operand_form(value_, i));
    t.role = EngineTensor::Role::input;
    t.source = operand.source;
    return builder_.add(std::move(t));
  }

  EngineTensor first_result() const {
    EngineTensor t;
    t.dtype = builder_.held(value_.dtype);
    for (const AxisGroup& group : groups_) {
      std::int64_t extent = 1;
      for (const int axis : group) extent *= graph_.extents[static_cast<std::size_t>(axis)];
      t.dims.push_back(extent);
    }
    t.strides = packed(t.dims, result_form(value_, 0), order_);
    if (result_form(value_, 0) == OperandForm::packed_rows)
      cut(t, packed_result(value_, 0), result_name(value_.op, 0));
    return t;
  }

  bool is_stored(std::size_t result) const {
    return std::any_of(graph_.stores.begin(), graph_.stores.end(), [&](const Store& store) {
      const Value& value = graph_.values[store.value];
      return is_part(value) && std::get<PartAttributes>(value.attributes).index == result;
    });
  }

  /// A further result, which is computed once it is stored.
  std::uint32_t part_of(const Store& store) {
    const Value& part = graph_.values[store.value];
    const std::uint32_t index = std::get<PartAttributes>(part.attributes).index;
    std::uint32_t& result = builder_.graph_.nodes.front().further[index - 1];
    if (result == EngineNode::absent) {
      EngineTensor t = result_memory(store.tensor, part.layouts[0], index);
      t.dtype = builder_.held(part.dtype);
      result = builder_.add(std::move(t));
    }
    return result;
  }

  // ---- what follows ----

  std::uint32_t lower(std::uint32_t index) {
    if (const auto known = lowered_.find(index); known != lowered_.end()) return known->second;
    return lowered_[index] = compute(index);
  }

  std::uint32_t compute(std::uint32_t index) {
    const Value& value = graph_.values[index];
    if (index == index_) return builder_.graph_.nodes.front().output;
    if (value.kind == Value::Kind::scalar) return builder_.number(value.source);
    if (value.kind == Value::Kind::tensor) {
      EngineTensor t = beside(graph_.tensors[value.source]);
      t.role = EngineTensor::Role::input;
      t.source = value.source;
      return builder_.add(std::move(t));
    }
    std::vector<std::uint32_t> inputs;
    std::vector<DType> dtypes;
    for (std::size_t i = 0; i < value.arity; ++i) {
      inputs.push_back(lower(value.inputs[i]));
      dtypes.push_back(graph_.values[value.inputs[i]].dtype);
    }
    return lower_pointwise(builder_, value, inputs, dtypes, false);
  }

  /// Memory over the axes of the first result, or over some of its dimensions.
  EngineTensor beside(const Tensor& tensor) const {
    std::vector<AxisGroup> groups = groups_;
    std::size_t covered = 0;
    for (AxisGroup& group : groups) {
      std::erase_if(group, [&](int axis) { return !tensor.axes.test(static_cast<std::size_t>(axis)); });
      covered += group.size();
    }
    for (std::size_t d = 0; d < groups.size(); ++d)
      if (!groups[d].empty() && groups[d].size() != groups_[d].size())
        throw NotLowered{text(tensor.name, " spans some of several axes that are one dimension to cuDNN's ",
                              name_of(value_.op),
                              "; pass a copy of it made outside the function over all of them")};
    if (covered != tensor.axes.count())
      throw NotLowered{text(tensor.name, " has other axes than the ", name_of(value_.op),
                            " beside it; compute it in a call of its own")};
    return described(tensor, groups, graph_.extents, result_form(value_, 0), order_);
  }

  // ---- stores ----

  void write(std::size_t s) {
    const Store& store = graph_.stores[s];
    const Value& value = graph_.values[store.value];
    std::uint32_t x = stored_[s];
    EngineTensor t;
    if (is_part(value)) {
      const std::size_t index = std::get<PartAttributes>(value.attributes).index;
      t = result_memory(store.tensor, value.layouts[0], index);
    } else if (store.value == index_) {
      t = result_memory(store.tensor, value.layouts[0], 0);
    } else {
      t = beside(store.tensor);
    }
    t.role = EngineTensor::Role::output;
    t.source = static_cast<std::uint32_t>(s);
    if (needs_conversion(builder_.at(x), value.dtype, t.dtype)) x = builder_.convert(x, value.dtype, t.dtype);
    if (!can_become_output(builder_, x, t.dtype, stored_) || builder_.at(x).dims != t.dims)
      x = builder_.node(Op::copy, {x}, t.dtype, t.dims, builder_.compute_of(t.dtype));
    builder_.at(x) = std::move(t);
  }

  std::string name_at(const EngineTensor& t) const {
    return t.role == EngineTensor::Role::input ? graph_.tensors[t.source].name
                                               : graph_.stores[t.source].tensor.name;
  }

  /// Engines for norms take the distance between the first and the last element for the size of a matrix
  /// (9.19).
  void check_rows() const {
    if (result_form(value_, 0) != OperandForm::matrix) return;
    const Dims& dims = builder_.at(builder_.graph_.nodes.front().inputs[0]).dims;
    for (const EngineTensor& t : builder_.graph_.tensors) {
      const bool memory = t.role == EngineTensor::Role::input || t.role == EngineTensor::Role::output;
      if (memory && t.dims == dims && t.strides != packed(dims, OperandForm::matrix, order_))
        throw NotLowered{text(name_at(t), " has gaps between its rows, which cuDNN's ", name_of(value_.op),
                              " does not take; pass a copy of it made outside the function")};
    }
  }

  const CanonicalGraph& graph_;
  std::uint32_t index_;  // of the structured value
  const Value& value_;
  std::size_t rank_;
  GraphBuilder builder_;
  ImageOrder order_ = ImageOrder::channels_first;
  std::vector<std::uint32_t> inputs_;  // per operand; `absent`: not handed over
  std::vector<AxisGroup> groups_;      // dimensions of the first result
  std::vector<std::uint32_t> stored_;  // per store
  std::map<std::uint32_t, std::uint32_t> lowered_;
};

}  // namespace

bool has_structured(const CanonicalGraph& graph) {
  return std::any_of(graph.values.begin(), graph.values.end(), is_structured);
}

std::vector<Geometry> structured_geometries(const CanonicalGraph& graph) {
  const Value& value = graph.values[structured_value(graph)];
  return {{text("a node ", name_of(value.op)), {}, {}, Carrier::none}};
}

EngineGraph lower_structured(const CanonicalGraph& graph, const Geometry& geometry) {
  const Value& value = graph.values[structured_value(graph)];
  const bool image = result_form(value, 0) == OperandForm::image;
  const std::size_t rank = image ? std::max<std::size_t>(value.layouts[0].size(), 4) : 4;
  return StructuredLowering(graph, rank).run(geometry.form);
}

}  // namespace stiletto::detail::cudnn
