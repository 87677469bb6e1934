// SPDX-License-Identifier: Apache-2.0
// What the program runs on, in words.
#pragma once
#include <fstream>
#include <string>

namespace digits {

// The processor's name where the system tells it.
inline std::string processor_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);)
    if (line.starts_with("model name") && line.find(": ") != line.npos)
      return line.substr(line.find(": ") + 2);
  return "processor of unknown name";
}

}  // namespace digits
