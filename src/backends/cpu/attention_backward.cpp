// SPDX-License-Identifier: Apache-2.0
// The gradients of attention: probabilities again from the rows' stats, tile by tile (Dao et al.,
// arXiv:2205.14135). With p the probabilities and delta a row's sum of d_out·out, d_scores =
// p·(v·d_out − delta). A task owns a head of k and v, and adds up the rows that see it in order; the bias's
// gradient has tasks of its own, which own its elements and add up what they are broadcast over.
#include <cmath>
#include <limits>

#include "backends/cpu/attention_problem.hpp"
#include "core/parallel.hpp"

namespace stiletto::detail::cpu {
namespace {

struct Operands {
  const TensorView &d_out, &out, &stats;
};

template <class T>
T dot(const T* a, const T* b, std::int64_t count) {  // up to a whole vector, where both are zero
  std::array<T, 8> sums{};
  for (std::int64_t i = 0; i < count; i += 8)
    for (std::size_t j = 0; j < sums.size(); ++j)
      sums[j] += a[i + static_cast<std::int64_t>(j)] * b[i + static_cast<std::int64_t>(j)];
  return ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7]));
}

/// The sum's logarithm by which a lane that sees nothing has probabilities 0.
template <class T>
constexpr T hidden = std::numeric_limits<T>::infinity();

/// A panel with what all its tiles need.
template <class T>
class GradientPanel {
 public:
  GradientPanel(const AttentionProblem& problem, const Operands& operands);
  void begin(std::int64_t batch_entry, std::int64_t head_kv, std::int64_t first_row, std::int64_t row_count);
  void set_log_sums(const T* k);  // k: all rows, from key 0 on
  GradientTile<T> tile(const KeyRange& keys, const T* k, const T* v);
  void add_to(const GradientTile<T>& tile, const T* k, T* d_k, T* d_v);
  void store_dq(const TensorView& dq);

  Panel<T> panel;

 private:
  void add_seen(const GradientTile<T>& tile, const T* k, T* d_k, T* d_v);

  const AttentionProblem& problem_;
  const Operands& operands_;
  const AttentionKernels<T>& kernels_ = attention_kernels<T>();
  std::int64_t step_k_ = step_of<T>(problem_.width_qk), step_v_ = step_of<T>(problem_.width_v);
  T *q_, *d_out_;                        // (lanes, width)
  T *q_transposed_, *d_out_transposed_;  // (width, lanes); q in units of log 2
  T *dq_, *rows_;
  bool finite_ = true, begun_ = false;
  alignas(64) std::array<T, panel_lanes<T>> log_sum_, delta_;
};

template <class T>
GradientPanel<T>::GradientPanel(const AttentionProblem& problem, const Operands& operands)
    : problem_(problem), operands_(operands) {
  constexpr std::int64_t lanes = panel_lanes<T>;
  q_ = buffer<T>(Buffer::panels, (3 * step_k_ + 2 * step_v_) * lanes);
  q_transposed_ = q_ + step_k_ * lanes;
  dq_ = q_transposed_ + step_k_ * lanes;
  d_out_ = dq_ + step_k_ * lanes;
  d_out_transposed_ = d_out_ + step_v_ * lanes;
  rows_ = buffer<T>(Buffer::rows, (lanes + 1) * std::max(step_k_, step_v_));
}

