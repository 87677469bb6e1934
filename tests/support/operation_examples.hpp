// SPDX-License-Identifier: Apache-2.0
// A well-formed graph or several of every row of the operation table, for operands of any dtype: the unit
// tests record them, and docs/support.md says which device has a plan for each.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "graph/op.hpp"
#include "stiletto/stiletto.hpp"

namespace support {

/// Without strides it is row-major.
struct ExampleOperand {
  stiletto::Shape shape;
  stiletto::DType dtype = stiletto::DType::float32;
  stiletto::Strides strides = {};
};

struct Example {
  using Arrays = std::vector<stiletto::Array>;

  stiletto::detail::Op op;
  std::string variant;  // " with stats": what follows the operation's name; nothing for the plainest one
  std::function<std::vector<ExampleOperand>(stiletto::DType)> operands;
  std::function<Arrays(const Arrays&)> call;

  std::string name() const;
};

/// In the order of the operation table; each of its rows has at least one, which the unit tests check.
const std::vector<Example>& operation_examples();

}  // namespace support
