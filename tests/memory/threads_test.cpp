// SPDX-License-Identifier: Apache-2.0
// Eight threads that share four streams call everything at once: jit with and without plans in its small
// cache, compiled functions in place and with results, guards that come and go, and calls that are captured
// and launched, while what others do goes on. Every result is looked at. Numbers are whole and small, so that
// results are exact.
#include <array>
#include <atomic>
#include <mutex>
#include <optional>
#include <shared_mutex>

#include "support/cuda_api.hpp"
#include "support/raw_arrays.hpp"
#include "support/threads.hpp"

namespace {

using namespace support;
using stiletto::Compiled;
using stiletto::Device;
using stiletto::StreamGuard;

const Device gpu = Device::cuda(0);

Array filled(const stiletto::Shape& shape, float value) {
  return stiletto::full(shape, value, DType::float32, gpu);
}
void expect_all(const Array& x, float value, const char* what) {
  for (const float element : x.to_vector<float>())
    if (element != value) {
      ADD_FAILURE() << what << " is " << element << " and not " << value << ", shape " << x.shape();
      return;
    }
}

/// A stream that threads share. While it is captured one of them has it alone: what the others would queue
/// there would be recorded, too.
struct SharedStream {
  explicit SharedStream(bool blocking) : stream(blocking) {}
  Stream stream;
  std::shared_mutex uses;
};

struct Product {
  Array array;
  float value;  // of every element
};

/// Of one thread. Arrays go from stream to stream, for which each step waits by reading them.
struct Own {
  explicit Own(int id) : random(static_cast<std::uint64_t>(id)) {}
  Random random;
  Array total = filled({1000}, 0);
  float sum = 0;
  std::vector<Product> kept;
};

class Stress {
 public:
  Stress() {
    const Array x = filled({64, 32}, 1);
    product_ =
        stiletto::compile([](const Array& a, const Array& w) { return stiletto::matmul(a, w); }, x, weights_);
    add_ = stiletto::compile([](const Array& to, const Array& a) { stiletto::assign(to, to + a); },
                             filled({1000}, 0), filled({1000}, 0));
    for (const std::int64_t length : warm) (void)stiletto::jit(scaled, filled({length}, 1), 1.0F);
    expect_all(weights_, 1, "what all streams read");  // and so is there
    warm_entries_ = stiletto::plan_cache().entries();
  }
  Stress(const Stress&) = delete;
  Stress& operator=(const Stress&) = delete;
  ~Stress() { stiletto::plan_cache().set_capacity(1024); }

  void run(int steps) {
    together([&](int id) {
      Own own(id);
      (void)own.total.to_vector<float>();
      for (int i = 0; i < steps && !testing::Test::HasFailure(); ++i) {
        if (id == 0 && i % 10 == 5) capture(own);
        step(own);
      }
    });
    EXPECT_GE(fresh_, 12);
    EXPECT_LE(stiletto::plan_cache().entries(), warm_entries_ + 3) << "what was new had to go";
    EXPECT_GT(captures_, 0);
  }

 private:
  static constexpr std::array<std::int64_t, 3> warm{256, 1000, 4096};
  static Array scaled(const Array& a, const Array& s) { return a * s + a; }

  void step(Own& own) {
    const auto at = static_cast<std::size_t>(own.random.below(4));
    const std::shared_lock uses(streams_[at].uses);
    const StreamGuard guard(streams_[at].stream.get());
    act(own);
    SharedStream& other = streams_[(at + 1) % 4];
    // A lock that waits could wait for a capture that waits for this thread.
    const std::shared_lock also(other.uses, std::try_to_lock);
    if (!also || !own.random.chance(30)) return;
    {
      const StreamGuard inner(other.stream.get());
      act(own);
    }
    act(own);
  }

  void act(Own& own) {
    const auto value = static_cast<float>(1 + own.random.below(8));
    switch (own.random.below(8)) {
      case 0:
      case 1:
        jit(warm[static_cast<std::size_t>(own.random.below(3))], value);
        break;
      case 2:
        miss(value);
        break;
      case 3:
      case 4:
        add_(own.total, filled({1000}, value));
        own.sum += value;
        expect_all(own.total, own.sum, "the sum in place");
        break;
      case 5:
        own.kept.push_back({product_(filled({64, 32}, value), weights_), 32 * value});
        expect_all(own.kept.back().array, 32 * value, "the product");
        break;
      case 6:
        exchange(own);
        break;
      default:
        resize(own);
    }
  }

