// SPDX-License-Identifier: Apache-2.0
// Target: a GPU's properties by name, from a file or from the GPU itself, checked before cuDNN sees them. A
// file that cuDNN cannot read would otherwise show up later, as a graph for which no engine is found.
#include "backends/cudnn/target.hpp"

#include <cuda_runtime_api.h>
#include <cudnn_graph.h>
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "backends/cudnn/libraries.hpp"
#include "backends/cudnn/target_json.hpp"
#include "core/text.hpp"
#include "stiletto/error.hpp"

namespace stiletto {

namespace {

using detail::TargetProperties;
using detail::text;
using detail::cudnn::JsonMember;
using detail::cudnn::Libraries;

using Members = std::vector<JsonMember>;
using Properties = std::shared_ptr<const TargetProperties>;

constexpr const char* how_to_write =
    "; on a machine with the GPU, write the file from what Target::current().to_json() returns";

/// What cuDNN 9.19 reads; every one is needed.
constexpr std::array needed = {"maxGridSize",
                               "maxBlockSize",
                               "regsPerBlock",
                               "multiProcessorCount",
                               "warpSize",
                               "maxSharedMemoryPerBlock",
                               "maxSharedMemoryPerBlockOptin",
                               "reservedSharedMemoryPerBlock",
                               "maxRegistersPerSM",
                               "maxCtasPerSM",
                               "maxThreadsPerBlock",
                               "maxThreadsPerSM",
                               "pciDeviceId",
                               "isTccDriver",
                               "supportCoopLaunch",
                               "totalGlobalMem",
                               "smClockRateKHz",
                               "memClockRateKHz",
                               "l2CacheSize",
                               "cudaDeviceId",
                               "deviceVer",
                               "driverVer",
                               "deviceName"};

const std::string* find(const Members& members, std::string_view key) {
  const auto found = std::ranges::find(members, key, &JsonMember::key);
  return found == members.end() ? nullptr : &found->value;
}

/// A member's value as a number; −1 when it is none.
int number(const std::string& value) {
  int result = -1;
  const char* end = value.data() + value.size();
  const auto parsed = std::from_chars(value.data(), end, result);
  return parsed.ec == std::errc() && parsed.ptr == end ? result : -1;
}

/// cuDNN 9.27 needs three keys that 9.19 neither writes nor misses. The bus width only moves estimates of
/// speed, so the usual one of the GPU's class will do: server GPUs with HBM have compute capability x.0.
void add_newer_keys(Members& members, int version) {
  auto add = [&](const char* key, int value) {
    if (find(members, key) == nullptr) members.push_back({key, std::to_string(value)});
  };
  add("smCountOrigin", 0);
  add("oversizedSharedMemoryPerBlock", 0);
  const bool has_hbm = version == 800 || version == 900 || version / 100 == 10;
  add("memoryBusWidth", has_hbm ? 5120 : 384);
}

/// Checks and completes device properties; `subject` opens the text of what is wrong.
Properties make_properties(const std::string& json, const std::string& subject) {
  Members members;
  try {
    members = detail::cudnn::parse_json_object(json);
  } catch (const std::invalid_argument& error) {
    throw ArgumentError(text(subject, " is not device properties in JSON: ", error.what(), how_to_write));
  }
  std::erase_if(members, [](const JsonMember& member) { return member.key == "source"; });
  std::string missing;
  for (const char* key : needed)
    if (find(members, key) == nullptr) missing += (missing.empty() ? "" : ", ") + std::string(key);
  if (!missing.empty())
    throw ArgumentError(text(subject, " lacks device properties that cuDNN needs: ", missing, how_to_write));

  const std::string& version_text = *find(members, "deviceVer");
  const int version = number(version_text);
  if (version < 500 || version > 9990 || version % 10 != 0)
    throw ArgumentError(text(subject, " has deviceVer ", version_text,
                             ", which is no compute capability times 100 (900 for 9.0); correct the file",
                             how_to_write));
  const std::string& name = *find(members, "deviceName");
  if (name.size() < 3 || name.front() != '"')
    throw ArgumentError(text(subject, " has deviceName ", name, ", which is not a name", how_to_write));
  for (const char* key : needed) {
    const std::string& value = *find(members, key);
    if (key != std::string_view("deviceName") && value.front() != '[' &&
        std::isdigit(static_cast<unsigned char>(value.front())) == 0)
      throw ArgumentError(text(subject, " has ", key, " ", value, ", which is not a number", how_to_write));
  }
  add_newer_keys(members, version);
  auto properties = std::make_shared<TargetProperties>();
  properties->name = name.substr(1, name.size() - 2);
  properties->sm = version / 10;
  properties->json = detail::cudnn::to_json(members);
  return properties;
}

std::string lower_case(std::string name) {
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
  return name;
}

std::string joined(const std::vector<std::string>& names) {
  std::string result;
  for (const std::string& name : names) result += (result.empty() ? "" : ", ") + name;
  return result;
}

/// Calls functions of libcudnn by name: nothing is linked.
class DeviceDescriptor {
 public:
  DeviceDescriptor(const Libraries& libraries, int device) : library_(libraries.cudnn.handle) {
    check(call<decltype(&::cudnnBackendCreateDescriptor)>("cudnnBackendCreateDescriptor")(
        CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &descriptor_));
    const std::int32_t index = device;
    check(call<decltype(&::cudnnBackendSetAttribute)>("cudnnBackendSetAttribute")(
        descriptor_, CUDNN_ATTR_DEVICEPROP_DEVICE_ID, CUDNN_TYPE_INT32, 1, &index));
    check(call<decltype(&::cudnnBackendFinalize)>("cudnnBackendFinalize")(descriptor_));
  }
  DeviceDescriptor(const DeviceDescriptor&) = delete;
  DeviceDescriptor& operator=(const DeviceDescriptor&) = delete;
  ~DeviceDescriptor() {
    call<decltype(&::cudnnBackendDestroyDescriptor)>("cudnnBackendDestroyDescriptor")(descriptor_);
  }

