// SPDX-License-Identifier: Apache-2.0
// Running a loop: groups in parallel, phases of a group in order, blocks of a phase in order.
#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstring>
#include <limits>

#include "backends/cpu/loop.hpp"
#include "core/dtype_info.hpp"
#include "core/float_bits.hpp"
#include "core/parallel.hpp"

namespace stiletto::detail::cpu {
namespace {

constexpr std::size_t max_axes = 64;

/// Where one group's areas lie, and what part of the space it is.
struct Group {
  std::byte* blocks;
  std::byte* accumulators;
  std::byte* rows;
  std::byte* cache;
  const std::int64_t* extents;    // of the space, the split axis restricted
  std::int64_t split_offset = 0;  // first index of the split axis
  std::int64_t row_base = 0;      // kept index of the group's first row, taken off row positions
  std::int64_t first = 0;         // element of the space with which the group's cache begins
};

/// A position in the space, advanced segment by segment along the innermost axis.
class Walk {
 public:
  Walk(const std::int64_t* extents, std::size_t rank) : extents_(extents), rank_(rank) {}
  void seek(std::int64_t p) {
    for (std::size_t i = rank_; i-- > 0;) {
      start_[i] = p % extents_[i];
      p /= extents_[i];
    }
  }
  /// Calls f(done, offset, length, inner stride) for the segments of n elements from the position sought.
  template <class F>
  void segments(const Access& access, std::size_t n, const F& f) const {
    const std::size_t inner = rank_ - 1;
    std::array<std::int64_t, max_axes> at;
    std::int64_t offset = 0;
    for (std::size_t i = 0; i < rank_; ++i) {
      at[i] = start_[i];
      offset += at[i] * access.strides[i];
    }
    for (std::size_t done = 0; done < n;) {
      const std::size_t length = std::min(n - done, static_cast<std::size_t>(extents_[inner] - at[inner]));
      f(done, offset, length, access.strides[inner]);
      done += length;
      offset += static_cast<std::int64_t>(length) * access.strides[inner];
      at[inner] += static_cast<std::int64_t>(length);
      for (std::size_t i = inner; at[i] == extents_[i] && i > 0; --i) {
        offset += access.strides[i - 1] - extents_[i] * access.strides[i];
        at[i] = 0;
        ++at[i - 1];
      }
    }
  }

 private:
  const std::int64_t* extents_;
  std::size_t rank_;
  std::array<std::int64_t, max_axes> start_{};
};

std::size_t rounded(std::size_t n) { return (n + lane_group - 1) / lane_group * lane_group; }

class ProgramRun {
 public:
  ProgramRun(const Loop& loop, const Program& program, const Invocation& invocation, std::byte* workspace,
             const Group& group, bool rows)
      : loop_(loop),
        program_(program),
        invocation_(invocation),
        workspace_(workspace),
        group_(group),
        rows_(rows) {}

  /// Elements [begin, end) of the space, or of the kept space.
  void run(std::int64_t begin, std::int64_t end) {
    if (program_.empty() || begin >= end) return;
    std::array<std::int64_t, max_axes> kept_extents;
    std::size_t rank = loop_.axes.size();
    const std::int64_t* extents = group_.extents;
    if (rows_) {
      rank = 0;
      for (std::size_t i = 0; i < loop_.axes.size(); ++i)
        if (loop_.row_strides[i] != 0) kept_extents[rank++] = loop_.extents[i];
      extents = kept_extents.data();
    }
    Walk walk(extents, rank);
    walk_ = &walk;
    fill_constants(static_cast<std::size_t>(std::min<std::int64_t>(end - begin, block_size)));
    for (p_ = begin; p_ < end; p_ += block_size) {
      n_ = static_cast<std::size_t>(std::min<std::int64_t>(end - p_, block_size));
      padded_ = rounded(n_);
      walk.seek(p_);
      block();
    }
  }

 private:
  std::byte* raw() const { return group_.blocks; }
  std::byte* raw_wide() const { return group_.blocks + block_size * 8; }

  std::byte* address(const Memory& memory) const {
    const std::int64_t restricted = !rows_ && loop_.split == Split::columns
                                        ? group_.split_offset * memory.strides[loop_.axes[loop_.split_axis]]
                                        : 0;
    return memory.address(invocation_, workspace_) + byte_offset(memory.dtype, restricted);
  }

