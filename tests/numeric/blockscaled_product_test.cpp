// SPDX-License-Identifier: Apache-2.0
// Products of block-scaled operands. Most are of numbers whose sums float32 holds exactly, so that results,
// and what they are quantized to, are compared bit by bit; those of others keep to a bound that is derived
// here.
#include <gtest/gtest.h>

#include "core/parallel.hpp"
#include "support/block_trial.hpp"
#include "support/cases.hpp"
#include "support/threads.hpp"

namespace {

using namespace support;
using stiletto::matmul;
using stiletto::matmul_into;
using stiletto::quantize;
using stiletto::quantize_into;

constexpr DType f32 = DType::float32, bf16 = DType::bfloat16;

template <class F, class... Arguments>
auto call(Mode mode, const F& f, const Arguments&... arguments) {
  if (mode == Mode::eager) return f(arguments...);
  if (mode == Mode::jit) return stiletto::jit(f, arguments...);
  return stiletto::compile(f, arguments...)(arguments...);
}

/// Small whole numbers, which every type holds.
Tensor whole_numbers(Random& random, DType dtype, const Extents& shape) {
  return tabulate(dtype, shape, [&](const Extents&) { return static_cast<Real>(random.below(9) - 4); });
}

struct ProductShape {
  Extents a, b;  // but for the last two axes: rows, inner, columns
  std::int64_t rows, inner, columns;

  Extents left() const { return with(a, rows, inner); }
  Extents right() const { return with(b, inner, columns); }

