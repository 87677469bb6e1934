// SPDX-License-Identifier: Apache-2.0
// From the network's logits to answers, and from the answers to what a reader wants to see: pictures, the
// accuracy and the mistakes.
#pragma once
#include <cstdint>
#include <ostream>
#include <vector>

#include "data.hpp"
#include "terminal.hpp"

namespace digits {

using Answers = std::vector<std::int64_t>;  // one class per picture

// The class with the largest logit, for each row of (pictures, classes).
Answers answers_of(const std::vector<float>& logits, std::int64_t classes);

// Prints some held-out pictures, the accuracy and the held-out mistakes. Returns the held-out accuracy, 0
// to 1.
double report(std::ostream&, const Images&, const Answers&, Style);

}  // namespace digits
