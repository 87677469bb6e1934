// SPDX-License-Identifier: Apache-2.0
// Streams, threads and captures: memory is right whichever stream it was allocated, used and dropped on, and
// nothing that the library does breaks a capture.
#include <sstream>
#include <thread>

#include "backends/cudnn/workspace.hpp"
#include "support/cuda_api.hpp"
#include "support/errors.hpp"
#include "support/raw_arrays.hpp"

namespace {

using namespace support;
using stiletto::Device;
using stiletto::StreamGuard;
using stiletto::detail::cudnn::workspace;

const Device gpu = Device::cuda(0);

Array ones(std::int64_t count) { return stiletto::ones({count}, DType::float32, gpu); }
void expect_ones(const Array& x) {
  EXPECT_EQ(x.to_vector<float>(), std::vector<float>(static_cast<std::size_t>(x.size()), 1.0F));
}

TEST(Streams, everything_works_under_a_guard) {
  for (const bool blocking : {false, true}) {
    const Stream stream(blocking);
    const StreamGuard guard(stream.get());
    const Array x = ones(1000);
    expect_ones(x);
    expect_ones(x.copy());
    expect_ones(x.to(Device::cpu()).to(gpu));
    EXPECT_EQ(stiletto::from_data(std::vector<int>{1, 2}, {2}, gpu).to_vector<int>(),
              (std::vector<int>{1, 2}));
  }
}

TEST(Streams, guards_nest) {
  const Stream first, second;
  const StreamGuard outer(first.get());
  const Array x = ones(10);
  {
    const StreamGuard inner(second.get());
    const Array y = ones(10);
    const StreamGuard again(second.get());
    expect_ones(y);
  }
  expect_ones(x);
}

TEST(Streams, arrays_outlive_their_stream) {
  Array kept, also;
  {
    Stream stream;
    {
      const StreamGuard guard(stream.get());
      kept = ones(1 << 16);
      also = kept.copy();
    }
    cuda_synchronize(stream.get());
    stream.destroy();
  }
  expect_ones(kept);
  kept = {};
  Stream next;  // perhaps with the handle of the one before
  const StreamGuard guard(next.get());
  also = {};
  expect_ones(ones(1 << 16));
}

TEST(Streams, arrays_are_dropped_in_other_threads) {
  const Stream stream;
  const StreamGuard guard(stream.get());
  for (int i = 0; i < 50; ++i) {
    Array x = ones(5000);
    expect_ones(x);
    std::thread([&x] { x = {}; }).join();
  }
  std::thread([] { expect_ones(ones(20)); }).join();
}

TEST(Streams, threads_allocate_at_once) {
  std::vector<std::thread> threads;
  threads.reserve(8);
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([t] {
      const Stream stream(t % 2 == 0);
      for (int i = 0; i < 100; ++i) {
        const StreamGuard guard(t < 4 ? nullptr : stream.get());
        const Array x = ones(100 + 300 * (i % 7));
        const Array y = x.copy();
        if (i % 10 == 0) expect_ones(y);
      }
      cuda_synchronize(stream.get());
    });
  for (std::thread& thread : threads) thread.join();
}

TEST(Streams, reading_during_a_capture_is_refused) {
  const Stream stream;
  const StreamGuard guard(stream.get());
  const Array x = ones(4);
  const Array here = stiletto::ones({4});
  CapturedGraph graph(stream);
  const std::initializer_list<std::string> facts = {"current stream", "captured", "before the capture"};
  EXPECT_TRUE(throws<stiletto::ArgumentError>([&] { x.to_vector<float>(); }, facts));
  EXPECT_TRUE(throws<stiletto::ArgumentError>([&] { x.at<float>({0}); }, facts));
  EXPECT_TRUE(throws<stiletto::ArgumentError>([&] { x.to(Device::cpu()); }, facts));
  EXPECT_TRUE(throws<stiletto::ArgumentError>([&] { here.to(gpu); }, facts));
  EXPECT_TRUE(throws<stiletto::ArgumentError>([&] { std::ostringstream() << x; }, facts));
  EXPECT_TRUE(throws<stiletto::ArgumentError>([&] { stiletto::from_data(std::vector<float>{1}, {1}, gpu); },
                                              {"from_data", "captured"}));
  EXPECT_EQ(graph.end(), 0) << "the capture was broken";
  expect_ones(x);
}

TEST(Streams, memory_of_a_capture_belongs_to_its_graph) {
  const Stream stream;
  const StreamGuard guard(stream.get());
  Array before = ones(1000), made;
  void* scratch = nullptr;
  {
    CapturedGraph graph(stream);
    made = stiletto::empty({1000}, DType::float32, gpu);
    const Array dropped = stiletto::empty({1000}, DType::float32, gpu);
    EXPECT_NE(dropped.raw_data(), made.raw_data());
    scratch = workspace(0, stream.get(), 4096);
    EXPECT_NE(scratch, workspace(0, stream.get(), 4096)) << "each captured call has its own";
    before = {};  // freed after the capture
    EXPECT_EQ(graph.end(), 0) << "the capture was broken";
    expect_ones(ones(1000));
  }
  EXPECT_NE(scratch, workspace(0, stream.get(), 4096));
  made = {};
  expect_ones(ones(1000));
}

TEST(Streams, the_default_stream_beside_a_blocking_capture) {
  const Stream stream(true);
  Array x = ones(100);
  CapturedGraph graph(stream);
  EXPECT_TRUE(throws<stiletto::DeviceError>([] { stiletto::empty({8}, DType::float32, gpu); },
                                            {"default stream", "blocking stream", "StreamGuard"}));
  EXPECT_TRUE(throws<stiletto::ArgumentError>([&] { x.to_vector<float>(); }, {"default stream"}));
  x = {};
  EXPECT_EQ(graph.end(), 0) << "the capture was broken";
  expect_ones(ones(100));
}

TEST(Streams, other_threads_go_on_beside_a_capture) {
  const Stream stream;
  expect_ones(ones(10));
  CapturedGraph graph(stream);
  std::thread([] {
    const Stream other;
    const StreamGuard guard(other.get());
    for (int i = 0; i < 20; ++i) expect_ones(ones(1000 * (i + 1)).copy());
  }).join();
  EXPECT_EQ(graph.end(), 0) << "the capture was broken";
}

TEST(Workspace, one_per_thread_and_stream) {
  const Stream stream;
  void* const first = workspace(0, nullptr, 1000);
  EXPECT_EQ(workspace(0, nullptr, 0), nullptr);
  EXPECT_EQ(workspace(0, nullptr, 500), first);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(first) % 256, 0U);
  {
    const StreamGuard guard(stream.get());
    void* const second = workspace(0, stream.get(), 1000);
    EXPECT_NE(second, first);
    EXPECT_EQ(workspace(0, stream.get(), 1000), second);
  }
  std::thread([first] { EXPECT_NE(workspace(0, nullptr, 1000), first); }).join();
  EXPECT_EQ(workspace(0, nullptr, 1000), first);
}

TEST(Workspace, any_number_of_streams) {
  for (int i = 0; i < 30; ++i) {
    const Stream stream;
    const StreamGuard guard(stream.get());
    EXPECT_NE(workspace(0, stream.get(), 100000), nullptr);
    cuda_synchronize(stream.get());
  }
}

}  // namespace
