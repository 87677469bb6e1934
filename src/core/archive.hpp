// SPDX-License-Identifier: Apache-2.0
// Values as bytes, for saved plans and for requests to the plan builder: little-endian, every list with its
// length before it. A structure says its members once, in `archive(ar, value)`, for both directions: `ar` is
// a Writer with a const value or a Reader.
#pragma once
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "core/scalar_value.hpp"
#include "stiletto/array.hpp"
#include "stiletto/error.hpp"

namespace stiletto::detail {

static_assert(std::endian::native == std::endian::little);

/// Bytes that are not what a Writer wrote; the text is a predicate ("ends too early").
struct ArchiveError : Error {
  using Error::Error;
};

template <class T>
concept PlainValue = std::is_arithmetic_v<T> || std::is_enum_v<T>;

/// T as `archive` takes it: const where it is written.
template <class T, class Of>
concept Archived = std::is_same_v<std::remove_const_t<T>, Of>;

class Writer {
 public:
  template <class... T>
  void operator()(const T&... values) {
    (write(values), ...);
  }
  std::string bytes;

 private:
  template <PlainValue T>
  void write(const T& value) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void write(const std::string& value) {
    write(static_cast<std::uint64_t>(value.size()));
    bytes += value;
  }
  template <class T>
  void write(const std::vector<T>& values) {
    write(static_cast<std::uint64_t>(values.size()));
    for (const T& value : values) write(value);
  }
  template <class T, std::size_t N>
  void write(const std::array<T, N>& values) {
    for (const T& value : values) write(value);
  }
  void write(const Dims& dims) { write(std::vector<std::int64_t>(dims.begin(), dims.end())); }
  void write(const Device& device) { write(std::int32_t{device.is_cpu() ? -1 : device.index()}); }
  void write(const ScalarValue& value) {
    write(value.kind);
    write(value.kind == ScalarValue::Kind::real ? std::bit_cast<std::int64_t>(value.real) : value.integer);
  }
  template <class T>
    requires std::is_class_v<T>
  void write(const T& value) {
    archive(*this, value);
  }
};

/// Never reads beyond the end.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : rest_(bytes) {}
  template <class... T>
  void operator()(T&... values) {
    (read(values), ...);
  }
  /// Throws ArchiveError unless everything has been read.
  void end() const {
    if (!rest_.empty()) throw ArchiveError("is longer than it should be");
  }

 private:
  template <PlainValue T>
  void read(T& value) {
    const std::string_view bytes = take(sizeof value);
    std::memcpy(&value, bytes.data(), bytes.size());
  }
  void read(std::string& value) { value = take(length()); }
  template <class T>
  void read(std::vector<T>& values) {
    values.resize(length());
    for (T& value : values) read(value);
  }
  template <class T, std::size_t N>
  void read(std::array<T, N>& values) {
    for (T& value : values) read(value);
  }
  void read(Dims& dims) {
    std::vector<std::int64_t> values;
    read(values);
    if (values.size() > Dims::max_rank) throw ArchiveError("is damaged");
    dims = Dims(std::span<const std::int64_t>(values));
  }
  void read(Device& device) {
    std::int32_t index = 0;
    read(index);
    device = index < 0 ? Device::cpu() : Device::cuda(index);
  }
  void read(ScalarValue& value) {
    ScalarValue::Kind kind{};
    std::int64_t bits = 0;
    read(kind);
    read(bits);
    value = kind == ScalarValue::Kind::real ? ScalarValue::of(std::bit_cast<double>(bits))
                                            : ScalarValue::of(bits);
    value.kind = kind;
  }
  template <class T>
    requires std::is_class_v<T>
  void read(T& value) {
    archive(*this, value);
  }

  std::string_view take(std::size_t size) {
    if (size > rest_.size()) throw ArchiveError("ends too early");
    const std::string_view taken = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return taken;
  }
  /// A list cannot have more elements than there are bytes left.
  std::size_t length() {
    std::uint64_t size = 0;
    read(size);
    if (size > rest_.size()) throw ArchiveError("is damaged");
    return static_cast<std::size_t>(size);
  }
  std::string_view rest_;
};

}  // namespace stiletto::detail
