// SPDX-License-Identifier: Apache-2.0
// To and from cudnn-frontend without a GPU: the graph behind a plan, its pointers, and graphs that a program
// wrote itself. What they compute is tested on a GPU.
#include "stiletto/cudnn.hpp"

#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "backends/cudnn/libraries.hpp"
#include "backends/cudnn/target.hpp"
#include "compiler/executable.hpp"
#include "plans/fixture.hpp"
#include "support/frontend_graphs.hpp"
#include "unit/error_text.hpp"

namespace {

using plans::Array;
using plans::DType;
using plans::on_h200;
using stiletto::Device;
using stiletto::from_cudnn_graph;
using stiletto::spec;
using stiletto::Target;
using support::Attention;
using support::Layer;
using unit::expect_text;
namespace detail = stiletto::detail;

constexpr DType f16 = DType::float16, f32 = DType::float32;

class Frontend : public plans::PlanTest {};

/// An array of a GPU that is not here, at an address that is never looked at.
Array pretended(std::uintptr_t address, const stiletto::Shape& shape, DType dtype) {
  detail::ArrayBody body;
  body.dtype = dtype;
  body.device = Device::cuda(0);
  body.shape = shape;
  body.strides = detail::row_major(shape);
  body.storage = std::make_shared<detail::Storage>();
  body.storage->data = reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr)
  body.storage->device = body.device;
  return detail::ArrayAccess::make(std::move(body));
}

/// The graph for an H200, with a plan or on its way to one.
template <class Described>
support::NativeGraph for_h200(const Described& described) {
  (void)stiletto::cudnn_version();
  const auto graph = support::empty_graph();
  const Target h200 = Target::named("h200");
  support::set_target(graph, h200.to_json(), detail::TargetAccess::properties(h200).sm);
  return described.describe(graph);
}
using Function = Array(Array, Array, Array, Array);
const std::vector<std::int64_t> inputs{Layer::x, Layer::w, Layer::bias, Layer::factor}, outputs{Layer::y};

void* pointer_of(const support::NativePack& pack, std::int64_t uid) {
  for (const auto& [each, pointer] : pack)
    if (each == uid) return pointer;
  ADD_FAILURE() << "no uid " << uid;
  return nullptr;
}
std::vector<std::int64_t> uids_of(const support::NativePack& pack) {
  std::vector<std::int64_t> uids;
  for (const auto& [uid, pointer] : pack) uids.push_back(uid);
  std::sort(uids.begin(), uids.end());
  return uids;
}
bool points_to(const support::NativePack& pack, const Array& array) {
  return std::any_of(pack.begin(), pack.end(), [&](const auto& entry) {
    return entry.second == detail::ArrayAccess::body_or_null(array)->data();
  });
}

// ---- the graph behind a plan ----

TEST_F(Frontend, versions) {
  EXPECT_EQ(stiletto::cudnn_frontend_version(), support::frontend_version());
  EXPECT_GE(stiletto::cudnn_version(), detail::cudnn::minimum_cudnn_version);
}

TEST_F(Frontend, the_graph_behind_a_plan) {
  if (detail::cudnn::has_driver()) GTEST_SKIP() << "with a driver the plan is built in another process";
  support::NativeGraph graph;
  std::size_t workspace = 0;
  std::string text;
  {
    const auto f = stiletto::compile(
        on_h200(), [](const Array& x, const Array& w) { return stiletto::relu(stiletto::matmul(x, w)); },
        spec({64, 65536}, f16), spec({65536, 64}, f16));
    graph = stiletto::cudnn_graph(f.graph());
    workspace = f.workspace();
    text = f.graph().to_string();
  }
  EXPECT_EQ(support::uids_of(graph).size(), 3U);  // the plan is kept
  EXPECT_EQ(support::workspace_of(graph), static_cast<std::int64_t>(workspace));
  EXPECT_NE(text.find(support::plan_of(graph)), std::string::npos) << text;
}

