// SPDX-License-Identifier: Apache-2.0
// One call of attention: its extents, which keys a query sees and which probabilities are dropped, and what
// its two directions share: panels of rows of q, tiles of keys.
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "backends/cpu/attention_rows.hpp"

namespace stiletto::detail::cpu {

inline constexpr std::int64_t tile_keys = 96;  // whole tiles of products and whole vectors
inline constexpr double log2_e = 1.4426950408889634074, ln_2 = 0.6931471805599453094;

/// Which probabilities are dropped: a function of their place alone.
struct DropoutDraws {
  std::uint64_t seed = 0, offset = 0;
  std::uint32_t threshold = 0;  // a smaller draw is dropped
  double kept = 1;              // what the others are multiplied by
};

struct AttentionProblem {
  /// `optional_operands`: the AttentionOperands that are there.
  AttentionProblem(const AttentionAttributes& attributes, const TensorView& q, const TensorView& k,
                   const TensorView& v, const TensorView& scale_operand,
                   std::span<const TensorView> optional_operands);

  std::int64_t queries_of(std::int64_t batch_entry) const;
  std::int64_t keys_of(std::int64_t batch_entry) const;
  KeyRange seen(std::int64_t batch_entry, std::int64_t query) const;
  bool packed() const { return q_rows.offsets != nullptr; }

  AttentionAttributes attributes;
  TensorView q, k, v;
  SequenceRows q_rows, k_rows, v_rows, out_rows;
  const TensorView *seq_len_q = nullptr, *seq_len_kv = nullptr, *bias = nullptr, *sink = nullptr;
  std::optional<DropoutDraws> dropout;
  double scale;
  std::int64_t batch, queries, keys, heads, heads_kv, group, width_qk, width_v;

 private:
  void set_extents();
  void set_dropout(const TensorView& seed, const TensorView& offset);
  static std::int64_t length(const TensorView* lengths, std::int64_t batch_entry, std::int64_t extent);
};

/// Buffers that a thread keeps; they only grow.
enum class Buffer : std::uint8_t {
  keys,
  values,
  d_keys,
  d_values,
  rows,
  panels,
  tile,
  tile_gradient,
  bias,
  draws,
  maxima
};
inline constexpr std::size_t buffer_count = 11;
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
    bool inside;  // of its sequence
  };
  void place(const AttentionProblem& problem, std::int64_t batch_entry, std::int64_t head_kv,
             std::int64_t first_row, std::int64_t row_count);
  /// What of the tile from `first_key` on some lane sees.
  KeyRange within(std::int64_t first_key) const {
    return {std::max(hull.first, first_key), std::min(hull.last, first_key + tile_keys)};
  }
  /// The lanes' rows of a view laid out as q, as (lanes, step_of(its width)); zeros of lanes that see
  /// nothing.
  void load(T* out, const TensorView& view, const SequenceRows& rows) const;
  /// The softmax before any key: of nothing, or of the sink alone.
  void begin_sums(const AttentionProblem& problem);
  /// k·q for rows of k from keys.first on and q as (width, lanes), with what the softmax still has to apply.
  ScoreTile<T> scores(const AttentionProblem& problem, const KeyRange& keys, const T* k, const T* q);
  /// What dropout multiplies the tile's probabilities by, as (keys, lanes).
  const T* draw(const AttentionProblem& problem, const KeyRange& keys) const;

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

/// Adds exponentials·v to out, (width_v, lanes): to nothing, or to the old sums, corrected, where it has
/// `begun`. What a lane does not see takes no part, though it is NaN or infinite.
template <class T>
void add_values(const SoftmaxTile<T>& tile, const T* v, std::int64_t width_v, T* out, bool begun);

/// Calls f with float or double: what the operands' dtype is computed in.
template <class F>
void with_computing_type(DType dtype, F f) {
  if (dtype == DType::float64)
    f(double{});
  else
    f(float{});
}

}  // namespace stiletto::detail::cpu
