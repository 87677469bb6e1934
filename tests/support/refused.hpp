// SPDX-License-Identifier: Apache-2.0
// What the CPU computes, and a GPU either computes as well or refuses with a text that says why.
#pragma once
#include <gtest/gtest.h>

#include <initializer_list>
#include <string>

#include "support/layouts.hpp"

namespace support {

/// `f` holds the expectations about the result; `facts` have to be in a refusal. Whether it was computed.
template <class F>
bool right_or_refused(F f, std::initializer_list<std::string> facts) {
  try {
    f();
    return true;
  } catch (const stiletto::UnsupportedGraphError& error) {
    if (device().is_cpu()) throw;
    const std::string text = error.what();
    for (const std::string& fact : facts)
      EXPECT_NE(text.find(fact), std::string::npos) << "\"" << fact << "\" is not in: " << text;
    return false;
  }
}

}  // namespace support
