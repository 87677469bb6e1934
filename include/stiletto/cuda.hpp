// SPDX-License-Identifier: Apache-2.0
// CUDA streams: where work on the GPU goes. Needs no CUDA header.
#pragma once
#include "stiletto/export.hpp"

struct CUstream_st;  // what CUDA's cudaStream_t and CUstream point to

namespace stiletto {

/// While it lives, this thread's work on GPUs goes to `stream`; nested guards restore the one before. Without
/// a guard the work goes to CUDA's default stream, so that plain cudaMemcpy calls around it stay in order.
/// The stream belongs to the device of the arrays that are used with it, and outlives the guard.
class STILETTO_API StreamGuard {
 public:
  explicit StreamGuard(CUstream_st* stream);
  ~StreamGuard();
  StreamGuard(const StreamGuard&) = delete;
  StreamGuard& operator=(const StreamGuard&) = delete;

 private:
  CUstream_st* before_;
};

namespace detail {
CUstream_st* current_stream();  // of this thread
}

}  // namespace stiletto