template <class T>
void GradientPanel<T>::begin(std::int64_t batch_entry, std::int64_t head_kv, std::int64_t first_row,
                             std::int64_t row_count) {
  panel.place(problem_, batch_entry, head_kv, first_row, row_count);
  begun_ = false;
  if (panel.hull.empty()) return;
  const std::int64_t lanes = panel.lanes;
  panel.load(q_, problem_.q, problem_.q_rows);
  panel.load(d_out_, operands_.d_out, problem_.out_rows);
  finite_ = kernels_.finite(q_, lanes * step_k_) && kernels_.finite(d_out_, lanes * step_v_);
  std::fill_n(rows_, step_k_, static_cast<T>(problem_.scale * log2_e));
  kernels_.transpose({q_, step_k_, q_transposed_, lanes, lanes, step_k_, rows_});
  kernels_.transpose({d_out_, step_v_, d_out_transposed_, lanes, lanes, step_v_, nullptr});
  panel.load(rows_, operands_.out, problem_.out_rows);
  log_sum_.fill(hidden<T>);
  delta_.fill(0);
  for (std::int64_t i = 0; i < panel.count; ++i) {
    const auto index = static_cast<std::size_t>(i);
    const auto& lane = panel.lane[index];
    if (lane.seen.empty()) continue;
    delta_[index] = dot(d_out_ + i * step_v_, rows_ + i * step_v_, step_v_);
    std::array<T, vector_lanes<T>> stats;
    load_row(stats.data(), operands_.stats,
             element_offset(operands_.stats, batch_entry, lane.head, lane.query), 1);
    if (stats[0] != -hidden<T>) log_sum_[index] = static_cast<T>(static_cast<double>(stats[0]) * log2_e);
  }
}

/// float64 is computed in float64, of which the stats keep too little.
template <class T>
void GradientPanel<T>::set_log_sums(const T* k) {
  if (sizeof(T) == sizeof(float) || operands_.stats.dtype == DType::float64) return;
  panel.begin_sums(problem_);
  alignas(64) std::array<T, panel_lanes<T>> correction;
  for (std::int64_t first = panel.hull.first; first < panel.hull.last; first += tile_keys) {
    const KeyRange keys{first, std::min(first + tile_keys, panel.hull.last)};
    const SoftmaxTile<T> tile{panel.scores(problem_, keys, k + first * step_k_, q_transposed_),
                              panel.maximum.data(), panel.sum.data(), correction.data()};
    kernels_.softmax(tile);
  }
  for (std::size_t i = 0; i < static_cast<std::size_t>(panel.count); ++i)
    if (!panel.lane[i].seen.empty())
      log_sum_[i] = panel.sum[i] == 0 ? hidden<T> : panel.maximum[i] + std::log2(panel.sum[i]);
}

/// d_scores of keys, the rows of k and v, and the probabilities that out was made of.
template <class T>
GradientTile<T> GradientPanel<T>::tile(const KeyRange& keys, const T* k, const T* v) {
  const GradientTile<T> tile{panel.scores(problem_, keys, k, q_transposed_),
                             buffer<T>(Buffer::tile_gradient, tile_keys * panel_lanes<T>), log_sum_.data(),
                             delta_.data()};
  kernels_.multiply({v, step_v_, d_out_transposed_, tile.lanes, tile.d_scores, tile.lanes, tile.keys,
                     tile.lanes, problem_.width_v});
  const std::int64_t count = tile.keys * tile.lanes;
  const T* const factors = problem_.dropout ? panel.draw(problem_, keys) : nullptr;
  if (factors != nullptr) kernels_.scale(tile.d_scores, factors, count);
  kernels_.gradient(tile);
  if (factors != nullptr) kernels_.scale(tile.scores, factors, count);
  return tile;
}

/// d_k and d_v are the rows of the tile's keys; d_k still lacks the factor scale.
template <class T>
void GradientPanel<T>::add_to(const GradientTile<T>& tile, const T* k, T* d_k, T* d_v) {
  const std::int64_t lanes = tile.lanes;
  if (tile.first != nullptr && !(finite_ && kernels_.finite(k, tile.keys * step_k_))) {
    add_seen(tile, k, d_k, d_v);
  } else {
    kernels_.multiply(
        {tile.scores, lanes, d_out_, step_v_, d_v, step_v_, tile.keys, step_v_, lanes, Start::old});
    kernels_.multiply(
        {tile.d_scores, lanes, q_, step_k_, d_k, step_k_, tile.keys, step_k_, lanes, Start::old});
    kernels_.multiply_transposed({k, step_k_, tile.d_scores, lanes, dq_, lanes, problem_.width_qk, lanes,
                                  tile.keys, begun_ ? Start::old : Start::zero});
  }
  begun_ = true;
}