  static void jit(std::int64_t length, float value) {
    expect_all(stiletto::jit(scaled, filled({length}, value), 3.0F), 4 * value, "what jit returns");
  }
  /// A shape that is new, or new for two threads at once. cuDNN takes a third of a second for each.
  void miss(float value) {
    const int number = fresh_++;
    if (number < 12 || cuda_is_fake()) jit(5000 + 8 * (number / 2), value);
  }
  /// What one thread made another one looks at and drops, on another stream.
  void exchange(Own& own) {
    if (own.kept.empty()) return;
    std::optional<Product> other = std::move(own.kept.back());
    own.kept.pop_back();
    {
      const std::lock_guard lock(mutex_);
      std::swap(other, common_);
    }
    if (other) expect_all(other->array, other->value, "another thread's product");
    if (own.kept.size() > 4) own.kept.clear();
  }
  /// On a GPU the plans that are used all the time stay, because each takes long to build.
  void resize(Own& own) {
    const auto some = static_cast<std::size_t>(1 + own.random.below(3));
    if (cuda_is_fake() && own.random.chance(10)) stiletto::plan_cache().clear();
    stiletto::plan_cache().set_capacity(cuda_is_fake() ? some : warm_entries_ + some);
  }

  /// Calls with results and in place, captured twice, for other memory the second time.
  void capture(Own& own) {
    SharedStream& on = streams_[0];
    const std::unique_lock alone(on.uses);
    const StreamGuard guard(on.stream.get());
    (void)product_(filled({64, 32}, 1), weights_);  // what a thread's first call sets up
    for (int binding = 0; binding < 2; ++binding) {
      const auto value = static_cast<float>(1 + own.random.below(8));
      const Array to = filled({1000}, 0), a = filled({1000}, value), x = filled({64, 32}, value);
      CapturedGraph graph(on.stream);
      add_(to, a);
      const Array y = product_(x, weights_);
      add_(to, a);
      ASSERT_EQ(graph.end(), 0) << "the capture was broken";
      for (int launch = 1; launch <= 3; ++launch) {
        graph.launch();
        expect_all(to, 2 * value * static_cast<float>(launch), "the captured sum");
        expect_all(y, 32 * value, "the captured product");
      }
    }
    ++captures_;
  }

  const Array weights_ = filled({32, 24}, 1);
  Compiled<Array(Array, Array)> product_;
  Compiled<void(Array, Array)> add_;
  std::size_t warm_entries_ = 0;
  std::array<SharedStream, 4> streams_{SharedStream(false), SharedStream(false), SharedStream(false),
                                       SharedStream(true)};
  std::atomic<int> fresh_{0};
  int captures_ = 0;
  std::mutex mutex_;
  std::optional<Product> common_;
};

/// cuDNN allocates, and loads and unloads kernels: what CUDA calls unsafe beside any capture.
TEST(Threads, plans_come_and_go_beside_a_capture) {
  for (const bool blocking : {false, true}) {
    const Stream stream(blocking);
    CapturedGraph graph(stream);
    together([&](int id) {
      const Stream other;
      const StreamGuard guard(other.get());
      const Array x = filled({6000 + 8 * (id % 2)}, 3);
      expect_all(stiletto::jit([](const Array& a) { return a * a - 1; }, x), 8, "what jit returns");
      stiletto::plan_cache().clear();
    });
    EXPECT_EQ(graph.end(), 0) << "the capture was broken";
  }
}

TEST(Threads, everything_at_once) {
  stiletto::plan_cache().clear();
  if (cuda_is_fake()) reinterpret_cast<void (*)(bool)>(cuda_symbol("fake_watch_order"))(true);
  Stress().run(cuda_is_fake() ? 1000 : 150);  // on a GPU a step takes a hundred times as long
  if (cuda_is_fake()) reinterpret_cast<void (*)(bool)>(cuda_symbol("fake_watch_order"))(false);
}

}  // namespace
