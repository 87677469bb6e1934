// SPDX-License-Identifier: Apache-2.0
// Stands between the compiler and the cuDNN backend in the numeric tests, which are the same for every
// device. The linker puts it there (--wrap), and the environment chooses what it does:
//   STILETTO_TEST_DEVICE=cuda   arrays are on the GPU. Of the many graphs of the tests a sample gets a plan
//   of
//       cuDNN's; which of them cuDNN must take and which it must refuse is in device_rules.hpp, and anything
//       else is a failure. So that a test goes on behind a refusal, and for graphs outside the sample, the
//       graph is computed by the CPU backend on copies.
//   STILETTO_TEST_DEVICE=plans  arrays are on the CPU, which computes everything; beside that the sample's
//       plans are built for STILETTO_TEST_TARGET (h200), without a GPU, and held to the same rules.
//   STILETTO_TEST_DEVICE=interpreted  arrays are on the CPU, which computes everything; beside that every
//   form
//       in which the lowering gives a graph to cuDNN is interpreted (engine_interpreter.hpp) and held to the
//       CPU's results. Neither cuDNN nor a GPU is needed, and the sample is everything.
//   STILETTO_TEST_DEVICE=fake   arrays are on a GPU that fake_cudart.cpp plays; every graph is computed on
//       copies. This tests the tests: that their arrays are where they should be.
// Otherwise, and with STILETTO_TEST_CHECKED=0, backends are used as they are. STILETTO_TEST_VERBOSE=1 prints
// a line per graph of the sample.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <set>
#include <span>

#include "backends/cudnn/given_libraries.hpp"
#include "backends/cudnn/libraries.hpp"
#include "backends/cudnn/lower.hpp"
#include "compiler/backend.hpp"
#include "core/device_memory.hpp"
#include "core/dtype_info.hpp"
#include "support/device_rules.hpp"
#include "support/interpreted_plan.hpp"

namespace stiletto::detail {

// NOLINTBEGIN(bugprone-reserved-identifier): the names that the linker's --wrap gives
Backend& real_cpu_backend() __asm__("__real__ZN8stiletto6detail11cpu_backendEv");
Backend& real_cudnn_backend() __asm__("__real__ZN8stiletto6detail13cudnn_backendEv");
Backend& wrapped_cpu_backend() __asm__("__wrap__ZN8stiletto6detail11cpu_backendEv");
Backend& wrapped_cudnn_backend() __asm__("__wrap__ZN8stiletto6detail13cudnn_backendEv");
// NOLINTEND(bugprone-reserved-identifier)

namespace {

std::string variable(const char* name, const char* otherwise) {
  const char* const value = std::getenv(name);
  return value != nullptr && *value != 0 ? value : otherwise;
}

// ---- which graphs get a plan of cuDNN's ----

/// Every k-th graph, by a hash of its text, and of each operation × dtype × layout class the first one. k is
/// STILETTO_TEST_SAMPLE; 1 takes all of them, 0 none.
class Sample {
 public:
  bool takes(const std::string& stratum, const std::string& graph) {
    if (every_ == 0) return false;
    const bool first = strata_.insert(stratum).second;
    std::uint64_t hash = 14695981039346656037ULL;
    for (const char c : graph) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
    return first || hash % every_ == 0;
  }
  std::uint64_t every() const { return every_; }
  std::size_t strata() const { return strata_.size(); }

 private:
  std::uint64_t every_ = std::strtoull(variable("STILETTO_TEST_SAMPLE", "20").c_str(), nullptr, 10);
  std::set<std::string> strata_;
};

// ---- what happened ----

class Report {
 public:
  struct Counts {
    int run = 0, refused = 0, left_out = 0;
  };
  std::map<std::pair<std::string, std::string>, Counts> table;  // row, dtype
  std::map<std::string, int> refusals, undecided;               // by reason

  /// Whether a failure of this kind is the first one; all are counted.
  bool first_of(const std::string& failure) { return failures_[failure]++ == 0; }

