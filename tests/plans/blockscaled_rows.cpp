// SPDX-License-Identifier: Apache-2.0
// Rows with block-scaled operands and results, which have engines on Blackwell. A block-scaled operand is two
// of a row's: elements, then scales.
#include <sstream>

#include "plans/table.hpp"

namespace plans {
namespace {

using stiletto::BlockFormat;
using stiletto::BlockscaledArray;
using stiletto::dequantize;
using stiletto::matmul;
using stiletto::quantize;
using stiletto::quantize_into;
using Narrow = std::vector<BlockscaledArray>;

constexpr DType bf16 = DType::bfloat16, f16 = DType::float16, f32 = DType::float32;
constexpr BlockFormat e4m3 = BlockFormat::mxfp8_e4m3, e5m2 = BlockFormat::mxfp8_e5m2,
                      mxfp4 = BlockFormat::mxfp4, nvfp4 = BlockFormat::nvfp4;

std::string name_of(const BlockFormat& format) {
  std::ostringstream out;
  out << format;
  return out.str();
}

struct Blocked {
  Shape shape;
  BlockFormat format;
  int axis;
  stiletto::Strides strides = {};  // of the elements; without them, adjacent along the axis
};
Blocked left(BlockFormat format, Shape shape = {128, 256}) { return {shape, format, -1}; }
Blocked right(BlockFormat format, Shape shape = {256, 96}) { return {shape, format, -2}; }

/// `f` takes the block-scaled operands, then the others.
template <class F>
Row row(const std::string& name, const F& f, const std::vector<Blocked>& narrow,
        const std::vector<Operand>& plain = {}, const std::string& refusal = "") {
  auto function = [f, narrow](const Arrays& a) {
    Narrow blocks;
    for (std::size_t i = 0; i < narrow.size(); ++i)
      blocks.push_back(BlockscaledArray::from_parts(a[2 * i], a[2 * i + 1], narrow[i].shape, narrow[i].format,
                                                    narrow[i].axis));
    return f(blocks, Arrays(a.begin() + static_cast<std::ptrdiff_t>(2 * narrow.size()), a.end()));
  };
  std::vector<Operand> operands;
  for (const Blocked& b : narrow) {
    const BlockscaledArray spec = BlockscaledArray::spec(b.shape, b.format, b.axis);
    for (const Array& part : {spec.elements(), spec.scales()})
      operands.push_back({part.shape(), part.dtype(), part.strides()});
    if (b.strides.size() > 0) operands[operands.size() - 2].strides = b.strides;
  }
  operands.insert(operands.end(), plain.begin(), plain.end());
  return {name, function, operands, refusal};
}

Array product(const Narrow& q, const Arrays&) { return matmul(q[0], q[1]); }
Arrays parts(const BlockscaledArray& q) { return {q.elements(), q.scales()}; }

Group format_group(BlockFormat format) {
  const auto bias_gelu = [](const Narrow& q, const Arrays& a) {
    return stiletto::cast(stiletto::gelu(matmul(q[0], q[1]) + a[0]), bf16);
  };
  const auto swiglu = [](const Narrow& q, const Arrays&) {
    return stiletto::cast(stiletto::silu(matmul(q[0], q[1])) * matmul(q[0], q[2]), bf16);
  };
  const auto update = [](const Narrow& q, const Arrays& a) {
    stiletto::matmul_into(a[0], q[0], q[1], 2, 0.5);
  };
  const auto column_sums = [](const Narrow& q, const Arrays&) {
    return stiletto::sum(matmul(q[0], q[1]), 0);
  };
  const auto into = [](const Narrow& q, const Arrays& a) { quantize_into(q[0], matmul(a[0], a[1])); };
  const auto made = [format](const Narrow&, const Arrays& a) {
    return parts(quantize(matmul(a[0], a[1]), format, -1));
  };
  const auto pipeline = [](const Narrow& q, const Arrays&) {
    quantize_into(q[0], stiletto::relu(matmul(q[1], q[2])));
  };
  const auto both = [format](const Narrow& q, const Arrays&) {
    const Array y = matmul(q[0], q[1]);
    Arrays all = parts(quantize(y, format, -1));
    all.push_back(y);
    return all;
  };
  const Blocked a = left(format), b = right(format), c{{128, 96}, format, -1}, c_rows{{128, 96}, format, -2};
  const Operand x{{128, 256}, bf16}, w{{256, 96}, bf16};
  Group group{"blockscaled_" + name_of(format), {}, "b200"};
  group.rows = {
      row("product", product, {a, b}),
      row("odd extents and a batch", product, {left(format, {3, 137, 160}), right(format, {3, 160, 75})}),
      row("one row", product, {left(format, {1, 256}), b}),
      row("one column", product, {a, right(format, {256, 1})}),
      row("bias and gelu", bias_gelu, {a, b}, {{{96}, bf16}}),
      row("quantized behind bfloat16", into, {c}, {x, w}),
      row("narrow to narrow", pipeline, {c, a, b}),
      row("narrow to narrow, along rows", pipeline, {c_rows, a, b})};
  if (format == e5m2 || format == mxfp4) return group;  // the rest is as in the other format of their bits
  for (const Row& more : std::vector<Row>{
           row("a right operand for all", product, {left(format, {3, 128, 256}), b}),
           row("two batch axes that merge", product,
               {left(format, {2, 3, 64, 128}), right(format, {2, 3, 128, 32})}),
           row("SwiGLU", swiglu, {a, b, b}), row("alpha and beta", update, {a, b}, {{{128, 96}, f32}}),
           row("column sums", column_sums, {a, b}), row("returned behind bfloat16", made, {}, {x, w}),
           row("narrow to narrow, a batch", pipeline,
               {{{3, 137, 96}, format, -1}, left(format, {3, 137, 160}), right(format, {3, 160, 96})}),
           row("both results", both, {a, b})})
    group.rows.push_back(more);
  return group;
}

Group mixed() {
  const auto into = [](const Narrow& q, const Arrays& a) { quantize_into(q[0], matmul(a[0], a[1])); };
  const auto pipeline = [](const Narrow& q, const Arrays&) { quantize_into(q[0], matmul(q[1], q[2])); };
  const auto mixed_operands = [](const Narrow& q, const Arrays& a) { return matmul(q[0], a[0]); };
  const auto alone = [](const Narrow& q, const Arrays& a) { quantize_into(q[0], a[0]); };
  const auto computed = [](const Narrow& q, const Arrays& a) { quantize_into(q[0], stiletto::exp(a[0])); };
  const auto elements_alone = [](const Narrow& q, const Arrays&) {
    return quantize(matmul(q[0], q[1]), mxfp4, -1).elements();
  };
  const auto scales_alone = [](const Narrow& q, const Arrays&) {
    return quantize(matmul(q[0], q[1]), mxfp4, -1).scales();
  };
  const auto read = [](const Narrow& q, const Arrays&) { return stiletto::relu(dequantize(q[0])); };
  const auto fake = [](const Narrow& q, const Arrays&) {
    return dequantize(quantize(matmul(q[0], q[1]), e4m3, -1));
  };
  const auto reread = [](const Narrow& q, const Arrays&) {
    return stiletto::relu(dequantize(quantize(matmul(q[0], q[1]), e4m3, -1)));
  };
  const Operand x{{128, 256}, bf16}, w{{256, 96}, bf16};
  return {
      "blockscaled_mixed",
      {row("e4m3 by e5m2", product, {left(e4m3), right(e5m2)}),
       row("e5m2 by e4m3", product, {left(e5m2), right(e4m3)}),
       row("e4m3 to nvfp4", pipeline, {{{128, 96}, nvfp4, -1}, left(e4m3), right(e4m3)}),
       row("float16 to nvfp4", into, {{{128, 96}, nvfp4, -2}}, {{{128, 256}, f16}, {{256, 96}, f16}}),
       row("float32 to mxfp4", into, {{{128, 96}, mxfp4, -1}}, {{{128, 256}, f32}, {{256, 96}, f32}}),
       row("mxfp8 by nvfp4", product, {left(e4m3), right(nvfp4)}, {},
           "a product of mxfp8_e4m3 and nvfp4; cuDNN takes operands of one format, or both of MXFP8"),
       row("mxfp4 by nvfp4", product, {left(mxfp4), right(nvfp4)}, {},
           "a product of mxfp4 and nvfp4; cuDNN takes operands of one format, or both of MXFP8"),
       row("left along rows", product, {{{128, 256}, e4m3, -2}, right(e4m3)}, {},
           "the left operand of a product is blocked along an axis that is not summed, which cuDNN does not "
           "take; quantize it along the other one"),
       row("right along columns", product, {left(e4m3), {{256, 96}, e4m3, -1}}, {},
           "the right operand of a product is blocked along an axis that is not summed, which cuDNN does "
           "not take; quantize it along the other one"),
       row("beside bfloat16", mixed_operands, {left(e4m3)}, {w},
           "a product of a block-scaled operand and one of bfloat16, which cuDNN does not take; quantize "
           "that "
           "one, too, outside the function"),
       row("quantize alone", alone, {left(e4m3)}, {x},
           "quantize of what no product in the graph computes, which cuDNN does not take; put the product "
           "and "
           "quantize into one function, or quantize on the CPU"),
       row("quantize of exp", computed, {left(e4m3)}, {x},
           "quantize of what no product in the graph computes"),
       row("a batch of rows", product, {left(e4m3, {5, 1, 256}), right(e4m3)}),
       row("a batch of columns", product, {left(nvfp4), right(nvfp4, {5, 256, 1})}),
       row("a batch of rows, quantized", into, {{{5, 1, 96}, e4m3, -1}}, {{{5, 1, 256}, bf16}, w}),
       row("a vector's product, quantized", into, {{{5, 32}, e4m3, -1}},
           {{{5, 32, 256}, bf16}, {{256}, bf16}},
           "quantize along axes that are not the rows and columns of the product, as of a product with a "
           "vector, which cuDNN does not take; multiply by a matrix, or use the CPU"),
       row("elements along rows", product,
           {{{128, 256}, e4m3, -1, {1, 128}}, {{256, 96}, e4m3, -2, {96, 1}}}),
       row("elements alone", elements_alone, {left(e4m3), right(e4m3)}, {},
           "the scales that quantize gives are not used, and cuDNN computes both; return or store both"),
       row("scales alone", scales_alone, {left(e4m3), right(e4m3)}, {},
           "the elements that quantize gives are not used, and cuDNN computes both; return or store both"),
       row(
           "dequantize alone", [](const Narrow& q, const Arrays&) { return dequantize(q[0]); }, {left(e4m3)},
           {},
           "what dequantize gives is stored, and cuDNN dequantizes operands of products only; dequantize on "
           "the CPU"),
       row("relu of dequantize", read, {left(e4m3)}, {},
           "what dequantize gives is read by relu, and cuDNN dequantizes operands of products only; "
           "dequantize "
           "on the CPU"),
       row("dequantize of quantize", fake, {left(e4m3), right(e4m3)}, {},
           "dequantize of what quantize gives, which cuDNN only stores; compute it in a call of its own"),
       row("relu behind both", reread, {left(e4m3), right(e4m3)}, {},
           "dequantize of what quantize gives, which cuDNN only stores")},
      "b200"};
}

/// Operands of attention, v adjacent along its width where cuDNN takes it.
struct Qkv {
  BlockFormat format = e4m3;
  std::int64_t heads_kv = 4, queries = 128, keys = 128, head_dim = 64, width = 64;

