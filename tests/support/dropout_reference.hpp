// SPDX-License-Identifier: Apache-2.0
// The CPU's masks of attention's dropout, written after the definition of Philox4x32-10: the draw of a place
// is one of the four words at a counter of its own.
#pragma once
#include <array>
#include <cmath>
#include <cstdint>

#include "support/tensor.hpp"

namespace support {

using Words = std::array<std::uint32_t, 4>;

inline Words philox(Words x, std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = 0xD2511F53ULL * x[0], b = 0xCD9E8D57ULL * x[2];
    x = {static_cast<std::uint32_t>(b >> 32U) ^ x[1] ^ key[0], static_cast<std::uint32_t>(b),
         static_cast<std::uint32_t>(a >> 32U) ^ x[3] ^ key[1], static_cast<std::uint32_t>(a)};
    key[0] += 0x9E3779B9U, key[1] += 0xBB67AE85U;
  }
  return x;
}

/// What the probabilities of attention are multiplied by: (batch, heads, seq_q, seq_kv).
inline Tensor kept_probabilities(std::uint64_t seed, std::uint64_t offset, double probability,
                                 const Extents& shape) {
  const std::array<std::uint32_t, 2> key{static_cast<std::uint32_t>(seed),
                                         static_cast<std::uint32_t>(seed >> 32U)};
  const Real bound = std::round(std::ldexp(static_cast<Real>(probability), 32));
  return tabulate(DType::float64, shape, [&](const Extents& at) {
    const std::int64_t row = (at[0] * shape[1] + at[1]) * shape[2] + at[2];
    const std::uint64_t counter = offset + static_cast<std::uint64_t>(row * shape[3] + at[3] / 4 * 4);
    const Words words =
        philox({static_cast<std::uint32_t>(counter), static_cast<std::uint32_t>(counter >> 32U), 0, 0}, key);
    return words[static_cast<std::size_t>(at[3] % 4)] < bound ? Real{0}
                                                              : 1 / (1 - static_cast<Real>(probability));
  });
}

}  // namespace support
