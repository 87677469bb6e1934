// SPDX-License-Identifier: Apache-2.0
// The drawing is SVG inside the page. Memory and numbers are drawn at each operation that reads them, in full
// the first time and by name from then on, so that no line crosses the whole drawing to get there.
#include "compiler/graph_html.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "compiler/canonical_text.hpp"
#include "compiler/expression_text.hpp"
#include "compiler/graph_layout.hpp"
#include "core/text.hpp"
#include "graph/op_table.hpp"

namespace stiletto::detail {
namespace {

constexpr double character = 7.25, line_height = 16, text_padding = 9;
constexpr std::size_t longest_line = 40, longest_title = 90;

std::string escaped(const std::string& s) {
  std::string result;
  for (char c : s) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      default:
        result += c;
    }
  }
  return result;
}

std::string shortened(const std::string& s, std::size_t length) {
  return s.size() <= length ? s : s.substr(0, length - 3) + "...";
}

std::string number(double x) { return text(static_cast<long long>(std::llround(x))); }
std::string attribute(const char* name, double x) { return text(' ', name, "=\"", number(x), '"'); }

/// A node: its lines, the first one bold.
struct Card {
  const char* style = "";
  std::vector<std::string> lines;
};

class Picture {
 public:
  Picture(const CanonicalGraph& graph, const std::vector<Region>& regions)
      : graph_(graph), regions_(regions) {
    for (std::size_t r = 0; r < regions_.size(); ++r)
      request_.regions.push_back({width_of(title_of(r).size()) + 8});
    find_regions();
    add_operations();
    add_stores();
    layout_ = lay_out(request_);
  }

  std::string svg() const {
    std::string result =
        text("<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\"", attribute("width", layout_.width),
             attribute("height", layout_.height), " viewBox=\"0 0 ", number(layout_.width), ' ',
             number(layout_.height), "\">\n", "<title>The graph and what its plan runs as one</title>\n",
             "<defs><marker id=\"tip\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" "
             "markerWidth=\"7\" markerHeight=\"7\" orient=\"auto\">"
             "<path d=\"M0 0.5 8 4 0 7.5z\" class=\"tip\"/></marker></defs>\n");
    for (std::size_t r = 0; r < regions_.size(); ++r) result += region(r);
    for (const std::vector<Point>& path : layout_.paths) result += edge(path);
    for (std::size_t n = 0; n < cards_.size(); ++n) result += card(n);
    for (std::size_t r = 0; r < regions_.size(); ++r) result += title(r);
    return result + "</svg>\n";
  }

 private:
  static double width_of(std::size_t characters) {
    return static_cast<double>(characters) * character + 2 * text_padding;
  }

  /// What no region claims is drawn with the operation before it.
  void find_regions() {
    region_of_.resize(graph_.values.size());
    std::vector<bool> claimed(graph_.values.size());
    for (std::uint32_t r = 0; r < regions_.size(); ++r)
      for (std::uint32_t v : regions_[r].values) {
        region_of_[v] = r;
        claimed[v] = true;
      }
    if (request_.regions.empty()) request_.regions.emplace_back();
    for (std::size_t v = 1; v < region_of_.size(); ++v)
      if (!claimed[v]) region_of_[v] = region_of_[v - 1];
  }

  std::uint32_t add(Card card, LayoutNode::Kind kind, std::uint32_t region) {
    std::size_t longest = 0;
    for (std::string& line : card.lines) longest = std::max(longest, shortened(line, longest_line).size());
    LayoutNode node;
    node.kind = kind;
    node.region = region;
    node.width = width_of(longest);
    node.height = static_cast<double>(card.lines.size()) * line_height + 2 * text_padding - 4;
    request_.nodes.push_back(node);
    cards_.push_back(std::move(card));
    return static_cast<std::uint32_t>(cards_.size() - 1);
  }

  Card memory(const char* style, const std::string& name, const Tensor& tensor) const {
    Card result{style, {name, sized_text(graph_, tensor.dtype, tensor.axes)}};
    if (std::string strides = strides_text(graph_, tensor); !strides.empty())
      result.lines.push_back(std::move(strides));
    return result;
  }

  /// A leaf where it is read.
  std::uint32_t add_leaf(std::uint32_t v) {
    const Value& value = graph_.values[v];
    const bool number = value.kind == Value::Kind::scalar;
    const std::string name =
        text('%', v, ' ', number ? text("scalar", value.source) : graph_.tensors[value.source].name);
    Card card{number ? "number" : "input", {name}};
    if (!drawn_[v] && !number) card = memory("input", name, graph_.tensors[value.source]);
    if (!drawn_[v] && number) card.lines.push_back(text(value.dtype));
    drawn_[v] = true;
    return add(std::move(card), LayoutNode::Kind::source, 0);
  }

