// SPDX-License-Identifier: Apache-2.0
// One call of attention: its extents and which keys a query sees, and what its two directions share: rows to
// and from buffers of the computing type, panels of rows of q, tiles of keys.
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "backends/cpu/attention_kernels.hpp"
#include "backends/cpu/structured.hpp"

namespace stiletto::detail::cpu {

inline constexpr std::int64_t tile_keys = 96;  // whole tiles of products and whole vectors
inline constexpr double log2_e = 1.4426950408889634074, ln_2 = 0.6931471805599453094;

constexpr std::int64_t round_up(std::int64_t value, std::int64_t step) {
  return (value + step - 1) / step * step;
}
/// Elements between rows of a buffer, of at least `width` elements: whole vectors.
template <class T>
constexpr std::int64_t step_of(std::int64_t width) {
  return round_up(width, vector_lanes<T>);
}

struct KeyRange {
  std::int64_t first = 0, last = 0;
  bool empty() const { return first >= last; }
};

struct AttentionProblem {
  /// `optional_operands`: the AttentionOperands that are there.
  AttentionProblem(const AttentionAttributes& attributes, const TensorView& q, const TensorView& k,
                   const TensorView& v, const TensorView& scale_operand,
                   std::span<const TensorView> optional_operands);

  std::int64_t queries_of(std::int64_t batch_entry) const { return length(seq_len_q, batch_entry, queries); }
  std::int64_t keys_of(std::int64_t batch_entry) const { return length(seq_len_kv, batch_entry, keys); }
  KeyRange seen(std::int64_t batch_entry, std::int64_t query) const;

  AttentionAttributes attributes;
  TensorView q, k, v;
  const TensorView *seq_len_q = nullptr, *seq_len_kv = nullptr, *bias = nullptr, *sink = nullptr;
  double scale;
  std::int64_t batch, queries, keys, heads, heads_kv, group, width_qk, width_v;

 private:
  static std::int64_t length(const TensorView* lengths, std::int64_t batch_entry, std::int64_t extent);
};

/// Elements from the first to (a, b, c, 0); an axis of extent 1 is broadcast.
std::int64_t element_offset(const TensorView& view, std::int64_t a, std::int64_t b, std::int64_t c);
float float_at(const TensorView& view, std::int64_t index);  // of a float32 vector

/// `count` elements along the last axis of a view, from an element offset on; zeros up to a whole vector.
template <class T>
void load_row(T* out, const TensorView& view, std::int64_t offset, std::int64_t count);
template <class T>
void store_row(const TensorView& view, std::int64_t offset, const T* in, std::int64_t count);

/// Buffers that a thread keeps; they only grow.
enum class Buffer : std::uint8_t { keys, values, d_keys, d_values, rows, panels, tile, tile_gradient, bias };
inline constexpr std::size_t buffer_count = 9;
std::byte* thread_buffer(Buffer which, std::size_t bytes);
template <class T>
T* buffer(Buffer which, std::int64_t elements) {
  return reinterpret_cast<T*>(thread_buffer(which, static_cast<std::size_t>(elements) * sizeof(T)));
}

/// Rows of q, of the heads that share one head of k and v, that are computed together. The rows of such a
/// group are those of its first head, then those of the next.
template <class T>
struct Panel {
  struct Lane {
    std::int64_t head, query;
    KeyRange seen;
  };
  void place(const AttentionProblem& problem, std::int64_t batch_entry, std::int64_t head_kv,
             std::int64_t first_row, std::int64_t row_count);
  /// What of the tile from `first_key` on some lane sees.
  KeyRange within(std::int64_t first_key) const {
    return {std::max(hull.first, first_key), std::min(hull.last, first_key + tile_keys)};
  }
  /// The lanes' rows of a view laid out as q, as (lanes, step_of(width)); zeros of lanes that see nothing.
  void load(T* out, const TensorView& view, std::int64_t width) const;
  /// The softmax before any key: of nothing, or of the sink alone.
  void begin_sums(const AttentionProblem& problem);
  /// k·q for rows of k from keys.first on and q as (width, lanes), with what the softmax still has to apply.
  ScoreTile<T> scores(const AttentionProblem& problem, const KeyRange& keys, const T* k, const T* q);

  std::int64_t batch_entry = 0, count = 0, lanes = 0;
  KeyRange hull;  // of what the lanes see
  std::array<Lane, panel_lanes<T>> lane;
  alignas(64) std::array<T, panel_lanes<T>> maximum, sum;  // in units of log 2, and relative to the maximum

 private:
  /// Writes the lanes' bounds relative to keys.first; false where all lanes that see anything see all of it.
  bool mask(const KeyRange& keys);
  const T* load_bias(const AttentionProblem& problem, const KeyRange& keys) const;  // as (keys, lanes)

  alignas(64) std::array<T, panel_lanes<T>> first, last;
};

/// Rows [keys.first, keys.last) of k or v.
template <class T>
void load_keys(T* out, const TensorView& view, std::int64_t batch_entry, std::int64_t head_kv,
               const KeyRange& keys, std::int64_t width);

/// Asks for rows that will be loaded: those of one head lie far apart, which the processor does not foresee.
void prefetch_keys(const TensorView& view, std::int64_t batch_entry, std::int64_t head_kv,
                   const KeyRange& keys);

/// Calls f with float or double: what the operands' dtype is computed in.
template <class F>
void with_computing_type(DType dtype, F f) {
  if (dtype == DType::float64)
    f(double{});
  else
    f(float{});
}

}  // namespace stiletto::detail::cpu
