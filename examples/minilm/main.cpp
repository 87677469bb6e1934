// SPDX-License-Identifier: Apache-2.0
// Sentences become vectors whose products say how alike the sentences are: prints for each the nearest others
// and a table of all pairs. Exit status: 0 unless something is missing or wrong, which is then said.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <exception>
#include <iomanip>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include <stiletto/stiletto.hpp>

#include "batches.hpp"
#include "model.hpp"
#include "options.hpp"
#include "report.hpp"
#include "tokenizer.hpp"
#include "weights.hpp"

namespace st = stiletto;

namespace {

using minilm::kHidden;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kLargestTable = 16;  // sentences; more do not fit a terminal

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::vector<minilm::Tokens> tokens_of(const minilm::Tokenizer& tokenizer,
                                      const std::vector<std::string>& sentences) {
  std::vector<minilm::Tokens> tokens;
  tokens.reserve(sentences.size());
  for (const std::string& sentence : sentences)
    tokens.push_back(tokenizer(sentence, minilm::kLongestSentence));
  return tokens;
}

// sentences x kHidden. Results are read after the last batch has been given to the device.
std::vector<float> embeddings_of(const minilm::Model& model, const std::vector<minilm::Tokens>& tokens) {
  const std::vector<minilm::Batch> batches = minilm::batches_of(tokens);
  std::vector<st::Array> results;
  results.reserve(batches.size());
  for (const minilm::Batch& batch : batches) results.push_back(model(batch));
  std::vector<float> embeddings(tokens.size() * kHidden);
  for (std::size_t i = 0; i < batches.size(); ++i) {
    const std::vector<float> rows = results[i].to_vector<float>();
    for (std::size_t row = 0; row < batches[i].sentences.size(); ++row)
      std::copy_n(&rows[row * kHidden], kHidden, &embeddings[batches[i].sentences[row] * kHidden]);
  }
  return embeddings;
}

// Vectors of length 1: their products are the cosines.
std::vector<float> similarities_of(const std::vector<float>& embeddings) {
  const st::Array e = st::from_data(embeddings, {std::ssize(embeddings) / kHidden, kHidden});
  return st::matmul(e, st::transpose(e)).to_vector<float>();
}

template <class T>
void print_rows(const std::vector<T>& values, std::size_t width) {
  for (std::size_t i = 0; i < values.size(); ++i)
    std::cout << values[i] << ((i + 1) % width == 0 ? '\n' : ' ');
}

// Text to vectors, again and again for some seconds: the sentences, repeated until they fill batches.
void print_time(const minilm::Tokenizer& tokenizer, const minilm::Model& model,
                const std::vector<std::string>& sentences) {
  constexpr std::size_t kEnough = 256;
  constexpr double kLongEnough = 3;  // seconds
  std::vector<std::string> many = sentences;
  while (many.size() < kEnough) many.insert(many.end(), sentences.begin(), sentences.end());
  std::size_t tokens = 0;
  for (const minilm::Tokens& sentence : tokens_of(tokenizer, many)) tokens += sentence.size();
  embeddings_of(model, tokens_of(tokenizer, many));  // compiles what is new
  std::size_t rounds = 0;
  const Clock::time_point start = Clock::now();
  for (; seconds_since(start) < kLongEnough; ++rounds) embeddings_of(model, tokens_of(tokenizer, many));
  const double rate = static_cast<double>(rounds * many.size()) / seconds_since(start);
  const double length = static_cast<double>(tokens) / static_cast<double>(many.size());
  std::cout << std::fixed << std::setprecision(0) << '\n'
            << rate << " sentences per second, " << rate * length << " tokens per second ("
            << std::setprecision(1) << length << " tokens a sentence, padding not counted)\n";
}

void report(const minilm::Options& options, const std::vector<float>& embeddings) {
  const std::vector<float> similarities = similarities_of(embeddings);
  if (options.neighbours > 0) {
    std::cout << "Nearest sentences, by the cosine of their vectors\n\n";
    minilm::print_neighbours(std::cout, options.sentences, similarities, options.neighbours);
  }
  if (options.sentences.size() > kLargestTable) return;
  std::cout << "\nAll pairs\n\n";
  minilm::print_table(std::cout, options.sentences, similarities);
}

void run(const minilm::Options& options) {
  const minilm::Tokenizer tokenizer(options.model / "vocab.txt");
  const std::vector<minilm::Tokens> tokens = tokens_of(tokenizer, options.sentences);
  if (options.output == minilm::Output::tokens) {
    for (const minilm::Tokens& sentence : tokens) print_rows(sentence, sentence.size());
    return;
  }
  const Clock::time_point start = Clock::now();
  const minilm::Model model(minilm::Weights(options.model / "model.safetensors"), options.device,
                            options.dtype);
  const double loading = seconds_since(start);
  const std::vector<float> embeddings = embeddings_of(model, tokens);
  if (options.output == minilm::Output::embeddings) {
    std::cout << std::setprecision(9);
    print_rows(embeddings, kHidden);
    return;
  }
  std::cout << "all-MiniLM-L6-v2 on " << options.device << " in " << options.dtype << ": "
            << options.sentences.size() << (options.sentences.size() == 1 ? " sentence" : " sentences")
            << std::fixed << std::setprecision(2) << ", " << loading << " s to load the weights, "
            << seconds_since(start) - loading << " s to compile and run\n\n";
  report(options, embeddings);
  if (options.time) print_time(tokenizer, model, options.sentences);
}

}  // namespace

int main(int argc, char** argv) try {
  const std::optional<minilm::Options> options = minilm::options_of(argc, argv);
  if (options) run(*options);
  return 0;
} catch (const std::exception& error) {
  std::cerr << "minilm: " << error.what() << '\n';
  return 1;
}
