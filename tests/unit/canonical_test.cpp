// SPDX-License-Identifier: Apache-2.0
// The canonical graph: functions that mean the same have the same form. Most tests compare the texts of two
// functions or of one function over two layouts, so that they say what is equal, not how it is printed.
#include <gtest/gtest.h>

#include <vector>

#include "unit/trace_support.hpp"

namespace {

using stiletto::Slice;
using unit::Array;
using unit::canonical;
using unit::count;
using unit::DType;
using unit::lower;
using unit::on_cpu;
using unit::operations;
using unit::Shape;
using unit::Strides;
namespace detail = stiletto::detail;
using detail::Op;
using Extents = std::vector<std::int64_t>;

constexpr DType f32 = DType::float32;
const auto add = [](const Array& x, const Array& y) { return x + y; };
const auto chain = [](const Array& x, const Array& y) { return stiletto::exp(x) * y - stiletto::tanh(x); };

// ---- axes -----------------------------------------------------------------------------------------------

TEST(Canonical, contiguous_axes_collapse) {
  const std::string flat = canonical(chain, on_cpu({24}), on_cpu({24}));
  EXPECT_EQ(canonical(chain, on_cpu({2, 3, 4}), on_cpu({2, 3, 4})), flat);
  EXPECT_EQ(canonical(chain, on_cpu({1, 24}), on_cpu({24})), flat);
  EXPECT_EQ(lower(chain, on_cpu({2, 1, 3, 1, 4, 1}), on_cpu({3, 1, 4, 1})).graph.extents, (Extents{2, 12}));
}

TEST(Canonical, what_broadcasts_keeps_its_axis) {
  const std::string rows = canonical(add, on_cpu({6, 4}), on_cpu({4}));
  EXPECT_EQ(canonical(add, on_cpu({2, 3, 4}), on_cpu({4})), rows);
  EXPECT_EQ(canonical(add, on_cpu({2, 3, 4}), on_cpu({1, 1, 4})), rows);
  EXPECT_EQ(canonical(add, on_cpu({2, 3, 4}), on_cpu({2, 1, 1})),
            canonical(add, on_cpu({2, 12}), on_cpu({2, 1})));
  EXPECT_EQ(lower(add, on_cpu({2, 3, 4}), on_cpu({2, 1, 4})).graph.extents, (Extents{2, 3, 4}));
  EXPECT_EQ(lower(add, on_cpu({5}), on_cpu({})).graph.extents, (Extents{5}));
  EXPECT_EQ(lower(add, on_cpu({}), on_cpu({})).graph.extents, Extents());
}

TEST(Canonical, gaps_keep_axes_apart) {
  const auto graph = lower(add, on_cpu({3, 4}, f32, {8, 1}), on_cpu({3, 4})).graph;
  EXPECT_EQ(graph.extents, (Extents{3, 4}));
  EXPECT_EQ(graph.tensors[0].strides, (Extents{8, 1}));
  EXPECT_EQ(lower(add, on_cpu({2, 3, 4}, f32, {24, 8, 1}), on_cpu({2, 3, 4})).graph.extents, (Extents{6, 4}))
      << "rows of equal distance are one axis of rows";
}

TEST(Canonical, extents_of_1_do_not_exist) {
  const std::string plain = canonical(add, on_cpu({4}), on_cpu({4}));
  for (const Strides& strides : {Strides{4, 1}, Strides{99, 1}, Strides{-3, 1}, Strides{0, 1}})
    EXPECT_EQ(canonical(add, on_cpu({1, 4}, f32, strides), on_cpu({1, 4})), plain);
  EXPECT_EQ(canonical(add, on_cpu({4, 1}, f32, {1, 77}), on_cpu({4, 1})), plain);
}

TEST(Canonical, a_permutation_that_all_share_goes) {
  const std::string plain = canonical(chain, on_cpu({24}), on_cpu({24}));
  EXPECT_EQ(canonical(chain, on_cpu({3, 8}, f32, {1, 3}), on_cpu({3, 8}, f32, {1, 3})), plain);
  const Strides channels_last{12, 1, 6, 3};
  EXPECT_EQ(
      canonical(chain, on_cpu({2, 3, 2, 2}, f32, channels_last), on_cpu({2, 3, 2, 2}, f32, channels_last)),
      plain);
  EXPECT_EQ(canonical(add, on_cpu({2, 3, 2, 2}, f32, channels_last), on_cpu({3, 1, 1})),
            canonical(add, on_cpu({8, 3}), on_cpu({3})))
      << "a bias per channel";
}

TEST(Canonical, a_permutation_of_one_operand_stays) {
  const auto graph = lower(add, on_cpu({3, 4}), on_cpu({3, 4}, f32, {1, 3})).graph;
  EXPECT_EQ(graph.extents, (Extents{3, 4}));
  EXPECT_EQ(graph.tensors[1].strides, (Extents{1, 3}));
  EXPECT_EQ(graph.stores[0].tensor.strides, (Extents{4, 1})) << "axes follow the result's memory";
}

TEST(Canonical, a_reversal_that_all_share_moves_the_pointer) {
  auto store = [](const Array& y, const Array& x) { stiletto::assign(y, stiletto::exp(x)); };
  const auto graph = lower(store, on_cpu({6}, f32, {-1}), on_cpu({6}, f32, {-1})).graph;
  EXPECT_EQ(graph.tensors[0].strides, Extents{1});
  EXPECT_EQ(graph.tensors[0].offset, -5);
  EXPECT_EQ(graph.stores[0].tensor.strides, Extents{1});
  EXPECT_EQ(graph.stores[0].tensor.offset, -5);
  const auto both = lower(store, on_cpu({2, 3}, f32, {-3, -1}), on_cpu({2, 3}, f32, {-3, -1})).graph;
  EXPECT_EQ(both.extents, Extents{6}) << "and then the axes are one";
  const auto one = lower(store, on_cpu({2, 4}, f32, {-4, 1}), on_cpu({2, 4}, f32, {-4, 1})).graph;
  EXPECT_EQ(one.extents, Extents{8});
  EXPECT_EQ(one.tensors[0].offset, -4);
  const auto broadcasting = lower([](const Array& y, const Array& x) { stiletto::assign(y, x); },
                                  on_cpu({2, 4}, f32, {-4, -1}), on_cpu({4}, f32, {-1}));
  for (std::int64_t stride : broadcasting.graph.tensors[0].strides) EXPECT_GE(stride, 0);
}

TEST(Canonical, alignment_is_that_of_the_first_element_reached) {
  // Walked forwards, a reversed array begins 5 elements before the one its pointer names.
  auto store = [](const Array& y, const Array& x) { stiletto::assign(y, stiletto::exp(x)); };
  const auto graph = lower(store, on_cpu({6}, f32, {-1}), on_cpu({6}, f32, {-1})).graph;
  EXPECT_EQ(graph.tensors[0].offset, -5);
  EXPECT_EQ(graph.tensors[0].alignment, 4);
  EXPECT_EQ(graph.stores[0].tensor.alignment, 4);
}

TEST(Canonical, a_reversal_of_one_operand_stays) {
  const auto graph = lower(add, on_cpu({6}), on_cpu({6}, f32, {-1})).graph;
  EXPECT_EQ(graph.tensors[0].strides, Extents{1});
  EXPECT_EQ(graph.tensors[1].strides, Extents{-1});
  EXPECT_EQ(graph.tensors[1].offset, 0);
}

TEST(Canonical, broadcasting_by_stride_0_is_the_absence_of_an_axis) {
  const std::string plain = canonical(add, on_cpu({3, 4}), on_cpu({4}));
  auto widened = [](const Array& x, const Array& y) { return x + stiletto::broadcast_to(y, {3, 4}); };
  EXPECT_EQ(canonical(widened, on_cpu({3, 4}), on_cpu({4})), plain);
  EXPECT_EQ(canonical(add, on_cpu({3, 4}), on_cpu({3, 4}, f32, {0, 1})), plain);
  EXPECT_EQ(canonical(add, on_cpu({3, 4}), on_cpu({3, 4}, f32, {0, 0})),
            canonical(add, on_cpu({12}), on_cpu({})));
}

TEST(Canonical, views_of_inputs_are_offsets_and_strides) {
  auto halves = [](const Array& x) {
    return stiletto::slice(x, {Slice{}, Slice{0, 4}}) * stiletto::slice(x, {Slice{}, Slice{4, 8}});
  };
  const auto graph = lower(halves, on_cpu({3, 8})).graph;
  ASSERT_EQ(graph.tensors.size(), 2U);
  EXPECT_EQ(graph.tensors[0].offset, 0);
  EXPECT_EQ(graph.tensors[1].offset, 4);
  EXPECT_EQ(graph.tensors[1].strides, (Extents{8, 1}));
  EXPECT_EQ(graph.tensors[0].name, "arg0");
  EXPECT_EQ(graph.tensors[1].name, "arg0");
  auto odd = [](const Array& x) { return stiletto::slice(x, {Slice{1, {}}}) * 2; };
  EXPECT_EQ(lower(odd, on_cpu({8})).graph.tensors[0].alignment, 4);
  EXPECT_EQ(lower(odd, on_cpu({8}, DType::float16)).graph.tensors[0].alignment, 2);
  EXPECT_EQ(lower(odd, on_cpu({8}, DType::float64)).graph.tensors[0].alignment, 8);
  EXPECT_EQ(lower(odd, on_cpu({8, 4})).graph.tensors[0].alignment, 16);
}

// ---- values ---------------------------------------------------------------------------------------------

TEST(Canonical, dead_nodes_go) {
  auto wasteful = [](const Array& x, const Array& y) {
    stiletto::sum(stiletto::exp(y));
    stiletto::matmul(y, stiletto::reshape(y, {4}));
    return x + x;
  };
  const auto graph = lower(wasteful, on_cpu({4}), on_cpu({4})).graph;
  EXPECT_EQ(operations(graph), 1);
  ASSERT_EQ(graph.tensors.size(), 1U);
  EXPECT_EQ(graph.tensors[0].name, "arg0");
}

TEST(Canonical, equal_values_are_one) {
  auto repeated = [](const Array& x) {
    return stiletto::exp(x) * stiletto::sum(stiletto::exp(x), 1, true) + stiletto::exp(x);
  };
  EXPECT_EQ(count(lower(repeated, on_cpu({3, 4})).graph, Op::exp), 1);
  auto through_views = [](const Array& x) {
    return stiletto::exp(stiletto::reshape(x, {12})) + stiletto::exp(stiletto::reshape(x, {1, 12}));
  };
  EXPECT_EQ(count(lower(through_views, on_cpu({3, 4})).graph, Op::exp), 1);
  auto different = [](const Array& x) {
    return stiletto::leaky_relu(x, 0.1) + stiletto::leaky_relu(x, 0.2) + stiletto::cast(x, DType::float16) +
           stiletto::cast(x, DType::bfloat16);
  };
  const auto graph = lower(different, on_cpu({4})).graph;
  EXPECT_EQ(count(graph, Op::leaky_relu), 2);
  EXPECT_EQ(count(graph, Op::cast), 2);
  auto by_axis = [](const Array& x) { return stiletto::sum(x, 0) * stiletto::sum(x, 1); };
  EXPECT_EQ(count(lower(by_axis, on_cpu({4, 4})).graph, Op::sum), 2);
  auto kept_and_dropped = [](const Array& x) {
    return stiletto::expand_dims(stiletto::sum(x, 1), 1) + stiletto::sum(x, 1, true);
  };
  EXPECT_EQ(count(lower(kept_and_dropped, on_cpu({3, 4})).graph, Op::sum), 1) << "keep_dims is only a shape";
}

TEST(Canonical, extents_of_1_of_computed_values_leave_no_trace) {
  auto plain = [](const Array& x) { return stiletto::exp(x) * 2; };
  auto roundabout = [](const Array& x) {
    return stiletto::squeeze(stiletto::expand_dims(stiletto::exp(x), {0, 2})) * 2;
  };
  EXPECT_EQ(canonical(roundabout, on_cpu({3, 4})), canonical(plain, on_cpu({3, 4})));
}

TEST(Canonical, x_with_its_own_transpose) {
  auto symmetric = [](const Array& x) { return x + stiletto::transpose(x); };
  const auto graph = lower(symmetric, on_cpu({4, 4})).graph;
  EXPECT_EQ(graph.tensors.size(), 2U);
  EXPECT_EQ(graph.extents, (Extents{4, 4}));
}

// ---- products -------------------------------------------------------------------------------------------

const auto matmul = [](const Array& a, const Array& b) { return stiletto::matmul(a, b); };

TEST(Canonical, batch_axes_collapse_into_rows_where_b_is_shared) {
  const std::string flat = canonical(matmul, on_cpu({30, 4}), on_cpu({4, 5}));
  EXPECT_EQ(canonical(matmul, on_cpu({2, 3, 5, 4}), on_cpu({4, 5})), flat);
  EXPECT_EQ(canonical(matmul, on_cpu({2, 15, 4}), on_cpu({1, 4, 5})), flat);
  EXPECT_EQ(lower(matmul, on_cpu({2, 3, 4}), on_cpu({2, 4, 5})).graph.extents, (Extents{2, 3, 5, 4}));
  EXPECT_EQ(lower(matmul, on_cpu({6, 7, 3, 4}), on_cpu({6, 7, 4, 5})).graph.extents, (Extents{42, 3, 5, 4}))
      << "batch axes that both walk are one";
}

TEST(Canonical, vectors_are_matrices_without_an_axis) {
  EXPECT_EQ(canonical(matmul, on_cpu({4}), on_cpu({4, 5})),
            canonical(matmul, on_cpu({1, 4}), on_cpu({4, 5})));
  EXPECT_EQ(canonical(matmul, on_cpu({3, 4}), on_cpu({4})),
            canonical(matmul, on_cpu({3, 4}), on_cpu({4, 1})));
  EXPECT_EQ(lower(matmul, on_cpu({4}), on_cpu({4})).graph.extents, Extents{4});
}

TEST(Canonical, matmul_of_a_matrix_with_itself) {
  auto squared = [](const Array& x) { return stiletto::matmul(x, x); };
  const auto graph = lower(squared, on_cpu({4, 4})).graph;
  EXPECT_EQ(graph.extents, (Extents{4, 4, 4})) << "three axes, although every extent is one of x's";
  EXPECT_EQ(graph.tensors.size(), 2U) << "x is read along two pairs of axes";
  EXPECT_EQ(operations(graph), 1);
  auto gram = [](const Array& x) { return stiletto::matmul(x, stiletto::transpose(x)); };
  EXPECT_EQ(lower(gram, on_cpu({4, 3})).graph.extents, (Extents{4, 4, 3}));
  auto computed = [](const Array& x) { return stiletto::matmul(stiletto::exp(x), stiletto::exp(x)); };
  EXPECT_EQ(count(lower(computed, on_cpu({4, 4})).graph, Op::exp), 2) << "each under its own axes";
}

TEST(Canonical, products_in_sequence_share_axes) {
  auto two = [](const Array& x, const Array& v, const Array& w) {
    return stiletto::matmul(stiletto::relu(stiletto::matmul(x, v)), w);
  };
  EXPECT_EQ(lower(two, on_cpu({2, 3}), on_cpu({3, 4}), on_cpu({4, 5})).graph.extents.size(), 4U);
  auto gated = [](const Array& x, const Array& v, const Array& w) {
    return stiletto::silu(stiletto::matmul(x, v)) * stiletto::matmul(x, w);
  };
  EXPECT_EQ(lower(gated, on_cpu({2, 3}), on_cpu({3, 4}), on_cpu({3, 4})).graph.extents, (Extents{2, 4, 3}))
      << "both products walk x alike";
}

TEST(Canonical, a_computed_operand_of_a_product_is_rounded_to_its_own_type) {
  auto f = [](const Array& x, const Array& w) { return stiletto::matmul(stiletto::exp(x), w); };
  const DType half = DType::float16;
  EXPECT_EQ(count(lower(f, on_cpu({2, 3}, half), on_cpu({3, 4}, half)).graph, Op::cast), 1);
  EXPECT_EQ(count(lower(f, on_cpu({2, 3}), on_cpu({3, 4})).graph, Op::cast), 0);
  EXPECT_EQ(count(lower({.intermediate_dtype = half}, f, on_cpu({2, 3}, half), on_cpu({3, 4}, half)).graph,
                  Op::cast),
            0);
  EXPECT_EQ(count(lower(matmul, on_cpu({2, 3}, half), on_cpu({3, 4}, half)).graph, Op::cast), 0);
}

}  // namespace
