// SPDX-License-Identifier: Apache-2.0
// Plans as files on a GPU: built where there was none, saved here, kept in a cache folder, and chosen by
// time.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "stiletto/log.hpp"
#include "stiletto/stiletto.hpp"
#include "support/cuda_api.hpp"
#include "support/errors.hpp"
#include "support/saved_functions.hpp"

namespace {

namespace fs = std::filesystem;
using stiletto::Array;
using stiletto::Autotune;
using stiletto::CompileOptions;
using stiletto::Device;
using stiletto::DType;
using stiletto::LogTopic;
using stiletto::Target;
using support::throws;
using Floats = std::vector<float>;

const Device gpu = Device::cuda(0);

Floats floats(const Array& x) {
  return stiletto::cast(x.to(Device::cpu()), DType::float32).to_vector<float>();
}

void expect_near(const Floats& found, const Floats& expected, double tolerance) {
  ASSERT_EQ(found.size(), expected.size());
  double largest = 0, error = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(expected[i])));
    error = std::max(error, std::abs(static_cast<double>(found[i]) - static_cast<double>(expected[i])));
  }
  EXPECT_LE(error, tolerance * largest);
}

class SavedOnDevice : public testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(folder);
    stiletto::set_log({LogTopic::cache, LogTopic::autotune},
                      [this](LogTopic, const std::string& text) { log += text + "\n"; });
  }
  void TearDown() override {
    stiletto::set_log({});
    fs::remove_all(folder);
  }
  bool logged(const std::string& part) const { return log.find(part) != std::string::npos; }

  const fs::path folder = fs::temp_directory_path() / ("stiletto-device-" + std::to_string(getpid()));
  std::string log;
};

TEST_F(SavedOnDevice, plans_built_without_a_gpu) {
  const char* const plans = std::getenv("STILETTO_SAVED_PLANS");
  if (plans == nullptr)
    GTEST_SKIP() << "STILETTO_SAVED_PLANS names no folder of plans (stiletto_plans_tests --save FOLDER)";
  if (Target::current() == Target::named("h200") ||
      Target::current().to_json().find("H200") != std::string::npos) {
    for (const support::SavedFunction& f : support::saved_functions()) {
      SCOPED_TRACE(f.name);
      const Array a = saved_argument(f, 0), b = saved_argument(f, 1), c = saved_argument(f, 2);
      const auto loaded = stiletto::load<Array(Array, Array, Array)>(fs::path(plans) / f.file());
      const Array on_gpu = loaded(a.to(gpu), b.to(gpu), c.to(gpu));
      expect_near(floats(on_gpu), floats(stiletto::jit(f.function, a, b, c)), f.tolerance);
    }
  } else {
    EXPECT_TRUE(throws<stiletto::DeviceError>(
        [&] {
          stiletto::load<Array(Array, Array, Array)>(fs::path(plans) / support::saved_functions()[0].file());
        },
        {"this plan was built for NVIDIA H200 (sm_90), and here is ", "; compile it here"}));
  }
}

TEST_F(SavedOnDevice, a_plan_saved_here_is_the_same_plan) {
  for (const support::SavedFunction& f : support::saved_functions()) {
    SCOPED_TRACE(f.name);
    const Array a = saved_argument(f, 0).to(gpu), b = saved_argument(f, 1).to(gpu),
                c = saved_argument(f, 2).to(gpu);
    const auto compiled = stiletto::compile(f.function, a, b, c);
    compiled.save(folder / f.file());
    const auto loaded = stiletto::load<Array(Array, Array, Array)>(folder / f.file());
    EXPECT_EQ(floats(loaded(a, b, c)), floats(compiled(a, b, c)));
    EXPECT_EQ(loaded.graph().to_string(), compiled.graph().to_string());
    loaded.save(folder / "again.plan");
    EXPECT_EQ(floats(stiletto::load<Array(Array, Array, Array)>(folder / "again.plan")(a, b, c)),
              floats(compiled(a, b, c)));
  }
}

TEST_F(SavedOnDevice, a_plan_of_another_gpu_is_refused) {
  const Target other = Target::named("b200");
  if (Target::current() == other) GTEST_SKIP() << "this is the other GPU";
  const Array x = stiletto::spec({64, 64}, DType::float16);
  stiletto::compile(
      {.target = other}, [](const Array& a) { return stiletto::matmul(a, a); }, x)
      .save(folder / "b200.plan");
  EXPECT_TRUE(throws<stiletto::DeviceError>(
      [&] { stiletto::load<Array(Array)>(folder / "b200.plan"); },
      {"b200.plan: this plan was built for NVIDIA B200 (sm_100), and here is ", "; compile it here"}));
}

