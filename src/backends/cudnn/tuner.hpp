// SPDX-License-Identifier: Apache-2.0
// Choosing among plans by their time on the caller's arguments.
#pragma once
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "backends/cudnn/cudnn_plan.hpp"
#include "compiler/backend.hpp"

namespace stiletto::detail::cudnn {

class Tuner {
 public:
  explicit Tuner(Trial trial) : trial_(std::move(trial)) {}
  /// Times the plan; a plan that fails does not count.
  void consider(std::unique_ptr<CudnnPlan> plan);
  /// Whether time for further candidates is left: building and timing them may take half a minute in all, and
  /// no build is begun later.
  bool has_time() const { return std::chrono::steady_clock::now() < end_; }
  bool empty() const { return finalists_.empty(); }
  /// The fastest, which tells of all; null where there was none.
  std::unique_ptr<const Plan> best();

 private:
  struct Row {
    double microseconds;
    std::string plan;
  };
  Trial trial_;
  std::chrono::steady_clock::time_point end_ = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  /// Times fall as the GPU warms up and rise as it gets hot, so the fastest are timed once more, in turn.
  struct Finalist {
    std::unique_ptr<CudnnPlan> plan;
    std::vector<double> microseconds;
  };
  std::vector<Row> rows_;
  std::vector<Finalist> finalists_;  // the fastest first
};

}  // namespace stiletto::detail::cudnn
