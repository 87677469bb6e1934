// SPDX-License-Identifier: Apache-2.0
// Mapping post-operations to oneDNN and trying each elementwise one out.
//
// What oneDNN 3.2 is refused with AVX-512, and why:
//   relu, clipped_relu   give 0 for NaN (one max instruction).
//   exp                  infinity for NaN.
//   gelu                 NaN for +∞, ∞ above 1.7e38.
//   gelu_tanh, silu      NaN for −∞.
//   softplus             −1.9e-6 at −20, where the result is 2e-9.
//   elu                  exp(x) − 1 cancels near 0: a relative error of 2e-5 at 1e-3.
//   log                  an absolute error of 1.4e-6 near 1; subnormals are taken for the smallest normal.
//   maximum, minimum     drop a NaN of the product.
//   divide, operand on the left: there is no reciprocal without a second rounding.
// Elementwise ones at the end of a chain are done by our own kernels then.
#include "backends/cpu/onednn_post.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <mutex>
#include <numbers>
#include <utility>

#include "graph/op_table.hpp"

namespace stiletto::detail::cpu {
namespace {

using dnnl::algorithm;

std::optional<PostLink> elementwise(Op op, double coefficient) {
  const auto c = static_cast<float>(coefficient);
  switch (op) {
    case Op::leaky_relu:
      return PostLink{algorithm::eltwise_relu, c, 0};
    case Op::relu:
      return PostLink{algorithm::eltwise_relu, 0, 0};
    case Op::clipped_relu:
      return PostLink{algorithm::eltwise_clip, 0, c};
    case Op::elu:
      return PostLink{algorithm::eltwise_elu, c, 0};
    case Op::softplus:
      return PostLink{algorithm::eltwise_soft_relu, 1, 0};
    case Op::sigmoid:
      return PostLink{algorithm::eltwise_logistic, 0, 0};
    case Op::silu:
      return PostLink{algorithm::eltwise_swish, 1, 0};
    case Op::gelu:
      return PostLink{algorithm::eltwise_gelu_erf, 0, 0};
    case Op::gelu_tanh:
      return PostLink{algorithm::eltwise_gelu_tanh, 0, 0};
    case Op::tanh:
      return PostLink{algorithm::eltwise_tanh, 0, 0};
    case Op::exp:
      return PostLink{algorithm::eltwise_exp, 0, 0};
    case Op::log:
      return PostLink{algorithm::eltwise_log, 0, 0};
    case Op::abs:
      return PostLink{algorithm::eltwise_abs, 0, 0};
    case Op::sqrt:
      return PostLink{algorithm::eltwise_sqrt, 0, 0};
    case Op::square:
      return PostLink{algorithm::eltwise_square, 0, 0};
    case Op::negate:
      return scaling(-1);
    default:
      return std::nullopt;
  }
}

double reference(Op op, double coefficient, double x) {
  switch (op) {
    case Op::leaky_relu:
      return x > 0 ? x : coefficient * x;
    case Op::relu:
      return x < 0 ? 0 : x;
    case Op::clipped_relu:
      return x < 0 ? 0 : x > coefficient ? coefficient : x;
    case Op::elu:
      return x > 0 ? x : coefficient * std::expm1(x);
    case Op::softplus:
      return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x));
    case Op::sigmoid:
      return 1 / (1 + std::exp(-x));
    case Op::silu:
      return x / (1 + std::exp(-x));
    case Op::gelu:
      return x / 2 * std::erfc(-x * std::numbers::sqrt2 / 2);
    case Op::gelu_tanh:
      return x /
             (1 + std::exp(-2 * std::numbers::sqrt2 * std::numbers::inv_sqrtpi * (x + 0.044715 * x * x * x)));
    case Op::tanh:
      return std::tanh(x);
    case Op::exp:
      return std::exp(x);
    case Op::log:
      return std::log(x);
    case Op::abs:
      return std::fabs(x);
    case Op::sqrt:
      return std::sqrt(x);
    case Op::square:
      return x * x;
    default:
      return -x;  // negate
  }
}

/// The tolerance is relative to the larger of the result and of the argument up to 1: a whole tensor of small
/// values has to come out right, but not the ever smaller values of gelu at −10.
bool is_right(Op op, double coefficient, float x, float got) {
  const auto want = static_cast<float>(reference(op, coefficient, x));
  if (std::isinf(x) && x < 0 && (op == Op::silu || op == Op::gelu || op == Op::gelu_tanh))
    return got == 0;  // as the CPU's own kernels have it; oneDNN's −∞·0 is NaN
  if (std::isnan(want)) return std::isnan(got);
  if (std::isinf(want)) return got == want;
  return std::fabs(got - want) <= 1e-6F * std::max(std::fabs(want), std::min(std::fabs(x), 1.0F));
}

