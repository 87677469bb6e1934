// SPDX-License-Identifier: Apache-2.0
// Structured operations: what their public functions check and infer, handed over to be recorded or run.
#pragma once
#include <string>
#include <vector>

#include "ops/apply.hpp"

namespace stiletto::detail {

/// A result before it exists.
struct ResultSpec {
  Shape shape;
  Strides strides;
  DType dtype = DType::float32;
  bool exists = true;  ///< a result that the options leave out is an empty handle
};

/// One call, whose operands and results fit.
struct StructuredCall {
  Op op = Op::attention;
  const char* name = "";  // what the caller called
  Attributes attributes;
  std::vector<Array> operands;
  std::vector<ResultSpec> results;
};

/// The first `wanted` results: recorded in a trace, else computed.
std::vector<Array> results_of(const StructuredCall& call, std::size_t wanted);
/// Writes the first results to the destinations, of the results' shapes.
void write_results(const StructuredCall& call, const std::vector<Array>& destinations);

/// In a trace, with these operands instead of the call's.
std::vector<Array> record(const StructuredCall& call, const std::vector<Array>& operands, std::size_t wanted);
void record_into(const StructuredCall& call, const std::vector<Array>& operands,
                 const std::vector<Array>& destinations);

/// "attention: k of shape (2, 3) …": the start of an error's text.
template <class... T>
[[noreturn]] void throw_shape(const char* name, const T&... parts) {
  throw ShapeError(text(operation_text(name), ": ", parts...));
}
template <class... T>
[[noreturn]] void throw_dtype(const char* name, const T&... parts) {
  throw DTypeError(text(operation_text(name), ": ", parts...));
}

/// The operand's body: an array, not a number. ShapeError says what it should be.
const ArrayBody& array_operand(const Array& array, const char* name, const char* what);
/// DTypeError unless float16, bfloat16, float32 or float64.
void check_floating(const ArrayBody& body, const char* name, const char* what);
/// float32, and float64 of float64: statistics.
inline DType statistics_dtype(DType x) { return x == DType::float64 ? x : DType::float32; }

}  // namespace stiletto::detail
