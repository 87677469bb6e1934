// SPDX-License-Identifier: Apache-2.0
// The page of a graph: well-formed, complete, escaped, and in need of nothing else.
#include "compiler/graph_html.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "compiler/backend.hpp"
#include "unit/trace_support.hpp"

namespace {

using namespace unit;

/// Empty when every tag is closed in turn, every & begins a reference, and attributes are quoted; else what
/// is wrong.
std::string complaint(const std::string& page) {
  const std::set<std::string> void_tags{"!DOCTYPE", "meta"};
  std::vector<std::string> open;
  for (std::size_t at = 0; at < page.size();) {
    const std::string rest = page.substr(at, 30);
    if (page[at] == '&') {
      bool known = false;
      for (const char* reference : {"&amp;", "&lt;", "&gt;", "&quot;"}) known |= rest.starts_with(reference);
      if (!known) return "a bare & before " + rest;
    }
    if (page[at] == '>') return "a bare > before " + rest;
    if (page[at] != '<') {
      ++at;
      continue;
    }
    std::size_t end = at + 1;
    for (bool quoted = false; end < page.size() && (quoted || page[end] != '>'); ++end) {
      if (page[end] == '"') quoted = !quoted;
      if (page[end] == '<') return "a < inside of the tag " + rest;
    }
    if (end == page.size()) return "no end of the tag " + rest;
    const std::string tag = page.substr(at + 1, end - at - 1);
    const std::string name = tag.substr(0, tag.find_first_of(" /\n", 1));
    if (tag.starts_with("/")) {
      if (open.empty() || "/" + open.back() != tag) return "closed out of turn: " + rest;
      open.pop_back();
    } else if (!tag.ends_with("/") && !void_tags.contains(name)) {
      open.push_back(name);
    }
    at = end + 1;
  }
  return open.empty() ? "" : "never closed: " + open.back();
}

std::string page_of(const stiletto::Graph& graph) {
  std::string page = graph.to_html();
  EXPECT_EQ(complaint(page), "");
  return page;
}
bool has(const std::string& page, const std::string& what) { return page.find(what) != std::string::npos; }

TEST(GraphHtml, the_checker_finds_mistakes) {
  EXPECT_EQ(complaint("<p a=\"b\">x &lt; y<br/></p>"), "");
  for (const char* wrong : {"<p>", "</p>", "<p><b></p></b>", "a & b", "<p <b></p>", "a > b", "<p"})
    EXPECT_NE(complaint(wrong), "") << wrong;
}

TEST(GraphHtml, every_value_has_a_node_and_every_text_a_section) {
  const auto compiled = stiletto::compile(
      [](const Array& x, const Array& w1, const Array& b1, const Array& w2) {
        return stiletto::softmax(matmul(stiletto::relu(matmul(x, w1) + b1), w2) / 3, 1);
      },
      on_cpu({8, 32}), on_cpu({32, 16}), on_cpu({16}), on_cpu({16, 4}));
  const std::string page = page_of(compiled.graph());
  const std::string drawing = page.substr(page.find("<svg"), page.find("</svg>") - page.find("<svg"));
  for (const char* node : {"%0 arg0", "%1 arg1", "%2 matmul", "%3 arg2", "%4 add", "%5 relu", "%6 arg3",
                           "%7 matmul", "%8 scalar0", "%9 divide", "%10 softmax", ">out0<", "(%0, %1, over ",
                           "float32[i=8, ", "strides (32, 1)", "int32"})
    EXPECT_TRUE(has(drawing, node)) << node;
  EXPECT_TRUE(has(drawing, ">1. ")) << "the first region has a title";
  EXPECT_TRUE(has(page, "<h1>softmax(matmul(relu(matmul(arg0, arg1) + arg2), arg3) / scalar0, over j)</h1>"));
  EXPECT_TRUE(has(page, "= relu(%5): float32(8, 16)")) << "the trace";
  EXPECT_TRUE(has(page, "  %10 -&gt; out0: float32[i,j] strides (4, 1)")) << "the canonical graph";
}

TEST(GraphHtml, nothing_is_fetched_or_run) {
  const std::string page =
      page_of(stiletto::compile([](const Array& x) { return x + 1; }, on_cpu({4})).graph());
  for (const char* way : {"<script", "<link", "<img", "src=", "href=", "@import", "url(http", "onload"})
    EXPECT_FALSE(has(page, way)) << way;
}

TEST(GraphHtml, names_and_texts_are_escaped) {
  detail::CanonicalGraph graph = lower([](const Array& x) { return x < 2; }, on_cpu({4})).graph;
  graph.tensors[0].name = "<b>\"a&b\"";
  const std::string page =
      detail::graph_html(graph, {{"a <plan> & more", {2}}}, "cpu<0>", "trace <t>", "p<q");
  EXPECT_EQ(complaint(page), "");
  EXPECT_FALSE(has(page, "<b>"));
  for (const char* shown : {"%0 &lt;b&gt;&quot;a&amp;b&quot;", "1. a &lt;plan&gt; &amp; more", "cpu&lt;0&gt;",
                            "trace &lt;t&gt;", "p&lt;q", "&lt;b&gt;&quot;a&amp;b&quot; &lt; scalar0</h1>"})
    EXPECT_TRUE(has(page, shown)) << shown;
}

TEST(GraphHtml, what_needs_no_operation_has_a_page) {
  EXPECT_TRUE(has(page_of(stiletto::compile([](const Array& x) { return x; }, on_cpu({4})).graph()),
                  "nothing to compute"));
  EXPECT_TRUE(has(page_of(stiletto::compile([](const Array& x, const Array& y) { assign(x, y); }, on_cpu({4}),
                                            on_cpu({4}))
                              .graph()),
                  "arg0 = arg1"));
}

TEST(GraphHtml, long_lines_are_cut_and_kept_as_tooltips) {
  const std::string page = page_of(stiletto::compile([](const Array& x) { return x + 1; },
                                                     on_cpu({10, 11, 12, 13, 14, 15}, DType::float32,
                                                            {100000000, 7000000, 500000, 30000, 2000, 100}))
                                       .graph());
  EXPECT_TRUE(has(page, "strides (100000000, 7000000, 500000, 30000, 2000, 100)</title>"));
  EXPECT_TRUE(has(page, "strides (100000000, 7000000, 500000, ...</text>") ||
              has(page, "strides (100000000, 7000000, 50000...</text>"));
}

TEST(Regions, each_operation_is_in_the_first_step_that_computes_it) {
  const auto layer_norm = [](const Array& x, const Array& w, const Array& y) {
    const Array centred = x - mean(x, {1}, true);
    const Array scaled = centred * stiletto::rsqrt(mean(centred * centred, {1}, true) + 1);
    return std::vector<Array>{stiletto::gelu(matmul(scaled, w)) + y, sum(scaled)};
  };
  const detail::CanonicalGraph graph =
      lower(layer_norm, on_cpu({64, 48}), on_cpu({48, 32}), on_cpu({64, 32})).graph;
  const auto plan = detail::cpu_backend().build(graph, detail::PlanOptions({}), stiletto::Device::cpu());
  const std::vector<detail::Region> regions = plan->regions(graph);
  std::string labels;
  std::vector<int> region_of(graph.values.size(), -1);
  for (std::size_t r = 0; r < regions.size(); ++r) {
    labels += "  " + regions[r].label + "\n";
    for (std::uint32_t v : regions[r].values) {
      EXPECT_EQ(region_of[v], -1) << "value " << v << " is in two regions";
      region_of[v] = static_cast<int>(r);
    }
  }
  EXPECT_EQ(labels, plan->describe());
  for (std::size_t v = 0; v < graph.values.size(); ++v) {
    const detail::Value& value = graph.values[v];
    EXPECT_EQ(region_of[v] >= 0, value.kind == detail::Value::Kind::operation) << v;
    for (std::size_t k = 0; k < value.arity; ++k)
      EXPECT_LE(region_of[value.inputs[k]], region_of[v]) << "value " << v << " runs before its operand";
    if (value.kind == detail::Value::Kind::operation && value.op == detail::Op::matmul) {
      EXPECT_NE(regions[static_cast<std::size_t>(region_of[v])].label.find("matmul"), std::string::npos);
    }
  }
}

}  // namespace
