// SPDX-License-Identifier: Apache-2.0
// Captures and graphs of the fake CUDA. Work is done as it is recorded, and nothing when a graph is launched.
#include <utility>

#include "support/fake_cuda.hpp"

using namespace fake;

extern "C" {

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
  if (call.error() != ok) {
    destroy(stream->capture);
    *graph = nullptr;
  }
  stream->capture = nullptr;
  return stream->invalidated ? 901 : call.error();
}
int cudaUserObjectCreate(UserObject** object, void* pointer, void (*destroy)(void*), unsigned references,
                         unsigned /*flags*/) {
  *object = new UserObject{pointer, destroy, static_cast<int>(references)};
  return ok;
}
int cudaGraphRetainUserObject(Graph* graph, UserObject* object, unsigned /*count*/, unsigned flags) {
  const Call call("GraphRetainUserObject");
  if (call.error() != ok) return call.error();
  if (flags != 1) ++object->references;  // 1: the caller's reference moves
  graph->objects.push_back(object);
  return ok;
}
int cudaUserObjectRelease(UserObject* object, unsigned /*count*/) {
  release(object);
  return ok;
}
int cudaGraphInstantiate(Graph** executable, Graph* graph, unsigned long long /*flags*/) {
  const Call call("GraphInstantiate");
  *executable = clone(graph);
  return call.error();
}
int cudaGraphLaunch(Graph* executable, Stream* stream) {
  int error = ok;
  {
    const Call queued("GraphLaunch", name_of(stream));
    error = queued.error();
  }
  if (error == ok) launch(executable);
  return error;
}
/// Runs at once, beside what other threads do, or is recorded.
int cudaLaunchHostFunc(Stream* stream, void (*run)(void*), void* context) {
  {
    const Call queued("LaunchHostFunc", name_of(stream));
    if (const int error = check_queue(stream); error != ok) return error;
    if (queued.error() != ok) return queued.error();
    if (stream != nullptr && stream->capture != nullptr) {
      stream->capture->functions.push_back({run, context});
      return ok;
    }
  }
  call({run, context});
  return ok;
}
int cudaGraphCreate(Graph** graph, unsigned /*flags*/) {
  *graph = new Graph;
  return ok;
}
int cudaGraphDestroy(Graph* graph) {
  destroy(graph);
  return ok;
}
int cudaGraphExecDestroy(Graph* graph) { return cudaGraphDestroy(graph); }
int cudaGraphAddEmptyNode(const Node** node, Graph* graph, const Node* const* /*dependencies*/,
                          std::size_t count) {
  const Call call("GraphAddEmptyNode", count);
  if (call.error() != ok) return call.error();
  *node = new Node;
  graph->children[*node] = new Graph;
  return ok;
}
int cudaGraphAddChildGraphNode(const Node** node, Graph* graph, const Node* const* dependencies,
                               std::size_t count, const Graph* child) {
  const Call call("GraphAddChildGraphNode", count);
  if (call.error() != ok) return call.error();
  for (std::size_t i = 0; i < count; ++i)
    if (!graph->children.contains(dependencies[i])) return invalid_value;
  *node = new Node;
  graph->children[*node] = clone(child);
  return ok;
}
int cudaGraphExecChildGraphNodeSetParams(Graph* executable, const Node* node, const Graph* child) {
  const Call call("GraphExecChildGraphNodeSetParams");
  if (call.error() != ok) return call.error();
  const auto found = executable->children.find(node);
  if (found == executable->children.end()) return invalid_value;
  destroy(found->second);
  found->second = clone(child);
  return ok;
}

}  // extern "C"
