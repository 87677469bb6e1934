// SPDX-License-Identifier: Apache-2.0
// Eight pictures are enough to see what the network reads. Every mistake on held-out pictures is listed,
// because there are few of them.
#include "report.hpp"

#include <algorithm>
#include <iomanip>
#include <string>

namespace digits {
namespace {

constexpr std::int64_t kPicturesShown = 8;

void show_first(std::ostream& out, const Images& images, const Answers& answers,
                const std::vector<std::int64_t>& chosen, Style style) {
  std::vector<Picture> pictures;
  for (std::int64_t i : chosen) {
    if (std::ssize(pictures) == kPicturesShown) break;
    pictures.push_back({images.picture(i),
                        {"label " + std::to_string(images.labels[i]), "said " + std::to_string(answers[i])}});
  }
  draw(out, pictures, images.height, images.width, style);
}

void print_share(std::ostream& out, const char* name, std::int64_t right, std::int64_t count) {
  out << "  " << std::left << std::setw(14) << name << std::right << std::setw(4) << right << " of "
      << std::setw(4) << count << " right: " << std::fixed << std::setprecision(2)
      << 100.0 * static_cast<double>(right) / static_cast<double>(count) << " %\n";
}

}  // namespace

Answers answers_of(const std::vector<float>& logits, std::int64_t classes) {
  Answers answers;
  for (auto row = logits.begin(); row != logits.end(); row += classes)
    answers.push_back(std::max_element(row, row + classes) - row);
  return answers;
}

double report(std::ostream& out, const Images& images, const Answers& answers, Style style) {
  std::vector<std::int64_t> held_out, mistakes;
  std::int64_t right = 0;
  for (std::int64_t i = 0; i < images.count; ++i) {
    const bool is_right = answers[i] == images.labels[i];
    right += is_right;
    if (images.held_out[i]) held_out.push_back(i);
    if (images.held_out[i] && !is_right) mistakes.push_back(i);
  }

  out << "Some of the held-out pictures, which the training never saw:\n\n";
  show_first(out, images, answers, held_out, style);
  const std::int64_t held_out_right = std::ssize(held_out) - std::ssize(mistakes);
  out << "Accuracy\n";
  print_share(out, "held out", held_out_right, std::ssize(held_out));
  print_share(out, "all pictures", right, images.count);
  out << '\n';

  if (!mistakes.empty()) {
    out << "Held-out pictures it got wrong\n";
    for (std::int64_t i : mistakes)
      out << "  picture " << std::setw(4) << i << ": label " << int{images.labels[i]} << ", said "
          << answers[i] << '\n';
    out << '\n';
    show_first(out, images, answers, mistakes, style);
  }
  return static_cast<double>(held_out_right) / static_cast<double>(std::ssize(held_out));
}

}  // namespace digits
