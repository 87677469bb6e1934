// SPDX-License-Identifier: Apache-2.0
#include "backends/cudnn/plan_request.hpp"

#include <limits>

#include "backends/cudnn/archive.hpp"
#include "backends/cudnn/plan_builder_process.hpp"
#include "backends/cudnn/target.hpp"

namespace stiletto::detail::cudnn {
// One function for both directions: Archive is Writer with const values or Reader, which find these by their
// own namespace.

template <class Archive, class T>
  requires std::is_same_v<std::remove_const_t<T>, EngineTensor>
void archive(Archive& ar, T& t) {
  ar(t.role), ar(t.source), ar(t.dtype), ar(t.dims), ar(t.strides), ar(t.alignment), ar(t.value);
}

template <class Archive, class T>
  requires std::is_same_v<std::remove_const_t<T>, EngineNode>
void archive(Archive& ar, T& n) {
  ar(n.op), ar(n.inputs), ar(n.output), ar(n.compute), ar(n.coefficient), ar(n.lower);
}

template <class Archive, class T>
  requires std::is_same_v<std::remove_const_t<T>, EngineReason>
void archive(Archive& ar, T& r) {
  ar(r.engine), ar(r.reason);
}

namespace {

struct Request {
  std::string target_name, target_json;
  int target_sm = 0;
  std::uint64_t max_workspace = std::numeric_limits<std::uint64_t>::max();  // that: no limit
  bool deterministic = false;
  std::vector<Heuristic> heuristics;
  EngineGraph graph;

  template <class Archive, class Self>
  static void fields(Archive& ar, Self& r) {
    ar(r.target_name), ar(r.target_json), ar(r.target_sm), ar(r.max_workspace), ar(r.deterministic);
    ar(r.heuristics), ar(r.graph.form), ar(r.graph.tensors), ar(r.graph.nodes);
  }
};

struct Answer {
  bool built = false;
  std::string engine, plan, excluded_by;
  std::uint64_t workspace = 0;
  std::vector<EngineReason> reasons;

  template <class Archive, class Self>
  static void fields(Archive& ar, Self& a) {
    ar(a.built), ar(a.engine), ar(a.plan), ar(a.excluded_by), ar(a.workspace), ar(a.reasons);
  }
};

/// A plan for another GPU: it can be looked at and kept.
class ElsewherePlan : public BuiltGraph {
 public:
  explicit ElsewherePlan(Answer answer) : answer_(std::move(answer)) {}
  std::size_t workspace() const override { return static_cast<std::size_t>(answer_.workspace); }
  std::string engine() const override { return answer_.engine; }
  void execute(cudnnContext*, const std::vector<void*>&, void*) const override { throw_absent_gpu(); }
  std::vector<std::uint8_t> serialize() const override { return {answer_.plan.begin(), answer_.plan.end()}; }

 private:
  Answer answer_;
};

}  // namespace

ElsewhereResult build_elsewhere(const EngineGraph& graph, const PlanOptions& options,
                                const TargetProperties& target) {
  Request request;
  request.target_name = target.name;
  request.target_json = target.json;
  request.target_sm = target.sm;
  if (options.max_workspace) request.max_workspace = *options.max_workspace;
  request.deterministic = options.deterministic;
  request.heuristics = options.heuristics;
  request.graph = graph;
  Writer writer;
  Request::fields(writer, std::as_const(request));
  const std::string bytes = run_plan_builder(writer.bytes);
  Reader reader(bytes);
  Answer answer;
  Answer::fields(reader, answer);
  ElsewhereResult result;
  result.reasons = answer.reasons;
  if (!answer.excluded_by.empty()) result.excluded_by = answer.excluded_by;
  if (answer.built) result.plan = std::make_unique<ElsewherePlan>(std::move(answer));
  return result;
}

std::string answer_plan_request(const std::string& bytes) {
  Reader reader(bytes);
  Request request;
  Request::fields(reader, request);
  CompileOptions options;
  if (request.max_workspace != std::numeric_limits<std::uint64_t>::max())
    options.max_workspace = static_cast<std::size_t>(request.max_workspace);
  options.deterministic = request.deterministic;
  options.heuristics = request.heuristics;
  const TargetProperties target{request.target_name, request.target_sm, request.target_json};
  Candidates candidates(request.graph, PlanOptions(options), nullptr, &target);
  const auto built = candidates.next();
  Answer answer;
  answer.built = built != nullptr;
  if (built) {
    const std::vector<std::uint8_t> plan = built->serialize();
    answer.plan.assign(plan.begin(), plan.end());
    answer.engine = built->engine();
    answer.workspace = built->workspace();
  }
  answer.reasons = candidates.reasons;
  answer.excluded_by = candidates.excluded_by.value_or("");
  Writer writer;
  Answer::fields(writer, std::as_const(answer));
  return writer.bytes;
}

}  // namespace stiletto::detail::cudnn
