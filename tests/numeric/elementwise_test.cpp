// SPDX-License-Identifier: Apache-2.0
// Every elementwise operation over every type, layout class and shape class, through jit, and for samples
// through compile and at once; long vectors; and the types that an operation refuses.
#include <gtest/gtest.h>

#include "support/cases.hpp"

namespace {

using namespace support;

class Elementwise : public testing::TestWithParam<std::size_t> {
 protected:
  const Operation& row() const { return operations()[GetParam()]; }
};

TEST_P(Elementwise, agrees_with_the_reference) {
  Failures failures;
  std::uint64_t seed = 0;
  for (const Case& one : elementwise_cases(row())) {
    ++seed;
    if (!failures.expect(check(one, Mode::jit, seed))) return;
    if (seed % 5 == 0 && !failures.expect(check(one, Mode::compiled, seed))) return;
    if (seed % 7 == 0 && !failures.expect(check(one, Mode::eager, seed))) return;
  }
}

// Longer than any block, and not a multiple of a vector: the tails and the work of every thread are seen.
TEST_P(Elementwise, long_vectors) {
  Failures failures;
  for (DType dtype : {DType::float32, DType::float16, DType::int32}) {
    Case one{&row(),
             {},
             std::vector<Layout>(row().arity, Layout::contiguous),
             std::vector<Extents>(row().arity, Extents{40009})};
    one.dtypes.reserve(row().arity);
    for (std::size_t i = 0; i < row().arity; ++i) one.dtypes.push_back(row().operand_dtype(i, dtype));
    failures.expect(check(one, Mode::jit, 1));
    one.shapes.assign(row().arity, Extents{3, 4099});
    one.layouts.assign(row().arity, Layout::transposed);
    failures.expect(check(one, Mode::jit, 2));
  }
}

TEST_P(Elementwise, refuses_what_has_no_arithmetic) {
  std::vector<DType> refused = {DType::float8_e4m3, DType::float8_e5m2, DType::float8_e8m0,
                                DType::float4_e2m1};
  if (row().booleans == Booleans::refused) refused.push_back(DType::boolean);
  for (DType dtype : refused) {
    std::vector<Array> operands;
    for (std::size_t i = 0; i < row().arity; ++i)
      operands.push_back(stiletto::empty({2, 4}, row().operand_dtype(i, dtype), device()));
    for (Mode mode : {Mode::jit, Mode::compiled, Mode::eager})
      EXPECT_THROW(run(row().call, operands, mode), stiletto::DTypeError)
          << stiletto::to_string(dtype) << " " << to_string(mode);
  }
}

std::vector<std::size_t> indices() {
  std::vector<std::size_t> all(operations().size());
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = i;
  return all;
}
INSTANTIATE_TEST_SUITE_P(numeric, Elementwise, testing::ValuesIn(indices()),
                         [](const auto& info) { return operations()[info.param].name; });

// The caller's memory beside the elements that a view shows is neither read as a value nor written.
TEST(Elementwise, leaves_its_operands_alone) {
  Random random(5);
  for (Layout layout : layouts) {
    const Operand x = operand(random, DType::float32, {5, 3, 4}, layout);
    const Tensor before = read(x.storage);
    run(operation("exp").call, {x.array}, Mode::jit);
    EXPECT_TRUE(agrees(x.storage, before, {.exact = true})) << to_string(layout);
  }
}

TEST(Elementwise, operands_of_mixed_types_and_layouts) {
  Random random(6);
  Failures failures;
  for (const char* name : {"add", "multiply", "maximum", "divide", "less", "where"})
    for (DType a : plain_dtypes)
      for (DType b : plain_dtypes) {
        const Operation& row = operation(name);
        const Operand x = operand(random, a, {3, 1, 5}, layouts[random.below(8)], {-3, 3});
        const Operand y = operand(random, b, {4, 5}, layouts[random.below(8)], {0.5L, 3});
        const Operand c = operand(random, DType::boolean, {4, 1}, Layout::contiguous);
        const DType promoted = promote(a, b);
        if (promoted == DType::boolean && row.booleans == Booleans::unspecified) continue;
        std::vector<Array> arrays = {x.array, y.array};
        std::vector<Tensor> tensors = {cast_to(x.values, promoted), cast_to(y.values, promoted)};
        if (row.has_condition) {
          arrays.insert(arrays.begin(), c.array);
          tensors.insert(tensors.begin(), c.values);
        }
        if (!failures.expect(agrees(run(row.call, arrays, Mode::jit), row.reference(tensors))
                             << " in " << name << " " << stiletto::to_string(a) << " "
                             << stiletto::to_string(b)))
          return;
      }
}

}  // namespace
