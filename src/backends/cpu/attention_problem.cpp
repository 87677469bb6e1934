// SPDX-License-Identifier: Apache-2.0
// Extents, visibility, draws of dropout and buffers of attention.
#include "backends/cpu/attention_problem.hpp"

#include <cmath>
#include <cstring>
#include <limits>
#include <new>

namespace stiletto::detail::cpu {
namespace {

struct Storage {
  Storage() = default;
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;
  ~Storage() { release(); }
  void release() {
    ::operator delete(data, std::align_val_t{64});
    data = nullptr;
    size = 0;
  }
  std::byte* data = nullptr;
  std::size_t size = 0;
};

}  // namespace

std::byte* thread_buffer(Buffer which, std::size_t bytes) {
  thread_local std::array<Storage, buffer_count> buffers;
  Storage& storage = buffers[static_cast<std::size_t>(which)];
  if (storage.size < bytes) {
    storage.release();
    storage.data = static_cast<std::byte*>(::operator new(bytes, std::align_val_t{64}));
    storage.size = bytes;
  }
  return storage.data;
}

AttentionProblem::AttentionProblem(const AttentionAttributes& a, const TensorView& q_operand,
                                   const TensorView& k_operand, const TensorView& v_operand,
                                   const TensorView& scale_operand,
                                   std::span<const TensorView> optional_operands)
    : attributes(a), q(q_operand), k(k_operand), v(v_operand) {
  const TensorView* next = optional_operands.data();
  const auto take = [&](AttentionOperand operand) { return a.has(operand) ? next++ : nullptr; };
  seq_len_q = take(AttentionOperand::seq_len_q);
  seq_len_kv = take(AttentionOperand::seq_len_kv);
  bias = take(AttentionOperand::bias);
  sink = take(AttentionOperand::sink);
  const TensorView *const seed = take(AttentionOperand::seed), *const offset = take(AttentionOperand::offset);
  q_rows.offsets = take(AttentionOperand::offsets_q);
  k_rows.offsets = take(AttentionOperand::offsets_k);
  v_rows.offsets = take(AttentionOperand::offsets_v);
  out_rows.offsets = take(AttentionOperand::offsets_out);
  k_rows.table = take(AttentionOperand::table_k);
  v_rows.table = take(AttentionOperand::table_v);
  std::memcpy(&scale, scale_operand.data, sizeof scale);
  set_extents();
  if (seed != nullptr) set_dropout(*seed, *offset);
}

void AttentionProblem::set_extents() {
  const std::size_t heads_axis = packed() ? 1 : 2;
  heads = q.shape[heads_axis], width_qk = q.shape[heads_axis + 1];
  heads_kv = k.shape[heads_axis], width_v = v.shape[heads_axis + 1];
  group = heads / heads_kv;
  if (packed()) {
    batch = q_rows.offsets->shape[0] - 1;
    queries = attributes.max_seq_q, keys = attributes.max_seq_kv;
    q_rows.rows = out_rows.rows = q.shape[0];
    k_rows.rows = v_rows.rows = k.shape[0];
    q_rows.row_elements = heads * width_qk, out_rows.row_elements = heads * width_v;
    k_rows.row_elements = heads_kv * width_qk, v_rows.row_elements = heads_kv * width_v;
  } else {
    batch = q.shape[0], queries = q.shape[1];
    keys = k_rows.table == nullptr ? k.shape[1] : k_rows.table->shape[1] * k.shape[1];
  }
}

void AttentionProblem::set_dropout(const TensorView& seed, const TensorView& offset) {
  constexpr double draws = 4294967296;  // 2³²
  DropoutDraws d;
  d.seed = static_cast<std::uint64_t>(integer_at(seed, 0));
  d.offset = static_cast<std::uint64_t>(integer_at(offset, 0));
  d.threshold = static_cast<std::uint32_t>(std::min(std::round(attributes.dropout.value * draws), draws - 1));
  d.kept = 1 / (1 - attributes.dropout.value);
  dropout = d;
}

std::int64_t AttentionProblem::length(const TensorView* lengths, std::int64_t batch_entry,
                                      std::int64_t extent) {
  if (lengths == nullptr) return extent;
  return std::clamp<std::int64_t>(integer_at(*lengths, batch_entry * lengths->strides[0]), 0, extent);
}

std::int64_t AttentionProblem::queries_of(std::int64_t batch_entry) const {
  const std::int64_t count = length(seq_len_q, batch_entry, queries);
  if (!packed()) return count;
  return std::min({count, q_rows.rows_from(batch_entry), out_rows.rows_from(batch_entry)});
}
std::int64_t AttentionProblem::keys_of(std::int64_t batch_entry) const {
  const std::int64_t count = length(seq_len_kv, batch_entry, keys);
  if (!packed()) return count;
  return std::min({count, k_rows.rows_from(batch_entry), v_rows.rows_from(batch_entry)});
}

KeyRange AttentionProblem::seen(std::int64_t batch_entry, std::int64_t query) const {
  const std::int64_t query_count = queries_of(batch_entry), key_count = keys_of(batch_entry);
  if (query >= query_count) return {};
  KeyRange range{0, key_count};
  if (attributes.causal != Causal::none) {
    const std::int64_t shift = attributes.causal == Causal::bottom_right ? key_count - query_count : 0;
    const std::int64_t end = query + shift + 1;
    range.last = std::min(end, key_count);
    if (attributes.window > 0)
      range.first = std::max<std::int64_t>(0, end - std::min(attributes.window, queries + keys));
  }
  return range.empty() ? KeyRange{} : range;
}

template <class T>
void Panel<T>::place(const AttentionProblem& problem, std::int64_t entry, std::int64_t head_kv,
                     std::int64_t first_row, std::int64_t row_count) {
  batch_entry = entry;
  count = row_count;
  lanes = step_of<T>(count);
  hull = {problem.keys, 0};
  const std::int64_t queries = problem.queries_of(batch_entry);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t row = first_row + i, query = row % problem.queries;
    const KeyRange seen = problem.seen(batch_entry, query);
    lane[static_cast<std::size_t>(i)] = {head_kv * problem.group + row / problem.queries, query, seen,
                                         query < queries};
    if (seen.empty()) continue;
    hull = {std::min(hull.first, seen.first), std::max(hull.last, seen.last)};
  }
  if (hull.empty()) hull = {};
}

