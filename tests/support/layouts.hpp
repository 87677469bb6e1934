// SPDX-License-Identifier: Apache-2.0
// Between the reference's tensors and the library's arrays: arrays of every layout class over storage full of
// other values, and results read back by their strides with the tests' own decoding. The device under test is
// chosen here and nowhere else: STILETTO_TEST_DEVICE=cuda runs the same cases on the GPU
// (checked_backend.cpp).
#pragma once
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "support/tensor.hpp"

namespace support {

inline stiletto::Device device() {
  const char* const variable = std::getenv("STILETTO_TEST_DEVICE");
  const std::string name = variable != nullptr ? variable : "cpu";
  return name == "cuda" || name == "fake" ? stiletto::Device::cuda(0) : stiletto::Device::cpu();
}

/// Reproducible on every platform: the engine is specified, and the distributions are ours.
class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  std::uint64_t next() { return engine_(); }
  std::int64_t below(std::int64_t bound) {
    return static_cast<std::int64_t>(next() % static_cast<std::uint64_t>(bound));
  }
  bool chance(int percent) { return below(100) < percent; }
  Real uniform(Real low, Real high) {
    return low + (high - low) * static_cast<Real>(next() >> 11U) / std::ldexp(Real{1}, 53);
  }

 private:
  std::mt19937_64 engine_;
};

struct Range {
  Real low = -3, high = 3;
};

/// A value of the type in the range (an integer type's own bounds included); sometimes a whole number.
inline Real draw(Random& random, DType dtype, Range range) {
  if (dtype == DType::boolean) return random.chance(50);
  if (is_integer(dtype)) {
    const Real low = std::fmax(std::ceil(range.low), lowest_integer(dtype));
    const Real high = std::fmin(std::floor(range.high), highest_integer(dtype));
    return low + static_cast<Real>(random.below(static_cast<std::int64_t>(high - low) + 1));
  }
  Real value = random.uniform(range.low, range.high);
  if (random.chance(10) && std::trunc(value) >= range.low) value = std::trunc(value);
  return round_float(value, dtype);
}

inline Tensor random_tensor(Random& random, DType dtype, const Extents& shape, Range range = {}) {
  return tabulate(dtype, shape, [&](const Extents&) { return draw(random, dtype, range); });
}

// ---- to the library ----

inline stiletto::Dims dims(const Extents& values) {
  return stiletto::Dims(std::span<const std::int64_t>(values));
}
inline Extents extents(const stiletto::Dims& values) { return {values.begin(), values.end()}; }

/// A contiguous array of exactly these values, each representable in the type.
inline Array to_array(const Tensor& x, stiletto::Device where = device()) {
  Array array = stiletto::empty(dims(x.shape), x.dtype);
  for (std::size_t i = 0; i < x.size(); ++i)
    store(array.raw_data(), static_cast<std::int64_t>(i), x.dtype, x.values[i]);
  return array.to(where);
}

/// A contiguous array of raw codes.
template <class Code>
Array from_codes(const std::vector<Code>& codes, const Extents& shape, DType dtype) {
  Array array = stiletto::empty(dims(shape), dtype);
  std::memcpy(array.raw_data(), codes.data(), codes.size() * sizeof(Code));
  return array.to(device());
}

enum class Layout {
  contiguous,
  transposed,      // all axes reversed in memory
  stepped,         // every second element of each axis
  reversed,        // every axis backwards
  first_reversed,  // only the first axis backwards
  broadcast,       // every other axis has stride 0
  offset,          // padded rows, starting at an odd element
  channels_last    // axis 1 varies fastest
};
inline constexpr Layout layouts[] = {Layout::contiguous,     Layout::transposed,   Layout::stepped,
                                     Layout::reversed,       Layout::broadcast,    Layout::offset,
                                     Layout::first_reversed, Layout::channels_last};

inline const char* to_string(Layout layout) {
  static constexpr const char* names[] = {"contiguous",     "transposed", "stepped", "reversed",
                                          "first_reversed", "broadcast",  "offset",  "channels_last"};
  return names[static_cast<int>(layout)];
}

struct Placement {
  Extents strides;
  std::int64_t offset = 0, storage = 1;  // in elements
};

inline Placement place(Layout layout, const Extents& shape) {
  const std::size_t rank = shape.size();
  Placement out;
  Extents padded = shape;
  if (layout == Layout::offset && rank > 0) padded[rank - 1] += 3;
  if (layout == Layout::stepped)
    for (std::int64_t& extent : padded) extent *= 2;
  std::vector<std::size_t> order(rank);  // slowest axis first
  for (std::size_t i = 0; i < rank; ++i) order[i] = layout == Layout::transposed ? rank - 1 - i : i;
  if (layout == Layout::channels_last && rank > 2) {
    order.erase(order.begin() + 1);
    order.push_back(1);
  }
  out.strides.assign(rank, 0);
  for (std::size_t i = rank; i-- > 0;) {
    const std::size_t axis = order[i];
    if (layout == Layout::broadcast && axis % 2 == 0) continue;
    out.strides[axis] = out.storage;
    out.storage *= padded[axis];
  }
  if (count_of(shape) == 0) {
    out.storage = 1;
    return out;
  }
  if (layout == Layout::stepped)
    for (std::int64_t& stride : out.strides) stride *= 2;
  for (std::size_t axis = 0; axis < rank; ++axis)
    if (layout == Layout::reversed || (layout == Layout::first_reversed && axis == 0)) {
      out.strides[axis] = -out.strides[axis];
      out.offset -= out.strides[axis] * (shape[axis] - 1);
    }
  if (layout == Layout::offset) {
    out.offset = 5;
    out.storage += 5;
  }
  return out;
}

/// An array of a layout, the storage it looks into, and the values it shows.
struct Operand {
  Array array, storage;
  Tensor values;
  Placement placement;
};

inline Operand operand(Random& random, DType dtype, const Extents& shape, Layout layout, Range range = {}) {
  Operand out;
  out.placement = place(layout, shape);
  const Tensor storage = random_tensor(random, dtype, {out.placement.storage}, range);
  out.storage = to_array(storage);
  out.array =
      stiletto::as_strided(out.storage, dims(shape), dims(out.placement.strides), out.placement.offset);
  out.values = tabulate(dtype, shape, [&](const Extents& index) {
    return storage.values[static_cast<std::size_t>(out.placement.offset + dot(index, out.placement.strides))];
  });
  return out;
}

// ---- back ----

/// The array's values, read through its strides.
inline Tensor read(const Array& array) {
  const Array host = array.to(stiletto::Device::cpu());
  const Extents strides = extents(host.strides());
  const Extents shape = extents(host.shape());
  const void* base = count_of(shape) == 0 ? nullptr : host.raw_data();
  Tensor values = tabulate(host.dtype(), shape, [&](const Extents& index) {
    return load(base, dot(index, strides), host.dtype());
  });
  if (array.device().is_cuda() && base != nullptr) values.slack = DeviceResults::of(array.raw_data());
  return values;
}

inline std::string describe(const Extents& shape) {
  std::string text = "(";
  for (std::int64_t extent : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(extent);
  return text + ")";
}

}  // namespace support
