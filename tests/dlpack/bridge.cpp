// SPDX-License-Identifier: Apache-2.0
// What exchange.py calls: tensors of another library in, arrays of ours out.
#include <exception>
#include <optional>
#include <string>

#include "stiletto/dlpack.hpp"
#include "stiletto/stiletto.hpp"

namespace {

std::string problem;

/// A stream as Python has it: an address, or −1 for none.
std::optional<CUstream_st*> stream_of(long long stream) {
  if (stream == -1) return {};
  return reinterpret_cast<CUstream_st*>(stream);  // NOLINT(performance-no-int-to-ptr)
}

template <class F>
DLManagedTensor* guarded(F f) {
  try {
    return f();
  } catch (const std::exception& error) {
    problem = error.what();
    return nullptr;
  }
}

}  // namespace

extern "C" {

const char* bridge_problem() { return problem.c_str(); }

/// 2x + 1 in a new array; null, and bridge_problem, where that fails.
DLManagedTensor* bridge_compute(DLManagedTensor* x, long long stream) {
  return guarded([&] {
    const stiletto::Array in = stiletto::from_dlpack(x, stream_of(stream));
    const stiletto::Array out =
        stiletto::jit([](const stiletto::Array& a) { return stiletto::cast(a * 2 + 1, a.dtype()); }, in);
    return stiletto::to_dlpack(out, stream_of(stream));
  });
}

/// −x, written over x.
DLManagedTensor* bridge_negate(DLManagedTensor* x, long long stream) {
  return guarded([&] {
    const stiletto::Array in = stiletto::from_dlpack(x, stream_of(stream));
    stiletto::jit([](const stiletto::Array& a) { stiletto::assign(a, -a); }, in);
    return stiletto::to_dlpack(in, stream_of(stream));
  });
}
}
