// SPDX-License-Identifier: Apache-2.0
// The options of a plan for an absent GPU, the error that says there is none, and what a plan without its GPU
// refuses to do.
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <limits>

#include "backends/cudnn/libraries.hpp"
#include "compiler/backend.hpp"
#include "plans/fixture.hpp"
#include "unit/trace_support.hpp"

namespace {

using plans::Array;
using plans::CompileOptions;
using plans::dense;
using plans::DType;
using plans::expect_part;
using plans::on_h200;
using plans::refusal;
using stiletto::Heuristic;
using stiletto::spec;
using stiletto::Target;
using stiletto::UnsupportedGraphError;

constexpr DType f16 = DType::float16, f32 = DType::float32;

Array softmax(const Array& x) { return stiletto::softmax(x); }

class PlanOptions : public plans::PlanTest {
 protected:
  const Array x = spec({64, 128}, f16), w = spec({128, 96}, f16);
};

/// What Graph::to_string() says of the engine that was chosen.
std::string plan_line(const stiletto::Graph& graph) {
  const std::string text = graph.to_string();
  const std::size_t at = text.find("plan\n");
  return at == std::string::npos ? text : text.substr(at + 5);
}

TEST_F(PlanOptions, the_plan_is_in_the_graph_text) {
  const auto f = stiletto::compile(on_h200(), dense, x, w);
  const std::string plan = plan_line(f.graph());
  expect_part(plan, "cudnn eng");
  expect_part(plan, "workspace " + std::to_string(f.workspace()) + " bytes");
}

// cuDNN's first choice for a long inner axis sums parts of it in scratch memory.
TEST_F(PlanOptions, max_workspace) {
  auto product = [](const Array& a, const Array& b) { return stiletto::matmul(a, b); };
  const Array a = spec({64, 65536}, f16), b = spec({65536, 64}, f16);
  CompileOptions options = on_h200();
  const std::size_t unlimited = stiletto::compile(options, product, a, b).workspace();
  ASSERT_GT(unlimited, 0U);
  for (const std::size_t limit : {std::size_t{0}, unlimited / 2, unlimited - 1, unlimited}) {
    options.max_workspace = limit;
    EXPECT_LE(stiletto::compile(options, product, a, b).workspace(), limit);
  }
  EXPECT_EQ(stiletto::compile(options, product, a, b).workspace(), unlimited);
  options.max_workspace = std::numeric_limits<std::size_t>::max();
  EXPECT_EQ(stiletto::compile(options, product, a, b).workspace(), unlimited);
}

// Where an option leaves no plan, the error names it.
TEST_F(PlanOptions, excluded_by) {
  auto total = [](const Array& a) { return stiletto::sum(a); };
  const Array long_row = spec({1 << 22}, f16);
  int plans = 0;
  for (const Heuristic heuristic : {Heuristic::a, Heuristic::b, Heuristic::fallback}) {
    CompileOptions options = on_h200();
    options.heuristics = {heuristic};
    if (!stiletto::supports(options, total, long_row).supported) continue;
    options.max_workspace = 0;
    try {
      EXPECT_EQ(stiletto::compile(options, total, long_row).workspace(), 0U);
      ++plans;
    } catch (const UnsupportedGraphError& error) {
      EXPECT_EQ(error.excluded_by, "max_workspace") << error.what();
      expect_part(error.what(), "(option max_workspace)");
    }
  }
  EXPECT_GT(plans, 0);
}

TEST_F(PlanOptions, deterministic) {
  CompileOptions options = on_h200();
  options.deterministic = true;
  EXPECT_NO_THROW(stiletto::compile(options, dense, x, w));
}

TEST_F(PlanOptions, heuristics) {
  CompileOptions options = on_h200();
  auto chain = [](const Array& a) { return stiletto::exp(a * -2.0f); };
  for (const Heuristic heuristic : {Heuristic::a, Heuristic::b, Heuristic::fallback}) {
    options.heuristics = {heuristic};
    EXPECT_NO_THROW(stiletto::compile(options, dense, x, w)) << static_cast<int>(heuristic);
  }
  options.heuristics = {Heuristic::fallback, Heuristic::b};
  EXPECT_NO_THROW(stiletto::compile(options, chain, x));
}

TEST_F(PlanOptions, autotune_needs_the_gpu) {
  CompileOptions options = on_h200();
  options.autotune = stiletto::Autotune::on;
  try {
    stiletto::compile(options, dense, x, w);
    ADD_FAILURE() << "there is a plan";
  } catch (const stiletto::DeviceError& error) {
    EXPECT_STREQ(
        error.what(),
        "compile: autotune times plans on the GPU, and NVIDIA H200 (sm_90) is not here; compile there, or "
        "leave autotune off");
  }
}

TEST_F(PlanOptions, targets_from_files) {
  const auto folder = std::filesystem::temp_directory_path();
  const auto path = folder / ("stiletto_target_" + std::to_string(::getpid()) + ".json");
  std::ofstream(path) << Target::named("h200").to_json();
  const CompileOptions options{.target = Target::from_file(path)};
  std::filesystem::remove(path);
  EXPECT_EQ(plan_line(stiletto::compile(options, dense, x, w).graph()),
            plan_line(stiletto::compile(on_h200(), dense, x, w).graph()));
  expect_part(refusal(options, softmax, x).target, "H200");
}

TEST_F(PlanOptions, without_a_gpu_the_error_names_the_option_target) {
  if (stiletto::detail::cudnn::has_driver()) GTEST_SKIP() << "there is a driver";
  try {
    (void)stiletto::compile(dense, x, w);
    FAIL() << "there is a plan";
  } catch (const stiletto::DeviceError& error) {
    expect_part(error.what(), "no NVIDIA driver was found");
    expect_part(error.what(), ", or plan for a GPU that is not here with the option target");
  }
}

TEST_F(PlanOptions, every_shipped_target_has_a_plan) {
  for (const std::string& name : Target::names()) {
    const auto options = CompileOptions{.target = Target::named(name)};
    EXPECT_NO_THROW(stiletto::compile(options, dense, x, w)) << name;
  }
}

TEST_F(PlanOptions, the_error_of_a_graph_without_a_plan) {
  const UnsupportedGraphError error = refusal(on_h200(), softmax, x);
  expect_part(error.graph, "softmax(%0, over j)");
  EXPECT_EQ(error.target, "NVIDIA H200 (sm_90)");
  EXPECT_EQ(error.library.rfind("cuDNN 9.", 0), 0U) << error.library;
  ASSERT_FALSE(error.reasons.empty());
  for (const stiletto::EngineReason& reason : error.reasons) {
    EXPECT_FALSE(reason.engine.empty());
    EXPECT_FALSE(reason.reason.empty());
    EXPECT_EQ(reason.reason.find('\n'), std::string::npos) << reason.reason;
    expect_part(error.what(), reason.reason);
  }
  EXPECT_FALSE(error.excluded_by.has_value());
  expect_part(error.what(), error.graph);
  expect_part(error.what(), error.target);
  expect_part(error.what(), error.library);
}

TEST_F(PlanOptions, a_reason_for_every_way_that_was_tried) {
  auto sum = [](const Array& a, const Array& b) { return a + stiletto::transpose(b); };
  const UnsupportedGraphError error = refusal(on_h200(), sum, spec({64, 128}, f32), spec({128, 64}, f32));
  ASSERT_GE(error.reasons.size(), 4U) << error.what();
  EXPECT_EQ(error.reasons[0].engine, "lowering, 1 x 64 x 128 and 1 x 64 x 128, behind a product of ones");
  EXPECT_EQ(error.reasons[1].engine, "lowering, 1 x 128 x 64");
  for (std::size_t i = 2; i + 1 < error.reasons.size(); ++i) {
    expect_part(error.reasons[i].engine, "eng");
    expect_part(error.reasons[i].engine, ", 64 x 128 x 1");
  }
  EXPECT_EQ(error.reasons.back().engine, "lowering, 64 x 1 x 128, other orders as products with a one");
  expect_part(error.reasons.back().reason, "float32 operands of a product are rounded");
}

TEST_F(PlanOptions, supports) {
  const stiletto::Support yes = stiletto::supports(on_h200(), dense, x, w);
  EXPECT_TRUE(yes.supported);
  EXPECT_EQ(yes.explanation, "");
  const stiletto::Support no = stiletto::supports(on_h200(), softmax, x);
  EXPECT_FALSE(no.supported);
  EXPECT_EQ(no.explanation, refusal(on_h200(), softmax, x).what());
}

TEST_F(PlanOptions, a_plan_without_its_gpu_is_not_executed) {
  if (stiletto::detail::cudnn::has_driver())
    GTEST_SKIP() << "with a driver on the machine the plan may be for the GPU that is there";
  namespace detail = stiletto::detail;
  const auto lowered = unit::lower(dense, x, w);
  const auto plan =
      detail::cudnn_backend().build(lowered.graph, detail::PlanOptions(on_h200()), stiletto::Device::cuda(0));
  try {
    plan->execute({});
    FAIL() << "it was executed";
  } catch (const stiletto::DeviceError& error) {
    EXPECT_STREQ(error.what(), "this plan was built for a GPU that is not here; it can only be inspected");
  }
}

TEST_F(PlanOptions, tf32_is_settled_when_the_libraries_are_open) {
  (void)stiletto::compile(on_h200(), dense, x, w);
  try {
    stiletto::set_allow_tf32(false);
    FAIL() << "it was taken";
  } catch (const stiletto::DeviceError& error) {
    EXPECT_STREQ(
        error.what(),
        "set_allow_tf32: the libraries for GPUs are open already, and read this as they open; call it "
        "at the start of the program, before any array, plan or target of a GPU");
  }
}

/// In a program of its own, since it holds for the whole process.
TEST(PlanOptionsDeathTest, without_tf32_float32_products_have_other_plans) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto say = [](const Array& a, const Array& b) {
    const stiletto::Support answer = stiletto::supports(on_h200(), dense, a, b);
    std::cerr << (answer.supported ? "a plan" : answer.explanation) << "\n";
  };
  EXPECT_EXIT(
      {
        stiletto::set_allow_tf32(false);
        say(spec({64, 128}, f16), spec({128, 96}, f16));
        say(spec({64, 128}, f32), spec({128, 96}, f32));
        std::exit(0);
      },
      testing::ExitedWithCode(0),
      "^a plan\n(a plan|.*option set_allow_tf32.; leave that option at its default)");
}

