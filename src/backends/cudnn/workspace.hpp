// SPDX-License-Identifier: Apache-2.0
// Scratch memory of plans. Each thread keeps one block per device and stream, which its calls there use one
// after the other; so nothing is shared and nothing is locked.
#pragma once
#include <cstddef>

struct CUstream_st;

namespace stiletto::detail::cudnn {

/// At least `bytes` for work queued next on the thread's current stream, which `stream` is; null for 0 bytes.
/// A block that has become too small is freed in the stream's order. During a capture the memory is the
/// captured graph's, and no other call's.
void* workspace(int device, CUstream_st* stream, std::size_t bytes);

}  // namespace stiletto::detail::cudnn
