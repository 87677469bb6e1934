// SPDX-License-Identifier: Apache-2.0
// The complete text of what a call throws, for tests that compare it. The type has to be exactly the one
// asked for: its name comes first, so that a text thrown as another type differs too.
#pragma once
#include <gtest/gtest.h>

#include <source_location>
#include <stdexcept>
#include <string>
#include <typeinfo>

#include "stiletto/stiletto.hpp"

namespace unit {

/// "ShapeError: slice: ..."; "nothing was thrown" when nothing was.
template <class F>
std::string error_of(F&& f) {
  auto named = [](const std::exception& error) -> std::string {
    const std::type_info& type = typeid(error);
    if (type == typeid(stiletto::ShapeError)) return "ShapeError: ";
    if (type == typeid(stiletto::DTypeError)) return "DTypeError: ";
    if (type == typeid(stiletto::TraceError)) return "TraceError: ";
    if (type == typeid(stiletto::AliasError)) return "AliasError: ";
    if (type == typeid(stiletto::ArgumentError)) return "ArgumentError: ";
    if (type == typeid(stiletto::DeviceError)) return "DeviceError: ";
    if (type == typeid(stiletto::InternalError)) return "InternalError: ";
    if (type == typeid(stiletto::UnsupportedGraphError)) return "UnsupportedGraphError: ";
    return std::string(type.name()) + ": ";
  };
  try {
    f();
  } catch (const std::exception& error) {
    return named(error) + error.what();
  }
  return "nothing was thrown";
}

/// A number of a trace, such as its id, replaced by N: ids count on through a process.
inline std::string without_trace_ids(std::string text) {
  const std::string marker = "trace ";
  for (std::size_t at = text.find(marker); at != std::string::npos; at = text.find(marker, at + 1)) {
    const std::size_t digits = at + marker.size();
    std::size_t end = digits;
    while (end < text.size() && text[end] >= '0' && text[end] <= '9') ++end;
    if (end > digits) text.replace(digits, end - digits, "N");
  }
  return text;
}

/// Checks the complete text, with the error's type before it and N for the numbers of traces.
template <class F>
void expect_text(F&& f, const std::string& wanted,
                 std::source_location where = std::source_location::current()) {
  const testing::ScopedTrace trace(where.file_name(), static_cast<int>(where.line()), "this case");
  EXPECT_STREQ(without_trace_ids(error_of(f)).c_str(), wanted.c_str());
}

}  // namespace unit
