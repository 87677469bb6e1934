// SPDX-License-Identifier: Apache-2.0
// The command line: sentences, where the model is, where and in which dtype it runs, and what is printed.
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <stiletto/stiletto.hpp>

namespace minilm {

enum class Output { report, tokens, embeddings };

struct Options {
  std::filesystem::path model;
  std::vector<std::string> sentences;
  stiletto::Device device = stiletto::Device::cpu();
  stiletto::DType dtype = stiletto::DType::float32;
  Output output = Output::report;
  std::size_t neighbours = 3;
  bool time = false;
};

// Nothing when all that was asked for is the help, which has been printed. A mistake throws
// std::runtime_error.
std::optional<Options> options_of(int argc, char** argv);

}  // namespace minilm
