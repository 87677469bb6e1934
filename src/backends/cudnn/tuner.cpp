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
  constexpr std::size_t most_finalists = 4;
  finalists_.push_back({std::move(plan), {microseconds}});
  std::ranges::stable_sort(finalists_, {}, [](const Finalist& f) { return f.microseconds.front(); });
  if (finalists_.size() > most_finalists) finalists_.pop_back();
}

std::unique_ptr<const Plan> Tuner::best() {
  if (finalists_.empty()) return nullptr;
  constexpr int rounds = 5;
  for (int round = 0; round < rounds && finalists_.size() > 1; ++round)
    for (Finalist& f : finalists_) f.microseconds.push_back(f.plan->microseconds(trial_.invocation()));
  for (Finalist& f : finalists_) {
    if (f.microseconds.size() == 1) continue;
    f.microseconds.erase(f.microseconds.begin());
    std::ranges::sort(f.microseconds);
    for (Row& row : rows_)
      if (row.plan == f.plan->summary()) row.microseconds = f.microseconds[rounds / 2];
  }
  const auto time = [](const Finalist& f) { return f.microseconds[f.microseconds.size() / 2]; };
  std::unique_ptr<CudnnPlan> best = std::move(std::ranges::min_element(finalists_, {}, time)->plan);
  std::ranges::stable_sort(rows_, {}, &Row::microseconds);
  std::ostringstream table;
  table << "  autotune: the fastest of " << rows_.size() << " plans, microseconds\n" << std::fixed;
  for (const Row& row : rows_)
    table << std::setw(12) << std::setprecision(2) << row.microseconds << "  " << row.plan << '\n';
  best->set_report(table.str());
  return best;
}

}  // namespace stiletto::detail::cudnn
