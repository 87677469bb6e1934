// SPDX-License-Identifier: Apache-2.0
// The state of the fake CUDA (fake_cudart.cpp): its objects, the log of calls, failures that tests ask for,
// and the order of work across streams.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace fake {

inline constexpr int ok = 0, invalid_value = 1, out_of_memory = 2, invalid_device = 101, invalid_handle = 400,
                     capture_unsupported = 900, capture_implicit = 906;
inline constexpr int device_count = 2;
inline constexpr int mode_relaxed = 2;
inline constexpr std::size_t poisoned = 4096;  // bytes overwritten at the start of what comes and goes

struct UserObject {
  void* pointer;
  void (*destroy)(void*);
  int references;
};
struct Node {};
struct HostFunction {
  void (*run)(void*);
  void* context;
};
struct Graph {
  std::vector<UserObject*> objects;
  std::vector<HostFunction> functions;
  std::map<const Node*, Graph*> children;  // an executable's have the nodes of the graph it was made of
};
struct Stream {
  int device = 0;
  bool blocking = true, alive = true;
  unsigned long long id = 0;
  Graph* capture = nullptr;
  bool invalidated = false;
};
/// How far each stream has come, by id; the default stream of a device has the device's number.
using Clock = std::map<unsigned long long, int>;
struct Event {
  int device;
  Clock clock;
};
struct Block {
  std::size_t bytes = 0;
  Clock reads, writes;
};
struct Pool {
  int device;
};

struct State {
  std::recursive_mutex mutex;
  std::string log;
  std::map<std::string, std::pair<int, int>> failures;  // how often, and with what
  std::map<void*, Block> blocks;
  std::size_t capacity = std::size_t{1} << 32, used = 0, peak = 0;
  std::vector<Stream*> streams;
  unsigned long long next_id = 10;
  bool gone = false, watches_order = false;
  std::map<unsigned long long, Clock> clocks;  // what work queued on a stream now comes behind
  std::map<unsigned long long, int> blocking;  // streams ordered with a default stream, and its device
  Clock host;
};
inline State& state() {
  static State& the_state = *new State;
  return the_state;
}

inline thread_local int current = 0;
inline thread_local int mode = 0;
inline thread_local bool in_callback = false;

[[noreturn]] inline void misuse(const std::string& what) {
  std::fprintf(stderr, "fake CUDA: %s\n", what.c_str());
  std::abort();
}

inline std::string name_of(const Stream* stream) {
  return stream == nullptr ? "default" : "s" + std::to_string(stream->id);
}

/// Every call begins with one: it is logged, and may be meant to fail.
class Call {
 public:
  template <class... T>
  explicit Call(const char* name, const T&... arguments) : lock_(state().mutex) {
    if (state().gone) misuse(std::string(name) + " after the end");
    if (in_callback) misuse(std::string(name) + " in a callback");
    std::ostringstream line;
    line << name;
    ((line << ' ' << arguments), ...);
    state().log += line.str() + '\n';
    if (const auto found = state().failures.find(name); found != state().failures.end()) {
      if (found->second.first-- > 0)
        error_ = found->second.second;
      else
        state().failures.erase(found);
    }
  }
  int error() const { return error_; }

 private:
  std::lock_guard<std::recursive_mutex> lock_;
  int error_ = ok;
};

inline bool blocking_capture() {
  return std::any_of(state().streams.begin(), state().streams.end(), [](const Stream* stream) {
    return stream->alive && stream->blocking && stream->capture != nullptr;
  });
}

/// Work that nobody captures may not be queued on the default stream beside a blocking stream's capture, and
/// what is unsafe beside a capture may not be called at all: both invalidate it, as CUDA does.
inline int refuse(bool wanted) {
  if (!wanted) return ok;
  int error = ok;
  for (Stream* stream : state().streams)
    if (stream->alive && stream->capture != nullptr) {
      stream->invalidated = true;
      error = capture_unsupported;
    }
  return error;
}
inline int check_queue(const Stream* stream) {
  if (stream != nullptr && !stream->alive) misuse("a destroyed stream is used");
  if (stream == nullptr && blocking_capture()) {
    refuse(true);
    return capture_implicit;
  }
  return ok;
}

// ---- the order of work across streams, for tests that ask for it ----

inline void join(Clock& clock, const Clock& other) {
  for (const auto& [stream, time] : other) clock[stream] = std::max(clock[stream], time);
}
inline unsigned long long key_of(const Stream* stream) {
  return stream == nullptr ? static_cast<unsigned long long>(current) : stream->id;
}
inline Clock& clock_of(const Stream* stream) {
  State& s = state();
  Clock& clock = s.clocks[key_of(stream)];
  join(clock, s.host);
  for (const auto& [id, device] : s.blocking)
    if (stream == nullptr && device == current) join(clock, s.clocks[id]);
  if (stream != nullptr && stream->blocking)
    join(clock, s.clocks[static_cast<unsigned long long>(stream->device)]);
  return clock;
}
inline void check_order(const Clock& uses, const Clock& clock, const char* what) {
  for (const auto& [stream, time] : uses)
    if (const auto found = clock.find(stream); found == clock.end() || found->second < time)
      misuse(std::string(what) + " while stream " + std::to_string(stream) + " may use it");
}
/// Work that is queued on a stream uses the memory at an address.
inline void use(const void* pointer, const Stream* stream, bool writes) {
  State& s = state();
  if (!s.watches_order || (stream != nullptr && stream->capture != nullptr)) return;
  auto found = s.blocks.upper_bound(const_cast<void*>(pointer));
  if (found == s.blocks.begin()) return;
  --found;
  Block& block = found->second;
  if (static_cast<const char*>(pointer) >= static_cast<const char*>(found->first) + block.bytes) return;
  Clock& clock = clock_of(stream);
  check_order(block.writes, clock, writes ? "memory is written" : "memory is read");
  if (writes) check_order(block.reads, clock, "memory is written");
  const int time = ++clock[key_of(stream)];
  (writes ? block.writes : block.reads)[key_of(stream)] = time;
}

inline int check_unsafe() { return refuse(mode != mode_relaxed); }

inline void call(const HostFunction& function) {
  in_callback = true;
  function.run(function.context);
  in_callback = false;
}

inline void release(UserObject* object) {
  if (--object->references > 0) return;
  in_callback = true;
  object->destroy(object->pointer);
  in_callback = false;
  delete object;
}

inline Graph* clone(const Graph* graph) {
  for (UserObject* object : graph->objects) ++object->references;
  auto* const copy = new Graph{graph->objects, graph->functions, {}};
  for (const auto& [node, child] : graph->children) copy->children[node] = clone(child);
  return copy;
}
inline void launch(const Graph* graph) {
  for (const HostFunction& function : graph->functions) call(function);
  for (const auto& [node, child] : graph->children) launch(child);
}
inline void destroy(Graph* graph) {
  for (UserObject* object : graph->objects) release(object);
  for (const auto& [node, child] : graph->children) destroy(child);
  delete graph;
}

}  // namespace fake
