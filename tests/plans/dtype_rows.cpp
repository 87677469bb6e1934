// SPDX-License-Identifier: Apache-2.0
// Rows of casts, booleans, integers and mixed types.
#include "plans/table.hpp"

namespace plans {
namespace {

using stiletto::cast;

constexpr DType f16 = DType::float16, bf16 = DType::bfloat16, f32 = DType::float32, f64 = DType::float64,
                i8 = DType::int8, u8 = DType::uint8, i32 = DType::int32, i64 = DType::int64,
                boolean = DType::boolean, e4m3 = DType::float8_e4m3, e5m2 = DType::float8_e5m2;

Operand matrix(DType dtype) { return {{64, 96}, dtype}; }
Function to(DType dtype) {
  return [dtype](const Arrays& a) { return cast(a[0], dtype); };
}
std::string name(DType from, DType to) {
  const auto word = [](DType dtype) { return std::string(stiletto::to_string(dtype)); };
  return word(from) + " to " + word(to);
}
Row cast_row(DType from, DType to_dtype, std::string refusal = {}) {
  return {name(from, to_dtype), to(to_dtype), {matrix(from)}, std::move(refusal)};
}

std::vector<Group> casts() {
  Group floats{
      "casts_to_floats",
      {cast_row(f32, f16), cast_row(f16, f32), cast_row(bf16, f16), cast_row(f32, bf16), cast_row(f32, e4m3),
       cast_row(f16, e4m3), cast_row(f32, e5m2), cast_row(bf16, e5m2), cast_row(e4m3, f16),
       cast_row(e5m2, f32), cast_row(e4m3, e5m2), cast_row(i8, f16), cast_row(u8, f32), cast_row(i32, f32),
       cast_row(boolean, f16), cast_row(f32, f64, "float64 in products only"),
       cast_row(f64, f32, "float64 in products only"),
       cast_row(f32, DType::float4_e2m1, "only as part of block scaling")}};
  Group integers{"casts_to_integers",
                 {cast_row(f32, i8), cast_row(f16, u8), cast_row(bf16, i32), cast_row(f32, i32),
                  cast_row(f16, i64, "arithmetic of int64"), cast_row(i8, i32), cast_row(u8, i32),
                  cast_row(boolean, i32), cast_row(f16, boolean), cast_row(i8, boolean),
                  cast_row(i32, i8, "wraps"), cast_row(i8, u8, "wraps"), cast_row(i64, i32, "wraps")}};
  return {floats, integers};
}

Group booleans() {
  auto compare = [](const Arrays& a) { return a[0] > a[1]; };
  auto within = [](const Arrays& a) { return stiletto::logical_and(a[0] > -1.0f, a[0] < 1.0f); };
  auto masked = [](const Arrays& a) { return stiletto::where(a[1], a[0], 0.0f); };
  auto mask_and_value = [](const Arrays& a) {
    const Array mask = a[0] > 0.0f;
    return Arrays{mask, stiletto::where(mask, a[0], 0.1f * a[0])};
  };
  return {"booleans",
          {{"a comparison", compare, {matrix(f32), matrix(f32)}},
           {"a comparison of odd size", compare, {{{7, 13}}, {{7, 13}}}},
           {"a comparison with a number", within, {matrix(bf16)}},
           {"not", [](const Arrays& a) { return stiletto::logical_not(a[0]); }, {matrix(boolean)}},
           {"and", [](const Arrays& a) { return a[0] * a[1]; }, {matrix(boolean), matrix(boolean)}},
           {"or", [](const Arrays& a) { return a[0] + a[1]; }, {matrix(boolean), matrix(boolean)}},
           {"equal", [](const Arrays& a) { return a[0] == a[1]; }, {matrix(boolean), matrix(boolean)}},
           {"where of booleans",
            [](const Arrays& a) { return stiletto::where(a[0], a[1], a[2]); },
            {matrix(boolean), matrix(boolean), matrix(boolean)}},
           {"a mask", masked, {matrix(f16), matrix(boolean)}},
           {"a mask of rows", masked, {matrix(f32), {{64, 1}, boolean}}},
           {"a mask of odd size", masked, {{{1001}}, {{1001}, boolean}}},
           {"a mask and what it selects", mask_and_value, {matrix(f32)}},
           {"a mask behind a product",
            [](const Arrays& a) { return stiletto::where(a[2], stiletto::matmul(a[0], a[1]), 0.0f); },
            {{{64, 64}}, {{64, 96}}, matrix(boolean)}}}};
}

Group mixed() {
  auto add = [](const Arrays& a) { return a[0] + a[1]; };
  auto multiply = [](const Arrays& a) { return a[0] * a[1]; };
  return {"mixed_dtypes",
          {{"float16 and float32", add, {matrix(f16), matrix(f32)}},
           {"float16 and bfloat16", add, {matrix(f16), matrix(bf16)}},
           {"float16 and int8", multiply, {matrix(f16), matrix(i8)}},
           {"float32 and boolean", multiply, {matrix(f32), matrix(boolean)}},
           {"float16 held in float16", multiply, {matrix(f16), matrix(f16)}, {}, {.intermediate_dtype = f16}},
           {"float32 written as bfloat16", multiply, {matrix(f32), matrix(f32)}, {}, {.io_dtype = bf16}}}};
}

Group integers() {
  auto add = [](const Arrays& a) { return a[0] + a[1]; };
  return {
      "integers",
      {{"int32 sum", add, {matrix(i32), matrix(i32)}, "not exact"},
       {"int8 sum", add, {matrix(i8), matrix(i8)}, "not exact"},
       {"int64 sum", add, {matrix(i64), matrix(i64)}, "not exact"},
       {"int32 less", [](const Arrays& a) { return a[0] < a[1]; }, {matrix(i32), matrix(i32)}, "not exact"},
       {"int8 less", [](const Arrays& a) { return a[0] < a[1]; }, {matrix(i8), matrix(i8)}},
       {"int8 maximum",
        [](const Arrays& a) { return stiletto::maximum(a[0], a[1]); },
        {matrix(i8), matrix(i8)}},
       {"uint8 relu", [](const Arrays& a) { return stiletto::relu(a[0]); }, {matrix(u8)}},
       {"int8 scaled", [](const Arrays& a) { return cast(a[0], f32) * 0.125f; }, {matrix(i8)}},
       {"int8 quotient", [](const Arrays& a) { return a[0] / a[1]; }, {matrix(i8), matrix(i8)}},
       {"float64 sum", add, {matrix(f64), matrix(f64)}, "float64 in products only"},
       {"float64 exp",
        [](const Arrays& a) { return stiletto::exp(a[0]); },
        {matrix(f64)},
        "float64 in products only"}}};
}

}  // namespace

std::vector<Group> dtype_groups() {
  std::vector<Group> groups = casts();
  for (Group group : {booleans(), mixed(), integers()}) groups.push_back(std::move(group));
  return groups;
}

}  // namespace plans
