// SPDX-License-Identifier: Apache-2.0
// A CUDA runtime and driver without a GPU: two devices whose memory is the host's, and whose work is done
// when it is queued; captured host functions run when their graph is launched. It writes down every call,
// fails where a test asks it to, and ends the program with a sentence where a real one would misbehave: a
// destroyed stream, a call from a callback or after the end. Compiled without CUDA's headers, whose types
// below are C's: enumerations are int, handles and addresses are pointers.
#include <utility>

#include "support/fake_cuda.hpp"

using namespace fake;

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
/// Work that a host function plays uses the memory at an address.
void fake_use(const void* pointer, Stream* stream, bool writes) {
  const std::lock_guard lock(state().mutex);
  use(pointer, stream, writes);
}

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

}  // extern "C"
