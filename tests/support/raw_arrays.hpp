// SPDX-License-Identifier: Apache-2.0
// Arrays as raw bytes, for tests that move memory and do not compute: every pattern, NaNs included, has to
// arrive as it was.
#pragma once
#include <cstddef>
#include <cstring>
#include <vector>

#include "support/layouts.hpp"

namespace support {

inline constexpr DType all_dtypes[] = {
    DType::boolean,     DType::int8,        DType::uint8,       DType::int32,   DType::int64,
    DType::float16,     DType::bfloat16,    DType::float32,     DType::float64, DType::float8_e4m3,
    DType::float8_e5m2, DType::float8_e8m0, DType::float4_e2m1,
};

using Bytes = std::vector<unsigned char>;

template <class T>
Bytes bytes_of(const std::vector<T>& values) {
  Bytes bytes(values.size() * sizeof(T));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const T value = values[i];  // std::vector<bool> has no elements to point to
    std::memcpy(bytes.data() + i * sizeof(T), &value, sizeof(T));
  }
  return bytes;
}

/// Calls f with an object of the type that the array's elements are read as.
template <class F>
auto with_element_type(DType dtype, F f) {
  switch (dtype) {
    case DType::boolean:
      return f(bool{});
    case DType::int8:
      return f(std::int8_t{});
    case DType::int32:
      return f(std::int32_t{});
    case DType::int64:
      return f(std::int64_t{});
    case DType::float16:
      return f(stiletto::half{});
    case DType::bfloat16:
      return f(stiletto::bfloat16{});
    case DType::float32:
      return f(float{});
    case DType::float64:
      return f(double{});
    case DType::float8_e4m3:
      return f(stiletto::float8_e4m3{});
    case DType::float8_e5m2:
      return f(stiletto::float8_e5m2{});
    default:
      return f(std::uint8_t{});
  }
}

/// The elements in row-major order, as to_vector gives them.
inline Bytes elements_of(const Array& array) {
  return with_element_type(array.dtype(),
                           [&]<class T>(T) { return bytes_of(array.template to_vector<T>()); });
}

/// One-dimensional, on the CPU, of any bytes; float4_e2m1 has an even number of elements.
inline Array random_storage(Random& random, DType dtype, std::int64_t count) {
  if (dtype == DType::float4_e2m1) count += count % 2;
  Array array = stiletto::empty({count}, dtype);
  auto* bytes = static_cast<unsigned char*>(array.raw_data());
  for (std::size_t i = 0; i < array.nbytes(); ++i)
    bytes[i] = static_cast<unsigned char>(random.below(dtype == DType::boolean ? 2 : 256));
  return array;
}

/// The same view of the same bytes on the CPU and on another device.
struct Pair {
  Array host, device;
};
inline Pair make_pair(Random& random, DType dtype, const Extents& shape, const Placement& placement,
                      stiletto::Device where) {
  const Array storage = random_storage(random, dtype, placement.storage);
  auto view = [&](const Array& memory) {
    return stiletto::as_strided(memory, dims(shape), dims(placement.strides), placement.offset);
  };
  return {view(storage), view(storage.to(where))};
}

/// Whether a view of float4_e2m1 can be made: it may not part two elements of a byte.
inline bool packs(DType dtype, const Extents& shape, const Placement& placement) {
  if (dtype != DType::float4_e2m1) return true;
  bool good = placement.offset % 2 == 0;
  for (std::size_t i = 0; i < shape.size(); ++i)
    good = good && (shape[i] <= 1 || placement.strides[i] % 2 == 0 ||
                    (placement.strides[i] == 1 && shape[i] % 2 == 0));
  return good;
}

}  // namespace support
