// SPDX-License-Identifier: Apache-2.0
// What the program runs on, in words.
#pragma once
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

namespace digits {

// The processor's name where the system tells it.
inline std::string processor_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);)
    if (line.starts_with("model name") && line.find(": ") != line.npos)
      return line.substr(line.find(": ") + 2);
  return "processor of unknown name";
}

// The first GPU's name where NVIDIA's driver tells it.
inline std::string gpu_name() {
  std::error_code error;
  for (std::filesystem::directory_iterator gpu("/proc/driver/nvidia/gpus", error), end; !error && gpu != end;
       gpu.increment(error)) {
    std::ifstream information(gpu->path() / "information");
    for (std::string line; std::getline(information, line);)
      if (line.starts_with("Model:")) return line.substr(line.find_first_not_of(" \t", 6));
  }
  return "an NVIDIA GPU";
}

}  // namespace digits
