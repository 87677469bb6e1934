// SPDX-License-Identifier: Apache-2.0
// Builds the canonical graph on demand from what the trace returns and stores: what is not asked for never
// appears, and what is asked for twice under the same axes is one value.
#include "compiler/canonicalize.hpp"

#include <algorithm>
#include <limits>
#include <map>

#include "compiler/axis_labels.hpp"
#include "compiler/value_table.hpp"
#include "core/text.hpp"
#include "graph/final_layout.hpp"
#include "stiletto/error.hpp"

namespace stiletto::detail {
namespace {

/// A store of the canonical graph before its axes have labels.
struct PendingStore {
  Tensor tensor;        // without axes
  std::uint32_t value;  // trace node
  std::size_t slots;    // which entry of AxisLabels
  Strides strides;      // per slot axis
  std::uint32_t trace_position = 0;
};

class Canonicalizer : private ValueTable {
 public:
  Canonicalizer(const Trace& trace, const CompileOptions& options) : ValueTable(trace), options_(options) {
    out_.graph.intermediate_dtype = options.intermediate_dtype;
    out_.graph.compute_dtype = options.compute_dtype;
  }

  Lowered run() {
    collect_results();
    collect_stores();
    label_axes();
    visited_.resize(trace_.nodes().size());
    for (const PendingStore& store : pending_) {
      instantiate_deep(store);
      emit_store(store);
    }
    canonicalize_axes(out_.graph);
    return std::move(out_);
  }

 private:
  // ---- what the trace returns and stores ----

  void collect_results() {
    std::map<std::uint32_t, std::uint32_t> output_of;
    for (std::uint32_t result : trace_.results()) {
      ResultSource source;
      if (trace_.is_leaf_or_view(result)) {
        const Node& root = node(trace_.root_of(result));
        source.home = root.op == Op::argument ? Tensor::Home::argument : Tensor::Home::capture;
        source.index = std::get<LeafAttributes>(root.attributes).index;
        source.whole = node(result).op != Op::view;
        source.shape = node(result).shape;
        source.strides = node(result).strides;
        source.offset = trace_.offset_of(result);
      } else {
        const auto [entry, fresh] =
            output_of.try_emplace(result, static_cast<std::uint32_t>(out_.outputs.size()));
        source.index = entry->second;
        if (fresh) add_output(result);
      }
      out_.results.push_back(source);
    }
  }

  void add_output(std::uint32_t result) {
    const Node& n = node(result);
    const auto layout = peel_layout(trace_, result, n.strides);
    if (!layout)
      throw InternalError(
          text("output %", result, " has no layout; please report this with\n", trace_.to_string()));
    OutputSpec spec{n.shape, n.strides, n.dtype};
    if (options_.io_dtype && is_floating(n.dtype) && node(layout->value).op != Op::cast)
      spec.dtype = *options_.io_dtype;
    PendingStore store;
    store.tensor.home = Tensor::Home::output;
    store.tensor.index = static_cast<std::uint32_t>(out_.outputs.size());
    store.tensor.dtype = spec.dtype;
    store.tensor.name = text("out", store.tensor.index);
    store.trace_position = static_cast<std::uint32_t>(trace_.nodes().size());
    out_.outputs.push_back(spec);
    if (element_count_unchecked(n.shape) > 0)
      add_pending(std::move(store), *layout, n.shape, n.strides, n.shape);
  }

  void collect_stores() {
    const auto& stores = trace_.stores();
    for (std::size_t i = 0; i < stores.size(); ++i) {
      const bool overwritten =
          std::any_of(stores.begin() + static_cast<std::ptrdiff_t>(i) + 1, stores.end(),
                      [&](const TraceStore& later) { return same_view(stores[i], later); });
      if (!overwritten) add_destination(stores[i], first_position(i));
    }
  }

  /// From the first store to this view on, reading it under another name comes too late, whatever becomes of
  /// that store itself.
  std::uint32_t first_position(std::size_t store) const {
    const auto& stores = trace_.stores();
    const auto first = std::find_if(stores.begin(), stores.end(),
                                    [&](const TraceStore& s) { return same_view(s, stores[store]); });
    return first->position;
  }

  bool same_view(const TraceStore& a, const TraceStore& b) const {
    const Node &x = node(a.destination), &y = node(b.destination);
    return trace_.root_of(a.destination) == trace_.root_of(b.destination) && x.shape == y.shape &&
           x.strides == y.strides && trace_.offset_of(a.destination) == trace_.offset_of(b.destination);
  }