  ~Report() = default;
  /// For people, and tab-separated for scripts/device_summary.awk.
  void print(const Sample& sample) const {
    std::cout << "[  GRAPHS  ] one graph in " << sample.every() << " and the first of each of "
              << sample.strata() << " classes of operation, dtype and layout got a plan of cuDNN's\n";
    for (const auto& [key, counts] : table)
      std::cout << "[  GRAPHS  ]\t" << key.first << "\t" << key.second << "\t" << counts.run << "\t"
                << counts.refused << "\t" << counts.left_out << "\n";
    for (const auto& [reason, count] : refusals)
      std::cout << "[  REFUSED ]\t" << count << "\t" << reason << "\n";
    for (const auto& [reason, count] : undecided)
      std::cout << "[  EITHER  ]\t" << count << "\t" << reason << "\n";
    for (const auto& [failure, count] : failures_)
      if (count > 1) std::cout << "[  GRAPHS  ] " << count << " times in all: " << failure << "\n";
  }

 private:
  std::map<std::string, int> failures_;
};

// ---- plans ----

struct Bytes {
  std::byte* low;
  std::byte* high;
};

Bytes reach(void* first, const Tensor& tensor, const std::vector<std::int64_t>& extents) {
  std::int64_t low = 0, high = 0;
  for (std::size_t axis = 0; axis < extents.size(); ++axis)
    if (tensor.axes.test(axis))
      (tensor.strides[axis] < 0 ? low : high) += (extents[axis] - 1) * tensor.strides[axis];
  auto* const at = static_cast<std::byte*>(first);
  return {at + byte_offset(tensor.dtype, low), at + bytes_for(tensor.dtype, high + 1)};
}

/// A plan of the CPU's on copies of a GPU's memory.
class StagedPlan : public Plan {
 public:
  StagedPlan(const CanonicalGraph& graph, const PlanOptions& options, Device device)
      : graph_(graph), device_(device), plan_(real_cpu_backend().build(graph_, options, Device::cpu())) {}

  std::size_t workspace() const override { return 0; }
  bool allows_in_place(std::size_t tensor, std::size_t store) const override {
    return plan_->allows_in_place(tensor, store);
  }
  std::string describe() const override { return "  on the CPU, for the test:\n" + plan_->describe(); }

  void execute(const Invocation& call) const override {
    std::vector<Bytes> ranges;
    ranges.reserve(call.tensors.size() + call.stores.size());
    for (std::size_t i = 0; i < call.tensors.size(); ++i)
      ranges.push_back(reach(call.tensors[i], graph_.tensors[i], graph_.extents));
    for (std::size_t i = 0; i < call.stores.size(); ++i)
      ranges.push_back(reach(call.stores[i], graph_.stores[i].tensor, graph_.extents));
    std::vector<Copy> copies = merged(std::move(ranges));
    for (Copy& copy : copies)
      cuda_memory().read(copy.host(), device_, copy.range.low, copy.size(), "staged plan");
    const auto on_host = [&](std::span<void* const> pointers) {
      std::vector<void*> result;
      for (void* pointer : pointers) {
        auto* const at = static_cast<std::byte*>(pointer);
        for (Copy& copy : copies)
          if (at >= copy.range.low && at < copy.range.high)
            result.push_back(copy.host() + (at - copy.range.low));
      }
      return result;
    };
    const std::vector<void*> tensors = on_host(call.tensors), stores = on_host(call.stores);
    std::vector<std::byte> scratch(plan_->workspace() + 64);
    plan_->execute({tensors, stores, call.scalars, aligned(scratch, 0)});
    for (Copy& copy : copies)
      cuda_memory().write(device_, copy.range.low, copy.host(), copy.size(), "staged plan");
    for (std::size_t i = 0; i < call.stores.size(); ++i) {
      const Bytes written = reach(call.stores[i], graph_.stores[i].tensor, graph_.extents);
      support::DeviceResults::note(written.low, static_cast<std::size_t>(written.high - written.low), {});
    }
  }

