// SPDX-License-Identifier: Apache-2.0
// Calls in CUDA graphs, added as nodes or captured: what is recorded, and what the graphs keep alive and for
// how long. The plan is a fill, which takes no cuDNN.
#include "backends/cudnn/fill_plan.hpp"
#include "backends/cudnn/graph_memory.hpp"
#include "backends/cudnn/memory.hpp"
#include "backends/cudnn/workspace.hpp"
#include "compiler/executable.hpp"
#include "support/cuda_api.hpp"
#include "support/raw_arrays.hpp"
#include "unit/error_text.hpp"
#include "unit/trace_support.hpp"

namespace {

using namespace support;
using stiletto::Bindings;
using stiletto::Device;
using stiletto::Graph;
using stiletto::StreamGuard;
using unit::expect_text;
namespace detail = stiletto::detail;
namespace cudnn = stiletto::detail::cudnn;

const Device gpu = Device::cuda(0);
constexpr std::size_t scratch = 256;

template <class Result, class... T>
Result fake(const char* name, T... arguments) {
  return reinterpret_cast<Result (*)(T...)>(cuda_symbol(name))(arguments...);
}
std::size_t used() { return fake<std::size_t>("fake_used"); }
void fail(const char* name, int error) { fake<void>("fake_fail", name, 1, error); }
std::string log() { return fake<const char*>("fake_log"); }
/// How often the log has a call.
int count(const std::string& call) {
  int times = 0;
  const std::string text = log();
  for (std::size_t at = text.find(call); at != std::string::npos; at = text.find(call, at + 1)) ++times;
  return times;
}

int plans = 0;  // alive

/// Fills, and takes scratch as cuDNN's plans do. Its end calls CUDA, as theirs may.
class TestPlan : public detail::Plan {
 public:
  explicit TestPlan(const detail::CanonicalGraph& graph) : fill_(cudnn::fill_plan(graph, gpu, true)) {
    ++plans;
  }
  TestPlan(const TestPlan&) = delete;
  TestPlan& operator=(const TestPlan&) = delete;
  ~TestPlan() override {
    --plans;
    cuda_call("cudaFree", static_cast<void*>(nullptr));
  }
  std::size_t workspace() const override { return scratch; }
  bool allows_in_place(std::size_t, std::size_t) const override { return true; }
  std::string describe() const override { return "test\n"; }
  void execute(const detail::Invocation& invocation) const override {
    const cudnn::StreamKey stream = cudnn::use_current_stream(0);
    cudnn::keep_with_capture(stream, invocation);
    (void)cudnn::workspace(0, stream.handle, scratch);
    fill_->execute(invocation);
  }

 private:
  std::unique_ptr<const Plan> fill_;
};

/// assign(x, number), with the bindings of one call.
struct FillCall {
  Graph graph;
  Bindings bindings;
  FillCall(const Array& x, float number) {
    unit::Recording recording;
    const Array destination = recording.like(x), value = recording.like(Array(number));
    stiletto::assign(destination, value);
    recording.trace.end();
    detail::Executable::Parts parts;
    parts.arguments = recording.trace.arguments();
    parts.lowered = detail::canonicalize(recording.trace, {});
    parts.plan = std::make_unique<TestPlan>(parts.lowered.graph);
    parts.device = gpu;
    const auto executable = detail::Executable::assemble(std::move(parts));
    const Array bound(number);
    const Array* const arguments[] = {&x, &bound};
    std::vector<Array> results;
    bindings = executable->bind(arguments, results);
    graph = detail::graph_of(executable);
  }
};

class GraphNodes : public testing::Test {
 protected:
  void SetUp() override {
    settle();
    used_before_ = used();
    fake<void>("fake_clear_log");
  }
  void TearDown() override {
    settle();
    EXPECT_EQ(used(), used_before_) << "memory was lost";
    EXPECT_EQ(plans, 0);
  }
  /// What graphs no longer keep goes, and what it frees.
  static void settle() {
    for (int i = 0; i < 2; ++i) (void)stiletto::empty({1}, DType::uint8, gpu);
    cudnn::free_kept_blocks();
  }
  std::size_t used_since() const { return used() - used_before_; }

