// SPDX-License-Identifier: Apache-2.0
// Building error and dump texts. Used on failure and when printing, never on a path that succeeds.
#pragma once
#include <sstream>
#include <string>

#include "stiletto/array.hpp"

namespace stiletto::detail {

template <class... T>
std::string text(const T&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

/// In double quotes, as JSON and Graphviz read it.
inline std::string quoted(const std::string& s) {
  std::string result = "\"";
  for (char c : s) {
    if (c == '"' || c == '\\') result += '\\';
    if (c == '\n')
      result += "\\n";
    else
      result += c;
  }
  return result + '"';
}

/// What error texts call an operation: "matmul", and "operation 7, matmul" while a trace records. Defined by
/// the trace, which lies below; called where an error is thrown, so that everything thrown is named alike.
std::string operation_text(const char* name);

}  // namespace stiletto::detail
