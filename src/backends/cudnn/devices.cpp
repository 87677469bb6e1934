// SPDX-License-Identifier: Apache-2.0
// Asking the driver for its GPUs. cuInit is the first call here that needs the kernel's part of the driver.
#include "backends/cudnn/devices.hpp"

#include <cuda.h>
#include <dlfcn.h>

#include <array>

#include "core/text.hpp"

#define STILETTO_STRING(name) #name
// cuda.h renames functions to their newest form (cuDeviceTotalMem_v2), and so must the lookup.
#define STILETTO_DRIVER_SYMBOL(driver, name) \
  reinterpret_cast<decltype(&::name)>(dlsym((driver).handle, STILETTO_NAME_OF(name)))
#define STILETTO_NAME_OF(name) STILETTO_STRING(name)

namespace stiletto::detail::cudnn {

std::vector<Gpu> survey_gpus(const Library& driver, std::string& problem) {
  if (driver.handle == nullptr) return {};
  const auto init = STILETTO_DRIVER_SYMBOL(driver, cuInit);
  const auto get_count = STILETTO_DRIVER_SYMBOL(driver, cuDeviceGetCount);
  const auto get_name = STILETTO_DRIVER_SYMBOL(driver, cuDeviceGetName);
  const auto get_memory = STILETTO_DRIVER_SYMBOL(driver, cuDeviceTotalMem);
  const auto get_attribute = STILETTO_DRIVER_SYMBOL(driver, cuDeviceGetAttribute);
  const auto get_error = STILETTO_DRIVER_SYMBOL(driver, cuGetErrorName);
  if (init == nullptr || get_count == nullptr || get_name == nullptr || get_memory == nullptr ||
      get_attribute == nullptr || get_error == nullptr) {
    problem = text("CUDA: ", driver.path, " lacks functions of an NVIDIA driver; reinstall the driver");
    return {};
  }
  int count = 0;
  CUresult status = init(0);
  if (status == CUDA_SUCCESS) status = get_count(&count);
  if (status == CUDA_SUCCESS && count == 0) status = CUDA_ERROR_NO_DEVICE;
  if (status != CUDA_SUCCESS) {
    const char* name = nullptr;
    get_error(status, &name);
    problem = text("CUDA: the NVIDIA driver is installed but shows no GPU (",
                   name == nullptr ? "an unknown error" : name,
                   "); check what nvidia-smi says, and CUDA_VISIBLE_DEVICES");
    return {};
  }
  std::vector<Gpu> result;
  for (int device = 0; device < count; ++device) {
    std::array<char, 256> name{};
    std::size_t memory = 0;
    auto attribute = [&](CUdevice_attribute which) {
      int value = 0;
      get_attribute(&value, which, device);
      return value;
    };
    get_name(name.data(), static_cast<int>(name.size()) - 1, device);
    get_memory(&memory, device);
    result.push_back({name.data(),
                      attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) * 10 +
                          attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR),
                      attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT), memory});
  }
  return result;
}

}  // namespace stiletto::detail::cudnn
