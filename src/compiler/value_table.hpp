// SPDX-License-Identifier: Apache-2.0
// The canonical graph's values as they come into being: equal ones are one, and arithmetic among numbers goes
// to the host.
#pragma once
#include <map>
#include <unordered_map>

#include "compiler/canonicalize.hpp"

namespace stiletto::detail {

class ValueTable {
 protected:
  explicit ValueTable(const Trace& trace) : trace_(trace) {}

  const Node& node(std::uint32_t i) const { return trace_.nodes()[i]; }
  /// The value, or one equal to it; of the trace's positions the last is kept.
  std::uint32_t add_value(const Value& value);
  /// A number of the graph: the result of a host step.
  std::uint32_t add_slot(std::uint32_t step, DType dtype);
  std::uint32_t literal(double number, DType dtype);  // a whole one for integers
  /// The host step of a number or of arithmetic among numbers.
  std::uint32_t host_step(std::uint32_t index);
  /// The host step that converts the result of another.
  std::uint32_t cast_step(std::uint32_t step, DType from, DType to);
  std::uint32_t cast_to(std::uint32_t value, DType dtype);

  const Trace& trace_;
  Lowered out_;

 private:
  std::map<std::uint32_t, std::uint32_t> host_steps_;
  std::unordered_multimap<std::size_t, std::uint32_t> by_hash_;  // values by what makes them equal
};

}  // namespace stiletto::detail
