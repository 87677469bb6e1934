// SPDX-License-Identifier: Apache-2.0
// A product through oneDNN: cut into one block per thread, along batch, rows and columns, each a primitive
// that runs on the thread it is called from. Batch axes go into the primitive where oneDNN takes them; else
// each matrix is a call.
#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "backends/cpu/matmul_engine.hpp"
#include "backends/cpu/onednn.hpp"
#include "backends/cpu/onednn_block.hpp"
#include "backends/cpu/onednn_post.hpp"
#include "core/dtype_info.hpp"
#include "core/parallel.hpp"
#include "core/text.hpp"
#include "graph/op_table.hpp"
#include "stiletto/error.hpp"

namespace stiletto::detail::cpu {
namespace {

using Source = BlockArgument::Source;

constexpr std::int64_t ceil_divide(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// How many blocks along the batch (its first axis, or all of it where each matrix is a call), rows and
/// columns.
struct Grid {
  std::int64_t batch = 1, rows = 1, columns = 1;
  bool operator==(const Grid&) const = default;
};

std::int64_t product_of(const std::vector<std::int64_t>& extents) {
  std::int64_t product = 1;
  for (const std::int64_t extent : extents) product *= extent;
  return product;
}

/// Threads that shorten the product: each should have several microseconds to do, by rough rates of one core.
std::int64_t useful_threads(const MatmulProblem& p) {
  constexpr double multiplications_per_us = 1e5, bytes_per_us = 2e4, us_per_thread = 8;
  const auto size = [&](const MatrixLayout& layout, std::int64_t rows, std::int64_t columns) {
    return static_cast<double>(byte_offset(layout.dtype, rows * columns));
  };
  const double each = static_cast<double>(p.m * p.n) * static_cast<double>(p.k) / multiplications_per_us +
                      (size(p.a, p.m, p.k) + size(p.b, p.k, p.n) + size(p.c, p.m, p.n)) / bytes_per_us;
  const double us = each * static_cast<double>(product_of(p.batch));
  return std::min(static_cast<std::int64_t>(us / us_per_thread) + 1,
                  static_cast<std::int64_t>(thread_count()));
}

/// Whole matrices where they share out evenly; else rows and columns, so that a block is cheap to multiply
/// and its operands, which each block reads and packs for itself, are small: an element of them weighs as 20
/// multiplications.
Grid choose_grid(const MatmulProblem& p, std::int64_t batch, std::int64_t threads, bool columns_may_split) {
  Grid grid;
  grid.batch = batch >= 4 * threads ? threads : std::min(batch, threads);
  while (batch < 4 * threads && batch % grid.batch != 0) --grid.batch;
  const std::int64_t rest = threads / grid.batch;
  std::int64_t least = 0;
  for (std::int64_t rows = std::min(rest, p.m); rows >= 1; --rows) {
    const std::int64_t columns = columns_may_split ? std::min(rest / rows, ceil_divide(p.n, 16)) : 1;
    const std::int64_t m = ceil_divide(p.m, rows), n = ceil_divide(p.n, columns);
    const std::int64_t cost = m * n + 20 * (m + n);
    if (least == 0 || cost < least) {
      least = cost;
      grid.rows = rows;
      grid.columns = columns;
    }
  }
  return grid;
}

/// Equal pieces where possible, so that one primitive serves all; else multiples of 16 but for the last.
std::int64_t piece(std::int64_t extent, std::int64_t count) {
  const std::int64_t size = ceil_divide(extent, count);
  return extent % count == 0 || size < 32 ? size : ceil_divide(size, 16) * 16;
}

/// The operations on a run of c. Kernels work on whole lane groups of f32: what is not that goes through a
/// block of our own.
void finish_run(const std::vector<OwnOperation>& operations, DType dtype, std::byte* run,
                std::int64_t count) {
  constexpr auto f32 = static_cast<std::size_t>(Register::f32);
  const LoadKernel load = kernels().load[static_cast<std::size_t>(dtype)][f32];
  const StoreKernel store = kernels().store[f32][static_cast<std::size_t>(dtype)];
  alignas(64) float block[block_size];
  for (std::int64_t done = 0; done < count; done += block_size) {
    std::byte* const memory = run + byte_offset(dtype, done);
    const std::size_t n = std::min(static_cast<std::size_t>(count - done), block_size);
    const std::size_t padded = (n + lane_group - 1) / lane_group * lane_group;
    const bool in_place = dtype == DType::float32 && padded == n;
    if (!in_place) {
      load(block, memory, n);
      std::fill(block + n, block + padded, 0.0F);
    }
    void* const values = in_place ? static_cast<void*>(memory) : block;
    for (const OwnOperation& operation : operations)
      operation.kernel(values, &values, padded, operation.coefficient);
    if (!in_place) store(memory, block, n);
  }
}

class OnednnMatmul final : public Matmul {
 public:
  OnednnMatmul(const SimpleProblem& simple, PostChain chain, bool each_matrix)
      : p_(simple.problem), swapped_(simple.swapped), each_matrix_(each_matrix), chain_(std::move(chain)) {}
  ~OnednnMatmul() override {
    for (std::size_t i = 0; spare_ != nullptr && i < tasks_.size(); ++i) delete spare_[i].load();
  }

  /// False when oneDNN refuses one of the blocks.
  bool cut(const Grid& grid, bool reference_allowed);

  std::size_t workspace() const override { return workspace_; }
  void execute(const void* a, const void* b, void* c, std::span<const void* const> operands,
               std::span<const float> numbers, void* workspace) const override;
  std::string describe() const override;

 private:
  struct Task {
    const Block* block;
    std::int64_t batch,
        calls;  // the first index, of the first axis or of all matrices; one call each or one in all
    std::int64_t row, column;
    std::size_t scratch;  // where in the workspace
  };
  struct Call {
    const std::byte *a, *b;
    std::byte* c;
    std::span<const void* const> operands;
    std::span<const float> numbers;
    std::byte* workspace;
  };

  const Block* block_for(const BlockShape& shape, bool reference_allowed);
  std::int64_t batch_offset(const MatrixLayout& layout, std::int64_t batch) const;
  const std::byte* address(const std::byte* base, const MatrixLayout& layout, std::int64_t batch,
                           std::int64_t row, std::int64_t column) const;
  void run(const Call& call, std::size_t task) const;
  void set_pointers(const Call& call, const Task& task, std::int64_t batch, BlockBinding& binding) const;
  void finish(std::byte* c, const Block& block) const;

  MatmulProblem p_;
  bool swapped_, each_matrix_;
  PostChain chain_;
  std::vector<std::unique_ptr<const Block>> blocks_;  // one per shape
  std::vector<Task> tasks_;
  std::unique_ptr<std::atomic<BlockBinding*>[]> spare_;  // of each task, when it is not running
  std::size_t workspace_ = 0;
};

const Block* OnednnMatmul::block_for(const BlockShape& shape, bool reference_allowed) {
  for (const auto& block : blocks_)
    if (block->shape() == shape) return block.get();
  auto block = Block::make(p_, chain_, shape, reference_allowed);
  if (block == nullptr) return nullptr;
  blocks_.push_back(std::move(block));
  return blocks_.back().get();
}

bool OnednnMatmul::cut(const Grid& grid, bool reference_allowed) {
  const std::int64_t batch = each_matrix_ ? product_of(p_.batch) : p_.batch.empty() ? 1 : p_.batch[0];
  const std::int64_t batches = ceil_divide(batch, grid.batch);
  const std::int64_t rows = piece(p_.m, grid.rows), columns = piece(p_.n, grid.columns);
  for (std::int64_t first = 0; first < batch; first += batches)
    for (std::int64_t row = 0; row < p_.m; row += rows)
      for (std::int64_t column = 0; column < p_.n; column += columns) {
        const std::int64_t count = std::min(batches, batch - first);
        BlockShape shape{{}, std::min(rows, p_.m - row), std::min(columns, p_.n - column)};
        if (!each_matrix_) shape.batch = p_.batch;
        if (!shape.batch.empty()) shape.batch[0] = count;
        const Block* const block = block_for(shape, reference_allowed);
        if (block == nullptr) return false;
        tasks_.push_back({block, first, each_matrix_ ? count : 1, row, column, workspace_});
        workspace_ += (block->scratch() + 63) / 64 * 64;
      }
  spare_ = std::make_unique<std::atomic<BlockBinding*>[]>(tasks_.size());
  return true;
}

/// In elements.
std::int64_t OnednnMatmul::batch_offset(const MatrixLayout& layout, std::int64_t batch) const {
  if (p_.batch.empty()) return 0;
  if (!each_matrix_) return batch * layout.strides[0];
  std::int64_t offset = 0;
  for (std::size_t axis = p_.batch.size(); axis-- > 0;) {
    offset += batch % p_.batch[axis] * layout.strides[axis];
    batch /= p_.batch[axis];
  }
  return offset;
}

const std::byte* OnednnMatmul::address(const std::byte* base, const MatrixLayout& layout, std::int64_t batch,
                                       std::int64_t row, std::int64_t column) const {
  const std::size_t axes = layout.strides.size();
  return base + byte_offset(layout.dtype, batch_offset(layout, batch) + row * layout.strides[axes - 2] +
                                              column * layout.strides[axes - 1]);
}

void OnednnMatmul::set_pointers(const Call& call, const Task& task, std::int64_t batch,
                                BlockBinding& binding) const {
  const auto& arguments = task.block->arguments();
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::size_t post = arguments[i].post;
    switch (arguments[i].source) {
      case Source::a:
        binding.set(i, address(call.a, p_.a, batch, task.row, 0));
        break;
      case Source::b:
        binding.set(i, address(call.b, p_.b, batch, 0, task.column));
        break;
      case Source::c:
        binding.set(i, address(call.c, p_.c, batch, task.row, task.column));
        break;
      case Source::operand:
        binding.set(i, address(static_cast<const std::byte*>(call.operands[post]), p_.post[post].operand,
                               batch, task.row, task.column));
        break;
      case Source::number:
        binding.set(i, &call.numbers[post]);
        break;
      case Source::scratch:
        binding.set(i, call.workspace + task.scratch);
        break;
    }
  }
}

/// What oneDNN does not do right, on the block that it has just written.
void OnednnMatmul::finish(std::byte* c, const Block& block) const {
  const BlockShape& shape = block.shape();
  const std::size_t axes = p_.c.strides.size();
  const bool one_run = p_.c.strides[axes - 2] == shape.n;
  const std::int64_t rows = one_run ? 1 : shape.m, run = one_run ? shape.m * shape.n : shape.n;
  const std::int64_t matrices = product_of(shape.batch);
  for (std::int64_t matrix = 0; matrix < matrices; ++matrix) {
    std::int64_t start = 0, rest = matrix;
    for (std::size_t axis = shape.batch.size(); axis-- > 0;) {
      start += rest % shape.batch[axis] * p_.c.strides[axis];
      rest /= shape.batch[axis];
    }
    for (std::int64_t row = 0; row < rows; ++row) {
      finish_run(chain_.own, p_.c.dtype, c + byte_offset(p_.c.dtype, start + row * p_.c.strides[axes - 2]),
                 run);
    }
  }
}

void OnednnMatmul::run(const Call& call, std::size_t index) const {
  const Task& task = tasks_[index];
  std::unique_ptr<BlockBinding> binding(spare_[index].exchange(nullptr, std::memory_order_acquire));
  if (binding == nullptr) binding = task.block->bind();
  {
    const OnednnOnOneThread alone;
    for (std::int64_t batch = task.batch; batch < task.batch + task.calls; ++batch) {
      set_pointers(call, task, batch, *binding);
      binding->execute(task.block->primitive());
      if (!chain_.own.empty())
        finish(const_cast<std::byte*>(address(call.c, p_.c, batch, task.row, task.column)), *task.block);
    }
  }
  delete spare_[index].exchange(binding.release(), std::memory_order_acq_rel);
}

void OnednnMatmul::execute(const void* a, const void* b, void* c, std::span<const void* const> operands,
                           std::span<const float> numbers, void* workspace) const {
  if (swapped_) std::swap(a, b);
  const Call call{static_cast<const std::byte*>(a),
                  static_cast<const std::byte*>(b),
                  static_cast<std::byte*>(c),
                  operands,
                  numbers,
                  static_cast<std::byte*>(workspace)};
  try {
    parallel_for(tasks_.size(), [&](std::size_t task) { run(call, task); });
  } catch (const dnnl::error& error) {
    throw InternalError(
        text(text_of(p_), ": ", error.what(), " (oneDNN status ", error.status, "); please report this"));
  }
}

std::string OnednnMatmul::describe() const {
  std::string result = text("oneDNN matmul ", blocks_[0]->implementation());
  if (tasks_.size() > 1) result += text(", ", tasks_.size(), " blocks");
  for (const PostOperation& post : p_.post) result += text(" + ", name_of(post.op));
  return result;
}

}  // namespace

std::unique_ptr<const Matmul> make_onednn_matmul(const SimpleProblem& simple) {
  const MatmulProblem& p = simple.problem;
  const bool integers = p.c.dtype == DType::int32;
  if (integers && (p.alpha != 1 || !p.post.empty() || p.accumulate))
    return nullptr;  // float32 would do that part
  if (p.accumulate && !p.post.empty()) return nullptr;
  const auto chain = post_chain(p.post, p.c.dtype);
  if (!chain) return nullptr;
  const auto cut = [&](bool each_matrix, const Grid& grid, bool reference_allowed) {
    auto matmul = std::make_unique<OnednnMatmul>(simple, *chain, each_matrix);
    return matmul->cut(grid, reference_allowed) ? std::move(matmul) : nullptr;
  };
  const std::int64_t threads = useful_threads(p);
  const auto is_tensor = [&](const PostLink& link) { return link.binary && !p.post[link.operand].number; };
  const auto tensors = std::count_if(chain->links.begin(), chain->links.end(), is_tensor);
  for (const bool each_matrix : {false, true}) {
    if (each_matrix && p.batch.empty()) break;
    const std::int64_t batch = each_matrix ? product_of(p.batch) : p.batch.empty() ? 1 : p.batch[0];
    const bool bias = p.alpha == 1 && starts_with_bias(p, *chain, !each_matrix);
    const Grid grid = choose_grid(p, batch, threads, tensors == (bias ? 1 : 0));
    if (auto matmul = cut(each_matrix, grid, false)) return matmul;
    if (grid != Grid{})
      if (auto matmul = cut(each_matrix, Grid{}, false)) return matmul;
  }
  if (!p.post.empty()) return nullptr;
  return cut(!p.batch.empty(), Grid{}, true);
}

}  // namespace stiletto::detail::cpu