TEST_F(SavedOnDevice, the_cache_folder_serves_jit_and_compile) {
  const support::SavedFunction f = support::saved_functions()[0];
  const Array a = saved_argument(f, 0).to(gpu), b = saved_argument(f, 1).to(gpu),
              c = saved_argument(f, 2).to(gpu);
  const CompileOptions options{.cache_folder = folder};
  const Floats expected = floats(stiletto::compile(options, f.function, a, b, c)(a, b, c));
  EXPECT_TRUE(logged("plan kept in ")) << log;
  log.clear();
  EXPECT_EQ(floats(stiletto::compile(options, f.function, a, b, c)(a, b, c)), expected);
  EXPECT_TRUE(logged("plan from ")) << log;
  stiletto::plan_cache().clear();
  log.clear();
  EXPECT_EQ(floats(stiletto::jit(options, f.function, a, b, c)), expected);
  EXPECT_TRUE(logged("plan from ")) << log;
}

TEST_F(SavedOnDevice, a_constant_needs_no_file_of_cudnn) {
  auto f = [](const Array& y, const Array& s) { stiletto::assign(y, s * 2); };
  const Array y = stiletto::zeros({100}, DType::float32, gpu);
  stiletto::compile(f, y, 1.5).save(folder / "fill.plan");
  stiletto::load<void(Array, Array)>(folder / "fill.plan")(y, 4.0);
  EXPECT_EQ(floats(y), Floats(100, 8));
}

TEST_F(SavedOnDevice, autotune_keeps_the_fastest_and_remembers_it) {
  auto f = [](const Array& x, const Array& w, const Array& b) {
    return stiletto::gelu_tanh(stiletto::matmul(x, w) + b);
  };
  auto made = [](const stiletto::Shape& shape, double scale) {
    std::vector<float> values;
    std::int64_t count = 1;
    for (const std::int64_t extent : shape) count *= extent;
    for (std::int64_t i = 0; i < count; ++i)
      values.push_back(static_cast<float>((i * 37 % 101 - 50) * scale));
    return stiletto::cast(stiletto::from_data(values, shape), DType::bfloat16).to(gpu);
  };
  const Array x = made({1024, 1024}, 0.001), w = made({1024, 1024}, 0.01), b = made({1024}, 0.02);
  const CompileOptions options{.autotune = Autotune::on, .cache_folder = folder};
  const auto tuned = stiletto::compile(options, f, x, w, b);
  const std::string text = tuned.graph().to_string();
  EXPECT_NE(text.find("autotune: the fastest of "), std::string::npos) << text;
  EXPECT_TRUE(logged(" us  cudnn eng")) << log;
  expect_near(floats(tuned(x, w, b)), floats(stiletto::compile(f, x, w, b)(x, w, b)), 1.6e-2);
  log.clear();
  const auto again = stiletto::compile(options, f, x, w, b);
  EXPECT_FALSE(logged(" us  ")) << "nothing is timed again: " << log;
  EXPECT_EQ(again.graph().to_string(), text);
  EXPECT_EQ(floats(again(x, w, b)), floats(tuned(x, w, b)));
}

TEST_F(SavedOnDevice, autotune_writes_nothing_of_the_callers) {
  auto f = [](const Array& y, const Array& x) { stiletto::assign(y, y * 0.5F + x); };
  const Array y = stiletto::full({512, 1024}, 3, DType::float32, gpu);
  const Array x = stiletto::full({512, 1024}, 1, DType::float32, gpu);
  const auto tuned = stiletto::compile({.autotune = Autotune::on}, f, y, x);
  EXPECT_EQ(floats(y), Floats(512 * 1024, 3)) << "compiling leaves the destination alone";
  tuned(y, x);
  EXPECT_EQ(floats(y), Floats(512 * 1024, 2.5));
  stiletto::jit({.autotune = Autotune::on}, f, y, x);
  EXPECT_EQ(floats(y), Floats(512 * 1024, 2.25)) << "jit's first call does its work once";
}

TEST_F(SavedOnDevice, autotune_takes_views_and_captures) {
  const Array base = stiletto::full({256, 512}, 2, DType::float32, gpu);
  const Array part = stiletto::slice(base, {{}, {128, 384}});
  const Array captured = stiletto::full({256}, 1, DType::float32, gpu);
  auto f = [&](const Array& to, const Array& s) {
    stiletto::assign(to, stiletto::square(to) * s + captured);
  };
  const auto tuned = stiletto::compile({.autotune = Autotune::on}, f, part, 3.0);
  EXPECT_EQ(floats(base), Floats(256 * 512, 2));
  tuned(part, 3.0);
  EXPECT_EQ(floats(part), Floats(256 * 256, 13));
}

TEST_F(SavedOnDevice, autotune_wants_memory) {
  EXPECT_TRUE(throws<stiletto::ArgumentError>(
      [&] {
        stiletto::compile(
            {.autotune = Autotune::on}, [](const Array& a) { return a + 1; },
            stiletto::spec({8}, DType::float32));
      },
      {"compile: autotune times plans on the arguments, and arg0 is a spec; pass arrays with memory, or "
       "leave "
       "autotune off"}));
}

}  // namespace
