// SPDX-License-Identifier: Apache-2.0
// The list of numeric cases {operation, operand types, layouts, shapes}. It names no backend: whatever device
// is under test runs the same list, and what a GPU refuses is held to rules and counted
// (checked_backend.cpp).
#pragma once
#include <string>
#include <vector>

#include "support/compare.hpp"
#include "support/operations.hpp"

namespace support {

struct Case {
  const Operation* operation;
  std::vector<DType> dtypes;    // one per operand
  std::vector<Layout> layouts;  // one per operand
  std::vector<Extents> shapes;  // one per operand

  std::string describe() const {
    std::string text = operation->name;
    for (std::size_t i = 0; i < dtypes.size(); ++i)
      text += std::string(i == 0 ? " " : ", ") + stiletto::to_string(dtypes[i]) +
              support::describe(shapes[i]) + " " + to_string(layouts[i]);
    return text;
  }
};

/// Odd, size-1 and zero extents, rank 0 to 8.
inline const std::vector<Extents>& shapes() {
  static const std::vector<Extents> list = {{},
                                            {1},
                                            {7},
                                            {67},
                                            {0},
                                            {3, 5},
                                            {1, 9},
                                            {9, 1},
                                            {2, 0, 3},
                                            {5, 1, 4},
                                            {3, 4, 5, 2},
                                            {17, 33},
                                            {1, 1, 1},
                                            {2, 3, 1, 5, 2},
                                            {2, 1, 2, 3, 1, 2, 1, 3},
                                            {2, 2, 2, 2, 2, 2, 2, 2}};
  return list;
}

/// Operand shapes that broadcast, for two operands and (third column) a third.
inline const std::vector<std::vector<Extents>>& broadcasts() {
  static const std::vector<std::vector<Extents>> list = {
      {{3, 1}, {1, 5}, {5}},
      {{4}, {3, 4}, {}},
      {{}, {2, 3}, {2, 1}},
      {{2, 1, 3}, {5, 1}, {5, 3}},
      {{0}, {1}, {}},
      {{2, 0}, {1, 1}, {0}},
      {{10, 8}, {2, 1, 8}, {8}},
      {{1, 7, 1, 5}, {3, 1, 2, 1}, {5}},
      {{2, 1, 1, 3, 1, 1, 2, 1}, {2, 1, 3, 1, 2, 1, 1, 2}, {3, 2, 1, 2, 2}},
      {{1, 17}, {9, 17}, {9, 1}}};
  return list;
}

/// The cases of one elementwise operation.
inline std::vector<Case> elementwise_cases(const Operation& operation) {
  std::vector<Case> cases;
  Random random(std::hash<std::string>{}(operation.name));
  for (DType dtype : plain_dtypes) {
    if (dtype == DType::boolean && operation.booleans != Booleans::taken) continue;
    std::vector<DType> dtypes;
    dtypes.reserve(operation.arity);
    for (std::size_t i = 0; i < operation.arity; ++i) dtypes.push_back(operation.operand_dtype(i, dtype));
    for (const Extents& shape : shapes())
      for (Layout layout : layouts)
        cases.push_back({&operation, dtypes, std::vector<Layout>(operation.arity, layout),
                         std::vector<Extents>(operation.arity, shape)});
    if (operation.arity == 1) continue;
    for (const auto& row : broadcasts())
      for (int i = 0; i < 3; ++i) {
        Case one{&operation, dtypes, {}, {row.begin(), row.begin() + static_cast<long>(operation.arity)}};
        if (i == 1) std::swap(one.shapes.front(), one.shapes.back());
        for (std::size_t k = 0; k < operation.arity; ++k)
          one.layouts.push_back(i == 0 ? Layout::contiguous : layouts[random.below(std::size(layouts))]);
        cases.push_back(std::move(one));
      }
  }
  return cases;
}

/// Runs one case and compares with the reference.
inline testing::AssertionResult check(const Case& one, Mode mode, std::uint64_t seed,
                                      Allowance allowance = {}) {
  Random random(seed);
  std::vector<Array> arrays;
  std::vector<Tensor> tensors;
  for (std::size_t i = 0; i < one.dtypes.size(); ++i) {
    Operand made =
        operand(random, one.dtypes[i], one.shapes[i], one.layouts[i], one.operation->range(i, one.dtypes[i]));
    arrays.push_back(made.array);
    tensors.push_back(made.values);
  }
  try {
    return agrees(run(one.operation->call, arrays, mode), one.operation->reference(tensors), allowance)
           << "\n  in " << one.describe() << ", " << to_string(mode);
  } catch (const std::exception& error) {
    return testing::AssertionFailure()
           << one.describe() << ", " << to_string(mode) << " threw: " << error.what();
  }
}

/// A name that gtest accepts, for value-parameterised tests.
inline std::string test_name(std::string text) {
  for (char& c : text)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return text;
}

/// Reports failures until there are enough of them in one test.
class Failures {
 public:
  /// False: give up.
  bool expect(const testing::AssertionResult& result) {
    EXPECT_TRUE(result);
    if (!result) ++count_;
    return count_ < 4;
  }

 private:
  int count_ = 0;
};

}  // namespace support
