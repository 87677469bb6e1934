// SPDX-License-Identifier: Apache-2.0
// Plans of structured operations under options, and what is left of them in a file: nodes that the frontend
// expands have numbers and scratch memory of its own, which have to come back with the plan.
#include "backends/cudnn/frontend.hpp"
#include "backends/cudnn/lower.hpp"
#include "backends/cudnn/target.hpp"
#include "plans/fixture.hpp"
#include "support/frontend_graphs.hpp"
#include "unit/trace_support.hpp"

namespace {

using plans::Array;
using plans::CompileOptions;
using plans::DType;
using plans::on_h200;
using stiletto::AttentionOptions;
using stiletto::Causal;
using stiletto::spec;
using stiletto::Target;
using stiletto::UnsupportedGraphError;
namespace cudnn = stiletto::detail::cudnn;

constexpr DType f16 = DType::float16, f32 = DType::float32, i32 = DType::int32, i64 = DType::int64;

using Arrays = std::vector<Array>;

Arrays gradients(const Array& x, const Array& stats) {
  const auto g = stiletto::attention_backward(x, x, x, x, x, stats, {.causal = Causal::top_left});
  return {g.dq, g.dk, g.dv};
}

class StructuredPlans : public plans::PlanTest {
 protected:
  const Array x = spec({2, 128, 4, 64}, f16), stats = spec({2, 4, 128, 1}, f32);
};

// cuDNN adds to the gradient of q from many blocks at once; in order it takes the probabilities' gradients in
// scratch memory.
TEST_F(StructuredPlans, deterministic_gradients) {
  const Array a = spec({2, 512, 4, 64}, f16), sums = spec({2, 4, 512, 1}, f32);
  CompileOptions options = on_h200();
  const std::size_t at_once = stiletto::compile(options, gradients, a, sums).workspace();
  options.deterministic = true;
  const std::size_t in_order = stiletto::compile(options, gradients, a, sums).workspace();
  EXPECT_GE(in_order, std::size_t{2} * 4 * 512 * 512 * 2);
  EXPECT_LT(at_once, in_order);
  options.max_workspace = in_order - 1;  // another plan
  EXPECT_LT(stiletto::compile(options, gradients, a, sums).workspace(), in_order);
  options.max_workspace = in_order / 2;
  const UnsupportedGraphError error = plans::refusal(options, gradients, a, sums);
  EXPECT_EQ(error.excluded_by, "max_workspace") << error.what();
  options.deterministic = false;
  EXPECT_EQ(stiletto::compile(options, gradients, a, sums).workspace(), at_once);
}

// The sums over queries lie in scratch memory of the frontend's.
TEST_F(StructuredPlans, max_workspace) {
  CompileOptions options = on_h200();
  const std::size_t needed = stiletto::compile(options, gradients, x, stats).workspace();
  ASSERT_GT(needed, 0U);
  options.max_workspace = needed;
  EXPECT_EQ(stiletto::compile(options, gradients, x, stats).workspace(), needed);
  options.max_workspace = 0;
  const UnsupportedGraphError error = plans::refusal(options, gradients, x, stats);
  EXPECT_EQ(error.excluded_by, "max_workspace") << error.what();
}

/// The engine in the text of a graph.
std::string engine_of(const stiletto::Graph& graph) {
  const std::string text = graph.to_string();
  const std::size_t at = text.find("plan\n  cudnn ") + 13;
  return text.substr(at, text.find(',', at) - at);
}

// The engines that cuDNN puts first turn images round in scratch memory.
TEST_F(StructuredPlans, max_workspace_of_convolution) {
  auto f = [](const Array& a, const Array& w) { return stiletto::conv(a, w, {.pre_padding = 1}); };
  const Array a = spec({8, 64, 28, 28}, f16), w = spec({64, 64, 3, 3}, f16);
  CompileOptions options = on_h200();
  const auto unlimited = stiletto::compile(options, f, a, w);
  ASSERT_GT(unlimited.workspace(), 0U);
  options.max_workspace = unlimited.workspace();
  EXPECT_EQ(engine_of(stiletto::compile(options, f, a, w).graph()), engine_of(unlimited.graph()));
  options.max_workspace = 0;
  const auto without = stiletto::compile(options, f, a, w);
  EXPECT_EQ(without.workspace(), 0U);
  EXPECT_NE(engine_of(without.graph()), engine_of(unlimited.graph()));
}

// Without scratch memory, the first engine for gradients by filters adds to them in any order.
TEST_F(StructuredPlans, deterministic_convolution) {
  const Array d_y = spec({8, 64, 28, 28}, f16), a = spec({8, 64, 28, 28}, f16);
  auto f = [](const Array& d, const Array& x) {
    return stiletto::conv_backward_filter(d, x, {64, 64, 3, 3}, {.pre_padding = 1});
  };
  CompileOptions options = on_h200();
  options.max_workspace = 0;
  const auto in_any_order = stiletto::compile(options, f, d_y, a);
  options.deterministic = true;
  const auto in_order = stiletto::compile(options, f, d_y, a);
  EXPECT_NE(engine_of(in_order.graph()), engine_of(in_any_order.graph()));
  EXPECT_EQ(in_order.workspace(), 0U);
}

TEST_F(StructuredPlans, heuristics_of_one_mode) {
  auto f = [](const Array& a, const Array& w) { return stiletto::conv(a, w, {.pre_padding = 1}); };
  const Array a = spec({2, 32, 14, 16}, f16, {7168, 1, 512, 32}),
              w = spec({64, 32, 3, 3}, f16, {288, 1, 96, 32});
  CompileOptions options = on_h200();
  options.heuristics = {stiletto::Heuristic::a};
  EXPECT_EQ(stiletto::supports(options, f, a, w).explanation, "");
}

/// Builds the first plan of f's engine graph, restores it from its bytes, and compares the pointers that it
/// wants with the graph's tensors.
template <class F, class... Examples>
void expect_restored(F f, const Examples&... examples) {
  const auto lowered = unit::lower(CompileOptions{}, f, examples...);
  std::string refusal;
  const auto ways = cudnn::geometries(lowered.graph, refusal);
  const cudnn::EngineGraph engine = cudnn::lower(lowered.graph, ways.at(0));
  const Target target = Target::named("h200");
  const auto& properties = stiletto::detail::TargetAccess::properties(target);
  const CompileOptions none;
  const stiletto::detail::PlanOptions options(none);
  cudnn::Candidates candidates(engine, options, nullptr, &properties);
  const auto built = candidates.next();
  ASSERT_NE(built, nullptr) << candidates.reasons.at(0).reason;
  const std::string bytes = built->serialize();
  const auto graph = support::restored({bytes.begin(), bytes.end()}, properties.json, properties.sm);
  std::vector<std::int64_t> uids;
  for (std::size_t i = 0; i < engine.tensors.size(); ++i)
    if (engine.tensors[i].role != cudnn::EngineTensor::Role::intermediate) uids.push_back(cudnn::uid_of(i));
  EXPECT_EQ(support::uids_of(graph), uids) << engine.to_string();
}

TEST_F(StructuredPlans, restored_attention) {
  auto plain = [](const Array& a) { return stiletto::attention(a, a, a); };
  auto masked = [](const Array& a, const Array& lengths, const Array& bias) {
    const auto r = stiletto::attention_with_stats(a, a, a,
                                                  {.causal = Causal::top_left,
                                                   .seq_len_q = lengths,
                                                   .seq_len_kv = lengths,
                                                   .bias = bias,
                                                   .window = 32});
    return Arrays{r.out, r.stats};
  };
  expect_restored(plain, x);
  expect_restored(masked, x, spec({2}, i32), spec({1, 4, 128, 128}, f16));
  expect_restored(gradients, x, stats);
}

TEST_F(StructuredPlans, restored_attention_with_packed_sequences_pages_and_dropout) {
  const Array rows = spec({200, 4, 64}, f16), lengths = spec({2}, i32), offsets = spec({3}, i64);
  const auto packed = [](const Array& l, const Array& o) {
    AttentionOptions options{.causal = Causal::top_left, .seq_len_q = l, .seq_len_kv = l};
    options.packed = stiletto::PackedSequences{o, o, o, o, 128, 128};
    return options;
  };
  auto packed_forward = [packed](const Array& a, const Array& l, const Array& o) {
    const auto r = stiletto::attention_with_stats(a, a, a, packed(l, o));
    return Arrays{r.out, r.stats};
  };
  auto packed_gradients = [packed](const Array& a, const Array& s, const Array& l, const Array& o) {
    const auto g = stiletto::attention_backward(a, a, a, a, a, s, packed(l, o));
    return Arrays{g.dq, g.dk, g.dv};
  };
  expect_restored(packed_forward, rows, lengths, offsets);
  expect_restored(packed_gradients, rows, spec({2, 4, 128, 1}, f32), lengths, offsets);
  auto paged = [](const Array& q, const Array& pool, const Array& l, const Array& table) {
    return stiletto::attention(q, pool, pool,
                               {.seq_len_q = l, .seq_len_kv = l, .paged = stiletto::PagedKeys{table, table}});
  };
  expect_restored(paged, x, spec({9, 32, 4, 64}, f16), lengths, spec({2, 4}, i32));
  for (const double rate : {0.1, 0.0}) {  // with rate 0 nothing is drawn
    auto forward = [rate](const Array& a, const Array& draw) {
      return stiletto::attention(a, a, a, {.dropout = stiletto::AttentionDropout{rate, draw, draw}});
    };
    auto backward = [rate](const Array& a, const Array& s, const Array& draw) {
      const auto g = stiletto::attention_backward(a, a, a, a, a, s,
                                                  {.dropout = stiletto::AttentionDropout{rate, draw, draw}});
      return Arrays{g.dq, g.dk, g.dv};
    };
    expect_restored(forward, x, spec({1}, i64));
    expect_restored(backward, x, stats, spec({1}, i64));
  }
}

TEST_F(StructuredPlans, restored_attention_of_float8) {
  auto f = [](const Array& a, const Array& factor, const Array& lengths) {
    const auto r = stiletto::attention_float8(a, a, a, {factor, factor, factor, factor, factor, factor},
                                              {.seq_len_q = lengths, .seq_len_kv = lengths});
    return Arrays{r.out, r.amax_s, r.amax_out};
  };
  expect_restored(f, spec({2, 128, 4, 64}, DType::float8_e4m3), spec({1}, f32), spec({2}, i32));
}

TEST_F(StructuredPlans, restored_norms) {
  auto rms = [](const Array& a, const Array& s) { return stiletto::relu(stiletto::rms_norm(a, s)); };
  auto batch = [](const Array& a, const Array& c) {
    const auto r = stiletto::batch_norm_training(a, c, c, c, c);
    return Arrays{r.y, r.mean, r.inv_std, r.running_mean, r.running_variance};
  };
  expect_restored(rms, spec({32, 64}, f16), spec({64}, f16));
  expect_restored(batch, spec({4, 16, 8, 8}, f16, {1024, 1, 128, 16}), spec({16}, f32));
}

TEST_F(StructuredPlans, restored_convolution) {
  auto f = [](const Array& a, const Array& w, const Array& b) {
    return stiletto::relu(stiletto::conv(a, w, {.pre_padding = 1}) + b);
  };
  expect_restored(f, spec({2, 32, 14, 16}, f16, {7168, 1, 512, 32}),
                  spec({64, 32, 3, 3}, f16, {288, 1, 96, 32}), spec({64, 1, 1}, f16));
}

}  // namespace
