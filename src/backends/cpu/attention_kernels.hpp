// SPDX-License-Identifier: Apache-2.0
// The inner loops of attention. Rows of q lie across vectors: scores are (keys, lanes) and outputs are
// (width, lanes), each lane a row. So maxima and sums over keys need no step across a vector, k and v are
// read element by element as they lie, and the exponentials are the right operand of the second product as
// they are. attention_kernels.inl is compiled once per instruction set.
#pragma once
#include <cstdint>

namespace stiletto::detail::cpu {

/// Lanes of a full panel: four of the widest vectors. A multiple of every vector's length.
template <class T>
inline constexpr std::int64_t panel_lanes = 256 / static_cast<std::int64_t>(sizeof(T));
/// Steps and lanes of all buffers are multiples of this many elements.
template <class T>
inline constexpr std::int64_t vector_lanes = 64 / static_cast<std::int64_t>(sizeof(T));

/// What a product is added to: nothing, the old values, or these times a factor per lane.
enum class Start : std::uint8_t { zero, old, scaled };
/// c = start + a·b. a is (rows, depth), b (depth, lanes), c (rows, lanes); the steps are those of the axis
/// that is not contiguous.
template <class T>
struct Product {
  const T* a;
  std::int64_t a_step;
  const T* b;
  std::int64_t b_step;
  T* c;
  std::int64_t c_step;
  std::int64_t rows, lanes, depth;
  Start start = Start::zero;
  const T* factor = nullptr;
};

/// out(column, row) = in(row, column)·factor[column]; rows and columns are multiples of vector_lanes.
template <class T>
struct Transpose {
  const T* in;
  std::int64_t in_step;
  T* out;
  std::int64_t out_step;
  std::int64_t rows, columns;
  const T* factor;
};

/// Scores of a tile, (keys, lanes), in units of log 2. A lane sees key j if first <= j < last; `first` is
/// null where all see all. The bias, in natural units, is null or lies as the scores do.
template <class T>
struct ScoreTile {
  T* scores;
  std::int64_t keys, lanes;
  const T *first, *last;
  const T* bias;
};
/// Scores become exponentials relative to the new maximum, 0 where nothing is seen; `correction` is what the
/// earlier sums were multiplied by.
template <class T>
struct SoftmaxTile : ScoreTile<T> {
  T *maximum, *sum, *correction;
};
/// Scores become probabilities p, d_scores (v·d_out on entry) become p·(d_scores − delta): 0 where nothing is
/// seen.
template <class T>
struct GradientTile : ScoreTile<T> {
  T* d_scores;
  const T *log_sum, *delta;
};

/// What dropout multiplies the probabilities of a tile by, as (keys, lanes): 0 or `kept`. The draw of a key
/// is word key mod 4 of Philox4x32-10 (Salmon et al., SC '11) at the lane's counter plus key − key mod 4, and
/// the seed is its key. first_key is a multiple of 4, and `factors` has room for a multiple of 4 keys.
inline constexpr std::int64_t draws_per_counter = 4;
template <class T>
struct DrawTile {
  T* factors;
  std::int64_t first_key, keys, lanes;
  const std::uint64_t* counters;
  std::uint64_t seed;
  std::uint32_t threshold;  // a smaller draw gives 0
  T kept;
};

template <class T>
struct AttentionKernels {
  void (*multiply)(const Product<T>&);             // a(i, p) = a[i·a_step + p]
  void (*multiply_transposed)(const Product<T>&);  // a(i, p) = a[p·a_step + i]
  void (*transpose)(const Transpose<T>&);
  void (*softmax)(const SoftmaxTile<T>&);
  void (*gradient)(const GradientTile<T>&);
  bool (*finite)(const T* values, std::int64_t count);  // a multiple of vector_lanes
  void (*draw)(const DrawTile<T>&);
  void (*scale)(T* values, const T* factors, std::int64_t count);  // a multiple of vector_lanes
};

/// For the instruction set of kernels().
template <class T>
const AttentionKernels<T>& attention_kernels();

}  // namespace stiletto::detail::cpu
