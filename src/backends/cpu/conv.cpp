// SPDX-License-Identifier: Apache-2.0
// conv and its gradients: the choice of an engine, and the plans of the latest problems, which are dear to
// make and cheap to run.
#include <array>
#include <mutex>
#include <utility>

#include "backends/cpu/conv_problem.hpp"
#include "core/dtype_info.hpp"

namespace stiletto::detail::cpu {
namespace {

using Views = std::span<const TensorView>;

/// The problems of a few networks. A plan that is dropped lives on in the calls that run it.
class PlanCache {
 public:
  std::shared_ptr<const ConvPlan> find(const ConvProblem& problem) {
    {
      const std::lock_guard lock(mutex_);
      if (Entry* const entry = entry_of(problem)) return entry->plan;
    }
    std::shared_ptr<const ConvPlan> plan = make_onednn_conv(problem);
    if (plan == nullptr) plan = make_column_conv(problem);
    const std::lock_guard lock(mutex_);
    if (Entry* const entry = entry_of(problem)) return entry->plan;
    Entry* oldest = entries_.data();
    for (Entry& entry : entries_)
      if (entry.used < oldest->used) oldest = &entry;
    std::shared_ptr<const ConvPlan> result = plan;
    *oldest = {problem, std::move(plan), ++uses_};
    return result;
  }

 private:
  struct Entry {
    ConvProblem problem;
    std::shared_ptr<const ConvPlan> plan;
    std::uint64_t used = 0;  // 0: free
  };
  Entry* entry_of(const ConvProblem& problem) {
    for (Entry& entry : entries_)
      if (entry.used != 0 && entry.problem == problem) {
        entry.used = ++uses_;
        return &entry;
      }
    return nullptr;
  }

  std::mutex mutex_;
  std::array<Entry, 256> entries_;
  std::uint64_t uses_ = 0;
};

PlanCache& plan_cache() {
  static PlanCache& cache = *new PlanCache;  // outlives all static objects
  return cache;
}

ConvTensor tensor_of(const TensorView& view) { return {view.dtype, view.shape, view.strides}; }

void run(ConvKind kind, const Attributes& attributes, const TensorView& x, const TensorView& w,
         const TensorView& y, const Finish& finish = {}) {
  const ConvProblem problem{kind, std::get<ConvAttributes>(attributes), tensor_of(x), tensor_of(w),
                            tensor_of(y)};
  plan_cache().find(problem)->execute({x.data, w.data, y.data}, finish);
}

}  // namespace

DType conv_operand_type(DType operand, DType other) {
  if (operand == DType::float64 || other == DType::float64) return DType::float64;
  if (is_floating(operand) || is_floating(other)) return DType::float32;
  const auto is_byte = [](DType d) { return d == DType::int8 || d == DType::uint8; };
  if (is_byte(operand) && is_byte(other)) return operand;
  return operand == DType::int64 || other == DType::int64 ? DType::int64 : DType::int32;
}

void conv(const Attributes& attributes, Views operands, Views results) {
  conv(attributes, operands, results, {});
}

void conv(const Attributes& attributes, Views operands, Views results, const Finish& finish) {
  if (results[0].data != nullptr)
    run(ConvKind::forward, attributes, operands[0], operands[1], results[0], finish);
}

void conv_backward_data(const Attributes& attributes, Views operands, Views results) {
  if (results[0].data != nullptr)
    run(ConvKind::data_gradient, attributes, results[0], operands[1], operands[0]);
}

void conv_backward_filter(const Attributes& attributes, Views operands, Views results) {
  if (results[0].data != nullptr)
    run(ConvKind::filter_gradient, attributes, operands[1], results[0], operands[0]);
}

}  // namespace stiletto::detail::cpu
