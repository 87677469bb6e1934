// SPDX-License-Identifier: Apache-2.0
// Allocating for a long time: what is freed is used again.
#include "support/cuda_api.hpp"
#include "support/raw_arrays.hpp"

namespace {

using namespace support;
using stiletto::Device;

const Device gpu = Device::cuda(0);

std::size_t free_memory() {
  std::size_t free = 0, total = 0;
  cuda_call("cudaMemGetInfo", &free, &total);
  return free;
}

/// The memory in use may not grow by more than a few of the loop's arrays.
template <class Step>
void expect_no_growth(int steps, std::size_t allowed, Step step) {
  for (int i = 0; i < 100; ++i) step(i);
  cuda_synchronize(nullptr);
  const std::size_t before = free_memory();
  for (int i = 0; i < steps; ++i) step(i);
  cuda_synchronize(nullptr);
  EXPECT_LE(before, free_memory() + allowed);
}

constexpr std::size_t mebibyte = std::size_t{1} << 20;

TEST(Allocation, a_hundred_thousand_times) {
  expect_no_growth(100000, 64 * mebibyte,
                   [](int i) { (void)stiletto::empty({1 << 18, 1 + i % 4}, DType::float32, gpu); });
}

TEST(Allocation, while_others_live) {
  Array last;
  expect_no_growth(5000, 64 * mebibyte, [&](int i) {
    const Array next = stiletto::ones({1 << 18, 1 + i % 4}, DType::float32, gpu);
    last = next.copy();
  });
}

TEST(Allocation, dropped_after_their_guard) {
  const Stream stream;
  expect_no_growth(5000, 256 * mebibyte, [&](int) {
    Array x;
    {
      const stiletto::StreamGuard guard(stream.get());
      x = stiletto::ones({1 << 18}, DType::float32, gpu);
    }
    x = {};
  });
}

TEST(Allocation, an_array_keeps_its_memory) {
  std::vector<Array> kept;
  for (int i = 0; i < 64; ++i) {
    kept.push_back(stiletto::full({1000}, i, DType::int32, gpu));
    (void)stiletto::full({1000}, -1, DType::int32, gpu);
  }
  for (int i = 0; i < 64; ++i)
    EXPECT_EQ(kept[static_cast<std::size_t>(i)].to_vector<int>(), std::vector<int>(1000, i));
}

}  // namespace
