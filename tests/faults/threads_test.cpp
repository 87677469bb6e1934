// SPDX-License-Identifier: Apache-2.0
// Threads: eight of them jit the same and different functions, call one Compiled, use one cache while it is
// cleared and resized, throw inside traces, and outlive each other's plans.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "support/compare.hpp"
#include "support/threads.hpp"

namespace {

using namespace support;

bool all_equal(const Array& x, float value) {
  for (float v : x.to_vector<float>())
    if (v != value) return false;
  return true;
}

TEST(Threads, jit_the_same_function_for_the_first_time) {
  std::atomic<int> wrong{0};
  for (std::int64_t round = 1; round <= 50; ++round) {
    const Array x = stiletto::full({round, 3}, 2);
    together([&](int) {
      const Array y = stiletto::jit([](const Array& a) { return stiletto::square(a) + 1; }, x);
      if (y.shape() != x.shape() || !all_equal(y, 5)) ++wrong;
    });
  }
  EXPECT_EQ(wrong, 0);
}

TEST(Threads, jit_different_functions) {
  std::atomic<int> wrong{0};
  together([&](int id) {
    const Array x = stiletto::full({5, 5}, 1), w = stiletto::full({5, 2}, static_cast<float>(id));
    for (int round = 0; round < 300; ++round) {
      const Array y = stiletto::jit(
          [&](const Array& a, const Array& b) {
            Array c = stiletto::matmul(a, b);
            for (int i = 0; i < id; ++i) c = c + 1.0F;
            return c;
          },
          x, w);
      if (!all_equal(y, static_cast<float>(6 * id))) ++wrong;
    }
  });
  EXPECT_EQ(wrong, 0);
}

TEST(Threads, call_one_compiled_function) {
  const Array x = stiletto::full({37, 19}, 1);
  auto f = [](const Array& a, const Array& s) {
    return std::pair(stiletto::softmax(a * s, 1) * 0 + s,
                     stiletto::sum(stiletto::matmul(a, stiletto::transpose(a)), 1));
  };
  const auto compiled = stiletto::compile(f, x, 1.0F);
  std::atomic<int> wrong{0};
  together([&](int id) {
    const Array mine = stiletto::full({37, 19}, static_cast<float>(id));
    auto copy = compiled;  // copies share the plan
    if (id % 2 == 0) copy = compiled;
    for (int round = 0; round < 200; ++round) {
      const auto value = static_cast<float>(id * 1000 + round);
      const auto [scaled, sums] = copy(mine, value);
      if (!all_equal(scaled, value) || !all_equal(sums, static_cast<float>(37 * 19 * id * id))) ++wrong;
    }
  });
  EXPECT_EQ(wrong, 0);
}

TEST(Threads, in_place_calls_on_memory_of_their_own) {
  auto f = [](const Array& d, const Array& a) { stiletto::assign(d, stiletto::matmul(a, a) + d); };
  const Array a = stiletto::ones({16, 16});
  const auto compiled = stiletto::compile(f, stiletto::zeros({16, 16}), a);
  std::atomic<int> wrong{0};
  together([&](int) {
    const Array d = stiletto::zeros({16, 16});
    for (int round = 0; round < 200; ++round) compiled(d, a);
    if (!all_equal(d, 3200)) ++wrong;
  });
  EXPECT_EQ(wrong, 0);
}

TEST(Threads, the_cache_is_cleared_and_resized_meanwhile) {
  std::atomic<int> wrong{0};
  together([&](int id) {
    for (int round = 0; round < 150; ++round) {
      if (id == 0) stiletto::plan_cache().clear();
      if (id == 1) stiletto::plan_cache().set_capacity(static_cast<std::size_t>(1 + round % 7));
      const std::int64_t length = 1 + (round + id) % 20;
      const Array y = stiletto::jit([&](const Array& a) { return a * 2 + id; }, stiletto::full({length}, 4));
      if (y.size() != length || !all_equal(y, static_cast<float>(8 + id))) ++wrong;
      (void)stiletto::plan_cache().bytes();
      (void)stiletto::plan_cache().entries();
    }
  });
  stiletto::plan_cache().set_capacity(1024);
  EXPECT_EQ(wrong, 0);
}

TEST(Threads, some_traces_throw) {
  std::atomic<int> wrong{0};
  const Array x = stiletto::full({6}, 3);
  together([&](int id) {
    for (int round = 0; round < 200; ++round) {
      if ((round + id) % 3 == 0) {
        EXPECT_THROW(
            stiletto::jit(
                [](const Array& a) -> Array { throw std::runtime_error(a.is_traced() ? "expected" : ""); },
                x),
            std::runtime_error);
        EXPECT_THROW(
            stiletto::jit([](const Array& a) { return stiletto::matmul(a, stiletto::ones({5})); }, x),
            stiletto::ShapeError);
      }
      if (!all_equal(stiletto::jit([](const Array& a) { return a - 1; }, x), 2)) ++wrong;
      if (!all_equal(x + 1, 4)) ++wrong;  // at once, outside any trace
    }
  });
  EXPECT_EQ(wrong, 0);
}

TEST(Threads, tracing_is_per_thread) {
  const Array x = stiletto::full({3}, 1);
  const Array y = stiletto::jit(
      [&](const Array& a) {
        float seen = 0;
        std::thread([&] { seen = (x + 1).at<float>({0}); }).join();  // no trace there: it runs at once
        return a * seen;
      },
      x);
  EXPECT_TRUE(all_equal(y, 2));
}

TEST(Threads, plans_and_arrays_outlive_the_thread_that_made_them) {
  stiletto::Compiled<Array(Array)> compiled;
  Array made;
  std::thread([&] {
    const Array w = stiletto::full({4, 4}, 2);
    made = stiletto::full({4, 4}, 1);
    compiled = stiletto::compile([w](const Array& a) { return stiletto::matmul(a, w); }, made);
    compiled(made);
  }).join();
  EXPECT_TRUE(all_equal(compiled(made), 8));
  std::thread([other = compiled, made] { other(made); }).join();
}

}  // namespace
