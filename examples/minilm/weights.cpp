// SPDX-License-Identifier: Apache-2.0
// The parser knows as much of JSON as a header of safetensors holds: objects, strings and arrays of whole
// numbers. Places are checked when the header is read, so that `tensor` only copies.
#include "weights.hpp"

#include <bit>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <stdexcept>
#include <string_view>

namespace minilm {
namespace {

// A little-endian number of `size` bytes.
std::uint64_t number_at(std::string_view bytes, std::size_t size) {
  std::uint64_t value = 0;
  for (std::size_t i = size; i-- > 0;) value = value << 8U | static_cast<unsigned char>(bytes[i]);
  return value;
}

std::string text(const std::vector<std::int64_t>& shape) {
  std::string result;
  for (std::int64_t extent : shape) result += (result.empty() ? "" : ", ") + std::to_string(extent);
  return '(' + result + ')';
}

constexpr std::size_t kLengthBytes = 8, kFloatBytes = 4;

}  // namespace

class Weights::Header {
 public:
  Header(Weights& weights, std::string_view json, std::size_t data)
      : weights_(weights), json_(json), data_(data) {}

  void read() {
    object([&](const std::string& name) {
      if (name == "__metadata__")
        object([&](const std::string&) { string(); });
      else
        weights_.entries_.emplace(name, entry());
    });
    if (next() != '\0') weights_.fail("has a header with something after its end");
  }

 private:
  Entry entry() {
    Entry entry;
    std::vector<std::int64_t> place;
    object([&](const std::string& key) {
      if (key == "dtype")
        entry.dtype = string();
      else if (key == "shape")
        entry.shape = numbers();
      else if (key == "data_offsets")
        place = numbers();
      else
        weights_.fail("has a header with the unknown key " + key);
    });
    const std::size_t size = weights_.bytes_.size() - data_;
    if (place.size() != 2 || place[0] > place[1] || static_cast<std::size_t>(place[1]) > size)
      weights_.fail("is cut short, or places a tensor outside of itself");
    entry.begin = data_ + static_cast<std::size_t>(place[0]);
    entry.end = data_ + static_cast<std::size_t>(place[1]);
    return entry;
  }

  void object(const std::function<void(const std::string&)>& member) {
    expect('{');
    for (char after = next() == '}' ? take() : ','; after != '}'; after = take_one_of(",}")) {
      const std::string key = string();
      expect(':');
      member(key);
    }
  }

  std::vector<std::int64_t> numbers() {
    std::vector<std::int64_t> values;
    expect('[');
    for (char after = next() == ']' ? take() : ','; after != ']'; after = take_one_of(",]"))
      values.push_back(number());
    return values;
  }

  std::int64_t number() {
    constexpr std::int64_t kLimit = std::numeric_limits<std::int64_t>::max() / 10 - 1;
    std::int64_t value = 0;
    if (next() < '0' || next() > '9') broken();
    while (!json_.empty() && json_.front() >= '0' && json_.front() <= '9') {
      if (value > kLimit) broken();
      value = value * 10 + (json_.front() - '0');
      json_.remove_prefix(1);
    }
    return value;
  }

  // Names of tensors need no escapes.
  std::string string() {
    expect('"');
    const std::size_t length = json_.find_first_of("\"\\");
    if (length == json_.npos || json_[length] == '\\') broken();
    const std::string value(json_.substr(0, length));
    json_.remove_prefix(length + 1);
    return value;
  }

  char next() {
    const std::size_t blanks = json_.find_first_not_of(" \t\r\n");
    json_.remove_prefix(blanks == json_.npos ? json_.size() : blanks);
    return json_.empty() ? '\0' : json_.front();
  }
  char take() {
    const char c = next();
    if (!json_.empty()) json_.remove_prefix(1);
    return c;
  }
  char take_one_of(std::string_view allowed) {
    const char c = take();
    if (allowed.find(c) == allowed.npos) broken();
    return c;
  }
  void expect(char c) { take_one_of(std::string_view(&c, 1)); }
  [[noreturn]] void broken() const { weights_.fail("has a header that cannot be read"); }

  Weights& weights_;
  std::string_view json_;
  std::size_t data_;
};

Weights::Weights(const std::filesystem::path& path) : path_(path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream || std::filesystem::is_directory(path)) fail("cannot be opened");
  bytes_.resize(std::filesystem::file_size(path));
  stream.read(bytes_.data(), static_cast<std::streamsize>(bytes_.size()));
  if (!stream) fail("cannot be read");
  if (bytes_.size() < kLengthBytes) fail("is too short for a file of tensors");
  const std::uint64_t length = number_at(bytes_, kLengthBytes);
  if (length > bytes_.size() - kLengthBytes) fail("is cut short, or no file of tensors");
  Header(*this, std::string_view(bytes_).substr(kLengthBytes, length), kLengthBytes + length).read();
}

std::vector<float> Weights::tensor(const std::string& name, const std::vector<std::int64_t>& shape) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) fail("has no tensor " + name);
  const Entry& entry = found->second;
  if (entry.dtype != "F32" || entry.shape != shape)
    fail("has " + name + " as " + entry.dtype + ' ' + text(entry.shape) + ", not F32 " + text(shape));
  std::size_t count = 1;
  for (std::int64_t extent : shape) count *= static_cast<std::size_t>(extent);
  if (entry.end - entry.begin != count * kFloatBytes) fail("gives " + name + " too many bytes or too few");
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    const auto raw = std::string_view(bytes_).substr(entry.begin + i * kFloatBytes, kFloatBytes);
    values[i] = std::bit_cast<float>(static_cast<std::uint32_t>(number_at(raw, kFloatBytes)));
  }
  return values;
}

void Weights::fail(const std::string& why) const {
  throw std::runtime_error(path_.string() + ' ' + why +
                           "; delete its folder and run examples/minilm/run.sh, which fetches "
                           "all-MiniLM-L6-v2 again, or name another folder with --model.");
}

}  // namespace minilm
