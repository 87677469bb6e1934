// SPDX-License-Identifier: Apache-2.0
// Opening one set of libraries that fit together, and the sentences for what is missing or too old.
#include "backends/cudnn/library_opening.hpp"

#include <dlfcn.h>
#include <link.h>

#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "core/text.hpp"

namespace stiletto::detail::cudnn {

namespace {

namespace fs = std::filesystem;

constexpr const char* stand_in_file = "stiletto_driver_stand_in.so";
constexpr int majors[] = {13, 12};  // of CUDA, the preferred one first
constexpr int complete = 5;         // libraries in a set
constexpr const char* where_to_look = "; or name the folder that holds it in STILETTO_CUDA_LIBRARIES";

template <class F>
F symbol(void* handle, const char* name) {
  return reinterpret_cast<F>(dlsym(handle, name));
}

std::string path_of(void* handle, const std::string& otherwise) {
  link_map* map = nullptr;
  if (dlinfo(handle, RTLD_DI_LINKMAP, static_cast<void*>(&map)) != 0 || map->l_name == nullptr ||
      *map->l_name == '\0')
    return otherwise;
  return map->l_name;
}

Library named(std::string name) {
  Library result;
  result.name = std::move(name);
  return result;
}

bool is_file(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

/// Everything called `name` in the folders and at the loader, in the order of the search, until `accept`
/// keeps one. One that is there but cannot be loaded has its reason in `problem`.
template <class Accept>
Library open_first(const SearchFolders& folders, const std::string& name, Accept accept) {
  Library result = named(name);
  auto attempt = [&](const std::string& file) {
    void* handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
      const char* reason = dlerror();
      if (file != name && result.problem.empty())
        result.problem = text("CUDA: ", file, " cannot be loaded (", reason == nullptr ? "no reason" : reason,
                              "); reinstall it");
      return false;
    }
    if (!accept(handle, path_of(handle, file))) {
      dlclose(handle);
      return false;
    }
    result.handle = handle;
    result.path = path_of(handle, file);
    result.problem.clear();
    return true;
  };
  for (const std::string& folder : folders.before)
    if (is_file(fs::path(folder) / name) && attempt((fs::path(folder) / name).string())) return result;
  if (folders.loader && attempt(name)) return result;
  for (const std::string& folder : folders.after)
    if (is_file(fs::path(folder) / name) && attempt((fs::path(folder) / name).string())) return result;
  return result;
}

Library open_any(const SearchFolders& folders, const std::string& name) {
  return open_first(folders, name, [](void*, const std::string&) { return true; });
}

/// The part of NVRTC that it loads by name only when it compiles: it has to be found before, next to the
/// NVRTC it belongs to, where the loader does not know that folder.
Library open_builtins(const SearchFolders& folders, const Library& nvrtc) {
  Library result = named("libnvrtc-builtins.so." + nvrtc.version);
  const std::string beside = (fs::path(nvrtc.path).parent_path() / result.name).string();
  if (is_file(beside))
    result.handle = dlopen(beside.c_str(), RTLD_NOW | RTLD_LOCAL);
  else if (folders.loader)
    result.handle = dlopen(result.name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (result.handle != nullptr)
    result.path = path_of(result.handle, beside);
  else
    result.problem = text("CUDA: ", result.name, " is missing beside ", nvrtc.path, "; reinstall NVRTC");
  return result;
}

std::string nvrtc_version(void* handle) {
  const auto get = symbol<int (*)(int*, int*)>(handle, "nvrtcVersion");
  int major = 0, minor = 0;
  if (get == nullptr || get(&major, &minor) != 0) return {};
  return text(major, ".", minor);
}

int runtime_version(void* handle) {
  const auto get = symbol<int (*)(int*)>(handle, "cudaRuntimeGetVersion");
  int version = 0;
  return get != nullptr && get(&version) == 0 ? version : 0;
}

/// The major version of CUDA that a cuDNN was built for; 0 where it does not say.
int cuda_of_cudnn(void* handle) {
  const auto get = symbol<std::size_t (*)()>(handle, "cudnnGetCudartVersion");
  return get == nullptr ? 0 : static_cast<int>(get() / 1000);
}

std::size_t version_of_cudnn(void* handle) {
  const auto get = symbol<std::size_t (*)()>(handle, "cudnnGetVersion");
  return get == nullptr ? 0 : get();
}

std::string cudnn_wheel(int major) { return text("pip install nvidia-cudnn-cu", major); }

/// The wheels of CUDA 13 dropped the suffix that those of CUDA 12 have.
std::string wheel(const char* name, int major) {
  return text("pip install ", name, major < 13 ? text("-cu", major) : text("==", major, ".*"));
}

std::string missing(const Library& library, const std::string& what, const std::string& how) {
  if (!library.problem.empty()) return library.problem;
  return text("CUDA: ", what, " was not found (", library.name, "); install it (", how, ")", where_to_look);
}

/// "13.0.2" of 130002, as cuBLAS counts since version 11.
std::string cublas_version(std::size_t version) {
  return text(version / 10000, ".", version % 10000 / 100, ".", version % 100);
}

void open_nvrtc_and_runtime(const SearchFolders& folders, int major, Libraries& libraries) {
  libraries.nvrtc = open_any(folders, text("libnvrtc.so.", major));
  libraries.nvrtc_builtins = named("libnvrtc-builtins.so");
  if (libraries.nvrtc.handle != nullptr) {
    libraries.nvrtc.version = nvrtc_version(libraries.nvrtc.handle);
    libraries.nvrtc_builtins = open_builtins(folders, libraries.nvrtc);
  } else {
    libraries.nvrtc.problem = missing(libraries.nvrtc, "NVRTC, which compiles kernels,",
                                      text(wheel("nvidia-cuda-nvrtc", major), ", or a CUDA toolkit"));
  }
  libraries.runtime = open_any(folders, text("libcudart.so.", major));
  if (libraries.runtime.handle != nullptr) {
    libraries.runtime_version = runtime_version(libraries.runtime.handle);
    libraries.runtime.version = cuda_version(libraries.runtime_version);
  } else {
    libraries.runtime.problem = missing(libraries.runtime, "the CUDA runtime",
                                        text(wheel("nvidia-cuda-runtime", major), ", or a CUDA toolkit"));
  }
}

/// cuDNN aborts the process at its first matrix product when this is missing (seen with 9.19).
void open_cublas_lt(const SearchFolders& folders, int major, Libraries& libraries) {
  libraries.cublas_lt = open_any(folders, text("libcublasLt.so.", major));
  if (libraries.cublas_lt.handle != nullptr) {
    const auto get = symbol<std::size_t (*)()>(libraries.cublas_lt.handle, "cublasLtGetVersion");
    if (get != nullptr) libraries.cublas_lt.version = cublas_version(get());
  } else {
    libraries.cublas_lt.problem = missing(libraries.cublas_lt, "cuBLASLt, which cuDNN needs,",
                                          text(wheel("nvidia-cublas", major), ", or a CUDA toolkit"));
  }
}

void open_cudnn(const SearchFolders& folders, int major, Libraries& libraries) {
  Library unfit;  // the first that is there but cannot be used
  libraries.cudnn = open_first(folders, "libcudnn.so.9", [&](void* handle, const std::string& path) {
    const std::size_t version = version_of_cudnn(handle);
    const int built_for = cuda_of_cudnn(handle);
    std::string problem;
    if (version < minimum_cudnn_version)
      problem = text("CUDA: cuDNN ", cudnn_version(version), " (", path, ") is too old: Stiletto needs ",
                     cudnn_version(minimum_cudnn_version), " or newer; update it (", cudnn_wheel(major), ")",
                     where_to_look);
    else if (built_for != 0 && built_for != major)
      problem = text("CUDA: cuDNN ", cudnn_version(version), " (", path, ") is for CUDA ", built_for,
                     ", but the NVRTC found (", libraries.nvrtc.path, ") is for CUDA ", major,
                     "; install the cuDNN for CUDA ", major, " (", cudnn_wheel(major), ")", where_to_look);
    if (!problem.empty()) {
      if (unfit.problem.empty())
        unfit = {"libcudnn.so.9", path, cudnn_version(version), std::move(problem), nullptr};
      return false;
    }
    libraries.cudnn_version = version;
    return true;
  });
  if (libraries.cudnn.handle != nullptr)
    libraries.cudnn.version = cudnn_version(libraries.cudnn_version);
  else if (!unfit.problem.empty())
    libraries.cudnn = std::move(unfit);
  else
    libraries.cudnn.problem = missing(libraries.cudnn, "cuDNN 9", cudnn_wheel(major));
}

/// How many of the libraries for one major version are usable: the fullest set is the one to report on.
int usable(const Libraries& libraries) {
  int result = 0;
  for (const Library* library : {&libraries.nvrtc, &libraries.nvrtc_builtins, &libraries.runtime,
                                 &libraries.cublas_lt, &libraries.cudnn})
    result += library->problem.empty() && library->handle != nullptr ? 1 : 0;
  return result;
}

}  // namespace

std::string cuda_version(int version) { return text(version / 1000, ".", version % 1000 / 10); }

std::string cudnn_version(std::size_t version) {
  // Up to cuDNN 8 a version was major·1000 + minor·100 + patch, since 9 it is major·10000 + minor·100 +
  // patch.
  const std::size_t major = version >= 10000 ? version / 10000 : version / 1000;
  const std::size_t rest = version >= 10000 ? version % 10000 : version % 1000;
  return text(major, ".", rest / 100, ".", rest % 100);
}

Library open_driver(const SearchFolders& folders, int& version) {
  version = 0;
  // The toolkit's stub library and our stand-in answer to the name too, but neither is a driver.
  Library driver = open_first(folders, "libcuda.so.1", [&](void* handle, const std::string&) {
    if (dlsym(handle, "stiletto_driver_stand_in") != nullptr) return false;
    const auto get = symbol<int (*)(int*)>(handle, "cuDriverGetVersion");
    return get != nullptr && get(&version) == 0 && version > 0;
  });
  if (driver.handle == nullptr) {
    version = 0;
    if (driver.problem.empty())
      driver.problem =
          "CUDA: no NVIDIA driver was found (libcuda.so.1); on a machine with an NVIDIA GPU install its "
          "driver, in a container start it with access to the GPU, and without a GPU use arrays on "
          "Device::cpu()";
    return driver;
  }
  driver.version = cuda_version(version);
  if (version < minimum_driver_version)
    driver.problem =
        text("CUDA: the NVIDIA driver (", driver.path, ") is too old: it runs CUDA ", cuda_version(version),
             " and Stiletto needs ", cuda_version(minimum_driver_version), " or newer; update the driver");
  return driver;
}

Library open_stand_in() {
  Library result = named(stand_in_file);
  const std::string path = find_companion(stand_in_file);
  if (path.empty()) {
    result.problem = text("CUDA: ", stand_in_file,
                          ", with which plans are built on machines without a driver, is not beside the "
                          "library; install Stiletto again, with all of its files");
    return result;
  }
  // Global: what cuDNN links in looks functions of the driver up in the whole process.
  result.handle = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (result.handle != nullptr) {
    result.path = path;
  } else {
    const char* reason = dlerror();
    result.problem = text("CUDA: ", path, " cannot be loaded (", reason == nullptr ? "no reason" : reason,
                          "); install Stiletto again");
  }
  return result;
}

void open_toolkit(const SearchFolders& folders, Libraries& libraries) {
  const bool limited = !libraries.stand_in && libraries.driver_version >= minimum_driver_version;
  std::string too_new;  // a set that only the driver rules out
  Libraries best = libraries;
  int best_usable = -1;
  for (const int major : majors) {
    if (limited && libraries.driver_version / 1000 < major) {
      const Library nvrtc = open_any(folders, text("libnvrtc.so.", major));
      if (nvrtc.handle == nullptr) continue;
      dlclose(nvrtc.handle);
      too_new =
          text("CUDA: the NVIDIA driver (", libraries.driver.path, ") runs CUDA ",
               cuda_version(libraries.driver_version), ", but the libraries found (", nvrtc.path,
               ") are for CUDA ", major, ".0; update the driver, or install libraries for CUDA ",
               libraries.driver_version / 1000, " (", cudnn_wheel(libraries.driver_version / 1000), ")");
      continue;
    }
    Libraries candidate = libraries;
    open_nvrtc_and_runtime(folders, major, candidate);
    open_cublas_lt(folders, major, candidate);
    open_cudnn(folders, major, candidate);
    if (usable(candidate) > best_usable) {
      best_usable = usable(candidate);
      best = std::move(candidate);
    }
    if (best_usable == complete) break;
  }
  libraries = std::move(best);
  if (best_usable < complete && !too_new.empty() && libraries.driver.problem.empty())
    libraries.driver.problem = std::move(too_new);
}

std::string first_problem(const Libraries& libraries) {
  for (const Library* library :
       {&libraries.driver, &libraries.nvrtc, &libraries.nvrtc_builtins, &libraries.runtime, &libraries.cudnn})
    if (!library->problem.empty()) return library->problem;
  return {};
}

}  // namespace stiletto::detail::cudnn
