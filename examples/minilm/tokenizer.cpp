// SPDX-License-Identifier: Apache-2.0
// Two passes, as in BERT: a sentence into words, then each word into pieces. Pieces are looked up as UTF-8,
// and are cut between characters only.
#include "tokenizer.hpp"

#include <fstream>
#include <stdexcept>
#include <utility>

#include "unicode.hpp"

namespace minilm {
namespace {

constexpr std::size_t kLongestWord = 100;  // characters; BERT gives up on longer ones

// Collects characters; a word ends where `end` is called.
class Words {
 public:
  void add(char32_t c) { word_ += c; }
  void end() {
    if (!word_.empty()) words_.push_back(word_);
    word_.clear();
  }
  void alone(char32_t c) {
    end();
    add(c);
    end();
  }
  std::vector<std::u32string> take() {
    end();
    return std::move(words_);
  }

 private:
  std::u32string word_;
  std::vector<std::u32string> words_;
};

std::vector<std::u32string> words_of(std::string_view sentence) {
  Words words;
  for (char32_t c : from_utf8(sentence)) {
    const Kind kind = kind_of(c);
    if (kind == Kind::space) words.end();
    if (kind == Kind::space || kind == Kind::mark || kind == Kind::control) continue;
    // Punctuation is asked for without accents: ≠ is = with a stroke.
    for (char32_t letter : folded(c)) {
      if (kind == Kind::ideograph || kind_of(letter) == Kind::punctuation)
        words.alone(letter);
      else
        words.add(letter);
    }
  }
  return words.take();
}

std::string utf8(std::u32string_view text) {
  std::string bytes;
  for (char32_t c : text) append_utf8(bytes, c);
  return bytes;
}

}  // namespace

Tokenizer::Tokenizer(const std::filesystem::path& vocabulary) : path_(vocabulary) {
  std::ifstream stream(vocabulary);
  if (!stream || std::filesystem::is_directory(vocabulary))
    throw std::runtime_error(vocabulary.string() +
                             " cannot be opened; examples/minilm/run.sh fetches it, or name the folder that "
                             "has it with --model.");
  std::int32_t number = 0;
  for (std::string line; std::getline(stream, line); ++number) {
    if (line.ends_with('\r')) line.pop_back();
    numbers_.emplace(line, number);
  }
  begin_ = number_of("[CLS]");
  end_ = number_of("[SEP]");
  unknown_ = number_of("[UNK]");
}

std::int32_t Tokenizer::number_of(const std::string& piece) const {
  const auto found = numbers_.find(piece);
  if (found == numbers_.end())
    throw std::runtime_error(path_.string() + " has no line " + piece +
                             ", so it is no vocabulary of BERT; delete its folder and run "
                             "examples/minilm/run.sh, which fetches it again.");
  return found->second;
}

Tokens Tokenizer::operator()(std::string_view sentence, std::size_t limit) const {
  Tokens tokens{begin_};
  for (const std::u32string& word : words_of(sentence)) {
    append_pieces(tokens, word);
    if (tokens.size() >= limit) break;
  }
  if (tokens.size() > limit - 1) tokens.resize(limit - 1);
  tokens.push_back(end_);
  return tokens;
}

void Tokenizer::append_pieces(Tokens& tokens, const std::u32string& word) const {
  const std::size_t before = tokens.size();
  const auto give_up = [&] {
    tokens.resize(before);
    tokens.push_back(unknown_);
  };
  if (word.size() > kLongestWord) return give_up();
  for (std::size_t start = 0, end = 0; start < word.size(); start = end) {
    auto found = numbers_.end();
    for (end = word.size(); end > start; --end) {
      const std::string piece = utf8(std::u32string_view(word).substr(start, end - start));
      found = numbers_.find(start == 0 ? piece : "##" + piece);
      if (found != numbers_.end()) break;
    }
    if (found == numbers_.end()) return give_up();
    tokens.push_back(found->second);
  }
}

}  // namespace minilm