TEST_F(Frontend, pointers_of_a_plan) {
  if (detail::cudnn::has_driver()) GTEST_SKIP() << "with a driver the plan is built in another process";
  const Array x = pretended(0x10000, {64, 128}, f16), w = pretended(0x20000, {128, 96}, f16);
  stiletto::CompileOptions options = on_h200();
  options.allocator = [](Device, const stiletto::Shape& shape, DType dtype) {
    return pretended(0x80000, shape, dtype);
  };
  const auto f = stiletto::compile(
      options,
      [](const Array& a, const Array& b, const Array& n) {
        return stiletto::clamp(stiletto::matmul(a, b) * n, 0, 6);
      },
      x, w, 2.5F);
  auto [bindings, y] = f.bindings(x, w, 2.5F);
  const auto pack = stiletto::variant_pack(bindings);
  EXPECT_EQ(uids_of(pack), support::uids_of(stiletto::cudnn_graph(f.graph())));
  for (const Array& array : {x, w, y}) EXPECT_TRUE(points_to(pack, array));
  auto has_number = [&](float value) {
    return std::any_of(pack.begin(), pack.end(), [&](const auto& entry) {
      if (points_to({entry}, x) || points_to({entry}, w) || points_to({entry}, y)) return false;
      return std::memcmp(entry.second, &value, sizeof value) == 0;
    });
  };
  EXPECT_TRUE(has_number(2.5F));
  EXPECT_TRUE(has_number(6)) << "a constant of the plan";
  bindings.set("scalar0", 4.0F);
  const Array other = pretended(0x40000, {64, 128}, f16);
  bindings.set("arg0", other);
  const auto after = stiletto::variant_pack(bindings);
  EXPECT_TRUE(points_to(after, other));
  EXPECT_FALSE(points_to(after, x));
  EXPECT_TRUE(has_number(4)) << "numbers stay where they are";
}

TEST_F(Frontend, sums_have_a_vector_of_ones) {
  if (detail::cudnn::has_driver()) GTEST_SKIP() << "with a driver the plan is built in another process";
  const Array x = pretended(0x10000, {64, 128}, f16);
  stiletto::CompileOptions options = on_h200();
  options.allocator = [](Device, const stiletto::Shape& shape, DType dtype) {
    return pretended(0x80000, shape, dtype);
  };
  const auto f = stiletto::compile(options, [](const Array& a) { return stiletto::sum(a, 1); }, x);
  const auto bound = f.bindings(x);
  EXPECT_EQ(stiletto::variant_pack(bound.bindings).size(), 3U);
}

TEST_F(Frontend, graphs_without_one) {
  expect_text([] { (void)stiletto::cudnn_graph({}); },
              "ArgumentError: cudnn_graph: this Graph is an empty handle; take it from a Compiled");
  expect_text(
      [] { (void)stiletto::variant_pack({}); },
      "ArgumentError: variant_pack: these Bindings are an empty handle; take them from a Compiled with "
      "bindings(args...)");
  const Array x = stiletto::ones({4});
  const auto on_cpu = stiletto::compile([](const Array& a) { return a + 1; }, x);
  expect_text(
      [&] { (void)stiletto::cudnn_graph(on_cpu.graph()); },
      "ArgumentError: cudnn_graph: this Graph runs on the CPU, where there is no cuDNN; compile it for "
      "arrays on a GPU");
  expect_text(
      [&] { (void)stiletto::variant_pack(on_cpu.bindings(x).bindings); },
      "ArgumentError: variant_pack: this Graph runs on the CPU, where there is no cuDNN; compile it for "
      "arrays on a GPU");
  const Array there = spec({4}, f32);
  const auto fill = stiletto::compile(on_h200(), [](const Array& a) { stiletto::assign(a, 1); }, there);
  expect_text(
      [&] { (void)stiletto::cudnn_graph(fill.graph()); },
      "ArgumentError: cudnn_graph: this Graph only fills memory, which takes no graph of cuDNN's; call it");
  const auto nothing = stiletto::compile(on_h200(), [](const Array& a) { return a; }, there);
  expect_text(
      [&] { (void)stiletto::cudnn_graph(nothing.graph()); },
      "ArgumentError: cudnn_graph: this Graph computes nothing, so that there is no graph of cuDNN's");
}

