// SPDX-License-Identifier: Apache-2.0
// The step of the library's hashes and checksums.
#pragma once
#include <cstdint>

namespace stiletto::detail {

/// Both halves of a 128-bit product in one word (the construction of wyhash and its kin), which mixes every
/// bit of `word` into every bit of the result.
inline std::uint64_t folded_product(std::uint64_t word) {
  __extension__ using Wide = unsigned __int128;
  const auto product = static_cast<Wide>(word) * 0x9E3779B97F4A7C15ULL;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64U);
}

}  // namespace stiletto::detail
