// SPDX-License-Identifier: Apache-2.0
// A set of loop axes, of any size. The first 64 axes, which is all that most graphs have, lie in one word;
// only a graph of many separate parts (an optimiser's step over hundreds of matrices) allocates more.
#pragma once
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace stiletto::detail {

class AxisMask {
 public:
  /// ~mask: has every axis that the mask lacks, so it only makes sense beside another mask.
  struct Complement {
    const AxisMask& of;
  };

  AxisMask(std::uint64_t first = 0) : first_(first) {}

  /// The set as bits, 64 axes a word; and back.
  std::vector<std::uint64_t> words() const {
    std::vector<std::uint64_t> all{first_};
    all.insert(all.end(), more_.begin(), more_.end());
    return all;
  }
  static AxisMask of_words(const std::vector<std::uint64_t>& words) {
    AxisMask mask(words.empty() ? 0 : words[0]);
    if (words.size() > 1) mask.more_.assign(words.begin() + 1, words.end());
    mask.trim();
    return mask;
  }

  /// An axis from here on is not in the set.
  std::size_t size() const { return word_bits * (1 + more_.size()); }
  bool test(std::size_t axis) const {
    return axis < size() && (word(axis / word_bits) >> axis % word_bits & 1U) != 0;
  }
  AxisMask& set(std::size_t axis) {
    grow(axis / word_bits);
    word(axis / word_bits) |= std::uint64_t{1} << axis % word_bits;
    return *this;
  }
  AxisMask& reset(std::size_t axis) { return *this &= ~AxisMask().set(axis); }
  bool any() const { return first_ != 0 || !more_.empty(); }
  bool none() const { return !any(); }
  std::size_t count() const {
    auto bits = static_cast<std::size_t>(std::popcount(first_));
    for (std::uint64_t word : more_) bits += static_cast<std::size_t>(std::popcount(word));
    return bits;
  }

  AxisMask& operator|=(const AxisMask& other) {
    grow(other.more_.size());
    for (std::size_t i = 0; i <= other.more_.size(); ++i) word(i) |= other.word(i);
    return *this;
  }
  AxisMask& operator&=(const AxisMask& other) {
    if (more_.size() > other.more_.size()) more_.resize(other.more_.size());
    for (std::size_t i = 0; i <= more_.size(); ++i) word(i) &= other.word(i);
    trim();
    return *this;
  }
  AxisMask& operator&=(const Complement& other) {
    for (std::size_t i = 0; i <= std::min(more_.size(), other.of.more_.size()); ++i)
      word(i) &= ~other.of.word(i);
    trim();
    return *this;
  }
  Complement operator~() const { return {*this}; }

  friend AxisMask operator|(AxisMask a, const AxisMask& b) { return a |= b; }
  friend AxisMask operator&(AxisMask a, const AxisMask& b) { return a &= b; }
  friend AxisMask operator&(AxisMask a, const Complement& b) { return a &= b; }
  bool operator==(const AxisMask&) const = default;

 private:
  static constexpr std::size_t word_bits = 64;

  std::uint64_t word(std::size_t i) const { return i == 0 ? first_ : more_[i - 1]; }
  std::uint64_t& word(std::size_t i) { return i == 0 ? first_ : more_[i - 1]; }
  void grow(std::size_t words) {
    if (more_.size() < words) more_.resize(words);
  }
  /// Equal sets have equal words: the last one is never empty.
  void trim() {
    while (!more_.empty() && more_.back() == 0) more_.pop_back();
  }

  std::uint64_t first_;
  std::vector<std::uint64_t> more_;
};

inline AxisMask axis_bit(std::size_t axis) { return AxisMask().set(axis); }

}  // namespace stiletto::detail
