// SPDX-License-Identifier: Apache-2.0
// Reads a file in the safetensors format: the length of a header, a header in JSON that says of each tensor
// its dtype, shape and place, and the tensors' bytes.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace minilm {

class Weights {
 public:
  // A file that is missing, cut short or of another format throws std::runtime_error.
  explicit Weights(const std::filesystem::path&);

  // The elements, row-major. std::runtime_error unless the file has this tensor as float32 of this shape.
  std::vector<float> tensor(const std::string& name, const std::vector<std::int64_t>& shape) const;

 private:
  struct Entry {
    std::string dtype;
    std::vector<std::int64_t> shape;
    std::size_t begin = 0, end = 0;  // in bytes_
  };
  class Header;
  [[noreturn]] void fail(const std::string& why) const;

  std::filesystem::path path_;
  std::string bytes_;
  std::map<std::string, Entry> entries_;
};

}  // namespace minilm
