// SPDX-License-Identifier: Apache-2.0
// q, k and v of attention: which shapes fit together, one batch entry per row of an array of rank 4, packed
// behind one another, or in pages.
#include "ops/attention.hpp"

namespace stiletto::detail {
namespace {

void check_ranks(const AttentionOperands& o) {
  const char* const names[] = {"q", "k", "v"};
  const ArrayBody* const bodies[] = {o.q, o.k, o.v};
  for (int i = 0; i < 3; ++i) {
    const std::size_t rank = bodies[i]->shape.size();
    if (o.packed && rank != 3)
      throw_shape(o.name, names[i], " has shape ", bodies[i]->shape,
                  "; of packed sequences it has to be (rows, heads, head_dim): reshape it");
    if (o.paged && i > 0 && rank != 4)
      throw_shape(o.name, names[i], " has shape ", bodies[i]->shape,
                  "; in pages it has to be (pages, page_size, heads, head_dim): reshape it");
    if (!o.packed && rank != 4)
      throw_shape(o.name, names[i], " has shape ", bodies[i]->shape,
                  "; it has to be (batch, seq, heads, head_dim): reshape or expand_dims it");
  }
}

void check_extents(const AttentionOperands& o) {
  const Shape &q = o.q->shape, &k = o.k->shape, &v = o.v->shape;
  if (!o.packed && !o.paged && (k[0] != o.batch || v[0] != o.batch))
    throw_shape(o.name, "the batches of q ", q, ", k ", k, " and v ", v, " differ; they have to be equal");
  if (k[k.size() - 1] != o.head_dim)
    throw_shape(o.name, "head_dim of q ", q, " and k ", k, " differ; they have to be equal");
  if (o.head_dim == 0) throw_shape(o.name, "head_dim is 0 in q ", q, "; it has to be at least 1");
  for (std::size_t axis = 0; axis + 1 < k.size(); ++axis)
    if (k[axis] != v[axis])
      throw_shape(o.name, "k ", k, " and v ", v, " differ in ",
                  o.packed  ? "rows"
                  : o.paged ? "pages, page_size"
                            : "seq",
                  " or heads; only their last axes may");
  if (o.heads_kv == 0 ? o.heads != 0 : o.heads % o.heads_kv != 0)
    throw_shape(o.name, o.heads, " heads of q are no multiple of ", o.heads_kv,
                " heads of k and v; each head of k and v serves as many of q");
}

void require_lengths(const AttentionOptions& options, const char* name, const char* what) {
  if (!options.seq_len_q && !options.seq_len_kv)
    throw_shape(name, what, " without seq_len_q and seq_len_kv; give both: they say where a sequence ends");
}

/// Sets the batch and the longest sequences.
void check_packed(const PackedSequences& packed, AttentionOperands& o) {
  const std::pair<const Array*, const char*> offsets[] = {{&packed.offsets_q, "offsets_q"},
                                                          {&packed.offsets_k, "offsets_k"},
                                                          {&packed.offsets_v, "offsets_v"},
                                                          {&packed.offsets_out, "offsets_out"}};
  const ArrayBody& first = array_operand(packed.offsets_q, o.name, "offsets_q");
  if (first.shape.size() != 1 || first.shape[0] < 1)
    throw_shape(o.name, "offsets_q has shape ", first.shape,
                "; it has to be (batch + 1): where each sequence begins, and where the last one ends");
  for (const auto& [array, what] : offsets) {
    const ArrayBody& body = array_operand(*array, o.name, what);
    require_shape(body, first.shape, o.name, what);
    if (body.dtype != DType::int32 && body.dtype != DType::int64)
      throw_dtype(o.name, what, " is ", body.dtype, "; it has to be int32 or int64: cast it");
    if (body.dtype != first.dtype)
      throw_dtype(o.name, "offsets_q is ", first.dtype, " and ", what, " ", body.dtype,
                  "; they have to be of one dtype: cast one");
  }
  const std::pair<std::int64_t, const char*> longest[] = {{packed.max_seq_q, "max_seq_q"},
                                                          {packed.max_seq_kv, "max_seq_kv"}};
  for (const auto& [value, what] : longest)
    if (value < 1)
      throw_shape(o.name, what, " is ", value, "; it has to be at least 1: the longest sequence's length");
  o.batch = first.shape[0] - 1;
  o.seq_q = packed.max_seq_q, o.seq_kv = packed.max_seq_kv;
}

/// Sets the longest sequence.
void check_paged(const PagedKeys& paged, AttentionOperands& o) {
  const std::pair<const Array*, const char*> tables[] = {{&paged.table_k, "table_k"},
                                                         {&paged.table_v, "table_v"}};
  const ArrayBody& first = array_operand(paged.table_k, o.name, "table_k");
  if (first.shape.size() != 2 || first.shape[0] != o.batch)
    throw_shape(o.name, "table_k has shape ", first.shape, "; it has to be (", o.batch,
                ", pages of the longest sequence)");
  for (const auto& [array, what] : tables) {
    const ArrayBody& body = array_operand(*array, o.name, what);
    require_shape(body, first.shape, o.name, what);
    if (body.dtype != DType::int32)
      throw_dtype(o.name, what, " is ", body.dtype, "; it has to be int32: cast it");
  }
  o.seq_kv = element_count({first.shape[1], o.k->shape[1]}, o.name);
}

}  // namespace

Shape AttentionOperands::out_shape() const {
  if (packed) return {q->shape[0], heads, width};
  return {batch, seq_q, heads, width};
}

void require_shape(const ArrayBody& body, const Shape& shape, const char* name, const char* what) {
  if (body.shape != shape) throw_shape(name, what, " has shape ", body.shape, "; it has to be ", shape);
}

AttentionOperands attention_operands(const Array& q, const Array& k, const Array& v,
                                     const AttentionOptions& options, const char* name) {
  AttentionOperands o{name, &array_operand(q, name, "q"), &array_operand(k, name, "k"),
                      &array_operand(v, name, "v")};
  o.packed = options.packed.has_value(), o.paged = options.paged.has_value();
  if (o.packed && o.paged)
    throw_shape(name,
                "packed sequences and paged keys together are not computed; pad q, or gather the pages");
  check_ranks(o);
  const std::size_t heads_axis = o.packed ? 1 : 2;
  o.heads = o.q->shape[heads_axis], o.head_dim = o.q->shape[heads_axis + 1];
  o.heads_kv = o.k->shape[heads_axis], o.width = o.v->shape[heads_axis + 1];
  if (!o.packed) o.batch = o.q->shape[0], o.seq_q = o.q->shape[1], o.seq_kv = o.k->shape[1];
  check_extents(o);
  if (o.packed) require_lengths(options, name, "packed sequences");
  if (o.packed) check_packed(*options.packed, o);
  if (o.paged) require_lengths(options, name, "paged keys");
  if (o.paged) check_paged(*options.paged, o);
  return o;
}

void check_one_dtype(const AttentionOperands& o) {
  const char* const names[] = {"k", "v"};
  const ArrayBody* const bodies[] = {o.k, o.v};
  for (int i = 0; i < 2; ++i)
    if (bodies[i]->dtype != o.q->dtype)
      throw_dtype(o.name, "q is ", o.q->dtype, " and ", names[i], " ", bodies[i]->dtype,
                  "; they have to be of one dtype: cast one");
}

}  // namespace stiletto::detail
