// SPDX-License-Identifier: Apache-2.0
// What each view does to shape, strides and offset. Every slice of short axes is compared with the elements
// that Python's range would name; the other views are looked at through the memory they share.
#include "ops/view_geometry.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "stiletto/stiletto.hpp"
#include "unit/error_text.hpp"
#include "unit/trace_support.hpp"

namespace {

using stiletto::Array;
using stiletto::Dims;
using stiletto::DType;
using stiletto::ShapeError;
using stiletto::Slice;
using unit::error_of;
namespace detail = stiletto::detail;

Array iota(const stiletto::Shape& shape) {
  std::vector<int> values(static_cast<std::size_t>(detail::element_count(shape, "iota")));
  std::iota(values.begin(), values.end(), 0);
  return stiletto::from_data(values, shape);
}
std::vector<int> values(const Array& x) { return x.to_vector<int>(); }

// ---- slice ----------------------------------------------------------------------------------------------

/// The indices that a slice of one axis names, or nothing where one of them does not exist.
std::optional<std::vector<int>> named(std::int64_t extent, const Slice& s) {
  auto from_end = [&](std::int64_t i) { return i < 0 ? i + extent : i; };
  const bool forward = s.step > 0;
  const std::int64_t begin = s.begin ? from_end(*s.begin) : forward ? 0 : extent - 1;
  const std::int64_t end = s.end ? from_end(*s.end) : forward ? extent : -1;
  if (begin < (forward ? 0 : -1) || begin > (forward ? extent : extent - 1)) return std::nullopt;
  if (end < (forward ? 0 : -1) || end > extent) return std::nullopt;
  std::vector<int> result;
  for (std::int64_t i = begin; forward ? i < end : i > end; i += s.step)
    result.push_back(static_cast<int>(i));
  return result;
}

TEST(SliceGeometry, every_slice_of_short_axes) {
  using Bound = std::optional<std::int64_t>;
  int taken = 0, refused = 0;
  for (std::int64_t extent : {0, 1, 2, 5}) {
    const Array x = iota({extent});
    std::vector<Bound> bounds{std::nullopt};
    for (std::int64_t b = -extent - 2; b <= extent + 2; ++b) bounds.emplace_back(b);
    for (const Bound& begin : bounds)
      for (const Bound& end : bounds)
        for (std::int64_t step : {1, 2, 3, 7, -1, -2, -7}) {
          const Slice s{begin, end, step};
          const auto wanted = named(extent, s);
          auto label = [&] {
            return std::to_string(extent) + " [" + (begin ? std::to_string(*begin) : "") + ":" +
                   (end ? std::to_string(*end) : "") + ":" + std::to_string(step) + "]";
          };
          if (wanted) {
            EXPECT_EQ(values(stiletto::slice(x, {s})), *wanted) << label();
            ++taken;
          } else {
            EXPECT_THROW(stiletto::slice(x, {s}), ShapeError) << label();
            ++refused;
          }
        }
  }
  EXPECT_GT(taken, 500);
  EXPECT_GT(refused, 500);
}

TEST(SliceGeometry, axes_that_are_left_out_are_whole) {
  const Array x = iota({3, 4});
  EXPECT_EQ(values(stiletto::slice(x, {})), values(x));
  EXPECT_EQ(values(stiletto::slice(x, {Slice{1, 2}})), (std::vector<int>{4, 5, 6, 7}));
  EXPECT_EQ(values(stiletto::slice(x, {Slice{}, Slice{-1, {}}})), (std::vector<int>{3, 7, 11}));
  EXPECT_THROW(stiletto::slice(x, {Slice{}, Slice{}, Slice{}}), ShapeError);
  EXPECT_THROW(stiletto::slice(iota({}), {Slice{}}), ShapeError);
}

TEST(SliceGeometry, extreme_steps_and_bounds) {
  const Array x = iota({5});
  const std::int64_t least = INT64_MIN, most = INT64_MAX;
  EXPECT_EQ(values(stiletto::slice(x, {Slice{1, {}, most}})), std::vector<int>{1});
  EXPECT_EQ(values(stiletto::slice(x, {Slice{3, {}, least}})), std::vector<int>{3});
  for (std::int64_t far : {least, most}) {
    EXPECT_THROW(stiletto::slice(x, {Slice{far, {}}}), ShapeError);
    EXPECT_THROW(stiletto::slice(x, {Slice{{}, far}}), ShapeError);
    EXPECT_THROW(stiletto::slice(x, {Slice{{}, far, -1}}), ShapeError);
  }
  EXPECT_THROW(stiletto::slice(x, {Slice{0, 5, 0}}), ShapeError);
}

TEST(SliceGeometry, strides_and_offset) {
  const detail::Geometry x{{6, 8}, {8, 1}, 3};
  auto slice = [&](const std::vector<Slice>& s) { return detail::slice_geometry(x, s, "slice"); };
  detail::Geometry g = slice({Slice{1, 5, 2}, Slice{{}, {}, -3}});
  EXPECT_EQ(g.shape, (Dims{2, 3}));
  EXPECT_EQ(g.strides, (Dims{16, -3}));
  EXPECT_EQ(g.offset, 3 + 8 + 7);
  g = slice({Slice{2, 3, 4}});
  EXPECT_EQ(g.strides, (Dims{8, 1})) << "one element has no step";
  EXPECT_EQ(g.offset, 3 + 16);
  g = slice({Slice{6, 6}, Slice{8, 8}});
  EXPECT_EQ(g.shape, (Dims{0, 0}));
  EXPECT_EQ(g.offset, 3) << "no elements begin nowhere outside the storage";
}

TEST(SliceGeometry, composes) {
  const Array x = iota({10});
  const Array odd = stiletto::slice(x, {Slice{1, {}, 2}});
  const Array back = stiletto::slice(odd, {Slice{{}, {}, -1}});
  EXPECT_EQ(values(back), (std::vector<int>{9, 7, 5, 3, 1}));
  EXPECT_EQ(values(stiletto::slice(back, {Slice{1, 4, 2}})), (std::vector<int>{7, 3}));
  EXPECT_EQ(back.raw_data(), static_cast<int*>(x.raw_data()) + 9);
}

// ---- the other views ------------------------------------------------------------------------------------

TEST(ViewGeometry, transpose) {
  const Array x = iota({2, 3, 4});
  EXPECT_EQ(stiletto::transpose(x).shape(), (Dims{4, 3, 2}));
  EXPECT_EQ(stiletto::transpose(x).strides(), (Dims{1, 4, 12}));
  const Array y = stiletto::transpose(x, {1, -1, 0});
  EXPECT_EQ(y.shape(), (Dims{3, 4, 2}));
  EXPECT_EQ(y.strides(), (Dims{4, 1, 12}));
  EXPECT_EQ(y.raw_data(), x.raw_data());
  EXPECT_EQ(y.at<int>({2, 3, 1}), x.at<int>({1, 2, 3}));
  EXPECT_EQ(values(stiletto::transpose(iota({}))), std::vector<int>{0});
  EXPECT_THROW(stiletto::transpose(x, {0, 1}), ShapeError);
  EXPECT_THROW(stiletto::transpose(x, {0, 1, 1}), ShapeError);
  EXPECT_THROW(stiletto::transpose(x, {0, 1, -2}), ShapeError);
  EXPECT_THROW(stiletto::transpose(x, {0, 1, 3}), ShapeError);
  EXPECT_THROW(stiletto::transpose(x, {0, 1, 2, 3}), ShapeError);
}

TEST(ViewGeometry, reshape) {
  const Array x = iota({2, 3, 4});
  EXPECT_EQ(stiletto::reshape(x, {6, -1}).shape(), (Dims{6, 4}));
  EXPECT_EQ(stiletto::reshape(x, {-1}).shape(), (Dims{24}));
  EXPECT_EQ(stiletto::reshape(x, {4, 3, 2}).strides(), (Dims{6, 2, 1}));
  EXPECT_EQ(stiletto::reshape(x, {1, 24, 1}).raw_data(), x.raw_data());
  EXPECT_EQ(stiletto::reshape(iota({0, 3}), {5, 0}).shape(), (Dims{5, 0}));
  EXPECT_EQ(stiletto::reshape(iota({0, 3}), {-1, 3}).shape(), (Dims{0, 3}));
  EXPECT_EQ(stiletto::reshape(iota({1}), {}).shape(), Dims());
  EXPECT_THROW(stiletto::reshape(x, {5, 5}), ShapeError);
  EXPECT_THROW(stiletto::reshape(x, {-1, -1}), ShapeError);
  EXPECT_THROW(stiletto::reshape(x, {-2, 12}), ShapeError);
  EXPECT_THROW(stiletto::reshape(x, {5, -1}), ShapeError);
  EXPECT_THROW(stiletto::reshape(iota({0}), {0, -1}), ShapeError) << "0 · anything is 0";
  EXPECT_THROW(stiletto::reshape(x, {INT64_MAX, 2, -1}), ShapeError);
  EXPECT_THROW(stiletto::reshape(stiletto::transpose(x), {24}), ShapeError) << "no view is in that order";
  EXPECT_EQ(values(stiletto::reshape(stiletto::slice(iota({8}), {Slice{{}, {}, -2}}), {2, 2})),
            (std::vector<int>{7, 5, 3, 1}));
}

TEST(ViewGeometry, squeeze_and_expand) {
  const Array x = iota({1, 3, 1, 2, 1});
  EXPECT_EQ(stiletto::squeeze(x).shape(), (Dims{3, 2}));
  EXPECT_EQ(stiletto::squeeze(x, {0}).shape(), (Dims{3, 1, 2, 1}));
  EXPECT_EQ(stiletto::squeeze(x, {2, -1}).shape(), (Dims{1, 3, 2}));
  EXPECT_EQ(stiletto::squeeze(iota({1, 1})).shape(), Dims());
  EXPECT_THROW(stiletto::squeeze(x, {1}), ShapeError);
  EXPECT_THROW(stiletto::squeeze(x, {5}), ShapeError);
  const Array y = iota({3, 2});
  EXPECT_EQ(stiletto::expand_dims(y, 0).shape(), (Dims{1, 3, 2}));
  EXPECT_EQ(stiletto::expand_dims(y, -1).shape(), (Dims{3, 2, 1}));
  EXPECT_EQ(stiletto::expand_dims(y, {0, 2, 4}).shape(), (Dims{1, 3, 1, 2, 1}));
  EXPECT_EQ(values(stiletto::expand_dims(stiletto::transpose(y), 1)), (std::vector<int>{0, 2, 4, 1, 3, 5}));
  EXPECT_THROW(stiletto::expand_dims(y, 3), ShapeError);
  EXPECT_THROW(stiletto::expand_dims(y, {0, 0}), ShapeError);
  EXPECT_THROW(stiletto::expand_dims(y, {0, -4}), ShapeError);
  EXPECT_THROW(stiletto::expand_dims(y, {}), ShapeError);
  EXPECT_THROW(stiletto::expand_dims(iota({1, 1, 1, 1, 1, 1, 1, 1}), 0), ShapeError) << "rank 9";
}

TEST(ViewGeometry, broadcast_to) {
  const Array x = iota({3, 1});
  const Array y = stiletto::broadcast_to(x, {2, 3, 4});
  EXPECT_EQ(y.strides()[0], 0);
  EXPECT_EQ(y.strides()[2], 0);
  EXPECT_EQ(values(y),
            (std::vector<int>{0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2}));
  EXPECT_EQ(stiletto::broadcast_to(x, {3, 1}).shape(), (Dims{3, 1}));
  EXPECT_EQ(stiletto::broadcast_to(x, {3, 0}).shape(), (Dims{3, 0}));
  EXPECT_THROW(stiletto::broadcast_to(x, {2, 1}), ShapeError);
  EXPECT_THROW(stiletto::broadcast_to(x, {1}), ShapeError) << "never to fewer axes";
  EXPECT_THROW(stiletto::broadcast_to(iota({3}), {3, 1}), ShapeError);
  EXPECT_THROW(stiletto::broadcast_to(x, {3, -1}), ShapeError);
  EXPECT_THROW(stiletto::broadcast_to(x, {INT64_MAX, 3, 8}), ShapeError);
}

TEST(ViewGeometry, as_strided) {
  const Array x = iota({12});
  EXPECT_EQ(values(stiletto::as_strided(x, {2, 3}, {1, 2}, 4)), (std::vector<int>{4, 6, 8, 5, 7, 9}));
  EXPECT_EQ(values(stiletto::as_strided(x, {3}, {-5}, 11)), (std::vector<int>{11, 6, 1}));
  EXPECT_EQ(values(stiletto::as_strided(x, {3, 2}, {1, 1}, 0)), (std::vector<int>{0, 1, 1, 2, 2, 3}));
  const Array part = stiletto::slice(x, {Slice{4, 8}});
  EXPECT_EQ(values(stiletto::as_strided(part, {12}, {1}, -4)), values(x)) << "the whole storage is in reach";
  EXPECT_EQ(stiletto::as_strided(x, {0, 5}, {1000, 1}, 0).size(), 0) << "no elements reach nowhere";
}

TEST(ViewGeometry, as_strided_names_the_first_and_last_element) {
  const Array x = iota({12}), part = stiletto::slice(x, {Slice{4, 8}});
  auto expect = [](const std::string& text, const char* fact) {
    EXPECT_NE(text.find(fact), std::string::npos) << fact << " is not in " << text;
  };
  expect(error_of([&] { stiletto::as_strided(x, {2, 3}, {6, 3}, 2); }),
         "elements 2 to 14 of a storage of 12");
  expect(error_of([&] { stiletto::as_strided(x, {4}, {-1}, 2); }), "elements -1 to 2 of a storage of 12");
  expect(error_of([&] { stiletto::as_strided(part, {9}, {1}); }), "elements 4 to 12 of a storage of 12");
  EXPECT_THROW(stiletto::as_strided(x, {2}, {1}, INT64_MAX), ShapeError);
  EXPECT_THROW(stiletto::as_strided(x, {2}, {1}, INT64_MIN), ShapeError);
  EXPECT_THROW(stiletto::as_strided(x, {3}, {INT64_MAX}), ShapeError);
  EXPECT_THROW(stiletto::as_strided(x, {2, 2}, {1}), ShapeError);
  EXPECT_THROW(stiletto::as_strided(x, {-2}, {1}), ShapeError);
}

TEST(ViewGeometry, as_strided_in_a_trace_is_bound_by_what_is_sure_to_be_there) {
  const Array whole = iota({12}), part = stiletto::slice(whole, {Slice{4, 8}});
  unit::Recording r;
  const Array argument = r.like(part);
  EXPECT_NO_THROW(stiletto::as_strided(argument, {2, 2}, {1, 2}));
  EXPECT_THROW(stiletto::as_strided(argument, {12}, {1}, -4), ShapeError)
      << "another call's storage may be smaller";
  EXPECT_NO_THROW(stiletto::as_strided(part, {12}, {1}, -4)) << "a capture is known with its storage";
  const Array view = stiletto::slice(argument, {Slice{1, 3}});
  EXPECT_NO_THROW(stiletto::as_strided(view, {4}, {1}, -1)) << "a view may look at all of its argument";
  EXPECT_THROW(stiletto::as_strided(view, {4}, {1}, 0), ShapeError);
}

TEST(ViewGeometry, views_of_specs) {
  const Array x = stiletto::spec({4, 6}, DType::float32);
  EXPECT_EQ(stiletto::slice(x, {Slice{}, Slice{0, 3}}).strides(), (Dims{6, 1}));
  EXPECT_EQ(stiletto::as_strided(x, {24}, {1}).shape(), (Dims{24}));
  EXPECT_THROW(stiletto::as_strided(x, {25}, {1}), ShapeError);
  EXPECT_FALSE(stiletto::reshape(x, {24}).has_memory());
}

TEST(ViewGeometry, packed_float4) {
  const Array x = stiletto::empty({4, 6}, DType::float4_e2m1);
  EXPECT_NO_THROW(stiletto::transpose(x));
  EXPECT_NO_THROW(stiletto::reshape(x, {2, 12}));
  EXPECT_NO_THROW(stiletto::slice(x, {Slice{}, Slice{2, 4}}));
  EXPECT_NO_THROW(stiletto::slice(x, {Slice{1, 2}, Slice{0, 6, 2}}));
  EXPECT_THROW(stiletto::slice(x, {Slice{}, Slice{1, 5}}), ShapeError) << "begins inside a byte";
  EXPECT_THROW(stiletto::slice(x, {Slice{}, Slice{0, 3}}), ShapeError) << "ends inside a byte";
  EXPECT_THROW(stiletto::slice(x, {Slice{}, Slice{{}, {}, -1}}), ShapeError) << "backwards";
  EXPECT_THROW(stiletto::slice(x, {Slice{}, Slice{0, 6, 3}}), ShapeError) << "an odd step";
  EXPECT_THROW(stiletto::as_strided(x, {2}, {2}, 1), ShapeError);
  EXPECT_THROW(stiletto::empty({3}, DType::float4_e2m1), ShapeError);
  EXPECT_THROW(stiletto::empty({2, 3}, DType::float4_e2m1), ShapeError);
  EXPECT_THROW(stiletto::zeros({2, 3}, DType::float4_e2m1), ShapeError);
  EXPECT_THROW(stiletto::spec({2, 3}, DType::float4_e2m1), ShapeError);
}

}  // namespace
