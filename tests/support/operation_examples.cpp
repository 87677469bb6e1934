// SPDX-License-Identifier: Apache-2.0
#include "support/operation_examples.hpp"

#include <algorithm>
#include <utility>

#include "core/dtype_info.hpp"
#include "graph/op_table.hpp"

namespace support {
namespace {

using stiletto::Array;
using stiletto::Causal;
using stiletto::DType;
using stiletto::Shape;
using stiletto::Strides;
using stiletto::detail::Family;
using stiletto::detail::Op;
using stiletto::detail::row_of;
using stiletto::detail::TypeRule;
using Arrays = Example::Arrays;
using Operands = std::vector<ExampleOperand>;
using Call = std::function<Arrays(const Arrays&)>;
using MakeOperands = std::function<Operands(DType)>;

constexpr DType f32 = DType::float32, i32 = DType::int32, i64 = DType::int64;

DType statistics_of(DType x) { return x == DType::float64 ? x : f32; }

// ---- operations of index notation: their operands follow from the row ----

Operands elementwise_operands(Op op, DType dtype) {
  const stiletto::detail::OpRow& row = row_of(op);
  Operands result(std::max<std::size_t>(row.arity, 1), {{64, 128}, dtype});
  if (row.rule == TypeRule::select) result[0].dtype = DType::boolean;
  return result;
}

/// The right matrix of 8-bit types is column-major, as their engines want it.
Operands product_operands(DType dtype) {
  const bool byte = stiletto::detail::bits_of(dtype) == 8;
  return {{{64, 128}, dtype}, {{128, 96}, dtype, byte ? Strides{1, 128} : Strides{}}};
}

Example plain(Op op, Call call, std::string variant = "") {
  if (row_of(op).family == Family::matmul) return {op, std::move(variant), product_operands, std::move(call)};
  return {op, std::move(variant), [op](DType dtype) { return elementwise_operands(op, dtype); },
          std::move(call)};
}
Example unary(Op op, Array (*f)(const Array&)) {
  return plain(op, [f](const Arrays& a) { return Arrays{f(a[0])}; });
}
Example binary(Op op, Array (*f)(const Array&, const Array&)) {
  return plain(op, [f](const Arrays& a) { return Arrays{f(a[0], a[1])}; });
}
/// Over the last axis.
Example reduction(Op op, Array (*f)(const Array&, stiletto::Axes, bool)) {
  return plain(op, [f](const Arrays& a) { return Arrays{f(a[0], -1, false)}; });
}

std::vector<Example> leaves() {
  auto transposed = [](const Arrays& a) { return Arrays{stiletto::transpose(a[0]).copy()}; };
  auto beside_number = [](const Arrays& a) { return Arrays{stiletto::maximum(a[0], Array(true))}; };
  return {plain(
              Op::argument, [](const Arrays& a) { return Arrays{a[0]}; }, " that is returned"),
          plain(Op::scalar, beside_number, " in `maximum`"),
          plain(Op::view, transposed, " transposed and copied")};
}

/// All but to block scales, which `quantize` makes.
std::vector<Example> casts() {
  std::vector<Example> result;
  for (const DType to : {DType::boolean, DType::int8, DType::uint8, i32, i64, DType::float16, DType::bfloat16,
                         f32, DType::float64, DType::float8_e4m3, DType::float8_e5m2, DType::float4_e2m1})
    result.push_back(plain(
        Op::cast, [to](const Arrays& a) { return Arrays{stiletto::cast(a[0], to)}; },
        std::string(" to ") + stiletto::to_string(to)));
  return result;
}

std::vector<Example> pointwise() {
  return {unary(Op::negate, [](const Array& x) { return -x; }),
          unary(Op::logical_not, stiletto::logical_not),
          unary(Op::copy, [](const Array& x) { return x.copy(); }),
          unary(Op::abs, stiletto::abs),
          unary(Op::exp, stiletto::exp),
          unary(Op::log, stiletto::log),
          unary(Op::sqrt, stiletto::sqrt),
          unary(Op::rsqrt, stiletto::rsqrt),
          unary(Op::square, stiletto::square),
          unary(Op::reciprocal, stiletto::reciprocal),
          unary(Op::sin, stiletto::sin),
          unary(Op::cos, stiletto::cos),
          unary(Op::tan, stiletto::tan),
          unary(Op::tanh, stiletto::tanh),
          unary(Op::erf, stiletto::erf),
          unary(Op::ceil, stiletto::ceil),
          unary(Op::floor, stiletto::floor),
          unary(Op::relu, stiletto::relu),
          unary(Op::leaky_relu, [](const Array& x) { return stiletto::leaky_relu(x); }),
          unary(Op::clipped_relu, [](const Array& x) { return stiletto::clipped_relu(x, 6); }),
          unary(Op::sigmoid, stiletto::sigmoid),
          unary(Op::silu, stiletto::silu),
          unary(Op::softplus, stiletto::softplus),
          unary(Op::elu, [](const Array& x) { return stiletto::elu(x); }),
          unary(Op::gelu, stiletto::gelu),
          unary(Op::gelu_tanh, stiletto::gelu_tanh),
          binary(Op::add, stiletto::operator+),
          binary(Op::subtract, stiletto::operator-),
          binary(Op::multiply, stiletto::operator*),
          binary(Op::divide, stiletto::operator/),
          binary(Op::less, stiletto::operator<),
          binary(Op::less_equal, stiletto::operator<=),
          binary(Op::greater, stiletto::operator>),
          binary(Op::greater_equal, stiletto::operator>=),
          binary(Op::equal, stiletto::operator==),
          binary(Op::not_equal, stiletto::operator!=),
          binary(Op::logical_and, stiletto::logical_and),
          binary(Op::logical_or, stiletto::logical_or),
          binary(Op::maximum, stiletto::maximum),
          binary(Op::minimum, stiletto::minimum),
          binary(Op::pow, stiletto::pow),
          binary(Op::fmod, stiletto::fmod),
          binary(Op::atan2, stiletto::atan2),
          plain(Op::where, [](const Arrays& a) { return Arrays{stiletto::where(a[0], a[1], a[2])}; }),
          plain(Op::clamp, [](const Arrays& a) { return Arrays{stiletto::clamp(a[0], a[1], a[2])}; })};
}

std::vector<Example> reductions_and_products() {
  return {reduction(Op::sum, stiletto::sum),
          reduction(Op::mean, stiletto::mean),
          reduction(Op::max, stiletto::max),
          reduction(Op::min, stiletto::min),
          reduction(Op::abs_max, stiletto::abs_max),
          reduction(Op::prod, stiletto::prod),
          reduction(Op::norm1, stiletto::norm1),
          reduction(Op::norm2, stiletto::norm2),
          reduction(Op::logsumexp, stiletto::logsumexp),
          unary(Op::softmax, [](const Array& x) { return stiletto::softmax(x); }),
          binary(Op::matmul, stiletto::matmul)};
}

/// Behind a copy: a view of an argument would be a `view`.
std::vector<Example> layouts() {
  auto zeros = [](const Arrays& a) { return Arrays{stiletto::zeros({64, 128}, a[0].dtype())}; };
  return {plain(Op::fill, zeros),
          unary(Op::permute, [](const Array& x) { return stiletto::transpose(x.copy()); }),
          unary(Op::reshape, [](const Array& x) { return stiletto::reshape(x.copy(), {32, 256}); })};
}

// ---- attention ----

ExampleOperand rows(DType dtype, std::int64_t heads = 4) { return {{2, 128, heads, 64}, dtype}; }

Example forward(const std::string& variant, const Operands& more,
                const std::function<stiletto::AttentionOptions(const Arrays&)>& options,
                std::int64_t heads_kv = 4) {
  return {Op::attention, variant,
          [=](DType dtype) {
            Operands result{rows(dtype), rows(dtype, heads_kv), rows(dtype, heads_kv)};
            result.insert(result.end(), more.begin(), more.end());
            return result;
          },
          [=](const Arrays& a) { return Arrays{stiletto::attention(a[0], a[1], a[2], options(a))}; }};
}

/// The options' arrays come behind the first `first` operands.
stiletto::AttentionOptions with_lengths(const Array& lengths, Causal causal = Causal::none) {
  return {.causal = causal, .seq_len_q = lengths, .seq_len_kv = lengths};
}
stiletto::AttentionOptions with_dropout(const Array& seed, const Array& offset) {
  return {.dropout = stiletto::AttentionDropout{0.1, seed, offset}};
}
stiletto::AttentionOptions with_packing(const Array& lengths, const Array& offsets) {
  auto options = with_lengths(lengths);
  options.packed = stiletto::PackedSequences{offsets, offsets, offsets, offsets, 128, 128};
  return options;
}

std::vector<Example> attention_forward() {
  using As = const Arrays&;
  const ExampleOperand lengths{{2}, i32}, number{{1}, i64}, sink{{4}, f32}, bias{{1, 4, 128, 128}, f32},
      offsets{{3}, i64}, table{{2, 8}, i32};
  const MakeOperands packed = [=](DType dtype) {
    const ExampleOperand q{{256, 4, 64}, dtype};
    return Operands{q, q, q, lengths, offsets};
  };
  const MakeOperands paged = [=](DType dtype) {
    const ExampleOperand pool{{16, 16, 4, 64}, dtype};
    return Operands{rows(dtype), pool, pool, lengths, table};
  };
  auto with_stats = [](As a) {
    const auto r = stiletto::attention_with_stats(a[0], a[1], a[2]);
    return Arrays{r.out, r.stats};
  };
  auto of_packed = [](As a) {
    return Arrays{stiletto::attention(a[0], a[1], a[2], with_packing(a[3], a[4]))};
  };
  auto of_pages = [](As a) {
    auto options = with_lengths(a[3]);
    options.paged = stiletto::PagedKeys{a[4], a[4]};
    return Arrays{stiletto::attention(a[0], a[1], a[2], options)};
  };
  auto causal = [](Causal mask) { return [mask](As) { return stiletto::AttentionOptions{.causal = mask}; }; };
  return {
      forward("", {}, causal(Causal::none)),
      {Op::attention, " with stats", [](DType d) { return Operands{rows(d), rows(d), rows(d)}; }, with_stats},
      forward(" with a causal mask", {}, causal(Causal::top_left)),
      forward(" with a window", {},
              [](As) { return stiletto::AttentionOptions{.causal = Causal::top_left, .window = 32}; }),
      forward(" with lengths", {lengths}, [](As a) { return with_lengths(a[3]); }),
      forward(" with a bias", {bias}, [](As a) { return stiletto::AttentionOptions{.bias = a[3]}; }),
      forward(" with a sink", {sink}, [](As a) { return stiletto::AttentionOptions{.sink = a[3]}; }),
      forward(" with shared heads", {}, causal(Causal::none), 2),
      forward(" with dropout", {number, number}, [](As a) { return with_dropout(a[3], a[4]); }),
      {Op::attention, " of packed sequences", packed, of_packed},
      {Op::attention, " of keys in pages", paged, of_pages}};
}

std::vector<Example> attention_gradients() {
  using As = const Arrays&;
  using Options = std::function<stiletto::AttentionOptions(As)>;
  const ExampleOperand number{{1}, i64}, lengths{{2}, i32}, offsets{{3}, i64};
  auto example = [](const std::string& variant, const Shape& shape, const Shape& stats, const Operands& more,
                    const Options& options) {
    return Example{Op::attention_backward, variant,
                   [=](DType dtype) {
                     Operands result(5, {shape, dtype});
                     result.push_back({stats, f32});
                     result.insert(result.end(), more.begin(), more.end());
                     return result;
                   },
                   [=](As a) {
                     const auto g =
                         stiletto::attention_backward(a[0], a[1], a[2], a[3], a[4], a[5], options(a));
                     return Arrays{g.dq, g.dk, g.dv};
                   }};
  };
  const Shape dense{2, 128, 4, 64}, stats{2, 4, 128, 1};
  return {
      example("", dense, stats, {}, [](As) { return stiletto::AttentionOptions{}; }),
      example(" with a causal mask", dense, stats, {},
              [](As) { return stiletto::AttentionOptions{.causal = Causal::top_left}; }),
      example(" with lengths", dense, stats, {lengths}, [](As a) { return with_lengths(a[6]); }),
      example(" with dropout", dense, stats, {number, number}, [](As a) { return with_dropout(a[6], a[7]); }),
      example(" of packed sequences", {256, 4, 64}, stats, {lengths, offsets},
              [](As a) { return with_packing(a[6], a[7]); })};
}

std::vector<Example> attention_of_float8() {
  auto operands = [](DType dtype) { return Operands{rows(dtype), rows(dtype), rows(dtype), {{1}, f32}}; };
  auto call = [](Causal mask) {
    return [mask](const Arrays& a) {
      const auto r = stiletto::attention_float8(a[0], a[1], a[2], {a[3], a[3], a[3], a[3], a[3], a[3]},
                                                {.causal = mask});
      return Arrays{r.out, r.stats, r.amax_s, r.amax_out};
    };
  };
  return {{Op::attention_float8, "", operands, call(Causal::none)},
          {Op::attention_float8, " with a causal mask", operands, call(Causal::top_left)}};
}

// ---- norms ----

/// x `times` times, `vectors` vectors of its last axis, and statistics of its rows.
auto norm_operands(std::size_t times, std::size_t vectors, std::size_t statistics = 0,
                   bool float32_vectors = false) {
  return [=](DType dtype) {
    Operands result(times, {{32, 64}, dtype});
    result.resize(times + vectors, {{64}, float32_vectors ? statistics_of(dtype) : dtype});
    result.resize(times + vectors + statistics, {{32, 1}, statistics_of(dtype)});
    return result;
  };
}

std::vector<Example> row_norms() {
  using As = const Arrays&;
  auto rms = [](As a) { return Arrays{stiletto::rms_norm(a[0], a[1])}; };
  auto rms_biased = [](As a) { return Arrays{stiletto::rms_norm(a[0], a[1], {.bias = a[2]})}; };
  auto rms_stats = [](As a) {
    const auto r = stiletto::rms_norm_with_stats(a[0], a[1]);
    return Arrays{r.y, r.inv_rms};
  };
  auto rms_backward = [](As a) {
    const auto g = stiletto::rms_norm_backward(a[0], a[1], a[2], a[3]);
    return Arrays{g.dx, g.dscale};
  };
  auto layer = [](As a) { return Arrays{stiletto::layer_norm(a[0], a[1], a[2])}; };
  auto layer_stats = [](As a) {
    const auto r = stiletto::layer_norm_with_stats(a[0], a[1], a[2]);
    return Arrays{r.y, r.mean, r.inv_std};
  };
  auto layer_backward = [](As a) {
    const auto g = stiletto::layer_norm_backward(a[0], a[1], a[2], a[3], a[4]);
    return Arrays{g.dx, g.dscale, g.dbias};
  };
  const std::string float32 = " with float32 parameters";
  return {{Op::rms_norm, "", norm_operands(1, 1), rms},
          {Op::rms_norm, " with a bias", norm_operands(1, 2), rms_biased},
          {Op::rms_norm, " with stats", norm_operands(1, 1), rms_stats},
          {Op::rms_norm, float32, norm_operands(1, 1, 0, true), rms},
          {Op::rms_norm_backward, "", norm_operands(2, 1, 1), rms_backward},
          {Op::layer_norm, "", norm_operands(1, 2), layer},
          {Op::layer_norm, " with stats", norm_operands(1, 2), layer_stats},
          {Op::layer_norm, float32, norm_operands(1, 2, 0, true), layer},
          {Op::layer_norm_backward, "", norm_operands(2, 1, 2), layer_backward}};
}

// ---- images ----

ExampleOperand image(const Shape& shape, DType dtype, bool channels_last) {
  if (!channels_last) return {shape, dtype};
  Strides strides = shape;
  std::int64_t stride = shape[1];
  strides[1] = 1;
  for (std::size_t i = shape.size(); i-- > 2; stride *= shape[i]) strides[i] = stride;
  strides[0] = stride;
  return {shape, dtype, strides};
}

std::vector<Example> channel_norms(bool last) {
  const std::string variant = last ? " channels-last" : "";
  const Shape x{4, 16, 8, 8};
  auto operands = [=](std::size_t images, std::size_t vectors) {
    return [=](DType dtype) {
      Operands result(images, image(x, dtype, last));
      result.resize(images + vectors, {{16}, statistics_of(dtype)});
      return result;
    };
  };
  auto training = [](const Arrays& a) {
    const auto r = stiletto::batch_norm_training(a[0], a[1], a[2], a[3], a[4]);
    return Arrays{r.y, r.mean, r.inv_std, r.running_mean, r.running_variance};
  };
  auto backward = [](const Arrays& a) {
    const auto g = stiletto::batch_norm_backward(a[0], a[1], a[2], a[3], a[4]);
    return Arrays{g.dx, g.dscale, g.dbias};
  };
  return {{Op::batch_norm_training, variant, operands(1, 4), training},
          {Op::batch_norm_backward, variant, operands(2, 3), backward}};
}

std::vector<Example> convolutions(bool last) {
  const std::string order = last ? " channels-last" : "";
  const stiletto::ConvOptions same{.pre_padding = 1};
  const Shape x{2, 32, 14, 16}, w{64, 32, 3, 3}, y{2, 64, 14, 16};
  auto operands = [=](const Shape& a, const Shape& b) {
    return [=](DType dtype) { return Operands{image(a, dtype, last), image(b, dtype, last)}; };
  };
  auto conv = [=](const Arrays& a) { return Arrays{stiletto::conv(a[0], a[1], same)}; };
  auto by_data = [=](const Arrays& a) { return Arrays{stiletto::conv_backward_data(a[0], a[1], x, same)}; };
  auto by_filter = [=](const Arrays& a) {
    return Arrays{stiletto::conv_backward_filter(a[0], a[1], w, same)};
  };
  return {{Op::conv, order, operands(x, w), conv},
          {Op::conv, " of one spatial axis" + order, operands({2, 32, 64}, {64, 32, 3}), conv},
          {Op::conv, " of three spatial axes" + order, operands({2, 16, 6, 8, 8}, {32, 16, 3, 3, 3}), conv},
          {Op::conv, " in groups" + order, operands(x, {64, 16, 3, 3}), conv},
          {Op::conv, " depthwise" + order, operands(x, {32, 1, 3, 3}), conv},
          {Op::conv_backward_data, order, operands(y, w), by_data},
          {Op::conv_backward_filter, order, operands(y, x), by_filter}};
}

std::vector<Example> pools(bool last) {
  const std::string order = last ? " channels-last" : "";
  auto operands = [=](DType dtype) { return Operands{image({2, 32, 14, 16}, dtype, last)}; };
  return {
      {Op::max_pool, order, operands, [](const Arrays& a) { return Arrays{stiletto::max_pool(a[0], 2)}; }},
      {Op::avg_pool, order, operands, [](const Arrays& a) { return Arrays{stiletto::avg_pool(a[0], 2)}; }}};
}

// ---- block scaling, of matrices of 128 by 128

constexpr std::int64_t side = 128;

struct NamedFormat {
  const char* name;
  stiletto::BlockFormat format;
};

/// Alone, and of what a product computes.
std::vector<Example> quantizations() {
  std::vector<Example> result;
  for (const auto& [name, format] : {NamedFormat{"MXFP8 e4m3", stiletto::BlockFormat::mxfp8_e4m3},
                                     {"MXFP8 e5m2", stiletto::BlockFormat::mxfp8_e5m2},
                                     {"MXFP4", stiletto::BlockFormat::mxfp4},
                                     {"NVFP4", stiletto::BlockFormat::nvfp4}})
    for (const bool product : {false, true}) {
      auto operands = [product](DType dtype) { return Operands(product ? 2 : 1, {{side, side}, dtype}); };
      auto call = [product, to = format](const Arrays& a) {
        const auto q = stiletto::quantize(product ? stiletto::matmul(a[0], a[1]) : a[0], to, -1);
        return Arrays{q.elements(), q.scales()};
      };
      result.push_back(
          {Op::quantize, std::string(" to ") + name + (product ? " behind `matmul`" : ""), operands, call});
    }
  return result;
}

/// The dtype is that of the elements; MXFP8 and MXFP4 share what is not that.
std::vector<Example> dequantizations() {
  std::vector<Example> result;
  for (const bool mx : {true, false})
    for (const bool product : {false, true}) {
      auto operands = [=](DType dtype) {
        const ExampleOperand scales{{side * side / (mx ? 32 : 16)},
                                    mx ? DType::float8_e8m0 : DType::float8_e4m3};
        Operands list{{{side, side}, dtype}, scales};
        if (product) list.push_back({{side, side}, dtype, {1, side}});
        if (product) list.push_back(scales);
        return list;
      };
      auto call = [=](const Arrays& a) {
        const stiletto::BlockFormat format{a[0].dtype(), a[1].dtype(), mx ? 32 : 16};
        const auto array = [&](std::size_t i, int axis) {
          return stiletto::BlockscaledArray::from_parts(a[i], a[i + 1], {side, side}, format, axis);
        };
        return Arrays{product ? stiletto::matmul(array(0, -1), array(2, -2))
                              : stiletto::dequantize(array(0, -1))};
      };
      result.push_back(
          {Op::dequantize,
           std::string(mx ? " of MXFP8 or MXFP4" : " of NVFP4") + (product ? " before `matmul`" : ""),
           operands, call});
    }
  return result;
}

/// Heads lie before rows. v of float4 has to be adjacent along its rows, of float8 it lies as cuDNN wants it.
std::vector<Example> attention_of_blocks() {
  std::vector<Example> result;
  for (const bool mx : {true, false}) {
    const Shape shape{1, 4, 128, 64};
    auto operands = [=](DType dtype) {
      const bool turned = dtype == DType::float4_e2m1;
      const ExampleOperand rows{shape, dtype},
          values{shape, dtype, turned ? Strides{4 * 128 * 64, 128 * 64, 1, 128} : Strides{}};
      const DType scale = mx ? DType::float8_e8m0 : DType::float8_e4m3;
      const ExampleOperand row_scales{{4 * 128 * 4}, scale}, value_scales{{4 * 128 * (mx ? 4 : 8)}, scale};
      return Operands{rows, row_scales, rows, row_scales, values, value_scales};
    };
    auto call = [=](const Arrays& a) {
      const stiletto::BlockFormat format{a[0].dtype(), a[1].dtype(), mx ? 32 : 16};
      const auto array = [&](std::size_t i, int axis) {
        return stiletto::BlockscaledArray::from_parts(a[i], a[i + 1], shape, format, axis);
      };
      return Arrays{stiletto::attention(array(0, -1), array(2, -1), array(4, -2))};
    };
    result.push_back({Op::attention_blockscaled, mx ? " of MXFP8 or MXFP4" : " of NVFP4", operands, call});
  }
  return result;
}

std::vector<Example> parts() {
  auto alone = [](const Arrays& a) { return Arrays{stiletto::rms_norm_with_stats(a[0], a[1]).inv_rms}; };
  return {{Op::part, " of `rms_norm` alone", norm_operands(1, 1), alone}};
}

}  // namespace

std::string Example::name() const { return std::string("`") + row_of(op).name + "`" + variant; }

const std::vector<Example>& operation_examples() {
  static const auto& all = *new std::vector<Example>([] {
    std::vector<Example> result;
    for (std::vector<Example>& list :
         std::vector{leaves(), casts(), pointwise(), reductions_and_products(), attention_forward(),
                     attention_gradients(), attention_of_float8(), row_norms(), channel_norms(false),
                     channel_norms(true), convolutions(false), convolutions(true), pools(false), pools(true),
                     quantizations(), dequantizations(), attention_of_blocks(), parts(), layouts()})
      std::move(list.begin(), list.end(), std::back_inserter(result));
    std::stable_sort(result.begin(), result.end(),
                     [](const Example& a, const Example& b) { return a.op < b.op; });
    return result;
  }());
  return all;
}

}  // namespace support
