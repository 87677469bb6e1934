// SPDX-License-Identifier: Apache-2.0
// What against_ml_dtypes.py calls: a cast between two buffers of codes.
#include <exception>
#include <string>

#include "stiletto/stiletto.hpp"

namespace {

using stiletto::DType;

std::string problem;

DType dtype_of(const std::string& name) {
  for (const DType dtype :
       {DType::int8, DType::uint8, DType::float16, DType::bfloat16, DType::float32, DType::float64,
        DType::float8_e4m3, DType::float8_e5m2, DType::float8_e8m0, DType::float4_e2m1})
    if (name == stiletto::to_string(dtype)) return dtype;
  throw stiletto::ArgumentError("bridge: there is no dtype " + name);
}

}  // namespace

extern "C" {

const char* bridge_problem() { return problem.c_str(); }

/// False, and bridge_problem, where that fails.
bool bridge_cast(void* from, const char* from_dtype, void* to, const char* to_dtype, long long count) {
  try {
    const stiletto::Device cpu = stiletto::Device::cpu();
    const stiletto::Array in = stiletto::wrap(from, {count}, dtype_of(from_dtype), cpu);
    const stiletto::Array out = stiletto::wrap(to, {count}, dtype_of(to_dtype), cpu);
    stiletto::assign(out, stiletto::cast(in, out.dtype()));
    return true;
  } catch (const std::exception& error) {
    problem = error.what();
    return false;
  }
}
}