// ---- graphs of the program's own ----

TEST_F(Frontend, a_described_graph_is_built) {
  const auto graph = for_h200(Layer{});
  const auto f = from_cudnn_graph<Function>(graph, inputs, outputs);
  EXPECT_EQ(f.workspace(), static_cast<std::size_t>(support::workspace_of(graph)));
  EXPECT_EQ(stiletto::cudnn_graph(f.graph()), graph);
  EXPECT_EQ(f.graph().to_string(),
            "cudnn-frontend graph\n"
            "  arg0 = uid 11 (x): float16(1, 64, 128)\n"
            "  arg1 = uid 12 (w): float16(1, 128, 96)\n"
            "  arg2 = uid 13 (bias): float16(1, 1, 96)\n"
            "  arg3 = uid 14 (factor): float32 by value\n"
            "  out0 = uid 21 (y): float16(1, 64, 96)\n"
            "graph\n"
            "  axes i=64 j=128 k=96\n"
            "  %0 = arg0: float16[i,j] strides (128, 1)\n"
            "  %1 = arg1: float16[j,k] strides (96, 1)\n"
            "  %2 = arg2: float16[k] strides (1)\n"
            "  %3 = scalar0: float32\n"
            "  %4 = result 0 of all that is read: float16[i,k]\n"
            "  %4 -> out0: float16[i,k] strides (96, 1)\n"
            "plan\n"
            "  cudnn " +
                support::plan_of(graph) + ", a graph that was not traced, workspace " +
                std::to_string(f.workspace()) + " bytes\n");
  for (const char* const edge : {"v0 -> v4", "v1 -> v4", "v2 -> v4", "v3 -> v4", "v4 -> s0"})
    EXPECT_NE(f.graph().to_dot().find(edge), std::string::npos) << edge << f.graph().to_dot();
  EXPECT_NE(f.graph().to_html().find("result 0 of all that is read"), std::string::npos);
  EXPECT_NE(f.graph().to_json().find("\"op\": \"foreign\", \"dtype\": \"float16\", \"axes\": [\"i\", \"k\"], "
                                     "\"result\": 0"),
            std::string::npos)
      << f.graph().to_json();
}

TEST_F(Frontend, a_plan_that_is_there_is_kept) {
  const auto graph = for_h200(Layer{});
  support::build(graph, nullptr);
  const std::string plan = support::plan_of(graph);
  const auto f = from_cudnn_graph<Function>(graph, inputs, outputs);
  EXPECT_NE(f.graph().to_string().find(plan), std::string::npos);
  EXPECT_EQ(support::plan_of(graph), plan);
}

// Validation leaves the types that the program did not set to lowering, which turns the shapes of K and V.
TEST_F(Frontend, attention_however_far_it_has_been_built) {
  using Results = std::pair<Array, Array>(Array, Array, Array);
  for (const int steps : {0, 1, 2}) {
    const auto graph = for_h200(Attention{});
    if (steps == 1) support::lower(graph, nullptr);
    if (steps == 2) support::build(graph, nullptr);
    const auto f = from_cudnn_graph<Results>(graph, {Attention::q, Attention::k, Attention::v},
                                             {Attention::o, Attention::stats});
    const std::string text = f.graph().to_string();
    for (const char* const line :
         {"arg0 = uid 1 (Q): float16(1, 2, 64, 32)\n", "arg1 = uid 2 (K): float16(1, 2, 96, 32)\n",
          "arg2 = uid 3 (V): float16(1, 2, 96, 32)\n", "out0 = uid 4 (attention::O): float16(1, 2, 64, 32)\n",
          "out1 = uid 5 (attention::Stats): float32(1, 2, 64, 1)\n"})
      plans::expect_part(text, line);
  }
}

