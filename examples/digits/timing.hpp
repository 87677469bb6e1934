// SPDX-License-Identifier: Apache-2.0
// Time per call: the median over batches, each long enough for the clock.
#pragma once
#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>

namespace digits {

// Seconds per call. `wait` ends each batch: it waits for a device that is still at work when `call` returns.
template <class Call, class Wait>
double seconds_per_call(Call&& call, Wait&& wait) {
  using Clock = std::chrono::steady_clock;
  const auto batch = [&](std::size_t calls) {
    const Clock::time_point start = Clock::now();
    for (std::size_t i = 0; i < calls; ++i) call();
    wait();
    return std::chrono::duration<double>(Clock::now() - start).count();
  };
  constexpr double kLongEnough = 0.02;  // seconds
  std::size_t calls = 1;
  while (batch(calls) < kLongEnough) calls *= 2;  // warms up, too
  std::array<double, 11> batches;
  for (double& seconds : batches) seconds = batch(calls) / static_cast<double>(calls);
  std::ranges::nth_element(batches, batches.begin() + batches.size() / 2);
  return batches[batches.size() / 2];
}

}  // namespace digits
