// SPDX-License-Identifier: Apache-2.0
// Plans for an absent GPU as files: saved, loaded where they can only be looked at, kept in a cache folder by
// several processes at once, and built anew where a file cannot be used.
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <mutex>
#include <sstream>
#include <thread>

#include "backends/cudnn/libraries.hpp"
#include "plans/fixture.hpp"
#include "stiletto/log.hpp"
#include "support/errors.hpp"

namespace {

using plans::Array;
using plans::CompileOptions;
using plans::dense;
using plans::DType;
using stiletto::spec;
using stiletto::Target;

namespace fs = std::filesystem;

/// A folder of its own for each test, and what the log says of caches meanwhile.
class SavedPlans : public plans::PlanTest {
 protected:
  void SetUp() override {
    plans::PlanTest::SetUp();
    fs::create_directories(folder);
    stiletto::set_log({stiletto::LogTopic::cache}, [this](stiletto::LogTopic, const std::string& text) {
      const std::lock_guard lock(mutex);
      log += text + "\n";
    });
  }
  void TearDown() override {
    stiletto::set_log({});
    fs::remove_all(folder);
  }
  bool logged(const std::string& part) const { return log.find(part) != std::string::npos; }

  CompileOptions cached(const char* target = "h200") const {
    return {.target = Target::named(target), .cache_folder = folder};
  }
  /// Compiles and says how: "built", "read", or what else was logged.
  std::string compile(const CompileOptions& options) {
    log.clear();
    plan = stiletto::compile(options, dense, x, w).graph().to_string();
    if (logged("is not used")) return log;
    return logged("plan from ") ? "read" : logged("plan kept in ") ? "built" : log;
  }
  std::vector<fs::path> files() const {
    std::vector<fs::path> found;
    for (const auto& entry : fs::directory_iterator(folder)) found.push_back(entry.path());
    return found;
  }
  static std::string read(const fs::path& path) {
    std::ostringstream out;
    out << std::ifstream(path, std::ios::binary).rdbuf();
    return out.str();
  }

  const fs::path folder = fs::temp_directory_path() / ("stiletto-plans-" + std::to_string(getpid()));
  const Array x = spec({64, 128}, DType::float16), w = spec({128, 96}, DType::float16);
  std::mutex mutex;
  std::string log, plan;
};

TEST_F(SavedPlans, a_plan_for_an_absent_gpu_is_loaded_to_be_looked_at) {
  const auto compiled = stiletto::compile(plans::on_h200(), dense, x, w);
  const fs::path path = folder / "dense.plan";
  compiled.save(path);
  const auto loaded = stiletto::load<Array(Array, Array)>(path);
  EXPECT_EQ(loaded.graph().to_string(), compiled.graph().to_string());
  EXPECT_EQ(loaded.workspace(), compiled.workspace());
  loaded.save(folder / "again.plan");
  if (!stiletto::detail::cudnn::has_driver()) {  // cuDNN itself does not write it twice alike
    EXPECT_EQ(read(folder / "again.plan"), read(path));
  }
  EXPECT_GT(fs::file_size(path), 1000U);
  EXPECT_EQ(read(path).substr(0, 14), "Stiletto plan\n");
}

TEST_F(SavedPlans, a_second_compilation_reads_the_plan) {
  ASSERT_EQ(compile(cached()), "built");
  const std::string first = plan;
  EXPECT_EQ(compile(cached()), "read");
  EXPECT_EQ(plan, first);
  EXPECT_EQ(files().size(), 1U);
}

TEST_F(SavedPlans, the_environment_names_the_folder) {
  setenv("STILETTO_CACHE", folder.c_str(), 1);
  EXPECT_EQ(compile(plans::on_h200()), "built");
  EXPECT_EQ(compile(plans::on_h200()), "read");
  CompileOptions nowhere = plans::on_h200();
  nowhere.cache_folder = fs::path();
  EXPECT_EQ(compile(nowhere), "") << "an empty path: no cache";
  unsetenv("STILETTO_CACHE");
}

TEST_F(SavedPlans, everything_a_plan_depends_on_is_in_the_key) {
  ASSERT_EQ(compile(cached()), "built");
  EXPECT_EQ(compile(cached("b200")), "built");
  CompileOptions options = cached();
  options.deterministic = true;
  EXPECT_EQ(compile(options), "built");
  options = cached();
  options.max_workspace = 0;
  EXPECT_EQ(compile(options), "built");
  options = cached();
  options.heuristics = {stiletto::Heuristic::fallback};
  EXPECT_EQ(compile(options), "built");
  options = cached();
  options.io_dtype = DType::float32;
  EXPECT_EQ(compile(options), "built");
  EXPECT_EQ(files().size(), 6U);
  EXPECT_EQ(compile(cached()), "read");
}

TEST_F(SavedPlans, files_that_cannot_be_used_are_replaced) {
  ASSERT_EQ(compile(cached()), "built");
  const fs::path path = files().at(0);
  const std::string whole = read(path);
  const std::vector<std::pair<std::string, std::string>> files{
      {"", "is no saved plan"},
      {"anything", "is no saved plan"},
      {whole.substr(0, whole.size() / 2), "ends too early"},
      {whole.substr(0, whole.find("\n\n") + 9), "ends too early"},
      {whole.substr(0, whole.size() - 1) + "?", "is damaged"},
      {"Stiletto plan\nversion 0.0.1, format 1\n\n", "is of another Stiletto"}};
  for (const auto& [bytes, problem] : files) {
    std::ofstream(path, std::ios::binary) << bytes;
    const std::string said = compile(cached());
    EXPECT_NE(said.find("a file is not used, its plan is built anew: " + path.string() + " " + problem),
              std::string::npos)
        << said;
    EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 2) << "one line, and that the new one is kept";
    EXPECT_EQ(compile(cached()), "read");
  }
}