TEST_F(PlanOptions, a_target_wants_arrays_of_a_gpu) {
  try {
    stiletto::compile(on_h200(), dense, stiletto::ones({64, 128}), stiletto::ones({128, 96}));
    FAIL() << "there is a plan";
  } catch (const stiletto::DeviceError& error) {
    EXPECT_STREQ(error.what(),
                 "compile: the option target is a GPU, and the arrays are on cpu; pass spec(shape, dtype) or "
                 "arrays on a GPU");
  }
}

using PlanProfileDeathTest = PlanOptions;

TEST_F(PlanProfileDeathTest, a_compile_is_a_range_named_by_what_it_computes) {
#ifdef STILETTO_HAS_NVTX
  if (!std::filesystem::exists(STILETTO_NVTX_RECORDER))
    GTEST_SKIP() << "the recorder that plays a profiler is not on this machine: " << STILETTO_NVTX_RECORDER;
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  setenv("NVTX_INJECTION64_PATH", STILETTO_NVTX_RECORDER, 1);
  EXPECT_EXIT(
      {
        stiletto::compile(on_h200(), dense, x, w);
        std::_Exit(0);
      },
      testing::ExitedWithCode(0), "\\[ stiletto: compile relu.matmul.arg0, arg1..\n(.*\n)*\\]\n");
  unsetenv("NVTX_INJECTION64_PATH");
#else
  GTEST_SKIP() << "built without NVTX";
#endif
}

}  // namespace
