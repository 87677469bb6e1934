// SPDX-License-Identifier: Apache-2.0
// Where the library says what it does. A topic nobody asked for costs one load:
//   if (log_enabled(LogTopic::cache)) log(LogTopic::cache, text("hit ", name));
#pragma once
#include <atomic>
#include <cstdint>
#include <string>

#include "stiletto/log.hpp"

namespace stiletto::detail {

/// A bit per topic; all of them until the environment has been read.
extern std::atomic<std::uint32_t> log_topics;

/// Reads STILETTO_LOG if nothing has been decided so far.
bool log_enabled_now(LogTopic topic);

inline bool log_enabled(LogTopic topic) {
  const std::uint32_t bit = std::uint32_t{1} << static_cast<unsigned>(topic);
  return (log_topics.load(std::memory_order_relaxed) & bit) != 0 && log_enabled_now(topic);
}

/// Hands the text to the sink. Never throws what the sink does.
void log(LogTopic topic, const std::string& text);

/// What STILETTO_LOG asks for, as bits; `complaint` says which names are unknown, and stays empty else.
std::uint32_t topics_of(const std::string& variable, std::string& complaint);

}  // namespace stiletto::detail