template <class T>
bool Panel<T>::mask(const KeyRange& keys) {
  bool ragged = false;
  const auto relative = [&keys](std::int64_t key) {
    return static_cast<T>(std::clamp(key, keys.first, keys.last) - keys.first);
  };
  first.fill(0);
  last.fill(0);
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    const KeyRange& seen = lane[i].seen;
    if (seen.empty()) continue;
    first[i] = relative(seen.first);
    last[i] = relative(seen.last);
    ragged = ragged || seen.first > keys.first || seen.last < keys.last;
  }
  return ragged;
}

template <class T>
void Panel<T>::load(T* out, const TensorView& view, const SequenceRows& rows) const {
  const std::int64_t width = view.shape[view.shape.size() - 1];
  const std::int64_t step = step_of<T>(width);
  for (std::int64_t i = 0; i < lanes; ++i, out += step) {
    const Lane& l = lane[static_cast<std::size_t>(i)];
    if (i >= count || l.seen.empty())
      std::fill_n(out, step, T{0});
    else
      load_row(out, view, rows.offset(view, batch_entry, l.query, l.head), width);
  }
}

template <class T>
void Panel<T>::begin_sums(const AttentionProblem& problem) {
  maximum.fill(-std::numeric_limits<T>::infinity());
  sum.fill(0);
  if (problem.sink == nullptr) return;
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    maximum[i] = static_cast<T>(float_at(*problem.sink, lane[i].head * problem.sink->strides[0]) * log2_e);
    sum[i] = 1;
  }
}

