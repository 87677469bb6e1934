// SPDX-License-Identifier: Apache-2.0
// A test that builds plans: skipped, with the reason, where that is impossible; with STILETTO_REQUIRE_CUDNN=1
// a failure.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "plans/table.hpp"

namespace plans {

class PlanTest : public testing::Test {
 protected:
  void SetUp() override {
    if (why_no_plans().empty()) return;
    const char* const required = std::getenv("STILETTO_REQUIRE_CUDNN");
    if (required != nullptr && std::string(required) == "1") FAIL() << why_no_plans();
    GTEST_SKIP() << "no plans can be built: " << why_no_plans();
  }
};

inline CompileOptions on_h200() { return {.target = stiletto::Target::named("h200")}; }

inline Array dense(const Array& x, const Array& w) { return stiletto::relu(stiletto::matmul(x, w)); }

/// The error of compiling; a test that gets a plan has failed.
template <class F, class... Args>
stiletto::UnsupportedGraphError refusal(const CompileOptions& options, F f, const Args&... args) {
  try {
    stiletto::compile(options, f, args...);
  } catch (const stiletto::UnsupportedGraphError& error) {
    return error;
  }
  ADD_FAILURE() << "there is a plan";
  return stiletto::UnsupportedGraphError("none");
}

inline void expect_part(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << "no \"" << part << "\" in\n" << text;
}

}  // namespace plans