  std::vector<Blocked> operands(bool v_along_width = true) const {
    const Shape v{2, heads_kv, keys, width};
    return {
        {{2, 4, queries, head_dim}, format, -1},
        {{2, heads_kv, keys, head_dim}, format, -1},
        {v, format, -2,
         v_along_width ? stiletto::Strides{v[1] * v[2] * v[3], v[2] * v[3], v[3], 1} : stiletto::Strides{}}};
  }
};

Group attention_group() {
  using stiletto::AttentionOptions;
  constexpr std::size_t since = 92100;
  constexpr const char* too_old = "MXFP8 SDPA requires cuDNN 9.21.0 or later";
  const auto out = [](const AttentionOptions& options) {
    return
        [options](const Narrow& q, const Arrays&) { return stiletto::attention(q[0], q[1], q[2], options); };
  };
  const auto with_stats = [](const AttentionOptions& options) {
    return [options](const Narrow& q, const Arrays&) {
      const auto r = stiletto::attention_with_stats(q[0], q[1], q[2], options);
      return Arrays{r.out, r.stats};
    };
  };
  const auto with_lengths = [](const Narrow& q, const Arrays& a) {
    return stiletto::attention(q[0], q[1], q[2], {.seq_len_q = a[0], .seq_len_kv = a[1]});
  };
  const auto behind = [](const Narrow& q, const Arrays&) {
    return stiletto::cast(stiletto::attention(q[0], q[1], q[2]), bf16);
  };
  const auto narrow = [](const Narrow& q, const Arrays&) {
    quantize_into(q[3], stiletto::attention(q[0], q[1], q[2]));
  };
  const Operand lengths{{2}, DType::int32};
  std::vector<Blocked> and_result = Qkv{}.operands();
  and_result.push_back({{2, 128, 4, 64}, e4m3, -1});
  Group group{"blockscaled_attention", {}, "b200"};
  group.rows = {row("e4m3", out({}), Qkv{}.operands(), {}, too_old),
                row("e5m2", out({}), Qkv{e5m2}.operands(), {}, too_old),
                row("with stats", with_stats({}), Qkv{}.operands(), {}, too_old),
                row("shared heads, a mask and a scale",
                    with_stats({.scale = 0.5F, .causal = stiletto::Causal::top_left}),
                    Qkv{e4m3, 2}.operands(), {}, too_old),
                row("a window", out({.causal = stiletto::Causal::top_left, .window = 32}), Qkv{}.operands(),
                    {}, too_old),
                row("lengths", with_lengths, Qkv{}.operands(), {lengths, lengths}, too_old),
                row("wide heads", out({}), Qkv{e4m3, 4, 256, 384, 128, 128}.operands(), {}, too_old)};
  for (Row& each : group.rows) each.plan_since = since;
  for (
      const Row& more : std::vector<Row>{
          row("mxfp4", out({}), Qkv{mxfp4}.operands(false), {},
              "attention over float4_e2m1 in blocks; cuDNN takes MXFP8: quantize q, k and v to that"),
          row("nvfp4", out({}), Qkv{nvfp4}.operands(false), {},
              "attention over float4_e2m1 in blocks; cuDNN takes MXFP8: quantize q, k and v to that"),
          row("v along its rows", out({}), Qkv{}.operands(false), {},
              "the elements of v are not adjacent along its last axis, as cuDNN's attention over blocks "
              "wants "
              "them; quantize into elements that lie so, with from_parts"),
          row("a single query", out({}), Qkv{e4m3, 4, 1}.operands(), {},
              "attention_blockscaled with a single query, which cuDNN does not take; give it two queries"),
          row("rounded to bfloat16", behind, Qkv{}.operands(), {},
              "cast of what attention_blockscaled computes, which cuDNN only stores; compute it in a call of "
              "its own"),
          row("quantized", narrow, and_result, {},
              "attention_blockscaled and quantize in one graph; store what the first computes and pass it to "
              "a call of its own")})
    group.rows.push_back(more);
  return group;
}

Group elsewhere(const std::string& target, const std::string& refusal) {
  const auto into = [](const Narrow& q, const Arrays& a) { quantize_into(q[0], matmul(a[0], a[1])); };
  Group group{"blockscaled_" + target, {}, target};
  for (const BlockFormat& format : {e4m3, e5m2, mxfp4, nvfp4})
    group.rows.push_back(row(name_of(format), product, {left(format), right(format)}, {}, refusal));
  group.rows.push_back(
      row("quantized", into, {{{128, 96}, e4m3, -1}}, {{{128, 256}, bf16}, {{256, 96}, bf16}}, refusal));
  if (!refusal.empty())
    group.rows.push_back(row(
        "attention", [](const Narrow& q, const Arrays&) { return stiletto::attention(q[0], q[1], q[2]); },
        Qkv{}.operands(), {}, refusal));
  return group;
}

}  // namespace

std::vector<Group> blockscaled_groups() {
  std::vector<Group> groups{mixed(), attention_group(),
                            elsewhere("h200",
                                      "block-scaled types, which need a Blackwell GPU (sm_100 or "
                                      "later); dequantize outside the function, or use the CPU")};
  groups.push_back(elsewhere("rtx5090", ""));
  for (const BlockFormat& format : {e4m3, e5m2, mxfp4, nvfp4}) groups.push_back(format_group(format));
  return groups;
}

}  // namespace plans