template <class T>
ScoreTile<T> Panel<T>::scores(const AttentionProblem& problem, const KeyRange& seen_keys, const T* k,
                              const T* q) {
  ScoreTile<T> tile{};
  tile.keys = seen_keys.last - seen_keys.first;
  tile.lanes = lanes;
  tile.scores = buffer<T>(Buffer::tile, tile_keys * panel_lanes<T>);
  if (mask(seen_keys)) {
    tile.first = first.data();
    tile.last = last.data();
  }
  tile.bias = load_bias(problem, seen_keys);
  attention_kernels<T>().multiply(
      {k, step_of<T>(problem.width_qk), q, lanes, tile.scores, lanes, tile.keys, lanes, problem.width_qk});
  return tile;
}

template <class T>
const T* Panel<T>::load_bias(const AttentionProblem& problem, const KeyRange& keys) const {
  if (problem.bias == nullptr) return nullptr;
  const std::int64_t key_count = keys.last - keys.first, step = step_of<T>(key_count);
  T* const rows = buffer<T>(Buffer::bias, 2 * panel_lanes<T> * tile_keys);
  T* const out = rows + panel_lanes<T> * tile_keys;
  const TensorView& view = *problem.bias;
  for (std::int64_t i = 0; i < lanes; ++i) {
    const Lane& l = lane[static_cast<std::size_t>(i)];
    if (i >= count || l.seen.empty())
      std::fill_n(rows + i * step, step, T{0});
    else
      load_row(rows + i * step, view,
               element_offset(view, batch_entry, l.head, l.query) + keys.first * view.strides[3], key_count);
  }
  attention_kernels<T>().transpose({rows, step, out, lanes, lanes, step, nullptr});
  return out;
}

/// Each place has a counter of its own, and so do places of calls whose offsets are as far apart as there are
/// probabilities.
template <class T>
const T* Panel<T>::draw(const AttentionProblem& problem, const KeyRange& keys) const {
  alignas(64) std::array<std::uint64_t, panel_lanes<T>> counters{};
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    const std::int64_t row = (batch_entry * problem.heads + lane[i].head) * problem.queries + lane[i].query;
    counters[i] =
        problem.dropout->offset + static_cast<std::uint64_t>(row) * static_cast<std::uint64_t>(problem.keys);
  }
  const std::int64_t first_key = keys.first - keys.first % draws_per_counter;
  T* const factors = buffer<T>(Buffer::draws, (tile_keys + draws_per_counter) * panel_lanes<T>);
  attention_kernels<T>().draw({factors, first_key, keys.last - first_key, lanes, counters.data(),
                               problem.dropout->seed, problem.dropout->threshold,
                               static_cast<T>(problem.dropout->kept)});
  return factors + (keys.first - first_key) * lanes;
}

/// What a lane does not see has exponential 0, but 0·NaN is NaN: such values need a loop of their own.
template <class T>
void add_values(const SoftmaxTile<T>& tile, const T* v, std::int64_t width_v, T* out, bool begun) {
  const AttentionKernels<T>& table = attention_kernels<T>();
  const std::int64_t lanes = tile.lanes, step = step_of<T>(width_v);
  if (tile.first == nullptr || table.finite(v, tile.keys * step)) {
    table.multiply_transposed({v, step, tile.scores, lanes, out, lanes, width_v, lanes, tile.keys,
                               begun ? Start::scaled : Start::zero, tile.correction});
    return;
  }
  for (std::int64_t i = 0; i < width_v; ++i)
    for (std::int64_t lane = 0; lane < lanes; ++lane) {
      T sum = begun ? out[i * lanes + lane] * tile.correction[lane] : T{0};
      const auto last = static_cast<std::int64_t>(tile.last[lane]);
      for (auto key = static_cast<std::int64_t>(tile.first[lane]); key < last; ++key)
        sum += tile.scores[key * lanes + lane] * v[key * step + i];
      out[i * lanes + lane] = sum;
    }
}

template void add_values(const SoftmaxTile<float>&, const float*, std::int64_t, float*, bool);
template void add_values(const SoftmaxTile<double>&, const double*, std::int64_t, double*, bool);
template struct Panel<float>;
template struct Panel<double>;

}  // namespace stiletto::detail::cpu
