// SPDX-License-Identifier: Apache-2.0
// Compiled calls in CUDA graphs, added as nodes or captured: they compute what calls do, with the memory and
// numbers that they were given last, whatever has been destroyed in between.
#include <optional>

#include "support/cuda_api.hpp"
#include "support/errors.hpp"
#include "support/raw_arrays.hpp"

namespace {

using namespace support;
using stiletto::Device;
using stiletto::StreamGuard;

const Device gpu = Device::cuda(0);

/// Multiples of 1/8 up to 1, of which sums of products are exact.
Array eighths(const stiletto::Shape& shape, int seed, DType dtype = DType::float16) {
  std::vector<float> values;
  const std::int64_t count = stiletto::empty(shape).size();
  for (std::int64_t i = 0; i < count; ++i)
    values.push_back(static_cast<float>((i * 7 + i / 13 + seed * 5) % 17 - 8) / 8);
  return stiletto::cast(stiletto::from_data(values, shape), dtype).to(gpu);
}
Bytes values_of(const Array& x) { return elements_of(x); }
void overwrite(const Array& x, const Array& by) {
  cuda_call("cudaMemcpy", x.raw_data(), static_cast<const void*>(by.raw_data()), x.nbytes(), 3);
}

Array layer(const Array& x, const Array& w, const Array& n) {
  return stiletto::relu(stiletto::matmul(x, w)) * n;
}

class GraphNodes : public testing::Test {
 protected:
  const Stream stream;
  const Array x = eighths({64, 128}, 1), w = eighths({128, 96}, 2);
};

TEST_F(GraphNodes, compute_what_calls_do) {
  const auto f = stiletto::compile(layer, x, w, 0.5F);
  auto [bindings, y] = f.bindings(x, w, 0.5F);
  OwnGraph graph;
  (void)stiletto::add_node(graph.get(), {}, f.graph(), bindings);
  graph.instantiate();
  for (const int seed : {1, 3, 4}) {
    overwrite(x, eighths({64, 128}, seed));
    graph.launch(stream);
    EXPECT_EQ(values_of(y), values_of(f(x, w, 0.5F))) << seed;
  }
}

TEST_F(GraphNodes, are_updated) {
  const auto f = stiletto::compile(layer, x, w, 0.5F);
  auto [bindings, y] = f.bindings(x, w, 0.5F);
  OwnGraph graph;
  CUgraphNode_st* const node = stiletto::add_node(graph.get(), {}, f.graph(), bindings);
  CUgraphExec_st* const executable = graph.instantiate();
  graph.launch(stream);
  const Bytes before = values_of(y);
  const Array other = eighths({64, 128}, 9), elsewhere = stiletto::zeros(y.shape(), y.dtype(), gpu);
  bindings.set("arg0", other);
  bindings.set("out0", elsewhere);
  graph.launch(stream);
  EXPECT_EQ(values_of(elsewhere), values_of(stiletto::zeros(y.shape(), y.dtype(), gpu)))
      << "before the update";
  stiletto::update_node(executable, node, f.graph(), bindings);
  graph.launch(stream);
  EXPECT_EQ(values_of(elsewhere), values_of(f(other, w, 0.5F)));
  EXPECT_EQ(values_of(y), before);
  for (const float number : {-1.0F, 0.25F, 8.0F}) {
    bindings.set("scalar0", number);
    stiletto::update_node(executable, node, f.graph(), bindings);
    (void)f(x, w, 77.0F);  // a number of another call must not get in
    graph.launch(stream);
    EXPECT_EQ(values_of(elsewhere), values_of(f(other, w, number))) << number;
  }
}

TEST_F(GraphNodes, depend_on_each_other) {
  const auto f = stiletto::compile(layer, x, w, 0.5F);
  const Array v = eighths({96, 128}, 5);
  auto first = f.bindings(x, w, 0.5F);
  const auto g = stiletto::compile(layer, first.outputs, v, 2.0F);
  auto second = g.bindings(first.outputs, v, 2.0F);
  OwnGraph graph;
  CUgraphNode_st* const before = stiletto::add_node(graph.get(), {}, f.graph(), first.bindings);
  CUgraphNode_st* const beside =
      stiletto::add_node(graph.get(), {}, f.graph(), f.bindings(x, w, 3.0F).bindings);
  CUgraphNode_st* const needed[] = {before, beside};
  (void)stiletto::add_node(graph.get(), needed, g.graph(), second.bindings);
  graph.instantiate();
  for (const int seed : {1, 3, 4}) {
    overwrite(x, eighths({64, 128}, seed));
    graph.launch(stream);
    EXPECT_EQ(values_of(second.outputs), values_of(g(f(x, w, 0.5F), v, 2.0F))) << seed;
  }
}

TEST_F(GraphNodes, outlive_what_they_were_made_of) {
  OwnGraph graph;
  Array y;
  Bytes expected;
  {
    const Array mine = eighths({64, 128}, 6);
    const auto f = stiletto::compile(layer, mine, w, 0.5F);
    expected = values_of(f(mine, w, 0.5F));
    auto bound = f.bindings(mine, w, 0.5F);
    y = bound.outputs;
    (void)stiletto::add_node(graph.get(), {}, f.graph(), bound.bindings);
  }
  graph.instantiate();
  graph.destroy_graph();
  for (int i = 0; i < 3; ++i) {
    std::vector<Array> others;  // would get the memory if it were free
    for (int k = 0; k < 8; ++k) others.push_back(stiletto::full({64, 128}, -1, DType::float16, gpu));
    graph.launch(stream);
    EXPECT_EQ(values_of(y), expected);
  }
}

TEST_F(GraphNodes, have_scratch_of_their_own) {
  const Array a = eighths({64, 65536}, 1), b = eighths({65536, 64}, 2), c = eighths({65536, 64}, 3);
  auto product = [](const Array& p, const Array& q) { return stiletto::matmul(p, q) * 0.0625F; };
  const auto f = stiletto::compile(product, a, b);
  EXPECT_GT(f.workspace(), 0U) << "this product is meant to take scratch";
  auto one = f.bindings(a, b), two = f.bindings(a, c);
  OwnGraph graph;
  (void)stiletto::add_node(graph.get(), {}, f.graph(), one.bindings);
  (void)stiletto::add_node(graph.get(), {}, f.graph(), two.bindings);
  graph.instantiate();
  const Bytes first = values_of(f(a, b)), second = values_of(f(a, c));
  for (int i = 0; i < 20; ++i) {
    graph.launch(stream);
    ASSERT_EQ(values_of(one.outputs), first);
    ASSERT_EQ(values_of(two.outputs), second);
  }
}

TEST_F(GraphNodes, store_in_place_and_fill) {
  const Array y = eighths({1000}, 1, DType::float32);
  const auto twice = stiletto::compile([](const Array& a) { stiletto::assign(a, a * 2.0F); }, y);
  const Array z = eighths({1000}, 2, DType::float32);
  const auto fill =
      stiletto::compile([](const Array& a, const Array& n) { stiletto::assign(a, n); }, z, 1.0F);
  auto filled = fill.bindings(z, 3.0F);
  OwnGraph graph;
  CUgraphNode_st* const first =
      stiletto::add_node(graph.get(), {}, twice.graph(), twice.bindings(y).bindings);
  CUgraphNode_st* const node = stiletto::add_node(graph.get(), {&first, 1}, fill.graph(), filled.bindings);
  CUgraphExec_st* const executable = graph.instantiate();
  const std::vector<float> start = y.to_vector<float>();
  graph.launch(stream);
  graph.launch(stream);
  for (std::size_t i = 0; i < start.size(); ++i) ASSERT_EQ(y.to_vector<float>()[i], 4 * start[i]) << i;
  EXPECT_EQ(z.to_vector<float>(), std::vector<float>(1000, 3));
  filled.bindings.set("scalar0", 5.0F);
  stiletto::update_node(executable, node, fill.graph(), filled.bindings);
  graph.launch(stream);
  EXPECT_EQ(z.to_vector<float>(), std::vector<float>(1000, 5));
}

TEST_F(GraphNodes, of_another_call_do_not_update) {
  const auto f = stiletto::compile(layer, x, w, 0.5F);
  const Array z = eighths({1000}, 2, DType::float32);
  const auto fill = stiletto::compile([](const Array& a) { stiletto::assign(a, 1); }, z);
  OwnGraph graph;
  CUgraphNode_st* const node =
      stiletto::add_node(graph.get(), {}, f.graph(), f.bindings(x, w, 0.5F).bindings);
  CUgraphExec_st* const executable = graph.instantiate();
  EXPECT_TRUE(throws<stiletto::DeviceError>(
      [&] { stiletto::update_node(executable, node, fill.graph(), fill.bindings(z).bindings); },
      {"update_node", "the call that add_node was given", "CUDA error"}));
}

// ---- captures ----

TEST_F(GraphNodes, a_call_that_has_to_be_compiled_leaves_the_capture_usable) {
  const StreamGuard guard(stream.get());
  auto cached = [](const Array& a) { return a * 0.25F; };
  auto uncached = [](const Array& a) { return a * a; };
  const Bytes expected = values_of(stiletto::jit(cached, x));
  CapturedGraph graph(stream);
  EXPECT_TRUE(throws<stiletto::ArgumentError>([&] { stiletto::jit(uncached, x); },
                                              {"being captured", "before the capture"}));
  EXPECT_TRUE(throws<stiletto::ArgumentError>([&] { stiletto::compile(uncached, x); }, {"being captured"}));
  const Array y = stiletto::jit(cached, x);
  ASSERT_EQ(graph.end(), 0) << "the capture was broken";
  graph.launch();
  EXPECT_EQ(values_of(y), expected);
  EXPECT_NO_THROW(stiletto::jit(uncached, x)) << "the refusal was remembered";
}

TEST_F(GraphNodes, in_place_calls_record_no_allocation) {
  const StreamGuard guard(stream.get());
  const Array a = eighths({64, 65536}, 1), b = eighths({65536, 64}, 2);
  const Array y = stiletto::zeros({64, 64}, DType::float16, gpu);
  auto store = [](const Array& to, const Array& p, const Array& q) {
    stiletto::matmul_into(to, p, q, 0.0625F);
  };
  const auto f = stiletto::compile(store, y, a, b);
  f(y, a, b);
  const Bytes expected = values_of(y);
  CapturedGraph graph(stream);
  f(y, a, b);
  ASSERT_EQ(graph.end(), 0);
  std::size_t count = 0;
  cuda_call("cudaGraphGetNodes", graph.get(), static_cast<void*>(nullptr), &count);
  std::vector<void*> nodes(count);
  cuda_call("cudaGraphGetNodes", graph.get(), static_cast<void*>(nodes.data()), &count);
  ASSERT_GT(count, 0U);
  for (void* node : nodes) {
    int type = -1;
    cuda_call("cudaGraphNodeGetType", node, &type);
    EXPECT_LT(type, 10) << "an allocation or a free";  // cudaGraphNodeTypeMemAlloc, MemFree
  }
  overwrite(y, stiletto::zeros({64, 64}, DType::float16, gpu));
  graph.launch();
  EXPECT_EQ(values_of(y), expected);
}

/// A plan and the weight that it captured are the graph's alone when it is launched.
TEST_F(GraphNodes, captured_calls_outlive_their_plan) {
  const StreamGuard guard(stream.get());
  std::optional<Array> weight = eighths({128, 96}, 8);
  auto call = [&] {
    return stiletto::jit([v = *weight](const Array& a) { return stiletto::matmul(a, v); }, x);
  };
  const Bytes expected = values_of(call());
  CapturedGraph graph(stream);
  const Array y = call();
  ASSERT_EQ(graph.end(), 0);
  weight.reset();
  stiletto::plan_cache().clear();
  std::vector<Array> others;  // would get the memory if it were free
  for (int k = 0; k < 8; ++k) others.push_back(stiletto::full({128, 96}, -1, DType::float16, gpu));
  for (int i = 0; i < 2; ++i) {
    overwrite(y, stiletto::zeros(y.shape(), y.dtype(), gpu));
    graph.launch();
    EXPECT_EQ(values_of(y), expected);
  }
}

TEST_F(GraphNodes, captured_bindings_are_rebound) {
  const StreamGuard guard(stream.get());
  const auto f = stiletto::compile(layer, x, w, 0.5F);
  auto [bindings, y] = f.bindings(x, w, 0.5F);
  f.graph().execute(bindings);
  CapturedGraph graph(stream);
  f.graph().execute(bindings);
  ASSERT_EQ(graph.end(), 0);
  const Array other = eighths({64, 128}, 9);
  bindings.set("arg0", other);
  bindings.set("scalar0", 2.0F);
  CapturedGraph again(stream);
  f.graph().execute(bindings);
  ASSERT_EQ(again.end(), 0);
  graph.launch();
  EXPECT_EQ(values_of(y), values_of(f(x, w, 0.5F)));
  graph.update(again);
  graph.launch();
  EXPECT_EQ(values_of(y), values_of(f(other, w, 2.0F)));
}

}  // namespace
