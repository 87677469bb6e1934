// SPDX-License-Identifier: Apache-2.0
#include "core/thread_own.hpp"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace {

using Own = stiletto::detail::ThreadOwn<std::vector<int>>;

TEST(ThreadOwn, it_is_kept_and_each_thread_has_its_own) {
  std::vector<int>* const mine = Own::get();
  ASSERT_NE(mine, nullptr);
  EXPECT_EQ(Own::get(), mine);
  std::thread([&] { EXPECT_NE(Own::get(), mine); }).join();
}

/// Asks when it is destroyed.
struct Asks {
  bool* found = nullptr;
  ~Asks() {
    if (found != nullptr) *found = Own::get() != nullptr;
  }
};

TEST(ThreadOwn, destructors_that_run_later_find_it_gone) {
  bool before = false, after = true;
  std::thread([&] {
    thread_local Asks later;
    later.found = &after;
    static_cast<void>(Own::get());
    thread_local Asks earlier;
    earlier.found = &before;
  }).join();
  EXPECT_TRUE(before);
  EXPECT_FALSE(after);
}

}  // namespace
