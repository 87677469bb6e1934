// SPDX-License-Identifier: Apache-2.0
// Memory of this process as Linux reports it, in bytes: what is resident now, and the most that ever was.
// Sanitisers keep freed memory, so bounds on it are not tested under them.
#pragma once
#include <cstddef>
#include <fstream>
#include <string>

namespace support {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool sanitized = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
inline constexpr bool sanitized = true;
#else
inline constexpr bool sanitized = false;
#endif
#else
inline constexpr bool sanitized = false;
#endif

/// A line of /proc/self/status in bytes, "VmRSS" or "VmHWM"; 0 where there is none.
inline std::size_t process_memory(const std::string& field) {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;)
    if (word == field + ":") {
      std::size_t kilobytes = 0;
      status >> kilobytes;
      return kilobytes * 1024;
    }
  return 0;
}

}  // namespace support
