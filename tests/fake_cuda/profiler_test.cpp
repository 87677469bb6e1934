// SPDX-License-Identifier: Apache-2.0
// What a profiler is told of executions: each test is a process whose profiler writes on standard error.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>

#include "backends/cudnn/cudnn_plan.hpp"
#include "backends/cudnn/lower.hpp"
#include "backends/cudnn/profiler_range.hpp"
#include "unit/trace_support.hpp"

namespace stiletto::detail::cudnn {

/// There is no cuDNN here to make a handle.
// NOLINTNEXTLINE(bugprone-reserved-identifier): the name that the linker's --wrap gives
cudnnContext* no_handle(int,
                        CUstream_st*) __asm__("__wrap__ZN8stiletto6detail5cudnn10handle_forEiP11CUstream_st");
cudnnContext* no_handle(int, CUstream_st*) { return nullptr; }

}  // namespace stiletto::detail::cudnn

namespace {

namespace detail = stiletto::detail;
namespace cudnn = stiletto::detail::cudnn;
using stiletto::Array;

/// A plan of cuDNN's that only says that it runs.
class SpokenGraph : public cudnn::BuiltGraph {
 public:
  std::size_t workspace() const override { return 0; }
  std::string engine() const override { return "spoken"; }
  void execute(cudnnContext*, const std::vector<void*>&, void*) const override {
    std::fputs("executing\n", stderr);
  }
  std::string serialize() const override { return {}; }
  cudnn_frontend::graph::Graph* native() const override { return nullptr; }
};

std::string profiled(const std::string& expected) {
#ifdef STILETTO_HAS_NVTX
  setenv("NVTX_INJECTION64_PATH", STILETTO_NVTX_RECORDER, 1);
  return expected;
#else
  (void)expected;
  return "executing\n";
#endif
}

template <class F>
void execute(F f) {
  const detail::CanonicalGraph graph =
      unit::lower(f, unit::on_cpu({64, 64}), unit::on_cpu({64, 64}), unit::on_cpu({64})).graph;
  std::string refusal;
  const cudnn::CudnnPlan plan(cudnn::lower(graph, cudnn::geometries(graph, refusal).at(0)),
                              std::make_unique<SpokenGraph>(), {}, 0, true);
  float memory = 0;
  std::vector<void*> tensors(graph.tensors.size(), &memory), stores(graph.stores.size(), &memory);
  plan.execute({tensors, stores, {}, nullptr});
  std::_Exit(0);
}

TEST(ProfilerDeathTest, an_execution_is_a_range_named_by_what_it_computes) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const std::string wanted = profiled("\\[ stiletto: gelu.matmul.arg0, arg1. . arg2.\nexecuting\n\\]\n");
  EXPECT_EXIT(execute([](const Array& x, const Array& w, const Array& b) {
                return stiletto::gelu(matmul(x, w) + b);
              }),
              testing::ExitedWithCode(0), wanted);
}

TEST(ProfilerDeathTest, a_long_name_is_cut) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const std::string wanted = profiled(
      "\\[ stiletto: arg0 . arg1 . arg2 . arg0 . arg1 . arg2 . arg0 . arg1 . arg2 . "
      "arg0...\nexecuting\n\\]\n");
  EXPECT_EXIT(execute([](const Array& x, const Array& w, const Array& b) {
                Array y = x + w + b;
                for (int i = 0; i < 5; ++i) y = y + x + w + b;
                return y;
              }),
              testing::ExitedWithCode(0), wanted);
}

}  // namespace