 private:
  /// The first address in `memory`, which has 64 bytes to spare, that is `offset` bytes behind a multiple
  /// of 64.
  static std::byte* aligned(std::vector<std::byte>& memory, std::size_t offset) {
    const auto at = reinterpret_cast<std::uintptr_t>(memory.data());
    return memory.data() + (64 + offset - at % 64) % 64;
  }
  struct Copy {
    Bytes range;
    std::vector<std::byte> memory;
    std::size_t size() const { return static_cast<std::size_t>(range.high - range.low); }
    std::byte* host() { return aligned(memory, reinterpret_cast<std::uintptr_t>(range.low) % 64); }
  };
  /// Ranges that overlap become one, so that what is the same memory stays the same memory.
  static std::vector<Copy> merged(std::vector<Bytes> ranges) {
    std::sort(ranges.begin(), ranges.end(), [](const Bytes& a, const Bytes& b) { return a.low < b.low; });
    std::vector<Copy> copies;
    for (const Bytes& range : ranges) {
      if (!copies.empty() && range.low < copies.back().range.high)
        copies.back().range.high = std::max(copies.back().range.high, range.high);
      else
        copies.push_back({range, {}});
    }
    for (Copy& copy : copies) copy.memory.resize(copy.size() + 64);
    return copies;
  }

  CanonicalGraph graph_;
  Device device_;
  std::unique_ptr<const Plan> plan_;
};

/// A plan of cuDNN's whose results are noted with what their tolerances are widened by.
class NotedPlan : public Plan {
 public:
  NotedPlan(const CanonicalGraph& graph, std::unique_ptr<const Plan> plan)
      : extents_(graph.extents), slack_(support::slack_of(graph)), plan_(std::move(plan)) {
    for (const Store& store : graph.stores) stores_.push_back(store.tensor);
  }
  std::size_t workspace() const override { return plan_->workspace(); }
  bool allows_in_place(std::size_t tensor, std::size_t store) const override {
    return plan_->allows_in_place(tensor, store);
  }
  std::string describe() const override { return plan_->describe(); }
  void execute(const Invocation& call) const override {
    plan_->execute(call);
    for (std::size_t i = 0; i < call.stores.size(); ++i) {
      const Bytes written = reach(call.stores[i], stores_[i], extents_);
      support::DeviceResults::note(written.low, static_cast<std::size_t>(written.high - written.low), slack_);
    }
  }

 private:
  std::vector<std::int64_t> extents_;
  support::Slack slack_;
  std::unique_ptr<const Plan> plan_;
  std::vector<Tensor> stores_;
};

// ---- the backend ----

class CheckedBackend : public Backend {
 public:
  /// `target`: build plans for it, and let the CPU compute.
  explicit CheckedBackend(std::optional<Target> target) : target_(std::move(target)) {}
  std::string target() const override {
    return target_ ? real_cpu_backend().target() : real_cudnn_backend().target();
  }
  std::string library() const override {
    return target_ ? real_cpu_backend().library() : real_cudnn_backend().library();
  }

  std::unique_ptr<const Plan> build(const CanonicalGraph& graph, const PlanOptions& options,
                                    Device device) const override {
    std::unique_ptr<const Plan> plan = try_engines(graph, options, target_ ? Device::cuda(0) : device);
    if (target_) return real_cpu_backend().build(graph, options, device);
    if (plan) return std::make_unique<NotedPlan>(graph, std::move(plan));
    return std::make_unique<StagedPlan>(graph, options, device);
  }

  void print() const { report_.print(sample_); }

 private:
  using Kind = support::Expectation::Kind;

