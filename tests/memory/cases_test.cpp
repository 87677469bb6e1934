// SPDX-License-Identifier: Apache-2.0
// Public fault reports about calls on GPUs: compiling during a capture, threads that trace at once, and the
// current device. On a real GPU few plans are built, because cuDNN takes a third of a second for each.
#include <algorithm>
#include <atomic>

#include "support/cuda_api.hpp"
#include "support/errors.hpp"
#include "support/raw_arrays.hpp"
#include "support/threads.hpp"

namespace {

using namespace support;
using stiletto::Device;
using stiletto::StreamGuard;

const Device gpu = Device::cuda(0);

Array filled(const stiletto::Shape& shape, float value, Device device = gpu) {
  return stiletto::full(shape, value, DType::float32, device);
}
bool all_equal(const Array& x, float value) {
  const std::vector<float> elements = x.to_vector<float>();
  return std::all_of(elements.begin(), elements.end(), [&](float element) { return element == value; });
}
int current_device() {
  int device = -1;
  cuda_call("cudaGetDevice", &device);
  return device;
}

TEST(PublicCases, case_124) {
  auto f = [](const Array& a) { return a * 2 + 1; };
  const Stream stream;
  const StreamGuard guard(stream.get());
  const Array x = filled({72}, 0), never_seen = filled({88}, 5);
  (void)stiletto::jit(f, x);
  const std::size_t entries = stiletto::plan_cache().entries();
  CapturedGraph graph(stream);
  EXPECT_TRUE(throws<stiletto::ArgumentError>([&] { stiletto::jit(f, never_seen); },
                                              {"compile", "captured", "before the capture"}));
  const Array y = stiletto::jit(f, x);
  ASSERT_EQ(graph.end(), 0) << "the capture was broken";
  EXPECT_EQ(stiletto::plan_cache().entries(), entries);
  for (const float value : {1.0F, 2.0F, 3.0F}) {
    stiletto::assign(x, filled({72}, value));
    graph.launch();
    EXPECT_TRUE(all_equal(y, 2 * value + 1)) << value;
  }
  EXPECT_TRUE(all_equal(stiletto::jit(f, never_seen), 11));
}

TEST(PublicCases, case_127) {
  std::atomic<int> wrong{0};
  together([&](int id) {
    for (int round = 0; round < 200; ++round) {
      const bool fresh = cuda_is_fake() && round % 4 != 0;
      const std::int64_t length = 100 + (fresh ? round % 50 + 50 * id : 0);
      const auto value = static_cast<float>(round);
      const Array y = stiletto::jit(
          [&](const Array& a) {
            Array b = a + id;
            for (int i = 0; i < id; ++i) b = b * 2 - a;
            return b;
          },
          filled({length}, value));
      float expected = value + static_cast<float>(id);
      for (int i = 0; i < id; ++i) expected = expected * 2 - value;
      if (y.size() != length || !all_equal(y, expected)) ++wrong;
    }
  });
  EXPECT_EQ(wrong, 0);
}

TEST(PublicCases, case_129) {
  if (cuda_device_count() < 2) GTEST_SKIP() << "this machine has one GPU";
  const Device other = Device::cuda(1);
  auto product = [](const Array& a, const Array& b) { return stiletto::matmul(a, b); };
  const auto misses = [] { return stiletto::plan_cache().misses(); };
  stiletto::plan_cache().clear();
  const std::size_t before = misses();
  for (const int current : {0, 1}) {
    cuda_call("cudaSetDevice", current);
    const Device there = current == 0 ? other : gpu;
    const Array a = filled({16, 32}, 2, there), b = filled({32, 24}, 3, there);
    for (int call = 0; call < 2; ++call) {
      const Array y = stiletto::jit(product, a, b);
      EXPECT_EQ(y.device(), there);
      EXPECT_TRUE(all_equal(y, 192));
      EXPECT_EQ(current_device(), current);
    }
    EXPECT_TRUE(all_equal(stiletto::compile(product, a, b)(a, b), 192));
    EXPECT_EQ(current_device(), current);
  }
  cuda_call("cudaSetDevice", 0);
  EXPECT_EQ(misses() - before, 2U) << "a plan for each GPU";
  const Array here = filled({16, 32}, 2), there = filled({32, 24}, 3, other);
  const std::initializer_list<std::string> both = {"cuda:0", "cuda:1"};
  EXPECT_TRUE(throws<stiletto::ArgumentError>([&] { stiletto::jit(product, here, there); }, both));
  EXPECT_TRUE(throws<stiletto::ArgumentError>([&] { stiletto::compile(product, here, there); }, both));
  EXPECT_TRUE(throws<stiletto::ArgumentError>([&] { stiletto::matmul(here, there); }, both));
  const auto on_one = stiletto::compile(product, here, filled({32, 24}, 3));
  EXPECT_TRUE(throws<stiletto::Error>([&] { on_one(here, there); }, both));
  EXPECT_EQ(current_device(), 0);
}

}  // namespace