  void add_operations() {
    drawn_.resize(graph_.values.size());
    node_of_.resize(graph_.values.size());
    for (std::uint32_t v = 0; v < graph_.values.size(); ++v) {
      const Value& value = graph_.values[v];
      if (value.kind == Value::Kind::foreign) add_foreign(v);
      if (value.kind != Value::Kind::operation) continue;
      std::array<std::uint32_t, 3> operands{};
      for (std::size_t k = 0; k < value.arity; ++k) operands[k] = node_for(value, k, operands);
      node_of_[v] = add({"operation",
                         {text('%', v, ' ', name_of(value.op)), operands_text(graph_, value),
                          sized_text(graph_, value.dtype, value.axes)}},
                        LayoutNode::Kind::inner, region_of_[v]);
      for (std::size_t k = 0; k < value.arity; ++k) request_.edges.push_back({operands[k], node_of_[v]});
    }
  }
  /// A result that may depend on all that is read.
  void add_foreign(std::uint32_t v) {
    const Value& value = graph_.values[v];
    std::vector<std::uint32_t> read;
    for (std::uint32_t leaf = 0; leaf < v; ++leaf)
      if (graph_.values[leaf].is_leaf()) read.push_back(add_leaf(leaf));
    node_of_[v] =
        add({"operation", {text('%', v), foreign_text(value), sized_text(graph_, value.dtype, value.axes)}},
            LayoutNode::Kind::inner, region_of_[v]);
    for (const std::uint32_t from : read) request_.edges.push_back({from, node_of_[v]});
  }
  std::uint32_t node_for(const Value& value, std::size_t k, const std::array<std::uint32_t, 3>& before) {
    const std::uint32_t input = value.inputs[k];
    if (graph_.values[input].kind == Value::Kind::operation) return node_of_[input];
    for (std::size_t i = 0; i < k; ++i)
      if (value.inputs[i] == input) return before[i];
    return add_leaf(input);
  }

  void add_stores() {
    for (const Store& store : graph_.stores) {
      const bool leaf = graph_.values[store.value].is_leaf();
      const std::uint32_t from = leaf ? add_leaf(store.value) : node_of_[store.value];
      const std::uint32_t to =
          add(memory("output", store.tensor.name, store.tensor), LayoutNode::Kind::sink, 0);
      request_.edges.push_back({from, to});
    }
  }

  std::string region(std::size_t r) const {
    const Box& box = layout_.regions[r];
    if (regions_[r].values.empty()) return {};
    return text("<g class=\"region\"><title>", escaped(regions_[r].label), "</title><rect rx=\"10\"",
                attribute("x", box.left), attribute("y", box.top), attribute("width", box.right - box.left),
                attribute("height", box.bottom - box.top), "/></g>\n");
  }
  /// Above the lines that come in.
  std::string title(std::size_t r) const {
    const Box& box = layout_.regions[r];
    if (regions_[r].values.empty()) return {};
    return text("<text class=\"title\"", attribute("x", box.left + 12), attribute("y", box.top + 19), ">",
                escaped(title_of(r)), "</text>\n");
  }
  std::string title_of(std::size_t r) const {
    return shortened(text(r + 1, ". ", regions_[r].label), longest_title);
  }

  static std::string edge(const std::vector<Point>& path) {
    std::string d = text('M', number(path[0].x), ' ', number(path[0].y));
    for (std::size_t i = 1; i < path.size(); ++i) {
      const Point &a = path[i - 1], &b = path[i];
      const std::string middle = number((a.y + b.y) / 2);
      d += text('C', number(a.x), ' ', middle, ' ', number(b.x), ' ', middle, ' ', number(b.x), ' ',
                number(b.y));
    }
    return text("<path class=\"edge\" marker-end=\"url(#tip)\" d=\"", d, "\"/>\n");
  }

  std::string card(std::size_t n) const {
    const LayoutNode& node = request_.nodes[n];
    const Point& center = layout_.centers[n];
    const double left = center.x - node.width / 2, top = center.y - node.height / 2;
    std::string whole;
    for (const std::string& line : cards_[n].lines) whole += (whole.empty() ? "" : "\n") + line;
    std::string result =
        text("<g class=\"", cards_[n].style, "\"><title>", escaped(whole), "</title><rect rx=\"",
             cards_[n].style == std::string("operation") ? 4 : 12, '"', attribute("x", left),
             attribute("y", top), attribute("width", node.width), attribute("height", node.height), "/>");
    for (std::size_t i = 0; i < cards_[n].lines.size(); ++i)
      result += text("<text", attribute("x", center.x),
                     attribute("y", top + text_padding + 10 + static_cast<double>(i) * line_height),
                     i == 0 ? " class=\"name\">" : ">", escaped(shortened(cards_[n].lines[i], longest_line)),
                     "</text>");
    return result + "</g>\n";
  }