  std::string json() const {
    const auto get = call<decltype(&::cudnnBackendGetAttribute)>("cudnnBackendGetAttribute");
    std::int64_t size = 0;
    check(get(descriptor_, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, 0, &size, nullptr));
    std::string result(static_cast<std::size_t>(size), '\0');
    check(get(descriptor_, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, size, &size,
              result.data()));
    while (!result.empty() && result.back() == '\0') result.pop_back();
    return result;
  }

 private:
  template <class F>
  F call(const char* name) const {
    return reinterpret_cast<F>(dlsym(library_, name));
  }
  void check(cudnnStatus_t status) const {
    if (status != CUDNN_STATUS_SUCCESS)
      throw DeviceError(text("Target::current: cuDNN could not describe the GPU (",
                             call<decltype(&::cudnnGetErrorString)>("cudnnGetErrorString")(status),
                             "); check that nvidia-smi shows it in order"));
  }
  void* library_;
  cudnnBackendDescriptor_t descriptor_ = nullptr;
};

void require_device(const Libraries& libraries, int device) {
  const auto get_count = reinterpret_cast<decltype(&::cudaGetDeviceCount)>(
      dlsym(libraries.runtime.handle, "cudaGetDeviceCount"));
  const auto describe = reinterpret_cast<decltype(&::cudaGetErrorString)>(
      dlsym(libraries.runtime.handle, "cudaGetErrorString"));
  int count = 0;
  const cudaError_t status = get_count(&count);
  if (status != cudaSuccess || count == 0)
    throw DeviceError(text("Target::current: the driver shows no GPU (",
                           describe(status == cudaSuccess ? cudaErrorNoDevice : status),
                           "); check nvidia-smi and CUDA_VISIBLE_DEVICES, or use Target::named"));
  if (device < 0 || device >= count)
    throw DeviceError(text("Target::current(", device, "): this machine has ", count,
                           count == 1 ? " GPU, number 0" : " GPUs, numbered from 0"));
}

}  // namespace

Target::Target(Properties properties) : properties_(std::move(properties)) {}

std::vector<std::string> Target::names() {
  std::vector<std::string> result;
  for (const auto& file : detail::cudnn::target_files()) result.emplace_back(file.name);
  return result;
}

Target Target::named(const std::string& name) {
  for (const auto& file : detail::cudnn::target_files())
    if (lower_case(name) == file.name)
      return Target(make_properties(file.json, text("Target::named: ", file.name)));
  throw ArgumentError(text("Target::named: \"", name, "\" is not among the GPUs that are shipped (",
                           joined(names()), "); use one of them, or Target::from_file for another"));
}

Target Target::from_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::error_code error;
  if (!file || std::filesystem::is_directory(path, error))
    throw ArgumentError(text("Target::from_file: ", path.string(), " cannot be opened; check the path"));
  const std::string json((std::istreambuf_iterator<char>(file)), {});
  return Target(make_properties(json, text("Target::from_file: ", path.string())));
}

Target Target::current(int device) {
  const Libraries& libraries = detail::cudnn::libraries_for_device();
  require_device(libraries, device);
  // Asked for with every plan; what cuDNN says takes a millisecond and stays the same.
  static std::mutex& mutex = *new std::mutex;
  static auto& known = *new std::map<int, Properties>;
  const std::lock_guard lock(mutex);
  Properties& properties = known[device];
  if (!properties)
    properties = make_properties(DeviceDescriptor(libraries, device).json(),
                                 "Target::current: what cuDNN says about the GPU");
  return Target(properties);
}

std::string Target::to_json() const { return properties_->json; }

/// The order of the members has no meaning.
bool Target::operator==(const Target& other) const {
  if (properties_ == other.properties_ || properties_->json == other.properties_->json) return true;
  auto sorted = [](const std::string& json) {
    Members members = detail::cudnn::parse_json_object(json);
    std::ranges::sort(members, {}, &JsonMember::key);
    return members;
  };
  return sorted(properties_->json) == sorted(other.properties_->json);
}

}  // namespace stiletto
