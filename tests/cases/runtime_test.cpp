// SPDX-License-Identifier: Apache-2.0
// Public fault reports about compiling and running: growth and keys of the plan cache, symbolic values that
// leak, threads that trace at once, and calls after a failure.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "support/cases.hpp"
#include "support/memory.hpp"

namespace {

using namespace support;
using stiletto::Dims;

const DType float32 = DType::float32;

/// An empty plan cache, and what it counts from here on.
class FreshCache {
 public:
  FreshCache() {
    stiletto::plan_cache().clear();
    hits_ = stiletto::plan_cache().hits();
    misses_ = stiletto::plan_cache().misses();
  }
  ~FreshCache() { stiletto::plan_cache().set_capacity(1024); }
  FreshCache(const FreshCache&) = delete;
  FreshCache& operator=(const FreshCache&) = delete;
  std::size_t hits() const { return stiletto::plan_cache().hits() - hits_; }
  std::size_t misses() const { return stiletto::plan_cache().misses() - misses_; }
  std::size_t entries() const { return stiletto::plan_cache().entries(); }

 private:
  std::size_t hits_, misses_;
};

TEST(PublicCases, case_111) {
  const FreshCache cache;
  constexpr std::size_t capacity = 256;
  stiletto::plan_cache().set_capacity(capacity);
  auto add = [](const Array& x, const Array& y) { return x + y; };
  const std::vector<float> ones(10000, 1), twos(10000, 2);
  std::size_t after_warm_up = 0;
  for (std::int64_t length = 1; length <= 10000; ++length) {
    const Array x = stiletto::from_data(std::span(ones).first(static_cast<std::size_t>(length)), {length});
    const Array y = stiletto::from_data(std::span(twos).first(static_cast<std::size_t>(length)), {length});
    const Array z = stiletto::jit(add, x, y);
    ASSERT_EQ(z.shape(), Dims({length}));
    ASSERT_EQ(z.at<float>({0}), 3.0F);
    ASSERT_EQ(z.at<float>({length - 1}), 3.0F);
    ASSERT_LE(cache.entries(), capacity);
    if (length == 2000) after_warm_up = process_memory("VmRSS");
  }
  EXPECT_EQ(cache.misses(), 10000U);
  if (!sanitized) {
    EXPECT_LE(process_memory("VmRSS"), after_warm_up + (std::size_t{32} << 20U));
  }
  // Right after an eviction.
  for (std::int64_t length : {1, 2, 9999}) {
    const Array x = stiletto::full({length}, 5);
    EXPECT_EQ(stiletto::jit(add, x, x).at<float>({length - 1}), 10.0F);
  }
}

TEST(PublicCases, case_112) {
  using Clock = std::chrono::steady_clock;
  const Array x = stiletto::full({4}, 2);
  const FreshCache cache;
  auto f = [](const Array& a, const Array& t) { return a * t + t; };
  std::vector<double> first, last;
  for (int t = 0; t < 5000; ++t) {
    const auto start = Clock::now();
    const Array y = stiletto::jit(f, x, static_cast<float>(t));
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    if (t >= 50 && t < 250) first.push_back(seconds);
    if (t >= 4800) last.push_back(seconds);
    ASSERT_EQ(y.at<float>({3}), 3.0F * static_cast<float>(t));
  }
  EXPECT_LE(cache.misses(), 1U);
  EXPECT_LE(cache.entries(), 1U);
  auto median = [](std::vector<double>& v) {
    std::nth_element(v.begin(), v.begin() + static_cast<long>(v.size() / 2), v.end());
    return v[v.size() / 2];
  };
  EXPECT_LE(median(last), 3 * median(first));
}

TEST(PublicCases, case_114) {
  auto f = [](const Array& x, DType dtype) { return stiletto::cast(x, dtype); };
  const Array x = to_array(Tensor(float32, {1}, {1.0009765625L}));
  const FreshCache cache;
  for (int round = 0; round < 2; ++round)
    for (const auto& [dtype, expected] :
         std::vector<std::pair<DType, Real>>{{DType::float16, 1.0009765625L}, {DType::bfloat16, 1}}) {
      const Array y = stiletto::jit([&, to = dtype](const Array& a) { return f(a, to); }, x);
      EXPECT_TRUE(equals(y, dtype, {1}, {expected}));
    }
  EXPECT_EQ(cache.misses(), 2U);
}

TEST(PublicCases, case_115) {
  auto f = [](const Array& x) { return stiletto::transpose(x + 1.0F, {3, 1, 0, 2}); };
  const Array storage =
      to_array(tabulate(float32, {4096}, [](const Extents& i) { return static_cast<Real>(i[0]); }));
  auto check = [&](const Extents& shape) {
    const Array x = stiletto::as_strided(storage, dims(shape), dims(row_major(shape)));
    const Array y = stiletto::jit(f, x);
    ASSERT_EQ(y.shape(), Dims({shape[3], shape[1], shape[0], shape[2]}));
    const auto* out = y.data<float>();
    ASSERT_TRUE(y.is_contiguous());
    const Extents strides = row_major({shape[3], shape[1], shape[0], shape[2]});
    std::int64_t number = 0;
    for_each_index(shape, [&](const Extents& i) {
      ++number;
      const std::int64_t at = dot({i[3], i[1], i[0], i[2]}, strides);
      if (out[at] != static_cast<float>(number)) ADD_FAILURE() << describe(shape);
    });
  };
  check({3, 17, 1, 1});
  check({1, 152, 1, 1});
  std::vector<Extents> all;
  for_each_index({8, 8, 8, 8},
                 [&](const Extents& i) { all.push_back({i[0] + 1, i[1] + 1, i[2] + 1, i[3] + 1}); });
  Random random(115);
  for (std::size_t i = all.size(); i > 1; --i)
    std::swap(all[i - 1], all[static_cast<std::size_t>(random.below(static_cast<std::int64_t>(i)))]);
  for (const Extents& shape : all) {
    check(shape);
    if (testing::Test::HasFailure()) return;
  }
}

[[gnu::noinline]] void dirty_the_stack(int seed) {
  volatile unsigned char garbage[16384];
  for (std::size_t i = 0; i < sizeof garbage; ++i)
    garbage[i] = static_cast<unsigned char>(seed * 31 + static_cast<int>(i) * 7);
}

TEST(PublicCases, case_117) {
  const Array x = stiletto::ones({3, 5}), w = stiletto::ones({5, 2});
  const FreshCache cache;
  for (int i = 0; i < 1000; ++i) {
    dirty_the_stack(i);
    const Array y = stiletto::jit(
        [](const Array& a, const Array& b) {
          return stiletto::clipped_relu(stiletto::leaky_relu(stiletto::matmul(a, b), 0.2) + stiletto::sum(a),
                                        9.0);
        },
        x, w);
    ASSERT_EQ(y.at<float>({2, 1}), 9.0F);
  }
  EXPECT_EQ(cache.misses(), 1U);
  EXPECT_EQ(cache.hits(), 999U);
}

TEST(PublicCases, case_119) {
  Array saved;
  const Array x = stiletto::ones({3});
  auto leak = [&](const Array& a) {
    saved = a;
    return a + 1;
  };
  auto leak_computed = [&](const Array& a) {
    saved = a * 3;
    return a + 1;
  };
  for (int round = 0; round < 2; ++round) {
    if (round == 0)
      stiletto::jit(leak, x);
    else
      stiletto::jit(leak_computed, x);
    EXPECT_TRUE(saved.is_traced());
    EXPECT_THROW(stiletto::jit([&](const Array& a) { return a + saved; }, x), stiletto::TraceError);
    EXPECT_THROW(stiletto::jit([&](const Array& a) { return std::pair(a * 2, saved); }, x),
                 stiletto::TraceError);
    EXPECT_THROW(saved + 1, stiletto::TraceError);
    EXPECT_THROW(saved + x, stiletto::TraceError);
    EXPECT_THROW(saved.to_vector<float>(), stiletto::TraceError);
    EXPECT_THROW(stiletto::jit([](const Array& a) { return a * 2; }, saved), stiletto::TraceError);
    EXPECT_TRUE(equals(stiletto::jit([](const Array& a) { return a * 2; }, x), float32, {3}, {2, 2, 2}));
  }
}

TEST(PublicCases, case_127) {
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  threads.reserve(8);
  for (int id = 0; id < 8; ++id)
    threads.emplace_back([&, id] {
      for (int round = 0; round < 200; ++round) {
        const std::int64_t length = 1 + round % 50 + (round % 4 == 0 ? 0 : 50 * id);
        const Array x = stiletto::full({length}, round);
        const Array y = stiletto::jit(
            [&](const Array& a) {
              Array b = a + id;
              for (int i = 0; i < id; ++i) b = stiletto::maximum(b * 2, a) - a;
              return b;
            },
            x);
        float expected = static_cast<float>(round + id);
        for (int i = 0; i < id; ++i)
          expected = std::max(expected * 2, static_cast<float>(round)) - static_cast<float>(round);
        if (y.size() != length || y.at<float>({0}) != expected || y.at<float>({length - 1}) != expected)
          ++wrong;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(PublicCases, case_134) {
  const Array x = stiletto::full({4, 4}, 2), other = stiletto::ones({3, 4});
  auto good = [](const Array& a) { return stiletto::matmul(a, a) + 1; };
  const auto compiled = stiletto::compile(good, x);
  const stiletto::CompileOptions no_scratch{.allocator = [](stiletto::Device, const Dims&, DType) -> Array {
    throw std::runtime_error("no memory today");
  }};
  std::size_t memory = 0;
  for (int round = 0; round < 100; ++round) {
    EXPECT_THROW(stiletto::jit([](const Array& a, const Array& b) { return a + b; }, x, other),
                 stiletto::ShapeError);
    EXPECT_THROW(compiled(other), stiletto::ShapeError);
    EXPECT_THROW(stiletto::jit(no_scratch, good, x), std::runtime_error);
    EXPECT_THROW(stiletto::jit(
                     [](const Array& a) -> Array {
                       throw std::logic_error("user");
                       return a;
                     },
                     x),
                 std::logic_error);
    EXPECT_THROW(stiletto::zeros({2}, float32, stiletto::Device::cuda(63)), stiletto::DeviceError);
    const Array y = stiletto::jit(good, x), z = compiled(x);
    ASSERT_EQ(y.at<float>({3, 3}), 17.0F);
    ASSERT_EQ(z.at<float>({0, 1}), 17.0F);
    if (round == 20) memory = process_memory("VmRSS");
  }
  if (!sanitized) {
    EXPECT_LE(process_memory("VmRSS"), memory + (std::size_t{8} << 20U));
  }
}

}  // namespace
