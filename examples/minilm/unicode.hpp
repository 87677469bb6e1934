// SPDX-License-Identifier: Apache-2.0
// What a tokenizer asks about characters: their kind, and their form in lower case and without accents.
// Code points that Unicode has not assigned count as letters.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace minilm {

// mark: an accent that combines with the character before it.
enum class Kind : std::uint8_t { letter, mark, control, space, punctuation, ideograph };

Kind kind_of(char32_t);

// The character decomposed, without marks and in lower case: é gives e, 한 three letters.
std::u32string folded(char32_t);

// Bytes that are not UTF-8 become U+FFFD.
std::u32string from_utf8(std::string_view);
void append_utf8(std::string& text, char32_t);

}  // namespace minilm
