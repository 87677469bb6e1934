// SPDX-License-Identifier: Apache-2.0
// softmax(scale·q·kᵀ + bias)·v, tile by tile of keys: a row's sum is relative to the largest score so far and
// is corrected when a larger one comes (Milakov and Gimelshein, arXiv:1805.02867; Rabe and Staats,
// arXiv:2112.05682). Memory grows with panels and tiles. Tiles lie at multiples of their size, so a row's
// result depends neither on the rows computed with it nor on threads.
#include <cmath>
#include <limits>

#include "backends/cpu/attention_problem.hpp"
#include "core/parallel.hpp"

namespace stiletto::detail::cpu {
namespace {

constexpr std::int64_t most_panels = 8;  // that read a tile of keys while it is in the cache

template <class T>
struct PanelState {
  Panel<T> panel;
  T *q, *out;  // (width_qk, lanes) in units of log 2, (width_v, lanes)
  bool begun = false;
};

template <class T>
class ForwardBlock {
 public:
  ForwardBlock(const AttentionProblem& problem, std::span<const TensorView> results)
      : problem_(problem), out_(results[0]), stats_(results[1]) {}
  void run(std::int64_t batch_entry, std::int64_t head_kv, std::int64_t first_row, std::int64_t row_count);

 private:
  void begin(PanelState<T>& state, T* memory);
  void add_tile(PanelState<T>& state, const KeyRange& loaded, const T* k, const T* v);
  void finish(PanelState<T>& state);
  void finish_stats(const PanelState<T>& state);

