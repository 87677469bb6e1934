// SPDX-License-Identifier: Apache-2.0
// The complete text of every error of the views (src/ops/view_geometry.cpp, views.cpp).
#include <gtest/gtest.h>

#include "unit/error_text.hpp"
#include "unit/trace_support.hpp"

namespace {

using stiletto::Array;
using stiletto::DType;
using stiletto::Slice;
using unit::expect_text;
using unit::Recording;

TEST(ViewErrorTexts, transpose_and_reshape) {
  const Array x = stiletto::ones({2, 3});
  expect_text([&] { stiletto::transpose(x, {0}); },
              "ShapeError: transpose: axes (0) are not a permutation of the 2 axes of shape (2, 3); name "
              "each axis once");
  expect_text([&] { stiletto::transpose(x, {1, 1}); },
              "ShapeError: transpose: axes (1, 1) are not a permutation of the 2 axes of shape (2, 3); name "
              "each axis once");
  expect_text([&] { stiletto::reshape(x, {-1, -1}); },
              "ShapeError: reshape: target (-1, -1) has more than one -1; one can be inferred");
  expect_text(
      [&] { stiletto::reshape(x, {-3, 2}); },
      "ShapeError: reshape: target (-3, 2) has a negative extent; extents start at 0, and one may be -1");
  expect_text([&] { stiletto::reshape(x, {INT64_MAX, 2}); },
              "ShapeError: reshape: target (9223372036854775807, 2) has more elements than 64 bits can "
              "count; shape (2, 3) has 6");
  expect_text([&] { stiletto::reshape(stiletto::ones({0}), {0, -1}); },
              "ShapeError: reshape: the -1 in (0, -1) is not determined for shape (0); name the extent");
  expect_text([&] { stiletto::reshape(x, {4, -1}); },
              "ShapeError: reshape: shape (2, 3) of 6 elements does not fit (4, -1); the extents named have "
              "to divide it");
  expect_text([&] { stiletto::reshape(x, {7}); },
              "ShapeError: reshape: shape (2, 3) has 6 elements, (7) has 7; a reshape keeps their number");
  expect_text([&] { stiletto::reshape(stiletto::transpose(x), {6}); },
              "ShapeError: reshape: shape (3, 2) with strides (1, 3) has no view of shape (6); copy() makes "
              "it contiguous");
}
TEST(ViewErrorTexts, slice) {
  const Array x = stiletto::ones({2, 5});
  expect_text([&] { stiletto::slice(x, {Slice{}, Slice{0, 5, 0}}); },
              "ShapeError: slice: axis 1 of shape (2, 5): the step is 0; use 1, or -1 to walk backwards");
  expect_text([&] { stiletto::slice(x, {Slice{3, {}}}); },
              "ShapeError: slice: axis 0 of shape (2, 5): begin 3 lies outside 0…2; negative ones count from "
              "the end");
  expect_text([&] { stiletto::slice(x, {Slice{}, Slice{-6, {}}}); },
              "ShapeError: slice: axis 1 of shape (2, 5): begin -6 lies outside 0…5; negative ones count "
              "from the end");
  expect_text(
      [&] { stiletto::slice(x, {Slice{}, Slice{0, 6}}); },
      "ShapeError: slice: axis 1 of shape (2, 5): end 6 lies outside 0…5; negative ones count from the end");
  expect_text(
      [&] { stiletto::slice(x, {Slice{}, Slice{0, -7}}); },
      "ShapeError: slice: axis 1 of shape (2, 5): end -7 lies outside 0…5; negative ones count from the end");
  expect_text([&] { stiletto::slice(x, {Slice{}, Slice{5, 0, -1}}); },
              "ShapeError: slice: axis 1 of shape (2, 5): begin 5 lies outside 0…4; negative ones count from "
              "the end");
  expect_text([] { stiletto::slice(stiletto::ones({0}), {Slice{0, {}, -1}}); },
              "ShapeError: slice: axis 0 of shape (0): begin 0, but the axis has no elements; leave it out");
  expect_text([&] { stiletto::slice(x, {Slice{}, Slice{}, Slice{}}); },
              "ShapeError: slice: 3 slices for shape (2, 5); give at most one for each axis");
}
TEST(ViewErrorTexts, extents_of_1_and_broadcast) {
  const Array x = stiletto::ones({2, 3}), long_one = stiletto::ones({1, 1, 1, 1, 1, 1, 1, 1});
  expect_text([&] { stiletto::squeeze(x, 0); },
              "ShapeError: squeeze: axis 0 of shape (2, 3) has extent 2, not 1; slice or reduce it first");
  expect_text([&] { stiletto::expand_dims(x, {}); },
              "ShapeError: expand_dims: no axis named for shape (2, 3); name those to add");
  expect_text([&] { stiletto::expand_dims(long_one, {0}); },
              "ShapeError: expand_dims: shape (1, 1, 1, 1, 1, 1, 1, 1) and 1 more axes exceed the limit of "
              "8; merge axes with reshape");
  expect_text([&] { stiletto::expand_dims(x, {1, -3}); },
              "ShapeError: expand_dims: axis -3 for shape (2, 3) is named twice; name each axis once");
  expect_text([&] { stiletto::broadcast_to(x, {2, 4}); },
              "ShapeError: broadcast_to: shape (2, 3) does not broadcast to (2, 4); trailing extents have to "
              "be equal or 1");
  expect_text([&] { stiletto::broadcast_to(x, {3}); },
              "ShapeError: broadcast_to: shape (2, 3) does not broadcast to (3); trailing extents have to be "
              "equal or 1");
  expect_text([&] { stiletto::broadcast_to(x, {-1, 3}); },
              "ShapeError: broadcast_to: shape (-1, 3) has a negative extent; extents start at 0");
}
TEST(ViewErrorTexts, as_strided) {
  const Array x = stiletto::ones({6});
  expect_text([&] { stiletto::as_strided(x, {2, 2}, {1}); },
              "ShapeError: as_strided: shape (2, 2) and strides (1) have different lengths; give one stride "
              "per axis");
  expect_text([&] { stiletto::as_strided(x, {-2}, {1}); },
              "ShapeError: as_strided: shape (-2) has a negative extent; extents start at 0");
  expect_text([&] { stiletto::as_strided(x, {3}, {INT64_MAX}); },
              "ShapeError: as_strided: shape (3) with strides (9223372036854775807) reaches beyond 64 bits; "
              "use smaller strides");
  expect_text([&] { stiletto::as_strided(x, {2, 3}, {2, 2}, 1); },
              "ShapeError: as_strided: shape (2, 3), strides (2, 2), offset 1 reaches elements 1 to 7 of a "
              "storage of 6 elements; stay inside it");
}
TEST(ViewErrorTexts, views_of_computed_values) {
  Recording r;
  const Array x = stiletto::exp(r.argument({2, 3})), turned = stiletto::transpose(x),
              flat = stiletto::reshape(x, {3, 2}),
              ordered = stiletto::exp(r.argument({2, 3}, DType::float32, {1, 2}));
  expect_text(
      [&] { stiletto::slice(x, {Slice{0, 1}}); },
      "TraceError: operation 6, slice: %1 is a computed value (exp), and what the slice leaves out would be "
      "computed only to be thrown away; a computed value can be permuted or reshaped only where it "
      "is returned or stored. View the inputs instead, or view the result outside the function");
  expect_text([&] { stiletto::as_strided(x, {2}, {1}); },
              "TraceError: operation 6, as_strided: %1 is a computed value (exp), and it has no memory to "
              "stride over; a computed value can be permuted or reshaped only where it is returned or "
              "stored. View the inputs instead, or view the result outside the function");
  expect_text([&] { stiletto::broadcast_to(x, {4, 2, 3}); },
              "TraceError: operation 6, broadcast_to: %1 is a computed value (exp), and operations broadcast "
              "it by themselves; a computed value can be permuted or reshaped only where it is returned or "
              "stored. View the inputs instead, or view the result outside the function");
  expect_text([&] { stiletto::reshape(ordered, {6}); },
              "TraceError: operation 6, reshape: %5 is a computed value (exp), and its result lies in memory "
              "as shape (2, 3) with strides (1, 2), and a reshape would need row-major order; a computed "
              "value can be permuted or reshaped only where it is returned or stored. View the inputs "
              "instead, or view the result outside the function");
  expect_text([&] { stiletto::transpose(flat); },
              "TraceError: operation 6, transpose: %3 is a computed value (reshape), and it is the reshape "
              "of a computed value; a computed value can be permuted or reshaped only where it is returned "
              "or stored. View the inputs instead, or view the result outside the function");
  expect_text([&] { stiletto::slice(turned, {Slice{0, 1}}); },
              "TraceError: operation 6, slice: %2 is a computed value (permute), and what the slice leaves "
              "out would be "
              "computed only to be thrown away; a computed value can be permuted or reshaped only where it "
              "is returned or stored. View the inputs instead, or view the result outside the function");
}
TEST(ViewErrorTexts, views_in_a_trace_are_named_with_their_position) {
  Recording r;
  const Array x = r.argument({2, 3}), packed = r.argument({2, 4}, DType::float4_e2m1);
  expect_text([&] { stiletto::slice(x, {Slice{0, 5}}); },
              "ShapeError: operation 2, slice: axis 0 of shape (2, 3): end 5 lies outside 0…2; negative ones "
              "count from the end");
  expect_text([&] { stiletto::reshape(x, {4}); },
              "ShapeError: operation 2, reshape: shape (2, 3) has 6 elements, (4) has 4; a reshape keeps "
              "their number");
  expect_text([&] { stiletto::as_strided(x, {7}, {1}); },
              "ShapeError: operation 2, as_strided: shape (7), strides (1), offset 0 reaches elements 0 to 6 "
              "of a storage of 6 elements; stay inside it");
  expect_text(
      [&] { stiletto::slice(packed, {Slice{}, Slice{1, 3}}); },
      "ShapeError: operation 2, slice: float4_e2m1 is packed two to a byte: offset 1, shape (2, 2), strides "
      "(4, 1) would split one; offsets and strides have to be even, and the extent along stride 1 too");
  expect_text([&] { stiletto::zeros({-1}); },
              "ShapeError: operation 2, zeros: shape (-1) has a negative extent; extents start at 0");
  expect_text([&] { x + Array(); },
              "ArgumentError: operation 2, add: the array is an empty handle; make it with zeros, empty, "
              "from_data or wrap");
}

}  // namespace
