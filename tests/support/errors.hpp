// SPDX-License-Identifier: Apache-2.0
// Checks that a call throws one type of error and that its text carries certain facts: names, positions,
// values. Wording is tested elsewhere.
#pragma once
#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <typeinfo>

#include "stiletto/stiletto.hpp"

namespace support {

template <class ErrorType, class F>
testing::AssertionResult throws(F f, std::initializer_list<std::string> facts = {}) {
  std::string text;
  try {
    f();
    return testing::AssertionFailure() << "nothing was thrown";
  } catch (const ErrorType& error) {
    text = error.what();
  } catch (const std::exception& error) {
    return testing::AssertionFailure() << typeid(error).name() << " was thrown: " << error.what();
  }
  for (const std::string& fact : facts)
    if (text.find(fact) == std::string::npos)
      return testing::AssertionFailure() << "\"" << fact << "\" is not in: " << text;
  return testing::AssertionSuccess();
}

}  // namespace support