  const CanonicalGraph& graph_;
  const std::vector<Region>& regions_;
  std::vector<std::uint32_t> region_of_, node_of_;  // per value
  std::vector<bool> drawn_;                         // leaves that have been drawn in full
  std::vector<Card> cards_;                         // per node
  LayoutRequest request_;
  Layout layout_;
};

constexpr const char* style = R"(
:root { color-scheme: light dark; --paper: #ffffff; --ink: #1f2328; --faint: #5b636d; --line: #d0d7de;
  --edge: #6e7781; --op: #ffffff; --in: #dbeafe; --in-line: #2563eb; --out: #dcfce7; --out-line: #15803d;
  --num: #eceff2; --num-line: #8b949e; --box: #fff7ed; --box-line: #ea580c; --box-ink: #9a3412; --code: #f6f8fa; }
@media (prefers-color-scheme: dark) { :root { --paper: #0d1117; --ink: #e6edf3; --faint: #9198a1; --line: #30363d;
  --edge: #8b949e; --op: #161b22; --in: #0c2d6b; --in-line: #58a6ff; --out: #0f3d1f; --out-line: #3fb950;
  --num: #21262d; --num-line: #6e7681; --box: #1c1410; --box-line: #db6d28; --box-ink: #f0883e; --code: #161b22; } }
body { margin: 0 auto; padding: 24px; max-width: 1400px; background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, sans-serif; }
h1 { margin: 0 0 4px; font: 600 20px/1.35 ui-monospace, "DejaVu Sans Mono", monospace; overflow-wrap: anywhere; }
h2 { margin: 28px 0 8px; font-size: 17px; }
p { margin: 4px 0 12px; color: var(--faint); }
.key { display: inline-block; padding: 0 8px; margin-right: 6px; border: 1px solid; border-radius: 8px; color: var(--ink); }
.key.input { background: var(--in); border-color: var(--in-line); }
.key.output { background: var(--out); border-color: var(--out-line); }
.key.number { background: var(--num); border-color: var(--num-line); }
.key.region { background: var(--box); border: 1px dashed var(--box-line); }
figure { margin: 0; padding: 8px; border: 1px solid var(--line); border-radius: 8px; overflow: auto; text-align: center; }
pre { margin: 0; padding: 12px 14px; background: var(--code); border: 1px solid var(--line); border-radius: 8px;
  overflow: auto; font: 13px/1.45 ui-monospace, "DejaVu Sans Mono", monospace; }
svg text { font: 12px ui-monospace, "DejaVu Sans Mono", monospace; text-anchor: middle; fill: var(--ink); }
svg text.name { font-weight: 700; }
.edge { fill: none; stroke: var(--edge); stroke-width: 1.3; }
.tip { fill: var(--edge); }
.operation rect { fill: var(--op); stroke: var(--num-line); }
.input rect { fill: var(--in); stroke: var(--in-line); }
.output rect { fill: var(--out); stroke: var(--out-line); stroke-width: 2; }
.number rect { fill: var(--num); stroke: var(--num-line); }
svg .region rect { fill: var(--box); stroke: var(--box-line); stroke-dasharray: 6 4; }
svg text.title { text-anchor: start; fill: var(--box-ink); font-weight: 600; paint-order: stroke;
  stroke: var(--box); stroke-width: 5px; stroke-linejoin: round; }
)";

std::string section(const char* title, const std::string& content) {
  return text("<h2>", title, "</h2>\n<pre>", escaped(content), "</pre>\n");
}

}  // namespace

std::string graph_html(const CanonicalGraph& graph, const std::vector<Region>& regions,
                       const std::string& device, const std::string& trace, const std::string& plan) {
  const std::string name = escaped(expression_text(graph, 300));
  return text("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>",
              escaped(expression_text(graph, 80)), "</title>\n<style>", style,
              "</style>\n</head>\n<body>\n<h1>", name, "</h1>\n<p>On ", escaped(device),
              ". <span class=\"key input\">memory read</span><span class=\"key number\">number</span>"
              "<span class=\"key output\">memory written</span><span class=\"key region\">run as one</span>"
              "</p>\n<figure>\n",
              Picture(graph, regions).svg(), "</figure>\n", section("Plan", plan),
              section("Canonical graph", graph.to_string()), section("Trace", trace), "</body>\n</html>\n");
}

}  // namespace stiletto::detail
