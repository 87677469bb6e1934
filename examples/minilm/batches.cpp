// SPDX-License-Identifier: Apache-2.0
// Five lengths and three numbers of rows: at most 15 shapes, however many sentences there are, and fewer than
// 8 rows of padding for each length.
#include "batches.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <span>
#include <utility>

namespace minilm {
namespace {

constexpr std::array<std::size_t, 5> kLengths = {16, 32, 64, 128, kLongestSentence};
constexpr std::size_t kFewRows = 8, kRows = 32;

std::size_t padded_length(std::size_t length) { return *std::ranges::lower_bound(kLengths, length); }

// For the first of so many sentences.
std::size_t rows_for(std::size_t sentences) {
  if (sentences == 1) return 1;
  return sentences < kRows ? kFewRows : kRows;
}

Batch batch_of(const std::vector<Tokens>& sentences, std::span<const std::size_t> chosen, std::size_t rows,
               std::size_t length) {
  Batch batch{static_cast<std::int64_t>(rows),
              static_cast<std::int64_t>(length),
              Tokens(rows * length),
              std::vector<std::int32_t>(rows, 1),
              {chosen.begin(), chosen.end()}};
  for (std::size_t row = 0; row < chosen.size(); ++row) {
    const Tokens& sentence = sentences[chosen[row]];
    std::ranges::copy(sentence, batch.tokens.begin() + static_cast<std::ptrdiff_t>(row * length));
    batch.lengths[row] = static_cast<std::int32_t>(sentence.size());
  }
  return batch;
}

}  // namespace

std::vector<Batch> batches_of(const std::vector<Tokens>& sentences) {
  std::vector<std::size_t> order(sentences.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t i) { return std::pair(sentences[i].size(), i); });
  std::vector<Batch> batches;
  for (std::size_t first = 0, last = 0; first < order.size(); first = last) {
    const std::size_t length = padded_length(sentences[order[first]].size());
    while (last < order.size() && last - first < kRows && sentences[order[last]].size() <= length) ++last;
    const std::size_t rows = rows_for(last - first);
    last = std::min(last, first + rows);
    batches.push_back(batch_of(sentences, std::span(order).subspan(first, last - first), rows, length));
  }
  return batches;
}

}  // namespace minilm
