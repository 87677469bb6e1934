// SPDX-License-Identifier: Apache-2.0
// Arrays made, used and dropped at random by several threads, on streams that come and go, beside captures:
// none shares memory with another, the fake finds none used or freed too early, and all memory comes back.
#include <condition_variable>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <set>
#include <thread>

#include "backends/cudnn/memory.hpp"
#include "backends/cudnn/workspace.hpp"
#include "support/cuda_api.hpp"
#include "support/raw_arrays.hpp"

namespace {

using namespace support;
using stiletto::Device;
using stiletto::StreamGuard;
using namespace stiletto::detail::cudnn;

struct Own {  // a stream; the default stream is null
  bool blocking;
  Stream stream{blocking};
  std::unique_ptr<CapturedGraph> capture = nullptr;
};
CUstream_st* handle(const Own* own) { return own == nullptr ? nullptr : own->stream.get(); }

/// A thread that does one thing after another, each to its end, so that every run is the same.
class Worker {
 public:
  Worker() = default;
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  ~Worker() {
    run({});
    thread_.join();
  }
  void run(const std::function<void()>& step) {
    std::unique_lock lock(mutex_);
    step_ = &step;
    changed_.notify_all();
    changed_.wait(lock, [&] { return step_ == nullptr; });
  }
  Own* current() const { return guards.empty() ? nullptr : guards.back().first; }
  std::list<std::pair<Own*, StreamGuard>> guards;  // of the thread, the innermost last

 private:
  void work() {
    for (bool ends = false; !ends; changed_.notify_all()) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return step_ != nullptr; });
      ends = !*step_;
      if (!ends) (*step_)();
      step_ = nullptr;
    }
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  const std::function<void()>* step_ = nullptr;
  std::thread thread_{[this] { work(); }};  // last: it uses the others
};

struct Live {
  Array array;
  int value;
  bool made_here;
  Own* made_on;
  std::set<Own*> used_on;                            // streams that live
  std::set<std::pair<Worker*, Own*>> guarded_still;  // uses that no guard's end covers
};

class World {
 public:
  explicit World(std::uint64_t seed) : random_(seed) {}
  void step() {
    std::unique_ptr<Worker>& worker = workers_[static_cast<std::size_t>(random_.below(3))];
    if (!random_.chance(1)) return worker->run([&] { act(*worker, worker->current()); });
    if (std::any_of(streams_.begin(), streams_.end(), [](const Own& own) { return own.capture != nullptr; }))
      return;
    end_guards(*worker);
    worker = std::make_unique<Worker>();
  }
  void end() {
    for (Own& own : streams_) end_capture(own);
    for (auto& worker : workers_) end_guards(*worker);
    workers_[0]->run([&] {
      while (!live_.empty()) drop(live_.begin(), nullptr);
    });
  }

 private:
  bool usable(const Own* own) const {
    if (own != nullptr) return own->capture == nullptr;
    return std::none_of(streams_.begin(), streams_.end(),
                        [](const Own& each) { return each.capture && each.blocking; });
  }
  /// As the caller has to, where an array is used on another stream.
  bool order(const Own* before, const Own* after) const {
    if (before == after) return true;
    if (!usable(before) || !usable(after)) return false;
    void* event = nullptr;
    cuda_call("cudaEventCreateWithFlags", &event, 2U);
    cuda_call("cudaEventRecord", event, handle(before));
    cuda_call("cudaStreamWaitEvent", handle(after), event, 0U);
    return true;
  }
  void end_guard(Worker& worker) {
    Own* const ended = worker.current();
    worker.guards.pop_back();
    if (ended == nullptr || ended == worker.current()) return;
    for (Live& live : live_) live.guarded_still.erase({&worker, ended});
  }
  void end_guards(Worker& worker) {
    worker.run([&] {
      while (!worker.guards.empty()) end_guard(worker);
    });
  }
  static void end_capture(Own& own) {
    if (own.capture != nullptr && own.capture->end() != 0) ADD_FAILURE() << "a capture was broken";
    own.capture.reset();
  }

