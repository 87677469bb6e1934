// SPDX-License-Identifier: Apache-2.0
// Sentences are numbered from 1. Those of like cosines keep their order, so that a run prints the same again.
#include "report.hpp"

#include <algorithm>
#include <iomanip>
#include <numeric>
#include <span>
#include <utility>

namespace minilm {

void print_neighbours(std::ostream& out, const std::vector<std::string>& sentences,
                      const std::vector<float>& similarities, std::size_t neighbours) {
  const std::size_t count = sentences.size();
  out << std::fixed << std::setprecision(3);
  for (std::size_t i = 0; i < count; ++i) {
    const auto row = std::span(similarities).subspan(i * count, count);
    std::vector<std::size_t> order(count);
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::erase(order, i);
    std::ranges::sort(order, {}, [&](std::size_t j) { return std::pair(-row[j], j); });
    order.resize(std::min(order.size(), neighbours));
    out << std::setw(4) << i + 1 << "  " << sentences[i] << '\n';
    for (std::size_t j : order)
      out << "      " << std::setw(6) << row[j] << "  " << std::setw(4) << j + 1 << "  " << sentences[j]
          << '\n';
  }
}

void print_table(std::ostream& out, const std::vector<std::string>& sentences,
                 const std::vector<float>& similarities) {
  const std::size_t count = sentences.size();
  out << "    " << std::fixed << std::setprecision(2);
  for (std::size_t j = 0; j < count; ++j) out << std::setw(6) << j + 1;
  out << '\n';
  for (std::size_t i = 0; i < count; ++i) {
    out << std::setw(4) << i + 1;
    for (std::size_t j = 0; j < count; ++j) out << std::setw(6) << similarities[i * count + j];
    out << "  " << sentences[i] << '\n';
  }
}

}  // namespace minilm
