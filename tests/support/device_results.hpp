// SPDX-License-Identifier: Apache-2.0
// How exact a result is that a GPU's engine computed, found by the memory it was written to: tests compare
// values and do not know which graph made them. Without a GPU nothing is ever noted here.
#pragma once
#include <cstdint>
#include <map>
#include <mutex>

#include "support/numbers.hpp"

namespace support {

/// On top of the tolerances of semantics.md.
struct Slack {
  Real relative = 0;  // at least this much, relative to the largest value: products in TF32
  Real factor = 1;    // approximate functions of the GPU
  Real absolute = 0;  // of functions that the GPU computes to so much, however small the result
};

class DeviceResults {
 public:
  static void note(const void* low, std::size_t bytes, const Slack& slack) {
    const std::lock_guard lock(mutex());
    auto& known = ranges();
    const auto begin = reinterpret_cast<std::uintptr_t>(low);
    known.erase(known.lower_bound(begin), known.lower_bound(begin + bytes));
    known[begin] = {begin + bytes, slack};
  }
  /// Of the result that was last written around this address.
  static Slack of(const void* address) {
    const std::lock_guard lock(mutex());
    const auto at = reinterpret_cast<std::uintptr_t>(address);
    auto next = ranges().upper_bound(at);
    if (next == ranges().begin()) return {};
    const Range& before = (--next)->second;
    return at < before.end ? before.slack : Slack{};
  }

 private:
  struct Range {
    std::uintptr_t end = 0;
    Slack slack;
  };
  static std::map<std::uintptr_t, Range>& ranges() {
    static std::map<std::uintptr_t, Range> ranges;
    return ranges;
  }
  static std::mutex& mutex() {
    static std::mutex mutex;
    return mutex;
  }
};

}  // namespace support
