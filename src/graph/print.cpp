// SPDX-License-Identifier: Apache-2.0
// The trace as text, and the check of its invariants between recording and lowering.
#include "graph/print.hpp"
#include "core/text.hpp"
#include "graph/trace.hpp"
#include "stiletto/error.hpp"

namespace stiletto::detail {

namespace {

std::string window_text(const char* name, const Dims& dims) { return text(", ", name, "=", dims); }

std::string convolution_text(const Dims& stride, const Dims& pre_padding, const Dims& post_padding) {
  std::string result = window_text("stride", stride) + window_text("padding", pre_padding);
  if (post_padding != pre_padding) result += window_text("post_padding", post_padding);
  return result;
}

/// Names of the operands that may be missing, as AttentionOperand counts them.
constexpr const char* attention_operands[] = {"seq_len_q", "seq_len_kv",  "bias",      "sink",
                                              "seed",      "offset",      "offsets_q", "offsets_k",
                                              "offsets_v", "offsets_out", "table_k",   "table_v"};

std::string attention_text(const AttentionAttributes& a) {
  std::string result = a.causal == Causal::top_left       ? ", causal top_left"
                       : a.causal == Causal::bottom_right ? ", causal bottom_right"
                                                          : "";
  if (a.window != 0) result += text(", window=", a.window);
  if (a.dropout.value != 0) result += text(", dropout=", a.dropout.value);
  if (a.max_seq_q != 0 || a.max_seq_kv != 0) result += text(", max_seq=", a.max_seq_q, " by ", a.max_seq_kv);
  std::string with;
  for (std::size_t i = 0; i < std::size(attention_operands); ++i)
    if (a.has(static_cast<AttentionOperand>(i)))
      with += text(with.empty() ? "" : ", ", attention_operands[i]);
  return with.empty() ? result : result + ", with " + with;
}

std::string structured_text(Op op, const Attributes& attributes) {
  if (const auto* a = std::get_if<AttentionAttributes>(&attributes)) return attention_text(*a);
  if (const auto* n = std::get_if<NormAttributes>(&attributes)) {
    std::string result = n->axes == 0 ? "" : text(", axes=", n->axes);
    const bool backward =
        op == Op::rms_norm_backward || op == Op::layer_norm_backward || op == Op::batch_norm_backward;
    if (!backward) result += text(", epsilon=", n->epsilon.value);
    return op == Op::batch_norm_training ? result + text(", momentum=", n->momentum.value) : result;
  }
  if (const auto* c = std::get_if<ConvAttributes>(&attributes))
    return convolution_text(c->stride, c->pre_padding, c->post_padding) +
           window_text("dilation", c->dilation);
  if (const auto* p = std::get_if<PoolAttributes>(&attributes))
    return window_text("window", p->window) + convolution_text(p->stride, p->pre_padding, p->post_padding) +
           (p->include_padding ? ", include_padding" : "");
  if (const auto* b = std::get_if<BlockAttributes>(&attributes))
    return text(", ", b->size, ' ', b->element, " by ", b->scale, " along ", b->last ? -1 : -2);
  if (const auto* p = std::get_if<PartAttributes>(&attributes)) return text(", result=", p->index);
  return {};
}

}  // namespace

std::string attributes_text(Op op, const Attributes& attributes) {
  if (const auto* c = std::get_if<CoefficientAttributes>(&attributes))
    return text(", ", c->coefficient.value);
  if (const auto* r = std::get_if<ReductionAttributes>(&attributes))
    return op == Op::softmax ? text(", axis=", r->axes[0])
                             : text(", axes=", r->axes, r->keep_dims ? ", keep_dims" : "");
  if (const auto* p = std::get_if<PermuteAttributes>(&attributes)) return text(", axes=", p->axes);
  if (const auto* v = std::get_if<ViewAttributes>(&attributes)) return text(", offset=", v->offset);
  if (const auto* m = std::get_if<MatmulAttributes>(&attributes)) {
    std::string result;
    if (m->alpha.value != 1) result += text(", alpha=", m->alpha.value);
    if (m->beta.value != 0) result += text(", beta=", m->beta.value);
    return result;
  }
  return structured_text(op, attributes);
}

namespace {

std::string leaf_name(const Trace& trace, const Node& node) {
  const std::uint32_t index = std::get<LeafAttributes>(node.attributes).index;
  if (node.op == Op::argument) return trace.arguments()[index].name();
  return text(node.op == Op::capture ? "capture" : "number", index);
}

std::string node_text(const Trace& trace, const Node& node) {
  if (node.op == Op::argument || node.op == Op::capture || node.op == Op::scalar)
    return leaf_name(trace, node);
  std::string result = text(name_of(node.op), "(");
  for (std::size_t i = 0; i < node.arity; ++i) result += text(i ? ", " : "", '%', node.inputs[i]);
  return result + attributes_text(node.op, node.attributes) + ")";
}

}  // namespace

std::string Trace::to_string() const {
  std::string result = "trace\n";
  auto store = stores_.begin();
  auto stores_before = [&](std::size_t position) {
    for (; store != stores_.end() && store->position <= position; ++store)
      result += text("  store %", store->value, " -> %", store->destination, "\n");
  };
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    stores_before(i);
    const Node& node = nodes_[i];
    result += text("  %", i, " = ", node_text(*this, node), ": ", node.dtype);
    if (!node.scalar) result += text(node.shape);
    if (!is_row_major(node.shape, node.strides)) result += text(" strides ", node.strides);
    result += '\n';
  }
  stores_before(nodes_.size());
  for (std::uint32_t node : results_) result += text("  return %", node, "\n");
  return result;
}

void Trace::verify() const {
  auto require = [&](bool holds, std::size_t node, const char* rule) {
    if (!holds)
      throw InternalError(text("the trace breaks a rule at node ", node, " (", rule,
                               "); please report this with\n", to_string()));
  };
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const Node& node = nodes_[i];
    require(node.shape.size() == node.strides.size(), i, "one stride per axis");
    for (std::uint32_t input : node.operands()) require(input < i, i, "operands come first");
    for (std::int64_t extent : node.shape) require(extent >= 0, i, "no negative extent");
    if (node.op == Op::view) require(is_leaf_or_view(node.inputs[0]), i, "views are of leaves");
    if (node.scalar) require(node.shape.size() == 0, i, "numbers have rank 0");
  }
  for (const TraceStore& store : stores_) {
    require(store.destination < nodes_.size() && store.value < nodes_.size(), store.destination,
            "stores name nodes");
    require(is_leaf_or_view(store.destination), store.destination,
            "stores go to arguments, captures and their views");
  }
}

}  // namespace stiletto::detail
