// SPDX-License-Identifier: Apache-2.0
// Which CUDA functions are called, on which stream, and what happens when they fail.
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <thread>

#include "backends/cudnn/given_libraries.hpp"
#include "backends/cudnn/memory.hpp"
#include "backends/cudnn/workspace.hpp"
#include "stiletto/dlpack.hpp"
#include "support/cuda_api.hpp"
#include "support/errors.hpp"
#include "support/raw_arrays.hpp"
#include "unit/error_text.hpp"

namespace {

using namespace support;
using stiletto::Device;
using stiletto::StreamGuard;
using stiletto::detail::cudnn::free_kept_blocks;
using stiletto::detail::cudnn::workspace;

const Device gpu = Device::cuda(0);

template <class Result, class... T>
Result fake(const char* name, T... arguments) {
  return reinterpret_cast<Result (*)(T...)>(cuda_symbol(name))(arguments...);
}
std::size_t used() { return fake<std::size_t>("fake_used"); }
void fail(const char* name, int times, int error) { fake<void>("fake_fail", name, times, error); }

/// The calls that queue work, made by f: one per line.
template <class F>
std::string calls_alone(const F& f) {
  fake<void>("fake_clear_log");
  f();
  return fake<const char*>("fake_log");
}
/// The same in a thread that keeps no memory before and after.
template <class F>
std::string calls_of(const F& f) {
  free_kept_blocks();
  return calls_alone([&] {
    f();
    free_kept_blocks();
  });
}
std::string id_of(const Stream& stream) {
  unsigned long long id = 0;
  cuda_call("cudaStreamGetId", stream.get(), &id);
  return "s" + std::to_string(id);
}
Array empty(std::int64_t bytes, Device device = gpu) {
  return stiletto::empty({bytes}, DType::uint8, device);
}

/// So that opening a device's pool is not among the calls that a test looks at.
class FakeCuda : public testing::Test {
 protected:
  void SetUp() override {
    (void)empty(1);
    (void)empty(1, Device::cuda(1));
    free_kept_blocks();
    used_before_ = used();
  }
  void TearDown() override {
    (void)empty(1);  // frees what was delayed
    free_kept_blocks();
    EXPECT_EQ(used(), used_before_) << "memory was lost";
  }