TEST_F(Frontend, the_backward_of_attention_however_far_it_has_been_built) {
  using Slopes = std::array<Array, 3>(Array, Array, Array, Array, Array, Array);
  for (const int steps : {0, 1, 2}) {
    const auto graph = for_h200(Attention{.backward = true});
    if (steps == 1) support::lower(graph, nullptr);
    if (steps == 2) support::build(graph, nullptr);
    const auto f = from_cudnn_graph<Slopes>(
        graph, {Attention::q, Attention::k, Attention::v, Attention::o, Attention::d_o, Attention::stats},
        {Attention::d_q, Attention::d_k, Attention::d_v});
    const std::string text = f.graph().to_string();
    for (const char* const line :
         {"arg1 = uid 2 (K): float16(1, 2, 96, 32)\n", "arg2 = uid 3 (V): float16(1, 2, 96, 32)\n",
          "out2 = uid 9 (backward::dV): float16(1, 2, 96, 32)\n"})
      plans::expect_part(text, line);
  }
}

TEST_F(Frontend, it_is_saved_and_loaded) {
  const auto f = from_cudnn_graph<Function>(for_h200(Layer{}), inputs, outputs);
  const auto path =
      std::filesystem::temp_directory_path() / ("stiletto_foreign_" + std::to_string(::getpid()));
  f.save(path);
  std::ifstream file(path, std::ios::binary);
  const std::string bytes(std::istreambuf_iterator<char>(file), {});
  EXPECT_NE(bytes.find("NVIDIA H200 (sm_90)"), std::string::npos);
  if (!detail::cudnn::has_driver()) {
    const auto g = stiletto::load<Function>(path);
    EXPECT_EQ(g.graph().to_string(), f.graph().to_string());
    EXPECT_EQ(g.workspace(), f.workspace());
    expect_text([&] { (void)stiletto::cudnn_graph(g.graph()); },
                "DeviceError: this plan was built for a GPU that is not here; it can only be inspected");
    const auto again = path.string() + "_again";
    g.save(again);
    std::ifstream second(again, std::ios::binary);
    EXPECT_EQ(std::string(std::istreambuf_iterator<char>(second), {}), bytes);
    std::filesystem::remove(again);
  }
  std::filesystem::remove(path);
}

TEST_F(Frontend, results_of_any_number) {
  using One = std::tuple<Array>(Array, Array, Array, Array);
  using Many = std::vector<Array>(Array, Array, Array, Array);
  EXPECT_NO_THROW(from_cudnn_graph<One>(for_h200(Layer{}), inputs, outputs));
  EXPECT_NO_THROW(from_cudnn_graph<Many>(for_h200(Layer{}), inputs, outputs));
}

TEST_F(Frontend, its_pointers) {
  const auto f = from_cudnn_graph<Function>(for_h200(Layer{}), inputs, outputs);
  const Array x = pretended(0x10000, {1, 64, 128}, f16), w = pretended(0x20000, {1, 128, 96}, f16),
              bias = pretended(0x30000, {1, 1, 96}, f16);
  const auto executable = detail::Executable::of(f.graph(), "test");
  const Array y = pretended(0x80000, {1, 64, 96}, f16);
  detail::BindingTable table;
  table.executable = executable;
  table.names = {"arg0", "arg1", "arg2", "scalar0", "out0"};
  table.memory = {x, w, bias, Array(1.5F), y};
  table.first_capture = table.first_number = 3;
  table.first_output = 4;
  table.argument_of = {0, 1, 2};
  table.number_bytes.resize(1);
  const auto pack = executable->native_pack(table);
  EXPECT_EQ(uids_of(pack), (std::vector<std::int64_t>{11, 12, 13, 14, 21}));
  EXPECT_EQ(pointer_of(pack, Layer::w),
            reinterpret_cast<void*>(0x20000));  // NOLINT(performance-no-int-to-ptr)
  EXPECT_EQ(pointer_of(pack, Layer::y),
            reinterpret_cast<void*>(0x80000));  // NOLINT(performance-no-int-to-ptr)
  float factor = 0;
  std::memcpy(&factor, pointer_of(pack, Layer::factor), sizeof factor);
  EXPECT_EQ(factor, 1.5F);
}

