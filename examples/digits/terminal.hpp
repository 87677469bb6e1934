// SPDX-License-Identifier: Apache-2.0
// Draws small grey pictures side by side in a terminal: half blocks in shades of grey where there are
// colours, shaded blocks where there is only UTF-8, and plain characters elsewhere.
#pragma once
#include <array>
#include <cstdint>
#include <ostream>
#include <span>
#include <string>
#include <vector>

namespace digits {

enum class Style { ascii, blocks, colours };

// What standard output can show, from the locale's variables, TERM and NO_COLOR.
Style terminal_style();

struct Picture {
  std::span<const std::uint8_t> pixels;  // row-major, 0 to kPixelMax
  std::array<std::string, 2> captions;   // two lines below it, of up to eight characters
};

// Prints the pictures in as many rows as an 80-column terminal needs.
void draw(std::ostream&, const std::vector<Picture>&, std::int64_t height, std::int64_t width, Style);

}  // namespace digits
