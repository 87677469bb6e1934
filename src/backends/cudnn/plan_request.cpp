// SPDX-License-Identifier: Apache-2.0
#include "backends/cudnn/plan_request.hpp"

#include "backends/cudnn/engine_archive.hpp"
#include "backends/cudnn/plan_builder_process.hpp"
#include "backends/cudnn/stored_graph.hpp"
#include "backends/cudnn/target.hpp"
#include "core/text.hpp"

namespace stiletto::detail {

template <class Archive, Archived<EngineReason> T>
void archive(Archive& ar, T& r) {
  ar(r.engine, r.reason);
}

namespace cudnn {

namespace {

struct Request {
  std::string target_name, target_json;
  int target_sm = 0;
  bool has_limit = false;
  std::uint64_t max_workspace = 0;
  bool deterministic = false;
  std::vector<Heuristic> heuristics;
  EngineGraph graph;
};
template <class Archive, Archived<Request> T>
void archive(Archive& ar, T& r) {
  ar(r.target_name, r.target_json, r.target_sm, r.has_limit, r.max_workspace, r.deterministic, r.heuristics,
     r.graph);
}

struct Answer {
  bool built = false;
  std::string engine, plan, excluded_by;
  std::uint64_t workspace = 0;
  std::vector<EngineReason> reasons;
};
template <class Archive, Archived<Answer> T>
void archive(Archive& ar, T& a) {
  ar(a.built, a.engine, a.plan, a.excluded_by, a.workspace, a.reasons);
}

/// What one side sent to the other.
template <class T>
T received(const std::string& bytes) {
  T message;
  try {
    Reader reader(bytes);
    reader(message);
    reader.end();
  } catch (const ArchiveError& error) {
    throw DeviceError(text("a message of the plan builder ", error.what()));
  }
  return message;
}

}  // namespace

ElsewhereResult build_elsewhere(const EngineGraph& graph, const PlanOptions& options,
                                const TargetProperties& target) {
  Request request;
  request.target_name = target.name;
  request.target_json = target.json;
  request.target_sm = target.sm;
  request.has_limit = options.max_workspace.has_value();
  request.max_workspace = options.max_workspace.value_or(0);
  request.deterministic = options.deterministic;
  request.heuristics = options.heuristics;
  request.graph = graph;
  Writer writer;
  writer(request);
  auto answer = received<Answer>(run_plan_builder(writer.bytes));
  ElsewhereResult result;
  result.reasons = answer.reasons;
  if (!answer.excluded_by.empty()) result.excluded_by = answer.excluded_by;
  if (answer.built)
    result.plan = std::make_unique<StoredGraph>(
        StoredPlan{answer.engine, static_cast<std::size_t>(answer.workspace), answer.plan});
  return result;
}

std::string answer_plan_request(const std::string& bytes) {
  const auto request = received<Request>(bytes);
  CompileOptions options;
  if (request.has_limit) options.max_workspace = static_cast<std::size_t>(request.max_workspace);
  options.deterministic = request.deterministic;
  options.heuristics = request.heuristics;
  const TargetProperties target{request.target_name, request.target_sm, request.target_json};
  Candidates candidates(request.graph, PlanOptions(options), nullptr, &target);
  const auto built = candidates.next();
  Answer answer;
  answer.built = built != nullptr;
  if (built) {
    answer.plan = built->serialize();
    answer.engine = built->engine();
    answer.workspace = built->workspace();
  }
  answer.reasons = candidates.reasons;
  answer.excluded_by = candidates.excluded_by.value_or("");
  Writer writer;
  writer(answer);
  return writer.bytes;
}

}  // namespace cudnn
}  // namespace stiletto::detail