/// What is not seen has probability 0, but 0·NaN is NaN: only what is seen takes part.
template <class T>
void GradientPanel<T>::add_seen(const GradientTile<T>& tile, const T* k, T* d_k, T* d_v) {
  const std::int64_t lanes = tile.lanes;
  if (!begun_) std::fill_n(dq_, step_k_ * lanes, T{0});
  for (std::int64_t lane = 0; lane < lanes; ++lane) {
    const auto last = static_cast<std::int64_t>(tile.last[lane]);
    for (auto key = static_cast<std::int64_t>(tile.first[lane]); key < last; ++key) {
      const T p = tile.scores[key * lanes + lane], d_score = tile.d_scores[key * lanes + lane];
      for (std::int64_t i = 0; i < problem_.width_v; ++i)
        d_v[key * step_v_ + i] += p * d_out_[lane * step_v_ + i];
      for (std::int64_t i = 0; i < problem_.width_qk; ++i) {
        d_k[key * step_k_ + i] += d_score * q_[lane * step_k_ + i];
        dq_[i * lanes + lane] += d_score * k[key * step_k_ + i];
      }
    }
  }
}

template <class T>
void GradientPanel<T>::store_dq(const TensorView& dq) {
  if (dq.data == nullptr) return;
  alignas(64) std::array<T, panel_lanes<T>> scale;
  scale.fill(static_cast<T>(problem_.scale));
  if (begun_) kernels_.transpose({dq_, panel.lanes, rows_, step_k_, step_k_, panel.lanes, scale.data()});
  for (std::int64_t i = 0; i < panel.count; ++i) {
    const auto& lane = panel.lane[static_cast<std::size_t>(i)];
    if (problem_.packed() && !lane.inside) continue;
    T* const row = rows_ + i * step_k_;
    if (lane.seen.empty()) std::fill_n(row, step_k_, T{0});
    store_row(dq, problem_.q_rows.offset(dq, panel.batch_entry, lane.query, lane.head), row,
              problem_.width_qk);
  }
}

/// Rows of dk or dv: those past `used` are zero, and up to `count`.
template <class T>
void store_keys(const TensorView& view, const SequenceRows& index, std::int64_t batch_entry,
                std::int64_t head_kv, T* rows, std::int64_t used, std::int64_t count, T factor) {
  if (view.data == nullptr) return;
  const std::int64_t width = view.shape[view.shape.size() - 1], step = step_of<T>(width);
  for (std::int64_t key = 0; key < count; ++key) {
    T* const row = key < used ? rows + key * step : buffer<T>(Buffer::rows, step);
    for (std::int64_t i = 0; i < width; ++i) row[i] = key < used ? row[i] * factor : T{0};
    store_row(view, index.offset(view, batch_entry, key, head_kv), row, width);
  }
}

template <class T>
void run_group(const AttentionProblem& problem, const Operands& operands, std::span<const TensorView> results,
               std::int64_t batch_entry, std::int64_t head_kv) {
  const std::int64_t step_k = step_of<T>(problem.width_qk), step_v = step_of<T>(problem.width_v);
  const KeyRange all{0, problem.keys_of(batch_entry)};
  const std::int64_t size_k = all.last * step_k, size_v = all.last * step_v;
  T *const k = buffer<T>(Buffer::keys, size_k), *const v = buffer<T>(Buffer::values, size_v);
  T *const d_k = buffer<T>(Buffer::d_keys, size_k), *const d_v = buffer<T>(Buffer::d_values, size_v);
  load_keys(k, problem.k, problem.k_rows, batch_entry, head_kv, all);
  load_keys(v, problem.v, problem.v_rows, batch_entry, head_kv, all);
  std::fill_n(d_k, size_k, T{0});
  std::fill_n(d_v, size_v, T{0});
  GradientPanel<T> panel(problem, operands);
  const std::int64_t rows = problem.group * problem.queries;
  for (std::int64_t row = 0; row < rows; row += panel_lanes<T>) {
    panel.begin(batch_entry, head_kv, row, std::min(panel_lanes<T>, rows - row));
    panel.set_log_sums(k);
    const KeyRange hull = panel.panel.hull;
    for (std::int64_t first = hull.first; first < hull.last; first += tile_keys) {
      const KeyRange keys{first, std::min(first + tile_keys, hull.last)};
      const T* const tile_k = k + first * step_k;
      const GradientTile<T> tile = panel.tile(keys, tile_k, v + first * step_v);
      panel.add_to(tile, tile_k, d_k + first * step_k, d_v + first * step_v);
    }
    panel.store_dq(results[0]);
  }
  const std::int64_t count = problem.packed() ? all.last : problem.keys;
  store_keys(results[1], problem.k_rows, batch_entry, head_kv, d_k, all.last, count,
             static_cast<T>(problem.scale));
  store_keys(results[2], problem.v_rows, batch_entry, head_kv, d_v, all.last, count, T{1});
}

