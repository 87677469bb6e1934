// SPDX-License-Identifier: Apache-2.0
// Block-scaled arrays as values: what they tell about themselves, how they are made of buffers, and how
// traced functions take, capture, return and save them.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <sstream>
#include <tuple>

#include "support/block_trial.hpp"
#include "support/reference.hpp"

namespace {

using namespace support;
using stiletto::dequantize;
using stiletto::matmul;
using stiletto::quantize;
using stiletto::quantize_into;
using stiletto::Shape;

constexpr DType f32 = DType::float32;

Tensor random_numbers(std::uint64_t seed, const Extents& shape) {
  Random random(seed);
  return random_tensor(random, f32, shape, {-900, 900});
}

// ---- one array ----

TEST(Blockscaled, takes_its_own_parts_back) {
  for (const BlockKind& kind : block_kinds)
    for (const int axis : {-1, -2})
      for (const Extents& shape :
           {Extents{32, 64}, Extents{1, 32, 32}, Extents{2, 1, 64, 32}, Extents{3, 64, 64}}) {
        const BlockscaledArray a = quantize(to_array(random_numbers(3, shape)), kind.format, axis);
        const BlockscaledArray b =
            BlockscaledArray::from_parts(a.elements(), a.scales(), a.shape(), kind.format, axis);
        EXPECT_EQ(b.scales().raw_data(), a.scales().raw_data());
        EXPECT_EQ(dequantize(b).to_vector<float>(), dequantize(a).to_vector<float>()) << kind.name << axis;
        EXPECT_EQ(b.axis(), a.axis());
      }
}

TEST(Blockscaled, tells_what_it_is) {
  for (const BlockKind& kind : block_kinds) {
    const BlockscaledArray a = BlockscaledArray::empty({2, 130, 96}, kind.format, -1);
    EXPECT_EQ(a.shape(), (Shape{2, 130, 96}));
    EXPECT_EQ(a.format(), kind.format);
    EXPECT_EQ(a.axis(), 2);
    EXPECT_EQ(a.rank(), 3);
    EXPECT_EQ(a.device(), stiletto::Device::cpu());
    EXPECT_FALSE(a.is_traced());
    EXPECT_EQ(a.elements().dtype(), kind.format.element);
    EXPECT_EQ(a.elements().shape(), a.shape());
    EXPECT_EQ(a.elements().strides(), (Shape{130 * 96, 96, 1}));
    const std::int64_t blocks = kind.size() == 32 ? 4 : 8;  // 3 or 6, padded
    EXPECT_EQ(a.scales().dtype(), kind.format.scale);
    EXPECT_EQ(a.scales().shape(), (Shape{2, 256, blocks}));
    EXPECT_EQ(a.nbytes(), a.elements().nbytes() + a.scales().nbytes());
    std::ostringstream name;
    name << a.format();
    EXPECT_EQ(name.str(), kind.name);

    const BlockscaledArray b = BlockscaledArray::empty({2, 96, 130}, kind.format, 1);
    EXPECT_EQ(b.axis(), 1);
    EXPECT_EQ(b.elements().strides(), (Shape{130 * 96, 1, 96}));
    EXPECT_EQ(b.scales().shape(), (Shape{2, blocks, 256}));
    EXPECT_EQ(b.scales().strides(), (Shape{blocks * 256, 1, blocks}));

    const BlockscaledArray c = BlockscaledArray::spec({2, 96, 130}, kind.format, -2);
    EXPECT_EQ(c.format(), kind.format);
    EXPECT_EQ(c.axis(), 1);
    EXPECT_EQ(c.elements().strides(), b.elements().strides());
    EXPECT_EQ(c.scales().strides(), b.scales().strides());
  }
  std::ostringstream other;
  other << BlockFormat{DType::float8_e4m3, DType::float8_e4m3, 8};
  EXPECT_EQ(other.str(), "8 float8_e4m3 by float8_e4m3");
}

TEST(Blockscaled, is_a_handle) {
  const BlockscaledArray a = quantize(stiletto::full({4, 32}, 3.0F), BlockFormat::mxfp8_e4m3, -1);
  BlockscaledArray same;
  same = a;
  quantize_into(same, stiletto::full({4, 32}, 5.0F));
  EXPECT_EQ(dequantize(a).at<float>({3, 31}), 5);
  EXPECT_EQ(a.to(stiletto::Device::cpu()).elements().raw_data(), a.elements().raw_data());
}

TEST(Blockscaled, scales_by_their_logical_place) {
  for (const BlockKind& kind : block_kinds)
    for (const int axis : {-1, -2}) {
      const Extents shape = axis == -1 ? Extents{2, 131, 160} : Extents{2, 160, 131};
      const Blocks wanted = quantized(random_numbers(7, shape), kind, axis);
      const BlockscaledArray a = to_blockscaled(wanted);
      const Array plain = a.plain_scales();
      ASSERT_EQ(extents(plain.shape()), wanted.plain_scales());
      EXPECT_EQ(plain.dtype(), kind.format.scale);
      const auto* const codes = static_cast<const std::uint8_t*>(plain.raw_data());
      std::size_t i = 0;
      for_each_index(wanted.plain_scales(), [&](const Extents& index) {
        const std::uint8_t code = wanted.scales[i];
        EXPECT_EQ(codes[i], code) << i;
        EXPECT_EQ(a.scale_at(dims(index)), block_reference::decode(code, kind.format.scale)) << i;
        ++i;
      });
      // And back.
      const auto elements = bytes_array(packed(wanted, block_strides(wanted), count_of(shape)));
      EXPECT_TRUE(
          holds(BlockscaledArray::from_plain_parts(elements, plain, dims(shape), kind.format, axis), wanted));
      const Array as_bytes = bytes_array(wanted.scales);
      const Array shaped = stiletto::reshape(as_bytes, dims(wanted.plain_scales()));
      EXPECT_TRUE(holds(BlockscaledArray::from_plain_parts(elements, shaped, dims(shape), kind.format, axis),
                        wanted));
      // From any order in memory.
      const Array turned = stiletto::transpose(stiletto::transpose(shaped, {2, 1, 0}).copy(), {2, 1, 0});
      EXPECT_TRUE(holds(BlockscaledArray::from_plain_parts(elements, turned, dims(shape), kind.format, axis),
                        wanted));
    }
}

TEST(Blockscaled, a_scale_of_nan_is_nan) {
  for (const BlockKind& kind : block_kinds) {
    const Array x = stiletto::full({2, 32}, std::numeric_limits<float>::quiet_NaN());
    EXPECT_TRUE(std::isnan(quantize(x, kind.format, -1).scale_at({1, 0}))) << kind.name;
  }
}

// ---- of buffers ----

TEST(Blockscaled, shares_the_buffers_it_is_made_of) {
  for (const BlockKind& kind : block_kinds)
    for (const int axis : {-1, -2}) {
      const Blocks wanted = quantized(random_numbers(8, {3, 64, 96}), kind, axis);
      const auto codes = packed(wanted, block_strides(wanted), count_of(wanted.shape));
      const auto scales = wanted.tiled_scales();
      const auto count = static_cast<std::int64_t>(scales.size());
      const Array elements = bytes_array(codes);
      // Scales as bytes, as cuDNN's type, flat, and in the shape of their tiles.
      const Array flat = bytes_array(scales);
      for (const Shape& shape : {Shape{count}, Shape{count / 512, 32, 16}, Shape{3, count / 3}}) {
        const Array given = stiletto::reshape(flat, shape);
        const BlockscaledArray a =
            BlockscaledArray::from_parts(elements, given, {3, 64, 96}, kind.format, axis);
        EXPECT_TRUE(holds(a, wanted)) << kind.name << axis;
        EXPECT_EQ(a.elements().raw_data(), elements.raw_data());
        EXPECT_EQ(a.scales().raw_data(), flat.raw_data());
        const BlockscaledArray again =
            BlockscaledArray::from_parts(a.elements(), a.scales(), {3, 64, 96}, kind.format, axis);
        EXPECT_TRUE(holds(again, wanted)) << kind.name << axis;
        EXPECT_EQ(again.scales().raw_data(), flat.raw_data());
      }
    }
}

TEST(Blockscaled, of_a_part_of_a_buffer) {
  const BlockKind& kind = block_kinds[3];
  const Blocks wanted = quantized(random_numbers(9, {32, 64}), kind, -1);
  auto codes = packed(wanted, block_strides(wanted), count_of(wanted.shape));
  codes.insert(codes.begin(), 6, 0xEE);
  auto scales = wanted.tiled_scales();
  scales.insert(scales.begin(), 3, 0xEE);
  const Array elements = stiletto::slice(bytes_array(codes), {stiletto::Slice{6, {}}}),
              given = stiletto::slice(bytes_array(scales), {stiletto::Slice{3, {}}});
  EXPECT_TRUE(holds(BlockscaledArray::from_parts(elements, given, {32, 64}, kind.format, -1), wanted));
}

/// As PyTorch has them: a left operand (M, K), and a weight (N, K) that becomes the right one, (K, N), each
/// with flat swizzled scales; float4 as bytes (M, K/2).
TEST(Blockscaled, as_pytorch_has_them) {
  for (const BlockKind& kind : block_kinds) {
    Random random(10);
    const Blocks left = exact_blocks(random, kind, {5, 96}, -1),
                 weight = exact_blocks(random, kind, {7, 96}, -1);
    const auto buffer = [](const Blocks& blocks) {
      return bytes_array(packed(blocks, row_major(blocks.shape), count_of(blocks.shape)));
    };
    const bool half_bytes = kind.format.element == DType::float4_e2m1;
    const std::int64_t row = half_bytes ? 48 : 96;
    const BlockscaledArray a =
        BlockscaledArray::from_parts(stiletto::reshape(buffer(left), {5, row}),
                                     bytes_array(left.tiled_scales()), {5, 96}, kind.format, -1);
    // Bytes of (N, K), taken as they lie: adjacent along the blocked axis of (K, N).
    const BlockscaledArray bytes = BlockscaledArray::from_parts(
        buffer(weight), bytes_array(weight.tiled_scales()), {96, 7}, kind.format, -2);
    // Elements of their own type, transposed.
    const Array elements = BlockscaledArray::from_parts(buffer(weight), bytes_array(weight.tiled_scales()),
                                                        {7, 96}, kind.format, -1)
                               .elements();
    const BlockscaledArray turned = BlockscaledArray::from_parts(
        stiletto::transpose(elements), bytes_array(weight.tiled_scales()), {96, 7}, kind.format, -2);
    const Tensor wanted = matmul(left.values(), transposed(weight.values()));
    EXPECT_TRUE(agrees(matmul(a, bytes), wanted, {.exact = true})) << kind.name;
    EXPECT_TRUE(agrees(matmul(a, turned), wanted, {.exact = true})) << kind.name;
  }
}

// ---- traced functions ----

TEST(Blockscaled, in_a_trace) {
  const BlockscaledArray a = quantize(stiletto::ones({32, 64}), BlockFormat::nvfp4, -2);
  stiletto::compile(
      [](const BlockscaledArray& x) {
        EXPECT_TRUE(x.is_traced());
        EXPECT_EQ(x.shape(), (Shape{32, 64}));
        EXPECT_EQ(x.format(), BlockFormat::nvfp4);
        EXPECT_EQ(x.axis(), 0);
        EXPECT_EQ(x.elements().dtype(), DType::float4_e2m1);
        return dequantize(x);
      },
      a);
}

struct Layer {
  BlockscaledArray w;
  Array bias;
  int units = 3;
  auto fields() { return std::tie(w, bias); }
};
struct Narrow {
  BlockscaledArray a, b;
  auto fields() { return std::tie(a, b); }
};

class BlockscaledFunctions : public testing::Test {
 protected:
  static constexpr const BlockKind& kind = block_kinds[0];
  Random random{20};
  const Blocks x = exact_blocks(random, kind, {32, 64}, -1), w = exact_blocks(random, kind, {64, 32}, -2),
               v = exact_blocks(random, block_kinds[3], {64, 32}, -2);
  const BlockscaledArray a = to_blockscaled(x), b = to_blockscaled(w), c = to_blockscaled(v);
  const Tensor product = support::matmul(x.values(), w.values()),
               other = support::matmul(x.values(), v.values());
  const Array bias = stiletto::full({32}, 4.0F);

