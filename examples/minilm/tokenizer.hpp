// SPDX-License-Identifier: Apache-2.0
// WordPiece: a sentence becomes the numbers of the vocabulary's pieces, as BERT reads them. The text is put
// in lower case and loses its accents; blanks, punctuation and Chinese characters end words; a word is cut
// into the longest pieces that the vocabulary has, or is [UNK].
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace minilm {

using Tokens = std::vector<std::int32_t>;

class Tokenizer {
 public:
  // One piece a line, its number that of the line. A file that is missing or no such vocabulary throws
  // std::runtime_error.
  explicit Tokenizer(const std::filesystem::path& vocabulary);

  // [CLS], the pieces, [SEP]; pieces past the limit are left out.
  Tokens operator()(std::string_view sentence, std::size_t limit) const;

 private:
  std::int32_t number_of(const std::string& piece) const;
  void append_pieces(Tokens&, const std::u32string& word) const;

  std::filesystem::path path_;
  std::unordered_map<std::string, std::int32_t> numbers_;
  std::int32_t begin_, end_, unknown_;
};

}  // namespace minilm
