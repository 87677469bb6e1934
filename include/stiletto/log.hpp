// SPDX-License-Identifier: Apache-2.0
// What the library tells about its work, on standard error or to a function of the program's.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "stiletto/export.hpp"

namespace stiletto {

enum class LogTopic : std::uint8_t {
  trace,    ///< what a function recorded, when it is compiled
  graph,    ///< the canonical graph made of it
  plan,     ///< forms and candidates refused, with the reason, and the plan chosen
  cache,    ///< jit's hits, misses, and plans that leave the cache
  autotune  ///< times of candidate plans
};

/// Called by the thread that does the work, by several at once, and by a call that has begun even after
/// another sink is set; `text` is one or more lines without the last line break. What it throws is dropped,
/// and what it does itself with this library is not logged.
using LogSink = std::function<void(LogTopic topic, const std::string& text)>;

/// Logs these topics and no others, from now on, for all threads; no topics: nothing. Without a sink each
/// line goes to standard error behind "stiletto: plan: ". Until the first call the environment variable
/// STILETTO_LOG decides, which is read once: names of topics with commas between them, or "all".
STILETTO_API void set_log(const std::vector<LogTopic>& topics, LogSink sink = {});

}  // namespace stiletto
