// SPDX-License-Identifier: Apache-2.0
#include "core/log.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>

#include "core/text.hpp"

namespace stiletto {
namespace detail {

constinit std::atomic<std::uint32_t> log_topics{~std::uint32_t{0}};

namespace {

constexpr std::array<const char*, 5> names{"trace", "graph", "plan", "cache", "autotune"};
static_assert(static_cast<std::size_t>(LogTopic::autotune) + 1 == names.size());
constexpr std::uint32_t all_topics = (std::uint32_t{1} << names.size()) - 1;

struct State {
  std::mutex mutex;
  bool decided = false;
  std::shared_ptr<const LogSink> sink;  // null: standard error
};
State& state() {
  static State& state = *new State;  // never destroyed: static destructors may call compiled functions
  return state;
}

/// Whether this thread is inside a sink, whose own use of the library would call it again without end.
bool& inside_sink() {
  thread_local bool inside = false;
  return inside;
}

/// One write, so that the lines of threads do not mix.
void write(const std::string& lines) { std::fwrite(lines.data(), 1, lines.size(), stderr); }

void write_lines(LogTopic topic, const std::string& lines) {
  std::string result;
  for (std::size_t begin = 0; begin <= lines.size();) {
    const std::size_t end = std::min(lines.find('\n', begin), lines.size());
    result += text("stiletto: ", names.at(static_cast<std::size_t>(topic)), ": ",
                   lines.substr(begin, end - begin), '\n');
    begin = end + 1;
  }
  write(result);
}

void decide(State& s, std::uint32_t topics) {
  s.decided = true;
  log_topics.store(topics, std::memory_order_relaxed);
}

}  // namespace

std::uint32_t topics_of(const std::string& variable, std::string& complaint) {
  std::uint32_t topics = 0;
  std::string unknown;
  for (std::size_t begin = 0; begin <= variable.size();) {
    const std::size_t end = std::min(variable.find(',', begin), variable.size());
    std::string name = variable.substr(begin, end - begin);
    std::erase(name, ' ');
    begin = end + 1;
    std::uint32_t found = name == "all" ? all_topics : 0;
    for (std::size_t i = 0; i < names.size(); ++i)
      if (name == names[i]) found = std::uint32_t{1} << i;
    if (found == 0 && !name.empty()) unknown += (unknown.empty() ? "" : ", ") + name;
    topics |= found;
  }
  if (!unknown.empty()) {
    complaint = text("STILETTO_LOG: there is no ", unknown, "; there are: all");
    for (const char* name : names) complaint += text(", ", name);
  }
  return topics;
}

bool log_enabled_now(LogTopic topic) {
  std::string complaint;
  {
    State& s = state();
    const std::lock_guard lock(s.mutex);
    if (!s.decided) {
      const char* const variable = std::getenv("STILETTO_LOG");
      decide(s, variable == nullptr ? 0 : topics_of(variable, complaint));
    }
  }
  if (!complaint.empty()) write("stiletto: " + complaint + "\n");
  const std::uint32_t bit = std::uint32_t{1} << static_cast<unsigned>(topic);
  return (log_topics.load(std::memory_order_relaxed) & bit) != 0 && !inside_sink();
}

void log(LogTopic topic, const std::string& lines) {
  std::shared_ptr<const LogSink> sink;
  {
    const std::lock_guard lock(state().mutex);
    sink = state().sink;
  }
  inside_sink() = true;
  try {
    // A text that was printed as a whole ends with a line break.
    const std::string whole = lines.ends_with('\n') ? lines.substr(0, lines.size() - 1) : lines;
    if (sink)
      (*sink)(topic, whole);
    else
      write_lines(topic, whole);
  } catch (...) {  // NOLINT(bugprone-empty-catch): a sink that fails must not fail what it is told about
  }
  inside_sink() = false;
}

}  // namespace detail

void set_log(const std::vector<LogTopic>& topics, LogSink sink) {
  std::uint32_t bits = 0;
  for (LogTopic topic : topics) bits |= std::uint32_t{1} << static_cast<unsigned>(topic);
  std::shared_ptr<const LogSink> shared = sink ? std::make_shared<const LogSink>(std::move(sink)) : nullptr;
  detail::State& s = detail::state();
  const std::lock_guard lock(s.mutex);
  s.sink.swap(shared);  // the old one goes after the lock
  detail::decide(s, bits & detail::all_topics);
}

}  // namespace stiletto
