// SPDX-License-Identifier: Apache-2.0
#include "backends/cudnn/tuner.hpp"

#include <algorithm>
#include <iomanip>
#include <sstream>

#include "core/log.hpp"
#include "core/text.hpp"
#include "stiletto/error.hpp"

namespace stiletto::detail::cudnn {

void Tuner::consider(std::unique_ptr<CudnnPlan> plan) {
  double microseconds = 0;
  try {
    microseconds = plan->microseconds(trial_.invocation());
  } catch (const DeviceError& error) {
    if (log_enabled(LogTopic::autotune))
      log(LogTopic::autotune, text(plan->summary(), " cannot be timed: ", error.what()));
    return;
  }
  rows_.push_back({microseconds, plan->summary()});
  if (log_enabled(LogTopic::autotune))
    log(LogTopic::autotune, text(microseconds, " us  ", rows_.back().plan));
  if (best_ && best_microseconds_ <= microseconds) return;
  best_ = std::move(plan);
  best_microseconds_ = microseconds;
}

std::unique_ptr<const Plan> Tuner::best() {
  if (!best_) return nullptr;
  std::ranges::stable_sort(rows_, {}, &Row::microseconds);
  std::ostringstream table;
  table << "  autotune: the fastest of " << rows_.size() << " plans, microseconds\n" << std::fixed;
  for (const Row& row : rows_)
    table << std::setw(12) << std::setprecision(2) << row.microseconds << "  " << row.plan << '\n';
  best_->set_report(table.str());
  return std::move(best_);
}

}  // namespace stiletto::detail::cudnn