TEST_F(Frontend, arguments_are_checked) {
  const auto f = from_cudnn_graph<Function>(for_h200(Layer{}), inputs, outputs);
  const Array x = pretended(0x10000, {1, 64, 128}, f16), w = pretended(0x20000, {1, 128, 96}, f16),
              bias = pretended(0x30000, {1, 1, 96}, f16);
  expect_text(
      [&] { (void)f(w, w, bias, 2.0F); },
      "ShapeError: argument 0 (arg0) was compiled for shape (1, 64, 128), called with (1, 128, 96); compile "
      "with one like it, or use jit");
  expect_text(
      [&] { (void)f(pretended(0x10000, {1, 64, 128}, f32), w, bias, 2.0F); },
      "DTypeError: argument 0 (arg0) was compiled for float16(1, 64, 128), called with float32(1, 64, 128); "
      "cast it, or compile with one like it");
  expect_text([&] { (void)f(x, w, bias, bias); },
              "ArgumentError: argument 3 (arg3) was compiled as a number (float32), called with an array "
              "float16(1, 1, 96); pass item(), or compile with an array");
  expect_text(
      [&] { (void)f(x, w, pretended(0x30002, {1, 1, 96}, f16), 2.0F); },
      "ArgumentError: argument 2 (arg2) was compiled for memory aligned to 16 bytes, called with 2; copy() "
      "aligns it");
}

TEST_F(Frontend, what_a_signature_does_not_fit) {
  expect_text([] { from_cudnn_graph<Function>(nullptr, inputs, outputs); },
              "ArgumentError: from_cudnn_graph: the graph is a null pointer");
  expect_text(
      [] { from_cudnn_graph<Function>(for_h200(Layer{}), inputs, outputs, Device::cpu()); },
      "ArgumentError: from_cudnn_graph: the device is cpu; cuDNN's graphs run on a GPU: Device::cuda(0)");
  expect_text(
      [] { from_cudnn_graph<Array(Array)>(for_h200(Layer{}), inputs, outputs); },
      "ArgumentError: from_cudnn_graph: the signature has 1 argument, and 4 inputs are listed; give one uid "
      "for each, in order");
  expect_text(
      [] {
        from_cudnn_graph<std::pair<Array, Array>(Array, Array, Array, Array)>(for_h200(Layer{}), inputs,
                                                                              outputs);
      },
      "ArgumentError: from_cudnn_graph: the signature has 2 results, and 1 output is listed; give one uid "
      "for "
      "each, in order");
}

