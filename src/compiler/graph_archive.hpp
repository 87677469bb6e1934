// SPDX-License-Identifier: Apache-2.0
// The members of what is saved with a plan, each structure once for both directions (core/archive.hpp).
#pragma once
#include "compiler/canonicalize.hpp"
#include "core/archive.hpp"

namespace stiletto::detail {

template <class Archive, Archived<AxisMask> T>
void archive(Archive& ar, T& mask) {
  std::vector<std::uint64_t> words = mask.words();
  ar(words);
  if constexpr (!std::is_const_v<T>) mask = AxisMask::of_words(words);
}

template <class Archive, Archived<ExactDouble> T>
void archive(Archive& ar, T& number) {
  ar(number.value);
}
template <class Archive, Archived<LeafAttributes> T>
void archive(Archive& ar, T& a) {
  ar(a.index);
}
template <class Archive, Archived<ViewAttributes> T>
void archive(Archive& ar, T& a) {
  ar(a.offset);
}
template <class Archive, Archived<CoefficientAttributes> T>
void archive(Archive& ar, T& a) {
  ar(a.coefficient);
}
template <class Archive, Archived<ReductionAttributes> T>
void archive(Archive& ar, T& a) {
  ar(a.axes, a.keep_dims);
}
template <class Archive, Archived<MatmulAttributes> T>
void archive(Archive& ar, T& a) {
  ar(a.alpha, a.beta);
}
template <class Archive, Archived<PermuteAttributes> T>
void archive(Archive& ar, T& a) {
  ar(a.axes);
}

template <class Archive, Archived<AttentionAttributes> T>
void archive(Archive& ar, T& a) {
  ar(a.causal, a.operands, a.window, a.dropout, a.max_seq_q, a.max_seq_kv);
}
template <class Archive, Archived<NormAttributes> T>
void archive(Archive& ar, T& a) {
  ar(a.axes, a.bias, a.epsilon, a.momentum);
}
template <class Archive, Archived<ConvAttributes> T>
void archive(Archive& ar, T& a) {
  ar(a.stride, a.dilation, a.pre_padding, a.post_padding);
}
template <class Archive, Archived<PoolAttributes> T>
void archive(Archive& ar, T& a) {
  ar(a.window, a.stride, a.pre_padding, a.post_padding, a.include_padding);
}
template <class Archive, Archived<BlockAttributes> T>
void archive(Archive& ar, T& a) {
  ar(a.element, a.scale, a.size, a.last);
}
template <class Archive, Archived<PartAttributes> T>
void archive(Archive& ar, T& a) {
  ar(a.index);
}

inline void archive(Writer& ar, const Attributes& attributes) {
  ar(static_cast<std::uint8_t>(attributes.index()));
  std::visit(
      [&](const auto& a) {
        if constexpr (!std::is_same_v<std::remove_cvref_t<decltype(a)>, std::monostate>) ar(a);
      },
      attributes);
}
template <std::size_t I = 0>
void read_attributes(Reader& ar, std::size_t index, Attributes& attributes) {
  if constexpr (I < std::variant_size_v<Attributes>) {
    if (index != I) return read_attributes<I + 1>(ar, index, attributes);
    auto& a = attributes.emplace<I>();
    if constexpr (I > 0) ar(a);
  } else {
    throw ArchiveError("is damaged");
  }
}
inline void archive(Reader& ar, Attributes& attributes) {
  std::uint8_t index = 0;
  ar(index);
  read_attributes(ar, index, attributes);
}

template <class Archive, Archived<Structure> T>
void archive(Archive& ar, T& s) {
  ar(s.arrays, s.containers);
}
template <class Archive, Archived<ArgumentSpec> T>
void archive(Archive& ar, T& a) {
  ar(a.shape, a.strides, a.dtype, a.device, a.alignment, a.number, a.scalar, a.position, a.member);
}
template <class Archive, Archived<TraceScalar> T>
void archive(Archive& ar, T& s) {
  ar(s.dtype, s.weak, s.value);
}
template <class Archive, Archived<Node> T>
void archive(Archive& ar, T& n) {
  ar(n.op, n.dtype, n.operand, n.weak, n.scalar, n.final_only, n.arity, n.inputs, n.shape, n.strides,
     n.attributes);
}

template <class Archive, Archived<Tensor> T>
void archive(Archive& ar, T& t) {
  ar(t.home, t.index, t.offset, t.dtype, t.alignment, t.axes, t.strides, t.name);
}
template <class Archive, Archived<Value> T>
void archive(Archive& ar, T& v) {
  ar(v.kind, v.op, v.arity, v.dtype, v.operand, v.source, v.inputs, v.axes, v.contracted, v.attributes,
     v.layouts, v.trace_position);
}
template <class Archive, Archived<Store> T>
void archive(Archive& ar, T& s) {
  ar(s.value, s.tensor, s.trace_position);
}
template <class Archive, Archived<CanonicalGraph> T>
void archive(Archive& ar, T& g) {
  ar(g.extents, g.tensors, g.scalars, g.values, g.stores, g.intermediate_dtype, g.compute_dtype);
}

template <class Archive, Archived<HostScalars::Step> T>
void archive(Archive& ar, T& s) {
  ar(s.kind, s.trace_scalar, s.literal, s.node);
}
template <class Archive, Archived<HostScalars::FitCheck> T>
void archive(Archive& ar, T& c) {
  ar(c.step, c.dtype, c.operation);
}
template <class Archive, Archived<HostScalars> T>
void archive(Archive& ar, T& s) {
  ar(s.steps, s.slots, s.checks);
}
template <class Archive, Archived<OutputSpec> T>
void archive(Archive& ar, T& o) {
  ar(o.shape, o.strides, o.dtype);
}
template <class Archive, Archived<ResultSource> T>
void archive(Archive& ar, T& r) {
  ar(r.home, r.index, r.whole, r.shape, r.strides, r.offset);
}
template <class Archive, Archived<Lowered> T>
void archive(Archive& ar, T& l) {
  ar(l.graph, l.scalars, l.outputs, l.results);
}

}  // namespace stiletto::detail
