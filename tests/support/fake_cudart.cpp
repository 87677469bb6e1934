// SPDX-License-Identifier: Apache-2.0
// A CUDA runtime and driver without a GPU: two devices whose memory is the host's, and whose work is done
// when it is queued. It writes down every call, fails where a test asks it to, and ends the program with a
// sentence where a real one would misbehave: a destroyed stream, a call from a callback or after the end.
// Compiled without CUDA's headers, whose types below are C's: enumerations are int, handles and addresses are
// pointers.
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

namespace {

constexpr int ok = 0, invalid_value = 1, out_of_memory = 2, invalid_device = 101, invalid_handle = 400,
              capture_unsupported = 900, capture_implicit = 906;
constexpr int device_count = 2;
constexpr int mode_relaxed = 2;
constexpr std::size_t poisoned = 4096;  // bytes overwritten at the start of what comes and goes

struct UserObject {
  void* pointer;
  void (*destroy)(void*);
  int references;
};
struct Graph {
  std::vector<UserObject*> objects;
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
State& state() {
  static State& the_state = *new State;
  return the_state;
}

thread_local int current = 0;
thread_local int mode = 0;
thread_local bool in_callback = false;

[[noreturn]] void misuse(const std::string& what) {
  std::fprintf(stderr, "fake CUDA: %s\n", what.c_str());
  std::abort();
}

std::string name_of(const Stream* stream) {
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

bool blocking_capture() {
  return std::any_of(state().streams.begin(), state().streams.end(), [](const Stream* stream) {
    return stream->alive && stream->blocking && stream->capture != nullptr;
  });
}

/// Work that nobody captures may not be queued on the default stream beside a blocking stream's capture, and
/// what is unsafe beside a capture may not be called at all: both invalidate it, as CUDA does.
int refuse(bool wanted) {
  if (!wanted) return ok;
  int error = ok;
  for (Stream* stream : state().streams)
    if (stream->alive && stream->capture != nullptr) {
      stream->invalidated = true;
      error = capture_unsupported;
    }
  return error;
}
int check_queue(const Stream* stream) {
  if (stream != nullptr && !stream->alive) misuse("a destroyed stream is used");
  if (stream == nullptr && blocking_capture()) {
    refuse(true);
    return capture_implicit;
  }
  return ok;
}

// ---- the order of work across streams, for tests that ask for it ----

void join(Clock& clock, const Clock& other) {
  for (const auto& [stream, time] : other) clock[stream] = std::max(clock[stream], time);
}
unsigned long long key_of(const Stream* stream) {
  return stream == nullptr ? static_cast<unsigned long long>(current) : stream->id;
}
Clock& clock_of(const Stream* stream) {
  State& s = state();
  Clock& clock = s.clocks[key_of(stream)];
  join(clock, s.host);
  for (const auto& [id, device] : s.blocking)
    if (stream == nullptr && device == current) join(clock, s.clocks[id]);
  if (stream != nullptr && stream->blocking)
    join(clock, s.clocks[static_cast<unsigned long long>(stream->device)]);
  return clock;
}
void check_order(const Clock& uses, const Clock& clock, const char* what) {
  for (const auto& [stream, time] : uses)
    if (const auto found = clock.find(stream); found == clock.end() || found->second < time)
      misuse(std::string(what) + " while stream " + std::to_string(stream) + " may use it");
}
/// Work that is queued on a stream uses the memory at an address.
void use(const void* pointer, const Stream* stream, bool writes) {
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

int check_unsafe() { return refuse(mode != mode_relaxed); }

void release(UserObject* object) {
  if (--object->references > 0) return;
  in_callback = true;
  object->destroy(object->pointer);
  in_callback = false;
  delete object;
}

}  // namespace

extern "C" {

// ---- what tests do with it ----

const char* fake_log() { return state().log.c_str(); }
void fake_clear_log() { state().log.clear(); }
void fake_fail(const char* name, int times, int error) { state().failures[name] = {times, error}; }
void fake_set_capacity(std::size_t bytes) { state().capacity = bytes; }
std::size_t fake_used() { return state().used; }
std::size_t fake_peak() { return state().peak; }
void fake_end() { state().gone = true; }
/// Whether the program ends where memory is used or freed while work on another stream may use it.
void fake_watch_order(bool watch) { state().watches_order = watch; }

// ---- devices ----

int cudaGetDeviceCount(int* count) {
  const Call call("GetDeviceCount");
  *count = device_count;
  return call.error();
}
int cudaGetDevice(int* device) {
  *device = current;
  return ok;
}
int cudaSetDevice(int device) {
  const Call call("SetDevice", device);
  if (device < 0 || device >= device_count) return invalid_device;
  current = device;
  return call.error();
}
int cudaDeviceGetAttribute(int* value, int attribute, int /*device*/) {
  constexpr int max_pitch = 11;
  *value = attribute == max_pitch ? 0x7FFFFFFF : 1;
  return ok;
}
const char* cudaGetErrorString(int error) {
  return error == out_of_memory ? "out of memory" : error == 700 ? "an illegal memory access" : "fake error";
}
int cudaGetLastError() { return ok; }

// ---- memory ----

int cudaMalloc(void** pointer, std::size_t bytes) {
  const Call call("Malloc", bytes);
  if (const int error = check_unsafe(); error != ok) return error;
  *pointer = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  return call.error();
}
int cudaFree(void* pointer) {
  const Call call("Free");
  if (const int error = check_unsafe(); error != ok) return error;
  std::free(pointer);
  return call.error();
}
int cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  *free = state().capacity - state().used;
  *total = state().capacity;
  return ok;
}
int cudaMemPoolCreate(Pool** pool, const void* properties) {
  const Call call("MemPoolCreate");
  std::int32_t fields[4];  // allocType, handleTypes, location.type, location.id
  std::memcpy(fields, properties, sizeof fields);
  *pool = new Pool{fields[3]};
  return call.error();
}
int cudaMemPoolSetAttribute(Pool*, int attribute, const std::uint64_t* value) {
  const Call call("MemPoolSetAttribute", attribute, *value);
  return call.error();
}
int cudaMemPoolTrimTo(Pool* pool, std::size_t bytes) {
  const Call call("MemPoolTrimTo", pool->device, bytes);
  return call.error();
}
int cudaMallocFromPoolAsync(void** pointer, std::size_t bytes, Pool* pool, Stream* stream) {
  const Call call("MallocFromPoolAsync", bytes, pool->device, name_of(stream));
  if (const int error = check_queue(stream); error != ok) return error;
  if (stream != nullptr && stream->capture != nullptr) misuse("an allocation is captured");
  if (const int error = check_unsafe(); error != ok) return error;
  if (call.error() != ok) return call.error();
  State& s = state();
  if (bytes > s.capacity - s.used) return out_of_memory;
  *pointer = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  std::memset(*pointer, 0xAA, std::min(bytes, poisoned));
  s.blocks[*pointer].bytes = bytes;
  s.used += bytes;
  s.peak = std::max(s.peak, s.used);
  return ok;
}
int cudaFreeAsync(void* pointer, Stream* stream) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  const auto found = s.blocks.find(pointer);
  const Call call("FreeAsync", found == s.blocks.end() ? 0 : found->second.bytes, name_of(stream));
  if (const int error = check_queue(stream); error != ok) return error;
  if (stream != nullptr && stream->capture != nullptr) misuse("a free is captured");
  if (found == s.blocks.end()) misuse("memory is freed that is not allocated");
  if (s.watches_order) {
    check_order(found->second.reads, clock_of(stream), "memory is freed");
    check_order(found->second.writes, clock_of(stream), "memory is freed");
  }
  s.used -= found->second.bytes;
  std::memset(pointer, 0xDD, std::min(found->second.bytes, poisoned));
  s.blocks.erase(found);
  std::free(pointer);
  return call.error();
}

// ---- copies and fills ----

int cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, int kind, Stream* stream) {
  const Call call("MemcpyAsync", bytes, kind == 1 ? "up" : kind == 2 ? "down" : "within", name_of(stream));
  if (const int error = check_queue(stream); error != ok) return error;
  use(from, stream, false);
  use(to, stream, true);
  if (call.error() == ok) std::memcpy(to, from, bytes);
  return call.error();
}
int cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                      std::size_t width, std::size_t height, int /*kind*/, Stream* stream) {
  const Call call("Memcpy2DAsync", width, height, name_of(stream));
  if (const int error = check_queue(stream); error != ok) return error;
  if (width > to_pitch || width > from_pitch) return invalid_value;
  use(from, stream, false);
  use(to, stream, true);
  for (std::size_t row = 0; row < height; ++row)
    std::memcpy(static_cast<char*>(to) + row * to_pitch, static_cast<const char*>(from) + row * from_pitch,
                width);
  return call.error();
}
int cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device, std::size_t bytes,
                        Stream* stream) {
  const Call call("MemcpyPeerAsync", to_device, from_device, bytes, name_of(stream));
  if (const int error = check_queue(stream); error != ok) return error;
  use(from, stream, false);
  use(to, stream, true);
  std::memcpy(to, from, bytes);
  return call.error();
}
int cudaMemsetAsync(void* to, int value, std::size_t bytes, Stream* stream) {
  const Call call("MemsetAsync", value, bytes, name_of(stream));
  if (const int error = check_queue(stream); error != ok) return error;
  use(to, stream, true);
  std::memset(to, value, bytes);
  return call.error();
}
int cuMemsetD16Async(unsigned short* to, unsigned short value, std::size_t count, Stream* stream) {
  const Call call("MemsetD16", count, name_of(stream));
  if (const int error = check_queue(stream); error != ok) return error;
  use(to, stream, true);
  std::fill_n(to, count, value);
  return call.error();
}
int cuMemsetD32Async(unsigned* to, unsigned value, std::size_t count, Stream* stream) {
  const Call call("MemsetD32", count, name_of(stream));
  if (const int error = check_queue(stream); error != ok) return error;
  use(to, stream, true);
  std::fill_n(to, count, value);
  return call.error();
}
int cuMemsetD2D32Async(char* to, std::size_t pitch, unsigned value, std::size_t width, std::size_t height,
                       Stream* stream) {
  const Call call("MemsetD2D32", width, height, name_of(stream));
  if (const int error = check_queue(stream); error != ok) return error;
  use(to, stream, true);
  for (std::size_t row = 0; row < height; ++row)
    std::fill_n(reinterpret_cast<unsigned*>(to + row * pitch), width, value);
  return call.error();
}

