// SPDX-License-Identifier: Apache-2.0
// Views: on concrete arrays they show the same memory, on inputs and captures of a trace they feed
// operations, returned they are that memory, and on computed values they go as far as api.md says and no
// further.
#include <gtest/gtest.h>

#include "support/cases.hpp"

namespace {

using namespace support;
using stiletto::Dims;
using stiletto::Slice;

using ViewFunction = std::function<Array(const Array&)>;
struct View {
  const char* name;
  ViewFunction call;
  std::function<Tensor(const Tensor&)> reference;
};

// All take shape (4, 1, 6, 3).
const std::vector<View>& views() {
  static const std::vector<View> list = {
      {"transpose", [](const Array& x) { return stiletto::transpose(x); },
       [](const Tensor& x) { return transposed(x); }},
      {"transpose_axes", [](const Array& x) { return stiletto::transpose(x, {2, 0, -1, 1}); },
       [](const Tensor& x) { return transposed(x, {2, 0, 3, 1}); }},
      {"slice_step",
       [](const Array& x) { return stiletto::slice(x, {Slice{1, 4, 2}, Slice{}, Slice{0, 6, 3}}); },
       [](const Tensor& x) { return sliced(x, {1, 0, 0, 0}, {2, 1, 3, 1}, {2, 1, 2, 3}); }},
      {"slice_from_the_end",
       [](const Array& x) {
         return stiletto::slice(x, {Slice{-3, -1, 1}, Slice{}, Slice{2}, Slice{{}, -1}});
       },
       [](const Tensor& x) { return sliced(x, {1, 0, 2, 0}, {1, 1, 1, 1}, {2, 1, 4, 2}); }},
      {"slice_backwards",
       [](const Array& x) {
         return stiletto::slice(x, {Slice{{}, {}, -1}, Slice{{}, {}, -1}, Slice{4, 0, -2}});
       },
       [](const Tensor& x) { return sliced(x, {3, 0, 4, 0}, {-1, 1, -2, 1}, {4, 1, 2, 3}); }},
      {"slice_nothing", [](const Array& x) { return stiletto::slice(x, {Slice{2, 2}}); },
       [](const Tensor& x) { return sliced(x, {2, 0, 0, 0}, {1, 1, 1, 1}, {0, 1, 6, 3}); }},
      {"squeeze", [](const Array& x) { return stiletto::squeeze(x); },
       [](const Tensor& x) { return reshaped(x, {4, 6, 3}); }},
      {"squeeze_axis", [](const Array& x) { return stiletto::squeeze(x, -3); },
       [](const Tensor& x) { return reshaped(x, {4, 6, 3}); }},
      {"expand_dims", [](const Array& x) { return stiletto::expand_dims(x, {0, -1}); },
       [](const Tensor& x) { return reshaped(x, {1, 4, 1, 6, 3, 1}); }},
      {"broadcast_to", [](const Array& x) { return stiletto::broadcast_to(x, {2, 4, 5, 6, 3}); },
       [](const Tensor& x) { return broadcasted(x, {2, 4, 5, 6, 3}); }},
      {"composed",
       [](const Array& x) {
         return stiletto::slice(stiletto::transpose(stiletto::squeeze(x), {2, 0, 1}),
                                {Slice{{}, {}, -1}, Slice{0, 4, 2}, Slice{1, 6}});
       },
       [](const Tensor& x) {
         return sliced(transposed(reshaped(x, {4, 6, 3}), {2, 0, 1}), {2, 0, 1}, {-1, 2, 1}, {3, 2, 5});
       }},
  };
  return list;
}

class Views : public testing::TestWithParam<std::size_t> {
 protected:
  const View& view() const { return views()[GetParam()]; }
};

const Extents shape = {4, 1, 6, 3};

TEST_P(Views, of_concrete_arrays_show_the_same_memory) {
  Random random(31);
  for (DType dtype : plain_dtypes)
    for (Layout layout : layouts) {
      const Operand x = operand(random, dtype, shape, layout);
      const Array y = view().call(x.array);
      EXPECT_TRUE(agrees(y, view().reference(x.values), {.exact = true}))
          << stiletto::to_string(dtype) << " " << to_string(layout);
      if (y.size() == 0) continue;
      // Changing the storage changes what the view shows: nothing was copied.
      Operand fresh = operand(random, dtype, {x.placement.storage}, Layout::contiguous);
      stiletto::assign(x.storage, fresh.array);
      const Tensor now = tabulate(dtype, shape, [&](const Extents& index) {
        return fresh.values
            .values[static_cast<std::size_t>(x.placement.offset + dot(index, x.placement.strides))];
      });
      EXPECT_TRUE(agrees(y, view().reference(now), {.exact = true}));
    }
}

TEST_P(Views, of_inputs_feed_operations) {
  Random random(32);
  for (DType dtype : plain_dtypes)
    for (Layout layout : layouts)
      for (Mode mode : {Mode::jit, Mode::compiled}) {
        const Operand x = operand(random, dtype, shape, layout);
        const Function f = [&](const std::vector<Array>& a) {
          return stiletto::maximum(view().call(a[0]), view().call(a[0]));
        };
        EXPECT_TRUE(agrees(run(f, {x.array}, mode), view().reference(x.values), {.exact = true}))
            << stiletto::to_string(dtype) << " " << to_string(layout) << " " << to_string(mode);
      }
}

TEST_P(Views, of_inputs_beside_the_input_and_in_reductions) {
  Random random(33);
  for (Layout layout : layouts) {
    const Operand x = operand(random, DType::float32, shape, layout);
    const Tensor v = view().reference(x.values);
    auto both = [&](const Array& a) { return stiletto::sum(view().call(a) * 2, -1) + stiletto::sum(a); };
    const Tensor doubled = map(DType::float32, {v}, [](const Real* r) { return r[0] * 2; });
    const Tensor expected = map(DType::float32,
                                {reduce(Reduction::sum, doubled, {v.shape.size() - 1}, false),
                                 reduce(Reduction::sum, x.values, {}, false)},
                                [](const Real* r) { return r[0] + r[1]; });
    EXPECT_TRUE(agrees(stiletto::jit(both, x.array), expected, {.terms = 72})) << to_string(layout);
  }
}

TEST_P(Views, of_captures_and_returned_views_are_that_memory) {
  Random random(34);
  const Operand x = operand(random, DType::float32, shape, Layout::offset);
  const Array one = stiletto::ones({1}, DType::float32, device());
  const Array concrete = view().call(x.array);
  const Array y = stiletto::jit([&](const Array& a) { return view().call(x.array) * a; }, one);
  EXPECT_TRUE(agrees(y, view().reference(x.values), {.exact = true}));
  const Array z = stiletto::jit([&](const Array& a) { return view().call(a); }, x.array);
  EXPECT_TRUE(agrees(z, view().reference(x.values), {.exact = true}));
  if (z.size() > 0) {
    EXPECT_EQ(z.raw_data(), concrete.raw_data());
    for (int axis = 0; axis < z.rank(); ++axis) {
      if (z.dim(axis) != 1) {
        EXPECT_EQ(z.strides()[axis], concrete.strides()[axis]) << "axis " << axis;
      }
    }
  }
  const auto c = stiletto::compile([&](const Array& a) { return view().call(a); }, x.array);
  EXPECT_TRUE(agrees(c(x.array), view().reference(x.values), {.exact = true}));
}

INSTANTIATE_TEST_SUITE_P(numeric, Views, testing::Range<std::size_t>(0, views().size()),
                         [](const auto& info) { return std::string(views()[info.param].name); });

TEST(Reshape, of_concrete_arrays) {
  Random random(35);
  const Operand x = operand(random, DType::float32, {4, 6, 3}, Layout::contiguous);
  for (const Extents& to :
       {Extents{72}, Extents{4, 18}, Extents{2, 2, 18}, Extents{24, 3}, Extents{1, 72, 1}}) {
    const Array y = stiletto::reshape(x.array, dims(to));
    EXPECT_TRUE(agrees(y, reshaped(x.values, to), {.exact = true}));
    EXPECT_EQ(y.raw_data(), x.array.raw_data());
  }
  EXPECT_EQ(stiletto::reshape(x.array, {-1, 9}).shape(), Dims({8, 9}));
  EXPECT_EQ(stiletto::reshape(x.array, {4, -1, 2}).shape(), Dims({4, 9, 2}));
  EXPECT_EQ(stiletto::reshape(stiletto::ones({1}), {}).shape(), Dims());
  EXPECT_EQ(stiletto::reshape(stiletto::ones({}), {1, 1}).shape(), Dims({1, 1}));
  EXPECT_EQ(stiletto::reshape(stiletto::ones({2, 0, 3}), {0, 7}).shape(), Dims({0, 7}));
  EXPECT_THROW(stiletto::reshape(stiletto::ones({2, 0, 3}), {5, -1, 0}), stiletto::ShapeError);
}

TEST(Reshape, keeps_gaps_where_a_view_can) {
  Random random(36);
  const Operand rows = operand(random, DType::float32, {4, 6}, Layout::offset);  // padded rows
  EXPECT_TRUE(agrees(stiletto::reshape(rows.array, {2, 2, 3, 2}), reshaped(rows.values, {2, 2, 3, 2}),
                     {.exact = true}));
  EXPECT_THROW(stiletto::reshape(rows.array, {24}), stiletto::ShapeError);
  const Operand reversed = operand(random, DType::float32, {4, 6}, Layout::reversed);
  EXPECT_TRUE(
      agrees(stiletto::reshape(reversed.array, {24}), reshaped(reversed.values, {24}), {.exact = true}));
  const Operand turned = operand(random, DType::float32, {4, 6}, Layout::transposed);
  EXPECT_THROW(stiletto::reshape(turned.array, {24}), stiletto::ShapeError);
  EXPECT_TRUE(
      agrees(stiletto::reshape(turned.array.copy(), {24}), reshaped(turned.values, {24}), {.exact = true}));
}

TEST(Reshape, refused) {
  const Array x = stiletto::ones({2, 6});
  for (const Dims& to : {Dims{5}, Dims{-1, 5}, Dims{-1, -1}, Dims{-2, 6}, Dims{12, 0}, Dims{}, Dims{-1, 0}}) {
    EXPECT_THROW(stiletto::reshape(x, to), stiletto::ShapeError);
    EXPECT_THROW(stiletto::jit([&](const Array& a) { return stiletto::reshape(a, to) * 2; }, x),
                 stiletto::ShapeError);
  }
}

TEST(ViewsRefused, each_kind) {
  const Array x = stiletto::ones({2, 1, 3});
  EXPECT_THROW(stiletto::transpose(x, {0, 1}), stiletto::ShapeError);
  EXPECT_THROW(stiletto::transpose(x, {0, 1, 1}), stiletto::ShapeError);
  EXPECT_THROW(stiletto::transpose(x, {0, 1, 3}), stiletto::ShapeError);
  EXPECT_THROW(stiletto::squeeze(x, 0), stiletto::ShapeError);
  EXPECT_THROW(stiletto::squeeze(x, 3), stiletto::ShapeError);
  EXPECT_THROW(stiletto::expand_dims(x, {0, 0}), stiletto::ShapeError);
  EXPECT_THROW(stiletto::expand_dims(x, 5), stiletto::ShapeError);
  EXPECT_THROW(stiletto::broadcast_to(x, {2, 1, 4}), stiletto::ShapeError);
  EXPECT_THROW(stiletto::broadcast_to(x, {3}), stiletto::ShapeError);
  EXPECT_THROW(stiletto::broadcast_to(x, {-1, 1, 3}), stiletto::ShapeError);
  EXPECT_THROW(stiletto::slice(x, {Slice{0, 3}}), stiletto::ShapeError);
  EXPECT_THROW(stiletto::slice(x, {Slice{-3}}), stiletto::ShapeError);
  EXPECT_THROW(stiletto::slice(x, {Slice{0, 2, 0}}), stiletto::ShapeError);
  EXPECT_THROW(stiletto::slice(x, {Slice{}, Slice{}, Slice{}, Slice{}}), stiletto::ShapeError);
  EXPECT_THROW(stiletto::as_strided(x, {7}, {1}), stiletto::ShapeError);
  EXPECT_THROW(stiletto::as_strided(x, {2}, {-1}), stiletto::ShapeError);
  EXPECT_THROW(stiletto::as_strided(x, {2, 3}, {1}), stiletto::ShapeError);
  EXPECT_THROW(stiletto::as_strided(x, {2}, {1}, 5), stiletto::ShapeError);
  EXPECT_THROW(stiletto::as_strided(x, {2}, {1}, -1), stiletto::ShapeError);
}

TEST(AsStrided, windows_that_overlap) {
  const Array x = to_array(Tensor(DType::float32, {6}, {0, 1, 2, 3, 4, 5}));
  auto windows = [](const Array& a) { return stiletto::sum(stiletto::as_strided(a, {4, 3}, {1, 1}), 1); };
  EXPECT_TRUE(equals(windows(x), DType::float32, {4}, {3, 6, 9, 12}));
  EXPECT_TRUE(equals(stiletto::jit(windows, x), DType::float32, {4}, {3, 6, 9, 12}));
  auto backwards = [](const Array& a) { return stiletto::as_strided(a, {2, 3}, {-3, -1}, 5) * 1; };
  EXPECT_TRUE(equals(stiletto::jit(backwards, x), DType::float32, {2, 3}, {5, 4, 3, 2, 1, 0}));
  auto far = [](const Array& a) { return stiletto::as_strided(a, {9}, {1}) * 1; };
  EXPECT_THROW(stiletto::jit(far, x), stiletto::ShapeError);
}

// ---- on computed values ----

TEST(ComputedViews, a_permuted_output) {
  Random random(37);
  for (DType dtype : {DType::float32, DType::bfloat16, DType::int32}) {
    const Operand x = operand(random, dtype, {3, 4, 5}, Layout::contiguous);
    auto f = [](const Array& a) { return stiletto::transpose(a + a, {2, 0, 1}); };
    const Array y = stiletto::jit(f, x.array);
    const Tensor twice = map(dtype, {x.values}, [](const Real* v) { return v[0] * 2; });
    EXPECT_TRUE(agrees(y, transposed(twice, {2, 0, 1}))) << stiletto::to_string(dtype);
    EXPECT_TRUE(y.is_contiguous());
    auto reduced = [](const Array& a) { return stiletto::transpose(stiletto::sum(a, 1)); };
    EXPECT_TRUE(agrees(stiletto::jit(reduced, x.array),
                       transposed(reduce(Reduction::sum, x.values, {1}, false)), {.terms = 4}));
  }
  const Operand a = operand(random, DType::float32, {7, 5}, Layout::contiguous);
  const Operand b = operand(random, DType::float32, {5, 3}, Layout::contiguous);
  auto product = [](const Array& x, const Array& y) { return stiletto::transpose(stiletto::matmul(x, y)); };
  EXPECT_TRUE(
      agrees(stiletto::jit(product, a.array, b.array), transposed(matmul(a.values, b.values)), {.terms = 5}));
}

TEST(ComputedViews, extents_of_1_may_change_anywhere) {
  Random random(38);
  const Operand x = operand(random, DType::float32, {4, 6}, Layout::transposed);
  auto f = [](const Array& a) {
    const Array row = stiletto::expand_dims(stiletto::sum(a, 1), 1);            // (4, 1)
    const Array scaled = a * row;                                               // (4, 6)
    return stiletto::squeeze(stiletto::expand_dims(scaled, {0, 2}), 0) + 1.0F;  // (4, 1, 6)
  };
  Tensor expected = map(DType::float32, {x.values, reduce(Reduction::sum, x.values, {1}, true)},
                        [](const Real* v) { return v[0] * v[1] + 1; });
  expected.shape = {4, 1, 6};
  EXPECT_TRUE(agrees(stiletto::jit(f, x.array), expected, {.terms = 6, .factor = 2}));
  auto lift = [](const Array& a) { return stiletto::reshape(a * 2, {1, 4, 1, 6}) + a; };
  EXPECT_EQ(stiletto::jit(lift, x.array).shape(), Dims({1, 4, 4, 6}));
}

TEST(ComputedViews, a_reshaped_output) {
  Random random(39);
  const Operand x = operand(random, DType::float32, {4, 6}, Layout::contiguous);
  auto f = [](const Array& a) { return stiletto::reshape(a * 2, {3, 8}); };
  const Tensor twice = map(DType::float32, {x.values}, [](const Real* v) { return v[0] * 2; });
  EXPECT_TRUE(agrees(stiletto::jit(f, x.array), reshaped(twice, {3, 8})));
  auto product = [](const Array& a) {
    return stiletto::reshape(stiletto::matmul(a, stiletto::transpose(a)), {-1});
  };
  EXPECT_TRUE(agrees(stiletto::jit(product, x.array), reshaped(matmul(x.values, transposed(x.values)), {16}),
                     {.terms = 6}));
}

TEST(ComputedViews, refused_beyond_that) {
  const Array x = stiletto::ones({4, 6});
  auto used_twice = [](const Array& a) {
    const Array y = a * 2;
    return stiletto::transpose(y) + stiletto::transpose(a) * stiletto::sum(y);
  };
  EXPECT_THROW(stiletto::jit(used_twice, x), stiletto::TraceError);
  auto sliced_value = [](const Array& a) { return stiletto::slice(a * 2, {Slice{1, 3}}); };
  EXPECT_THROW(stiletto::jit(sliced_value, x), stiletto::TraceError);
  auto reshaped_value = [](const Array& a) { return stiletto::sum(stiletto::reshape(a * 2, {3, 8}), 1); };
  EXPECT_THROW(stiletto::jit(reshaped_value, x), stiletto::TraceError);
  auto strided = [](const Array& a) { return stiletto::as_strided(a * 2, {3}, {2}); };
  EXPECT_THROW(stiletto::jit(strided, x), stiletto::TraceError);
}

}  // namespace