/// Rows of the bias's gradient: `count` queries from `first_query` on, of one head of the bias.
template <class T>
class BiasRows {
 public:
  BiasRows(const AttentionProblem& problem, const Operands& operands, const TensorView& d_bias)
      : panel_(problem, operands), problem_(problem), d_bias_(d_bias) {}
  void run(std::int64_t bias_entry, std::int64_t bias_head, std::int64_t first_query, std::int64_t count);

 private:
  void add(std::int64_t batch_entry, std::int64_t head, std::int64_t first_query, std::int64_t count);
  void store(std::int64_t bias_entry, std::int64_t bias_head, std::int64_t first_query, std::int64_t count);

  GradientPanel<T> panel_;
  const AttentionProblem& problem_;
  const TensorView& d_bias_;
  T* sums_ = buffer<T>(Buffer::d_keys, round_up(problem_.keys, tile_keys) * panel_lanes<T>);  // (keys, lanes)
};

template <class T>
void BiasRows<T>::add(std::int64_t batch_entry, std::int64_t head, std::int64_t first_query,
                      std::int64_t count) {
  const std::int64_t step_k = step_of<T>(problem_.width_qk), step_v = step_of<T>(problem_.width_v);
  const std::int64_t head_kv = head / problem_.group;
  panel_.begin(batch_entry, head_kv, head % problem_.group * problem_.queries + first_query, count);
  const KeyRange hull = panel_.panel.hull;
  T* const k = buffer<T>(Buffer::keys, hull.last * step_k);
  T* const v = buffer<T>(Buffer::values, hull.last * step_v);
  load_keys(k + hull.first * step_k, problem_.k, problem_.k_rows, batch_entry, head_kv, hull);
  load_keys(v + hull.first * step_v, problem_.v, problem_.v_rows, batch_entry, head_kv, hull);
  panel_.set_log_sums(k);
  for (std::int64_t first = hull.first; first < hull.last; first += tile_keys) {
    const KeyRange keys{first, std::min(first + tile_keys, hull.last)};
    const GradientTile<T> tile = panel_.tile(keys, k + first * step_k, v + first * step_v);
    T* const sums = sums_ + first * tile.lanes;
    for (std::int64_t i = 0; i < tile.keys * tile.lanes; ++i) sums[i] += tile.d_scores[i];
  }
}

template <class T>
void BiasRows<T>::store(std::int64_t bias_entry, std::int64_t bias_head, std::int64_t first_query,
                        std::int64_t count) {
  const std::int64_t lanes = step_of<T>(count);
  T* const rows = buffer<T>(Buffer::tile, tile_keys * panel_lanes<T>);
  for (std::int64_t key = 0; key < problem_.keys; key += tile_keys) {
    attention_kernels<T>().transpose(
        {sums_ + key * lanes, lanes, rows, tile_keys, tile_keys, lanes, nullptr});
    for (std::int64_t i = 0; i < count; ++i)
      store_row(d_bias_,
                element_offset(d_bias_, bias_entry, bias_head, first_query + i) + key * d_bias_.strides[3],
                rows + i * tile_keys, std::min(tile_keys, problem_.keys - key));
  }
}