  void add_destination(const TraceStore& s, std::uint32_t position) {
    const Node &to = node(s.destination), &from = node(s.value);
    if (element_count_unchecked(to.shape) == 0) return;
    const std::size_t rank = from.shape.size();
    const auto layout = peel_layout(trace_, s.value, trailing(to.strides, rank));
    PendingStore store;
    store.tensor = memory_of(s.destination);
    store.trace_position = position;
    check_store_overlap(s, store.tensor);
    if (from.scalar && from.weak && is_integer(to.dtype))
      out_.scalars.checks.push_back({host_step(s.value), to.dtype, text("assign to ", store.tensor.name)});
    add_pending(std::move(store), *layout, to.shape, to.strides, from.shape);
    // What reads the destination's old contents should walk it with the store, so that one loop does both.
    Slots& slots = store_slots_.back();
    if (layout->value == s.value && from.shape == to.shape)
      slots.edges.push_back({s.destination, slots.edges[0].slots});
  }

  /// Two stores into crossing parts of one buffer have no order inside one graph.
  void check_store_overlap(const TraceStore& s, const Tensor& tensor) const {
    const Node& to = node(s.destination);
    for (const TraceStore& other : trace_.stores()) {
      if (&other == &s) break;
      const Node& before = node(other.destination);
      if (trace_.root_of(other.destination) != trace_.root_of(s.destination) || same_view(other, s)) continue;
      auto view = [&](const Node& n, std::uint32_t i) {
        return ViewExtent{
            {n.shape.begin(), n.shape.size()}, {n.strides.begin(), n.strides.size()}, trace_.offset_of(i)};
      };
      if (may_overlap(view(before, other.destination), view(to, s.destination)))
        throw AliasError(text("operation ", s.position, ", store: two stores to ", tensor.name,
                              " overlap: shape ", before.shape, " strides ", before.strides, " offset ",
                              trace_.offset_of(other.destination), ", and shape ", to.shape, " strides ",
                              to.strides, " offset ", trace_.offset_of(s.destination),
                              "; store to disjoint parts, or to the same view"));
    }
  }

  /// `shape` and `strides` are the memory's, `value_shape` the stored value's; leading and repeated axes
  /// broadcast.
  void add_pending(PendingStore store, const FinalLayout& layout, const Shape& shape, const Strides& strides,
                   const Shape& value_shape) {
    Slots slots;
    Edge edge{layout.value, {}};
    const Shape& base = node(layout.value).shape;
    for (std::size_t i = 0; i < base.size(); ++i) {
      edge.slots.push_back(base[i] == 1 ? no_label : static_cast<int>(slots.extents.size()));
      if (base[i] == 1) continue;
      slots.extents.push_back(base[i]);
      store.strides.push_back(layout.strides[i]);
    }
    const std::size_t lead = shape.size() - value_shape.size();
    for (std::size_t i = 0; i < shape.size(); ++i) {
      if (shape[i] == 1 || (i >= lead && value_shape[i - lead] != 1)) continue;
      slots.extents.push_back(shape[i]);
      store.strides.push_back(strides[i]);
    }
    slots.edges.push_back(std::move(edge));
    store.value = layout.value;
    store.slots = store_slots_.size();
    store_slots_.push_back(std::move(slots));
    pending_.push_back(std::move(store));
  }

  // ---- axes ----

  void label_axes() {
    std::vector<bool> live(trace_.nodes().size());
    for (const PendingStore& store : pending_) live[store.value] = true;
    for (const Slots& store : store_slots_)
      for (const Edge& edge : store.edges) live[edge.operand] = true;
    for (std::size_t i = live.size(); i-- > 0;)
      if (live[i] && !trace_.is_leaf_or_view(static_cast<std::uint32_t>(i)))
        for (std::uint32_t input : node(static_cast<std::uint32_t>(i)).operands()) live[input] = true;
    std::vector<Slots> slots;
    slots.reserve(live.size() + store_slots_.size());
    for (std::size_t i = 0; i < live.size(); ++i)
      slots.push_back(live[i] ? slots_of(trace_, static_cast<std::uint32_t>(i)) : Slots{});
    for (Slots& store : store_slots_) slots.push_back(std::move(store));
    const auto first = static_cast<std::uint32_t>(trace_.nodes().size());
    const auto end = static_cast<std::uint32_t>(slots.size());
    labels_.emplace(trace_, std::move(slots));
    // Results that nothing relates are walked together where all have the same extents: one loop, one graph.
    const auto alike = [&](std::uint32_t store) {
      return labels_->slots(store).extents == labels_->slots(first).extents;
    };
    for (std::uint32_t store = first + 1; store < end; ++store)
      if (!alike(store)) return;
    for (std::uint32_t store = first + 1; store < end; ++store) labels_->tie(store, first);
  }

