// SPDX-License-Identifier: Apache-2.0
// Rows of attention's arrays: where they lie, one batch entry behind the other, among packed sequences or in
// pages, and their way to and from buffers of the computing type.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "backends/cpu/attention_kernels.hpp"
#include "backends/cpu/structured.hpp"

namespace stiletto::detail::cpu {

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

/// Elements from the first to (a, b, c, 0) or (a, b, c); an axis of extent 1 is broadcast.
std::int64_t element_offset(const TensorView& view, std::int64_t a, std::int64_t b, std::int64_t c);
/// An element of an int32 or int64 array, and of a float32 one; or a number.
std::int64_t integer_at(const TensorView& view, std::int64_t element);
float float_at(const TensorView& view, std::int64_t element);

/// Where the row of a head lies in q, k or v, and in what is laid out as one of them.
struct SequenceRows {
  std::int64_t offset(const TensorView& view, std::int64_t batch_entry, std::int64_t place,
                      std::int64_t head) const;
  /// Rows from a packed sequence's first on; the offsets are the caller's, and may be anything.
  std::int64_t rows_from(std::int64_t batch_entry) const;

  const TensorView *offsets = nullptr, *table = nullptr;  // of packed sequences, of pages
  std::int64_t rows = 0, row_elements = 1;                // of the packed array; those of all heads
};

/// `count` elements along the last axis of a view, from an element offset on; zeros up to a whole vector.
template <class T>
void load_row(T* out, const TensorView& view, std::int64_t offset, std::int64_t count);
template <class T>
void store_row(const TensorView& view, std::int64_t offset, const T* in, std::int64_t count);

/// Rows [keys.first, keys.last) of k or v.
template <class T>
void load_keys(T* out, const TensorView& view, const SequenceRows& rows, std::int64_t batch_entry,
               std::int64_t head_kv, const KeyRange& keys);
/// Asks for rows that will be loaded: those of one head lie far apart, which the processor does not foresee.
void prefetch_keys(const TensorView& view, const SequenceRows& rows, std::int64_t batch_entry,
                   std::int64_t head_kv, const KeyRange& keys);

/// Zeros everywhere in a packed result, for the rows that no sequence has. Nothing where nobody wants it.
void clear_rows(const TensorView& view);

}  // namespace stiletto::detail::cpu
