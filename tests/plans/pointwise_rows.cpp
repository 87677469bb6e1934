// SPDX-License-Identifier: Apache-2.0
// Rows without products: every operation, broadcasts, views, sizes and ranks.
#include "plans/table.hpp"
#include "support/cudnn_modes.hpp"
#include "support/operations.hpp"

namespace plans {
namespace {

using stiletto::Slice;
using stiletto::transpose;

constexpr DType f16 = DType::float16, bf16 = DType::bfloat16, f32 = DType::float32;

Array square_plus_x(const Arrays& a) { return a[0] * a[0] + a[0]; }
Array sum_of_two(const Arrays& a) { return a[0] + a[1]; }

/// What one operation alone is asked for with operands of `dtype`.
Row alone(const support::Operation& operation, DType dtype) {
  Row row{operation.name, operation.call, {}};
  for (std::size_t i = 0; i < operation.arity; ++i)
    row.operands.push_back({{4, 32, 48}, operation.operand_dtype(i, dtype)});
  row.refusal = support::missing_mode(operation.name);
  return row;
}

std::vector<Group> every_operation() {
  std::vector<Group> groups;
  constexpr std::size_t per_group = 14;
  const DType dtypes[] = {f16, f32, bf16};
  for (std::size_t i = 0; i < support::operations().size(); ++i) {
    if (i % per_group == 0) groups.push_back({"operations_" + std::to_string(i / per_group), {}});
    groups.back().rows.push_back(alone(support::operations()[i], dtypes[i % 3]));
  }
  return groups;
}

Group broadcasts() {
  auto normalise = [](const Arrays& a) { return (a[0] - a[1]) * a[2] + 0.5f * a[0]; };
  return {"broadcasts",
          {{"row", sum_of_two, {{{64, 96}}, {{96}}}},
           {"column", sum_of_two, {{{64, 96}}, {{64, 1}}}},
           {"batch", sum_of_two, {{{8, 64, 96}, f32}, {{8, 1, 1}, f32}}},
           {"one element", sum_of_two, {{{64, 96}, bf16}, {{1}, bf16}}},
           {"row and column", normalise, {{{64, 96}, f32}, {{64, 1}, f32}, {{96}, f32}}},
           {"batch norm, channels first",
            [](const Arrays& a) { return (a[0] - a[1]) * a[2] * a[3] + a[4]; },
            {{{2, 8, 5, 6}}, {{8, 1, 1}, f32}, {{8, 1, 1}, f32}, {{8, 1, 1}, f32}, {{8, 1, 1}, f32}}},
           {"batch norm, channels last",
            [](const Arrays& a) { return (a[0] - a[1]) * a[2] * a[3] + a[4]; },
            {{{2, 8, 5, 6}, f32, {240, 1, 48, 8}},
             {{8, 1, 1}, f32},
             {{8, 1, 1}, f32},
             {{8, 1, 1}, f32},
             {{8, 1, 1}, f32}}},
           {"both operands",
            sum_of_two,
            {{{64, 1}, f32}, {{1, 96}, f32}},
            "no floating-point operand over all axes"},
           {"a column and a row of a batch",
            sum_of_two,
            {{{4, 64, 1}, f32}, {{4, 1, 96}, f32}},
            "no floating-point operand over all axes"},
           {"both operands of a matrix",
            [](const Arrays& a) { return a[0] + a[1] * a[2]; },
            {{{64, 1}, f32}, {{1, 96}, f32}, {{64, 96}, f32}}},
           {"a number", [](const Arrays& a) { return stiletto::exp(a[0] * -2.0f); }, {{{64, 96}, f32}}},
           {"a number of the caller", [](const Arrays& a) { return a[0] * a[1]; }, {{{64, 96}}, {{}, f16}}},
           {"a store that broadcasts",
            [](const Arrays& a) { stiletto::assign(a[0], a[1] + a[1]); },
            {{{64, 96}}, {{96}}}},
           {"a function of a row",
            [](const Arrays& a) { return a[0] + stiletto::tanh(a[1]); },
            {{{64, 96}, f32}, {{96}, f32}}},
           {"a function of a column",
            [](const Arrays& a) { return a[0] + stiletto::tanh(a[1]); },
            {{{64, 96}, f32}, {{64, 1}, f32}},
            "a value over fewer axes than the others beside it"},
           {"quotients by a row, a column and a number",
            [](const Arrays& a) { return a[0] / a[1] / a[2] / a[3]; },
            {{{64, 96}, f32}, {{96}, f32}, {{64, 1}, f32}, {{}, f32}}}}};
}

Group views() {
  auto halves = [](const Arrays& a) {
    const Array gate = stiletto::slice(a[0], {Slice{}, Slice{0, 48}}),
                value = stiletto::slice(a[0], {Slice{}, Slice{48, 96}});
    return stiletto::tanh(gate) * value;
  };
  auto every_other = [](const Arrays& a) { return -stiletto::slice(a[0], {Slice{}, Slice{0, {}, 2}}); };
  auto reversed = [](const Arrays& a) { return a[0] + stiletto::slice(a[0], {Slice{}, Slice{{}, {}, -1}}); };
  auto all_reversed = [](const Arrays& a) {
    const Array x = stiletto::slice(a[0], {Slice{{}, {}, -1}}),
                y = stiletto::slice(a[1], {Slice{{}, {}, -1}});
    stiletto::assign(x, stiletto::exp(y));
  };
  auto transposed = [](const Arrays& a) { return a[0] + stiletto::transpose(a[1]); };
  auto one_stepped = [](const Arrays& a) { return stiletto::slice(a[0], {Slice{}, Slice{0, {}, 2}}) + a[1]; };
  auto all_transposed = [](const Arrays& a) { return stiletto::transpose(stiletto::exp(a[0]), {2, 0, 1}); };
  return {"views",
          {{"halves of a tensor", halves, {{{64, 96}}}},
           {"halves of a float32 tensor", halves, {{{64, 96}, f32}}},
           {"every other column", every_other, {{{64, 96}, f32}}},
           {"two bytes of alignment",
            [](const Arrays& a) { return stiletto::relu(stiletto::slice(a[0], {Slice{1, {}}})); },
            {{{1025}}}},
           {"gaps between rows", square_plus_x, {{{64, 96}, f16, {128, 1}}}},
           {"channels last", square_plus_x, {{{2, 8, 5, 6}, f16, {240, 1, 48, 8}}}},
           {"all in one permuted order", all_transposed, {{{4, 32, 48}, f32}}},
           {"reversed together", all_reversed, {{{4096}, f32}, {{4096}, f32}}},
           {"one operand reversed", reversed, {{{64, 96}}}, "walked backwards"},
           {"one operand transposed", transposed, {{{64, 96}}, {{96, 64}}}},
           {"two operands transposed",
            [](const Arrays& a) { return a[0] + transpose(a[1]) * transpose(a[2]); },
            {{{64, 96}, f32}, {{96, 64}, bf16}, {{96, 64}, f16}}},
           {"two transposed, of one type",
            [](const Arrays& a) { return a[0] + transpose(a[1]) * transpose(a[2]); },
            {{{64, 96}, f32}, {{96, 64}, bf16}, {{96, 64}, bf16}}},
           {"every other column of one operand", one_stepped, {{{64, 192}}, {{64, 96}, f32}}},
           {"one float32 operand transposed",
            transposed,
            {{{64, 96}, f32}, {{96, 64}, f32}},
            "the strides of arg0.1 (float32[64,96], strides [1,64]) keep its axes from merging: pass a copy "
            "made outside the function, contiguous in the order of the result"}}};
}

Array sum_of_three(const Arrays& a) { return a[0] + a[1] + a[2]; }

// Blackwell refuses these, too.
Row an_axis_missing_in_each() {
  return {"rank 4, an axis missing in each operand",
          sum_of_three,
          {{{3, 5, 7, 9}}, {{3, 1, 7, 9}}, {{3, 5, 1, 9}}},
          "from merging: "};
}
Row gaps_between_rows() {
  return {"rank 4, gaps between all rows",
          square_plus_x,
          {{{3, 5, 7, 9}, f32, {1000, 150, 20, 1}}},
          "the strides of arg0.0 (float32[3,5,7,9], strides [1000,150,20,1]) keep its axes from merging"};
}

Group ranks() {
  const Operand rank4{{3, 5, 7, 9}}, rank5{{2, 3, 4, 5, 6}};
  return {
      "ranks",
      {{"rank 4, contiguous", sum_of_two, {rank4, rank4}},
       {"rank 5, contiguous", sum_of_two, {rank5, rank5}},
       {"rank 8, contiguous", square_plus_x, {{{2, 1, 3, 1, 2, 4, 1, 8}}}},
       {"rank 4, last two axes broadcast", sum_of_two, {rank4, {{3, 5, 1, 1}}}},
       {"rank 4, the middle axes broadcast", sum_of_two, {rank4, {{3, 1, 1, 9}}}},
       {"rank 4, every other axis broadcast",
        sum_of_two,
        {rank4, {{3, 1, 7, 1}}},
        "keeps them from merging: pass a copy of it made outside the function, of the shape that "
        "broadcast_to gives"},
       an_axis_missing_in_each(),
       gaps_between_rows(),
       {"rank 4, outer axes in another order", sum_of_two, {rank4, {{3, 5, 7, 9}, f16, {9, 189, 27, 1}}}},
       {"rank 4, a slice of one operand",
        sum_of_two,
        {rank4, {{3, 5, 7, 9}, f16, {1600, 160, 16, 1}}},
        "the strides of arg0.1 (float16[3,5,7,9], strides [1600,160,16,1]) keep its axes from merging"},
       {"rank 4, the innermost axes swapped",
        sum_of_two,
        {rank4, {{3, 5, 7, 9}, f16, {315, 63, 1, 7}}},
        "the strides of arg0.1 (float16[15,7,9], strides [63,1,7]) keep its axes from merging: pass a copy "
        "made outside the function, contiguous in the order of the result"},
       {"rank 5, every other axis broadcast",
        sum_of_two,
        {rank5, {{1, 3, 1, 5, 1}}},
        "keeps them from merging: pass a copy of it made outside the function, of the shape that "
        "broadcast_to gives"},
       {"rank 5, outer axes in another order",
        sum_of_two,
        {rank5, {{2, 3, 4, 5, 6}, f16, {6, 12, 36, 144, 1}}},
        "the strides of arg0.1 (float16[2,3,4,5,6], strides [6,12,36,144,1]) keep its axes from merging"},
       {"rank 6, every other axis broadcast",
        sum_of_two,
        {{{2, 3, 2, 3, 2, 3}}, {{2, 1, 2, 1, 2, 1}}},
        "arg0.1 (float16[2,1,2,1,2,1], strides [4,0,2,0,1,0]) is broadcast along some of the axes and "
        "keeps them "
        "from merging: pass a copy of it made outside the function, of the shape that broadcast_to gives"},
       {"rank 6, the last axis broadcast", sum_of_two, {{{2, 3, 2, 3, 2, 3}}, {{2, 3, 2, 3, 2, 1}}}},
       {"rank 7, in another order",
        sum_of_two,
        {{{2, 2, 2, 2, 2, 2, 2}}, {{2, 2, 2, 2, 2, 2, 2}, f16, {2, 4, 8, 16, 32, 64, 1}}},
        "the strides of arg0.1"},
       {"rank 8, two operands in another order",
        sum_of_three,
        {{{2, 2, 2, 2, 2, 2, 2, 2}},
         {{2, 2, 2, 2, 2, 2, 2, 2}, f16, {2, 4, 8, 16, 32, 64, 128, 1}},
         {{2, 2, 2, 2, 2, 2, 2, 2}, f16, {1, 2, 4, 8, 16, 32, 64, 128}}},
        "pass copies made outside the function, contiguous in the order of the result"}}};
}

Group sizes() {
  Group group{"sizes", {}};
  const std::int64_t big = std::int64_t{1} << 31;
  for (const std::int64_t n :
       {std::int64_t{1}, std::int64_t{7}, std::int64_t{64}, std::int64_t{1000}, std::int64_t{65521},
        std::int64_t{65536}, std::int64_t{1000003}, std::int64_t{1048576}, std::int64_t{1} << 26,
        std::int64_t{1000000007}, big - 1, big})
    group.rows.push_back({std::to_string(n), square_plus_x, {{{n}, bf16}}});
  group.rows.push_back({"65536 batches of small matrices", sum_of_two, {{{65536, 3, 5}}, {{65536, 1, 5}}}});
  group.rows.push_back({"a row of 2^21, times a column", sum_of_two, {{{4, 1 << 21}}, {{4, 1}}}});
  return group;
}

/// What Hopper refuses and Blackwell takes from cuDNN 9.27 on.
Row on_blackwell(std::string name, Function function, std::vector<Operand> operands) {
  Row row{std::move(name), std::move(function), std::move(operands), no_engine};
  row.plan_since = 92700;
  return row;
}

Group blackwell() {
  const Operand rank4{{3, 5, 7, 9}};
  auto transposed = [](const Arrays& a) { return a[0] + stiletto::transpose(a[1]); };
  auto reversed = [](const Arrays& a) { return a[0] + stiletto::slice(a[0], {Slice{}, Slice{{}, {}, -1}}); };
  return {"pointwise_on_b200",
          {{"contiguous", sum_of_two, {rank4, rank4}},
           an_axis_missing_in_each(),
           gaps_between_rows(),
           {"one operand transposed", transposed, {{{64, 96}}, {{96, 64}}}},
           on_blackwell("one float32 operand transposed", transposed, {{{64, 96}, f32}, {{96, 64}, f32}}),
           {"one operand reversed", reversed, {{{64, 96}}}, "walked backwards"}},
          "b200"};
}

}  // namespace

std::vector<Group> pointwise_groups() {
  std::vector<Group> groups = every_operation();
  for (Group group : {broadcasts(), views(), ranks(), sizes(), blackwell()})
    groups.push_back(std::move(group));
  return groups;
}

}  // namespace plans