 private:
  static Extents with(Extents batch, std::int64_t m, std::int64_t n) {
    batch.insert(batch.end(), {m, n});
    return batch;
  }
};
// Extents that both block sizes divide where a block may lie along them, and odd ones.
const ProductShape product_shapes[] = {
    {{}, {}, 96, 64, 32},      {{}, {}, 1, 32, 1},      {{}, {}, 3, 64, 130},  {{}, {}, 129, 160, 3},
    {{3}, {3}, 5, 32, 127},    {{3}, {}, 32, 96, 32},   {{}, {2}, 32, 32, 64}, {{2, 3}, {2, 3}, 7, 64, 9},
    {{2, 1}, {3}, 33, 32, 31}, {{2, 3}, {}, 17, 96, 1}, {{}, {}, 1, 544, 64}};

bool fits(const Extents& shape, int axis) {
  return shape[shape.size() - static_cast<std::size_t>(-axis)] % 32 == 0;
}

TEST(BlockscaledProducts, every_pair_of_formats_and_axes) {
  Failures failures;
  Random random(311);
  std::size_t number = 0;
  for (const BlockKind& left : block_kinds)
    for (const BlockKind& right : block_kinds)
      for (const ProductShape& s : product_shapes)
        for (const auto& [a_axis, b_axis] : {std::pair{-1, -2}, std::pair{-2, -2}, std::pair{-1, -1}}) {
          if (!fits(s.left(), a_axis) || !fits(s.right(), b_axis)) continue;
          const Blocks a = exact_blocks(random, left, s.left(), a_axis),
                       b = exact_blocks(random, right, s.right(), b_axis);
          const Mode mode = static_cast<Mode>(number++ % 3);
          const Array made = call(
              mode, [](const BlockscaledArray& x, const BlockscaledArray& y) { return matmul(x, y); },
              to_blockscaled(a), to_blockscaled(b));
          if (!failures.expect(agrees(made, matmul(a.values(), b.values()), {.exact = true})
                               << left.name << describe(a.shape) << a_axis << " by " << right.name
                               << describe(b.shape) << b_axis << ", " << to_string(mode)))
            return;
        }
}

TEST(BlockscaledProducts, beside_plain_operands) {
  Random random(312);
  std::size_t number = 0;
  for (const BlockKind& kind : block_kinds)
    for (const DType dtype :
         {DType::float16, bf16, f32, DType::float64, DType::float8_e4m3, DType::float8_e5m2}) {
      const ProductShape& s = product_shapes[number % std::size(product_shapes)];
      const Mode mode = static_cast<Mode>(number++ % 3);
      const Blocks a = exact_blocks(random, kind, s.left(), -1),
                   b = exact_blocks(random, kind, s.right(), -2);
      const Tensor x = whole_numbers(random, dtype, s.left()), y = whole_numbers(random, dtype, s.right());
      const Array left = call(
          mode, [](const BlockscaledArray& l, const Array& r) { return matmul(l, r); }, to_blockscaled(a),
          to_array(y));
      EXPECT_TRUE(agrees(left, matmul(a.values(), y), {.exact = true})) << kind.name << " by " << dtype;
      const Array right = call(
          mode, [](const Array& l, const BlockscaledArray& r) { return matmul(l, r); }, to_array(x),
          to_blockscaled(b));
      EXPECT_TRUE(agrees(right, matmul(x, b.values()), {.exact = true})) << dtype << " by " << kind.name;
    }
  const Blocks a = exact_blocks(random, block_kinds[3], {3, 33, 64}, -1);
  const Tensor vector = whole_numbers(random, bf16, {64});
  EXPECT_TRUE(
      agrees(matmul(to_blockscaled(a), to_array(vector)), matmul(a.values(), vector), {.exact = true}));
}

TEST(BlockscaledProducts, alpha_and_beta) {
  Random random(313);
  const ProductShape s{{3}, {}, 5, 96, 7};
  for (const BlockKind& kind : block_kinds) {
    const Blocks a = exact_blocks(random, kind, s.left(), -1), b = exact_blocks(random, kind, s.right(), -2);
    const Tensor x = whole_numbers(random, f32, s.left()), y = whole_numbers(random, f32, s.right()),
                 c = whole_numbers(random, f32, {3, 5, 7});
    const auto expect = [&](const Array& made, const Tensor& product, Real alpha, Real beta) {
      Tensor wanted = product;
      for (std::size_t i = 0; i < wanted.size(); ++i)
        wanted.values[i] = alpha * product.values[i] + beta * (beta == 0 ? 0 : c.values[i]);
      EXPECT_TRUE(agrees(made, wanted, {.exact = true})) << kind.name;
    };
    Array to = to_array(c);
    matmul_into(to, to_blockscaled(a), to_blockscaled(b), 2, 0.5);
    expect(to, matmul(a.values(), b.values()), 2, 0.5L);
    to = to_array(tabulate(f32, {3, 5, 7}, [](const Extents&) { return not_a_number; }));
    matmul_into(to, to_blockscaled(a), to_blockscaled(b));
    expect(to, matmul(a.values(), b.values()), 1, 0);
    to = to_array(c);
    stiletto::jit(
        [](const Array& d, const BlockscaledArray& l, const Array& r) { matmul_into(d, l, r, -1, 1); }, to,
        to_blockscaled(a), to_array(y));
    expect(to, matmul(a.values(), y), -1, 1);
    to = to_array(c);
    matmul_into(to, to_array(x), to_blockscaled(b), 4, -2);
    expect(to, matmul(x, b.values()), 4, -2);
  }
}

/// What cuDNN computes behind a product in the same graph.
TEST(BlockscaledProducts, what_follows_them) {
  Random random(320);
  const auto each = [](const Tensor& x, DType dtype, const auto& f) {
    return tabulate(dtype, x.shape, [&](const Extents& i) { return f(x.at(i), i.back()); });
  };
  for (const BlockKind& kind : block_kinds) {
    const Blocks a = exact_blocks(random, kind, {33, 64}, -1), b = exact_blocks(random, kind, {64, 40}, -2),
                 c = exact_blocks(random, kind, {64, 40}, -2);
    const BlockscaledArray x = to_blockscaled(a), y = to_blockscaled(b), z = to_blockscaled(c);
    const Tensor first = matmul(a.values(), b.values()), second = matmul(a.values(), c.values()),
                 bias = random_tensor(random, bf16, {40});
    const Array with_bias = stiletto::jit(
        [](const BlockscaledArray& l, const BlockscaledArray& r, const Array& more) {
          return stiletto::cast(stiletto::gelu(matmul(l, r) * 0.0625F + more), bf16);
        },
        x, y, to_array(bias));
    EXPECT_TRUE(agrees(with_bias, each(first, bf16,
                                       [&](Real value, std::int64_t column) {
                                         const Real t =
                                             value / 16 + bias.values[static_cast<std::size_t>(column)];
                                         return t / 2 * std::erfc(-t / std::sqrt(Real{2}));
                                       })))
        << kind.name;
    const Array gated = stiletto::jit(
        [](const BlockscaledArray& l, const BlockscaledArray& r, const BlockscaledArray& s) {
          return stiletto::cast(stiletto::silu(matmul(l, r)) * matmul(l, s), bf16);
        },
        x, y, z);
    Tensor wanted =
        each(first, bf16, [](Real value, std::int64_t) { return value / (1 + std::exp(-value)); });
    for (std::size_t i = 0; i < wanted.size(); ++i) wanted.values[i] *= second.values[i];
    EXPECT_TRUE(agrees(gated, wanted)) << kind.name;
    const auto [sums, turned] =
        std::pair(stiletto::jit([](const BlockscaledArray& l,
                                   const BlockscaledArray& r) { return stiletto::sum(matmul(l, r), 0); },
                                x, y),
                  stiletto::jit([](const BlockscaledArray& l,
                                   const BlockscaledArray& r) { return stiletto::transpose(matmul(l, r)); },
                                x, y));
    Tensor total(f32, {40});
    for (std::size_t i = 0; i < first.size(); ++i) total.values[i % 40] += first.values[i];
    EXPECT_TRUE(agrees(sums, total, {.exact = true})) << kind.name;
    EXPECT_TRUE(agrees(turned,
                       tabulate(f32, {40, 33}, [&](const Extents& i) { return first.at({i[1], i[0]}); }),
                       {.exact = true}))
        << kind.name;
  }
}

/// Narrow in, narrow out: the product is exact, so its codes are the reference's.
TEST(BlockscaledProducts, into_blocks) {
  Failures failures;
  Random random(314);
  std::size_t number = 0;
  for (const BlockKind& kind : block_kinds)
    for (const int axis : {-1, -2})
      for (const ProductShape& s : {ProductShape{{}, {}, 32, 64, 96}, ProductShape{{3}, {}, 64, 32, 160},
                                    ProductShape{{2, 3}, {2, 3}, 32, 96, 32}}) {
        const BlockKind& operands = block_kinds[number % 4];
        const Mode mode = static_cast<Mode>(number++ % 3);
        const Blocks a = exact_blocks(random, operands, s.left(), -1),
                     b = exact_blocks(random, operands, s.right(), -2);
        const Tensor x = whole_numbers(random, bf16, s.left()), y = whole_numbers(random, bf16, s.right());
        const Tensor product = matmul(a.values(), b.values());
        const Extents shape = product.shape;
        const auto to = [&] { return BlockscaledArray::empty(dims(shape), kind.format, axis, device()); };
        const auto expect = [&](const BlockscaledArray& made, const Tensor& wanted, const char* what) {
          return failures.expect(holds(made, quantized(wanted, kind, axis))
                                 << what << ' ' << kind.name << " of " << operands.name << describe(shape)
                                 << axis << ", " << to_string(mode));
        };
        BlockscaledArray made = to();
        matmul_into(made, to_blockscaled(a), to_blockscaled(b));
        if (!expect(made, product, "eager")) return;
        made = to();
        call(
            mode == Mode::eager ? Mode::jit : mode,
            [](const BlockscaledArray& d, const BlockscaledArray& l, const BlockscaledArray& r) {
              quantize_into(d, stiletto::relu(matmul(l, r)));
            },
            made, to_blockscaled(a), to_blockscaled(b));
        Tensor positive = product;
        for (Real& value : positive.values) value = std::fmax(value, 0) + Real{0};
        if (!expect(made, positive, "relu")) return;
        const Tensor left = matmul(a.values(), y), right = matmul(x, b.values());
        made = to();
        matmul_into(made, to_blockscaled(a), to_array(y));
        if (!expect(made, left, "plain right")) return;
        made = to();
        matmul_into(made, to_array(x), to_blockscaled(b));
        if (!expect(made, right, "plain left")) return;
        made = to();
        matmul_into(made, to_array(x), to_array(y));
        if (!expect(made, matmul(x, y), "plain")) return;
      }
}

/// Both results of one graph, behind functions that are not exact: the codes are those of the value beside
/// them.
TEST(BlockscaledProducts, quantized_beside_what_is_quantized) {
  Random random(315);
  for (const BlockKind& kind : block_kinds) {
    const Blocks a = exact_blocks(random, kind, {2, 33, 64}, -1),
                 b = exact_blocks(random, kind, {64, 64}, -2);
    const Array bias = to_array(random_tensor(random, f32, {64}));
    const auto [y, narrow] = stiletto::jit(
        [&](const BlockscaledArray& l, const BlockscaledArray& r, const Array& c) {
          const Array value = stiletto::gelu(matmul(l, r) * 0.0625F + c);
          return std::pair(value, quantize(value, kind.format, -1));
        },
        to_blockscaled(a), to_blockscaled(b), bias);
    EXPECT_TRUE(holds(narrow, quantized(read(y), kind, -1))) << kind.name;
  }
}

/// 17 + 2^-6 is halfway between two elements once bfloat16 has rounded it to 17, and 448.5 then becomes 448,
/// which takes half the scale.
TEST(BlockscaledProducts, what_is_quantized_was_not_rounded_to_its_type) {
  const BlockKind& kind = block_kinds[0];
  Tensor x(bf16, {2, 32}), w(bf16, {32, 32});
  for (std::size_t j = 0; j < 32; ++j) w.values[j] = 1, w.values[32 + j] = std::ldexp(Real{1}, -6);
  w.values[0] = 448, w.values[32] = 0;
  x.values[0] = 1, x.values[1] = 1;     // 448, 1 + 2^-6, …
  x.values[32] = 17, x.values[33] = 1;  // 7616, 17 + 2^-6, …
  Tensor product = matmul(x, w);
  const auto f = [&](const Array& a, const Array& b) {
    return quantize(matmul(a, b) * 1.0F, kind.format, -1);
  };
  const auto into = [](const BlockscaledArray& d, const Array& a, const Array& b) {
    quantize_into(d, matmul(a, b));
  };
  EXPECT_TRUE(holds(stiletto::jit(f, to_array(x), to_array(w)), quantized(product, kind, -1)));
  BlockscaledArray to = BlockscaledArray::empty({2, 32}, kind.format, -1, device());
  stiletto::jit(into, to, to_array(x), to_array(w));
  EXPECT_TRUE(holds(to, quantized(product, kind, -1)));
  // By itself the product is stored, and rounded.
  Tensor rounded = product;
  for (Real& value : rounded.values) value = round_float(value, bf16);
  rounded.dtype = bf16;
  const Blocks twice = quantized(rounded, kind, -1);
  EXPECT_NE(twice.codes, quantized(product, kind, -1).codes);
  EXPECT_TRUE(holds(quantize(matmul(to_array(x), to_array(w)), kind.format, -1), twice));
  // 448.5 takes a scale of 2.
  x.values[0] = 1, x.values[1] = 32;
  product = matmul(x, w);
  w.values[0] = 448, w.values[32] = std::ldexp(Real{1}, -6);
  product = matmul(x, w);
  ASSERT_EQ(product.values[0], 448.5L);
  to = BlockscaledArray::empty({2, 32}, kind.format, -1, device());
  matmul_into(to, to_array(x), to_array(w));
  EXPECT_EQ(to.scale_at({0, 0}), 2);
  EXPECT_TRUE(holds(to, quantized(product, kind, -1)));
  EXPECT_EQ(quantize(matmul(to_array(x), to_array(w)), kind.format, -1).scale_at({0, 0}), 1);
}

// The error of a product of quantized operands. With x' what x reads back as and d(x) = |x' - x|,
//   |sum a'b' - sum ab| <= sum (|a| d(b) + |b| d(a) + d(a) d(b)),
// and d(x) <= u |x| + t. An element is rounded to nearest, so it is off by half a unit in its last place, at
// most u = 2^-(p+1) of it for p bits of mantissa (p = 3, 2, 1 of e4m3, e5m2, e2m1) or, where it is subnormal,
// by half of the smallest element; scaled, t is half the smallest element times the scale. MXFP's scale is
// rounded up, so that nothing saturates. NVFP4's is rounded to nearest: it may be too small by a factor of
// 1 - 2^-4, and an element of 6 / (1 - 2^-4) = 6.4 becomes 6, which is off by less than u = 1/4 of it. That
// holds while scales are normal, where the largest magnitude is from 6 * 2^-6 to 6 * 448.
//   Accumulating K products, which are exact in float32 (8 bits of elements, powers of two or 8 bits of
// scales), in any order: |result - sum a'b'| <= g sum |a'b'| with g = K 2^-24 / (1 - K 2^-24).
TEST(BlockscaledProducts, errors_are_bounded) {
  Random random(316);
  constexpr std::int64_t rows = 33, inner = 512, columns = 65;
  const auto normal = [&](const Extents& shape) {
    return tabulate(f32, shape, [&](const Extents&) {
      Real sum = 0;
      for (int i = 0; i < 12; ++i) sum += random.uniform(-0.5L, 0.5L);
      return round_float(sum, f32);
    });
  };
  /// Of each element, how far it may be off.
  const auto allowed = [](const Tensor& x, const Blocks& blocks) {
    const Format format = format_of(blocks.kind.format.element);
    const Real u = std::ldexp(Real{1}, -format.mantissa_bits - 1),
               smallest = std::ldexp(Real{1}, 1 - format.bias - format.mantissa_bits);
    std::vector<Real> d(x.size());
    blocks.for_each_block([&](std::size_t scale, const auto& elements) {
      const Real s = block_reference::decode(blocks.scales[scale], blocks.kind.format.scale);
      for (const std::size_t e : elements) d[e] = u * std::fabs(x.values[e]) + s * smallest / 2;
    });
    return d;
  };
  for (const BlockKind& kind : block_kinds) {
    const Tensor a = normal({rows, inner}), b = normal({inner, columns});
    const Blocks qa = quantized(a, kind, -1), qb = quantized(b, kind, -2);
    const std::vector<Real> da = allowed(a, qa), db = allowed(b, qb);
    const Tensor va = qa.values(), vb = qb.values();
    for (std::size_t i = 0; i < a.size(); ++i)
      ASSERT_LE(std::fabs(va.values[i] - a.values[i]), da[i]) << kind.name;
    for (std::size_t i = 0; i < b.size(); ++i)
      ASSERT_LE(std::fabs(vb.values[i] - b.values[i]), db[i]) << kind.name;
    const Tensor made =
        read(matmul(quantize(to_array(a), kind.format, -1), quantize(to_array(b), kind.format, -2)));
    const Real k = inner * std::ldexp(Real{1}, -24), g = k / (1 - k);
    Real largest = 0;
    for (std::size_t i = 0; i < rows; ++i)
      for (std::size_t j = 0; j < columns; ++j) {
        Real exact = 0, quantized_exactly = 0, magnitudes = 0, bound = 0;
        for (std::size_t n = 0; n < inner; ++n) {
          const std::size_t l = i * inner + n, r = n * columns + j;
          exact += a.values[l] * b.values[r];
          quantized_exactly += va.values[l] * vb.values[r];
          magnitudes += std::fabs(va.values[l] * vb.values[r]);
          bound += std::fabs(a.values[l]) * db[r] + std::fabs(b.values[r]) * da[l] + da[l] * db[r];
        }
        const Real result = made.values[i * columns + j];
        ASSERT_LE(std::fabs(result - quantized_exactly), g * magnitudes) << kind.name;
        ASSERT_LE(std::fabs(result - exact), bound + g * magnitudes) << kind.name;
        largest = std::fmax(largest, std::fabs(result - exact) / bound);
      }
    EXPECT_GT(largest, 0.02L) << kind.name << ": a bound that says nothing";
  }
}

TEST(BlockscaledProducts, fake_quantisation_in_one_graph) {
  Random random(317);
  for (const BlockKind& kind : block_kinds)
    for (const int axis : {-1, -2}) {
      const Tensor x = random_tensor(random, f32, {64, 32}, {-900, 900});
      const auto f = [&](const Array& a) {
        return stiletto::dequantize(quantize(a * 2.0F, kind.format, axis));
      };
      Tensor doubled = x;
      for (Real& value : doubled.values) value *= 2;
      EXPECT_TRUE(
          agrees(stiletto::jit(f, to_array(x)), quantized(doubled, kind, axis).values(), {.exact = true}))
          << kind.name << axis;
    }
}

/// One value in two formats, along both axes, and twice the same.
TEST(BlockscaledProducts, one_value_quantized_several_times) {
  Random random(318);
  const Tensor x = random_tensor(random, f32, {2, 32, 64}, {-900, 900});
  const auto [a, b, c, d] = stiletto::jit(
      [](const Array& v) {
        const Array y = -v;
        return std::tuple(quantize(y, BlockFormat::mxfp8_e4m3, -1), quantize(y, BlockFormat::mxfp8_e4m3, -2),
                          quantize(y, BlockFormat::nvfp4, -1), quantize(y, BlockFormat::mxfp8_e4m3, -1));
      },
      to_array(x));
  Tensor negative = x;
  for (Real& value : negative.values) value = -value;
  EXPECT_TRUE(holds(a, quantized(negative, block_kinds[0], -1)));
  EXPECT_TRUE(holds(b, quantized(negative, block_kinds[0], -2)));
  EXPECT_TRUE(holds(c, quantized(negative, block_kinds[3], -1)));
  EXPECT_TRUE(holds(d, quantized(negative, block_kinds[0], -1)));
}

TEST(BlockscaledProducts, threads_give_the_same_bits) {
  Random random(319);
  for (const BlockKind& kind : block_kinds) {
    const Array x = to_array(random_tensor(random, bf16, {130, 256})),
                w = to_array(random_tensor(random, bf16, {256, 96}));
    const BlockscaledArray a = quantize(x, kind.format, -1), b = quantize(w, kind.format, -2);
    const auto f =
        stiletto::compile([&](const BlockscaledArray& l,
                              const BlockscaledArray& r) { return quantize(matmul(l, r), kind.format, -1); },
                          a, b);
    const auto codes = [&] { return std::pair(f(a, b).elements().copy(), f(a, b).scales()); };
    const auto same = [](const Array& m, const Array& n) {
      return std::memcmp(m.raw_data(), n.raw_data(), m.nbytes()) == 0;
    };
    if (device().is_cuda()) return;  // read through raw_data
    const auto wanted = codes();
    stiletto::detail::parallel_for(2, [&](std::size_t task) {
      if (task != 0) return;
      const auto alone = codes();
      EXPECT_TRUE(same(alone.first, wanted.first) && same(alone.second, wanted.second)) << kind.name;
    });
    together([&](int) {
      const auto made = codes();
      EXPECT_TRUE(same(made.first, wanted.first) && same(made.second, wanted.second)) << kind.name;
    });
  }
}

}  // namespace
