// SPDX-License-Identifier: Apache-2.0
// A whole file is read first; then a cursor takes it apart and refuses to go past its end. Numbers are
// little-endian whatever this machine is.
#include "data.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>

namespace digits {
namespace {

class File {
 public:
  File(const std::filesystem::path& path, std::string_view magic) : path_(path) {
    std::ifstream stream(path, std::ios::binary);
    if (!stream || std::filesystem::is_directory(path)) fail("cannot be opened");
    bytes_.assign(std::istreambuf_iterator<char>(stream), {});
    if (!bytes_.starts_with(magic)) fail("does not start with \"" + std::string(magic) + "\"");
    position_ = magic.size();
  }

  [[noreturn]] void fail(const std::string& why) const {
    throw std::runtime_error(path_.string() + ' ' + why + '.');
  }

  std::uint32_t number() {
    const std::string_view raw = take(4);
    std::uint32_t value = 0;
    for (int i = 3; i >= 0; --i)
      value = value << 8 | static_cast<unsigned char>(raw[static_cast<std::size_t>(i)]);
    return value;
  }

  std::int64_t extent(const char* name, std::uint32_t limit) {
    const std::uint32_t value = number();
    if (value == 0 || value > limit)
      fail("says that its number of " + std::string(name) + " is " + std::to_string(value) + ", not 1 to " +
           std::to_string(limit));
    return value;
  }

  std::vector<float> floats(std::size_t count) {
    need(count * 4);
    std::vector<float> values(count);
    std::ranges::generate(values, [this] { return std::bit_cast<float>(number()); });
    if (!std::ranges::all_of(values, [](float v) { return std::isfinite(v); }))
      fail("holds a weight that is not finite");
    return values;
  }

  std::string_view take(std::size_t count) {
    need(count);
    position_ += count;
    return std::string_view(bytes_).substr(position_ - count, count);
  }

  void need(std::size_t count) const {
    if (count > bytes_.size() - position_)
      fail("is cut short: it has " + std::to_string(bytes_.size()) + " bytes and needs at least " +
           std::to_string(position_ + count));
  }

  void finish() const {
    if (position_ != bytes_.size())
      fail("has " + std::to_string(bytes_.size() - position_) + " bytes too many");
  }

 private:
  std::filesystem::path path_;
  std::string bytes_;
  std::size_t position_ = 0;
};

}  // namespace

std::vector<float> Images::scaled() const {
  std::vector<float> values(pixels.size());
  std::ranges::transform(pixels, values.begin(),
                         [](std::uint8_t p) { return static_cast<float>(p) / kPixelMax; });
  return values;
}

Images read_images(const std::filesystem::path& path) {
  File file(path, "STDIGITS");
  Images images{};
  images.count = file.extent("pictures", 1'000'000);
  images.height = file.extent("rows", 64);
  images.width = file.extent("columns", 64);
  images.classes = file.extent("classes", 256);
  file.need(images.count * (2 + images.pixels_each()));
  images.pixels.reserve(images.count * images.pixels_each());
  for (std::int64_t i = 0; i < images.count; ++i) {
    const std::string_view record = file.take(2 + images.pixels_each());
    images.labels.push_back(static_cast<std::uint8_t>(record[0]));
    images.held_out.push_back(static_cast<std::uint8_t>(record[1]));
    images.pixels.insert(images.pixels.end(), record.begin() + 2, record.end());
  }
  file.finish();
  if (std::ranges::max(images.labels) >= images.classes)
    file.fail("holds a label that is not one of its classes");
  if (std::ranges::max(images.held_out) > 1)
    file.fail("holds a picture that is neither trained on nor held out");
  if (std::ranges::max(images.held_out) == 0) file.fail("holds no held-out picture");
  if (std::ranges::max(images.pixels) > kPixelMax) file.fail("holds a pixel greater than 16");
  return images;
}

Weights read_weights(const std::filesystem::path& path) {
  File file(path, "STWEIGHT");
  Weights weights{};
  weights.inputs = file.extent("inputs", 4096);
  weights.hidden = file.extent("hidden units", 65536);
  weights.outputs = file.extent("outputs", 256);
  weights.w1 = file.floats(weights.inputs * weights.hidden);
  weights.b1 = file.floats(weights.hidden);
  weights.w2 = file.floats(weights.hidden * weights.outputs);
  weights.b2 = file.floats(weights.outputs);
  file.finish();
  return weights;
}

std::filesystem::path default_folder(const char* program) {
  std::error_code not_linux;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", not_linux);
  return (not_linux ? std::filesystem::path(program) : self).parent_path() / "data";
}

}  // namespace digits
