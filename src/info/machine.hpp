// SPDX-License-Identifier: Apache-2.0
// What Stiletto finds on a machine and what it will use: the substance of `stiletto info`.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "stiletto/export.hpp"

namespace stiletto::detail {

struct FoundLibrary {
  std::string name, path, version;
  std::string problem;  // a sentence, where it is missing or cannot be used
};

struct FoundGpu {
  std::string name;
  std::string capability;  // "9.0"
  int multiprocessors = 0;
  std::uint64_t memory = 0;  // bytes
  std::string backend;       // what runs on it; empty for nothing
};

struct Machine {
  std::string version;  // Stiletto's
  std::string cpu, cpu_library;
  bool cuda_built = false;  // whether the cuDNN backend is in this build
  FoundLibrary driver;
  std::vector<FoundLibrary> libraries;  // NVRTC's builtins, NVRTC, CUDA runtime, cuBLASLt, cuDNN
  std::vector<FoundGpu> gpus;
  std::vector<std::string> searched;
  std::string minimum_driver, minimum_runtime, minimum_cudnn;
  std::string planning;  // how plans for GPUs that are not here are built; empty: they are not
  std::vector<std::string> targets;
  std::vector<std::string> advice;  // a sentence for everything that is missing
};

STILETTO_API Machine inspect_machine();
STILETTO_API std::string machine_text(const Machine& machine);
STILETTO_API std::string machine_json(const Machine& machine);

}  // namespace stiletto::detail