TEST_F(Frontend, uids_that_do_not_fit) {
  auto refused = [](const Layer& layer, std::vector<std::int64_t> in, std::vector<std::int64_t> out,
                    const std::string& text) {
    using Any = std::vector<Array>(Array, Array, Array, Array);
    expect_text(
        [&] {
          if (in.size() == 3)
            from_cudnn_graph<std::vector<Array>(Array, Array, Array)>(for_h200(layer), in, out);
          else
            from_cudnn_graph<Any>(for_h200(layer), in, out);
        },
        text);
  };
  refused({}, {Layer::x, Layer::w, Layer::bias, 99}, outputs,
          "ArgumentError: from_cudnn_graph: the graph has no tensor with uid 99; give tensors theirs with "
          "set_uid");
  refused({}, {Layer::x, Layer::w, Layer::bias, Layer::x}, outputs,
          "ArgumentError: from_cudnn_graph: uid 11 (x) is listed twice; list each input and output once");
  refused({}, inputs, {Layer::y, Layer::product},
          "ArgumentError: from_cudnn_graph: uid 31 (product) is a value inside the graph; call "
          "set_output(true) on "
          "it, or leave it out of the outputs");
  refused({}, inputs, {Layer::x},
          "ArgumentError: from_cudnn_graph: uid 11 (x) is read by the graph; list it among the inputs");
  refused({}, {Layer::x, Layer::w, Layer::bias, Layer::y}, outputs,
          "ArgumentError: from_cudnn_graph: uid 21 (y) is written by the graph; list it among the outputs");
  refused(
      {.factor_has_value = true}, inputs, outputs,
      "ArgumentError: from_cudnn_graph: uid 14 (factor) is a number that has its value; leave it out of the "
      "inputs");
  refused({.output = Layer::Output::bits}, inputs, outputs,
          "DTypeError: from_cudnn_graph: uid 21 (y) is of the type \"BOOLEAN\", which no array has");
  refused({.unused_rank = 9}, {Layer::x, Layer::w, Layer::bias, Layer::unused}, outputs,
          "ShapeError: from_cudnn_graph: uid 41 (spare) has 9 dimensions; arrays have up to 8");
  refused({.output = Layer::Output::gaps}, inputs, outputs,
          "ArgumentError: from_cudnn_graph: uid 21 (y) is written with strides (6400, 100, 1) for shape (1, "
          "64, 96), "
          "which leave gaps; outputs are allocated dense, in any order of axes");
  refused({}, {Layer::x, Layer::w, Layer::bias}, outputs,
          "ArgumentError: from_cudnn_graph: uid 14 (factor) is read by the graph and not listed; list it "
          "among the "
          "inputs, or give the number a value in the graph");
  refused({.factor_has_value = true}, {Layer::x, Layer::w, Layer::bias, Layer::unused}, outputs,
          "ArgumentError: from_cudnn_graph: uid 41 (spare) is not used by the graph; leave it out");
  refused({.unused_has_type = false}, {Layer::x, Layer::w, Layer::bias, Layer::unused}, outputs,
          "ArgumentError: from_cudnn_graph: uid 41 (spare) is not used by the graph; leave it out");
  refused({.unused_has_type = false, .has_types = false}, {Layer::x, Layer::w, Layer::bias, Layer::unused},
          outputs,
          "DTypeError: from_cudnn_graph: uid 41 (spare) has no data type; give it one with set_data_type, or "
          "the graph with set_io_data_type");
  refused(
      {}, inputs, {},
      "ArgumentError: from_cudnn_graph: uid 21 (y) is written by the graph and not listed; list it among the "
      "outputs");
}

TEST_F(Frontend, a_graph_without_an_engine) {
  try {
    from_cudnn_graph<Function>(for_h200(Layer{.in_float64 = true}), inputs, outputs);
    FAIL() << "there is a plan";
  } catch (const stiletto::UnsupportedGraphError& error) {
    EXPECT_FALSE(error.reasons.empty());
    EXPECT_EQ(error.target, "NVIDIA H200 (sm_90)");
    EXPECT_NE(error.graph.find("arg0: float64[i,j]"), std::string::npos) << error.what();
  }
}

TEST_F(Frontend, a_graph_for_no_gpu) {
  if (detail::cudnn::has_driver()) GTEST_SKIP() << "there is a GPU";
  (void)stiletto::cudnn_version();
  expect_text(
      [] { from_cudnn_graph<Function>(Layer{}.describe(), inputs, outputs); },
      "DeviceError: from_cudnn_graph: there is no GPU here to build the graph for; give it the properties of "
      "one with set_device_properties, or build its plans before");
}

}  // namespace