  /// Null when the graph is not in the sample, or refused.
  std::unique_ptr<const Plan> try_engines(const CanonicalGraph& graph, PlanOptions options,
                                          Device device) const {
    const std::string row = support::row_label(graph), dtype = support::dtype_label(graph),
                      layout = support::layout_label(graph), text = graph.to_string();
    {
      const std::lock_guard lock(mutex_);
      if (!sample_.takes(row + "|" + dtype + "|" + layout, text)) {
        ++report_.table[{row, dtype}].left_out;
        return nullptr;
      }
    }
    const support::Expectation expected = support::expectation(graph);
    options.target = target_;
    std::unique_ptr<const Plan> plan;
    std::string refusal;
    try {
      plan = real_cudnn_backend().build(graph, options, device);
    } catch (const UnsupportedGraphError& error) {
      refusal = error.what();
    }
    const std::lock_guard lock(mutex_);
    if (variable("STILETTO_TEST_VERBOSE", "0") == "1") {
      const std::string reason = refusal.substr(0, 700);
      std::cout << "[  PLAN    ] " << (plan ? "ran" : "refused") << " | " << row << " | " << dtype << " | "
                << layout << " | expected: " << expected.reason << "\n"
                << text << (plan ? plan->describe() : reason + "\n");
    }
    Report::Counts& counts = report_.table[{row, dtype}];
    ++(plan ? counts.run : counts.refused);
    if (expected.kind == Kind::either) {
      ++report_.undecided[std::string(plan ? "ran: " : "refused: ") + expected.reason];
    } else if (expected.kind == Kind::refused) {
      ++report_.refusals[expected.reason];
      if (plan && report_.first_of("ran, though " + expected.reason))
        ADD_FAILURE() << "cuDNN ran a graph that it was expected to refuse: " << expected.reason << "\n"
                      << plan->describe() << text;
    } else if (!plan && report_.first_of("refused: " + row + " " + dtype + " " + layout)) {
      ADD_FAILURE() << "cuDNN refused a graph that it was expected to run (" << row << ", " << dtype << ", "
                    << layout << "):\n"
                    << refusal;
    }
    return plan;
  }

  std::optional<Target> target_;
  mutable std::mutex mutex_;
  mutable Sample sample_;
  mutable Report report_;
};

/// The CPU's, with the lowering's graphs interpreted beside it.
class InterpretingBackend : public Backend {
 public:
  std::string target() const override { return real_cpu_backend().target(); }
  std::string library() const override { return real_cpu_backend().library(); }

  std::unique_ptr<const Plan> build(const CanonicalGraph& graph, const PlanOptions& options,
                                    Device device) const override {
    std::unique_ptr<const Plan> plan = real_cpu_backend().build(graph, options, device);
    const bool fills = std::all_of(graph.stores.begin(), graph.stores.end(), [&](const Store& store) {
      return graph.values[store.value].kind == Value::Kind::scalar;  // which are not cuDNN's work
    });
    // More than the widest row of a geometry; longer axes are cut alike and would take most of the time.
    constexpr std::int64_t most_elements = 600'000, most_read = 1 << 26;  // which are held as float64
    const bool large =
        std::any_of(graph.stores.begin(), graph.stores.end(),
                    [&](const Store& store) { return graph.size_of(store.tensor.axes) > most_elements; }) ||
        std::any_of(graph.tensors.begin(), graph.tensors.end(),
                    [&](const auto& tensor) { return graph.size_of(tensor.axes) > most_read; });
    const std::lock_guard lock(mutex_);
    const std::string stratum =
        support::row_label(graph) + "|" + support::dtype_label(graph) + "|" + support::layout_label(graph);
    if (fills || large || !sample_.takes(stratum, graph.to_string())) return plan;
    std::string refusal;
    std::vector<cudnn::EngineGraph> engines;
    for (const cudnn::Geometry& geometry : cudnn::geometries(graph, refusal)) {
      ++geometries_;
      try {
        engines.push_back(cudnn::lower(graph, geometry));
      } catch (const cudnn::NotLowered&) {
      }
    }
    ++graphs_;
    if (engines.empty()) return plan;
    ++taken_;
    lowered_ += engines.size();
    return support::interpreted_plan(graph, std::move(engines), std::move(plan));
  }

  void print() const {
    std::cout << "[  GRAPHS  ] " << taken_ << " of " << graphs_ << " graphs were lowered, in " << lowered_
              << " of " << geometries_ << " geometries, and interpreted\n";
  }

