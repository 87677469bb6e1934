// SPDX-License-Identifier: Apache-2.0
// Tables are searched by halves. A folding covers runs of code points: neighbours, or every other one where
// capital and small letters alternate.
#include "unicode.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>

namespace minilm {
namespace {

struct Range {
  char32_t first, last;
};
// moving: the targets are as far apart as the code points; else all have one target.
struct Folding {
  char32_t first, last, step, target, moving;
};
struct Pair {
  char32_t code, first, second;
};
#include "unicode_tables.inc"

// The last row that begins at or before the code point, or nothing.
template <class Row, std::size_t count>
const Row* row_at(const Row (&rows)[count], char32_t code) {
  const Row* const next = std::ranges::upper_bound(rows, code, {}, [](const Row& row) { return row.first; });
  return next == std::begin(rows) ? nullptr : std::prev(next);
}

template <std::size_t count>
bool has(const Range (&ranges)[count], char32_t code) {
  const Range* const range = row_at(ranges, code);
  return range != nullptr && code <= range->last;
}

bool is_space(char32_t c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

// The blocks of Chinese characters, which BERT takes for words of one character each.
bool is_ideograph(char32_t c) {
  constexpr Range kBlocks[] = {{0x3400, 0x4DBF},   {0x4E00, 0x9FFF},   {0xF900, 0xFAFF},
                               {0x20000, 0x2A6DF}, {0x2A700, 0x2B73F}, {0x2B740, 0x2B81F},
                               {0x2B920, 0x2CEAF}, {0x2F800, 0x2FA1F}};
  return has(kBlocks, c);
}

Kind kind_of_ascii(char32_t c) {
  if (c < 0x20 || c == 0x7F) return Kind::control;
  const bool alphanumeric = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
  return alphanumeric ? Kind::letter : Kind::punctuation;
}

constexpr char32_t kReplacement = 0xFFFD;
constexpr char32_t kHangulFirst = 0xAC00, kHangulLast = 0xD7A3;

// A syllable is numbered by its leading consonant, vowel and, where it has one, trailing consonant.
std::u32string jamo_of(char32_t syllable) {
  const char32_t index = syllable - kHangulFirst;
  std::u32string text{0x1100 + index / (21 * 28), 0x1161 + index % (21 * 28) / 28};
  if (index % 28 != 0) text.push_back(0x11A7 + index % 28);
  return text;
}

// The number of bytes that a first byte announces, 0 if it cannot be one.
std::size_t length_of(unsigned char first) {
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first < 0xE0) return 2;
  if (first >= 0xE0 && first < 0xF0) return 3;
  return first >= 0xF0 && first < 0xF5 ? 4 : 0;
}

bool is_code_point(char32_t code, std::size_t bytes) {
  constexpr char32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  return code >= kSmallest[bytes] && code <= 0x10FFFF && (code < 0xD800 || code > 0xDFFF);
}

// Takes a character off the front of bytes that are not empty.
char32_t take(std::string_view& bytes) {
  const auto first = static_cast<unsigned char>(bytes.front());
  const std::size_t length = length_of(first);
  bytes.remove_prefix(1);
  if (length == 0 || length - 1 > bytes.size()) return kReplacement;
  char32_t code = length == 1 ? first : first & (0x7FU >> length);
  for (std::size_t i = 0; i + 1 < length; ++i) {
    const auto next = static_cast<unsigned char>(bytes[i]);
    if ((next & 0xC0U) != 0x80U) return kReplacement;
    code = code << 6U | (next & 0x3FU);
  }
  if (!is_code_point(code, length)) return kReplacement;
  bytes.remove_prefix(length - 1);
  return code;
}

}  // namespace

Kind kind_of(char32_t c) {
  if (is_space(c)) return Kind::space;
  if (c < 0x80) return kind_of_ascii(c);
  if (is_ideograph(c)) return Kind::ideograph;
  if (c == kReplacement || has(kControls, c)) return Kind::control;
  if (has(kMarks, c)) return Kind::mark;
  return has(kPunctuation, c) ? Kind::punctuation : Kind::letter;
}

std::u32string folded(char32_t c) {
  if (c >= 'A' && c <= 'Z') return {c - 'A' + 'a'};
  if (c < 0x80) return {c};
  if (c >= kHangulFirst && c <= kHangulLast) return jamo_of(c);
  const auto* const pair = std::ranges::find(kPairs, c, &Pair::code);
  if (pair != std::end(kPairs)) return {pair->first, pair->second};
  const Folding* const row = row_at(kFoldings, c);
  const bool folds = row != nullptr && c <= row->last && (c - row->first) % row->step == 0;
  return {folds ? row->target + (c - row->first) * row->moving : c};
}

std::u32string from_utf8(std::string_view bytes) {
  std::u32string text;
  while (!bytes.empty()) text += take(bytes);
  return text;
}

void append_utf8(std::string& text, char32_t c) {
  const auto byte = [&](char32_t value) { text += static_cast<char>(value); };
  const auto rest = [&](unsigned shift) { byte(0x80U | (c >> shift & 0x3FU)); };
  if (c < 0x80) {
    byte(c);
  } else if (c < 0x800) {
    byte(0xC0U | c >> 6U), rest(0);
  } else if (c < 0x10000) {
    byte(0xE0U | c >> 12U), rest(6), rest(0);
  } else {
    byte(0xF0U | c >> 18U), rest(12), rest(6), rest(0);
  }
}

}  // namespace minilm
