// SPDX-License-Identifier: Apache-2.0
// Prints what is alike: for each sentence those nearest to it, and a table of all pairs.
#pragma once
#include <cstddef>
#include <ostream>
#include <string>
#include <vector>

namespace minilm {

// similarities: sentences x sentences, the cosines.
void print_neighbours(std::ostream&, const std::vector<std::string>& sentences,
                      const std::vector<float>& similarities, std::size_t neighbours);
void print_table(std::ostream&, const std::vector<std::string>& sentences,
                 const std::vector<float>& similarities);

}  // namespace minilm