  void fill_constants(std::size_t n) {
    for (std::size_t i = 0; i < program_.slots.size(); ++i) {
      const Slot& slot = program_.slots[i];
      if (slot.kind != Slot::Kind::constant) continue;
      const ScalarValue value =
          slot.literal ? ScalarValue::of(slot.number) : invocation_.scalars[slot.source];
      const double real = value.as_double();
      const std::int64_t integer =
          value.kind == ScalarValue::Kind::real ? static_cast<std::int64_t>(real) : value.integer;
      alignas(8) std::byte bytes[8];
      auto put = [&](auto v) { std::memcpy(bytes, &v, sizeof v); };
      switch (slot.reg) {
        case Register::f32:
          put(static_cast<float>(real));
          break;
        case Register::f64:
          put(real);
          break;
        case Register::i32:
          put(static_cast<std::int32_t>(integer));
          break;
        case Register::i64:
          put(integer);
          break;
        case Register::b8:
          put(real != 0);
          break;
      }
      std::byte* block = group_.blocks + slot.block;
      kernels().fill[static_cast<std::size_t>(slot.reg)](block, bytes, rounded(n));
      set(i, block);
    }
  }

  void set(std::size_t slot, void* pointer) { pointers_[slot] = pointer; }

  void block() {
    for (const Instruction& instruction : program_.code) {
      const Slot& out = program_.slots[instruction.out];
      if (instruction.kind == Instruction::Kind::load) {
        set(instruction.out, load(out));
        continue;
      }
      std::array<const void*, 3> in{};
      for (std::size_t i = 0; i < instruction.arity; ++i) in[i] = pointers_[instruction.in[i]];
      void* to = destination(out);
      if (instruction.kind == Instruction::Kind::map) {
        instruction.map(to, in.data(), padded_, instruction.coefficient);
      } else if (instruction.kind == Instruction::Kind::convert) {
        instruction.convert(to, in[0], padded_);
      } else {
        instruction.narrow(raw(), in[0], padded_);
        instruction.widen(to, raw(), padded_);
      }
      set(instruction.out, to);
    }
    for (const Accumulation& accumulation : program_.accumulations) accumulate(accumulation);
    for (const StoreTarget& target : program_.stores) store(target);
  }

  /// Kernels write whole lane groups: only a full block may be computed in the caller's memory.
  void* destination(const Slot& slot) {
    if (slot.cached)
      return group_.cache + slot.buffer + (p_ - group_.first) * static_cast<std::int64_t>(bytes_of(slot.reg));
    if (slot.direct_store < 0 || padded_ != n_) return group_.blocks + slot.block;
    const StoreTarget& target = program_.stores[static_cast<std::size_t>(slot.direct_store)];
    return address(loop_.memories[target.memory]) + p_ * static_cast<std::int64_t>(bytes_of(slot.reg));
  }

  void* load(const Slot& slot) {
    std::byte* block = group_.blocks + slot.block;
    std::int64_t position =
        p_;  // of the block's first element, where the memory is walked in the space's own order
    std::byte* base = nullptr;
    switch (slot.kind) {
      case Slot::Kind::cache:
        return group_.cache + slot.buffer +
               (p_ - group_.first) * static_cast<std::int64_t>(bytes_of(slot.reg));
      case Slot::Kind::accumulator:
        base = group_.accumulators + slot.buffer;
        position -= group_.row_base;
        break;
      case Slot::Kind::row:
        base = group_.rows + slot.buffer - (rows_ ? 0 : group_.row_base * slot.element);
        if (rows_) position -= group_.row_base;
        break;
      default:
        base = address(loop_.memories[slot.memory]);
    }
    if (slot.element == 0) return load_packed(slot, base, block);
    if (slot.access.linear) {
      std::byte* from = base + position * slot.element;
      if (slot.load != nullptr) {
        slot.load(block, from, n_);
        return block;
      }
      if (padded_ == n_) return from;
      std::memcpy(block, from, n_ * static_cast<std::size_t>(slot.element));
      return block;
    }
    std::byte* gathered = slot.load == nullptr ? block : raw();
    const auto gather = kernels().gather[std::countr_zero(static_cast<std::size_t>(slot.element))];
    if (slot.access.constant)
      gather(gathered, base, 0, n_);
    else
      walk_->segments(slot.access, n_,
                      [&](std::size_t done, std::int64_t offset, std::size_t length, std::int64_t stride) {
                        gather(gathered + done * static_cast<std::size_t>(slot.element),
                               base + offset * slot.element, stride, length);
                      });
    if (slot.load != nullptr) slot.load(block, gathered, n_);
    return block;
  }

  /// float4_e2m1: whole bytes at a time where the order allows, else element by element.
  void* load_packed(const Slot& slot, const std::byte* base, std::byte* block) {
    if (slot.access.linear) {
      slot.load(block, base + p_ / 2, n_);
      return block;
    }
    const std::size_t size = bytes_of(slot.reg);
    auto one = [&](std::size_t i, std::int64_t offset) {
      const auto packed = static_cast<std::uint32_t>(base[offset >> 1]);
      const float value = decode<e2m1_format>((offset & 1) == 0 ? packed & 15U : packed >> 4U);
      const auto wide = static_cast<double>(value);
      std::memcpy(block + i * size, size == 4 ? static_cast<const void*>(&value) : &wide, size);
    };
    walk_->segments(slot.access, n_,
                    [&](std::size_t done, std::int64_t offset, std::size_t length, std::int64_t stride) {
                      for (std::size_t i = 0; i < length; ++i)
                        one(done + i, offset + static_cast<std::int64_t>(i) * stride);
                    });
    return block;
  }

