// SPDX-License-Identifier: Apache-2.0
// The complete text of every error of src/ops and src/graph: what operations refuse, outside a trace and
// inside, where they are named with their position. Each case names the file that throws. Views are in a file
// of their own.
#include <gtest/gtest.h>

#include <vector>

#include "unit/error_text.hpp"
#include "unit/trace_support.hpp"

namespace {

using stiletto::Array;
using stiletto::Device;
using stiletto::DType;
using unit::expect_text;
using unit::Recording;

constexpr DType i8 = DType::int8, e4m3 = DType::float8_e4m3, e8m0 = DType::float8_e8m0;

// creation.cpp
TEST(OpsErrorTexts, making_memory_in_a_trace) {
  static float memory[2];
  Recording r;
  r.argument({2});
  expect_text([] { stiletto::empty({2}); },
              "TraceError: operation 1, empty: memory cannot be made inside a trace; make it outside and "
              "pass or capture it (zeros, ones and full are constants here)");
  expect_text([] { stiletto::from_data(std::vector<float>{1}, {1}); },
              "TraceError: operation 1, from_data: memory cannot be made inside a trace; make it outside and "
              "pass or capture it (zeros, ones and full are constants here)");
  expect_text([] { stiletto::wrap(memory, {2}, DType::float32, Device::cpu()); },
              "TraceError: operation 1, wrap: memory cannot be made inside a trace; make it outside and pass "
              "or capture it (zeros, ones and full are constants here)");
}
TEST(OpsErrorTexts, making_arrays) {
  static float memory[4];
  expect_text(
      [] { stiletto::full({2}, stiletto::ones({2, 1})); },
      "ShapeError: full: the value has shape (2, 1), it has to have rank 0; broadcast_to repeats an array");
  expect_text([] { stiletto::full({2}, 300, i8); },
              "DTypeError: full: the number 300 does not fit int8; use a wider dtype");
  expect_text([] { stiletto::full({2}, -1, DType::uint8); },
              "DTypeError: full: the number -1 does not fit uint8; use a wider dtype");
  expect_text(
      [] { stiletto::ones({2}, e8m0); },
      "DTypeError: ones: float8_e8m0 holds block scales, which are not computed with; use another dtype");
  expect_text([] { stiletto::wrap(memory, {2, 2}, DType::float32, Device::cpu(), {1}); },
              "ShapeError: wrap: shape (2, 2) and strides (1) have different lengths; give one stride per "
              "axis, or none for row-major");
  expect_text([] { stiletto::wrap(nullptr, {2, 2}, DType::float32, Device::cpu()); },
              "ArgumentError: wrap: a null pointer for shape (2, 2); pass the first element's address");
  expect_text([] { stiletto::spec({2, 2}, DType::float32, {1, 2, 3}); },
              "ShapeError: spec: shape (2, 2) and strides (1, 2, 3) have different lengths; give one stride "
              "per axis, or none for row-major");
  expect_text([] { stiletto::from_data(std::vector<float>(5), {2, 3}); },
              "ShapeError: from_data: 5 values for shape (2, 3) of 6 elements; give one for each");
}

// shape_rules.cpp: pointwise
TEST(OpsErrorTexts, shapes_that_do_not_broadcast) {
  Recording r;
  const Array x = r.argument({2, 3}), y = r.argument({2, 4}), z = r.argument({5, 3}),
              c = r.argument({2, 1}, DType::boolean);
  expect_text([&] { x + y; },
              "ShapeError: operation 4, add: operand 1 of shape (2, 4) does not broadcast with operand 0 of "
              "shape (2, 3) at axis 1; extents have to be equal or 1");
  expect_text([&] { x* z; },
              "ShapeError: operation 4, multiply: operand 1 of shape (5, 3) does not broadcast with operand "
              "0 of shape (2, 3) at axis 0; extents have to be equal or 1");
  expect_text([&] { stiletto::where(c, x, y); },
              "ShapeError: operation 4, where: operand 2 of shape (2, 4) does not broadcast with the others' "
              "shape (2, 3) at axis 1; extents have to be equal or 1");
  expect_text([&] { stiletto::clamp(x, y, 1); },
              "ShapeError: operation 4, clamp: operand 1 of shape (2, 4) does not broadcast with operand 0 "
              "of shape (2, 3) at axis 1; extents have to be equal or 1");
}
TEST(OpsErrorTexts, outside_a_trace_there_is_no_position) {
  const Array x = stiletto::ones({2, 3});
  expect_text([&] { x + stiletto::ones({4}); },
              "ShapeError: add: operand 1 of shape (4) does not broadcast with operand 0 of shape (2, 3) at "
              "axis 1; extents have to be equal or 1");
  expect_text([&] { stiletto::matmul(x, x); },
              "ShapeError: matmul: (2, 3) · (2, 3): the last axis of the first (3) and axis 0 of the second "
              "(2) have to be equal; transpose one?");
}
TEST(OpsErrorTexts, results_that_overflow) {
  Recording r;
  const std::int64_t large = std::int64_t{1} << 40;
  const Array x = r.argument({large, 1}), y = r.argument({large});
  expect_text([&] { x + y; },
              "ShapeError: operation 2, add: shape (1099511627776, 1099511627776) has more elements than 64 "
              "bits can address in bytes; use smaller extents");
  expect_text([&] { stiletto::matmul(x, stiletto::reshape(y, {1, large})); },
              "ShapeError: operation 3, matmul: shape (1099511627776, 1099511627776) has more elements than "
              "64 bits can address in bytes; use smaller extents");
}

// shape_rules.cpp, reductions.cpp
TEST(OpsErrorTexts, reductions) {
  Recording r;
  const Array x = r.argument({2, 0, 3});
  expect_text([&] { stiletto::max(x, 1); },
              "ShapeError: operation 1, max: axis 1 of shape (2, 0, 3) has no elements, and max of nothing "
              "has no value; reduce axes that have some");
  expect_text([&] { stiletto::abs_max(x, {2, 1}); },
              "ShapeError: operation 1, abs_max: axis 1 of shape (2, 0, 3) has no elements, and abs_max of "
              "nothing has no value; reduce axes that have some");
  expect_text([&] { stiletto::sum(x, {1, -2}); },
              "ShapeError: operation 1, sum: axis -2 of shape (2, 0, 3) is named twice; name each axis once");
  expect_text(
      [&] { stiletto::mean(x, 7); },
      "ShapeError: operation 1, mean: axis 7 is out of range for shape (2, 0, 3); axes here are -3 to 2");
}

// shape_rules.cpp, stores.cpp: products
TEST(OpsErrorTexts, products) {
  Recording r;
  const Array x = r.argument({2, 3}), v = r.argument({4}), scalar = r.argument({}),
              batch = r.argument({5, 2, 3}), other = r.argument({4, 3, 2});
  expect_text([&] { stiletto::matmul(x, x); },
              "ShapeError: operation 5, matmul: (2, 3) · (2, 3): the last axis of the first (3) and axis 0 "
              "of the second (2) have to be equal; transpose one?");
  expect_text([&] { stiletto::matmul(v, x); },
              "ShapeError: operation 5, matmul: (4) · (2, 3): the last axis of the first (4) and axis 0 of "
              "the second (2) have to be equal; transpose one?");
  expect_text([&] { stiletto::matmul(x, v); },
              "ShapeError: operation 5, matmul: (2, 3) · (4): the last axis of the first (3) and axis 0 of "
              "the second (4) have to be equal; transpose one?");
  expect_text([&] { stiletto::matmul(scalar, x); },
              "ShapeError: operation 5, matmul: () · (2, 3): a rank-0 operand; use * to scale");
  expect_text([&] { stiletto::matmul(batch, other); },
              "ShapeError: operation 5, matmul: (5, 2, 3) · (4, 3, 2): the leading batch axes do not "
              "broadcast; extents have to be equal or 1");
  expect_text([&] { stiletto::matmul_into(x, x, stiletto::transpose(x)); },
              "ShapeError: operation 6, matmul_into: the product has shape (2, 2), the destination (2, 3); "
              "store to one of the product's shape");
  expect_text([&] { stiletto::matmul_into(x, x, stiletto::transpose(x), 1, 2); },
              "ShapeError: operation 7, matmul_into: the product has shape (2, 2), the destination (2, 3); "
              "store to one of the product's shape");
}
TEST(OpsErrorTexts, products_into_memory_are_named_after_the_call) {
  const Array x = stiletto::ones({2, 3}), c = stiletto::ones({2, 3}),
              flag = stiletto::ones({3}, DType::boolean);
  expect_text([&] { stiletto::matmul_into(c, x, x); },
              "ShapeError: matmul_into: (2, 3) · (2, 3): the last axis of the first (3) and axis 0 of the "
              "second (2) have to be equal; transpose one?");
  expect_text([&] { stiletto::matmul_into(c, x, flag, 1, 2); },
              "DTypeError: matmul_into: does not take boolean; cast the operand, for instance to float32");
  Recording r;
  const Array y = r.argument({2, 2}), z = r.argument({2, 2}), turned = stiletto::transpose(stiletto::exp(z));
  expect_text(
      [&] { stiletto::matmul_into(y, z, turned, 1, 2); },
      "TraceError: operation 4, matmul_into: operand %3 is the permute of a computed value, which may "
      "only be returned or stored; transpose or reshape the inputs instead, or compute it in a "
      "function of its own");
  stiletto::assign(y, z);
  expect_text([&] { stiletto::matmul_into(y, z, z, 1, 2); },
              "TraceError: operation 4, matmul_into: reads arg0 after the trace stored to it; use the value "
              "that was stored, or compute this before the store");
}
TEST(OpsErrorTexts, scaling_integer_products) {
  Recording r;
  const Array x = r.argument({2, 2}, i8), c = r.argument({2, 2}, DType::int32);
  expect_text([&] { stiletto::matmul_into(c, x, x, 0.5, 0); },
              "DTypeError: operation 2, matmul_into: alpha 0.5 and beta 0 have to be whole numbers for a "
              "product of int32; cast an operand to float32");
}

// type_rules.cpp
TEST(OpsErrorTexts, dtypes) {
  Recording r;
  const Array x = r.argument({2, 2}), narrow = r.argument({2, 2}, e4m3),
              flag = r.argument({2, 2}, DType::boolean), scale = r.argument({2, 2}, e8m0);
  expect_text([&] { stiletto::matmul(narrow, x); },
              "DTypeError: operation 4, matmul: float8_e4m3 and float32 have no common dtype; cast the "
              "narrow one, for instance to float32");
  expect_text(
      [&] { stiletto::matmul(x, flag); },
      "DTypeError: operation 4, matmul: does not take boolean; cast the operand, for instance to float32");
  expect_text([&] { stiletto::matmul(scale, x); },
              "DTypeError: operation 4, matmul: does not take float8_e8m0; cast the operand, for instance to "
              "float32");
  expect_text([&] { stiletto::exp(narrow); },
              "DTypeError: operation 4, exp: does not take float8_e4m3; it is a storage type: cast it, for "
              "instance to float32");
  expect_text([&] { x + scale; },
              "DTypeError: operation 4, add: does not take float8_e8m0; it is a storage type: cast it, for "
              "instance to float32");
  expect_text([&] { stiletto::sum(narrow); },
              "DTypeError: operation 4, sum: does not take float8_e4m3; it is a storage type: cast it, for "
              "instance to float32");
  expect_text([&] { stiletto::where(x, x, 0); },
              "DTypeError: operation 4, where: the condition is float32, it has to be boolean; compare "
              "first, for instance condition != 0");
  expect_text([&] { -flag; },
              "DTypeError: operation 4, negate: does not take boolean; cast it, for instance to int32");
  expect_text([&] { flag - flag; },
              "DTypeError: operation 4, subtract: does not take boolean; cast it, for instance to int32");
}

// apply.cpp
TEST(OpsErrorTexts, numbers_that_do_not_fit) {
  Recording r;
  const Array x = r.argument({2}, i8);
  expect_text([&] { x + 300; },
              "DTypeError: operation 1, add: the number 300 does not fit the array's dtype int8; cast the "
              "array first");
  expect_text([&] { stiletto::maximum(-129, x); },
              "DTypeError: operation 1, maximum: the number -129 does not fit the array's dtype int8; cast "
              "the array first");
  expect_text([&] { (void)(r.argument({2}, DType::int32) < (1LL << 40)); },
              "DTypeError: operation 2, less: the number 1099511627776 does not fit the array's dtype int32; "
              "cast the array first");
}
TEST(OpsErrorTexts, casts_to_scales) {
  const Array x = stiletto::ones({2});
  expect_text([&] { stiletto::cast(x, e8m0); },
              "DTypeError: cast: float8_e8m0 holds block scales, which quantize makes; cast float32 to "
              "another dtype");
}
TEST(OpsErrorTexts, copies_of_scales) {  // views.cpp
  Recording r;
  const Array x = r.argument({2}, e8m0);
  expect_text([&] { x.copy(); },
              "DTypeError: operation 1, copy: float8_e8m0 holds block scales; copy them outside the trace");
}
TEST(OpsErrorTexts, operands_that_may_only_be_returned) {
  Recording r;
  const Array x = stiletto::exp(r.argument({2, 3}));
  expect_text(
      [&] { stiletto::transpose(x) * 2; },
      "TraceError: operation 3, multiply: operand %2 is the permute of a computed value, which may only be "
      "returned or stored; transpose or reshape the inputs instead, or compute it in a function of its own");
  expect_text(
      [&] { stiletto::sum(stiletto::reshape(x, {6})); },
      "TraceError: operation 4, sum: operand %3 is the reshape of a computed value, which may only be "
      "returned or stored; transpose or reshape the inputs instead, or compute it in a function of its own");
}
TEST(OpsErrorTexts, arrays_of_a_trace_that_ended) {
  Array kept;
  {
    Recording r;
    kept = r.argument({2, 2}) * 2;
  }
  const Array y = stiletto::zeros({2, 2});
  // apply.cpp
  expect_text([&] { kept + 1; },
              "TraceError: add: an operand belongs to trace N, which has ended; return values from the "
              "traced function instead of storing its arrays");
  // views.cpp
  expect_text([&] { stiletto::transpose(kept); },
              "TraceError: transpose: the array belongs to trace N, which has ended; return values from the "
              "traced function instead of storing its arrays");
  // stores.cpp
  expect_text([&] { stiletto::assign(kept, y); },
              "TraceError: assign: the destination belongs to trace N, which has ended; return values from "
              "the traced function instead of storing its arrays");
  expect_text([&] { stiletto::assign(y, kept); },
              "TraceError: assign: the value belongs to trace N, which has ended; return values from the "
              "traced function instead of storing its arrays");
  expect_text(
      [&] { stiletto::matmul_into(y, kept, kept); },
      "TraceError: matmul_into: an operand belongs to trace N, which has ended; return values from the "
      "traced function instead of storing its arrays");
  // trace.cpp
  expect_text([&] { stiletto::compile([](const Array& a) { return a; }, kept); },
              "TraceError: compile: arg0 is a traced array of trace N; compile outside the traced function, "
              "or call the function itself inside it");
}

// trace.cpp
TEST(OpsErrorTexts, arrays_of_another_trace) {
  Recording outer;
  const Array x = outer.argument({2});
  Recording inner;
  const Array y = inner.argument({2});
  expect_text([&] { y + x; },
              "TraceError: operation 1, add: an operand belongs to trace N, this is trace N; a traced array "
              "is only usable inside the call that made it: return it from there");
  expect_text([&] { inner.trace.add_result(x); },
              "TraceError: operation 1, return: an operand belongs to trace N, this is trace N; a traced "
              "array is only usable inside the call that made it: return it from there");
  expect_text([&] { inner.like(x); },
              "TraceError: compile: arg1 is a traced array of trace N; compile outside the traced function, "
              "or call the function itself inside it");
}
TEST(OpsErrorTexts, specs_are_not_captured) {
  const Array symbol = stiletto::spec({2}, DType::float16, {}, Device::cpu());
  // views.cpp
  expect_text([&] { symbol.copy(); },
              "TraceError: copy: a spec (float16(2)) has no memory to copy; pass an array, inside a trace as "
              "an argument");
  expect_text(
      [&] { symbol + symbol; },  // apply.cpp: outside a trace
      "TraceError: add: an operand is a spec (float16(2)) without memory; compile with it, or make the array "
      "with zeros, empty, from_data or wrap");
  const Array y = stiletto::ones({2, 2}), square = stiletto::spec({2, 2}, DType::float32, {}, Device::cpu());
  expect_text(
      [&] { stiletto::assign(square, y); },  // stores.cpp
      "TraceError: assign: the destination is a spec (float32(2, 2)) without memory; compile with it, or "
      "make the array with zeros, empty, from_data or wrap");
  expect_text(
      [&] { stiletto::assign(y, square); },
      "TraceError: assign: the value is a spec (float32(2, 2)) without memory; compile with it, or make "
      "the array with zeros, empty, from_data or wrap");
  expect_text(
      [&] { stiletto::matmul_into(y, square, y.copy()); },
      "TraceError: matmul_into: an operand is a spec (float32(2, 2)) without memory; compile with it, "
      "or make the array with zeros, empty, from_data or wrap");
  Recording r;
  const Array x = r.argument({2});
  expect_text(
      [&] { x + symbol; },
      "TraceError: operation 1, add: a spec (float16(2)) has no memory to capture; pass it as an argument");
  expect_text([&] { stiletto::assign(symbol, x); },
              "TraceError: operation 1, assign: a spec (float16(2)) has no memory to capture; pass it as an "
              "argument");
}
TEST(OpsErrorTexts, reading_after_a_store) {
  const Array w = stiletto::ones({2});
  Recording r;
  const Array y = r.argument({2}), x = r.argument({2});
  stiletto::assign(y, x);
  stiletto::assign(w, x);
  expect_text([&] { stiletto::exp(y); },
              "TraceError: operation 3, exp: reads arg0 after the trace stored to it; use the value that was "
              "stored, or compute this before the store");
  expect_text([&] { x + w; },
              "TraceError: operation 3, add: reads capture0 after the trace stored to it; use the value that "
              "was stored, or compute this before the store");
  expect_text([&] { stiletto::assign(x, y); },
              "TraceError: operation 3, assign: reads arg0 after the trace stored to it; use the value that "
              "was stored, or compute this before the store");
}

// stores.cpp
TEST(OpsErrorTexts, destinations) {
  Recording r;
  const Array x = r.argument({2, 2}), s = r.like(Array(1.0)), scale = r.argument({2}, e8m0);
  expect_text([&] { stiletto::assign(Array(2.0), x); },
              "TraceError: operation 3, assign: the destination is a number; store to an array");
  expect_text([&] { stiletto::assign(s, 1); },
              "TraceError: operation 3, assign: the destination %1 is a computed value (scalar); store to an "
              "argument, a captured array or a view of one");
  expect_text([&] { stiletto::assign(stiletto::exp(x), x); },
              "TraceError: operation 4, assign: the destination %3 is a computed value (exp); store to an "
              "argument, a captured array or a view of one");
  expect_text([&] { stiletto::matmul_into(stiletto::exp(x), x, x); },
              "TraceError: operation 5, matmul_into: the destination %4 is a computed value (exp); store to "
              "an argument, a captured array or a view of one");
  expect_text([&] { stiletto::assign(scale, 1); },
              "DTypeError: operation 5, assign: the destination is float8_e8m0, which holds block scales and "
              "is not computed with; store to another dtype");
  expect_text([&] { stiletto::assign(stiletto::broadcast_to(x, {3, 2, 2}), 1); },
              "AliasError: operation 6, assign: the destination of shape (3, 2, 2) with strides (0, 2, 1) "
              "reaches an element more than once; store to an array without overlap");
  expect_text([&] { stiletto::assign(x, r.argument({2, 3})); },
              "ShapeError: operation 7, assign: a value of shape (2, 3) does not broadcast to the "
              "destination's shape (2, 2); trailing extents have to be equal or 1");
  expect_text([&] { stiletto::assign(r.argument({2}, i8), 128); },
              "DTypeError: operation 8, assign: the number 128 does not fit the destination's dtype int8; "
              "store to a wider dtype");
}
TEST(OpsErrorTexts, destinations_that_a_reshape_does_not_fit) {
  Recording r;
  const Array y = r.argument({2, 6}, DType::float32, {1, 2}), x = r.argument({3, 4});
  expect_text([&] { stiletto::assign(y, stiletto::reshape(stiletto::exp(x), {2, 6})); },
              "TraceError: operation 4, assign: the value is a reshape (to (2, 6)) that the destination's "
              "strides (1, 2) cannot take in one write; reshape the destination instead");
}

}  // namespace
