// SPDX-License-Identifier: Apache-2.0
// Threads that do the same thing at once.
#pragma once
#include <gtest/gtest.h>

#include <barrier>
#include <exception>
#include <functional>
#include <thread>
#include <vector>

namespace support {

inline constexpr int thread_count = 8;

/// Runs `work(id)` on 8 threads that start together; what they throw fails the test.
inline void together(const std::function<void(int)>& work) {
  std::barrier start(thread_count);
  std::vector<std::thread> threads;
  threads.reserve(thread_count);
  for (int id = 0; id < thread_count; ++id)
    threads.emplace_back([&, id] {
      start.arrive_and_wait();
      try {
        work(id);
      } catch (const std::exception& error) {
        ADD_FAILURE() << "thread " << id << " threw: " << error.what();
      }
    });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace support
