// SPDX-License-Identifier: Apache-2.0
// Work recorded into a CUDA graph instead of being done.
#pragma once
#include "backends/cudnn/cuda_runtime.hpp"
#include "backends/cudnn/handles.hpp"

namespace stiletto::detail::cudnn {

/// A stream of the current device that is capturing until end() or destruction. `operation` begins the text
/// of what is thrown.
class Recording {
 public:
  explicit Recording(const char* operation, cudaStreamCaptureMode mode = cudaStreamCaptureModeThreadLocal)
      : beside_others_(mode) {
    check(cuda().StreamCreateWithFlags(&stream_, cudaStreamNonBlocking), operation);
    const cudaError_t begun = cuda().StreamBeginCapture(stream_, mode);
    if (begun != cudaSuccess) {
      cuda().StreamDestroy(stream_);
      check(begun, operation);
    }
  }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;
  ~Recording() {
    cudaGraph_t graph = end();
    if (graph != nullptr) cuda().GraphDestroy(graph);
    leave_stream(stream_);
    cuda().StreamDestroy(stream_);
    cuda().GetLastError();  // what was wrong has been said; later calls of anyone must not meet it
  }
  cudaStream_t stream() const { return stream_; }
  /// What was recorded, which is the caller's; null where the capture was spoilt.
  cudaGraph_t end() {
    cudaGraph_t graph = nullptr;
    if (capturing_) cuda().StreamEndCapture(stream_, &graph);
    capturing_ = false;
    return graph;
  }

 private:
  BesideCapture beside_others_;
  cudaStream_t stream_ = nullptr;
  bool capturing_ = true;
};

}  // namespace stiletto::detail::cudnn
