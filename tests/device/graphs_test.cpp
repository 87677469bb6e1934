// SPDX-License-Identifier: Apache-2.0
// What only a GPU that runs beside the program can show: captured graphs that are launched, memory that must
// not be used again too early, and the end of the process.
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "support/cuda_api.hpp"
#include "support/raw_arrays.hpp"

namespace {

using namespace support;
using stiletto::Device;
using stiletto::StreamGuard;

const Device gpu = Device::cuda(0);
constexpr std::int64_t large = 1 << 24;

Array filled(int value, std::int64_t count = large) {
  return stiletto::full({count}, value, DType::int32, gpu);
}
int first_of(const Array& x) { return x.at<int>({0}); }
int last_of(const Array& x) { return x.at<int>({-1}); }
/// Writes the caller's memory with plain CUDA.
void overwrite(const Array& x, int byte, CUstream_st* stream) {
  cuda_call("cudaMemsetAsync", x.raw_data(), byte, x.nbytes(), stream);
}

TEST(Graphs, copies_and_fills_are_launched_again_and_again) {
  const Stream stream;
  const StreamGuard guard(stream.get());
  const Array x = filled(1);
  CapturedGraph graph(stream);
  const Array copy = x.copy();
  const Array fill = stiletto::full({large}, 2.5, DType::float64, gpu);
  ASSERT_EQ(graph.end(), 0);
  for (const int byte : {1, 2, 3}) {
    overwrite(x, byte, stream.get());
    graph.launch();
    EXPECT_EQ(first_of(copy), byte * 0x01010101);
    EXPECT_EQ(last_of(copy), byte * 0x01010101);
    EXPECT_EQ(fill.at<double>({-1}), 2.5);
    overwrite(fill, 0, stream.get());
  }
}

TEST(Graphs, keep_memory_that_no_array_has) {
  const Stream stream;
  const StreamGuard guard(stream.get());
  const Array x = filled(5), result = filled(0);
  CapturedGraph graph(stream);
  {
    const Array between = x.copy();
    cuda_call("cudaMemcpyAsync", result.raw_data(), static_cast<const void*>(between.raw_data()),
              between.nbytes(), 3, stream.get());
  }
  ASSERT_EQ(graph.end(), 0);
  for (int i = 0; i < 3; ++i) {
    const Array other = filled(-1);  // would get the memory if it were free
    graph.launch();
    EXPECT_EQ(last_of(result), 5);
    EXPECT_EQ(last_of(other), -1);
  }
}

TEST(Graphs, arrays_outlive_them) {
  const Stream stream;
  const StreamGuard guard(stream.get());
  const Array x = filled(7);
  Array copy;
  {
    CapturedGraph graph(stream);
    copy = x.copy();
    ASSERT_EQ(graph.end(), 0);
    graph.launch();
    cuda_synchronize(stream.get());
  }
  const Array other = filled(-1);
  EXPECT_EQ(last_of(copy), 7);
}

/// A block freed without regard to the stream that still reads it would be overwritten by the next fill.
TEST(Order, memory_dropped_after_its_guard) {
  const Stream stream;
  for (int i = 0; i < 50; ++i) {
    Array x, y;
    {
      const StreamGuard guard(stream.get());
      x = filled(i);
      for (int k = 0; k < 5; ++k) y = x.copy();
    }
    x = {};
    const Array other = filled(-1), another = filled(-2);
    const StreamGuard guard(stream.get());
    EXPECT_EQ(last_of(y), i);
    EXPECT_EQ(first_of(y), i);
  }
}

TEST(Order, memory_dropped_in_another_thread) {
  const Stream stream, second;
  const StreamGuard guard(stream.get());
  for (int i = 0; i < 50; ++i) {
    Array x = filled(i), y;
    for (int k = 0; k < 5; ++k) y = x.copy();
    std::thread([&] {
      const StreamGuard other(second.get());
      x = {};
      (void)filled(-1);
    }).join();
    EXPECT_EQ(last_of(y), i);
  }
}

TEST(Order, memory_of_the_default_stream_dropped_under_a_guard) {
  const Stream stream;
  for (int i = 0; i < 50; ++i) {
    Array x = filled(i), y;
    cuda_synchronize(nullptr);
    const StreamGuard guard(stream.get());
    for (int k = 0; k < 5; ++k) y = x.copy();
    x = {};
    std::thread([] { (void)filled(-1); }).join();
    EXPECT_EQ(last_of(y), i);
  }
}

/// Case 125 of the public list: work on a stream that is not ordered with the default one, behind what makes
/// its operand there, 50 ms later.
TEST(PublicCases, case_125) {
  const Stream stream;
  const Array x = stiletto::full({1000}, 0.0f, DType::float32, gpu);
  const Array two = stiletto::full({1000}, 2.0f, DType::float32, gpu);
  const auto f = stiletto::compile([](const Array& a) { return 3.0f * a; }, x);
  cuda_synchronize(nullptr);
  const StreamGuard guard(stream.get());
  (void)f(x);  // the first call on a stream may take longer than the wait
  stiletto::assign(x, two);
  void (*const wait)(void*) = [](void*) { std::this_thread::sleep_for(std::chrono::milliseconds(50)); };
  for (int i = 0; i < 50; ++i) {
    overwrite(x, 0, stream.get());
    cuda_call("cudaLaunchHostFunc", stream.get(), wait, static_cast<void*>(nullptr));
    stiletto::assign(x, two);
    const Array y = f(x);
    EXPECT_NE(cuda_status("cudaStreamQuery", stream.get()), 0) << "f waited";
    EXPECT_EQ(cuda_status("cudaStreamQuery", static_cast<CUstream_st*>(nullptr)), 0)
        << "something is on the default stream";
    ASSERT_EQ(y.to_vector<float>(), std::vector<float>(1000, 6)) << "repeat " << i;
  }
}

TEST(EndDeathTest, arrays_and_threads_may_be_left) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        static Array kept;
        static Array* const leaked = new Array;
        std::atexit([] { *leaked = {}; });
        kept = filled(1);
        *leaked = filled(2);
        static std::atomic<bool> started{false};
        std::thread([] {
          for (;;) {
            (void)filled(3, 1000);
            started = true;
          }
        }).detach();
        while (!started) std::this_thread::yield();
        std::exit(0);
      },
      testing::ExitedWithCode(0), "");
}

}  // namespace