// ---- streams and events ----

int cudaStreamCreateWithFlags(Stream** stream, unsigned flags) {
  const Call call("StreamCreate", flags);
  State& s = state();
  *stream = nullptr;
  // The handle of a stream that was destroyed is used again, as CUDA's are.
  for (Stream* each : s.streams)
    if (!each->alive) *stream = each;
  if (*stream == nullptr) s.streams.push_back(*stream = new Stream);
  **stream = Stream{current, flags == 0, true, ++s.next_id, nullptr, false};
  if (flags == 0) s.blocking[s.next_id] = current;
  return call.error();
}
int cudaStreamDestroy(Stream* stream) {
  const Call call("StreamDestroy", name_of(stream));
  stream->alive = false;
  return call.error();
}
int cudaStreamSynchronize(Stream* stream) {
  const Call call("StreamSynchronize", name_of(stream));
  if (const int error = check_queue(stream); error != ok) return error;
  if (stream != nullptr && stream->capture != nullptr) return refuse(true);
  if (const int error = check_unsafe(); error != ok) return error;
  join(state().host, clock_of(stream));
  return call.error();
}
int cudaStreamGetId(Stream* stream, unsigned long long* id) {
  const std::lock_guard lock(state().mutex);
  if (!stream->alive) misuse("a destroyed stream is asked for its id");
  *id = stream->id;
  return ok;
}
int cudaEventCreateWithFlags(Event** event, unsigned /*flags*/) {
  *event = new Event{current, {}};
  return ok;
}
int cudaEventDestroy(Event* event) {
  delete event;
  return ok;
}
int cudaEventElapsedTime(float* milliseconds, Event* /*begin*/, Event* /*end*/) {
  *milliseconds = 1;
  return ok;
}
int cudaEventRecord(Event* event, Stream* stream) {
  const int device = stream == nullptr ? current : stream->device;
  const Call call("EventRecord", event->device, name_of(stream));
  if (const int error = check_queue(stream); error != ok) return error;
  if (stream != nullptr && stream->capture != nullptr) misuse("an event is captured");
  if (event->device != device) return invalid_handle;
  event->clock = clock_of(stream);
  return call.error();
}
int cudaStreamWaitEvent(Stream* stream, Event* event, unsigned /*flags*/) {
  const Call call("StreamWaitEvent", name_of(stream), event->device);
  if (const int error = check_queue(stream); error != ok) return error;
  join(clock_of(stream), event->clock);
  return call.error();
}

