// SPDX-License-Identifier: Apache-2.0
// Ranges with names in NVIDIA's profilers (NVTX), which cost a few nanoseconds where no profiler is attached.
#pragma once

namespace stiletto::detail::cudnn {

/// What this thread does from construction to destruction; the name is copied. Ranges nest.
class ProfilerRange {
 public:
  explicit ProfilerRange(const char* name);
  ~ProfilerRange();
  ProfilerRange(const ProfilerRange&) = delete;
  ProfilerRange& operator=(const ProfilerRange&) = delete;
};

}  // namespace stiletto::detail::cudnn
