// SPDX-License-Identifier: Apache-2.0
// A picture is drawn line by line, so that several stand beside each other. With colours a line of text holds
// two rows of pixels: the upper half block's own colour is the upper pixel, its background the lower one.
#include "terminal.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <string_view>

#include "data.hpp"

namespace digits {
namespace {

constexpr std::int64_t kTerminalWidth = 80;
constexpr std::int64_t kGap = 2;
constexpr std::int64_t kCaptionWidth = 8;

std::string_view variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

bool locale_is_utf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const std::string_view value = variable(name);
    if (value.empty()) continue;
    for (std::string_view spelling : {"UTF-8", "utf-8", "UTF8", "utf8"})
      if (value.find(spelling) != value.npos) return true;
    return false;
  }
  return false;
}

// Two characters for a pixel, so that it is about as wide as it is high.
std::string two_columns(std::span<const std::string_view> shades, std::uint8_t value) {
  const std::string_view shade = shades[value * (shades.size() - 1) / kPixelMax];
  return std::string(shade).append(shade);
}

std::string two_rows(std::uint8_t upper, std::uint8_t lower) {
  const auto grey = [](std::uint8_t value) { return std::to_string(232 + value * 23 / kPixelMax); };
  return "\033[38;5;" + grey(upper) + ";48;5;" + grey(lower) + "m▀";
}

std::string text_line(const Picture& picture, std::int64_t line, std::int64_t height, std::int64_t width,
                      Style style) {
  static constexpr std::string_view kBlocks[] = {" ", "░", "▒", "▓", "█"};
  static constexpr std::string_view kAscii[] = {" ", ".", ":", "+", "*", "#", "@"};
  const auto pixel = [&](std::int64_t row, std::int64_t column) {
    return row < height ? picture.pixels[row * width + column] : std::uint8_t{0};
  };
  std::string text;
  for (std::int64_t column = 0; column < width; ++column) {
    if (style == Style::blocks) text += two_columns(kBlocks, pixel(line, column));
    if (style == Style::ascii) text += two_columns(kAscii, pixel(line, column));
    if (style == Style::colours) text += two_rows(pixel(2 * line, column), pixel(2 * line + 1, column));
  }
  return style == Style::colours ? text + "\033[0m" : text;
}

}  // namespace

Style terminal_style() {
  if (!locale_is_utf8()) return Style::ascii;
  const std::string_view term = variable("TERM");
  if (term == "dumb") return Style::ascii;
  const bool has_greys = term.find("256color") != term.npos || !variable("COLORTERM").empty();
  return has_greys && isatty(STDOUT_FILENO) && variable("NO_COLOR").empty() ? Style::colours : Style::blocks;
}

void draw(std::ostream& out, const std::vector<Picture>& pictures, std::int64_t height, std::int64_t width,
          Style style) {
  const bool half = style == Style::colours;
  const std::int64_t lines = half ? (height + 1) / 2 : height;
  const std::int64_t columns = half ? width : 2 * width;
  const std::int64_t cell = std::max(columns, kCaptionWidth);
  const std::int64_t per_row = std::max<std::int64_t>(1, kTerminalWidth / (cell + kGap));
  for (std::int64_t first = 0; first < std::ssize(pictures); first += per_row) {
    const auto row = std::span(pictures).subspan(first, std::min(per_row, std::ssize(pictures) - first));
    for (std::int64_t line = 0; line < lines; ++line) {
      for (const Picture& picture : row) {
        out << std::string(kGap, ' ') << text_line(picture, line, height, width, style)
            << std::string(cell - columns, ' ');
      }
      out << '\n';
    }
    for (std::size_t caption : {0, 1}) {
      for (const Picture& picture : row) {
        std::string text = picture.captions[caption];
        text.resize(cell, ' ');
        out << std::string(kGap, ' ') << text;
      }
      out << '\n';
    }
    out << '\n';
  }
}

}  // namespace digits