 private:
  std::size_t used_before_ = 0;
};

TEST_F(FakeCuda, zero_bytes_are_no_call) {
  EXPECT_EQ(calls_of([] {
              const Array x = empty(0);
              (void)x.copy();
              (void)x.to(Device::cpu());
              (void)x.to_vector<std::uint8_t>();
              (void)stiletto::zeros({0, 3}, DType::float32, gpu);
              (void)stiletto::from_data(std::vector<float>{}, {0}, gpu);
              (void)x.to(Device::cuda(1));
            }),
            "");
}

TEST_F(FakeCuda, one_allocation_and_one_free) {
  EXPECT_EQ(calls_of([] { (void)empty(100); }), "MallocFromPoolAsync 100 0 default\nFreeAsync 100 default\n");
  const Stream stream;
  const StreamGuard guard(stream.get());
  const std::string s = id_of(stream);
  EXPECT_EQ(calls_of([] { (void)empty(100); }),
            "MallocFromPoolAsync 100 0 " + s + "\nFreeAsync 100 " + s + "\n");
}

TEST_F(FakeCuda, a_freed_block_is_taken_again_without_a_call) {
  (void)empty(100);
  EXPECT_EQ(calls_alone([] { (void)empty(100); }), "");
  EXPECT_EQ(calls_alone([] { (void)empty(101); }), "MallocFromPoolAsync 101 0 default\n");
  EXPECT_NE(calls_alone([] { (void)empty(100, Device::cuda(1)); }).find("MallocFromPoolAsync 100 1"),
            std::string::npos);
  EXPECT_EQ(calls_alone([] {
              const Array first = empty(100), second = empty(100);
              EXPECT_NE(first.raw_data(), second.raw_data());
            }),
            "MallocFromPoolAsync 100 0 default\n");
}

TEST_F(FakeCuda, kept_blocks_are_few_and_small) {
  EXPECT_EQ(calls_alone([] {
              std::vector<Array> arrays;
              for (int i = 1; i <= 10; ++i) arrays.push_back(empty(100 * i));
              fake<void>("fake_clear_log");
              for (Array& array : arrays) array = {};
            }),
            "FreeAsync 100 default\nFreeAsync 200 default\n");
  constexpr std::int64_t mebibyte = 1 << 20;
  free_kept_blocks();
  EXPECT_EQ(calls_of([] { (void)empty(65 * mebibyte); }),
            "MallocFromPoolAsync 68157440 0 default\nFreeAsync 68157440 default\n");
  (void)empty(40 * mebibyte);
  EXPECT_EQ(calls_alone([] { (void)empty(30 * mebibyte); }),
            "MallocFromPoolAsync 31457280 0 default\nFreeAsync 41943040 default\n");
}

TEST_F(FakeCuda, kept_blocks_are_freed_with_their_guard) {
  const Stream stream, other;
  const std::string s = id_of(stream);
  {
    const StreamGuard guard(stream.get());
    (void)empty(100);
    {
      const StreamGuard inner(other.get());
      EXPECT_NE(calls_alone([] { (void)empty(100); }), "");
    }
    EXPECT_EQ(calls_alone([] { (void)empty(100); }), "");
    fake<void>("fake_clear_log");
  }
  EXPECT_EQ(std::string(fake<const char*>("fake_log")).find("FreeAsync 100 " + s), 0U);
}

TEST_F(FakeCuda, a_block_that_was_used_under_an_ended_guard_is_not_kept) {
  const Stream stream;
  Array x = empty(100);
  {
    const StreamGuard guard(stream.get());
    (void)x.copy();
  }
  const std::string freed = calls_alone([&] { x = {}; });
  EXPECT_NE(freed.find("FreeAsync 100 s"), std::string::npos) << freed;
  EXPECT_EQ(freed.find("FreeAsync 100 default"), std::string::npos) << "not in the default stream's order";
  EXPECT_EQ(freed.find("FreeAsync 100 " + id_of(stream)), std::string::npos) << "the stream may be gone";
  (void)empty(100);
  EXPECT_EQ(calls_alone([] { (void)empty(100); }), "") << "a later block is kept again";
}

TEST_F(FakeCuda, kept_blocks_are_freed_with_their_thread) {
  EXPECT_EQ(calls_alone([] { std::thread([] { (void)empty(100); }).join(); }),
            "MallocFromPoolAsync 100 0 default\nFreeAsync 100 default\n");
}

TEST_F(FakeCuda, a_capture_takes_no_kept_block) {
  const Stream stream;
  const StreamGuard guard(stream.get());
  (void)empty(100);
  CapturedGraph graph(stream);
  EXPECT_NE(calls_alone([] { (void)empty(100); }), "");
  EXPECT_EQ(graph.end(), 0);
}

TEST_F(FakeCuda, fills_take_one_call) {
  const auto fill = [](const Array& value, DType dtype) {
    const std::string calls = calls_of([&] { (void)stiletto::full({1 << 16}, value, dtype, gpu); });
    const std::size_t begin = calls.find('\n') + 1;  // after the allocation
    const std::size_t end = calls.find("FreeAsync");
    std::string middle = calls.substr(begin, end - begin);
    while (middle.starts_with("SetDevice")) middle = middle.substr(middle.find('\n') + 1);
    return middle;
  };
  EXPECT_EQ(fill(0, DType::float64), "MemsetAsync 0 524288 default\n");
  EXPECT_EQ(fill(-1, DType::int64), "MemsetAsync 255 524288 default\n");
  EXPECT_EQ(fill(7, DType::int8), "MemsetAsync 7 65536 default\n");
  EXPECT_EQ(fill(1, DType::float16), "MemsetD16 65536 default\n");
  EXPECT_EQ(fill(1, DType::float32), "MemsetD32 65536 default\n");
  EXPECT_EQ(fill((std::int64_t{3} << 32) + 3, DType::int64), "MemsetD32 131072 default\n");
  EXPECT_EQ(fill(1, DType::float64),
            "MemsetD2D32 1 16384 default\nMemsetD2D32 1 16384 default\n"
            "MemcpyAsync 131072 within default\nMemcpyAsync 262144 within default\n");
}

TEST_F(FakeCuda, only_the_host_waits) {
  const Array x = stiletto::ones({100, 30}, DType::float32, gpu);
  const std::string device = calls_of([&] {
    (void)stiletto::transpose(x).copy();
    (void)stiletto::ones({20}, DType::float32, gpu);
    (void)x.to(Device::cuda(1));
  });
  EXPECT_EQ(device.find("Synchronize"), std::string::npos) << device;
  for (const auto& read : std::vector<std::function<void()>>{
           [&] { (void)x.to_vector<float>(); }, [&] { (void)x.at<float>({3, 3}); },
           [&] { (void)x.to(Device::cpu()); }, [&] { (void)stiletto::ones({3}).to(gpu); }})
    EXPECT_NE(calls_of(read).find("StreamSynchronize"), std::string::npos);
}

TEST_F(FakeCuda, default_streams_of_two_gpus_are_ordered) {
  const Array x = stiletto::ones({2}, DType::float32, gpu);
  std::string calls = calls_of([&] { (void)x.to(Device::cuda(1)); });
  std::erase_if(calls, [](char c) { return c == '\n'; });
  const auto at = [&](const char* what) { return calls.find(what); };
  EXPECT_LT(at("EventRecord 0 default"), at("StreamWaitEvent default 0")) << calls;
  EXPECT_LT(at("StreamWaitEvent default 0"), at("MemcpyPeerAsync 1 0 8 default")) << calls;
  EXPECT_LT(at("MemcpyPeerAsync 1 0 8 default"), at("EventRecord 1 default")) << calls;
  EXPECT_LT(at("EventRecord 1 default"), at("StreamWaitEvent default 1")) << calls;
}

TEST_F(FakeCuda, a_guard_that_ends_is_marked) {
  const Stream stream;
  const std::string s = id_of(stream);
  Array x;
  const std::string calls = calls_of([&] {
    const StreamGuard guard(stream.get());
    x = empty(100);
  });
  EXPECT_NE(calls.find("EventRecord 0 " + s + "\nStreamWaitEvent s"), std::string::npos) << calls;
  const std::string unused = calls_of([&] { const StreamGuard guard(stream.get()); });
  EXPECT_EQ(unused, "");
  const std::string freed = calls_of([&] { x = {}; });
  EXPECT_EQ(freed.find(s + "\n"), std::string::npos) << "the stream may be gone: " << freed;
  EXPECT_NE(freed.find("FreeAsync 100 s"), std::string::npos) << freed;
}

TEST_F(FakeCuda, a_guarded_stream_is_waited_for) {
  const Stream stream;
  const StreamGuard guard(stream.get());
  Array x = empty(100);
  const std::string freed = calls_of([&] { std::thread([&] { x = {}; }).join(); });
  EXPECT_NE(freed.find("EventRecord 0 " + id_of(stream)), std::string::npos) << freed;
  EXPECT_EQ(freed.find("FreeAsync 100 " + id_of(stream)), std::string::npos) << freed;
}

TEST_F(FakeCuda, a_handle_used_again_is_another_stream) {
  std::thread([] {  // whose workspace goes with it
    Array x;
    CUstream_st* handle = nullptr;
    {
      const Stream stream;
      handle = stream.get();
      const StreamGuard guard(stream.get());
      x = empty(100);
      (void)workspace(0, stream.get(), 64);
    }
    const Stream next;
    ASSERT_EQ(next.get(), handle);
    const StreamGuard guard(next.get());
    const std::string freed = calls_of([&] { x = {}; });
    EXPECT_EQ(freed.find("FreeAsync 100 " + id_of(next)), std::string::npos) << freed;
    EXPECT_NE(calls_of([&] { (void)workspace(0, next.get(), 64); }), "");
  })
      .join();
}

TEST_F(FakeCuda, frees_wait_for_the_end_of_a_capture) {
  const Stream stream;
  const StreamGuard guard(stream.get());
  Array x = empty(100);
  CapturedGraph graph(stream);
  EXPECT_EQ(calls_of([&] { x = {}; }), "");
  EXPECT_EQ(graph.end(), 0);
  EXPECT_NE(calls_of([] { (void)empty(1); }).find("FreeAsync 100"), std::string::npos);
}

TEST_F(FakeCuda, a_graph_keeps_its_memory) {
  const Stream stream;
  const StreamGuard guard(stream.get());
  const std::size_t before = used();
  {
    CapturedGraph graph(stream);
    (void)empty(1000);
    EXPECT_EQ(graph.end(), 0);
    (void)empty(1);
    free_kept_blocks();
    EXPECT_EQ(used(), before + 1000);
  }
  (void)empty(1);
  free_kept_blocks();
  EXPECT_EQ(used(), before);
}

TEST_F(FakeCuda, a_full_pool_is_trimmed_once) {
  fail("MallocFromPoolAsync", 1, 2);
  EXPECT_EQ(calls_of([] { (void)empty(100); }),
            "MallocFromPoolAsync 100 0 default\nMemPoolTrimTo 0 0\nMallocFromPoolAsync 100 0 default\n"
            "FreeAsync 100 default\n");
  (void)empty(50);
  fail("MallocFromPoolAsync", 1, 2);
  EXPECT_EQ(calls_alone([] { (void)empty(100); }),
            "MallocFromPoolAsync 100 0 default\nFreeAsync 50 default\nMemPoolTrimTo 0 0\n"
            "MallocFromPoolAsync 100 0 default\n");
  fail("MallocFromPoolAsync", 2, 2);
  free_kept_blocks();
  EXPECT_TRUE(throws<stiletto::DeviceError>(
      [] { empty(100); }, {"allocating 100 bytes on cuda:0 failed", "of 4294967296 bytes are free", "drop"}));
  (void)empty(100);
}

TEST_F(FakeCuda, errors_name_the_operation_and_the_device) {
  const Array x = stiletto::ones({4, 4}, DType::float32, gpu);
  fail("MemcpyAsync", 1, 700);
  EXPECT_TRUE(throws<stiletto::DeviceError>(
      [&] { x.to_vector<float>(); },
      {"to_vector: CUDA error 700 (an illegal memory access) on cuda:0", "start it again"}));
  fail("Memcpy2DAsync", 1, 1);
  EXPECT_TRUE(throws<stiletto::DeviceError>([&] { stiletto::transpose(x).copy(); },
                                            {"copy: CUDA error 1 (fake error) on cuda:0"}));
  fail("MemcpyPeerAsync", 1, 1);
  EXPECT_TRUE(throws<stiletto::DeviceError>([&] { x.to(Device::cuda(1)); }, {"to: CUDA error 1"}));
  fail("MemsetAsync", 1, 1);
  EXPECT_TRUE(throws<stiletto::DeviceError>([] { stiletto::zeros({2}, DType::float32, gpu); },
                                            {"CUDA error 1", "cuda:0"}));
  fail("FreeAsync", 1, 1);
  {
    const Array dropped = empty(10);
  }
  EXPECT_EQ(x.to_vector<float>(), std::vector<float>(16, 1.0F));
}

TEST_F(FakeCuda, tensors_are_ordered_with_the_other_librarys_stream) {
  const Stream ours, theirs;
  const std::string here = id_of(ours), there = id_of(theirs);
  const StreamGuard guard(ours.get());
  const Array x = empty(100);
  DLManagedTensor* tensor = nullptr;
  EXPECT_EQ(calls_alone([&] { tensor = stiletto::to_dlpack(x, theirs.get()); }),
            "EventRecord 0 " + here + "\nStreamWaitEvent " + there + " 0\n");
  EXPECT_EQ(calls_alone([&] { tensor = stiletto::to_dlpack(stiletto::from_dlpack(tensor, theirs.get())); }),
            "EventRecord 0 " + there + "\nStreamWaitEvent " + here + " 0\n");
  EXPECT_EQ(calls_alone([&] {
              const Array again = stiletto::from_dlpack(tensor);
              EXPECT_EQ(again.raw_data(), x.raw_data());
              EXPECT_EQ(again.device(), gpu);
            }),
            "");
}

TEST_F(FakeCuda, another_gpu_is_current_for_the_call_only) {
  const Array x = stiletto::full({4}, 3, DType::int32, Device::cuda(1));
  EXPECT_EQ(x.to_vector<int>(), std::vector<int>(4, 3));
  int device = -1;
  cuda_call("cudaGetDevice", &device);
  EXPECT_EQ(device, 0);
}

TEST_F(FakeCuda, workspace_grows_in_the_streams_order) {
  std::thread([] {
    (void)workspace(0, nullptr, 100);
    EXPECT_EQ(calls_of([] { (void)workspace(0, nullptr, 90); }), "");
    EXPECT_EQ(calls_of([] { (void)workspace(0, nullptr, 200); }),
              "FreeAsync 100 default\nMallocFromPoolAsync 200 0 default\n");
  }).join();
}

/// Handlers of exit run last first: the one below, registered before CUDA is opened, drops its array when the
/// runtime has shut down, and the fake ends the program if it is called then.
TEST(FakeCudaDeathTest, nothing_is_called_after_the_end) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        static Array* const kept = new Array;
        std::atexit([] {
          fake<void>("fake_end");
          *kept = {};
        });
        *kept = empty(100);
        std::exit(0);
      },
      testing::ExitedWithCode(0), "");
}

TEST(FakeCudaDeathTest, nothing_is_called_in_a_child_process) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        Array x = empty(100);
        if (fork() == 0) {
          fake<void>("fake_end");
          x = {};
          std::_Exit(0);
        }
        int status = 1;
        wait(&status);
        std::_Exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
      },
      testing::ExitedWithCode(0), "");
}

TEST(FakeCudaDeathTest, a_function_that_is_missing_is_named) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        stiletto::detail::cudnn::Library other;
        other.path = "/somewhere/libcudart.so";
        other.version = "11.2";
        other.handle = dlopen("libm.so.6", RTLD_NOW);
        stiletto::detail::cudnn::use_libraries(other, other);
        std::fprintf(stderr, "%s\n", unit::error_of([] { (void)empty(1); }).c_str());
        std::_Exit(3);
      },
      testing::ExitedWithCode(3),
      "DeviceError: /somewhere/libcudart.so .version 11.2. has no function cudaGetDeviceCount; Stiletto "
      "needs "
      "CUDA 12.0");
}

}  // namespace
