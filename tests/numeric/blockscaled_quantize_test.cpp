// SPDX-License-Identifier: Apache-2.0
// quantize and dequantize bit by bit against the reference for block scaling: formats, axes, batches, extents
// that fill no tile of scales, types and layouts of what is quantized, and memory that is written into.
#include <gtest/gtest.h>

#include "core/parallel.hpp"
#include "support/block_trial.hpp"
#include "support/cases.hpp"
#include "support/threads.hpp"

namespace {

using namespace support;
using stiletto::dequantize;
using stiletto::quantize;
using stiletto::quantize_into;

constexpr Mode modes[] = {Mode::eager, Mode::jit, Mode::compiled};

BlockscaledArray run_quantize(const Array& x, const BlockKind& kind, int axis, Mode mode) {
  const auto f = [&](const Array& a) { return quantize(a, kind.format, axis); };
  return mode == Mode::eager ? f(x) : mode == Mode::jit ? stiletto::jit(f, x) : stiletto::compile(f, x)(x);
}

Array run_dequantize(const BlockscaledArray& x, DType dtype, Mode mode) {
  const auto f = [&](const BlockscaledArray& a) { return dequantize(a, dtype); };
  return mode == Mode::eager ? f(x) : mode == Mode::jit ? stiletto::jit(f, x) : stiletto::compile(f, x)(x);
}

/// Of `lines` lines of `blocks` blocks, in a batch of these extents.
Extents matrices(Extents batch, std::int64_t lines, std::int64_t length, int axis) {
  batch.push_back(axis == -1 ? lines : length);
  batch.push_back(axis == -1 ? length : lines);
  return batch;
}

std::string describe(const BlockKind& kind, const Tensor& x, int axis, Layout layout, Mode mode) {
  return std::string("\n  in ") + kind.name + " of " + stiletto::to_string(x.dtype) +
         support::describe(x.shape) + " along " + std::to_string(axis) + ", " + to_string(layout) + ", " +
         to_string(mode);
}

/// What a block-scaled value is once it has been rounded to float32, and then to the type.
Tensor dequantized(const Blocks& blocks, DType dtype) {
  Tensor result = blocks.values();
  for (Real& value : result.values) value = round_float(round_float(value, DType::float32), dtype);
  result.dtype = dtype;
  return result;
}

class Quantize : public testing::TestWithParam<BlockKind> {};

TEST_P(Quantize, every_type_layout_and_extent) {
  const BlockKind& kind = GetParam();
  Failures failures;
  Random random(301);
  constexpr std::int64_t lines[] = {1, 3, 127, 128, 129, 130}, blocks[] = {1, 2, 3, 4, 5, 17};
  const Extents batches[] = {{}, {2}, {}, {2, 3}, {3, 1}};
  std::size_t number = 0;
  for (const int axis : {-1, -2})
    for (const DType dtype : float_dtypes)
      for (const Layout layout : layouts) {
        const std::size_t n = number++;
        const std::int64_t line_count = lines[(n + n / 6) % 6];
        // Large matrices only now and then.
        const std::int64_t length =
            kind.size() * blocks[line_count > 3 && n % 5 != 0 ? n % 2 : (n + n / 6) % 6];
        const Extents shape =
            matrices(batches[line_count > 3 && n % 7 != 0 ? 0 : n % 5], line_count, length, axis);
        const Operand x = placed(numbers_to_quantize(random, dtype, kind, shape, axis), layout);
        const Mode mode = modes[n % 3];
        const Blocks wanted = quantized(x.values, kind, axis);
        const BlockscaledArray made = run_quantize(x.array, kind, axis, mode);
        if (!failures.expect(holds(made, wanted) << describe(kind, x.values, axis, layout, mode))) return;
        const DType to = float_dtypes[n / 3 % 4];
        if (!failures.expect(agrees(run_dequantize(made, to, mode), dequantized(wanted, to), {.exact = true})
                             << describe(kind, x.values, axis, layout, mode)))
          return;
      }
}

/// Every code there is, under every scale.
TEST_P(Quantize, dequantize_of_every_code) {
  const BlockKind& kind = GetParam();
  const int codes = kind.format.element == DType::float4_e2m1 ? 16 : 256;
  Blocks all = blocks_of(kind, {256, 256}, -1);
  for (std::size_t i = 0; i < all.codes.size(); ++i)
    all.codes[i] = static_cast<std::uint8_t>(i % 256 % static_cast<std::size_t>(codes));
  for (std::size_t i = 0; i < all.scales.size(); ++i)
    all.scales[i] = static_cast<std::uint8_t>(i / static_cast<std::size_t>(all.blocks()));
  if (kind.format.scale == DType::float8_e4m3)
    for (auto& code : all.scales) code &= 0x7F;  // scales have no sign
  for (const DType dtype : float_dtypes)
    EXPECT_TRUE(agrees(dequantize(to_blockscaled(all), dtype), dequantized(all, dtype), {.exact = true}));
}

/// Elements of 8 bits in any order; those of 4 bits stay adjacent along the blocked axis.
TEST_P(Quantize, into_memory_of_other_layouts) {
  const BlockKind& kind = GetParam();
  Random random(302);
  const bool packed_pairs = kind.format.element == DType::float4_e2m1;
  for (const int axis : {-1, -2}) {
    const Extents shape = matrices({3}, 131, 2 * kind.size(), axis);
    const Tensor x = numbers_to_quantize(random, DType::float32, kind, shape, axis);
    const Blocks wanted = quantized(x, kind, axis);
    const std::int64_t rows = shape[1], columns = shape[2];
    std::vector<Extents> layouts_of_elements;
    if (!packed_pairs || axis == -1) {
      layouts_of_elements.push_back({rows * columns, columns, 1});
      layouts_of_elements.push_back({rows * (columns + 6), columns + 6, 1});
      layouts_of_elements.push_back({columns, 3 * columns, 1});
    }
    if (!packed_pairs || axis == -2) {
      layouts_of_elements.push_back({rows * columns, 1, rows});
      layouts_of_elements.push_back({(rows + 2) * columns, 1, rows + 2});
    }
    if (!packed_pairs) layouts_of_elements.push_back({1, 3 * columns, 3});
    for (const Extents& strides : layouts_of_elements) {
      const bool pairs =
          std::all_of(strides.begin(), strides.end(), [](auto s) { return s == 1 || s % 2 == 0; });
      if (packed_pairs && !pairs) continue;
      std::int64_t span = 1;
      for (std::size_t i = 0; i < 3; ++i) span += (shape[i] - 1) * strides[i];
      const Array storage = stiletto::zeros({span + span % 2}, DType::uint8, device());
      const Array memory = packed_pairs ? stiletto::empty({span + span % 2}, kind.format.element, device())
                                        : stiletto::empty({span}, kind.format.element, device());
      const BlockscaledArray to = BlockscaledArray::from_parts(
          stiletto::as_strided(memory, dims(shape), dims(strides)),
          stiletto::full({static_cast<std::int64_t>(wanted.tiled_scales().size())}, 77, DType::uint8,
                         device()),
          dims(shape), kind.format, axis);
      quantize_into(to, to_array(x));
      EXPECT_TRUE(holds(to, wanted)) << kind.name << " along " << axis << support::describe(strides);
      stiletto::jit([](const BlockscaledArray& d, const Array& a) { quantize_into(d, -a); }, to, to_array(x));
      Tensor negative = x;
      for (Real& value : negative.values) value = -value;
      EXPECT_TRUE(holds(to, quantized(negative, kind, axis))) << kind.name << " along " << axis;
      stiletto::assign(to, to_array(x));
      EXPECT_TRUE(agrees(dequantize(to), dequantized(wanted, DType::float32), {.exact = true}));
    }
  }
}

TEST_P(Quantize, nothing) {
  const BlockKind& kind = GetParam();
  const std::pair<Extents, int> cases[] = {
      {{0, 64}, -1},     {{64, 0}, -1},    {{0, 0}, -1},     {{0, 64}, -2},    {{64, 0}, -2},
      {{0, 64, 64}, -1}, {{2, 0, 64}, -2}, {{2, 64, 0}, -1}, {{2, 0, 64}, -1}, {{2, 64, 0}, -2}};
  for (const auto& [shape, axis] : cases) {
    const Array x = stiletto::zeros(dims(shape), DType::bfloat16, device());
    for (const Mode mode : modes) {
      const BlockscaledArray made = run_quantize(x, kind, axis, mode);
      EXPECT_TRUE(holds(made, blocks_of(kind, shape, axis)));
      EXPECT_EQ(extents(run_dequantize(made, DType::float16, mode).shape()), shape);
    }
  }
}

/// In graphs whose values are held in other types.
TEST_P(Quantize, intermediate_types) {
  const BlockKind& kind = GetParam();
  Random random(303);
  const Tensor x = numbers_to_quantize(random, DType::float32, kind, {5, 4 * kind.size()}, -1);
  for (const DType held : {DType::float32, DType::float64}) {
    stiletto::CompileOptions options;
    options.intermediate_dtype = held;
    const Blocks wanted = quantized(x, kind, -1);
    const auto f = [&](const Array& a) { return quantize(a, kind.format, -1); };
    EXPECT_TRUE(holds(stiletto::jit(options, f, to_array(x)), wanted)) << held;
    const auto back = [&](const Array& a) {
      return dequantize(quantize(a, kind.format, -1), DType::float16);
    };
    EXPECT_TRUE(agrees(stiletto::jit(options, back, to_array(x)), dequantized(wanted, DType::float16),
                       {.exact = true}))
        << held;
  }
}

/// The same on one thread, and from many at once.
TEST_P(Quantize, threads_give_the_same_bits) {
  const BlockKind& kind = GetParam();
  Random random(304);
  for (const int axis : {-1, -2}) {
    const Tensor x = numbers_to_quantize(random, DType::bfloat16, kind, {2, 160, 160}, axis);
    const Array a = to_array(x);
    const Blocks wanted = quantized(x, kind, axis);
    stiletto::detail::parallel_for(2, [&](std::size_t task) {
      if (task == 0) {
        EXPECT_TRUE(holds(run_quantize(a, kind, axis, Mode::eager), wanted));
      }
    });
    const auto f = stiletto::compile([&](const Array& v) { return quantize(v, kind.format, axis); }, a);
    together([&](int) { EXPECT_TRUE(holds(f(a), wanted)); });
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, Quantize, testing::ValuesIn(block_kinds),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
