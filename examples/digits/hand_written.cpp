// SPDX-License-Identifier: Apache-2.0
// Weights are packed once into blocks of 16 columns; a block is multiplied with four pictures at a time,
// whose sums stay in registers. On x86-64 the loop is compiled twice and the better one picked at run time,
// so that a build for the oldest processor does not hold it back.
#include "hand_written.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

namespace digits {
namespace {

constexpr std::int64_t kColumns = 16;  // of a block
constexpr std::int64_t kTogether = 4;  // pictures

struct Layer {
  std::int64_t inputs, outputs;  // outputs: a multiple of kColumns
  const float *w, *b;
  float lowest;  // 0 for relu, -infinity for none
};

namespace any_processor {
#define DIGITS_TARGET
#define DIGITS_VECTOR_BYTES 16
#include "hand_written_loop.inc"
#undef DIGITS_TARGET
#undef DIGITS_VECTOR_BYTES
}  // namespace any_processor

#if defined(__x86_64__)
namespace avx2 {
#define DIGITS_TARGET [[gnu::target("avx2,fma")]]
#define DIGITS_VECTOR_BYTES 32
#include "hand_written_loop.inc"
#undef DIGITS_TARGET
#undef DIGITS_VECTOR_BYTES
}  // namespace avx2
const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
const auto all_pictures = has_avx2 ? avx2::all_pictures : any_processor::all_pictures;
#else
const auto all_pictures = any_processor::all_pictures;
#endif

std::int64_t padded(std::int64_t extent) { return (extent + kColumns - 1) / kColumns * kColumns; }

// A row-major matrix as blocks of kColumns columns: all rows of the first block, then all of the second.
// Zeros fill the last block, and rows up to padded_rows.
std::vector<float> packed(const std::vector<float>& matrix, std::int64_t rows, std::int64_t padded_rows,
                          std::int64_t columns) {
  std::vector<float> blocks(padded_rows * padded(columns));
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t column = 0; column < columns; ++column)
      blocks[(column / kColumns * padded_rows + row) * kColumns + column % kColumns] =
          matrix[row * columns + column];
  return blocks;
}

}  // namespace

HandWritten::HandWritten(const Weights& weights)
    : inputs_(weights.inputs),
      hidden_(padded(weights.hidden)),
      outputs_(weights.outputs),
      w1_(packed(weights.w1, weights.inputs, weights.inputs, weights.hidden)),
      b1_(weights.b1),
      w2_(packed(weights.w2, weights.hidden, hidden_, weights.outputs)),
      b2_(weights.b2) {
  b1_.resize(hidden_);
  b2_.resize(padded(outputs_));
}

void HandWritten::operator()(const float* x, std::int64_t count, float* logits) const {
  const Layer first{inputs_, hidden_, w1_.data(), b1_.data(), 0.0f};
  const Layer second{hidden_, padded(outputs_), w2_.data(), b2_.data(),
                     -std::numeric_limits<float>::infinity()};
  std::vector<float> scratch(kTogether * (first.outputs + second.outputs));
  all_pictures(first, second, x, count, scratch.data(), outputs_, logits);
}

}  // namespace digits
