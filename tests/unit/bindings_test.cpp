// SPDX-License-Identifier: Apache-2.0
// Bindings and Graph: every tensor of a graph by name, what may be put in its place, and executing the graph
// on them, which is what a call does.
#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

#include "stiletto/stiletto.hpp"

namespace {

using stiletto::Array;
using stiletto::Bindings;
using stiletto::compile;
using stiletto::Device;
using stiletto::DType;
using stiletto::Slice;
using Floats = std::vector<float>;
using Names = std::vector<std::string>;

TEST(BoundGraph, names_every_tensor) {
  const Array x = stiletto::ones({2, 3}), w = stiletto::ones({3}), v = stiletto::ones({3});
  auto f = [&](const Array& a, const Array& s, const std::tuple<Array, Array>& t,
               const std::vector<Array>& list) {
    return std::pair<Array, Array>(a * s + std::get<0>(t) * std::get<1>(t) + list[0] + list[1], a + w * v);
  };
  const std::tuple<Array, float> t(w, 4.0F);
  const std::vector<Array> list{w, v};
  const auto c = compile(f, x, 2.0F, t, list);
  const auto bound = c.bindings(x, Array(2.0F), std::tuple<Array, Array>(w, 4.0F), list);
  EXPECT_EQ(bound.bindings.names(), (Names{"arg0", "arg2.0", "arg3.0", "arg3.1", "capture0", "capture1",
                                           "scalar0", "scalar1", "out0", "out1"}));
  EXPECT_EQ(bound.bindings.get("arg0").raw_data(), x.raw_data());
  EXPECT_EQ(bound.bindings.get("arg2.0").raw_data(), w.raw_data());
  EXPECT_EQ(bound.bindings.get("arg3.1").raw_data(), v.raw_data());
  EXPECT_EQ(bound.bindings.get("capture0").raw_data(), w.raw_data());
  EXPECT_EQ(bound.bindings.get("scalar0").item<float>(), 2);
  EXPECT_EQ(bound.bindings.get("scalar1").item<float>(), 4);
  EXPECT_EQ(bound.bindings.get("out0").raw_data(), bound.outputs.first.raw_data());
  EXPECT_EQ(bound.bindings.get("out1").raw_data(), bound.outputs.second.raw_data());
}

TEST(BoundGraph, executing_is_calling) {
  const Array x = stiletto::full({4}, 3);
  auto f = [](const Array& a, const Array& s) { return stiletto::exp(a) * s + 1; };
  const auto c = compile(f, x, 2.0);
  const auto bound = c.bindings(x, 5.0);
  c.graph().execute(bound.bindings);
  EXPECT_EQ(bound.outputs.to_vector<float>(), c(x, 5.0).to_vector<float>());
  stiletto::assign(x, 1);
  EXPECT_NE(bound.outputs.to_vector<float>(), c(x, 5.0).to_vector<float>()) << "nothing runs by itself";
  c.graph().execute(bound.bindings);
  EXPECT_EQ(bound.outputs.to_vector<float>(), c(x, 5.0).to_vector<float>()) << "memory is read when executed";
}

TEST(BoundGraph, one_tensor_changes_between_launches) {
  const Array x = stiletto::full({4}, 3), other = stiletto::full({4}, 10), result = stiletto::zeros({4}),
              w = stiletto::full({4}, 1);
  auto f = [&](const Array& a, const Array& s) { return a * s + w; };
  const auto c = compile(f, x, 2.0);
  auto bound = c.bindings(x, 2.0);
  auto run = [&] {
    c.graph().execute(bound.bindings);
    return bound.outputs.to_vector<float>()[0];
  };
  EXPECT_EQ(run(), 7);
  bound.bindings.set("arg0", other);
  EXPECT_EQ(run(), 21);
  bound.bindings.set("scalar0", 3.0);
  EXPECT_EQ(run(), 31);
  bound.bindings.set("scalar0", 4);
  EXPECT_EQ(run(), 41) << "a whole number where a real one was";
  bound.bindings.set("capture0", other);
  EXPECT_EQ(run(), 50);
  bound.bindings.set("out0", result);
  EXPECT_EQ(run(), 50) << "the old output is left as it was";
  EXPECT_EQ(result.to_vector<float>(), Floats(4, 50));
  EXPECT_EQ(bound.bindings.get("out0").raw_data(), result.raw_data());
}

TEST(BoundGraph, arithmetic_among_numbers_is_done_before_binding) {
  const Array x = stiletto::ones({2});
  const auto c = compile([](const Array& a, const Array& s) { return a * (s * 2 + 1); }, x, 3);
  const auto bound = c.bindings(x, 10);
  EXPECT_EQ(bound.bindings.names(), (Names{"arg0", "scalar0", "out0"}));
  EXPECT_EQ(bound.bindings.get("scalar0").item<int>(), 21);
}

TEST(BoundGraph, functions_that_only_store) {
  const Array y = stiletto::zeros({4}), x = stiletto::ones({4});
  const auto c = compile([](const Array& d, const Array& a) { stiletto::assign(d, a * 2); }, y, x);
  const stiletto::Bound<void> bound = c.bindings(y, x);
  EXPECT_EQ(bound.bindings.names(), (Names{"arg0", "arg1", "scalar0"})) << "2 is a number";
  EXPECT_EQ(y.to_vector<float>(), Floats(4, 0)) << "binding does not run";
  c.graph().execute(bound.bindings);
  EXPECT_EQ(y.to_vector<float>(), Floats(4, 2));
}

TEST(BoundGraph, results_that_are_views_or_laid_out_otherwise) {
  const Array x = stiletto::transpose(stiletto::ones({2, 3}));
  auto f = [](const Array& a) { return std::pair<Array, Array>(stiletto::slice(a, {Slice{1, 2}}), a * 2); };
  const auto c = compile(f, x);
  const auto bound = c.bindings(x);
  c.graph().execute(bound.bindings);
  EXPECT_EQ(bound.outputs.first.raw_data(), static_cast<float*>(x.raw_data()) + 1);
  EXPECT_EQ(bound.outputs.second.strides(), (stiletto::Dims{1, 3}));
  EXPECT_EQ(bound.outputs.second.to_vector<float>(), Floats(6, 2));
}

TEST(BoundGraph, an_argument_that_is_not_read_is_still_there) {
  const Array x = stiletto::ones({2});
  const auto c = compile([](const Array& a, const Array&) { return a * 2; }, x, x);
  EXPECT_EQ(c.bindings(x, x).bindings.names(), (Names{"arg0", "arg1", "scalar0", "out0"}));
}

TEST(BoundGraph, what_set_refuses) {
  const Array x = stiletto::ones({2, 3});
  const auto c = compile([](const Array& a, const Array& s) { return a * s; }, x, 2);
  auto bound = c.bindings(x, 2);
  const Array odd = stiletto::reshape(stiletto::slice(stiletto::ones({7}), {Slice{1, 7}}), {2, 3});
  const Array turned = stiletto::transpose(stiletto::ones({3, 2}));
  for (const Array& memory : {stiletto::ones({3, 2}), stiletto::ones({2, 3}, DType::int32), turned,
                              stiletto::spec({2, 3}, DType::float32), Array(2.0), odd, Array()})
    EXPECT_THROW(bound.bindings.set("arg0", memory), stiletto::ArgumentError) << memory;
  for (const Array& number : {stiletto::ones({}, DType::int32), Array(2.5), Array()})
    EXPECT_THROW(bound.bindings.set("scalar0", number), stiletto::ArgumentError) << number;
  EXPECT_THROW(bound.bindings.set("arg1", x), stiletto::ArgumentError) << "a number has no memory of its own";
  EXPECT_THROW(bound.bindings.get("out1"), stiletto::ArgumentError);
  EXPECT_EQ(bound.bindings.get("arg0").raw_data(), x.raw_data()) << "a refusal changes nothing";
  const Array another = stiletto::ones({2, 3});
  EXPECT_NO_THROW(bound.bindings.set("arg0", another));
}

TEST(BoundGraph, aliases_are_checked_when_executed) {
  const Array y = stiletto::zeros({4, 4}), x = stiletto::ones({4, 4});
  const auto c =
      compile([](const Array& d, const Array& a) { stiletto::assign(d, stiletto::transpose(a)); }, y, x);
  auto bound = c.bindings(y, x);
  bound.bindings.set("arg1", y);
  EXPECT_THROW(c.graph().execute(bound.bindings), stiletto::AliasError);
  const auto d = compile([](const Array& a) { return stiletto::transpose(stiletto::exp(a)); }, x);
  auto outputs = d.bindings(x);
  outputs.bindings.set("out0", x);
  EXPECT_THROW(d.graph().execute(outputs.bindings), stiletto::AliasError) << "an output is a destination too";
}

TEST(BoundGraph, belongs_to_one_graph) {
  const Array x = stiletto::ones({2});
  const auto c = compile([](const Array& a) { return a * 2; }, x),
             d = compile([](const Array& a) { return a * 2; }, x);
  stiletto::Compiled<Array(Array)> copy;
  copy = c;
  const auto bound = c.bindings(x);
  EXPECT_NO_THROW(copy.graph().execute(bound.bindings)) << "copies share the plan";
  EXPECT_THROW(d.graph().execute(bound.bindings), stiletto::ArgumentError);
  EXPECT_THROW(c.graph().execute(Bindings()), stiletto::ArgumentError);
}

TEST(BoundGraph, outlives_the_compiled_function) {
  const Array x = stiletto::ones({2});
  stiletto::Graph graph;
  stiletto::Bound<Array> bound;
  {
    const auto c = compile([](const Array& a) { return a * 2; }, x);
    graph = c.graph();
    bound = c.bindings(x);
  }
  graph.execute(bound.bindings);
  EXPECT_EQ(bound.outputs.to_vector<float>(), Floats(2, 2));
  EXPECT_NE(graph.to_string().find("multiply"), std::string::npos);
}

TEST(BoundGraph, empty_handles) {
  Bindings none;
  const Array x = stiletto::ones({2});
  EXPECT_TRUE(none.names().empty());
  EXPECT_THROW(none.get("arg0"), stiletto::ArgumentError);
  EXPECT_THROW(none.set("arg0", x), stiletto::ArgumentError);
  const stiletto::Graph graph;
  EXPECT_THROW(graph.execute(none), stiletto::ArgumentError);
  EXPECT_THROW(graph.to_string(), stiletto::ArgumentError);
  EXPECT_THROW(graph.to_dot(), stiletto::ArgumentError);
  EXPECT_THROW(graph.to_json(), stiletto::ArgumentError);
  const stiletto::Compiled<Array(Array)> compiled;
  EXPECT_THROW(compiled(x), stiletto::ArgumentError);
  EXPECT_THROW(compiled.bindings(x), stiletto::ArgumentError);
  EXPECT_THROW(compiled.graph(), stiletto::ArgumentError);
  EXPECT_THROW(compiled.workspace(), stiletto::ArgumentError);
}

}  // namespace
