// SPDX-License-Identifier: Apache-2.0
// cuDNN handles, one per thread and device, and what else lives as long as the process does on each device.
#pragma once
#include <cstdint>

#include "stiletto/dtype.hpp"

struct cudnnContext;
struct CUstream_st;

namespace stiletto::detail::cudnn {

/// This thread's handle for the device that is current, with its work going to `stream`. Handles of threads
/// that ended are used by later ones; none is ever destroyed, so that nothing is called when the process
/// ends.
cudnnContext* handle_for(int device, CUstream_st* stream);

/// The same wherever its work goes: for what queues none.
cudnnContext* handle_of(int device);

/// This thread's handles leave a stream that is about to be destroyed.
void leave_stream(CUstream_st* stream);

/// At least `count` ones of the dtype (float16 or bfloat16) in the memory of the current device, written
/// before the call returns. The longest vector asked for stays; plans ask when they are built, so that calls
/// do not.
void* ones_on_device(int device, DType dtype, std::int64_t count);

}  // namespace stiletto::detail::cudnn