template <class T>
void BiasRows<T>::run(std::int64_t bias_entry, std::int64_t bias_head, std::int64_t first_query,
                      std::int64_t count) {
  std::fill_n(sums_, round_up(problem_.keys, tile_keys) * panel_lanes<T>, T{0});
  const std::int64_t entries = d_bias_.shape[0] == 1 ? problem_.batch : 1;
  const std::int64_t heads = d_bias_.shape[1] == 1 ? problem_.heads : 1;
  for (std::int64_t entry = bias_entry; entry < bias_entry + entries; ++entry)
    for (std::int64_t head = bias_head; head < bias_head + heads; ++head)
      add(entry, head, first_query, count);
  store(bias_entry, bias_head, first_query, count);
}

template <class T>
void run_bias(const AttentionProblem& problem, const Operands& operands, const TensorView& d_bias) {
  const std::int64_t panels = (problem.queries + panel_lanes<T> - 1) / panel_lanes<T>;
  parallel_for(static_cast<std::size_t>(d_bias.shape[0] * d_bias.shape[1] * panels), [&](std::size_t task) {
    const auto index = static_cast<std::int64_t>(task);
    const std::int64_t head = index / panels, first_query = index % panels * panel_lanes<T>;
    BiasRows<T>(problem, operands, d_bias)
        .run(head / d_bias.shape[1], head % d_bias.shape[1], first_query,
             std::min(panel_lanes<T>, problem.queries - first_query));
  });
}

/// The sink has probability exp(sink − stats) and no value: its d_score is −probability·delta.
template <class T>
void run_sink(const AttentionProblem& problem, const Operands& operands, const TensorView& d_sink) {
  const std::int64_t width = problem.width_v, step = step_of<T>(width);
  parallel_for(static_cast<std::size_t>(problem.heads), [&](std::size_t task) {
    const auto head = static_cast<std::int64_t>(task);
    const double sink = float_at(*problem.sink, head * problem.sink->strides[0]);
    T *const out = buffer<T>(Buffer::rows, 2 * step), *const d_out = out + step;
    std::array<double, vector_lanes<double>> stats;
    double sum = 0;
    for (std::int64_t entry = 0; entry < problem.batch; ++entry)
      for (std::int64_t query = 0; query < problem.queries; ++query) {
        if (problem.seen(entry, query).empty()) continue;
        const SequenceRows& rows = problem.out_rows;
        load_row(out, operands.out, rows.offset(operands.out, entry, query, head), width);
        load_row(d_out, operands.d_out, rows.offset(operands.d_out, entry, query, head), width);
        load_row(stats.data(), operands.stats, element_offset(operands.stats, entry, head, query), 1);
        sum -= std::exp(sink - stats[0]) * static_cast<double>(dot(out, d_out, step));
      }
    store_row(d_sink, head * d_sink.strides[0], &sum, 1);
  });
}

template <class T>
void run_backward(const AttentionProblem& problem, const Operands& operands,
                  std::span<const TensorView> results) {
  if (results[0].data != nullptr || results[1].data != nullptr || results[2].data != nullptr)
    parallel_for(static_cast<std::size_t>(problem.batch * problem.heads_kv), [&](std::size_t task) {
      const auto index = static_cast<std::int64_t>(task);
      run_group<T>(problem, operands, results, index / problem.heads_kv, index % problem.heads_kv);
    });
  if (problem.bias != nullptr && results[3].data != nullptr) run_bias<T>(problem, operands, results[3]);
  if (problem.sink != nullptr && results[4].data != nullptr) run_sink<T>(problem, operands, results[4]);
}

}  // namespace

void attention_backward(const Attributes& attributes, std::span<const TensorView> operands,
                        std::span<const TensorView> results) {
  const AttentionProblem problem(std::get<AttentionAttributes>(attributes), operands[1], operands[2],
                                 operands[3], operands[6], operands.subspan(7));
  const Operands rows{operands[0], operands[4], operands[5]};
  if (problem.packed())
    for (const TensorView& gradient : results.first(3)) clear_rows(gradient);
  with_computing_type(problem.q.dtype,
                      [&](auto type) { run_backward<decltype(type)>(problem, rows, results); });
}

}  // namespace stiletto::detail::cpu