 private:
  mutable std::mutex mutex_;
  mutable Sample sample_;
  mutable std::size_t graphs_ = 0, taken_ = 0, geometries_ = 0, lowered_ = 0;
};

/// Null unless that is what the environment asks for.
const InterpretingBackend* interpreting_backend() {
  static const InterpretingBackend* const backend = []() -> const InterpretingBackend* {
    if (variable("STILETTO_TEST_DEVICE", "cpu") != "interpreted") return nullptr;
    setenv("STILETTO_TEST_SAMPLE", "1", 0);
    return new InterpretingBackend;  // never destroyed: plans may outlive it
  }();
  return backend;
}

/// Null where the CPU is under test and nothing else.
const CheckedBackend* checked_backend() {
  static const CheckedBackend* const backend = []() -> const CheckedBackend* {
    const std::string device = variable("STILETTO_TEST_DEVICE", "cpu");
    if (variable("STILETTO_TEST_CHECKED", "1") == "0") return nullptr;
    if (device == "cuda" || device == "fake")
      return new CheckedBackend(std::nullopt);  // never destroyed: plans may outlive it
    if (device == "plans") return new CheckedBackend(Target::named(variable("STILETTO_TEST_TARGET", "h200")));
    return nullptr;
  }();
  return backend;
}

/// Before anything looks for CUDA. STILETTO_TEST_ALLOW_TF32=0: float32 products as exact as everything else.
[[maybe_unused]] const bool without_tf32 = [] {
  if (variable("STILETTO_TEST_ALLOW_TF32", "1") == "0") set_allow_tf32(false);
  return true;
}();
/// Thousands of refusals.
[[maybe_unused]] const int without_diagnosis = setenv("STILETTO_DIAGNOSIS", "0", 0);
const bool fake = [] {
  if (variable("STILETTO_TEST_DEVICE", "cpu") != "fake") return false;
  setenv("STILETTO_TEST_SAMPLE", "0", 1);  // it has no engines
  cudnn::Library library;
  library.name = "fake_cudart";
  library.path = STILETTO_FAKE_CUDART;
  library.version = "13.0";
  library.handle = dlopen(STILETTO_FAKE_CUDART, RTLD_NOW);
  if (library.handle == nullptr) throw std::runtime_error(dlerror());
  cudnn::use_libraries(library, library);
  return true;
}();

struct PrintReport : testing::Environment {
  /// Ends with 77, which ctest shows as skipped, where plans are wanted and none can be built.
  void SetUp() override {
    if (checked_backend() == nullptr || variable("STILETTO_TEST_DEVICE", "cpu") != "plans") return;
    try {
      cudnn::libraries_for_planning();
    } catch (const DeviceError& error) {
      const bool fail = variable("STILETTO_REQUIRE_CUDNN", "0") == "1";
      std::cout << (fail ? "FAILED" : "SKIPPED") << ": no plans can be built: " << error.what() << std::endl;
      std::_Exit(fail ? 1 : 77);
    }
  }
  void TearDown() override {
    if (checked_backend() != nullptr) checked_backend()->print();
    if (interpreting_backend() != nullptr) interpreting_backend()->print();
  }
};
[[maybe_unused]] const auto* const print_report = testing::AddGlobalTestEnvironment(new PrintReport);

}  // namespace

Backend& wrapped_cpu_backend() {
  if (interpreting_backend() != nullptr) return const_cast<InterpretingBackend&>(*interpreting_backend());
  static const bool plans = variable("STILETTO_TEST_DEVICE", "cpu") == "plans";
  return plans && checked_backend() != nullptr ? const_cast<CheckedBackend&>(*checked_backend())
                                               : real_cpu_backend();
}

Backend& wrapped_cudnn_backend() {
  return checked_backend() != nullptr ? const_cast<CheckedBackend&>(*checked_backend())
                                      : real_cudnn_backend();
}

}  // namespace stiletto::detail
