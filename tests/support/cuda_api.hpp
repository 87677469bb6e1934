// SPDX-License-Identifier: Apache-2.0
// The few CUDA functions that tests call themselves, as a user of the library would, without CUDA's headers:
// enumerations are int and handles are pointers there too. Each test program says which library they are in.
#pragma once
#include <dlfcn.h>

#include <cstddef>
#include <stdexcept>
#include <string>

#include "stiletto/cuda.hpp"

namespace support {

/// Defined by the program: the CUDA runtime it runs with.
void* cuda_runtime_handle();

inline void* cuda_symbol(const char* name) {
  void* const symbol = dlsym(cuda_runtime_handle(), name);
  if (symbol == nullptr) throw std::runtime_error(std::string("no function ") + name);
  return symbol;
}

/// Whether that is fake_cudart.cpp, which plays a GPU.
inline bool cuda_is_fake() { return dlsym(cuda_runtime_handle(), "fake_log") != nullptr; }

/// Calls a function that returns cudaError_t.
template <class... T>
int cuda_status(const char* name, T... arguments) {
  return reinterpret_cast<int (*)(T...)>(cuda_symbol(name))(arguments...);
}
template <class... T>
void cuda_call(const char* name, T... arguments) {
  if (const int status = cuda_status(name, arguments...); status != 0)
    throw std::runtime_error(std::string(name) + " returned " + std::to_string(status));
}

inline int cuda_device_count() {
  int count = 0;
  cuda_call("cudaGetDeviceCount", &count);
  return count;
}
inline void cuda_synchronize(CUstream_st* stream) { cuda_call("cudaStreamSynchronize", stream); }

/// A stream of the caller's. Non-blocking ones are not ordered with the default stream.
class Stream {
 public:
  explicit Stream(bool blocking = false) {
    cuda_call("cudaStreamCreateWithFlags", &stream_, blocking ? 0U : 1U);
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() { destroy(); }
  void destroy() {
    if (stream_ != nullptr) cuda_status("cudaStreamDestroy", stream_);
    stream_ = nullptr;
  }
  CUstream_st* get() const { return stream_; }

 private:
  CUstream_st* stream_ = nullptr;
};

/// Memory of the caller's.
class DeviceBuffer {
 public:
  explicit DeviceBuffer(std::size_t bytes) { cuda_call("cudaMalloc", &pointer_, bytes); }
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;
  ~DeviceBuffer() { cuda_status("cudaFree", pointer_); }
  void* get() const { return pointer_; }

 private:
  void* pointer_ = nullptr;
};

/// A graph of the caller's, without nodes at first.
class OwnGraph {
 public:
  OwnGraph() { cuda_call("cudaGraphCreate", &graph_, 0U); }
  OwnGraph(const OwnGraph&) = delete;
  OwnGraph& operator=(const OwnGraph&) = delete;
  ~OwnGraph() {
    destroy_graph();
    if (executable_ != nullptr) cuda_status("cudaGraphExecDestroy", executable_);
  }
  void destroy_graph() {
    if (graph_ != nullptr) cuda_status("cudaGraphDestroy", graph_);
    graph_ = nullptr;
  }
  CUgraphExec_st* instantiate() {
    cuda_call("cudaGraphInstantiate", &executable_, graph_, 0ULL);
    return executable_;
  }
  CUgraph_st* get() const { return graph_; }
  void launch(const Stream& stream) {
    cuda_call("cudaGraphLaunch", executable_, stream.get());
    cuda_synchronize(stream.get());
  }

 private:
  CUgraph_st* graph_ = nullptr;
  CUgraphExec_st* executable_ = nullptr;
};

/// A graph captured from a stream, in CUDA's default mode.
class CapturedGraph {
 public:
  explicit CapturedGraph(const Stream& stream) : stream_(stream.get()) {
    cuda_call("cudaStreamBeginCapture", stream_, 0);
  }
  CapturedGraph(const CapturedGraph&) = delete;
  CapturedGraph& operator=(const CapturedGraph&) = delete;
  ~CapturedGraph() {
    if (!ended_) cuda_status("cudaStreamEndCapture", stream_, &graph_);
    if (executable_ != nullptr) cuda_status("cudaGraphExecDestroy", executable_);
    if (graph_ != nullptr) cuda_status("cudaGraphDestroy", graph_);
  }
  /// Ends the capture; what cudaStreamEndCapture returned, 0 unless something broke it.
  int end() {
    ended_ = true;
    const int status = cuda_status("cudaStreamEndCapture", stream_, &graph_);
    if (status == 0) cuda_call("cudaGraphInstantiate", &executable_, graph_, 0ULL);
    return status;
  }
  void launch() { cuda_call("cudaGraphLaunch", executable_, stream_); }
  void* get() const { return graph_; }
  /// The executable does from now on what another capture of the same work has.
  void update(const CapturedGraph& other) {
    std::byte result[64] = {};
    cuda_call("cudaGraphExecUpdate", executable_, other.graph_, static_cast<void*>(result));
  }

 private:
  CUstream_st* stream_;
  void* graph_ = nullptr;
  void* executable_ = nullptr;
  bool ended_ = false;
};

}  // namespace support
