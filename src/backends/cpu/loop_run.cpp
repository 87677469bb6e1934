// SPDX-License-Identifier: Apache-2.0
// Running a loop: groups in parallel, phases of a group in order.
#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <limits>

#include "backends/cpu/block_program.hpp"
#include "core/parallel.hpp"

namespace stiletto::detail::cpu {
namespace {

template <class T>
void fill_identity(Combine combine, std::byte* accumulators, std::int64_t count) {
  constexpr bool real = std::numeric_limits<T>::has_infinity;
  const T highest = real ? std::numeric_limits<T>::infinity() : std::numeric_limits<T>::max();
  const T lowest = real ? -std::numeric_limits<T>::infinity() : std::numeric_limits<T>::lowest();
  const T identity = combine == Combine::sum    ? T(0)
                     : combine == Combine::prod ? T(1)
                     : combine == Combine::max  ? lowest
                                                : highest;
  std::fill_n(reinterpret_cast<T*>(accumulators), count, identity);
}

void start_accumulators(const Loop& loop, const Program& program, std::byte* area, std::int64_t rows) {
  for (const Accumulation& accumulation : program.accumulations) {
    const Reduction& r = loop.reductions[accumulation.reduction];
    std::byte* at = area + r.base;
    switch (r.accumulator) {
      case Register::f32:
        fill_identity<float>(r.combine, at, rows);
        break;
      case Register::f64:
        fill_identity<double>(r.combine, at, rows);
        break;
      case Register::i32:
        fill_identity<std::int32_t>(r.combine, at, rows);
        break;
      case Register::i64:
        fill_identity<std::int64_t>(r.combine, at, rows);
        break;
      case Register::b8:
        fill_identity<bool>(r.combine, at, rows);
        break;
    }
  }
}

/// Hands each running task a scratch area of its own.
class ScratchPool {
 public:
  explicit ScratchPool(std::size_t count)
      : free_(count >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << count) - 1) {}
  std::size_t take() {
    for (;;) {
      std::uint64_t free = free_.load(std::memory_order_relaxed);
      if (free == 0) continue;  // never for long: there are as many areas as threads
      const std::uint64_t lowest = free & (~free + 1);
      if (free_.compare_exchange_weak(free, free & ~lowest, std::memory_order_acquire))
        return static_cast<std::size_t>(std::countr_zero(lowest));
    }
  }
  void give(std::size_t area) { free_.fetch_or(std::uint64_t{1} << area, std::memory_order_release); }

 private:
  std::atomic<std::uint64_t> free_;
};

class LoopRun {
 public:
  LoopRun(const Loop& loop, const Invocation& invocation, std::byte* workspace, std::byte* areas)
      : loop_(loop),
        invocation_(invocation),
        workspace_(workspace),
        areas_(areas),
        pool_(std::min<std::size_t>(loop.tasks(), 64)) {}

  void run() {
    if (loop_.split == Split::chunks) return run_chunks();
    in_parallel(
        [&](std::size_t g, std::byte* scratch) { whole_group(static_cast<std::int64_t>(g), scratch); });
  }

 private:
  template <class F>
  void in_parallel(const F& f) {
    std::byte* scratch = areas_ + loop_.shared_bytes();
    if (loop_.groups == 1) return f(0, scratch);
    parallel_for(static_cast<std::size_t>(loop_.groups), [&](std::size_t g) {
      const std::size_t area = pool_.take();
      f(g, scratch + static_cast<std::int64_t>(area) * loop_.task_bytes());
      pool_.give(area);
    });
  }

  void run_program(const Program& program, const Group& group, bool rows, std::int64_t begin,
                   std::int64_t end) const {
    cpu::run_program(loop_, program, invocation_, workspace_, group, rows, begin, end);
  }

  void whole_group(std::int64_t g, std::byte* scratch) {
    const std::int64_t low = g * loop_.group, count = std::min(loop_.group, loop_.leading - low);
    const std::int64_t depth = loop_.size / loop_.leading, row_depth = loop_.kept_size / loop_.leading;
    std::array<std::int64_t, max_loop_axes> extents;
    std::copy(loop_.extents.begin(), loop_.extents.end(), extents.begin());
    Group group{scratch, scratch + loop_.block_bytes, scratch + loop_.block_bytes + loop_.accumulator_bytes,
                scratch + loop_.block_bytes + loop_.accumulator_bytes + loop_.row_bytes, extents.data()};
    std::int64_t begin = low * depth;
    std::int64_t rows_taken_off = low * row_depth;
    if (loop_.split == Split::columns) {
      extents[loop_.split_axis] = count;
      group.split_offset = low;
      begin = 0;
      rows_taken_off = 0;
    }
    const std::int64_t end = begin + count * depth;
    group.first = begin;
    for (const Phase& phase : loop_.phases) {
      start_accumulators(loop_, phase.full, group.accumulators, count * row_depth);
      group.row_base = rows_taken_off;
      run_program(phase.full, group, false, begin, end);
      group.row_base = low * row_depth;
      run_program(phase.row, group, true, low * row_depth, (low + count) * row_depth);
    }
  }

  void run_chunks() {
    std::byte* rows = areas_;
    std::byte* accumulators = areas_ + loop_.row_bytes;
    for (const Phase& phase : loop_.phases) {
      if (!phase.full.empty())
        in_parallel([&](std::size_t g, std::byte* scratch) {
          std::byte* own = accumulators + static_cast<std::int64_t>(g) * loop_.accumulator_bytes;
          start_accumulators(loop_, phase.full, own, loop_.kept_size);
          const Group group{scratch, own, rows, nullptr, loop_.extents.data()};
          const std::int64_t begin = static_cast<std::int64_t>(g) * loop_.group;
          run_program(phase.full, group, false, begin, std::min(begin + loop_.group, loop_.size));
        });
      for (const Accumulation& accumulation : phase.full.accumulations) merge(accumulation, accumulators);
      const Group group{areas_ + loop_.shared_bytes(), accumulators, rows, nullptr, loop_.extents.data()};
      run_program(phase.row, group, true, 0, loop_.kept_size);
    }
  }

  void merge(const Accumulation& accumulation, std::byte* accumulators) const {
    const Reduction& r = loop_.reductions[accumulation.reduction];
    const auto kernel =
        kernels().merge[static_cast<std::size_t>(r.combine)][static_cast<std::size_t>(r.accumulator)];
    for (std::int64_t g = 1; g < loop_.groups; ++g)
      kernel(accumulators + r.base, accumulators + g * loop_.accumulator_bytes + r.base,
             static_cast<std::size_t>(loop_.kept_size));
  }

  const Loop& loop_;
  const Invocation& invocation_;
  std::byte* workspace_;
  std::byte* areas_;
  ScratchPool pool_;
};

}  // namespace

bool runs_by_parts(const Loop& loop) {
  return loop.reductions.empty() && loop.split != Split::columns && loop.phases.size() == 1 &&
         loop.phases[0].row.empty();
}

void run_loop(const Loop& loop, const Invocation& invocation, std::byte* workspace, std::byte* areas) {
  LoopRun(loop, invocation, workspace, areas).run();
}

}  // namespace stiletto::detail::cpu
