// SPDX-License-Identifier: Apache-2.0
// Golden texts of cuDNN graphs: what the lowering makes of a function, without cuDNN and without a GPU. With
// STILETTO_PRINT_GOLDEN=1 the program prints every text as it should stand in its source.
#pragma once
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <source_location>
#include <string>

#include "backends/cudnn/geometry.hpp"
#include "backends/cudnn/lower.hpp"
#include "golden/golden.hpp"
#include "unit/trace_support.hpp"

namespace golden {

/// The first way of placing a function's graph that can be lowered, as text; ways before it with the reason
/// why they cannot, ways after it by name. Where there is none, all reasons.
template <class F, class... Examples>
std::string engine_text(const stiletto::CompileOptions& options, F f, const Examples&... examples) {
  namespace cudnn = stiletto::detail::cudnn;
  const auto lowered = unit::lower(options, f, examples...);
  std::string refusal, result;
  bool found = false;
  for (const cudnn::Geometry& way : cudnn::geometries(lowered.graph, refusal)) {
    try {
      const std::string text = cudnn::lower(lowered.graph, way).to_string();
      result += found ? "else " + way.form + "\n" : text;
      found = true;
    } catch (const cudnn::NotLowered& not_lowered) {
      result += "not " + way.form + ": " + not_lowered.reason + "\n";
    }
  }
  return refusal.empty() ? result : result + "nothing: " + refusal + "\n";
}

/// `wanted` is a raw string that begins with a line break.
inline void expect_engine_text(const std::string& actual, const std::string& wanted,
                               std::source_location where = std::source_location::current()) {
  const char* const print = std::getenv("STILETTO_PRINT_GOLDEN");
  if (print != nullptr && std::string(print) == "1")
    std::cout << where.file_name() << ":" << where.line() << "\n" << actual << std::flush;
  expect_text(actual, wanted, where);
}

template <class F, class... Examples>
struct Case {
  F f;
};

}  // namespace golden
