// SPDX-License-Identifier: Apache-2.0
// The products that oneDNN does not take: float64, int32, int64 and the other pairs of bytes. Blocks of a and
// b are packed into panels, a tile of c is held in registers; the inner loop is compiled for three
// instruction sets. Each element of c adds up its terms in order of k, so the result depends on neither
// blocks nor threads.
#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "backends/cpu/matmul_engine.hpp"
#include "core/dtype_info.hpp"
#include "core/parallel.hpp"
#include "core/text.hpp"

namespace stiletto::detail::cpu {
namespace {

constexpr std::int64_t depth_block = 256;  // k of one pair of panels
constexpr std::int64_t area_block = 192;   // rows and columns of one task, at most, rounded up to whole tiles
constexpr std::int64_t serial_work = 1 << 17;  // multiplications that other threads would come too late for

constexpr std::int64_t round_up(std::int64_t value, std::int64_t step) {
  return (value + step - 1) / step * step;
}
constexpr std::int64_t blocks_of(std::int64_t extent, std::int64_t block) {
  return (extent + block - 1) / block;
}

// ---- the tile: rows × (vectors of T), a·b for one panel pair added to sums

/// Expanded by hand, because the sums stay in registers only when every index is a constant, at any
/// optimisation level.
template <class T, int bytes, int vectors, int... sum, int... vector>
[[gnu::always_inline]] inline void add_products(const T* a, const T* b, std::int64_t k, T* sums,
                                                std::int64_t row_step, std::integer_sequence<int, sum...>,
                                                std::integer_sequence<int, vector...>) {
  using Lanes __attribute__((vector_size(bytes))) = T;
  using Unaligned __attribute__((aligned(alignof(T)), may_alias)) = Lanes;
  constexpr int lanes = bytes / static_cast<int>(sizeof(T));
  constexpr int rows = sizeof...(sum) / vectors;
  Lanes c[] = {
      *reinterpret_cast<const Unaligned*>(sums + sum / vectors * row_step + sum % vectors * lanes)...};
  for (; k > 0; --k, a += rows, b += lanes * vectors) {
    const Lanes row[] = {*reinterpret_cast<const Unaligned*>(b + vector * lanes)...};
    ((c[sum] += a[sum / vectors] * row[sum % vectors]), ...);
  }
  ((*reinterpret_cast<Unaligned*>(sums + sum / vectors * row_step + sum % vectors * lanes) = c[sum]), ...);
}

template <class T, int bytes, int rows, int vectors>
[[gnu::always_inline]] inline void add_tile(const T* a, const T* b, std::int64_t k, T* sums,
                                            std::int64_t row_step) {
  add_products<T, bytes, vectors>(a, b, k, sums, row_step, std::make_integer_sequence<int, rows * vectors>(),
                                  std::make_integer_sequence<int, vectors>());
}

template <class T>
using TileFunction = void (*)(const T* a, const T* b, std::int64_t k, T* sums, std::int64_t row_step);

template <class T>
struct Tile {
  TileFunction<T> add;
  std::int64_t rows, columns;
};

template <class T>
void tile_of_16_bytes(const T* a, const T* b, std::int64_t k, T* sums, std::int64_t row_step) {
  add_tile<T, 16, 4, 2>(a, b, k, sums, row_step);
}
#if defined(__x86_64__)
template <class T>
[[gnu::target("avx2,fma")]] void tile_of_32_bytes(const T* a, const T* b, std::int64_t k, T* sums,
                                                  std::int64_t row_step) {
  add_tile<T, 32, 4, 3>(a, b, k, sums, row_step);
}
template <class T>
[[gnu::target("avx512f,avx512dq")]] void tile_of_64_bytes(const T* a, const T* b, std::int64_t k, T* sums,
                                                          std::int64_t row_step) {
  add_tile<T, 64, 8, 3>(a, b, k, sums, row_step);
}
#endif

template <class T>
Tile<T> choose_tile() {
  constexpr std::int64_t size = sizeof(T);
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq"))
    return {tile_of_64_bytes<T>, 8, 3 * 64 / size};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    return {tile_of_32_bytes<T>, 4, 3 * 32 / size};
#endif
  return {tile_of_16_bytes<T>, 4, 2 * 16 / size};
}

// ---- packing

struct Side {  // one operand, seen along the axis it shares with c and along k
  std::int64_t width_stride = 0, depth_stride = 0;
};

/// Sign-extended: the unsigned T wraps as the signed type would.
template <class T, class In>
T widened(In value) {
  if constexpr (std::is_integral_v<In>)
    return static_cast<T>(static_cast<std::int64_t>(value));
  else
    return value;
}

/// Panels of `width` elements for each of `depth` steps along k; the last one is filled up with zeros, which
/// only reach sums that nobody reads. Memory is read along its smaller stride.
template <class T, class In>
void pack(T* out, const void* in, std::int64_t extent, std::int64_t width, std::int64_t depth,
          const Side& side) {
  const In* const from = static_cast<const In*>(in);
  const std::int64_t panel = width * depth;
  if (extent % width != 0) std::fill_n(out + extent / width * panel, panel, T{});
  if (std::abs(side.width_stride) <= std::abs(side.depth_stride)) {
    for (std::int64_t p = 0; p < depth; ++p)
      for (std::int64_t first = 0; first < extent; first += width) {
        T* const to = out + first * depth + p * width;
        const In* const row = from + p * side.depth_stride + first * side.width_stride;
        const std::int64_t count = std::min(width, extent - first);
        for (std::int64_t w = 0; w < count; ++w) to[w] = widened<T>(row[w * side.width_stride]);
      }
  } else {
    for (std::int64_t w = 0; w < extent; ++w) {
      T* const to = out + w / width * panel + w % width;
      const In* const row = from + w * side.width_stride;
      for (std::int64_t p = 0; p < depth; ++p) to[p * width] = widened<T>(row[p * side.depth_stride]);
    }
  }
}

template <class T>
using PackFunction = void (*)(T* out, const void* in, std::int64_t extent, std::int64_t width,
                              std::int64_t depth, const Side& side);

template <class T>
PackFunction<T> pack_function(DType from) {
  if constexpr (std::is_same_v<T, double>) return pack<T, double>;
  if constexpr (std::is_same_v<T, std::uint64_t>) return pack<T, std::int64_t>;
  if (from == DType::int8) return pack<T, std::int8_t>;
  if (from == DType::uint8) return pack<T, std::uint8_t>;
  return pack<T, std::int32_t>;
}

/// A whole number modulo 2⁶⁴, which is all that a factor of wrapping integers can mean.
std::uint64_t modulo(double alpha) {
  const double rest = std::fmod(alpha, 0x1p64);
  return rest < 0 ? ~static_cast<std::uint64_t>(-rest) + 1 : static_cast<std::uint64_t>(rest);
}

// ---- the product

/// T is double, or the unsigned type whose arithmetic wraps as the integers' should.
template <class T>
class PackedMatmul final : public Matmul {
 public:
  explicit PackedMatmul(const SimpleProblem& simple);
  std::size_t workspace() const override { return slots_ * slot_size() * sizeof(T); }
  void execute(const void* a, const void* b, void* c, std::span<const void* const> operands,
               std::span<const float> numbers, void* workspace) const override;
  std::string describe() const override;

