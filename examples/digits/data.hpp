// SPDX-License-Identifier: Apache-2.0
// Reads the two files of examples/digits/data: the pictures with their labels and the network's weights.
// README.md describes both formats. A file that is missing, cut short or not of its format throws
// std::runtime_error with a sentence that names the file.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

namespace digits {

inline constexpr int kPixelMax = 16;

struct Images {
  std::int64_t count, height, width, classes;
  std::vector<std::uint8_t> labels;    // count
  std::vector<std::uint8_t> held_out;  // count; 1: the training never saw this picture
  std::vector<std::uint8_t> pixels;    // count x height x width, 0 (paper) to 16 (ink)

  std::int64_t pixels_each() const { return height * width; }
  std::span<const std::uint8_t> picture(std::int64_t i) const {
    return {&pixels[i * pixels_each()], static_cast<std::size_t>(pixels_each())};
  }
  std::vector<float> scaled() const;  // count x (height * width), 0 to 1: what the network reads
};

struct Weights {
  std::int64_t inputs, hidden, outputs;
  std::vector<float> w1, b1;  // inputs x hidden, hidden
  std::vector<float> w2, b2;  // hidden x outputs, outputs
};

Images read_images(const std::filesystem::path&);
Weights read_weights(const std::filesystem::path&);

// The folder `data` next to this program.
std::filesystem::path default_folder(const char* program);

}  // namespace digits