 private:
  std::size_t used_before_ = 0;
};

Array memory(std::int64_t count) { return stiletto::empty({count}, DType::float32, gpu); }

TEST_F(GraphNodes, the_call_is_recorded) {
  const Array x = memory(1000);
  const FillCall call(x, 2);
  const OwnGraph graph;
  fake<void>("fake_clear_log");
  CUgraphNode_st* const first = stiletto::add_node(graph.get(), {}, call.graph, call.bindings);
  const std::string calls = log();
  const auto at = [&](const char* what) { return calls.find(what); };
  EXPECT_LT(at("BeginCapture s"), at("MemsetD32 1000 s")) << calls;
  EXPECT_LT(at("MemsetD32 1000 s"), at("EndCapture s")) << calls;
  EXPECT_LT(at("EndCapture s"), at("GraphAddChildGraphNode 0\n")) << calls;
  EXPECT_NE(at("GraphAddChildGraphNode 0\n"), std::string::npos) << calls;
  EXPECT_EQ(count("StreamCreate"), count("StreamDestroy")) << calls;
  CUgraphNode_st* const second = stiletto::add_node(graph.get(), {&first, 1}, call.graph, call.bindings);
  EXPECT_NE(first, second);
  EXPECT_EQ(count("GraphAddChildGraphNode 1\n"), 1);
}

TEST_F(GraphNodes, a_graph_keeps_plan_scratch_and_arrays) {
  {
    OwnGraph graph;
    {
      const Array x = memory(1000);
      const FillCall call(x, 2);
      (void)stiletto::add_node(graph.get(), {}, call.graph, call.bindings);
    }
    settle();
    EXPECT_EQ(plans, 1);
    EXPECT_EQ(used_since(), 4000 + scratch);
    (void)graph.instantiate();
    graph.destroy_graph();
    settle();
    EXPECT_EQ(plans, 1);
    EXPECT_EQ(used_since(), 4000 + scratch);
  }
  EXPECT_EQ(plans, 1) << "no CUDA function may be called as CUDA lets it go";
  settle();
  EXPECT_EQ(plans, 0);
  EXPECT_EQ(used_since(), 0U);
}

TEST_F(GraphNodes, an_update_changes_memory_and_numbers) {
  OwnGraph graph;
  Array other = memory(1000);
  FillCall call(memory(1000), 2);
  CUgraphNode_st* const node = stiletto::add_node(graph.get(), {}, call.graph, call.bindings);
  CUgraphExec_st* const executable = graph.instantiate();
  graph.destroy_graph();
  call.bindings.set("arg0", other);
  call.bindings.set("scalar0", 3.0F);
  settle();
  EXPECT_EQ(used_since(), 8000 + scratch) << "the executable has the old memory still";
  fake<void>("fake_clear_log");
  stiletto::update_node(executable, node, call.graph, call.bindings);
  EXPECT_EQ(count("GraphExecChildGraphNodeSetParams"), 1) << log();
  EXPECT_EQ(other.to_vector<float>(), std::vector<float>(1000, 3)) << "what was recorded";
  call = FillCall(memory(1), 0);
  other = {};
  settle();
  EXPECT_EQ(used_since(), 4000 + 4 + scratch) << "the old memory is gone, the new one is kept";
}

TEST_F(GraphNodes, a_captured_call_keeps_its_plan) {
  const Stream stream;
  const Array x = memory(100);
  {
    const StreamGuard guard(stream.get());
    CapturedGraph graph(stream);
    {
      const FillCall call(x, 2);
      call.graph.execute(call.bindings);
    }
    EXPECT_EQ(graph.end(), 0);
    settle();
    EXPECT_EQ(plans, 1);
  }
  settle();
  EXPECT_EQ(plans, 0);
}

TEST_F(GraphNodes, what_was_kept_does_not_go_during_a_capture) {
  const Stream stream;
  const StreamGuard guard(stream.get());
  {
    const OwnGraph graph;
    const FillCall call(memory(100), 2);
    (void)stiletto::add_node(graph.get(), {}, call.graph, call.bindings);
  }
  CapturedGraph graph(stream);
  (void)memory(1);
  EXPECT_EQ(plans, 1);
  EXPECT_EQ(graph.end(), 0);
}

TEST_F(GraphNodes, nothing_to_compute_is_an_empty_node) {
  const Array x = memory(4);
  detail::Executable::Parts parts;
  parts.device = gpu;
  const auto executable = detail::Executable::assemble(std::move(parts));
  std::vector<Array> results;
  const Bindings bindings = executable->bind({}, results);
  const Graph call = detail::graph_of(executable);
  OwnGraph graph;
  CUgraphNode_st* const node = stiletto::add_node(graph.get(), {}, call, bindings);
  EXPECT_EQ(count("GraphAddEmptyNode 0\n"), 1);
  stiletto::update_node(graph.instantiate(), node, call, bindings);
  EXPECT_EQ(count("SetParams"), 0);
}

TEST_F(GraphNodes, what_is_refused) {
  const Array x = memory(4);
  const FillCall call(x, 2), other(x, 2);
  OwnGraph graph;
  const Array here = stiletto::ones({4});
  const auto on_cpu = stiletto::compile([](const Array& a) { return a + 1; }, here);
  expect_text([&] { stiletto::add_node(nullptr, {}, call.graph, call.bindings); },
              "ArgumentError: add_node: the CUDA graph is a null pointer");
  expect_text([&] { stiletto::add_node(graph.get(), {}, {}, call.bindings); },
              "ArgumentError: add_node: this Graph is an empty handle; take it from a Compiled");
  expect_text(
      [&] { stiletto::add_node(graph.get(), {}, call.graph, other.bindings); },
      "ArgumentError: add_node: these bindings belong to another graph; take them from the same Compiled");
  expect_text([&] { stiletto::add_node(graph.get(), {}, on_cpu.graph(), on_cpu.bindings(here).bindings); },
              "ArgumentError: add_node: this Graph runs on the CPU, and the nodes of a CUDA graph on a GPU; "
              "compile it for arrays on a GPU");
  fail("GraphAddChildGraphNode", 1);
  expect_text([&] { stiletto::add_node(graph.get(), {}, call.graph, call.bindings); },
              "DeviceError: add_node: CUDA error 1 (fake error) on cuda:0");
  fail("GraphRetainUserObject", 1);
  expect_text([&] { stiletto::add_node(graph.get(), {}, call.graph, call.bindings); },
              "DeviceError: giving memory to a captured graph: CUDA error 1 (fake error) on cuda:0");
  fail("EndCapture", 901);
  expect_text([&] { stiletto::add_node(graph.get(), {}, call.graph, call.bindings); },
              "DeviceError: add_node: CUDA could not record the call");
  CUgraphNode_st* const node = stiletto::add_node(graph.get(), {}, call.graph, call.bindings);
  CUgraphExec_st* const executable = graph.instantiate();
  expect_text([&] { stiletto::update_node(nullptr, node, call.graph, call.bindings); },
              "ArgumentError: update_node: the executable CUDA graph is a null pointer");
  expect_text([&] { stiletto::update_node(executable, nullptr, call.graph, call.bindings); },
              "ArgumentError: update_node: the node is a null pointer");
  expect_text([&] { stiletto::update_node(executable, node, call.graph, other.bindings); },
              "ArgumentError: update_node: these bindings belong to another graph; take them from the same "
              "Compiled");
  fail("GraphExecChildGraphNodeSetParams", 1);
  expect_text(
      [&] { stiletto::update_node(executable, node, call.graph, call.bindings); },
      "DeviceError: update_node, with the call that add_node was given and an executable of that graph: "
      "CUDA error 1 (fake error) on cuda:0");
}

TEST_F(GraphNodes, a_call_that_has_to_be_compiled_during_a_capture) {
  const Stream stream;
  const StreamGuard guard(stream.get());
  const Array x = memory(4);
  const std::size_t entries = stiletto::plan_cache().entries();
  CapturedGraph graph(stream);
  const std::string text =
      "ArgumentError: compile: a plan cannot be built while the current stream is being captured; do it "
      "before "
      "the capture (jit then finds the plan)";
  expect_text([&] { stiletto::jit([](const Array& a) { return a * 2; }, x); }, text);
  expect_text([&] { stiletto::compile([](const Array& a) { return a * 2; }, x); }, text);
  EXPECT_EQ(stiletto::plan_cache().entries(), entries);
  const Array y = memory(4);
  EXPECT_EQ(graph.end(), 0) << "the capture was broken";
}

}  // namespace
