// SPDX-License-Identifier: Apache-2.0
// The same two layers written by hand, to check the library's answers and to compare its speed: one thread,
// and one pass over the pictures, which keeps the hidden values of four of them at a time.
#pragma once
#include <cstdint>
#include <vector>

#include "data.hpp"

namespace digits {

class HandWritten {
 public:
  explicit HandWritten(const Weights&);

  // logits[i, :] = relu(x[i, :] * w1 + b1) * w2 + b2; x is count x inputs, logits count x outputs, row-major.
  void operator()(const float* x, std::int64_t count, float* logits) const;

 private:
  std::int64_t inputs_, hidden_, outputs_;  // hidden_ is rounded up to whole blocks
  std::vector<float> w1_, b1_, w2_, b2_;    // weights in blocks of columns
};

}  // namespace digits
