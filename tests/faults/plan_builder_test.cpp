// SPDX-License-Identifier: Apache-2.0
// The plan builder's process: answers of any size and content come back whole, and each way to fail has a
// text. The program is a fake that does what the request says (tests/fakes), or a script.
#ifdef STILETTO_HAS_CUDNN
#include <gtest/gtest.h>

#include <sys/stat.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "backends/cudnn/library_opening.hpp"
#include "backends/cudnn/plan_builder_process.hpp"
#include "unit/error_text.hpp"

namespace {

using stiletto::detail::cudnn::run_plan_builder;
using unit::expect_text;

const std::string prefix =
    "DeviceError: a plan for a GPU that is not in this machine is built by stiletto-plan-builder, and ";

class PlanBuilder : public testing::Test {
 public:
  PlanBuilder(const PlanBuilder&) = delete;
  PlanBuilder& operator=(const PlanBuilder&) = delete;

 protected:
  PlanBuilder() { use(fake_); }
  ~PlanBuilder() override { unsetenv("STILETTO_PLAN_BUILDER"); }

  static void use(const std::string& program) { setenv("STILETTO_PLAN_BUILDER", program.c_str(), 1); }

  /// The program opens cuDNN before it answers.
  static bool has_cudnn() {
    stiletto::detail::cudnn::Libraries libraries;
    libraries.stand_in = true;
    open_toolkit(stiletto::detail::cudnn::search_folders(), libraries);
    return first_problem(libraries).empty();
  }

  /// A program of one's own, from a shell script.
  std::string script(const std::string& body) {
    const std::string path = testing::TempDir() + "/stiletto_plan_builder_" +
                             testing::UnitTest::GetInstance()->current_test_info()->name();
    std::ofstream(path) << "#!/bin/sh\n" << body << '\n';
    chmod(path.c_str(), 0700);
    use(path);
    return path;
  }

  const std::string fake_ = std::string(STILETTO_FAKES) + "/plan_builder";
};

#define NEEDS_CUDNN \
  if (!has_cudnn()) GTEST_SKIP() << "cuDNN is not on this machine"

TEST_F(PlanBuilder, answers_come_back_whole) {
  NEEDS_CUDNN;
  std::string bytes(3 << 20, '\0');  // more than any pipe holds
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 7 + i / 251);
  EXPECT_TRUE(run_plan_builder(bytes) == bytes);
  EXPECT_EQ(run_plan_builder(""), "");
  EXPECT_EQ(run_plan_builder("print\nand answer"), "print\nand answer");
  EXPECT_EQ(run_plan_builder("print and answer"), "print and answer");
}

TEST_F(PlanBuilder, several_at_once) {
  NEEDS_CUDNN;
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int i = 0; i < 4; ++i)
    threads.emplace_back(
        [i] { EXPECT_EQ(run_plan_builder("request " + std::to_string(i)), "request " + std::to_string(i)); });
  for (std::thread& thread : threads) thread.join();
}

TEST_F(PlanBuilder, what_it_throws_is_thrown_here) {
  NEEDS_CUDNN;
  expect_text([] { run_plan_builder("refuse"); }, "DeviceError: the graph is refused, for a test");
}

TEST_F(PlanBuilder, it_dies) {
  NEEDS_CUDNN;
  expect_text([] { run_plan_builder("abort"); },
              prefix + fake_ + " was ended by signal 6 (Aborted) without an answer; it printed: a last word");
  expect_text([] { run_plan_builder("leave"); },
              prefix + fake_ + " ended with status 3 without an answer; it printed nothing");
}

TEST_F(PlanBuilder, it_takes_too_long) {
  NEEDS_CUDNN;
  const auto start = std::chrono::steady_clock::now();
  expect_text([] { run_plan_builder("sleep", std::chrono::milliseconds(1500)); },
              prefix + "it had not answered after 1.5 s; build for a smaller graph, or report the graph");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

TEST_F(PlanBuilder, it_reads_nothing) {
  const std::string path = script("exec 0<&-; echo no >&2; exit 1");
  expect_text([] { run_plan_builder(std::string(1 << 22, 'x')); },
              prefix + path + " ended with status 1 without an answer; it printed: no");
}

TEST_F(PlanBuilder, it_is_not_there) {
  use("/nowhere/builder");
  expect_text(
      [] { run_plan_builder(""); },
      prefix +
          "/nowhere/builder could not be started (No such file or directory); install Stiletto again, or "
          "name the program in STILETTO_PLAN_BUILDER");
}

TEST_F(PlanBuilder, another_version) {
  const std::string path = script("echo 'stiletto-plan-builder 9.9.9 answer 0'");
  expect_text(
      [] { run_plan_builder(""); },
      prefix + path +
          " is of another version (stiletto-plan-builder 9.9.9 answer 0, the library is 0.1.0); install "
          "the two together");
}

TEST_F(PlanBuilder, half_an_answer) {
  const std::string path = script("printf 'stiletto-plan-builder 0.1.0 answer 10\\nhalf'");
  expect_text([] { run_plan_builder(""); },
              prefix + path + " ended with status 0 without an answer; it printed nothing");
}

}  // namespace
#endif
