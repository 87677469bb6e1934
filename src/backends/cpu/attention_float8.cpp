// SPDX-License-Identifier: Apache-2.0
// Attention in float8. What is rounded between the products are the probabilities themselves, so that their
// denominators have to be known first: the keys are read twice.
#include <array>
#include <cmath>

#include "backends/cpu/attention_problem.hpp"
#include "backends/cpu/kernels.hpp"
#include "core/parallel.hpp"

namespace stiletto::detail::cpu {
namespace {

constexpr std::int64_t full = panel_lanes<float>;

struct Factors {
  float scores;           // of q·k, in units of log 2
  float scale_s, values;  // of probabilities, and of what they give with v
  float scale_out;
  std::size_t dtype;  // that probabilities are rounded to
};

struct Maxima {
  float s = 0, out = 0;
  void add(const Maxima& other) { s = larger(s, other.s), out = larger(out, other.out); }
  static float larger(float a, float b) { return b > a || b != b ? b : a; }  // NaN is kept
};

class Float8Block {
 public:
  Float8Block(const AttentionProblem& problem, const Factors& factors, std::span<const TensorView> results)
      : problem_(problem), factors_(factors), out_(results[0]), stats_(results[1]) {
    const std::int64_t widest = std::max(step_k_, step_v_);
    rows_ = buffer<float>(Buffer::rows, (full + 1) * widest);
    q_ = buffer<float>(Buffer::panels, full * (step_k_ + step_v_));
    sums_ = q_ + full * step_k_;
    k_ = buffer<float>(Buffer::keys, tile_keys * step_k_);
    v_ = buffer<float>(Buffer::values, tile_keys * step_v_);
    rounded_ = thread_buffer(Buffer::tile_gradient, tile_keys * full);
  }
  Maxima run(std::int64_t batch_entry, std::int64_t head_kv, std::int64_t first_row, std::int64_t row_count);

 private:
  void load_queries();
  SoftmaxTile<float> exponentials(const KeyRange& keys, float* sum, float* correction);
  void find_denominators();
  void round_probabilities(const SoftmaxTile<float>& tile);
  void add_products();
  void finish();
  void finish_stats();
  template <class F>
  void each_tile(F f);