  void accumulate(const Accumulation& accumulation) {
    const Reduction& r = loop_.reductions[accumulation.reduction];
    const auto combine = static_cast<std::size_t>(r.combine), input = static_cast<std::size_t>(r.input);
    const auto size = static_cast<std::int64_t>(bytes_of(r.accumulator));
    const auto* v = static_cast<const std::byte*>(pointers_[accumulation.slot]);
    std::byte* base = group_.accumulators + r.base - group_.row_base * size;
    const ReduceKernel reduce = kernels().reduce[combine][input];
    const AccumulateKernel each = kernels().accumulate[combine][input];
    const Access access{loop_.row_strides};
    walk_->segments(
        access, n_, [&](std::size_t done, std::int64_t offset, std::size_t length, std::int64_t stride) {
          (stride == 0 ? reduce : each)(base + offset * size, v + done * bytes_of(r.input), length);
        });
  }

  void store(const StoreTarget& target) {
    const void* from = pointers_[target.slot];
    const Slot& slot = program_.slots[target.slot];
    if (target.row >= 0) {
      const std::size_t size = bytes_of(slot.reg);
      std::byte* to = group_.rows + target.row + (p_ - group_.row_base) * static_cast<std::int64_t>(size);
      std::memcpy(to, from, n_ * size);
      return;
    }
    std::byte* base = address(loop_.memories[target.memory]);
    if (target.access.linear) {
      std::byte* to = base + byte_offset(target.dtype, p_);
      if (to != from) target.store(to, from, n_);
      return;
    }
    if (target.dtype == DType::float4_e2m1) return store_packed(target, base, from);
    const auto element = static_cast<std::size_t>(bits_of(target.dtype) / 8);
    const auto* values = static_cast<const std::byte*>(from);
    if (!target.native) {
      target.store(raw_wide(), from, n_);
      values = raw_wide();
    }
    const auto scatter = kernels().scatter[std::countr_zero(element)];
    walk_->segments(target.access, n_,
                    [&](std::size_t done, std::int64_t offset, std::size_t length, std::int64_t stride) {
                      scatter(base + offset * static_cast<std::int64_t>(element), stride,
                              values + done * element, length);
                    });
  }

  void store_packed(const StoreTarget& target, std::byte* base, const void* from) {
    target.store(raw_wide(), from, n_);
    auto code = [&](std::size_t i) {
      const auto packed = static_cast<unsigned>(raw_wide()[i / 2]);
      return i % 2 == 0 ? packed & 15U : packed >> 4U;
    };
    walk_->segments(target.access, n_,
                    [&](std::size_t done, std::int64_t offset, std::size_t length, std::int64_t stride) {
                      for (std::size_t i = 0; i < length; ++i) {
                        const std::int64_t at = offset + static_cast<std::int64_t>(i) * stride;
                        const auto old = static_cast<unsigned>(base[at >> 1]);
                        const unsigned merged = (at & 1) == 0 ? (old & 0xF0U) | code(done + i)
                                                              : (old & 15U) | code(done + i) << 4U;
                        base[at >> 1] = static_cast<std::byte>(merged);
                      }
                    });
  }

  const Loop& loop_;
  const Program& program_;
  const Invocation& invocation_;
  std::byte* workspace_;
  const Group& group_;
  bool rows_;
  Walk* walk_ = nullptr;
  std::int64_t p_ = 0;
  std::size_t n_ = 0, padded_ = 0;
  void** pointers_ = nullptr;

 public:
  void use(void** pointers) { pointers_ = pointers; }
};

// ---- groups
// ---------------------------------------------------------------------------------------------------------

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
                   std::int64_t end) {
    constexpr std::size_t inline_slots = 64;
    std::array<void*, inline_slots> few;
    std::vector<void*> many;
    ProgramRun code(loop_, program, invocation_, workspace_, group, rows);
    if (program.slots.size() > inline_slots) many.resize(program.slots.size());
    code.use(many.empty() ? few.data() : many.data());
    code.run(begin, end);
  }

  void whole_group(std::int64_t g, std::byte* scratch) {
    const std::int64_t low = g * loop_.group, count = std::min(loop_.group, loop_.leading - low);
    const std::int64_t depth = loop_.size / loop_.leading, row_depth = loop_.kept_size / loop_.leading;
    std::array<std::int64_t, max_axes> extents;
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

void run_loop(const Loop& loop, const Invocation& invocation, std::byte* workspace, std::byte* areas) {
  LoopRun(loop, invocation, workspace, areas).run();
}

}  // namespace stiletto::detail::cpu
