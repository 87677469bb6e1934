// SPDX-License-Identifier: Apache-2.0
// The folders of CUDA toolkits and of Python's nvidia wheels, from the environment and the usual places.
#include "backends/cudnn/library_search.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>

namespace stiletto::detail::cudnn {

namespace {

namespace fs = std::filesystem;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

bool is_folder(const fs::path& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

/// Collects existing folders once each: /usr/local/cuda is usually a link to one of its neighbours.
class Folders {
 public:
  void add(const fs::path& folder) {
    if (folder.empty() || !is_folder(folder)) return;
    std::error_code error;
    const fs::path real = fs::canonical(folder, error);
    if (error || std::ranges::find(real_, real) != real_.end()) return;
    real_.push_back(real);
    list_.push_back(folder.string());
  }
  std::vector<std::string> take() { return std::move(list_); }

 private:
  std::vector<fs::path> real_;
  std::vector<std::string> list_;
};

/// Folders inside `parent` whose names begin with `prefix`, the highest version first.
std::vector<fs::path> versions(const fs::path& parent, std::string_view prefix) {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator entry(parent, error), end; !error && entry != end; entry.increment(error))
    if (entry->path().filename().string().starts_with(prefix)) found.push_back(entry->path());
  auto version = [&](const fs::path& path) {
    // 3.11 after 3.9, 12.8 after 11: one number per part.
    std::vector<int> parts(1, 0);
    for (const char c : path.filename().string().substr(prefix.size())) {
      if (c == '.')
        parts.push_back(0);
      else if (c >= '0' && c <= '9')
        parts.back() = parts.back() * 10 + (c - '0');
    }
    return parts;
  };
  std::ranges::sort(found, [&](const fs::path& a, const fs::path& b) { return version(a) > version(b); });
  return found;
}

void add_toolkit(Folders& folders, const fs::path& root) {
  if (root.empty()) return;
  folders.add(root / "lib64");
  folders.add(root / "lib");
}

/// A folder into which Python's nvidia wheels were unpacked: those for CUDA 13 share cu13/, those for
/// CUDA 12 have a folder per package.
void add_wheels(Folders& folders, const fs::path& nvidia) {
  if (!is_folder(nvidia)) return;
  for (const char* package : {"cudnn/lib", "cu13/lib", "cuda_nvrtc/lib", "cuda_runtime/lib", "cublas/lib"})
    folders.add(nvidia / package);
}

void add_python(Folders& folders, const fs::path& prefix) {
  if (prefix.empty()) return;
  for (const char* lib : {"lib", "lib64"})
    for (const fs::path& python : versions(prefix / lib, "python3"))
      for (const char* packages : {"site-packages", "dist-packages"})
        add_wheels(folders, python / packages / "nvidia");
}

/// The folder of the file that holds this code: libstiletto, or the program it is linked into.
fs::path own_folder() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&search_folders), &info) == 0 || info.dli_fname == nullptr)
    return {};
  std::error_code error;
  const fs::path file = fs::canonical(info.dli_fname, error);
  return error ? fs::path() : file.parent_path();
}

}  // namespace

SearchFolders search_folders() {
  SearchFolders result;
  Folders before;
  std::string named = variable("STILETTO_CUDA_LIBRARIES");
  while (!named.empty()) {
    const std::size_t colon = named.find(':');
    const std::string folder = named.substr(0, colon);
    if (!folder.empty() && !is_folder(folder)) result.absent.push_back(folder);
    before.add(folder);
    named.erase(0, colon == std::string::npos ? colon : colon + 1);
  }
  result.before = before.take();

  Folders after;
  add_toolkit(after, variable("CUDA_HOME"));
  add_toolkit(after, variable("CUDA_PATH"));
  add_toolkit(after, "/usr/local/cuda");
  for (const fs::path& toolkit : versions("/usr/local", "cuda-")) add_toolkit(after, toolkit);
  // Where drivers lie that the loader's cache does not know: WSL, containers, NixOS.
  for (const char* folder : {"/usr/lib/wsl/lib", "/usr/local/nvidia/lib64", "/run/opengl-driver/lib"})
    after.add(folder);

  add_python(after, variable("VIRTUAL_ENV"));
  const std::string conda = variable("CONDA_PREFIX");
  if (!conda.empty()) after.add(fs::path(conda) / "lib");
  add_python(after, conda);
  const std::string home = variable("HOME");
  if (!home.empty()) add_python(after, fs::path(home) / ".local");
  add_python(after, "/usr/local");
  add_python(after, "/usr");
  add_wheels(after, own_folder() / "stiletto" / "nvidia");
#ifdef STILETTO_WHEEL_FOLDER
  add_wheels(after, STILETTO_WHEEL_FOLDER);
#endif
  result.after = after.take();
  return result;
}

std::string find_companion(const std::string& name) {
  // Installed, a companion is in stiletto/ beside libstiletto, or in lib*/stiletto/ beside the bin/ of a
  // program that holds the library; in a build tree it is at the top, and programs are some folders below.
  std::vector<fs::path> places;
  const fs::path own = own_folder();
  if (!own.empty()) {
    places = {own / "stiletto", own};
    for (const char* lib : {"lib", "lib64"}) places.push_back(own.parent_path() / lib / "stiletto");
  }
#ifdef STILETTO_BUILD_FOLDER
  places.emplace_back(STILETTO_BUILD_FOLDER);
  places.emplace_back(STILETTO_INSTALL_FOLDER);
#endif
  for (const fs::path& place : places) {
    std::error_code error;
    if (fs::is_regular_file(place / name, error)) return (place / name).string();
  }
  return {};
}

}  // namespace stiletto::detail::cudnn