  void add(Array array, int value, Worker& worker, Own* on) {
    const auto* data = static_cast<const char*>(array.raw_data());
    for (const Live& live : live_) {
      const auto* other = static_cast<const char*>(live.array.raw_data());
      ASSERT_TRUE(other + live.array.size() <= data || data + array.size() <= other);
    }
    live_.push_back({std::move(array), value, true, on, {on}, {{&worker, on}}});
  }
  void drop(std::list<Live>::iterator live, const Own* on) {
    const auto* bytes = static_cast<const unsigned char*>(live->array.raw_data());
    for (std::int64_t i = 0; i < live->array.size(); ++i) ASSERT_EQ(bytes[i], live->value);
    for (const auto& [worker, used] : live->guarded_still)
      if (!(used == live->made_on && live->made_here) && !order(used, on)) return;
    live_.erase(live);
  }
  template <class List>
  auto any(List& list) {
    return std::next(list.begin(), random_.below(static_cast<std::int64_t>(list.size())));
  }

  void act(Worker& worker, Own* on) {
    const std::int64_t size =
        std::to_array<std::int64_t>({64, 64, 100, 300, 5000})[static_cast<std::size_t>(random_.below(5))];
    const auto action = random_.below(13);
    if (action < 3) {  // make
      const Device device = Device::cuda(on == nullptr && random_.chance(20) ? 1 : 0);
      const int value = static_cast<int>(random_.below(200));
      if (usable(on) && live_.size() < 30)
        add(stiletto::full({size}, value, DType::uint8, device), value, worker, on);
      else if (on == nullptr && !usable(on))
        EXPECT_THROW(stiletto::empty({size}, DType::uint8, device), stiletto::DeviceError);
      else
        (void)stiletto::empty({size}, DType::uint8, device);
    } else if (action < 6) {
      if (!live_.empty()) drop(any(live_), on);
    } else if (action == 6) {  // use
      if (live_.empty() || !usable(on)) return;
      Live& live = *any(live_);
      if (live.array.device() != Device::cuda(0)) return;
      for (const Own* used : live.used_on)
        if (!order(used, on)) return;
      add(live.array.copy(), live.value, worker, on);
      live.used_on.insert(on);
      live.guarded_still.insert({&worker, on});
    } else if (action == 7) {
      if (worker.guards.size() == 4 || streams_.empty()) return;
      Own* const own = random_.chance(15) ? nullptr : &*any(streams_);
      worker.guards.emplace_back(std::piecewise_construct, std::tuple(own), std::tuple(handle(own)));
    } else if (action == 8) {
      if (!worker.guards.empty() && (on == nullptr || !on->capture)) end_guard(worker);
    } else if (action == 9) {
      if (streams_.size() < 5) streams_.emplace_back(random_.chance(30));
    } else if (action == 10) {
      if (!streams_.empty()) destroy(any(streams_));
    } else if (action == 11) {  // begin or end a capture
      if (on != nullptr && !on->capture)
        on->capture = std::make_unique<CapturedGraph>(on->stream);
      else if (!streams_.empty())
        end_capture(*any(streams_));
    } else if (usable(on)) {
      void* const scratch = workspace(0, handle(on), static_cast<std::size_t>(size));
      cuda_call("cudaMemsetAsync", scratch, 1, static_cast<std::size_t>(size), handle(on));
    } else {
      free_kept_blocks();
    }
  }
  void destroy(std::list<Own>::iterator own) {
    for (const Own& each : streams_)
      if (each.capture) return;
    for (const auto& worker : workers_)
      for (const auto& [guarded, guard] : worker->guards)
        if (guarded == &*own) return;
    cuda_synchronize(own->stream.get());
    for (Live& live : live_) {
      live.used_on.erase(&*own);
      if (live.made_on == &*own) live.made_here = false;
    }
    streams_.erase(own);
  }

  Random random_;
  std::list<Own> streams_;
  std::list<Live> live_;
  std::array<std::unique_ptr<Worker>, 3> workers_{std::make_unique<Worker>(), std::make_unique<Worker>(),
                                                  std::make_unique<Worker>()};
};

TEST(FakeCudaStress, random_steps) {
  const auto used = [] {
    for (int device : {0, 1})
      (void)stiletto::empty({1}, DType::uint8, Device::cuda(device));  // frees what was delayed
    free_kept_blocks();
    return reinterpret_cast<std::size_t (*)()>(cuda_symbol("fake_used"))();
  };
  reinterpret_cast<void (*)(bool)>(cuda_symbol("fake_watch_order"))(true);
  const std::size_t before = used();
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    {
      World world(seed);
      for (int i = 0; i < 2000; ++i) world.step();
      world.end();
    }
    EXPECT_EQ(used(), before);
    reinterpret_cast<void (*)()>(cuda_symbol("fake_clear_log"))();
  }
  reinterpret_cast<void (*)(bool)>(cuda_symbol("fake_watch_order"))(false);
}

}  // namespace
