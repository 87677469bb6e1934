// SPDX-License-Identifier: Apache-2.0
// Extents, visibility, rows and buffers of attention.
#include "backends/cpu/attention_problem.hpp"

#include <bit>
#include <cstring>
#include <limits>
#include <new>

#include "backends/cpu/kernels.hpp"
#include "core/dtype_info.hpp"

namespace stiletto::detail::cpu {
namespace {

template <class T>
constexpr std::size_t register_number =
    static_cast<std::size_t>(sizeof(T) == 4 ? Register::f32 : Register::f64);
std::size_t number(DType dtype) { return static_cast<std::size_t>(dtype); }
std::size_t log2_bytes(DType dtype) {
  return static_cast<std::size_t>(std::countr_zero(bytes_for(dtype, 1)));
}

constexpr std::int64_t chunk = 256;  // elements that pass through a buffer on the stack

template <class T>
void load_contiguous(T* out, const void* in, DType dtype, std::int64_t count) {
  const Kernels& table = kernels();
  if (const LoadKernel load = table.load[number(dtype)][register_number<T>]) {
    load(out, in, static_cast<std::size_t>(count));
    return;
  }
  const double* const values = static_cast<const double*>(in);  // the only dtype wider than T
  for (std::int64_t i = 0; i < count; ++i) out[i] = static_cast<T>(values[i]);
}

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
  std::memcpy(&scale, scale_operand.data, sizeof scale);
  batch = q.shape[0], queries = q.shape[1], heads = q.shape[2], width_qk = q.shape[3];
  keys = k.shape[1], heads_kv = k.shape[2], width_v = v.shape[3];
  group = heads / heads_kv;
}

std::int64_t AttentionProblem::length(const TensorView* lengths, std::int64_t batch_entry,
                                      std::int64_t extent) {
  if (lengths == nullptr) return extent;
  std::int32_t value = 0;
  std::memcpy(&value, lengths->data + byte_offset(DType::int32, batch_entry * lengths->strides[0]),
              sizeof value);
  return std::clamp<std::int64_t>(value, 0, extent);
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

std::int64_t element_offset(const TensorView& view, std::int64_t a, std::int64_t b, std::int64_t c) {
  const std::array<std::int64_t, 3> index{a, b, c};
  std::int64_t offset = 0;
  for (std::size_t axis = 0; axis < index.size(); ++axis)
    if (view.shape[axis] != 1) offset += index[axis] * view.strides[axis];
  return offset;
}

float float_at(const TensorView& view, std::int64_t index) {
  float value = 0;
  std::memcpy(&value, view.data + byte_offset(view.dtype, index * view.strides[0]), sizeof value);
  return value;
}

template <class T>
void load_row(T* out, const TensorView& view, std::int64_t offset, std::int64_t count) {
  const std::byte* const in = view.data + byte_offset(view.dtype, offset);
  const std::int64_t stride = view.strides[view.strides.size() - 1];
  if (stride == 1) {
    load_contiguous(out, in, view.dtype, count);
  } else {
    alignas(64) std::array<std::byte, chunk * sizeof(double)> gathered;
    for (std::int64_t i = 0; i < count; i += chunk) {
      const std::int64_t n = std::min(chunk, count - i);
      kernels().gather[log2_bytes(view.dtype)](gathered.data(), in + byte_offset(view.dtype, i * stride),
                                               stride, static_cast<std::size_t>(n));
      load_contiguous(out + i, gathered.data(), view.dtype, n);
    }
  }
  std::fill(out + count, out + step_of<T>(count), T{0});
}

template <class T>
void store_row(const TensorView& view, std::int64_t offset, const T* in, std::int64_t count) {
  std::byte* const out = view.data + byte_offset(view.dtype, offset);
  const std::int64_t stride = view.strides[view.strides.size() - 1];
  const StoreKernel store = kernels().store[register_number<T>][number(view.dtype)];
  if (stride == 1) return store(out, in, static_cast<std::size_t>(count));
  alignas(64) std::array<std::byte, chunk * sizeof(double)> rounded;
  for (std::int64_t i = 0; i < count; i += chunk) {
    const auto n = static_cast<std::size_t>(std::min(chunk, count - i));
    store(rounded.data(), in + i, n);
    kernels().scatter[log2_bytes(view.dtype)](out + byte_offset(view.dtype, i * stride), stride,
                                              rounded.data(), n);
  }
}

template <class T>
void Panel<T>::place(const AttentionProblem& problem, std::int64_t entry, std::int64_t head_kv,
                     std::int64_t first_row, std::int64_t row_count) {
  batch_entry = entry;
  count = row_count;
  lanes = step_of<T>(count);
  hull = {problem.keys, 0};
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t row = first_row + i, query = row % problem.queries;
    const KeyRange seen = problem.seen(batch_entry, query);
    lane[static_cast<std::size_t>(i)] = {head_kv * problem.group + row / problem.queries, query, seen};
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
void Panel<T>::load(T* out, const TensorView& view, std::int64_t width) const {
  const std::int64_t step = step_of<T>(width);
  for (std::int64_t i = 0; i < lanes; ++i, out += step) {
    const Lane& l = lane[static_cast<std::size_t>(i)];
    if (i >= count || l.seen.empty())
      std::fill_n(out, step, T{0});
    else
      load_row(out, view, element_offset(view, batch_entry, l.query, l.head), width);
  }
}

template <class T>
void Panel<T>::begin_sums(const AttentionProblem& problem) {
  maximum.fill(-std::numeric_limits<T>::infinity());
  sum.fill(0);
  if (problem.sink == nullptr) return;
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    maximum[i] = static_cast<T>(float_at(*problem.sink, lane[i].head) * log2_e);
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

template <class T>
void load_keys(T* out, const TensorView& view, std::int64_t batch_entry, std::int64_t head_kv,
               const KeyRange& keys, std::int64_t width) {
  for (std::int64_t key = keys.first; key < keys.last; ++key, out += step_of<T>(width))
    load_row(out, view, element_offset(view, batch_entry, key, head_kv), width);
}

void prefetch_keys(const TensorView& view, std::int64_t batch_entry, std::int64_t head_kv,
                   const KeyRange& keys) {
  constexpr std::int64_t line = 64;
  if (view.strides[3] != 1) return;
  for (std::int64_t key = keys.first; key < keys.last; ++key) {
    const std::byte* const row =
        view.data + byte_offset(view.dtype, element_offset(view, batch_entry, key, head_kv));
    for (std::int64_t i = 0; i < byte_offset(view.dtype, view.shape[3]); i += line)
      __builtin_prefetch(row + i, 0, 2);
  }
}

template struct Panel<float>;
template struct Panel<double>;
template void load_row(float*, const TensorView&, std::int64_t, std::int64_t);
template void load_row(double*, const TensorView&, std::int64_t, std::int64_t);
template void store_row(const TensorView&, std::int64_t, const float*, std::int64_t);
template void store_row(const TensorView&, std::int64_t, const double*, std::int64_t);
template void load_keys(float*, const TensorView&, std::int64_t, std::int64_t, const KeyRange&, std::int64_t);
template void load_keys(double*, const TensorView&, std::int64_t, std::int64_t, const KeyRange&,
                        std::int64_t);

}  // namespace stiletto::detail::cpu
