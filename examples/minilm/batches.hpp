// SPDX-License-Identifier: Apache-2.0
// Sentences of all lengths become batches of a few shapes, since each shape is compiled once: sentences of
// like lengths go together and are padded.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tokenizer.hpp"

namespace minilm {

inline constexpr std::size_t kLongestSentence = 256;  // tokens; the model was trained on no longer ones

struct Batch {
  std::int64_t rows = 0, length = 0;
  Tokens tokens;                       // rows x length; [PAD], number 0, past a sentence's end
  std::vector<std::int32_t> lengths;   // rows; a row without a sentence counts one token
  std::vector<std::size_t> sentences;  // the first rows: which sentence each one is
};

// Sentences of at most kLongestSentence tokens.
std::vector<Batch> batches_of(const std::vector<Tokens>& sentences);

}  // namespace minilm
