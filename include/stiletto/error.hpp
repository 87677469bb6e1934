// SPDX-License-Identifier: Apache-2.0
// Everything Stiletto throws derives from stiletto::Error. A message names the operation, what is wrong with
// the actual values, and what to do instead; an operation inside a trace is named with its position in it.
#pragma once
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "stiletto/export.hpp"

namespace stiletto {

struct STILETTO_API Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A shape, axis, slice or size that does not fit the operation, or the shape that was compiled.
struct STILETTO_API ShapeError : Error {
  using Error::Error;
};

/// A dtype that the operation does not take, or that is not the compiled one.
struct STILETTO_API DTypeError : Error {
  using Error::Error;
};

/// Something a symbolic value cannot do, or a trace used after it ended.
struct STILETTO_API TraceError : Error {
  using Error::Error;
};

/// A destination overlaps itself or an input in a way that would change the result.
struct STILETTO_API AliasError : Error {
  using Error::Error;
};

/// An argument whose strides, alignment, device or count are not the compiled ones, or an empty handle.
struct STILETTO_API ArgumentError : Error {
  using Error::Error;
};

/// A device, driver or library that is missing, too old or failing.
struct STILETTO_API DeviceError : Error {
  using Error::Error;
};

/// A bug in Stiletto; the text asks for a report.
struct STILETTO_API InternalError : Error {
  using Error::Error;
};

struct EngineReason {
  std::string engine, reason;
};

/// No engine takes the graph under the given options. `what()` carries all the facts below.
struct STILETTO_API UnsupportedGraphError : Error {
  using Error::Error;
  std::string graph;                       ///< canonical graph as text
  std::string target, library;             ///< what it was built for, and with which library
  std::vector<EngineReason> reasons;       ///< one per engine asked
  std::optional<std::string> excluded_by;  ///< the option that removed the last candidates, if one did
  std::string hint;                        ///< nearest accepted variant, or empty
  std::string part;                        ///< the smallest part that is refused, or empty
};

}  // namespace stiletto
