// SPDX-License-Identifier: Apache-2.0
// The other two formats of a graph: JSON, which has to be JSON whatever the graph holds, and Graphviz, in
// which every edge has to join nodes that are there.
#include <gtest/gtest.h>

#include <limits>
#include <regex>
#include <set>
#include <vector>

#include "golden/golden.hpp"
#include "golden/json.hpp"
#include "unit/trace_support.hpp"

namespace {

using golden::JsonReader;
using stiletto::Array;
using stiletto::compile;
using stiletto::DType;
using stiletto::Graph;
using stiletto::Slice;

TEST(JsonReader, tells_json_from_other_texts) {
  for (const char* text :
       {"{}", "[]", "0", "-1.5e+3", "\"a\\n\\u00e9\"", " [1, {\"a\": [true, null]}, \"\"] "})
    EXPECT_EQ(JsonReader(text).complaint(), "") << text;
  for (const char* text :
       {"", "{", "[1,]", "{\"a\"}", "{a: 1}", "01", "1.", "\"\n\"", "nan", "[1] 2", "inf", "'a'"})
    EXPECT_NE(JsonReader(text).complaint(), "") << text;
}

/// Graphs of every kind: products, reductions, views, stores, numbers, options, attributes that JSON has no
/// numbers for, nothing at all.
std::vector<Graph> graphs() {
  const Array x = stiletto::ones({4, 4}), w = stiletto::ones({4, 4}),
              half = stiletto::ones({8}, DType::float16);
  const double infinity = std::numeric_limits<double>::infinity(),
               nan = std::numeric_limits<double>::quiet_NaN();
  std::vector<Graph> result;
  auto add = [&](const auto& compiled) { result.push_back(compiled.graph()); };
  add(compile([&](const Array& a) { return stiletto::gelu(stiletto::matmul(a, w) + 1); }, x));
  add(compile([](const Array& a) { return stiletto::softmax(stiletto::transpose(a)); }, x));
  add(compile([](const Array& a, const Array& s) { return a * s; }, x, 2.0F));
  add(compile([&](const Array& a) { return stiletto::clipped_relu(stiletto::leaky_relu(a, nan), infinity); },
              x));
  add(compile([](const Array& a) { return stiletto::slice(a, {Slice{{}, {}, -2}}) * 2; }, half));
  add(compile(
      {.io_dtype = DType::bfloat16, .intermediate_dtype = DType::float16},
      [](const Array& a) { return stiletto::exp(a); }, half));
  add(compile([](const Array& y, const Array& a) { stiletto::matmul_into(y, a, a, 2, -0.5); }, x, w));
  add(compile([](const Array& a) { return a; }, x));
  add(compile([](const Array& a) { return stiletto::sum(a); }, stiletto::ones({0, 3})));
  add(compile([](const Array& a) { return stiletto::cast(a, DType::float4_e2m1); }, half));
  return result;
}

TEST(GoldenFormats, json_is_json) {
  for (const Graph& graph : graphs())
    EXPECT_EQ(JsonReader(graph.to_json()).complaint(), "") << graph.to_json();
}

TEST(GoldenFormats, dot_edges_join_nodes) {
  for (const Graph& graph : graphs()) {
    const std::string dot = graph.to_dot();
    EXPECT_EQ(dot.rfind("digraph stiletto {\n", 0), 0U);
    EXPECT_EQ(dot.substr(dot.size() - 2), "}\n");
    std::set<std::string> nodes;
    int edges = 0;
    for (const std::string& line : golden::lines_of(dot)) {
      const std::size_t arrow = line.find(" -> "), label = line.find(" [label=");
      if (label != std::string::npos) {
        const std::size_t name = line.find_first_not_of(' ');
        EXPECT_TRUE(nodes.insert(line.substr(name, label - name)).second) << "twice: " << line;
        EXPECT_EQ(std::count(line.begin(), line.end(), '"') % 2, 0) << line;
        EXPECT_EQ(line.back(), ';') << line;
      } else if (arrow != std::string::npos) {
        ++edges;
        EXPECT_EQ(nodes.count(line.substr(2, arrow - 2)), 1U) << line;
        EXPECT_EQ(nodes.count(line.substr(arrow + 4, line.size() - arrow - 5)), 1U) << line;
      }
    }
    EXPECT_EQ(edges > 0, graph.to_string().find(" -> ") != std::string::npos);
  }
}

/// JSON with a line per value, so that it can be read here.
std::string broken(std::string json) {
  auto replace = [&](const std::string& what, const std::string& by) {
    for (std::size_t at = json.find(what); at != std::string::npos; at = json.find(what, at + by.size()))
      json.replace(at, what.size(), by);
  };
  replace("}, {", "},\n  {");
  replace(", \"tensor\": ", ",\n    \"tensor\": ");
  replace(", \"strides\": ", ",\n      \"strides\": ");
  return json + "\n";
}

TEST(GoldenFormats, json) {
  auto f = [](const Array& x, const Array& w, const Array& s) {
    return stiletto::leaky_relu(stiletto::matmul(x, w) * s, 0.25);
  };
  golden::expect_text(
      broken(compile(f, stiletto::ones({2, 3, 4}), stiletto::ones({4, 5}), 2.0F).graph().to_json()), R"(
{"axes": [{"name": "i", "extent": 6},
  {"name": "j", "extent": 5},
  {"name": "k", "extent": 4}],
 "intermediate_dtype": "float32", "compute_dtype": "float32",
 "values": [{"id": 0, "op": "tensor", "dtype": "float32", "axes": ["i", "k"],
    "tensor": {"name": "arg0", "dtype": "float32", "axes": ["i", "k"],
      "strides": [4, 1], "offset": 0, "alignment": 16}},
  {"id": 1, "op": "tensor", "dtype": "float32", "axes": ["j", "k"],
    "tensor": {"name": "arg1", "dtype": "float32", "axes": ["j", "k"],
      "strides": [1, 5], "offset": 0, "alignment": 16}},
  {"id": 2, "op": "matmul", "dtype": "float32", "axes": ["i", "j"], "inputs": [0, 1], "over": ["k"]},
  {"id": 3, "op": "scalar", "dtype": "float32", "axes": [], "scalar": 0},
  {"id": 4, "op": "multiply", "dtype": "float32", "axes": ["i", "j"], "inputs": [2, 3]},
  {"id": 5, "op": "leaky_relu", "dtype": "float32", "axes": ["i", "j"], "inputs": [4], "attributes": "0.25"}],
 "stores": [{"value": 5,
    "tensor": {"name": "out0", "dtype": "float32", "axes": ["i", "j"],
      "strides": [5, 1], "offset": 0, "alignment": 16}}]}
)");
}

TEST(GoldenFormats, json_of_views_and_stores) {
  auto f = [](const Array& y, const Array& x) {
    stiletto::assign(stiletto::slice(y, {Slice{}, Slice{1, 4}}), stiletto::sum(x, 0));
  };
  golden::expect_text(broken(compile(f, stiletto::ones({2, 5}), stiletto::ones({6, 3})).graph().to_json()),
                      R"(
{"axes": [{"name": "i", "extent": 2},
  {"name": "j", "extent": 3},
  {"name": "k", "extent": 6}],
 "intermediate_dtype": "float32", "compute_dtype": "float32",
 "values": [{"id": 0, "op": "tensor", "dtype": "float32", "axes": ["j", "k"],
    "tensor": {"name": "arg1", "dtype": "float32", "axes": ["j", "k"],
      "strides": [1, 3], "offset": 0, "alignment": 16}},
  {"id": 1, "op": "sum", "dtype": "float32", "axes": ["j"], "inputs": [0], "over": ["k"]}],
 "stores": [{"value": 1,
    "tensor": {"name": "arg0", "dtype": "float32", "axes": ["i", "j"],
      "strides": [5, 1], "offset": 1, "alignment": 4}}]}
)");
}

TEST(GoldenFormats, dot) {
  auto f = [](const Array& x, const Array& w, const Array& s) {
    return stiletto::leaky_relu(stiletto::matmul(x, w) * s, 0.25);
  };
  const auto graph = unit::lower(f, stiletto::ones({2, 3, 4}), stiletto::ones({4, 5}), 2.0F).graph;
  golden::expect_text(graph.to_dot({{"product \"p\"", {2}}, {"nothing drawn", {}}, {"loop", {4, 5}}}), R"dot(
digraph stiletto {
  rankdir=TB;
  graph [fontname="monospace", fontsize=11, labeljust=l];
  node [shape=box, style=filled, fillcolor=white, fontname="monospace", fontsize=11];
  edge [color="#555555", arrowsize=0.7];
  subgraph cluster_0 {
    label="product \"p\"";
    style="rounded,dashed,filled"; color="#c2410c"; fillcolor="#fff7ed";
    v2 [label="%2 = matmul(%0, %1, over k)\nfloat32[i=6, j=5]"];
  }
  subgraph cluster_2 {
    label="loop";
    style="rounded,dashed,filled"; color="#c2410c"; fillcolor="#fff7ed";
    v4 [label="%4 = multiply(%2, %3)\nfloat32[i=6, j=5]"];
    v5 [label="%5 = leaky_relu(%4, 0.25)\nfloat32[i=6, j=5]"];
  }
  v0 [label="%0 = arg0\nfloat32[i=6, k=4]\nstrides (4, 1)", style="rounded,filled", fillcolor="#dbeafe", color="#1d4ed8"];
  v1 [label="%1 = arg1\nfloat32[j=5, k=4]\nstrides (1, 5)", style="rounded,filled", fillcolor="#dbeafe", color="#1d4ed8"];
  v3 [label="%3 = scalar0\nfloat32", shape=ellipse, fillcolor="#eeeeee", color="#777777"];
  s0 [label="out0\nfloat32[i=6, j=5]\nstrides (5, 1)", style="rounded,filled", fillcolor="#dcfce7", color="#15803d", penwidth=2];
  v0 -> v2;
  v1 -> v2;
  v2 -> v4;
  v3 -> v4;
  v4 -> v5;
  v5 -> s0;
}
)dot");
}

TEST(GoldenFormats, dot_of_several_results) {
  const Array w = stiletto::ones({3});
  auto f = [&](const Array& x) { return std::vector<Array>{stiletto::max(x, 1), x + w}; };
  const std::string dot = compile(f, stiletto::ones({2, 3})).graph().to_dot();
  golden::expect_text(std::regex_replace(dot, std::regex("\"loop over[^\"]*\""), "\"loop over ...\""), R"dot(
digraph stiletto {
  rankdir=TB;
  graph [fontname="monospace", fontsize=11, labeljust=l];
  node [shape=box, style=filled, fillcolor=white, fontname="monospace", fontsize=11];
  edge [color="#555555", arrowsize=0.7];
  subgraph cluster_0 {
    label="loop over ...";
    style="rounded,dashed,filled"; color="#c2410c"; fillcolor="#fff7ed";
    v1 [label="%1 = max(%0, over j)\nfloat32[i=2]"];
    v3 [label="%3 = add(%0, %2)\nfloat32[i=2, j=3]"];
  }
  v0 [label="%0 = arg0\nfloat32[i=2, j=3]\nstrides (3, 1)", style="rounded,filled", fillcolor="#dbeafe", color="#1d4ed8"];
  v2 [label="%2 = capture0\nfloat32[j=3]\nstrides (1)", style="rounded,filled", fillcolor="#dbeafe", color="#1d4ed8"];
  s0 [label="out0\nfloat32[i=2]\nstrides (1)", style="rounded,filled", fillcolor="#dcfce7", color="#15803d", penwidth=2];
  s1 [label="out1\nfloat32[i=2, j=3]\nstrides (3, 1)", style="rounded,filled", fillcolor="#dcfce7", color="#15803d", penwidth=2];
  v0 -> v1;
  v0 -> v3;
  v2 -> v3;
  v1 -> s0;
  v3 -> s1;
}
)dot");
}

}  // namespace