 private:
  struct Block {
    std::int64_t row, column, rows, columns;
  };
  std::size_t slot_size() const {  // of T; keeps slots 64 bytes apart
    const std::int64_t elements = rows_ * columns_ + (rows_ + columns_) * depth_;
    return static_cast<std::size_t>(round_up(elements, 64 / static_cast<std::int64_t>(sizeof(T))));
  }
  std::int64_t tasks() const { return batches_ * blocks_of(p_.m, rows_) * blocks_of(p_.n, columns_); }
  std::array<std::int64_t, 3> offsets(std::int64_t batch) const;
  void run(std::int64_t task, const std::byte* a, const std::byte* b, std::byte* c, T* scratch) const;
  void multiply(const std::byte* a, const std::byte* b, const Block& block, T* sums, T* panels) const;
  void write(const T* sums, T* c, const Block& block) const;

  MatmulProblem p_;
  bool swapped_;
  Tile<T> tile_ = choose_tile<T>();
  PackFunction<T> pack_a_, pack_b_;
  Side a_, b_, c_;
  T alpha_;
  std::int64_t batches_ = 1, rows_, columns_, depth_;
  std::size_t slots_ = 1;
};

Side side(const MatrixLayout& layout, bool rows_first) {
  const std::int64_t row = layout.strides[layout.strides.size() - 2], column = layout.strides.back();
  return rows_first ? Side{row, column} : Side{column, row};
}

template <class T>
PackedMatmul<T>::PackedMatmul(const SimpleProblem& simple)
    : p_(simple.problem),
      swapped_(simple.swapped),
      pack_a_(pack_function<T>(p_.a.dtype)),
      pack_b_(pack_function<T>(p_.b.dtype)),
      a_(side(p_.a, true)),
      b_(side(p_.b, false)),
      c_(side(p_.c, true)) {
  if constexpr (std::is_same_v<T, double>)
    alpha_ = p_.alpha;
  else
    alpha_ = static_cast<T>(modulo(p_.alpha));
  for (const std::int64_t extent : p_.batch) batches_ *= extent;
  const auto even_block = [](std::int64_t extent, std::int64_t tile) {
    return round_up(blocks_of(extent, blocks_of(extent, area_block)), tile);
  };
  rows_ = even_block(p_.m, tile_.rows);
  columns_ = even_block(p_.n, tile_.columns);
  depth_ = std::min(p_.k, depth_block);
  if (tasks() > 1 &&
      static_cast<double>(batches_) * static_cast<double>(p_.m * p_.n) * static_cast<double>(p_.k) >
          serial_work)
    slots_ = static_cast<std::size_t>(std::min(tasks(), static_cast<std::int64_t>(thread_count())));
}

/// In elements, of a, b and c.
template <class T>
std::array<std::int64_t, 3> PackedMatmul<T>::offsets(std::int64_t batch) const {
  std::array<std::int64_t, 3> result{};
  for (std::size_t axis = p_.batch.size(); axis-- > 0;) {
    const std::int64_t index = batch % p_.batch[axis];
    batch /= p_.batch[axis];
    result[0] += index * p_.a.strides[axis];
    result[1] += index * p_.b.strides[axis];
    result[2] += index * p_.c.strides[axis];
  }
  return result;
}

template <class T>
void PackedMatmul<T>::execute(const void* a, const void* b, void* c,
                              std::span<const void* const> /*operands*/, std::span<const float> /*numbers*/,
                              void* workspace) const {
  if (swapped_) std::swap(a, b);
  const std::int64_t count = tasks();
  std::atomic<std::int64_t> next{0};
  parallel_for(slots_, [&](std::size_t slot) {
    T* const scratch = static_cast<T*>(workspace) + slot * slot_size();
    for (std::int64_t task = next++; task < count; task = next++)
      run(task, static_cast<const std::byte*>(a), static_cast<const std::byte*>(b),
          static_cast<std::byte*>(c), scratch);
  });
}

template <class T>
void PackedMatmul<T>::run(std::int64_t task, const std::byte* a, const std::byte* b, std::byte* c,
                          T* scratch) const {
  const std::int64_t column_blocks = blocks_of(p_.n, columns_), row_blocks = blocks_of(p_.m, rows_);
  Block block{};
  block.column = task % column_blocks * columns_;
  block.row = task / column_blocks % row_blocks * rows_;
  block.rows = std::min(rows_, p_.m - block.row);
  block.columns = std::min(columns_, p_.n - block.column);
  const auto [a_offset, b_offset, c_offset] = offsets(task / column_blocks / row_blocks);
  T* const sums = scratch;
  multiply(a + byte_offset(p_.a.dtype, a_offset + block.row * a_.width_stride),
           b + byte_offset(p_.b.dtype, b_offset + block.column * b_.width_stride), block, sums,
           scratch + rows_ * columns_);
  write(sums,
        reinterpret_cast<T*>(c) + c_offset + block.row * c_.width_stride + block.column * c_.depth_stride,
        block);
}

template <class T>
void PackedMatmul<T>::multiply(const std::byte* a, const std::byte* b, const Block& block, T* sums,
                               T* panels) const {
  std::fill_n(sums, rows_ * columns_, T{});
  T* const a_panels = panels;
  T* const b_panels = panels + rows_ * depth_;
  for (std::int64_t k = 0; k < p_.k; k += depth_) {
    const std::int64_t depth = std::min(depth_, p_.k - k);
    pack_a_(a_panels, a + byte_offset(p_.a.dtype, k * a_.depth_stride), block.rows, tile_.rows, depth, a_);
    pack_b_(b_panels, b + byte_offset(p_.b.dtype, k * b_.depth_stride), block.columns, tile_.columns, depth,
            b_);
    for (std::int64_t j = 0; j < block.columns; j += tile_.columns)
      for (std::int64_t i = 0; i < block.rows; i += tile_.rows)
        tile_.add(a_panels + i * depth, b_panels + j * depth, depth, sums + i * columns_ + j, columns_);
  }
}

template <class T>
void PackedMatmul<T>::write(const T* sums, T* c, const Block& block) const {
  for (std::int64_t i = 0; i < block.rows; ++i, sums += columns_) {
    T* const row = c + i * c_.width_stride;
    if (c_.depth_stride == 1 && alpha_ == T{1})
      std::memcpy(row, sums, static_cast<std::size_t>(block.columns) * sizeof(T));
    else
      for (std::int64_t j = 0; j < block.columns; ++j) row[j * c_.depth_stride] = alpha_ * sums[j];
  }
}

template <class T>
std::string PackedMatmul<T>::describe() const {
  return text("matmul ", p_.c.dtype, ", tiles of ", tile_.rows, "×", tile_.columns);
}

}  // namespace

std::unique_ptr<const Matmul> make_packed_matmul(const SimpleProblem& simple) {
  if (!simple.problem.post.empty() || simple.problem.accumulate) return nullptr;
  switch (simple.problem.c.dtype) {
    case DType::float64:
      return std::make_unique<PackedMatmul<double>>(simple);
    case DType::int32:
      return std::make_unique<PackedMatmul<std::uint32_t>>(simple);
    case DType::int64:
      return std::make_unique<PackedMatmul<std::uint64_t>>(simple);
    default:
      return nullptr;
  }
}

}  // namespace stiletto::detail::cpu