std::vector<float> trial_values() {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  std::vector<float> values{std::numeric_limits<float>::quiet_NaN()};
  std::vector<float> magnitudes{0, 1e-40F, 1e-38F, 1e-20F, 1.01F, 3e38F, infinity};
  for (int quarter = -60; quarter <= 40; ++quarter)
    magnitudes.push_back(std::exp2(static_cast<float>(quarter) / 4));
  for (const float magnitude : magnitudes) values.insert(values.end(), {magnitude, -magnitude});
  return values;
}

/// Products of one term, x·1, so that the operation sees exactly the values; the columns are a whole vector
/// and a rest.
bool try_out(Op op, double coefficient, const PostLink& link) {
  constexpr std::int64_t columns = 19;
  std::vector<float> x = trial_values();
  std::vector<float> ones(columns, 1);
  const auto rows = static_cast<std::int64_t>(x.size());
  std::vector<float> result(x.size() * columns);
  const auto matrix = [](std::int64_t m, std::int64_t n) {
    return dnnl::memory::desc({m, n}, dnnl::memory::data_type::f32, dnnl::memory::dims{n, 1});
  };
  dnnl::post_ops post;
  post.append_eltwise(link.algorithm, link.alpha, link.beta);
  dnnl::primitive_attr attributes;
  attributes.set_post_ops(post);
  check_onednn_is_there();
  const OnednnOnOneThread alone;
  const auto done = unless_refused([&] {
    const dnnl::engine& engine = onednn_engine();
    const dnnl::matmul::primitive_desc description(engine, matrix(rows, 1), matrix(1, columns),
                                                   matrix(rows, columns), attributes);
    dnnl::memory a(description.src_desc(), engine, x.data()),
        b(description.weights_desc(), engine, ones.data());
    dnnl::memory c(description.dst_desc(), engine, result.data());
    dnnl::matmul(description)
        .execute(onednn_stream(), {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, c}});
    return true;
  });
  if (!done) return false;
  for (std::size_t i = 0; i < result.size(); ++i)
    if (!is_right(op, coefficient, x[i / columns], result[i])) return false;
  return true;
}

bool keeps_the_rules(Op op, double coefficient, const PostLink& link) {
  using Key = std::pair<Op, std::uint64_t>;
  static std::mutex& mutex =
      *new std::mutex;  // leaked, like the table: plans may be built while the process ends
  static std::map<Key, bool>& known = *new std::map<Key, bool>;
  const Key key{op, std::bit_cast<std::uint64_t>(coefficient)};
  const std::lock_guard lock(mutex);
  const auto found = known.find(key);
  if (found != known.end()) return found->second;
  return known[key] = try_out(op, coefficient, link);
}

/// Of bfloat16 only what commutes with rounding, because the product is rounded before: rounding is monotone,
/// and so is holding a value to bounds.
std::optional<OwnOperation> own_operation(const PostOperation& post, DType c) {
  if (c == DType::bfloat16 && post.op != Op::relu && post.op != Op::clipped_relu) return std::nullopt;
  const MapKernel kernel =
      kernels().map[static_cast<std::size_t>(post.op)][static_cast<std::size_t>(Register::f32)];
  if (row_of(post.op).arity != 1 || kernel == nullptr) return std::nullopt;
  return OwnOperation{kernel, post.coefficient};
}

bool append_binary(PostChain& chain, const PostOperation& post, std::size_t index) {
  const auto append = [&](algorithm a) { chain.links.push_back({a, 0, 0, true, index}); };
  switch (post.op) {
    case Op::add:
      append(algorithm::binary_add);
      return true;
    case Op::multiply:
      append(algorithm::binary_mul);
      return true;
    case Op::subtract:
      if (post.swapped) chain.links.push_back(scaling(-1));
      append(post.swapped ? algorithm::binary_add : algorithm::binary_sub);
      return true;
    case Op::divide:
      if (post.swapped) return false;
      append(algorithm::binary_div);
      return true;
    default:
      return false;
  }
}

}  // namespace

std::optional<PostChain> post_chain(std::span<const PostOperation> post, DType c) {
  PostChain chain;
  for (std::size_t i = 0; i < post.size(); ++i) {
    if (post[i].binary) {
      if (!chain.own.empty() || !append_binary(chain, post[i], i)) return std::nullopt;
      continue;
    }
    const auto link = elementwise(post[i].op, post[i].coefficient);
    if (chain.own.empty() && link && keeps_the_rules(post[i].op, post[i].coefficient, *link)) {
      chain.links.push_back(*link);
    } else if (const auto own = own_operation(post[i], c)) {
      chain.own.push_back(*own);
    } else {
      return std::nullopt;
    }
  }
  return chain;
}

}  // namespace stiletto::detail::cpu
