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

}  // namespace plans
