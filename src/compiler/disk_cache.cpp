// SPDX-License-Identifier: Apache-2.0
#include "compiler/disk_cache.hpp"

#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "compiler/expression_text.hpp"
#include "compiler/graph_archive.hpp"
#include "compiler/plan_file.hpp"
#include "core/log.hpp"
#include "core/text.hpp"

namespace stiletto::detail {
namespace {

std::filesystem::path cache_folder(const CompileOptions& options) {
  if (options.cache_folder) return *options.cache_folder;
  const char* folder = std::getenv("STILETTO_CACHE");
  return folder == nullptr ? "" : folder;
}

std::string file_name(const std::string& key) {
  char name[40];
  std::snprintf(name, sizeof name, "%016llx%016llx.plan", static_cast<unsigned long long>(checksum(key)),
                static_cast<unsigned long long>(checksum(key, 1)));
  return name;
}

/// Null where there is none that can be used.
std::unique_ptr<const Plan> find(const std::filesystem::path& path, const std::string& key,
                                 const Backend& backend, const CanonicalGraph& graph, Device device) {
  std::error_code missing;
  if (!std::filesystem::exists(path, missing)) return nullptr;
  std::string problem;
  try {
    const std::string body = read_plan_file(path);
    Reader reader(body);
    std::string found;
    reader(found);
    if (found != key) throw ArgumentError(text(path.string(), " is of another graph"));
    auto plan = backend.load(reader, graph, device);
    reader.end();
    if (log_enabled(LogTopic::cache)) log(LogTopic::cache, text("plan from ", path.string()));
    return plan;
  } catch (const ArchiveError& error) {
    problem = text(path.string(), " ", error.what());
  } catch (const std::exception& error) {
    problem = error.what();
  }
  if (log_enabled(LogTopic::cache))
    log(LogTopic::cache, text("a file is not used, its plan is built anew: ", problem));
  return nullptr;
}

void keep(const std::filesystem::path& path, const std::string& key, const Plan& plan) {
  try {
    Writer body;
    body(key);
    plan.save(body);
    std::filesystem::create_directories(path.parent_path());
    remove_unfinished(path.parent_path());
    write_plan_file(path, text("in a cache folder: it may be deleted at any time\n", plan.describe()),
                    body.bytes);
    if (log_enabled(LogTopic::cache)) log(LogTopic::cache, text("plan kept in ", path.string()));
  } catch (const std::exception& error) {
    if (log_enabled(LogTopic::cache)) log(LogTopic::cache, text("a plan is not kept: ", error.what()));
  }
}

/// Builds, and tells the log how it went.
template <class Build>
std::unique_ptr<const Plan> build_logged(const Build& build, const CanonicalGraph& graph, Device device) {
  if (!log_enabled(LogTopic::plan)) return build();
  log(LogTopic::plan, text("building ", expression_text(graph, 200), " for ", device));
  const auto begin = std::chrono::steady_clock::now();
  auto milliseconds = [&] {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  };
  try {
    auto plan = build();
    log(LogTopic::plan, text("chosen after ", milliseconds(), " ms, workspace ", plan->workspace(),
                             " bytes:\n", plan->describe()));
    return plan;
  } catch (const std::exception& error) {
    log(LogTopic::plan, text("none after ", milliseconds(), " ms: ", error.what()));
    throw;
  }
}

}  // namespace

std::unique_ptr<const Plan> find_or_build_plan(const Backend& backend, const CanonicalGraph& graph,
                                               const CompileOptions& options, Device device,
                                               const std::function<Trial()>& trial) {
  const PlanOptions plan_options(options);
  auto build = [&] {
    auto chosen = [&] {
      return options.autotune == Autotune::on && device.is_cuda()
                 ? backend.tune(graph, plan_options, device, trial)
                 : backend.build(graph, plan_options, device);
    };
    return build_logged(chosen, graph, device);
  };
  const std::filesystem::path folder = cache_folder(options);
  const std::string environment = folder.empty() ? "" : backend.cache_key(plan_options, device);
  if (environment.empty()) return build();
  Writer key;
  key(std::string(STILETTO_VERSION), environment, graph);
  const std::filesystem::path path = folder / file_name(key.bytes);
  if (auto plan = find(path, key.bytes, backend, graph, device)) return plan;
  auto plan = build();
  keep(path, key.bytes, *plan);
  return plan;
}

}  // namespace stiletto::detail