  static Tensor plus(Tensor y, Real value) {
    for (Real& z : y.values) z += value;
    return y;
  }
  static testing::AssertionResult exactly(const Array& made, const Tensor& wanted) {
    return agrees(made, wanted, {.exact = true});
  }
};

TEST_F(BlockscaledFunctions, take_several_in_containers) {
  const auto f = [](const std::vector<BlockscaledArray>& list, const std::pair<Layer, Array>& layer,
                    const std::array<BlockscaledArray, 1>& one) {
    return std::tuple(matmul(list[0], list[1]),
                      matmul(one[0], layer.first.w) + layer.first.bias * layer.second);
  };
  const std::vector<BlockscaledArray> list{a, b};
  const std::pair<Layer, float> layer{Layer{c, bias}, 2.0F};
  const std::array<BlockscaledArray, 1> one{a};
  const auto [y, z] = stiletto::compile(f, list, layer, one)(list, layer, one);
  EXPECT_TRUE(exactly(y, product));
  EXPECT_TRUE(exactly(z, plus(other, 8)));
}

TEST_F(BlockscaledFunctions, return_several_in_containers) {
  using Result = std::tuple<BlockscaledArray, std::vector<BlockscaledArray>, Narrow, Array>;
  const auto f = [](const BlockscaledArray& l, const BlockscaledArray& r) {
    const Array y = matmul(l, r);
    return Result{quantize(y, BlockFormat::mxfp8_e5m2, -1),
                  {quantize(y + 1, BlockFormat::mxfp4, -2), quantize(-y, BlockFormat::nvfp4, -1)},
                  {quantize(y * 2, BlockFormat::mxfp8_e4m3, -2), l},
                  y};
  };
  Tensor negative = product, doubled = product;
  for (Real& z : negative.values) z = -z;
  for (Real& z : doubled.values) z *= 2;
  for (const bool jit : {false, true}) {
    const Result r = jit ? stiletto::jit(f, a, b) : stiletto::compile(f, a, b)(a, b);
    EXPECT_TRUE(holds(std::get<0>(r), quantized(product, block_kinds[1], -1)));
    ASSERT_EQ(std::get<1>(r).size(), 2U);
    EXPECT_TRUE(holds(std::get<1>(r)[0], quantized(plus(product, 1), block_kinds[2], -2)));
    EXPECT_TRUE(holds(std::get<1>(r)[1], quantized(negative, block_kinds[3], -1)));
    EXPECT_TRUE(holds(std::get<2>(r).a, quantized(doubled, block_kinds[0], -2)));
    EXPECT_EQ(std::get<2>(r).b.elements().raw_data(), a.elements().raw_data());
    EXPECT_TRUE(exactly(std::get<3>(r), product));
  }
}

TEST_F(BlockscaledFunctions, capture_them) {
  const auto f = stiletto::compile([&](const BlockscaledArray& l) { return matmul(l, b) + matmul(l, c); }, a);
  Tensor wanted = product;
  for (std::size_t i = 0; i < wanted.size(); ++i) wanted.values[i] += other.values[i];
  EXPECT_TRUE(exactly(f(a), wanted));
}

TEST_F(BlockscaledFunctions, are_compiled_without_data) {
  const auto on_cpu = [](const BlockscaledArray& like) {
    const auto part = [](const Array& x) {
      return stiletto::spec(x.shape(), x.dtype(), x.strides(), stiletto::Device::cpu());
    };
    return BlockscaledArray::from_parts(part(like.elements()), part(like.scales()), like.shape(),
                                        like.format(), like.axis());
  };
  const auto f =
      stiletto::compile([](const BlockscaledArray& l, const BlockscaledArray& r) { return matmul(l, r); },
                        on_cpu(a), on_cpu(b));
  EXPECT_TRUE(exactly(f(a, b), product));
}

TEST_F(BlockscaledFunctions, store_to_several) {
  const auto d = BlockscaledArray::empty({32, 32}, BlockFormat::mxfp4, -1),
             e = BlockscaledArray::empty({32, 32}, BlockFormat::mxfp8_e4m3, -2);
  const auto f = [](const Narrow& to, const BlockscaledArray& l, const BlockscaledArray& r) {
    stiletto::matmul_into(to.a, l, r);
    stiletto::assign(to.b, matmul(l, r) + 1);
    return to.a;
  };
  const Narrow to{d, e};
  const auto compiled = stiletto::compile(f, to, a, b);
  const BlockscaledArray returned = compiled(to, a, b);
  EXPECT_TRUE(holds(d, quantized(product, block_kinds[2], -1)));
  EXPECT_TRUE(holds(e, quantized(plus(product, 1), block_kinds[0], -2)));
  EXPECT_EQ(returned.elements().raw_data(), d.elements().raw_data());
}

TEST_F(BlockscaledFunctions, the_last_of_two_stores_wins) {
  const auto d = BlockscaledArray::empty({32, 32}, BlockFormat::mxfp8_e4m3, -1);
  stiletto::jit(
      [](const BlockscaledArray& to, const BlockscaledArray& l, const BlockscaledArray& r) {
        quantize_into(to, matmul(l, r));
        quantize_into(to, matmul(l, r) + 1);
      },
      d, a, b);
  EXPECT_TRUE(holds(d, quantized(plus(product, 1), kind, -1)));
}

TEST_F(BlockscaledFunctions, one_value_twice) {
  const auto [p, q] = stiletto::jit(
      [](const BlockscaledArray& l, const BlockscaledArray& r) {
        const BlockscaledArray y = quantize(matmul(l, r), BlockFormat::nvfp4, -1);
        return std::pair(y, y);
      },
      a, b);
  EXPECT_TRUE(holds(p, quantized(product, block_kinds[3], -1)));
  EXPECT_TRUE(holds(q, quantized(product, block_kinds[3], -1)));
}

TEST_F(BlockscaledFunctions, stored_and_returned) {
  const auto d = BlockscaledArray::empty({32, 32}, BlockFormat::mxfp8_e4m3, -1);
  const auto back = stiletto::jit(
      [](const BlockscaledArray& to, const BlockscaledArray& l, const BlockscaledArray& r) {
        const Array y = matmul(l, r);
        quantize_into(to, y);
        return quantize(y, BlockFormat::mxfp8_e4m3, -1);
      },
      d, a, b);
  EXPECT_TRUE(holds(d, quantized(product, kind, -1)));
  EXPECT_TRUE(holds(back, quantized(product, kind, -1)));
}

TEST_F(BlockscaledFunctions, chain_in_one_graph) {
  const Blocks u = exact_blocks(random, block_kinds[2], {32, 64}, -2);
  const auto f = [](const BlockscaledArray& l, const BlockscaledArray& r, const BlockscaledArray& next) {
    const BlockscaledArray y = quantize(matmul(l, r), BlockFormat::mxfp8_e4m3, -1);
    return matmul(dequantize(y, DType::float64), dequantize(next));
  };
  Tensor wanted = support::matmul(quantized(product, kind, -1).values(), u.values());
  wanted.dtype = DType::float64;
  EXPECT_TRUE(exactly(stiletto::jit(f, a, b, to_blockscaled(u)), wanted));
}

TEST_F(BlockscaledFunctions, come_back_from_files) {
  using Result = std::pair<BlockscaledArray, Array>;
  const auto folder =
      std::filesystem::temp_directory_path() / ("stiletto-blockscaled-" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  const auto path = folder / "f.plan";
  const auto f = stiletto::compile(
      [](const BlockscaledArray& to, const Narrow& pair, const Layer& layer) {
        const Array y = matmul(pair.a, layer.w);
        quantize_into(to, y + layer.bias);
        return Result{quantize(y, BlockFormat::nvfp4, -2), matmul(pair.a, pair.b)};
      },
      BlockscaledArray::empty({32, 32}, BlockFormat::mxfp4, -1), Narrow{a, c}, Layer{b, bias});
  f.save(path);
  const auto loaded = stiletto::load<Result(BlockscaledArray, Narrow, Layer)>(path);
  EXPECT_EQ(loaded.graph().to_string(), f.graph().to_string());
  const auto d = BlockscaledArray::empty({32, 32}, BlockFormat::mxfp4, -1);
  const auto [narrow, y] = loaded(d, Narrow{a, c}, Layer{b, bias});
  EXPECT_TRUE(holds(d, quantized(plus(product, 4), block_kinds[2], -1)));
  EXPECT_TRUE(holds(narrow, quantized(product, block_kinds[3], -2)));
  EXPECT_TRUE(exactly(y, other));
  std::filesystem::remove_all(folder);
}

/// Blocks of one type and shape along different axes, or of different sizes, are different graphs.
TEST_F(BlockscaledFunctions, jit_tells_formats_and_axes_apart) {
  const Tensor y = random_numbers(30, {64, 64});
  const Array given = to_array(y);
  for (int round = 0; round < 2; ++round)
    for (const BlockKind& one : block_kinds)
      for (const int axis : {-1, -2})
        EXPECT_TRUE(holds(stiletto::jit([&](const Array& z) { return quantize(z, one.format, axis); }, given),
                          quantized(y, one, axis)))
            << one.name << axis;
}

}  // namespace