// ---- captures ----

int cudaThreadExchangeStreamCaptureMode(int* with) {
  std::swap(*with, mode);
  return ok;
}
int cudaStreamIsCapturing(Stream* stream, int* status) {
  const std::lock_guard lock(state().mutex);
  if (state().gone) misuse("StreamIsCapturing after the end");
  if (stream == nullptr && blocking_capture()) return capture_implicit;
  if (stream != nullptr && !stream->alive) misuse("a destroyed stream is asked whether it captures");
  *status = stream == nullptr || stream->capture == nullptr ? 0 : stream->invalidated ? 2 : 1;
  return ok;
}
int cuStreamGetCaptureInfo_v2(Stream* stream, int* status, std::uint64_t*, Graph** graph, const void*,
                              std::size_t*) {
  cudaStreamIsCapturing(stream, status);
  if (graph != nullptr) *graph = stream->capture;
  return ok;
}
int cudaStreamBeginCapture(Stream* stream, int /*mode*/) {
  const Call call("BeginCapture", name_of(stream));
  stream->capture = new Graph;
  stream->invalidated = false;
  return call.error();
}
int cudaStreamEndCapture(Stream* stream, Graph** graph) {
  const Call call("EndCapture", name_of(stream));
  *graph = stream->invalidated ? nullptr : stream->capture;
  stream->capture = nullptr;
  return stream->invalidated ? 901 : call.error();
}
int cudaUserObjectCreate(UserObject** object, void* pointer, void (*destroy)(void*), unsigned references,
                         unsigned /*flags*/) {
  *object = new UserObject{pointer, destroy, static_cast<int>(references)};
  return ok;
}
int cudaGraphRetainUserObject(Graph* graph, UserObject* object, unsigned /*count*/, unsigned flags) {
  if (flags != 1) ++object->references;  // 1: the caller's reference moves
  graph->objects.push_back(object);
  return ok;
}
int cudaGraphInstantiate(Graph** executable, Graph* graph, unsigned long long /*flags*/) {
  const Call call("GraphInstantiate");
  *executable = new Graph(*graph);
  for (UserObject* object : graph->objects) ++object->references;
  return call.error();
}
int cudaGraphLaunch(Graph* /*executable*/, Stream* stream) {
  const Call call("GraphLaunch", name_of(stream));
  return call.error();
}
int cudaGraphDestroy(Graph* graph) {
  for (UserObject* object : graph->objects) release(object);
  delete graph;
  return ok;
}
int cudaGraphExecDestroy(Graph* graph) { return cudaGraphDestroy(graph); }

}  // extern "C"
