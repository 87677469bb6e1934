// SPDX-License-Identifier: Apache-2.0
// Block-scaled matrices that a product could lay out otherwise than they are: their scales are tiled matrix
// by matrix, so neither a batch may become rows nor rows a batch.
#include <gtest/gtest.h>

#include "support/block_trial.hpp"
#include "support/cases.hpp"

namespace {

using namespace support;
using stiletto::matmul;
using stiletto::matmul_into;
using stiletto::quantize_into;

constexpr DType f32 = DType::float32, bf16 = DType::bfloat16;

/// Small whole numbers of both signs.
Tensor small_numbers(Random& random, const Extents& shape) {
  return tabulate(bf16, shape, [&](const Extents&) { return static_cast<Real>(random.below(9) - 4); });
}

/// One line per matrix, and one right operand for all of them.
TEST(BlockscaledPlacing, a_batch_of_single_rows) {
  Random random(331);
  for (const BlockKind& kind : block_kinds) {
    const Blocks a = exact_blocks(random, kind, {5, 1, 64}, -1), b = exact_blocks(random, kind, {64, 7}, -2);
    const auto f = [](const BlockscaledArray& x, const BlockscaledArray& y) { return matmul(x, y); };
    EXPECT_TRUE(agrees(stiletto::jit(f, to_blockscaled(a), to_blockscaled(b)), matmul(a.values(), b.values()),
                       {.exact = true}))
        << kind.name;
  }
}

TEST(BlockscaledPlacing, a_batch_of_single_columns) {
  Random random(332);
  for (const BlockKind& kind : block_kinds) {
    const Blocks a = exact_blocks(random, kind, {7, 64}, -1), b = exact_blocks(random, kind, {5, 64, 1}, -2);
    const auto f = [](const BlockscaledArray& x, const BlockscaledArray& y) { return matmul(x, y); };
    EXPECT_TRUE(agrees(stiletto::jit(f, to_blockscaled(a), to_blockscaled(b)), matmul(a.values(), b.values()),
                       {.exact = true}))
        << kind.name;
  }
}

/// A result whose matrices lie between one another: its rows are further apart than its matrices.
TEST(BlockscaledPlacing, a_result_of_interleaved_matrices) {
  Random random(333);
  for (const BlockKind& kind : block_kinds) {
    const Blocks a = exact_blocks(random, kind, {3, 33, 64}, -1), b = exact_blocks(random, kind, {64, 7}, -2);
    const Array memory = stiletto::zeros({33, 3, 7}, f32, device());
    const auto f = [](const Array& to, const BlockscaledArray& x, const BlockscaledArray& y) {
      matmul_into(to, x, y);
    };
    const Array to = stiletto::transpose(memory, {1, 0, 2});
    stiletto::jit(f, to, to_blockscaled(a), to_blockscaled(b));
    EXPECT_TRUE(agrees(to, matmul(a.values(), b.values()), {.exact = true})) << kind.name;
  }
}

TEST(BlockscaledPlacing, single_rows_are_quantized) {
  Random random(334);
  for (const BlockKind& kind : block_kinds) {
    const Tensor x = small_numbers(random, {5, 1, 64}), w = small_numbers(random, {64, 32});
    const BlockscaledArray to = BlockscaledArray::empty({5, 1, 32}, kind.format, -1, device());
    const auto f = [](const BlockscaledArray& d, const Array& l, const Array& r) {
      quantize_into(d, matmul(l, r));
    };
    stiletto::jit(f, to, to_array(x), to_array(w));
    EXPECT_TRUE(holds(to, quantized(matmul(x, w), kind, -1))) << kind.name;
  }
}

/// Products with one vector, whose both axes are rows of the product.
TEST(BlockscaledPlacing, products_with_a_vector_are_quantized) {
  Random random(335);
  for (const BlockKind& kind : block_kinds)
    for (const int axis : {-1, -2}) {
      const Extents shape = axis == -1 ? Extents{5, 32} : Extents{32, 5};
      const Tensor x = small_numbers(random, {shape[0], shape[1], 64}), w = small_numbers(random, {64});
      const BlockscaledArray to = BlockscaledArray::empty(dims(shape), kind.format, axis, device());
      const auto f = [](const BlockscaledArray& d, const Array& l, const Array& r) {
        quantize_into(d, matmul(l, r));
      };
      stiletto::jit(f, to, to_array(x), to_array(w));
      EXPECT_TRUE(holds(to, quantized(matmul(x, w), kind, axis))) << kind.name << axis;
    }
}

}  // namespace