  std::size_t axis_of(int label) {
    const auto [entry, fresh] = axis_of_.try_emplace(label, out_.graph.extents.size());
    if (fresh) out_.graph.extents.push_back(labels_->extent(label));
    return entry->second;
  }
  AxisMask mask_of(const std::vector<int>& labels) {
    AxisMask mask = 0;
    for (int label : labels)
      if (label != no_label) mask.set(axis_of(label));
    return mask;
  }
  void place(Tensor& tensor, const std::vector<int>& labels, std::span<const std::int64_t> strides) {
    for (std::size_t i = 0; i < labels.size(); ++i) {
      if (labels[i] == no_label || strides[i] == 0) continue;  // a stride of 0 is the absence of the axis
      const std::size_t axis = axis_of(labels[i]);
      tensor.axes.set(axis);
      if (tensor.strides.size() <= axis) tensor.strides.resize(axis + 1);
      tensor.strides[axis] = strides[i];
    }
  }

  /// Name, dtype, home, offset and alignment of an argument, capture or view; no axes yet.
  Tensor memory_of(std::uint32_t index) const {
    const Node& root = node(trace_.root_of(index));
    Tensor tensor;
    tensor.index = std::get<LeafAttributes>(root.attributes).index;
    tensor.offset = trace_.offset_of(index);
    tensor.dtype = root.dtype;
    if (root.op == Op::argument) {
      tensor.home = Tensor::Home::argument;
      tensor.name = trace_.arguments()[tensor.index].name();
      tensor.alignment = trace_.arguments()[tensor.index].alignment;
    } else {
      tensor.home = Tensor::Home::capture;
      tensor.name = text("capture", tensor.index);
      tensor.alignment = alignment_of(trace_.captures()[tensor.index].raw_data());
    }
    const std::int64_t bytes = byte_offset(tensor.dtype, tensor.offset);
    while (bytes % tensor.alignment != 0) tensor.alignment /= 2;
    return tensor;
  }

  // ---- values ----

  /// Labels that an edge asks its operand to have.
  std::vector<int> edge_labels(const Edge& edge, const std::vector<int>& user) const {
    std::vector<int> labels;
    labels.reserve(edge.slots.size());
    for (int slot : edge.slots)
      labels.push_back(slot == no_label ? no_label : user[static_cast<std::size_t>(slot)]);
    return labels;
  }

  /// Instantiates what is used under its own labels in the order of the recursion below, but without its
  /// depth: chains may be long.
  void instantiate_deep(const PendingStore& store) {
    struct Visit {
      std::uint32_t node;
      std::size_t edge;
    };
    std::vector<Visit> path{{static_cast<std::uint32_t>(trace_.nodes().size() + store.slots), 0}};
    while (!path.empty()) {
      const std::uint32_t user = path.back().node;
      const std::size_t edge = path.back().edge++;
      if (edge < edges_to_visit(user)) {
        const std::uint32_t next = operand_of(user, edge);
        if (!visited_[next] && is_own(user, edge)) path.push_back({next, 0});
        continue;
      }
      path.pop_back();
      if (user >= trace_.nodes().size() || visited_[user]) continue;
      visited_[user] = true;
      if (node(user).scalar) {
        const std::uint32_t step = host_step(user);
        if (!is_scalar_node(path.back().node)) add_slot(step, node(user).dtype);
      } else {
        std::vector<int> labels = labels_->labels(user);
        labels.resize(node(user).shape.size());
        instantiate(user, labels);
      }
    }
  }

  bool is_scalar_node(std::uint32_t user) const { return user < trace_.nodes().size() && node(user).scalar; }
  /// A store's other edges only tie labels; sums over nothing are constants.
  std::size_t edges_to_visit(std::uint32_t user) const {
    if (user >= trace_.nodes().size()) return 1;
    if (node(user).scalar) return node(user).arity;
    if (fills_with_number(node(user))) return 0;
    return sums_over_nothing(user) ? 0 : labels_->slots(user).edges.size();
  }
  std::uint32_t operand_of(std::uint32_t user, std::size_t edge) const {
    return is_scalar_node(user) ? node(user).inputs[edge] : labels_->slots(user).edges[edge].operand;
  }
  bool is_own(std::uint32_t user, std::size_t i) const {
    const std::uint32_t operand = operand_of(user, i);
    if (node(operand).scalar) return true;
    const std::vector<int> own = labels_->labels(operand);
    const std::vector<int> asked = edge_labels(labels_->slots(user).edges[i], labels_->labels(user));
    return std::equal(asked.begin(), asked.end(), own.begin());
  }

