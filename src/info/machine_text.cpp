// SPDX-License-Identifier: Apache-2.0
// A machine as text for people and as JSON for programs. Both hold the same facts; keys of the JSON are only
// ever added.
#include <iomanip>
#include <sstream>
#include <string_view>
#include <utility>

#include "info/machine.hpp"

namespace stiletto::detail {

namespace {

std::string gigabytes(std::uint64_t bytes) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(1) << static_cast<double>(bytes) / (1 << 30) << " GiB";
  return out.str();
}

void print_library(std::ostream& out, const FoundLibrary& library) {
  out << "  " << std::left << std::setw(27) << library.name << std::setw(8) << library.version;
  if (library.path.empty())
    out << "not found";
  else
    out << library.path << (library.problem.empty() ? "" : "  (cannot be used)");
  out << '\n';
}

std::string json_string(std::string_view text) {
  std::ostringstream out;
  out << '"';
  for (const char c : text) {
    if (c == '"' || c == '\\')
      out << '\\' << c;
    else if (static_cast<unsigned char>(c) < 0x20)
      out << "\\u" << std::hex << std::setw(4) << std::setfill('0') << static_cast<int>(c) << std::dec;
    else
      out << c;
  }
  out << '"';
  return out.str();
}

template <class T, class F>
std::string list(const std::vector<T>& values, F print) {
  std::string result = "[";
  for (const T& value : values) result += (result.size() > 1 ? ", " : "") + print(value);
  return result + "]";
}

std::string json(const FoundLibrary& library) {
  return "{\"name\": " + json_string(library.name) + ", \"path\": " + json_string(library.path) +
         ", \"version\": " + json_string(library.version) + ", \"problem\": " + json_string(library.problem) +
         "}";
}

std::string json(const FoundGpu& gpu) {
  return "{\"name\": " + json_string(gpu.name) + ", \"compute_capability\": " + json_string(gpu.capability) +
         ", \"multiprocessors\": " + std::to_string(gpu.multiprocessors) +
         ", \"memory\": " + std::to_string(gpu.memory) + ", \"backend\": " + json_string(gpu.backend) + "}";
}

}  // namespace

std::string machine_text(const Machine& machine) {
  std::ostringstream out;
  out << "Stiletto " << machine.version << "\n\nDevices\n  cpu       " << machine.cpu << ", runs with "
      << machine.cpu_library << '\n';
  for (std::size_t i = 0; i < machine.gpus.size(); ++i) {
    const FoundGpu& gpu = machine.gpus[i];
    out << "  cuda:" << std::left << std::setw(5) << i << gpu.name << ", compute capability "
        << gpu.capability << ", " << gpu.multiprocessors << " multiprocessors, " << gigabytes(gpu.memory)
        << ", " << (gpu.backend.empty() ? "cannot be used" : "runs with " + gpu.backend) << '\n';
  }
  if (machine.cuda_built) {
    out << "\nLibraries for GPUs (at least: driver for CUDA " << machine.minimum_driver << ", CUDA runtime "
        << machine.minimum_runtime << ", cuDNN " << machine.minimum_cudnn << ")\n";
    print_library(out, machine.driver);
    for (const FoundLibrary& library : machine.libraries) print_library(out, library);
    out << "  searched:";
    const char* separator = " ";
    for (const std::string& place : machine.searched) out << std::exchange(separator, ", ") << place;
    out << "\n\nPlans for GPUs that are not here\n  ";
    if (machine.planning.empty()) {
      out << "cannot be built\n";
    } else {
      out << "are built with " << machine.planning << "\n  targets:";
      for (const std::string& target : machine.targets) out << ' ' << target;
      out << '\n';
    }
  }
  if (!machine.advice.empty()) {
    out << "\nWhat is missing\n";
    for (const std::string& sentence : machine.advice) out << "  " << sentence << '\n';
  }
  return out.str();
}

std::string machine_json(const Machine& machine) {
  auto print = [](const auto& value) { return json(value); };
  std::ostringstream out;
  out << "{\n"
      << "  \"stiletto\": " << json_string(machine.version) << ",\n"
      << "  \"cpu\": {\"target\": " << json_string(machine.cpu)
      << ", \"backend\": " << json_string(machine.cpu_library) << "},\n"
      << "  \"gpus\": " << list(machine.gpus, print) << ",\n"
      << "  \"cuda\": {\n"
      << "    \"built\": " << (machine.cuda_built ? "true" : "false") << ",\n"
      << "    \"driver\": " << json(machine.driver) << ",\n"
      << "    \"libraries\": " << list(machine.libraries, print) << ",\n"
      << "    \"minimum\": {\"driver\": " << json_string(machine.minimum_driver)
      << ", \"runtime\": " << json_string(machine.minimum_runtime)
      << ", \"cudnn\": " << json_string(machine.minimum_cudnn) << "},\n"
      << "    \"searched\": " << list(machine.searched, json_string) << "\n"
      << "  },\n"
      << "  \"planning\": {\"with\": " << json_string(machine.planning)
      << ", \"targets\": " << list(machine.targets, json_string) << "},\n"
      << "  \"advice\": " << list(machine.advice, json_string) << "\n"
      << "}\n";
  return out.str();
}

}  // namespace stiletto::detail
