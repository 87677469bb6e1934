// SPDX-License-Identifier: Apache-2.0
// Target: the GPUs that are shipped, files, and the complete text of everything that is wrong with one; in
// builds without the cuDNN backend, the text that says so.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "stiletto/compile.hpp"
#include "unit/error_text.hpp"

namespace {

using stiletto::Target;
using unit::expect_text;

#ifdef STILETTO_HAS_CUDNN

constexpr const char* how_to_write =
    "; on a machine with the GPU, write the file from what Target::current().to_json() returns";

/// A file that is removed again.
class File {
 public:
  explicit File(const std::string& content)
      : path_(std::filesystem::path(testing::TempDir()) /
              ("stiletto_target_" +
               std::string(testing::UnitTest::GetInstance()->current_test_info()->name()) + ".json")) {
    std::ofstream(path_) << content;
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() { std::filesystem::remove(path_); }
  const std::filesystem::path& path() const { return path_; }
  std::string subject() const { return "ArgumentError: Target::from_file: " + path_.string(); }

 private:
  std::filesystem::path path_;
};

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  const std::size_t at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  return text.replace(at, what.size(), by);
}

const std::string h200 = Target::named("h200").to_json();

TEST(Target, shipped) {
  const std::vector<std::string> wanted = {"a100", "b200", "h100", "h200", "l40s", "rtx4090", "rtx5090"};
  EXPECT_EQ(Target::names(), wanted);
  for (const std::string& name : Target::names()) {
    const Target target = Target::named(name);
    const std::string json = target.to_json();
    for (const char* key :
         {"\"deviceVer\":", "\"memoryBusWidth\":", "\"smCountOrigin\":0", "\"deviceName\":\""})
      EXPECT_NE(json.find(key), std::string::npos) << name << " " << key;
    EXPECT_EQ(json.find("source"), std::string::npos) << name;
    for (const std::string& other : Target::names()) EXPECT_EQ(target == Target::named(other), name == other);
  }
}

TEST(Target, names_in_any_case) {
  EXPECT_EQ(Target::named("H200"), Target::named("h200"));
  EXPECT_EQ(Target::named("RTX4090"), Target::named("rtx4090"));
}

TEST(Target, unknown_name) {
  expect_text(
      [] { Target::named("h300"); },
      "ArgumentError: Target::named: \"h300\" is not among the GPUs that are shipped (a100, b200, h100, "
      "h200, l40s, rtx4090, rtx5090); use one of them, or Target::from_file for another");
}

TEST(Target, file_round_trip) {
  const File file(h200);
  EXPECT_EQ(Target::from_file(file.path()), Target::named("h200"));
  EXPECT_EQ(Target::from_file(file.path()).to_json(), h200);
}

TEST(Target, order_of_members_has_no_meaning) {
  const File file(replaced(replaced(h200, "\"warpSize\":32,", ""), "{", "{\"warpSize\":32,"));
  EXPECT_EQ(Target::from_file(file.path()), Target::named("h200"));
}

TEST(Target, keys_of_newer_versions_are_added) {
  const File file(
      replaced(h200, ",\"smCountOrigin\":0,\"oversizedSharedMemoryPerBlock\":0,\"memoryBusWidth\":6144", ""));
  const std::string json = Target::from_file(file.path()).to_json();
  EXPECT_TRUE(
      json.ends_with(",\"smCountOrigin\":0,\"oversizedSharedMemoryPerBlock\":0,\"memoryBusWidth\":5120}"))
      << json;
}

TEST(Target, unknown_keys_stay) {
  const File file(replaced(h200, "{", "{\"newInCudnn10\":[1,2],"));
  EXPECT_NE(Target::from_file(file.path()).to_json().find("\"newInCudnn10\":[1,2]"), std::string::npos);
  EXPECT_FALSE(Target::from_file(file.path()) == Target::named("h200"));
}

TEST(Target, no_file) {
  expect_text([] { Target::from_file("/nowhere/x.json"); },
              "ArgumentError: Target::from_file: /nowhere/x.json cannot be opened; check the path");
  expect_text([] { Target::from_file("/"); },
              "ArgumentError: Target::from_file: / cannot be opened; check the path");
}

TEST(Target, no_json) {
  const File file("{\n  \"deviceVer\": 900,\n  oops\n}");
  expect_text([&] { Target::from_file(file.path()); },
              file.subject() +
                  " is not device properties in JSON: line 3, column 3: a key or value in double quotes is "
                  "expected" +
                  how_to_write);
}

TEST(Target, missing_properties) {
  const File file(replaced(replaced(h200, "\"warpSize\":32,", ""), "\"deviceVer\":900,", ""));
  expect_text(
      [&] { Target::from_file(file.path()); },
      file.subject() + " lacks device properties that cuDNN needs: warpSize, deviceVer" + how_to_write);
}

TEST(Target, impossible_capability) {
  for (const std::string version : {"9", "905", "12345", "\"9.0\""}) {
    const File file(replaced(h200, "\"deviceVer\":900", "\"deviceVer\":" + version));
    expect_text([&] { Target::from_file(file.path()); },
                file.subject() + " has deviceVer " + version +
                    ", which is no compute capability times 100 (900 for 9.0); correct the file" +
                    how_to_write);
  }
}

TEST(Target, impossible_values) {
  const File name(replaced(h200, "\"NVIDIA H200\"", "7"));
  expect_text([&] { Target::from_file(name.path()); },
              name.subject() + " has deviceName 7, which is not a name" + how_to_write);
  const File number(replaced(h200, "\"warpSize\":32", "\"warpSize\":\"32\""));
  expect_text([&] { Target::from_file(number.path()); },
              number.subject() + " has warpSize \"32\", which is not a number" + how_to_write);
}

#else

TEST(Target, builds_without_gpus_say_so) {
  const std::string rest =
      ": this build has no cuDNN backend, so there is no GPU to build plans for; configure with "
      "-DSTILETTO_CUDA=ON (scripts/bootstrap.sh --cuda fetches the headers)";
  expect_text([] { Target::named("h200"); }, "DeviceError: Target::named" + rest);
  expect_text([] { Target::from_file("x.json"); }, "DeviceError: Target::from_file" + rest);
  expect_text([] { Target::current(); }, "DeviceError: Target::current" + rest);
  expect_text([] { Target::names(); }, "DeviceError: Target::names" + rest);
}

#endif

}  // namespace
