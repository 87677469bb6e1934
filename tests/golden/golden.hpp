// SPDX-License-Identifier: Apache-2.0
// Golden texts: what a function compiles to, as text, against what it should be. The trace and the canonical
// graph are compared word by word; of the plan only what no machine changes: the kinds of its steps. A
// failure prints the difference line by line and the whole new text; with STILETTO_UPDATE_GOLDEN=1 in the
// environment the new text also takes the old one's place in the source. Look at what changed before it is
// committed.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <source_location>
#include <sstream>
#include <string>
#include <vector>

#include "stiletto/stiletto.hpp"

namespace golden {

inline std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

/// "loop in 3 phases" for a loop, "matmul" for a product. Which operations ride along behind a product
/// depends on the processor and on oneDNN, and with them the loops beside it: those are left out.
inline std::string plan_kinds(const std::string& plan) {
  std::vector<std::string> loops, products;
  std::string result;
  for (const std::string& line : lines_of(plan)) {
    if (line.find("matmul") != std::string::npos) {
      products.emplace_back("  matmul\n");
    } else if (line.find("loop") != std::string::npos) {
      std::size_t end = line.find(" phase");
      std::size_t begin = end;
      while (begin > 0 && line[begin - 1] >= '0' && line[begin - 1] <= '9') --begin;
      end += line.compare(end, 7, " phases") == 0 ? 7 : 6;
      const std::string loop = "loop in " + line.substr(begin, end - begin) + "\n";
      // Behind a structured operation, on each part of its result.
      if (const std::size_t behind = line.find("a loop "); behind != std::string::npos)
        result += line.substr(0, behind + 2) + loop;
      else
        loops.push_back("  " + loop);
    } else {
      result += line + "\n";
    }
  }
  for (const std::string& step : products.empty() ? loops : products) result += step;
  return result;
}

/// The text of a compiled function's graph, with the plan reduced to its kinds.
inline std::string text_of(const stiletto::Graph& graph) {
  const std::string text = graph.to_string();
  const std::size_t plan = text.find("plan\n");
  return plan == std::string::npos ? text
                                   : text.substr(0, plan) + "plan\n" + plan_kinds(text.substr(plan + 5));
}

/// Lines of both texts, "-" before what is only wanted and "+" before what is only there.
inline std::string difference(const std::string& wanted, const std::string& actual) {
  const auto a = lines_of(wanted), b = lines_of(actual);
  std::vector<std::vector<std::size_t>> common(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = a.size(); i-- > 0;)
    for (std::size_t j = b.size(); j-- > 0;)
      common[i][j] = a[i] == b[j] ? common[i + 1][j + 1] + 1 : std::max(common[i + 1][j], common[i][j + 1]);
  std::string result;
  for (std::size_t i = 0, j = 0; i < a.size() || j < b.size();) {
    if (i < a.size() && j < b.size() && a[i] == b[j]) {
      result += "  " + a[i] + "\n";
      ++i, ++j;
    } else if (j == b.size() || (i < a.size() && common[i + 1][j] >= common[i][j + 1])) {
      result += "- " + a[i++] + "\n";
    } else {
      result += "+ " + b[j++] + "\n";
    }
  }
  return result;
}

/// Puts a new text into the test's source; what it did, in words.
inline std::string update_source(const std::string& file, const std::string& wanted,
                                 const std::string& actual) {
  const auto path =
      std::filesystem::path(STILETTO_SOURCE_DIR) / "tests/golden" / std::filesystem::path(file).filename();
  std::ifstream in(path);
  std::string source(std::istreambuf_iterator<char>(in), {});
  const std::string old = "R\"(" + wanted + ")\"";
  const std::size_t at = source.find(old);
  if (at == std::string::npos) return "the old text is not in " + path.string();
  source.replace(at, old.size(), "R\"(\n" + actual + ")\"");
  std::ofstream(path) << source;
  return "updated " + path.string();
}

/// `wanted` is a raw string that begins with a line break.
inline void expect_text(const std::string& actual, const std::string& wanted,
                        std::source_location where = std::source_location::current()) {
  const std::string expected = wanted.substr(wanted.empty() ? 0 : 1);
  if (actual == expected) return;
  const char* const update = std::getenv("STILETTO_UPDATE_GOLDEN");
  const bool updates = update != nullptr && std::string(update) == "1";
  ADD_FAILURE_AT(where.file_name(), static_cast<int>(where.line()))
      << (updates ? update_source(where.file_name(), wanted, actual) + "\n" : "")
      << "difference (- wanted, + actual):\n"
      << difference(expected, actual) << "the new text:\n"
      << actual;
}

/// Compares what a compiled function's graph is as text.
inline void expect_graph(const stiletto::Graph& graph, const std::string& wanted,
                         std::source_location where = std::source_location::current()) {
  expect_text(text_of(graph), wanted, where);
}

}  // namespace golden
