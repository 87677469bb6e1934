// SPDX-License-Identifier: Apache-2.0
// A reader that accepts JSON and nothing else (RFC 8259), for tests that ask whether a text is JSON. It keeps
// no values.
#pragma once
#include <cctype>
#include <string>
#include <string_view>

namespace golden {

class JsonReader {
 public:
  explicit JsonReader(std::string_view text) : text_(text) {}

  /// Empty when the whole text is one JSON value, else where reading stopped.
  std::string complaint() {
    space();
    const bool read = value();
    space();
    if (read && at_ == text_.size()) return {};
    const std::size_t begin = at_ < 30 ? 0 : at_ - 30;
    return "not JSON at character " + std::to_string(at_) + ", after \"" +
           std::string(text_.substr(begin, at_ - begin)) + "\"";
  }

 private:
  bool next(char c) {
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  bool word(std::string_view w) {
    if (text_.substr(at_, w.size()) != w) return false;
    at_ += w.size();
    return true;
  }
  bool digits() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
    return at_ > begin;
  }
  void space() {
    while (at_ < text_.size() && std::string_view(" \t\r\n").find(text_[at_]) != std::string_view::npos)
      ++at_;
  }
  bool value() {  // NOLINT(misc-no-recursion)
    if (++depth_ > 64) return false;
    const bool ok = next('{')   ? members('}', true)
                    : next('[') ? members(']', false)
                    : next('"') ? string()
                                : word("true") || word("false") || word("null") || number();
    --depth_;
    return ok;
  }
  bool members(char end, bool named) {  // NOLINT(misc-no-recursion)
    space();
    if (next(end)) return true;
    for (;;) {
      space();
      if (named && !(next('"') && string())) return false;
      space();
      if (named && !next(':')) return false;
      space();
      if (!value()) return false;
      space();
      if (next(end)) return true;
      if (!next(',')) return false;
    }
  }
  bool string() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      ++at_;
      if (c == '"') return true;
      if (static_cast<unsigned char>(c) < 0x20 || (c == '\\' && !escape())) return false;
    }
    return false;
  }
  bool escape() {
    if (next('u')) {
      for (int i = 0; i < 4; ++i) {
        if (at_ == text_.size() || std::isxdigit(static_cast<unsigned char>(text_[at_])) == 0) return false;
        ++at_;
      }
      return true;
    }
    if (at_ == text_.size() || std::string_view("\"\\/bfnrt").find(text_[at_]) == std::string_view::npos)
      return false;
    ++at_;
    return true;
  }
  bool number() {
    next('-');
    if (!next('0') && !digits()) return false;
    if (next('.') && !digits()) return false;
    if (next('e') || next('E')) {
      if (!next('+')) next('-');
      return digits();
    }
    return true;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace golden
