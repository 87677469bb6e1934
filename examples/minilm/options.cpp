// SPDX-License-Identifier: Apache-2.0
// Without sentences those of data/sentences.txt are taken; without --device the GPU is, where there is one.
#include "options.hpp"

#include <charconv>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <stdexcept>
#include <string_view>
#include <system_error>

namespace st = stiletto;

namespace minilm {
namespace {

constexpr std::string_view kUsage =
    "usage: minilm [option...] [sentence...]\n"
    "  --file FILE       sentences, one a line (default: data/sentences.txt next to the program)\n"
    "  --neighbours N    how many of the nearest sentences to print (default: 3)\n"
    "  --time            sentences per second as well\n"
    "  --device D        cpu or cuda (default: STILETTO_DEVICE, else the GPU where there is one)\n"
    "  --dtype T         float32 or bfloat16 (default: float32)\n"
    "  --model FOLDER    where vocab.txt and model.safetensors are (default: .deps/minilm in a folder\n"
    "                    above the program, where examples/minilm/run.sh puts them)\n"
    "  --tokens          print the sentences' tokens and nothing else\n"
    "  --embeddings      print the sentences' vectors and nothing else\n";

std::filesystem::path program_folder(const char* program) {
  std::error_code not_linux;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", not_linux);
  return (not_linux ? std::filesystem::absolute(program) : self).parent_path();
}

// Where the scripts put the model, seen from build/PRESET/examples/minilm.
std::filesystem::path default_model(std::filesystem::path folder) {
  const std::filesystem::path name = std::filesystem::path(".deps") / "minilm";
  for (; folder.has_relative_path(); folder = folder.parent_path())
    if (std::filesystem::exists(folder / name)) return folder / name;
  throw std::runtime_error(
      "The model is not here: run examples/minilm/run.sh, which fetches it, or name its folder with "
      "--model.");
}

std::vector<std::string> lines_of(const std::filesystem::path& path) {
  std::ifstream stream(path);
  if (!stream || std::filesystem::is_directory(path))
    throw std::runtime_error(path.string() +
                             " cannot be opened; --file takes a file of one sentence a line.");
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) {
    if (line.ends_with('\r')) line.pop_back();
    if (!line.empty()) lines.push_back(line);
  }
  if (lines.empty()) throw std::runtime_error(path.string() + " holds no sentence.");
  return lines;
}

st::Device device_of(std::string_view wanted) {
  if (wanted == "cpu") return st::Device::cpu();
  if (wanted == "cuda") return st::Device::cuda(0);
  if (!wanted.empty())
    throw std::runtime_error("The device is cpu or cuda, not " + std::string(wanted) + '.');
  try {
    static_cast<void>(st::Target::current());
    return st::Device::cuda(0);
  } catch (const st::DeviceError&) {  // no driver, no GPU, or libraries missing: `stiletto info` says which
    return st::Device::cpu();
  }
}

st::DType dtype_of(std::string_view wanted) {
  if (wanted == "float32") return st::DType::float32;
  if (wanted == "bfloat16") return st::DType::bfloat16;
  throw std::runtime_error("The dtype is float32 or bfloat16, not " + std::string(wanted) + '.');
}

std::size_t count_of(std::string_view value) {
  std::size_t count = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), count);
  if (error != std::errc() || end != value.data() + value.size())
    throw std::runtime_error("--neighbours takes a number, not " + std::string(value) + '.');
  return count;
}

class Parser {
 public:
  Parser(int argc, char** argv) : arguments_(argv + 1, argv + argc), folder_(program_folder(argv[0])) {
    const char* const variable = std::getenv("STILETTO_DEVICE");
    if (variable != nullptr) device_ = variable;
  }

  std::optional<Options> options() {
    while (next_ < arguments_.size()) {
      const std::string_view argument = arguments_[next_++];
      if (argument == "--help") {
        std::cout << kUsage;
        return {};
      }
      if (argument.starts_with("--"))
        option(argument);
      else
        options_.sentences.emplace_back(argument);
    }
    finish();
    return options_;
  }

 private:
  void option(std::string_view name) {
    if (name == "--file")
      options_.sentences = lines_of(value(name));
    else if (name == "--neighbours")
      options_.neighbours = count_of(value(name));
    else if (name == "--time")
      options_.time = true;
    else if (name == "--device")
      device_ = value(name);
    else if (name == "--dtype")
      options_.dtype = dtype_of(value(name));
    else if (name == "--model")
      options_.model = value(name);
    else if (name == "--tokens")
      options_.output = Output::tokens;
    else if (name == "--embeddings")
      options_.output = Output::embeddings;
    else
      throw std::runtime_error("There is no option " + std::string(name) + ".\n" + std::string(kUsage));
  }

  std::string_view value(std::string_view name) {
    if (next_ == arguments_.size())
      throw std::runtime_error(std::string(name) + " takes a value.\n" + std::string(kUsage));
    return arguments_[next_++];
  }

  void finish() {
    if (options_.sentences.empty()) options_.sentences = lines_of(folder_ / "data" / "sentences.txt");
    if (options_.model.empty()) options_.model = default_model(folder_);
    if (options_.output != Output::tokens) options_.device = device_of(device_);
  }

  std::vector<std::string_view> arguments_;
  std::filesystem::path folder_;
  std::size_t next_ = 0;
  std::string_view device_;
  Options options_;
};

}  // namespace

std::optional<Options> options_of(int argc, char** argv) { return Parser(argc, argv).options(); }

}  // namespace minilm
