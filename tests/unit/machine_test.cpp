// SPDX-License-Identifier: Apache-2.0
// `stiletto info`: the text and the JSON of a machine with everything, and of this one.
#include "info/machine.hpp"

#include <gtest/gtest.h>

#include <string>

#include "golden/json.hpp"
#include "stiletto/stiletto.hpp"

namespace {

using stiletto::detail::inspect_machine;
using stiletto::detail::Machine;
using stiletto::detail::machine_json;
using stiletto::detail::machine_text;

Machine full() {
  Machine machine;
  machine.version = "0.1.0";
  machine.cpu = "CPU (x86-64-v4, 8 threads)";
  machine.cpu_library = "oneDNN 3.2.0";
  machine.cuda_built = true;
  machine.driver = {"libcuda.so.1", "/lib/libcuda.so.1", "13.0", ""};
  machine.libraries = {{"libnvrtc.so.13", "/cuda/libnvrtc.so.13", "13.0", ""},
                       {"libcudnn.so.9", "/cuda/libcudnn.so.9", "9.1.0", "CUDA: cuDNN 9.1.0 is \"too old\""}};
  machine.gpus = {{"NVIDIA H200", "9.0", 132, 150109880320ULL, "cuDNN 9.19.0"},
                  {"NVIDIA T4", "7.5", 40, 1 << 30, ""}};
  machine.searched = {"/cuda", "/wheels"};
  machine.minimum_driver = "12.0";
  machine.minimum_runtime = "12.0";
  machine.minimum_cudnn = "9.10.0";
  machine.planning = "/lib/stiletto/stiletto-plan-builder";
  machine.targets = {"a100", "h200"};
  machine.advice = {"CUDA: cuDNN 9.1.0 is \"too old\""};
  return machine;
}

TEST(MachineInfo, text) {
  EXPECT_EQ(machine_text(full()), R"(Stiletto 0.1.0

Devices
  cpu       CPU (x86-64-v4, 8 threads), runs with oneDNN 3.2.0
  cuda:0    NVIDIA H200, compute capability 9.0, 132 multiprocessors, 139.8 GiB, runs with cuDNN 9.19.0
  cuda:1    NVIDIA T4, compute capability 7.5, 40 multiprocessors, 1.0 GiB, cannot be used

Libraries for GPUs (at least: driver for CUDA 12.0, CUDA runtime 12.0, cuDNN 9.10.0)
  libcuda.so.1               13.0    /lib/libcuda.so.1
  libnvrtc.so.13             13.0    /cuda/libnvrtc.so.13
  libcudnn.so.9              9.1.0   /cuda/libcudnn.so.9  (cannot be used)
  searched: /cuda, /wheels

Plans for GPUs that are not here
  are built with /lib/stiletto/stiletto-plan-builder
  targets: a100 h200

What is missing
  CUDA: cuDNN 9.1.0 is "too old"
)");
}

TEST(MachineInfo, json) {
  EXPECT_EQ(machine_json(full()), R"json({
  "stiletto": "0.1.0",
  "cpu": {"target": "CPU (x86-64-v4, 8 threads)", "backend": "oneDNN 3.2.0"},
  "gpus": [{"name": "NVIDIA H200", "compute_capability": "9.0", "multiprocessors": 132, "memory": 150109880320, "backend": "cuDNN 9.19.0"}, {"name": "NVIDIA T4", "compute_capability": "7.5", "multiprocessors": 40, "memory": 1073741824, "backend": ""}],
  "cuda": {
    "built": true,
    "driver": {"name": "libcuda.so.1", "path": "/lib/libcuda.so.1", "version": "13.0", "problem": ""},
    "libraries": [{"name": "libnvrtc.so.13", "path": "/cuda/libnvrtc.so.13", "version": "13.0", "problem": ""}, {"name": "libcudnn.so.9", "path": "/cuda/libcudnn.so.9", "version": "9.1.0", "problem": "CUDA: cuDNN 9.1.0 is \"too old\""}],
    "minimum": {"driver": "12.0", "runtime": "12.0", "cudnn": "9.10.0"},
    "searched": ["/cuda", "/wheels"]
  },
  "planning": {"with": "/lib/stiletto/stiletto-plan-builder", "targets": ["a100", "h200"]},
  "advice": ["CUDA: cuDNN 9.1.0 is \"too old\""]
}
)json");
}

TEST(MachineInfo, of_this_machine) {
  const Machine machine = inspect_machine();
  EXPECT_TRUE(machine.cpu.starts_with("CPU (")) << machine.cpu;
  EXPECT_TRUE(machine.cpu_library.starts_with("oneDNN ")) << machine.cpu_library;
  EXPECT_EQ(golden::JsonReader(machine_json(machine)).complaint(), "");
#ifdef STILETTO_HAS_CUDNN
  EXPECT_TRUE(machine.cuda_built);
  EXPECT_EQ(machine.libraries.size(), 5U);
  EXPECT_EQ(machine.targets, stiletto::Target::names());
  EXPECT_EQ(machine.advice.empty(), !machine.gpus.empty()) << machine_text(machine);
#else
  EXPECT_FALSE(machine.cuda_built);
  ASSERT_EQ(machine.advice.size(), 1U);
  EXPECT_EQ(machine.advice[0],
            "this build has no cuDNN backend; for NVIDIA GPUs configure with -DSTILETTO_CUDA=ON "
            "(scripts/bootstrap.sh --cuda fetches the headers)");
#endif
}

TEST(MachineInfo, control_characters_are_escaped) {
  Machine machine = full();
  machine.advice = {"a\nb\\c\x01"};
  EXPECT_EQ(golden::JsonReader(machine_json(machine)).complaint(), "");
  EXPECT_NE(machine_json(machine).find("a\\u000ab\\\\c\\u0001"), std::string::npos);
}

}  // namespace