TEST_F(SavedPlans, a_file_of_another_graph_is_not_used) {
  ASSERT_EQ(compile(cached()), "built");
  const fs::path first = files().at(0);
  auto other = [](const Array& a, const Array& b) { return stiletto::tanh(stiletto::matmul(a, b)); };
  stiletto::compile(cached(), other, x, w);
  for (const fs::path& path : files())
    if (path != first) fs::rename(path, first);
  EXPECT_NE(compile(cached()).find("is of another graph"), std::string::npos);
  EXPECT_NE(plan.find("relu"), std::string::npos);
}

TEST_F(SavedPlans, a_folder_that_cannot_be_written_keeps_no_plan_from_being_built) {
  const fs::path file = folder / "file";
  std::ofstream(file) << "in the way";
  CompileOptions options = cached();
  options.cache_folder = file / "folder";
  EXPECT_NE(compile(options).find("a plan is not kept: "), std::string::npos);
  EXPECT_NE(plan.find("cudnn eng"), std::string::npos);
}

TEST_F(SavedPlans, threads_and_processes_share_a_folder) {
  std::vector<pid_t> children;
  ASSERT_EQ(compile(cached()), "built") << "libraries are open before the processes part";
  fs::remove(files().at(0));
  // A process that has used a GPU cannot part: there the threads have to do.
  for (int i = 0; i < 2 && !stiletto::detail::cudnn::has_driver(); ++i) {
    const pid_t child = fork();
    if (child == 0) {
      bool right = true;
      try {
        for (int k = 0; k < 3; ++k) right = right && !compile(cached()).empty() && !logged("is not used");
      } catch (...) {
        right = false;
      }
      _exit(right ? 0 : 1);
    }
    children.push_back(child);
  }
  std::vector<std::thread> threads;
  threads.reserve(2);
  for (int i = 0; i < 2; ++i)
    threads.emplace_back([&] {
      for (int k = 0; k < 3; ++k) stiletto::compile(cached(), dense, x, w);
    });
  for (std::thread& thread : threads) thread.join();
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_FALSE(logged("is not used")) << log;
  EXPECT_EQ(files().size(), 1U) << "nothing unfinished stays";
  EXPECT_EQ(compile(cached()), "read");
}

}  // namespace
