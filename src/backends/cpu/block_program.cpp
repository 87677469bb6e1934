// SPDX-License-Identifier: Apache-2.0
// One block at a time: load or point at the operands, run the kernels, accumulate, store.
#include "backends/cpu/block_program.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "core/dtype_info.hpp"
#include "core/float_bits.hpp"

namespace stiletto::detail::cpu {
namespace {

/// A position in the space, advanced segment by segment along the innermost axis.
class Walk {
 public:
  Walk() = default;
  Walk(const std::int64_t* extents, std::size_t rank) : extents_(extents), rank_(rank) {}
  void seek(std::int64_t p) {
    for (std::size_t i = rank_; i-- > 0;) {
      start_[i] = p % extents_[i];
      p /= extents_[i];
    }
  }
  /// Calls f(done, offset, length, inner stride) for the segments of n elements from the position sought.
  template <class F>
  void segments(const std::vector<std::int64_t>& strides, std::size_t n, const F& f) const {
    if (rank_ == 0) return f(0, 0, n, 0);
    const std::size_t inner = rank_ - 1;
    std::array<std::int64_t, max_loop_axes> at;
    std::int64_t offset = 0;
    for (std::size_t i = 0; i < rank_; ++i) {
      at[i] = start_[i];
      offset += at[i] * strides[i];
    }
    for (std::size_t done = 0; done < n;) {
      const std::size_t length = std::min(n - done, static_cast<std::size_t>(extents_[inner] - at[inner]));
      f(done, offset, length, strides[inner]);
      done += length;
      offset += static_cast<std::int64_t>(length) * strides[inner];
      at[inner] += static_cast<std::int64_t>(length);
      for (std::size_t i = inner; at[i] == extents_[i] && i > 0; --i) {
        offset += strides[i - 1] - extents_[i] * strides[i];
        at[i] = 0;
        ++at[i - 1];
      }
    }
  }

 private:
  const std::int64_t* extents_ = nullptr;
  std::size_t rank_ = 0;
  std::array<std::int64_t, max_loop_axes> start_{};
};

bool is_aligned(const void* memory, std::size_t alignment) {
  return reinterpret_cast<std::uintptr_t>(memory) % alignment == 0;
}

std::size_t rounded(std::size_t n) { return (n + lane_group - 1) / lane_group * lane_group; }

class ProgramRun {
 public:
  ProgramRun(const Loop& loop, const Program& program, const Invocation& invocation, std::byte* workspace,
             const Group& group, bool rows, void** pointers)
      : loop_(loop),
        program_(program),
        invocation_(invocation),
        workspace_(workspace),
        group_(group),
        rows_(rows),
        pointers_(pointers) {}

  /// Before ranges of up to `longest` elements.
  void prepare(std::int64_t longest) {
    std::size_t rank = loop_.axes.size();
    const std::int64_t* extents = group_.extents;
    if (rows_) {
      rank = 0;
      for (std::size_t i = 0; i < loop_.axes.size(); ++i)
        if (loop_.row_strides[i] != 0) kept_extents_[rank++] = loop_.extents[i];
      extents = kept_extents_.data();
    }
    walk_ = Walk(extents, rank);
    fill_constants(static_cast<std::size_t>(std::min<std::int64_t>(longest, block_size)));
  }

  /// Elements [begin, end) of the space, or of the kept space.
  void run(std::int64_t begin, std::int64_t end) {
    for (p_ = begin; p_ < end; p_ += block_size) {
      n_ = static_cast<std::size_t>(std::min<std::int64_t>(end - p_, block_size));
      padded_ = rounded(n_);
      walk_.seek(p_);
      block();
    }
    if (streamed_) run_fence();
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
      if (instruction.kind == Instruction::Kind::run) {
        run_steps(instruction);
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

  void run_steps(const Instruction& run) {
    std::array<RunStep, max_run_steps + 1> steps;
    for (std::size_t i = 0; i < run.steps; ++i) {
      RunPart part = program_.run_parts[run.first + i];
      if (part.code == RunCode::store) {
        const Slot& slot = program_.slots[part.slot];
        void* const to = destination(slot);
        set(part.slot, to);
        if (slot.streamed && to != group_.blocks + slot.block && is_aligned(to, stream_alignment)) {
          part.code = RunCode::stream;
          streamed_ = true;
        }
      }
      steps[i] = {part.code, part.slot == no_slot ? raw() : pointers_[part.slot]};
    }
    steps[run.steps] = {RunCode::end, raw()};
    run.run(steps.data(), padded_);
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
      walk_.segments(slot.access.strides, n_,
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
    walk_.segments(slot.access.strides, n_,
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
    walk_.segments(loop_.row_strides, n_,
                   [&](std::size_t done, std::int64_t offset, std::size_t length, std::int64_t stride) {
                     (stride == 0 ? reduce : each)(base + offset * size, v + done * bytes_of(r.input),
                                                   length);
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
    walk_.segments(target.access.strides, n_,
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
    walk_.segments(target.access.strides, n_,
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
  void** pointers_;
  std::array<std::int64_t, max_loop_axes> kept_extents_;
  Walk walk_;
  std::int64_t p_ = 0;
  std::size_t n_ = 0, padded_ = 0;
  bool streamed_ = false;
};

}  // namespace

void run_program(const Loop& loop, const Program& program, const Invocation& invocation, std::byte* workspace,
                 const Group& group, bool rows, std::int64_t begin, std::int64_t end) {
  if (program.empty() || begin >= end) return;
  auto** pointers = reinterpret_cast<void**>(group.blocks + loop.block_bytes - loop.pointer_bytes);
  ProgramRun run(loop, program, invocation, workspace, group, rows, pointers);
  run.prepare(end - begin);
  run.run(begin, end);
}

void run_loop_part(const Loop& loop, const std::int64_t* first, const std::int64_t* last,
                   const Invocation& invocation, std::byte* workspace, std::byte* scratch) {
  const Program& program = loop.phases[0].full;
  const Group group{scratch, nullptr, nullptr, nullptr, loop.extents.data()};
  // Axes that are whole, and the one outside of them, are one range of the space.
  std::size_t split = loop.axes.size();
  std::int64_t inner = 1;
  while (split > 0 && first[split - 1] == 0 && last[split - 1] == loop.extents[split - 1])
    inner *= loop.extents[--split];
  std::int64_t start = 0, size = inner, step = inner, ranges = 1;
  if (split > 0) {
    start = first[split - 1] * inner;
    size = (last[split - 1] - first[split - 1]) * inner;
    step = inner * loop.extents[split - 1];
  }
  for (std::size_t i = 0; i + 1 < split; ++i) ranges *= last[i] - first[i];
  auto** pointers = reinterpret_cast<void**>(scratch + loop.block_bytes - loop.pointer_bytes);
  ProgramRun run(loop, program, invocation, workspace, group, false, pointers);
  run.prepare(size);
  for (std::int64_t range = 0; range < ranges; ++range) {
    std::int64_t rest = range, begin = start, stride = step;
    for (std::size_t i = split; i-- > 1;) {
      const std::int64_t count = last[i - 1] - first[i - 1];
      begin += (first[i - 1] + rest % count) * stride;
      rest /= count;
      stride *= loop.extents[i - 1];
    }
    run.run(begin, begin + size);
  }
}

}  // namespace stiletto::detail::cpu