  const AttentionProblem& problem_;
  const Factors& factors_;
  const TensorView &out_, &stats_;
  const AttentionKernels<float>& kernels_ = attention_kernels<float>();
  std::int64_t step_k_ = step_of<float>(problem_.width_qk), step_v_ = step_of<float>(problem_.width_v);
  float *rows_, *q_, *sums_, *k_, *v_;  // q_, sums_: (width, lanes)
  std::byte* rounded_;
  Panel<float> panel_;
  Maxima maxima_;
  alignas(64) std::array<float, full> inverse_;  // of the denominators
};

template <class F>
void Float8Block::each_tile(F f) {
  for (std::int64_t first = panel_.hull.first - panel_.hull.first % tile_keys; first < panel_.hull.last;
       first += tile_keys)
    f(panel_.within(first));
}

void Float8Block::load_queries() {
  float* const factor = rows_ + panel_.lanes * step_k_;
  std::fill_n(factor, step_k_, factors_.scores);
  panel_.load(rows_, problem_.q, problem_.q_rows);
  kernels_.transpose({rows_, step_k_, q_, panel_.lanes, panel_.lanes, step_k_, factor});
}

SoftmaxTile<float> Float8Block::exponentials(const KeyRange& keys, float* sum, float* correction) {
  const std::int64_t head_kv = panel_.lane[0].head / problem_.group;
  load_keys(k_, problem_.k, problem_.k_rows, panel_.batch_entry, head_kv, keys);
  const SoftmaxTile<float> tile{panel_.scores(problem_, keys, k_, q_), panel_.maximum.data(), sum,
                                correction};
  kernels_.softmax(tile);
  return tile;
}

void Float8Block::find_denominators() {
  alignas(64) std::array<float, full> correction;
  panel_.begin_sums(problem_);
  each_tile([&](const KeyRange& keys) { exponentials(keys, panel_.sum.data(), correction.data()); });
  for (std::size_t i = 0; i < inverse_.size(); ++i)
    inverse_[i] = panel_.sum[i] == 0 ? 0.0F : 1.0F / panel_.sum[i];
}

/// Exponentials become the probabilities that are stored.
void Float8Block::round_probabilities(const SoftmaxTile<float>& tile) {
  for (std::int64_t key = 0; key < tile.keys; ++key) {
    float* const row = tile.scores + key * tile.lanes;
    for (std::size_t i = 0; i < static_cast<std::size_t>(tile.lanes); ++i) row[i] *= inverse_[i];
    for (std::size_t i = 0; i < static_cast<std::size_t>(panel_.count); ++i)
      if (!panel_.lane[i].seen.empty()) maxima_.s = Maxima::larger(maxima_.s, row[i]);
    for (std::size_t i = 0; i < static_cast<std::size_t>(tile.lanes); ++i) row[i] *= factors_.scale_s;
  }
  constexpr auto f32 = static_cast<std::size_t>(Register::f32);
  const auto count = static_cast<std::size_t>(tile.keys * tile.lanes);
  kernels().store[f32][factors_.dtype](rounded_, tile.scores, count);
  kernels().load[factors_.dtype][f32](tile.scores, rounded_, count);
}

void Float8Block::add_products() {
  alignas(64) std::array<float, full> sum, correction, ones;
  ones.fill(1);
  const std::int64_t head_kv = panel_.lane[0].head / problem_.group;
  bool begun = false;
  each_tile([&](const KeyRange& keys) {
    sum.fill(0);
    SoftmaxTile<float> tile = exponentials(keys, sum.data(), correction.data());
    tile.correction = ones.data();
    round_probabilities(tile);
    load_keys(v_, problem_.v, problem_.v_rows, panel_.batch_entry, head_kv, keys);
    add_values(tile, v_, problem_.width_v, sums_, begun);
    begun = true;
  });
}

void Float8Block::finish_stats() {
  if (stats_.data == nullptr) return;
  for (std::size_t i = 0; i < static_cast<std::size_t>(panel_.count); ++i) {
    const auto& lane = panel_.lane[i];
    float log_sum = -std::numeric_limits<float>::infinity();
    if (!lane.seen.empty())
      log_sum = static_cast<float>(
          (static_cast<double>(panel_.maximum[i]) + std::log2(static_cast<double>(panel_.sum[i]))) * ln_2);
    store_row(stats_, element_offset(stats_, panel_.batch_entry, lane.head, lane.query), &log_sum, 1);
  }
}

void Float8Block::finish() {
  alignas(64) std::array<float, full> factor;
  factor.fill(factors_.values);
  if (!panel_.hull.empty())
    kernels_.transpose({sums_, panel_.lanes, rows_, step_v_, step_v_, panel_.lanes, factor.data()});
  for (std::int64_t i = 0; i < panel_.count; ++i) {
    const auto& lane = panel_.lane[static_cast<std::size_t>(i)];
    float* const row = rows_ + i * step_v_;
    if (lane.seen.empty()) std::fill_n(row, problem_.width_v, 0.0F);
    for (std::int64_t e = 0; e < problem_.width_v; ++e) {
      maxima_.out = Maxima::larger(maxima_.out, std::fabs(row[e]));
      row[e] *= factors_.scale_out;
    }
    if (out_.data != nullptr)
      store_row(out_, problem_.out_rows.offset(out_, panel_.batch_entry, lane.query, lane.head), row,
                problem_.width_v);
  }
}

Maxima Float8Block::run(std::int64_t batch_entry, std::int64_t head_kv, std::int64_t first_row,
                        std::int64_t row_count) {
  panel_.place(problem_, batch_entry, head_kv, first_row, row_count);
  if (!panel_.hull.empty()) {
    load_queries();
    find_denominators();
    add_products();
  }
  finish_stats();
  finish();
  return maxima_;
}

void store_maximum(const TensorView& view, float value) {
  if (view.data != nullptr) store_row(view, 0, &value, 1);
}

}  // namespace

void attention_float8(const Attributes& attributes, std::span<const TensorView> operands,
                      std::span<const TensorView> results) {
  const AttentionProblem problem(std::get<AttentionAttributes>(attributes), operands[0], operands[1],
                                 operands[2], operands[3], operands.subspan(10));
  const auto factor = [&](std::size_t operand) { return float_at(operands[operand], 0); };
  const float descale_q = factor(4), descale_k = factor(5), descale_v = factor(6), descale_s = factor(7);
  const Factors factors{static_cast<float>(problem.scale * log2_e * static_cast<double>(descale_q) *
                                           static_cast<double>(descale_k)),
                        factor(8), descale_s * descale_v, factor(9),
                        static_cast<std::size_t>(problem.q.dtype)};
  const std::int64_t rows = problem.group * problem.queries;
  const std::int64_t blocks = (rows + full - 1) / full, tasks = problem.batch * problem.heads_kv * blocks;
  auto* const maxima = reinterpret_cast<Maxima*>(
      thread_buffer(Buffer::maxima, static_cast<std::size_t>(tasks) * sizeof(Maxima)));
  parallel_for(static_cast<std::size_t>(tasks), [&](std::size_t task) {
    const std::int64_t index = static_cast<std::int64_t>(task), group = index / blocks;
    const std::int64_t first_row = index % blocks * full;
    maxima[task] = Float8Block(problem, factors, results)
                       .run(group / problem.heads_kv, group % problem.heads_kv, first_row,
                            std::min(full, rows - first_row));
  });
  Maxima all;
  for (std::int64_t i = 0; i < tasks; ++i) all.add(maxima[i]);
  store_maximum(results[2], all.s);
  store_maximum(results[3], all.out);
}

}  // namespace stiletto::detail::cpu
