// SPDX-License-Identifier: Apache-2.0
// parallel_for: every index exactly once, from several threads, nested, with exceptions, without allocations
// and in a forked child. Run with STILETTO_NUM_THREADS above the core count, the same tests press harder.
#include "core/parallel.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <new>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#if defined(__linux__)
#include <sys/wait.h>
#include <unistd.h>
#endif

namespace {
std::atomic<long> allocations{0};
}

// Weak: another file of this program may count in its own way, and then the test below is skipped.
[[gnu::weak]] void* operator new(std::size_t size) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
[[gnu::weak]] void* operator new(std::size_t size,
                                 const std::nothrow_t&) noexcept {  // pairs with delete below
  allocations.fetch_add(1, std::memory_order_relaxed);
  return std::malloc(size);
}
[[gnu::weak]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::weak]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace {

using stiletto::detail::parallel_for;
using stiletto::detail::thread_count;

void expect_each_index_once(std::size_t tasks) {
  std::vector<std::atomic<int>> runs(tasks);
  parallel_for(tasks, [&](std::size_t task) { runs[task].fetch_add(1, std::memory_order_relaxed); });
  for (std::size_t task = 0; task < tasks; ++task) EXPECT_EQ(runs[task].load(), 1) << task << " of " << tasks;
}

TEST(ParallelFor, RunsEachIndexOnce) {
  for (const std::size_t tasks : {0, 1, 2, 3, 7, 64, 1000, 100000}) expect_each_index_once(tasks);
}

TEST(ParallelFor, RunsEachIndexOnceWhenCalledOftenAndRarely) {
  for (int round = 0; round < 3000; ++round) expect_each_index_once(2 + round % 5);
  for (int round = 0; round < 20; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // the workers have gone to sleep
    expect_each_index_once(8);
  }
}

TEST(ParallelFor, WritesOfTasksAreVisibleAfterwards) {
  std::vector<std::size_t> values(5000);
  for (std::size_t round = 1; round <= 50; ++round) {
    parallel_for(values.size(), [&](std::size_t task) { values[task] = task * round; });
    ASSERT_EQ(std::accumulate(values.begin(), values.end(), std::size_t{0}), round * 4999 * 5000 / 2);
  }
}

TEST(ParallelFor, ASingleTaskStaysOnTheCaller) {
  std::thread::id where;
  parallel_for(1, [&](std::size_t) { where = std::this_thread::get_id(); });
  EXPECT_EQ(where, std::this_thread::get_id());
}

TEST(ParallelFor, NestedCallsStayOnTheirThread) {
  constexpr std::size_t outer = 16, inner = 50;
  std::vector<std::atomic<int>> runs(outer * inner);
  std::atomic<int> strangers{0};
  parallel_for(outer, [&](std::size_t i) {
    const auto mine = std::this_thread::get_id();
    parallel_for(inner, [&](std::size_t j) {
      if (std::this_thread::get_id() != mine) ++strangers;
      ++runs[i * inner + j];
    });
  });
  EXPECT_EQ(strangers.load(), 0);
  for (const auto& count : runs) EXPECT_EQ(count.load(), 1);
}

TEST(ParallelFor, SeveralCallersAtOnce) {
  std::vector<std::thread> callers;
  callers.reserve(6);
  std::atomic<int> wrong{0};
  for (int caller = 0; caller < 6; ++caller)
    callers.emplace_back([&wrong, caller] {
      for (int round = 0; round < 300; ++round) {
        const std::size_t tasks = static_cast<std::size_t>(1 + (round * 7 + caller) % 40);
        std::vector<std::atomic<int>> runs(tasks);
        parallel_for(tasks, [&](std::size_t task) { ++runs[task]; });
        for (const auto& count : runs)
          if (count.load() != 1) ++wrong;
      }
    });
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(wrong.load(), 0);
}

TEST(ParallelFor, AnExceptionReachesTheCallerAfterTheOthersHaveEnded) {
  for (const std::size_t thrower : {std::size_t{0}, std::size_t{13}, std::size_t{63}}) {
    std::atomic<int> running{0};
    try {
      parallel_for(64, [&](std::size_t task) {
        ++running;
        if (task == thrower) {
          --running;
          throw std::runtime_error("task " + std::to_string(task));
        }
        --running;
      });
      ADD_FAILURE() << "nothing was thrown";
    } catch (const std::runtime_error& error) {
      EXPECT_EQ(error.what(), "task " + std::to_string(thrower));
    }
    EXPECT_EQ(running.load(), 0);
    expect_each_index_once(64);
  }
}

TEST(ParallelFor, WhenAllTasksThrowOneExceptionArrives) {
  for (int round = 0; round < 100; ++round)
    EXPECT_THROW(parallel_for(8, [](std::size_t) { throw std::bad_alloc(); }), std::bad_alloc);
}

TEST(ParallelFor, AnExceptionInANestedCallPassesThrough) {
  EXPECT_THROW(parallel_for(4,
                            [](std::size_t) {
                              parallel_for(4, [](std::size_t task) {
                                if (task == 2) throw std::out_of_range("two");
                              });
                            }),
               std::out_of_range);
}

TEST(ParallelFor, AllocatesNothing) {
  std::atomic<std::size_t> sum{0};
  const auto add = [&sum](std::size_t task) { sum += task; };
  parallel_for(8, add);  // starts the pool
  const long before = allocations.load();
  for (int round = 0; round < 100; ++round) parallel_for(8, add);
  const long after = allocations.load();
  ::operator delete(::operator new(1));  // unlike a new-expression, not for the optimiser to remove
  if (allocations.load() == after) GTEST_SKIP() << "this program counts allocations elsewhere";
  EXPECT_EQ(after, before);
  EXPECT_EQ(sum.load(), 101U * 28U);
}

TEST(ThreadCount, IsAtLeastOne) { EXPECT_GE(thread_count(), 1U); }

#if defined(__linux__) && !defined(__SANITIZE_THREAD__)
TEST(ParallelFor, WorksInAForkedChild) {
  expect_each_index_once(100);  // the workers of the parent run
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(10);
    std::size_t done = 0;
    for (int round = 0; round < 100; ++round) parallel_for(16, [&](std::size_t) { ++done; });
    _exit(done == 1600 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "status " << status;
  expect_each_index_once(100);
}
#endif

}  // namespace
