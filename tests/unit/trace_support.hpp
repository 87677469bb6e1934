// SPDX-License-Identifier: Apache-2.0
// Traces without a backend: arguments of any type and layout, and the canonical form of what a function
// records. Nothing is compiled or run.
#pragma once
#include <string>
#include <vector>

#include "compiler/canonicalize.hpp"
#include "graph/trace.hpp"
#include "stiletto/stiletto.hpp"

namespace unit {

using stiletto::Array;
using stiletto::DType;
using stiletto::Shape;
using stiletto::Strides;
namespace detail = stiletto::detail;

/// A trace that records on this thread while it lives.
struct Recording {
  detail::Trace trace;
  int arguments = 0;

  Array argument(const Shape& shape, DType dtype = DType::float32, const Strides& strides = {}) {
    return like(stiletto::spec(shape, dtype, strides, stiletto::Device::cpu()));
  }
  Array like(const Array& example) { return trace.add_argument(example, arguments++, -1); }
};

/// A CPU array without memory.
inline Array on_cpu(const Shape& shape, DType dtype = DType::float32, const Strides& strides = {}) {
  return stiletto::spec(shape, dtype, strides, stiletto::Device::cpu());
}

inline void add_results(detail::Trace&) {}
inline void add_results(detail::Trace& trace, const Array& result) { trace.add_result(result); }
inline void add_results(detail::Trace& trace, const std::vector<Array>& results) {
  for (const Array& result : results) trace.add_result(result);
}

/// The canonical form of f over arguments like the examples. f returns nothing, an Array or a vector of them.
template <class F, class... Examples>
detail::Lowered lower(const stiletto::CompileOptions& options, F f, const Examples&... examples) {
  Recording recording;
  const std::vector<Array> arguments{recording.like(Array(examples))...};
  auto call = [&]<std::size_t... I>(std::index_sequence<I...>) { return f(arguments[I]...); };
  if constexpr (std::is_void_v<decltype(call(std::index_sequence_for<Examples...>{}))>)
    call(std::index_sequence_for<Examples...>{});
  else
    add_results(recording.trace, call(std::index_sequence_for<Examples...>{}));
  recording.trace.end();
  recording.trace.verify();
  return detail::canonicalize(recording.trace, options);
}
template <class F, class... Examples>
  requires stiletto::Traceable<F>
detail::Lowered lower(F f, const Examples&... examples) {
  return lower(stiletto::CompileOptions{}, f, examples...);
}
template <class F, class... Examples>
std::string canonical(F f, const Examples&... examples) {
  return lower(f, examples...).graph.to_string();
}

/// How often an operation appears.
inline int count(const detail::CanonicalGraph& graph, detail::Op op) {
  int result = 0;
  for (const detail::Value& value : graph.values)
    result += value.kind == detail::Value::Kind::operation && value.op == op;
  return result;
}
inline int operations(const detail::CanonicalGraph& graph) {
  int result = 0;
  for (const detail::Value& value : graph.values) result += value.kind == detail::Value::Kind::operation;
  return result;
}

}  // namespace unit