  /// zeros, ones and full: the number is converted on the host. Numbers are never of a storage-only dtype.
  bool fills_with_number(const Node& n) const {
    return n.op == Op::fill && node(n.inputs[0]).scalar && !is_storage_only(n.dtype);
  }

  bool sums_over_nothing(std::uint32_t index) const {
    if (node(index).op == Op::part) return sums_over_nothing(node(index).inputs[0]);
    const Slots& slots = labels_->slots(index);
    return std::find(slots.extents.begin() + static_cast<std::ptrdiff_t>(slots.rank), slots.extents.end(),
                     0) != slots.extents.end();
  }

  std::uint32_t instantiate(std::uint32_t index, const std::vector<int>& labels) {
    const Node& n = node(index);
    if (n.scalar) return add_slot(host_step(index), n.dtype);
    const auto key = std::pair(index, labels);
    if (const auto known = instances_.find(key); known != instances_.end()) return known->second;
    const std::uint32_t value =
        trace_.is_leaf_or_view(index) ? tensor_value(index, labels) : operation(index, labels);
    instances_[key] = value;
    return value;
  }

  std::uint32_t tensor_value(std::uint32_t index, const std::vector<int>& labels) {
    Tensor tensor = memory_of(index);
    place(tensor, labels, {node(index).strides.begin(), labels.size()});
    Value value;
    value.kind = Value::Kind::tensor;
    value.dtype = value.operand = tensor.dtype;
    value.axes = tensor.axes;
    auto& tensors = out_.graph.tensors;
    auto same = std::find(tensors.begin(), tensors.end(), tensor);
    value.source = static_cast<std::uint32_t>(same - tensors.begin());
    if (same == tensors.end()) tensors.push_back(std::move(tensor));
    return add_value(value);
  }

  /// Labels of all slots of one instance: under other labels than its own, what it sums over gets fresh ones.
  std::vector<int> slot_labels(std::uint32_t index, const std::vector<int>& labels) {
    std::vector<int> all = labels_->labels(index);
    const bool own = std::equal(labels.begin(), labels.end(), all.begin());
    std::copy(labels.begin(), labels.end(), all.begin());
    for (std::size_t i = labels.size(); i < all.size() && !own; ++i)
      all[i] = labels_->fresh(labels_->slots(index).extents[i]);
    return all;
  }

  std::uint32_t operation(std::uint32_t index, const std::vector<int>& labels) {
    const Node& n = node(index);
    if (fills_with_number(n))
      return add_slot(cast_step(host_step(n.inputs[0]), node(n.inputs[0]).dtype, n.dtype), n.dtype);
    const Slots& slots = labels_->slots(index);
    const std::vector<int> all = slot_labels(index, labels);
    if (const auto folded = fold_empty(index))
      return *folded == no_fold ? add_beta_term(index, all) : *folded;
    Value value;
    value.op = n.op;
    value.dtype = n.dtype;
    value.operand = n.operand;
    value.arity = n.arity;
    value.attributes = n.attributes;
    value.trace_position = index;
    for (std::size_t i = 0; i < n.arity; ++i) {
      value.inputs[i] = operand(n, i, slots.edges[i], all);
      value.axes |= out_.graph.values[value.inputs[i]].axes;
    }
    if (n.op == Op::fill) return cast_to(value.inputs[0], n.dtype);
    if (n.op == Op::reshape) return value.inputs[0];
    value.contracted =
        mask_of(std::vector<int>(all.begin() + static_cast<std::ptrdiff_t>(slots.rank), all.end()));
    const Family family = row_of(n.op).family;
    if (family == Family::structured || family == Family::part) {
      value.layouts = layouts_of(slots, all);
      value.axes =
          mask_of(std::vector<int>(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(slots.rank)));
    } else if (n.op == Op::softmax) {
      const auto axis = static_cast<std::size_t>(std::get<ReductionAttributes>(n.attributes).axes[0]);
      value.contracted = mask_of({all[axis]});
    } else {
      value.axes &= ~value.contracted;
    }
    // Axes are in the masks now; in the attributes they would keep equal values apart.
    if (std::holds_alternative<ReductionAttributes>(n.attributes)) value.attributes = std::monostate{};
    note_fit_checks(n, index);
    return add_value(value);
  }

