// SPDX-License-Identifier: Apache-2.0
// Gathering what a machine offers.
#include "info/machine.hpp"

#include <algorithm>

#include "compiler/backend.hpp"
#include "core/text.hpp"
#include "stiletto/compile.hpp"
#ifdef STILETTO_HAS_CUDNN
#include "backends/cudnn/devices.hpp"
#include "backends/cudnn/libraries.hpp"
#include "backends/cudnn/library_opening.hpp"
#include "backends/cudnn/library_search.hpp"
#endif

namespace stiletto::detail {

namespace {

void advise(Machine& machine, const std::string& sentence) {
  if (!sentence.empty() && std::ranges::find(machine.advice, sentence) == machine.advice.end())
    machine.advice.push_back(sentence);
}

#ifdef STILETTO_HAS_CUDNN
FoundLibrary found(const cudnn::Library& library) {
  return {library.name, library.path, library.version, library.problem};
}

/// Without a driver plans are built in the process itself, beside one by the plan builder.
void inspect_planning(Machine& machine, bool libraries_usable) {
  const bool driver = cudnn::has_driver();
  const std::string stand_in = cudnn::find_companion("stiletto_driver_stand_in.so");
  const std::string builder = cudnn::find_companion("stiletto-plan-builder");
  if (stand_in.empty() || (driver && builder.empty())) {
    advise(machine, text("plans for other GPUs cannot be built: ",
                         stand_in.empty() ? "stiletto_driver_stand_in.so" : "stiletto-plan-builder",
                         " is not beside the library; install Stiletto again, with all of its files"));
  } else if (libraries_usable) {
    machine.planning = driver ? builder : stand_in;
  }
}

void inspect_cuda(Machine& machine) {
  machine.cuda_built = true;
  machine.minimum_driver = cudnn::cuda_version(cudnn::minimum_driver_version);
  machine.minimum_runtime = cudnn::cuda_version(cudnn::minimum_runtime_version);
  machine.minimum_cudnn = cudnn::cudnn_version(cudnn::minimum_cudnn_version);
  machine.targets = Target::names();
  const cudnn::Libraries libraries = cudnn::survey_libraries();
  machine.searched = libraries.searched;
  machine.driver = found(libraries.driver);
  bool usable = true;
  for (const cudnn::Library* library : {&libraries.nvrtc_builtins, &libraries.nvrtc, &libraries.runtime,
                                        &libraries.cublas_lt, &libraries.cudnn}) {
    machine.libraries.push_back(found(*library));
    usable = usable && library->handle != nullptr && library->problem.empty();
  }
  advise(machine, libraries.driver.problem);
  for (const FoundLibrary& library : machine.libraries) advise(machine, library.problem);

  std::string problem;
  for (const cudnn::Gpu& gpu : cudnn::survey_gpus(libraries.driver, problem))
    machine.gpus.push_back(
        {gpu.name, text(gpu.capability / 10, ".", gpu.capability % 10), gpu.multiprocessors, gpu.memory,
         usable && libraries.driver.problem.empty() ? text("cuDNN ", libraries.cudnn.version)
                                                    : std::string()});
  advise(machine, problem);
  inspect_planning(machine, usable);
}
#endif

}  // namespace

Machine inspect_machine() {
  Machine machine;
  machine.version = STILETTO_VERSION;
  machine.cpu = cpu_backend().target();
  machine.cpu_library = cpu_backend().library();
#ifdef STILETTO_HAS_CUDNN
  inspect_cuda(machine);
#else
  advise(machine,
         "this build has no cuDNN backend; for NVIDIA GPUs configure with -DSTILETTO_CUDA=ON "
         "(scripts/bootstrap.sh --cuda fetches the headers)");
#endif
  return machine;
}

}  // namespace stiletto::detail
