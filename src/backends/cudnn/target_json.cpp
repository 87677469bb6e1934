// SPDX-License-Identifier: Apache-2.0
// A reader for one JSON object. The numbers and names inside stay as they were written.
#include "backends/cudnn/target_json.hpp"

#include <algorithm>
#include <cctype>
#include <stdexcept>

#include "core/text.hpp"

namespace stiletto::detail::cudnn {

namespace {

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  std::vector<JsonMember> document() {
    std::vector<JsonMember> members;
    space();
    expect('{', "the file has to be one JSON object");
    space();
    if (!take('}')) {
      do {
        space();
        std::string key;
        string(key);
        space();
        expect(':', "a key needs a colon behind it");
        std::string value;
        this->value(value, 0);
        key = key.substr(1, key.size() - 2);
        if (std::ranges::any_of(members, [&](const JsonMember& member) { return member.key == key; }))
          fail("the key \"" + key + "\" stands twice");
        members.push_back({std::move(key), std::move(value)});
        space();
      } while (take(','));
      expect('}', "a comma or the closing brace is missing");
    }
    space();
    if (at_ < text_.size()) fail("there is more behind the closing brace");
    return members;
  }

 private:
  static constexpr int deepest = 32;

  [[noreturn]] void fail(const std::string& what) const {
    const std::string_view before = text_.substr(0, at_);
    const auto line = std::ranges::count(before, '\n') + 1;
    const std::size_t start = before.rfind('\n') == std::string_view::npos ? 0 : before.rfind('\n') + 1;
    throw std::invalid_argument(text("line ", line, ", column ", at_ - start + 1, ": ", what));
  }
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool take(char wanted) {
    if (peek() != wanted) return false;
    ++at_;
    return true;
  }
  void expect(char wanted, const char* otherwise) {
    if (!take(wanted)) fail(otherwise);
  }
  void space() {
    while (peek() == ' ' || peek() == '\n' || peek() == '\t' || peek() == '\r') ++at_;
  }

  void string(std::string& out) {
    const std::size_t begin = at_;
    expect('"', "a key or value in double quotes is expected");
    while (peek() != '"') {
      if (static_cast<unsigned char>(peek()) < 0x20) fail("the string is not closed");
      if (take('\\') && at_ >= text_.size()) fail("the string is not closed");
      ++at_;
    }
    ++at_;
    out += text_.substr(begin, at_ - begin);
  }

  void number(std::string& out) {
    const std::size_t begin = at_;
    auto digits = [&] {
      if (std::isdigit(static_cast<unsigned char>(peek())) == 0) fail("a value is expected");
      while (std::isdigit(static_cast<unsigned char>(peek())) != 0) ++at_;
    };
    take('-');
    digits();
    if (take('.')) digits();
    if (take('e') || take('E')) {
      if (!take('+')) take('-');
      digits();
    }
    out += text_.substr(begin, at_ - begin);
  }

  void value(std::string& out, int depth) {  // NOLINT(misc-no-recursion): bounded by `deepest`
    if (depth > deepest) fail("values are nested too deeply");
    space();
    const char first = peek();
    if (first == '"') return string(out);
    if (first == '{' || first == '[') return container(out, depth);
    for (const std::string_view word : {"true", "false", "null"})
      if (text_.substr(at_, word.size()) == word) {
        at_ += word.size();
        out += word;
        return;
      }
    number(out);
  }

  void container(std::string& out, int depth) {  // NOLINT(misc-no-recursion)
    const bool object = peek() == '{';
    const char close = object ? '}' : ']';
    out += text_[at_++];
    space();
    if (peek() != close) {
      bool first = true;
      do {
        if (!first) out += ',';
        first = false;
        space();
        if (object) {
          string(out);
          space();
          expect(':', "a key needs a colon behind it");
          out += ':';
        }
        value(out, depth + 1);
        space();
      } while (take(','));
    }
    expect(close, "a comma or the closing bracket is missing");
    out += close;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

std::vector<JsonMember> parse_json_object(std::string_view text) { return Reader(text).document(); }

std::string to_json(const std::vector<JsonMember>& members) {
  std::string result = "{";
  for (const JsonMember& member : members) {
    if (result.size() > 1) result += ',';
    result += '"' + member.key + "\":" + member.value;
  }
  return result + '}';
}

}  // namespace stiletto::detail::cudnn