  const AttentionProblem& problem_;
  const TensorView &out_, &stats_;
  const AttentionKernels<T>& kernels_ = attention_kernels<T>();
  std::int64_t step_k_ = step_of<T>(problem_.width_qk), step_v_ = step_of<T>(problem_.width_v);
};

template <class T>
void ForwardBlock<T>::begin(PanelState<T>& state, T* memory) {
  const std::int64_t lanes = state.panel.lanes;
  state.q = memory;
  state.out = memory + step_k_ * lanes;
  T* const rows = buffer<T>(Buffer::rows, (panel_lanes<T> + 1) * std::max(step_k_, step_v_));
  T* const factor = rows + lanes * step_k_;
  std::fill_n(factor, step_k_, static_cast<T>(problem_.scale * log2_e));
  state.panel.load(rows, problem_.q, problem_.q_rows);
  kernels_.transpose({rows, step_k_, state.q, lanes, lanes, step_k_, factor});
  state.panel.begin_sums(problem_);
}

template <class T>
void ForwardBlock<T>::add_tile(PanelState<T>& state, const KeyRange& loaded, const T* k, const T* v) {
  const KeyRange keys = state.panel.within(loaded.first - loaded.first % tile_keys);
  if (keys.empty()) return;
  const std::int64_t offset = keys.first - loaded.first;
  alignas(64) std::array<T, panel_lanes<T>> correction;
  const SoftmaxTile<T> tile{state.panel.scores(problem_, keys, k + offset * step_k_, state.q),
                            state.panel.maximum.data(), state.panel.sum.data(), correction.data()};
  kernels_.softmax(tile);
  if (problem_.dropout) kernels_.scale(tile.scores, state.panel.draw(problem_, keys), tile.keys * tile.lanes);
  add_values(tile, v + offset * step_v_, problem_.width_v, state.out, state.begun);
  state.begun = true;
}

template <class T>
void ForwardBlock<T>::finish_stats(const PanelState<T>& state) {
  if (stats_.data == nullptr) return;
  constexpr T infinity = std::numeric_limits<T>::infinity();
  for (std::size_t i = 0; i < static_cast<std::size_t>(state.panel.count); ++i) {
    const auto& lane = state.panel.lane[i];
    T log_sum = -infinity;
    if (!lane.seen.empty())
      log_sum = static_cast<T>(
          (static_cast<double>(state.panel.maximum[i]) + std::log2(static_cast<double>(state.panel.sum[i]))) *
          ln_2);
    else if (problem_.sink != nullptr && lane.inside)
      log_sum = static_cast<T>(float_at(*problem_.sink, lane.head * problem_.sink->strides[0]));
    store_row(stats_, element_offset(stats_, state.panel.batch_entry, lane.head, lane.query), &log_sum, 1);
  }
}

template <class T>
void ForwardBlock<T>::finish(PanelState<T>& state) {
  finish_stats(state);
  if (out_.data == nullptr) return;
  const Panel<T>& panel = state.panel;
  T* const rows = buffer<T>(Buffer::rows, (panel_lanes<T> + 1) * std::max(step_k_, step_v_));
  alignas(64) std::array<T, panel_lanes<T>> factor;
  for (std::size_t i = 0; i < factor.size(); ++i)  // 0 where a bias of −infinity hides every key
    factor[i] = state.panel.sum[i] == 0 ? T{0} : T{1} / state.panel.sum[i];
  if (state.begun)
    kernels_.transpose({state.out, panel.lanes, rows, step_v_, step_v_, panel.lanes, factor.data()});
  for (std::int64_t i = 0; i < panel.count; ++i) {
    const auto& lane = panel.lane[static_cast<std::size_t>(i)];
    if (problem_.packed() && !lane.inside) continue;
    T* const row = rows + i * step_v_;
    if (lane.seen.empty()) std::fill_n(row, problem_.width_v, T{0});
    store_row(out_, problem_.out_rows.offset(out_, panel.batch_entry, lane.query, lane.head), row,
              problem_.width_v);
  }
}

template <class T>
void ForwardBlock<T>::run(std::int64_t batch_entry, std::int64_t head_kv, std::int64_t first_row,
                          std::int64_t row_count) {
  std::array<PanelState<T>, most_panels> states;
  const std::int64_t panel_size = (step_k_ + step_v_) * panel_lanes<T>;
  T* const memory = buffer<T>(Buffer::panels, most_panels * panel_size);
  T* const k = buffer<T>(Buffer::keys, tile_keys * step_k_);
  T* const v = buffer<T>(Buffer::values, tile_keys * step_v_);
  KeyRange hull{problem_.keys, 0};
  std::size_t panels = 0;
  for (std::int64_t row = 0; row < row_count; row += panel_lanes<T>, ++panels) {
    PanelState<T>& state = states[panels];
    state.panel.place(problem_, batch_entry, head_kv, first_row + row,
                      std::min(panel_lanes<T>, row_count - row));
    begin(state, memory + static_cast<std::int64_t>(panels) * panel_size);
    if (state.panel.hull.empty()) continue;
    hull = {std::min(hull.first, state.panel.hull.first), std::max(hull.last, state.panel.hull.last)};
  }
  const std::span<PanelState<T>> used(states.data(), panels);
  for (std::int64_t tile = hull.first - hull.first % tile_keys; tile < hull.last; tile += tile_keys) {
    const KeyRange loaded{std::max(tile, hull.first), std::min(tile + tile_keys, hull.last)};
    load_keys(k, problem_.k, problem_.k_rows, batch_entry, head_kv, loaded);
    load_keys(v, problem_.v, problem_.v_rows, batch_entry, head_kv, loaded);
    const KeyRange next{loaded.last, std::min(loaded.last + tile_keys, hull.last)};
    KeyRange part{next.first, next.first};
    for (std::size_t i = 0; i < panels; ++i) {
      part = {part.last, next.first + (next.last - next.first) * static_cast<std::int64_t>(i + 1) /
                                          static_cast<std::int64_t>(panels)};
      prefetch_keys(problem_.k, problem_.k_rows, batch_entry, head_kv, part);
      prefetch_keys(problem_.v, problem_.v_rows, batch_entry, head_kv, part);
      add_tile(used[i], loaded, k, v);
    }
  }
  for (PanelState<T>& state : used) finish(state);
}

template <class T>
void run_forward(const AttentionProblem& problem, std::span<const TensorView> results) {
  const std::int64_t rows = problem.group * problem.queries, groups = problem.batch * problem.heads_kv;
  const auto blocks_of = [&](std::int64_t panels) {
    return (rows + panels * panel_lanes<T> - 1) / (panels * panel_lanes<T>);
  };
  std::int64_t panels = most_panels;
  while (panels > 1 && groups * blocks_of(panels) < 4 * static_cast<std::int64_t>(thread_count()))
    panels /= 2;
  const std::int64_t blocks = blocks_of(panels), block_rows = panels * panel_lanes<T>;
  parallel_for(static_cast<std::size_t>(groups * blocks), [&](std::size_t task) {
    const auto index = static_cast<std::int64_t>(task);
    const std::int64_t group = index / blocks, first_row = index % blocks * block_rows;
    ForwardBlock<T>(problem, results)
        .run(group / problem.heads_kv, group % problem.heads_kv, first_row,
             std::min(block_rows, rows - first_row));
  });
}

}  // namespace

void attention(const Attributes& attributes, std::span<const TensorView> operands,
               std::span<const TensorView> results) {
  const AttentionProblem problem(std::get<AttentionAttributes>(attributes), operands[0], operands[1],
                                 operands[2], operands[3], operands.subspan(4));
  if (problem.packed()) clear_rows(results[0]);
  with_computing_type(problem.q.dtype, [&](auto type) { run_forward<decltype(type)>(problem, results); });
}

}  // namespace stiletto::detail::cpu
