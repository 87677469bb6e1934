// SPDX-License-Identifier: Apache-2.0
// To and from cudnn-frontend on a GPU: a compiled graph executed with the program's own handle and stream,
// and a graph that the program wrote as a compiled function.
#include "stiletto/cudnn.hpp"

#include <unistd.h>

#include <filesystem>

#include "support/cuda_api.hpp"
#include "support/errors.hpp"
#include "support/frontend_graphs.hpp"
#include "support/raw_arrays.hpp"

namespace {

using namespace support;
using stiletto::Device;
using stiletto::from_cudnn_graph;
using stiletto::StreamGuard;

const Device gpu = Device::cuda(0);

/// Multiples of 1/8 up to 1, of which sums of products are exact.
Array eighths(const stiletto::Shape& shape, int seed) {
  std::vector<float> values;
  const std::int64_t count = stiletto::empty(shape).size();
  for (std::int64_t i = 0; i < count; ++i)
    values.push_back(static_cast<float>((i * 7 + i / 13 + seed * 5) % 17 - 8) / 8);
  return stiletto::cast(stiletto::from_data(values, shape), DType::float16).to(gpu);
}
/// relu(x·w + b)·n in float16 on the CPU, each element rounded once.
Array reference(const Array& x, const Array& w, const Array& b, float n) {
  return stiletto::jit(
      {.io_dtype = DType::float16},
      [](const Array& p, const Array& q, const Array& r, const Array& s) {
        return stiletto::relu(stiletto::matmul(p, q) + r) * s;
      },
      x.to(Device::cpu()), w.to(Device::cpu()), b.to(Device::cpu()), n);
}

class Frontend : public testing::Test {
 protected:
  const Stream stream;
  const Array x = eighths({1, 64, 128}, 1), w = eighths({1, 128, 96}, 2), b = eighths({1, 1, 96}, 3);
};

// ---- the graph behind a compiled function ----

TEST_F(Frontend, executing_by_hand_equals_calling) {
  const auto f =
      stiletto::compile([](const Array& p, const Array& q, const Array& r,
                           const Array& n) { return stiletto::relu(stiletto::matmul(p, q) + r) * n; },
                        x, w, b, 0.5F);
  auto [bindings, y] = f.bindings(x, w, b, 0.5F);
  const NativeGraph graph = stiletto::cudnn_graph(f.graph());
  const Handle handle(stream.get());
  const DeviceBuffer workspace(f.workspace() + 1);
  cuda_synchronize(nullptr);
  for (const float n : {0.5F, -2.0F}) {
    bindings.set("scalar0", n);
    execute(graph, handle, stiletto::variant_pack(bindings), workspace.get());
    cuda_synchronize(stream.get());
    EXPECT_EQ(elements_of(y), elements_of(f(x, w, b, n))) << n;
  }
  const Array other = eighths({1, 64, 128}, 7);
  cuda_synchronize(nullptr);
  bindings.set("arg0", other);
  execute(graph, handle, stiletto::variant_pack(bindings), workspace.get());
  cuda_synchronize(stream.get());
  EXPECT_EQ(elements_of(y), elements_of(f(other, w, b, -2.0F)));
}

TEST_F(Frontend, sums_by_hand) {
  const Array wide = eighths({64, 65536}, 4);
  const auto f = stiletto::compile([](const Array& p) { return stiletto::sum(p, 1); }, wide);
  auto [bindings, y] = f.bindings(wide);
  const Handle handle(stream.get());
  const DeviceBuffer workspace(f.workspace() + 1);
  cuda_synchronize(nullptr);
  execute(stiletto::cudnn_graph(f.graph()), handle, stiletto::variant_pack(bindings), workspace.get());
  cuda_synchronize(stream.get());
  EXPECT_EQ(elements_of(y), elements_of(f(wide)));
}

TEST_F(Frontend, the_graph_outlives_the_function) {
  NativeGraph graph;
  NativePack pack;
  std::size_t bytes = 0;
  Array y;
  stiletto::Bindings numbers;  // which it reads from there
  {
    const auto f =
        stiletto::compile([](const Array& p, const Array& q) { return stiletto::matmul(p, q) + 2; }, x, w);
    auto bound = f.bindings(x, w);
    graph = stiletto::cudnn_graph(f.graph());
    pack = stiletto::variant_pack(bound.bindings);
    bytes = f.workspace();
    y = bound.outputs;
    numbers = bound.bindings;
  }
  const Handle handle(stream.get());
  const DeviceBuffer workspace(bytes + 1);
  cuda_synchronize(nullptr);
  execute(graph, handle, pack, workspace.get());
  cuda_synchronize(stream.get());
  const Array expected =
      stiletto::jit([](const Array& p, const Array& q) { return stiletto::matmul(p, q) + 2; },
                    x.to(Device::cpu()), w.to(Device::cpu()));
  EXPECT_EQ(elements_of(y), elements_of(expected));
}

// ---- graphs of the program's own ----

using Function = Array(Array, Array, Array, Array);
const std::vector<std::int64_t> inputs{Layer::x, Layer::w, Layer::bias, Layer::factor}, outputs{Layer::y};

TEST_F(Frontend, a_described_graph_computes) {
  (void)stiletto::cudnn_version();
  const auto f = from_cudnn_graph<Function>(Layer{}.describe(), inputs, outputs);
  for (const float n : {0.5F, -2.0F}) {
    const Array y = f(x, w, b, n);
    EXPECT_TRUE(y.is_contiguous());
    EXPECT_EQ(elements_of(y), elements_of(reference(x, w, b, n))) << n;
  }
  const StreamGuard guard(stream.get());
  cuda_synchronize(nullptr);
  EXPECT_EQ(elements_of(f(x, w, b, 4.0F)), elements_of(reference(x, w, b, 4)));
}

TEST_F(Frontend, a_plan_of_the_programs_own_computes) {
  (void)stiletto::cudnn_version();
  const auto f = [&] {
    const NativeGraph graph = Layer{.output = Layer::Output::transposed, .factor_has_value = true}.describe();
    const Handle handle(stream.get());
    build(graph, handle.get());
    return from_cudnn_graph<std::tuple<Array>(Array, Array, Array)>(graph, {Layer::x, Layer::w, Layer::bias},
                                                                    outputs);
  }();
  const Array y = std::get<0>(f(x, w, b));
  EXPECT_EQ(y.strides()[1], 1);
  EXPECT_EQ(y.strides()[2], 64);
  EXPECT_EQ(elements_of(y), elements_of(reference(x, w, b, 2)));
}

TEST_F(Frontend, it_is_bound_captured_and_added_like_any_other) {
  (void)stiletto::cudnn_version();
  const auto f = from_cudnn_graph<Function>(Layer{}.describe(), inputs, outputs);
  auto [bindings, y] = f.bindings(x, w, b, 0.5F);
  f.graph().execute(bindings);
  EXPECT_EQ(elements_of(y), elements_of(reference(x, w, b, 0.5F)));
  const Array mine = stiletto::zeros(y.shape(), y.dtype(), gpu), other = eighths({1, 64, 128}, 7);
  bindings.set("out0", mine);
  bindings.set("arg0", other);
  bindings.set("scalar0", 3.0F);
  OwnGraph nodes;
  (void)stiletto::add_node(nodes.get(), {}, f.graph(), bindings);
  nodes.instantiate();
  cuda_synchronize(nullptr);
  nodes.launch(stream);
  EXPECT_EQ(elements_of(mine), elements_of(reference(other, w, b, 3)));
  cuda_call("cudaMemset", mine.raw_data(), 0, mine.nbytes());
  const Handle handle(stream.get());
  const DeviceBuffer workspace(f.workspace() + 1);
  cuda_synchronize(nullptr);
  execute(stiletto::cudnn_graph(f.graph()), handle, stiletto::variant_pack(bindings), workspace.get());
  cuda_synchronize(stream.get());
  EXPECT_EQ(elements_of(mine), elements_of(reference(other, w, b, 3)));
  const StreamGuard guard(stream.get());
  CapturedGraph captured(stream);
  const Array z = f(x, w, b, 0.25F);
  ASSERT_EQ(captured.end(), 0);
  captured.launch();
  EXPECT_EQ(elements_of(z), elements_of(reference(x, w, b, 0.25F)));
}

TEST_F(Frontend, it_is_saved_and_loaded) {
  (void)stiletto::cudnn_version();
  const auto path =
      std::filesystem::temp_directory_path() / ("stiletto_foreign_" + std::to_string(::getpid()));
  from_cudnn_graph<Function>(Layer{}.describe(), inputs, outputs).save(path);
  const auto f = stiletto::load<Function>(path);
  std::filesystem::remove(path);
  EXPECT_EQ(elements_of(f(x, w, b, -2.0F)), elements_of(reference(x, w, b, -2)));
  const auto [bindings, y] = f.bindings(x, w, b, 3.0F);
  const Handle handle(stream.get());
  const DeviceBuffer workspace(f.workspace() + 1);
  cuda_synchronize(nullptr);
  execute(stiletto::cudnn_graph(f.graph()), handle, stiletto::variant_pack(bindings), workspace.get());
  cuda_synchronize(stream.get());
  EXPECT_EQ(elements_of(y), elements_of(reference(x, w, b, 3)));
}

TEST_F(Frontend, its_arguments_are_checked) {
  (void)stiletto::cudnn_version();
  const auto f = from_cudnn_graph<Function>(Layer{}.describe(), inputs, outputs);
  EXPECT_TRUE(throws<stiletto::ShapeError>([&] { f(w, w, b, 1.0F); }, {"argument 0 (arg0)", "(1, 64, 128)"}));
  EXPECT_TRUE(throws<stiletto::ArgumentError>([&] { f(x.to(Device::cpu()), w, b, 1.0F); },
                                              {"argument 0 (arg0)", "cuda:0", "cpu"}));
  EXPECT_TRUE(throws<stiletto::ArgumentError>([&] { f(x, w, b, b); }, {"argument 3 (arg3)", "a number"}));
  const Array turned = stiletto::transpose(eighths({1, 96, 128}, 1), {0, 2, 1});
  EXPECT_TRUE(
      throws<stiletto::ArgumentError>([&] { f(x, turned, b, 1.0F); }, {"argument 1 (arg1)", "strides"}));
  auto bindings = f.bindings(x, w, b, 1.0F).bindings;
  const Array y = bindings.get("out0");
  const Array over = stiletto::as_strided(y, {1, 1, 96}, {96, 96, 1}, 0);
  bindings.set("arg2", over);
  EXPECT_TRUE(throws<stiletto::AliasError>([&] { f.graph().execute(bindings); }, {"out0", "arg2"}));
}

}  // namespace
