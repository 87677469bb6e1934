// SPDX-License-Identifier: Apache-2.0
// A pointwise chain of 12 operations on 64 Mi floats peaks at no more memory than its inputs and outputs plus
// 64 MiB: no intermediate of full size exists. The peak is the process's own (VmHWM), library code included.
#include <cstdio>
#include <stiletto/stiletto.hpp>

#include "../../support/memory.hpp"

namespace {
namespace st = stiletto;

st::Array twelve(const st::Array& x, const st::Array& y) {
  const st::Array a = x * y + 1.0F;
  const st::Array b = st::tanh(a) * 0.5F;
  const st::Array c = st::maximum(b - x, y);
  return st::relu(c * c + b) - st::abs(a) * 0.25F;
}
}  // namespace

int main() {
  constexpr std::int64_t count = std::int64_t{64} << 20U;
  constexpr std::size_t bytes = static_cast<std::size_t>(count) * sizeof(float);
  constexpr std::size_t spare = std::size_t{64} << 20U;
  if (support::sanitized) {
    std::puts("skipped: a sanitiser's own memory counts");
    return 0;
  }
  const st::Array x = st::full({count}, 0.5F), y = st::full({count}, -2.0F);
  const st::Array z = st::compile(twelve, x, y)(x, y);
  const std::size_t peak = support::process_memory("VmHWM");
  std::printf("peak %zu MiB, allowed %zu MiB\n", peak >> 20U, (3 * bytes + spare) >> 20U);
  const float first = z.at<float>({0}), last = z.at<float>({-1}), middle = z.at<float>({count / 3});
  std::printf("values %g %g %g\n", first, middle, last);
  return peak != 0 && peak <= 3 * bytes + spare && first == last && first == middle ? 0 : 1;
}
