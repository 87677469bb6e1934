// SPDX-License-Identifier: Apache-2.0
// Logs: what each topic says of a compile, and that sinks can do nothing wrong.
#include "core/log.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <regex>
#include <stdexcept>
#include <thread>

#include "stiletto/stiletto.hpp"

namespace {

using stiletto::Array;
using stiletto::LogTopic;
using stiletto::set_log;

/// Logs `topics` into a list while it lives.
class Logged {
 public:
  explicit Logged(const std::vector<LogTopic>& topics) {
    set_log(topics, [this](LogTopic topic, const std::string& text) {
      const std::lock_guard lock(mutex_);
      entries_.emplace_back(topic, text);
    });
  }
  Logged(const Logged&) = delete;
  Logged& operator=(const Logged&) = delete;
  ~Logged() { set_log({}); }
  std::size_t size() const { return entries_.size(); }
  /// The entries, one behind the other, with "topic 2: " before each; times are replaced by T.
  std::string text() const {
    std::string result;
    for (const auto& [topic, text] : entries_)
      result += "topic " + std::to_string(static_cast<int>(topic)) + ": " + text + "\n";
    return std::regex_replace(result, std::regex("after [0-9.e-]+ ms"), "after T ms");
  }

 private:
  std::mutex mutex_;
  std::vector<std::pair<LogTopic, std::string>> entries_;
};

const Array x = stiletto::full({2, 3}, 1.0F);
Array one_up(const Array& a) { return a + 1; }

TEST(Log, nothing_is_logged_unless_asked_for) {
  const Logged logged({});
  stiletto::compile(one_up, x);
  EXPECT_EQ(logged.text(), "");
  for (LogTopic topic :
       {LogTopic::trace, LogTopic::graph, LogTopic::plan, LogTopic::cache, LogTopic::autotune})
    EXPECT_FALSE(stiletto::detail::log_enabled(topic));
}

TEST(Log, trace_and_graph_are_the_texts_of_the_graph) {
  const Logged logged({LogTopic::trace, LogTopic::graph});
  stiletto::compile(one_up, x);
  EXPECT_EQ(logged.text(), R"(topic 0: trace
  %0 = arg0: float32(2, 3)
  %1 = number0: int32
  %2 = add(%0, %1): float32(2, 3)
  return %2
topic 1: graph
  axes i=6
  %0 = arg0: float32[i] strides (1)
  %1 = scalar0: int32
  %2 = add(%0, %1): float32[i]
  %2 -> out0: float32[i] strides (1)
)");
}

TEST(Log, plan_says_what_is_built_and_what_was_chosen) {
  const Logged logged({LogTopic::plan});
  const auto compiled = stiletto::compile(one_up, x);
  const std::string whole = compiled.graph().to_string();
  EXPECT_EQ(logged.text(),
            "topic 2: building arg0 + scalar0 for cpu\ntopic 2: chosen after T ms, workspace " +
                std::to_string(compiled.workspace()) + " bytes:\n" + whole.substr(whole.find("plan\n") + 5));
}

TEST(Log, plan_says_why_there_is_none) {
  const Logged logged({LogTopic::plan});
  EXPECT_THROW(stiletto::compile({.max_workspace = 0}, one_up, x), stiletto::UnsupportedGraphError);
  EXPECT_NE(logged.text().find("topic 2: none after T ms: "), std::string::npos) << logged.text();
  EXPECT_NE(logged.text().find("max_workspace is 0"), std::string::npos) << logged.text();
}

TEST(Log, cache_tells_misses_hits_and_evictions) {
  stiletto::plan_cache().clear();
  const Logged logged({LogTopic::cache});
  for (int i = 0; i < 2; ++i) stiletto::jit(one_up, x);
  stiletto::plan_cache().clear();
  EXPECT_EQ(std::regex_replace(logged.text(), std::regex("[0-9a-f]{16}"), "KEY"),
            "topic 3: miss KEY: 3 nodes to compile\ntopic 3: hit KEY: arg0 + scalar0\n"
            "topic 3: evicted KEY: arg0 + scalar0\n");
}

TEST(Log, a_sink_may_throw) {
  set_log({LogTopic::trace, LogTopic::cache},
          [](LogTopic, const std::string&) { throw std::runtime_error("no"); });
  EXPECT_EQ(stiletto::jit(one_up, x).data<float>()[0], 2);
  set_log({LogTopic::trace}, [](LogTopic, const std::string&) { throw 1; });
  EXPECT_EQ(stiletto::compile(one_up, x)(x).data<float>()[0], 2);
  set_log({});
}

TEST(Log, a_sink_may_use_the_library_and_replace_itself) {
  int calls = 0;
  set_log({LogTopic::cache}, [&](LogTopic, const std::string&) {
    ++calls;
    stiletto::jit(one_up, stiletto::full({5}, 1.0F));  // not logged, or this would never end
    set_log({});
  });
  stiletto::jit(one_up, x);
  EXPECT_EQ(calls, 1);
  stiletto::jit(one_up, x);
  EXPECT_EQ(calls, 1);
}

TEST(Log, threads_log_while_others_replace_the_sink) {
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([] {
      for (int i = 0; i < 200; ++i) stiletto::jit(one_up, x);
    });
  const auto calls = std::make_shared<std::atomic<int>>();  // a call that has begun ends in the old sink
  for (int i = 0; i < 200; ++i) {
    set_log({LogTopic::cache}, [calls](LogTopic, const std::string&) { ++*calls; });
    std::this_thread::yield();
    set_log({});
  }
  set_log({LogTopic::cache}, [calls](LogTopic, const std::string&) { ++*calls; });
  stiletto::jit(one_up, x);
  set_log({});
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(*calls, 0);
}

TEST(Log, lines_on_standard_error_have_a_prefix) {
  set_log({LogTopic::trace});
  testing::internal::CaptureStderr();
  stiletto::compile([](const Array& a) { return a; }, x);
  const std::string said = testing::internal::GetCapturedStderr();
  set_log({});
  EXPECT_EQ(
      said,
      "stiletto: trace: trace\nstiletto: trace:   %0 = arg0: float32(2, 3)\nstiletto: trace:   return %0\n");
}

TEST(Log, names_of_topics_are_read_from_a_list) {
  const auto read = [](const std::string& variable) {
    std::string complaint;
    const std::uint32_t topics = stiletto::detail::topics_of(variable, complaint);
    return std::to_string(topics) + (complaint.empty() ? "" : " ") + complaint;
  };
  EXPECT_EQ(read(""), "0");
  EXPECT_EQ(read("trace"), "1");
  EXPECT_EQ(read("plan,cache"), "12");
  EXPECT_EQ(read(",plan,,"), "4");
  EXPECT_EQ(read("all"), "31");
  EXPECT_EQ(read("plans,cache,2"),
            "8 STILETTO_LOG: there is no plans, 2; there are: all, trace, graph, plan, cache, autotune");
}

}  // namespace
