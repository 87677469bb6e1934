// SPDX-License-Identifier: Apache-2.0
// Target::current on machines made of fakes (tests/fakes): a process opens its libraries once, so each
// machine is a process of its own. Exits with 0 when every text is right.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <stiletto/stiletto.hpp>
#include <string>

#ifdef STILETTO_HAS_CUDNN
namespace {

/// What Target::current(device) gives on a machine with these folders: a text, or the JSON.
std::string current(int device) {
  try {
    return stiletto::Target::current(device).to_json();
  } catch (const stiletto::DeviceError& error) {
    return std::string("DeviceError: ") + error.what();
  }
}

bool expect(const char* machine, int device, const std::string& wanted) {
  const pid_t child = fork();
  if (child == 0) {
    std::string folders;
    for (const char* folder : {"driver_", "cuda_"})
      folders += std::string(STILETTO_FAKES "/") + folder + machine + ":";
    folders += std::string(STILETTO_FAKES "/") + (device < 0 ? "cudnn_failing" : "cudnn_for_13");
    setenv("STILETTO_CUDA_LIBRARIES", folders.c_str(), 1);
    const std::string given = current(device < 0 ? 0 : device);
    if (given.find(wanted) == std::string::npos) {
      std::printf("wanted: %s\ngiven:  %s\n", wanted.c_str(), given.c_str());
      std::fflush(stdout);
      _exit(1);
    }
    _exit(0);
  }
  int status = 0;
  return waitpid(child, &status, 0) == child && status == 0;
}

}  // namespace

int main() {
  bool right =
      expect("13", 0,
             "DeviceError: Target::current: the driver shows no GPU (a fake error); check nvidia-smi and "
             "CUDA_VISIBLE_DEVICES, or use Target::named");
  right &= expect("gpus", 5, "DeviceError: Target::current(5): this machine has 2 GPUs, numbered from 0");
  right &= expect("gpus", 1,
                  "\"deviceVer\":750,\"driverVer\":13000,\"deviceName\":\"a fake GPU\",\"smCountOrigin\":0");
  // With a cuDNN that fails.
  right &=
      expect("gpus", -1,
             "DeviceError: Target::current: cuDNN could not describe the GPU (a fake status); check that "
             "nvidia-smi shows it in order");
  return right ? 0 : 1;
}
#else
int main() { return 0; }
#endif
