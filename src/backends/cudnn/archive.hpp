// SPDX-License-Identifier: Apache-2.0
// Values as bytes, for requests to the plan builder: little-endian, every list with its length before it. A
// reader that meets anything else throws, and never reads beyond the end.
#pragma once
#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "stiletto/error.hpp"

namespace stiletto::detail::cudnn {

static_assert(std::endian::native == std::endian::little);

class Writer {
 public:
  template <class T>
    requires std::is_arithmetic_v<T> || std::is_enum_v<T>
  void operator()(const T& value) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void operator()(const std::string& value) {
    (*this)(static_cast<std::uint64_t>(value.size()));
    bytes += value;
  }
  template <class T>
  void operator()(const std::vector<T>& values) {
    (*this)(static_cast<std::uint64_t>(values.size()));
    for (const T& value : values) archive(*this, value);
  }
  std::string bytes;
};

class Reader {
 public:
  explicit Reader(std::string_view bytes) : rest_(bytes) {}
  template <class T>
    requires std::is_arithmetic_v<T> || std::is_enum_v<T>
  void operator()(T& value) {
    const std::string_view bytes = take(sizeof value);
    std::memcpy(&value, bytes.data(), bytes.size());
  }
  void operator()(std::string& value) { value = take(length(1)); }
  template <class T>
  void operator()(std::vector<T>& values) {
    values.resize(length(1));
    for (T& value : values) archive(*this, value);
  }

 private:
  std::string_view take(std::size_t size) {
    if (size > rest_.size()) throw DeviceError("a message of the plan builder ends too early");
    const std::string_view taken = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return taken;
  }
  /// A list cannot have more elements than there are bytes left.
  std::size_t length(std::size_t smallest) {
    std::uint64_t size = 0;
    (*this)(size);
    if (size > rest_.size() / smallest) throw DeviceError("a message of the plan builder is damaged");
    return static_cast<std::size_t>(size);
  }
  std::string_view rest_;
};

/// Types without an archive() of their own are written as they are.
template <class Archive, class T>
void archive(Archive& ar, T& value) {
  ar(value);
}

}  // namespace stiletto::detail::cudnn
