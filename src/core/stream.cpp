// SPDX-License-Identifier: Apache-2.0
// The stream of each thread.
#include "stiletto/cuda.hpp"

namespace stiletto {
namespace {
thread_local CUstream_st* stream_of_thread = nullptr;
}

StreamGuard::StreamGuard(CUstream_st* stream) : before_(stream_of_thread) { stream_of_thread = stream; }
StreamGuard::~StreamGuard() { stream_of_thread = before_; }

namespace detail {
CUstream_st* current_stream() { return stream_of_thread; }
}  // namespace detail

}  // namespace stiletto