  /// The graph's axes of the result, then of each operand.
  std::vector<AxisList> layouts_of(const Slots& slots, const std::vector<int>& all) {
    std::vector<AxisList> layouts;
    const auto axis_at = [&](int label) { return label == no_label ? -1 : static_cast<int>(axis_of(label)); };
    AxisList& result = layouts.emplace_back();
    for (std::size_t i = 0; i < slots.rank; ++i) result.push_back(axis_at(all[i]));
    for (const Edge& edge : slots.edges) {
      AxisList& layout = layouts.emplace_back();
      for (const int slot : edge.slots)
        layout.push_back(slot == no_label ? -1 : axis_at(all[static_cast<std::size_t>(slot)]));
    }
    return layouts;
  }

  std::uint32_t operand(const Node& user, std::size_t i, const Edge& edge, const std::vector<int>& all) {
    const std::uint32_t value = instantiate(edge.operand, edge_labels(edge, all));
    const Value& v = out_.graph.values[value];
    // A computed operand of a product or a structured operation is rounded to its own type, as if it had been
    // written to memory. To quantize is to store.
    const bool structured = row_of(user.op).family == Family::structured && user.op != Op::quantize;
    const bool rounds = ((user.op == Op::matmul && i < 2) || structured) &&
                        v.kind == Value::Kind::operation && v.op != Op::cast && is_floating(v.dtype) &&
                        v.dtype != options_.intermediate_dtype && v.dtype != DType::float64;
    return rounds ? cast_to(value, v.dtype) : value;
  }

  static constexpr std::uint32_t no_fold = std::numeric_limits<std::uint32_t>::max();

  /// Of attention: of a row that sees nothing, −infinity.
  bool is_stats(const Node& n) const {
    const auto* part = std::get_if<PartAttributes>(&n.attributes);
    if (part == nullptr || part->index != 1) return false;
    const Op op = node(n.inputs[0]).op;
    return op == Op::attention || op == Op::attention_float8 || op == Op::attention_blockscaled;
  }

  /// The constant that a sum over no elements is. `no_fold` asks for beta·c.
  std::optional<std::uint32_t> fold_empty(std::uint32_t index) {
    if (!sums_over_nothing(index)) return std::nullopt;
    const Node& n = node(index);
    double value = 0;
    if (is_stats(n)) value = -std::numeric_limits<double>::infinity();
    if (n.op == Op::matmul && n.arity == 3) return no_fold;
    if (n.op == Op::prod) value = 1;
    if (n.op == Op::mean) value = std::numeric_limits<double>::quiet_NaN();
    if (n.op == Op::logsumexp) value = -std::numeric_limits<double>::infinity();
    return literal(value, n.dtype);
  }

  std::uint32_t add_beta_term(std::uint32_t index, const std::vector<int>& all) {
    const Node& n = node(index);
    const double beta = std::get<MatmulAttributes>(n.attributes).beta.value;
    Value product;
    product.op = Op::multiply;
    product.arity = 2;
    product.dtype = product.operand = n.dtype;
    product.inputs[0] = operand(n, 2, labels_->slots(index).edges[2], all);
    product.inputs[1] = literal(beta, n.dtype);
    product.axes = out_.graph.values[product.inputs[0]].axes;
    product.trace_position = index;
    return add_value(product);
  }

  void note_fit_checks(const Node& n, std::uint32_t index) {
    if (row_of(n.op).family != Family::pointwise || !is_integer(n.operand) ||
        row_of(n.op).rule == TypeRule::cast)
      return;
    for (std::uint32_t input : n.operands())
      if (node(input).scalar && node(input).weak)
        out_.scalars.checks.push_back(
            {host_step(input), n.operand, text("operation ", index, ", ", name_of(n.op))});
  }

  void emit_store(const PendingStore& pending) {
    const auto entry = static_cast<std::uint32_t>(trace_.nodes().size() + pending.slots);
    const std::vector<int> all = labels_->labels(entry);
    Store store;
    store.value = instantiate(pending.value, edge_labels(labels_->slots(entry).edges[0], all));
    store.tensor = pending.tensor;
    store.trace_position = pending.trace_position;
    place(store.tensor, all, {pending.strides.begin(), pending.strides.size()});
    out_.graph.stores.push_back(std::move(store));
  }

  const CompileOptions& options_;
  std::vector<PendingStore> pending_;
  std::vector<Slots> store_slots_;
  std::optional<AxisLabels> labels_;
  std::map<int, std::size_t> axis_of_;
  std::vector<bool> visited_;
  std::map<std::pair<std::uint32_t, std::vector<int>>, std::uint32_t> instances_;
};

}  // namespace

Lowered canonicalize(const Trace& trace, const CompileOptions& options) {
  return Canonicalizer(trace, options).run();
}

}  // namespace stiletto::detail
