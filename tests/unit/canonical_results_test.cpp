// SPDX-License-Identifier: Apache-2.0
// What the canonical form says about results: outputs and their memory order, returned inputs, stores,
// constants that empty reductions fold to, arithmetic among numbers, and the dtypes that options choose.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "unit/error_text.hpp"
#include "unit/trace_support.hpp"

namespace {

using stiletto::Slice;
using unit::Array;
using unit::count;
using unit::DType;
using unit::lower;
using unit::on_cpu;
using unit::operations;
using unit::Shape;
using unit::Strides;
namespace detail = stiletto::detail;
using detail::Op;
using detail::Tensor;
using Extents = std::vector<std::int64_t>;

constexpr DType f32 = DType::float32;

/// The numbers that a lowered graph is given, for the trace's own numbers.
std::vector<double> numbers(const detail::Lowered& lowered,
                            const std::vector<detail::ScalarValue>& trace = {}) {
  std::vector<detail::ScalarValue> scratch, slots;
  lowered.scalars.evaluate(trace, scratch, slots);
  std::vector<double> result;
  result.reserve(slots.size());
  for (const detail::ScalarValue& value : slots) result.push_back(value.as_double());
  return result;
}

// ---- outputs --------------------------------------------------------------------------------------------

TEST(CanonicalOutputs, have_the_shape_and_order_of_the_trace) {
  auto f = [](const Array& x) { return x * 2; };
  const auto lowered = lower(f, on_cpu({2, 3, 4}, f32, {12, 1, 3}));
  ASSERT_EQ(lowered.outputs.size(), 1U);
  EXPECT_EQ(lowered.outputs[0].shape, (Shape{2, 3, 4}));
  EXPECT_EQ(lowered.outputs[0].strides, (Strides{12, 1, 3}));
  EXPECT_EQ(lowered.graph.extents, Extents{24});
}

TEST(CanonicalOutputs, of_equal_extents_share_axes_though_nothing_relates_them) {
  auto f = [](const Array& x, const Array& y) {
    return std::vector<Array>{stiletto::exp(x), stiletto::tanh(y)};
  };
  EXPECT_EQ(lower(f, on_cpu({64}), on_cpu({64})).graph.extents, Extents{64});
  EXPECT_EQ(lower(f, on_cpu({3, 4}), on_cpu({3, 4})).graph.extents, Extents{12});
  EXPECT_EQ(lower(f, on_cpu({64}), on_cpu({1, 64})).graph.extents, Extents{64});
  EXPECT_EQ(lower(f, on_cpu({64}), on_cpu({32})).graph.extents, (Extents{64, 32}));
  // One operation walks both axes: they stay two.
  auto related = [](const Array& x, const Array& y) {
    return std::vector<Array>{stiletto::sum(x * y, 0), stiletto::sum(x * y, 1)};
  };
  EXPECT_EQ(lower(related, on_cpu({5, 5}), on_cpu({5, 5})).graph.extents, (Extents{5, 5}));
}

TEST(CanonicalOutputs, a_value_returned_twice_is_one_output) {
  auto twice = [](const Array& x) {
    const Array y = x * 2;
    return std::vector<Array>{y, stiletto::exp(x), y};
  };
  const auto lowered = lower(twice, on_cpu({4}));
  EXPECT_EQ(lowered.outputs.size(), 2U);
  ASSERT_EQ(lowered.results.size(), 3U);
  EXPECT_EQ(lowered.results[0].index, lowered.results[2].index);
  EXPECT_EQ(lowered.graph.stores.size(), 2U);
}

TEST(CanonicalOutputs, a_returned_input_is_that_memory) {
  const Array w = stiletto::ones({4});
  auto f = [&](const Array& x) {
    return std::vector<Array>{x, w, stiletto::slice(x, {Slice{1, 3}}), stiletto::transpose(x)};
  };
  const auto lowered = lower(f, on_cpu({4, 2}));
  EXPECT_TRUE(lowered.outputs.empty());
  EXPECT_TRUE(lowered.graph.stores.empty()) << "nothing is computed";
  ASSERT_EQ(lowered.results.size(), 4U);
  EXPECT_EQ(lowered.results[0].home, Tensor::Home::argument);
  EXPECT_TRUE(lowered.results[0].whole);
  EXPECT_EQ(lowered.results[1].home, Tensor::Home::capture);
  EXPECT_FALSE(lowered.results[2].whole);
  EXPECT_EQ(lowered.results[2].offset, 2);
  EXPECT_EQ(lowered.results[2].shape, (Shape{2, 2}));
  EXPECT_EQ(lowered.results[3].strides, (Strides{1, 2}));
}

TEST(CanonicalOutputs, a_permuted_result_is_written_permuted) {
  auto f = [](const Array& x) { return stiletto::transpose(stiletto::exp(x)); };
  const auto lowered = lower(f, on_cpu({2, 3}));
  EXPECT_EQ(lowered.outputs[0].shape, (Shape{3, 2}));
  EXPECT_EQ(lowered.outputs[0].strides, (Strides{2, 1})) << "row-major in the permuted shape";
  EXPECT_EQ(lowered.graph.extents, (Extents{3, 2}));
  EXPECT_EQ(lowered.graph.tensors[0].strides, (Extents{1, 3}));
  auto reshaped = [](const Array& x) { return stiletto::reshape(stiletto::exp(x), {6}); };
  EXPECT_EQ(lower(reshaped, on_cpu({2, 3})).graph.extents, Extents{6});
  EXPECT_EQ(lower(reshaped, on_cpu({2, 3})).outputs[0].shape, (Shape{6}));
}

TEST(CanonicalOutputs, no_elements_no_store) {
  auto f = [](const Array& x) { return stiletto::exp(x); };
  const auto lowered = lower(f, on_cpu({3, 0}));
  EXPECT_EQ(lowered.outputs.size(), 1U);
  EXPECT_TRUE(lowered.graph.stores.empty());
  EXPECT_TRUE(lowered.graph.values.empty());
}

TEST(CanonicalOutputs, constants_broadcast_from_a_number) {
  auto f = [](const Array&) { return stiletto::full({2, 3}, 0.5); };
  const auto lowered = lower(f, on_cpu({1}));
  EXPECT_EQ(lowered.graph.extents, Extents{6});
  EXPECT_TRUE(lowered.graph.tensors.empty());
  EXPECT_EQ(lowered.graph.values.back().axes, 0U) << "the store broadcasts it";
}

// ---- stores ---------------------------------------------------------------------------------------------

TEST(CanonicalStores, the_last_of_two_to_one_view_wins) {
  auto f = [](const Array& y, const Array& x) {
    stiletto::assign(y, stiletto::exp(x));
    stiletto::assign(y, x * 2);
  };
  const auto graph = lower(f, on_cpu({4}), on_cpu({4})).graph;
  EXPECT_EQ(graph.stores.size(), 1U);
  EXPECT_EQ(count(graph, Op::exp), 0);
  EXPECT_EQ(count(graph, Op::multiply), 1);
}

TEST(CanonicalStores, parts_of_one_buffer) {
  auto halves = [](const Array& y, const Array& x) {
    stiletto::assign(stiletto::slice(y, {Slice{}, Slice{0, 3}}), x);
    stiletto::assign(stiletto::slice(y, {Slice{}, Slice{3, 6}}), x * 2);
  };
  const auto graph = lower(halves, on_cpu({4, 6}), on_cpu({4, 3})).graph;
  ASSERT_EQ(graph.stores.size(), 2U);
  EXPECT_EQ(graph.stores[0].tensor.offset, 0);
  EXPECT_EQ(graph.stores[1].tensor.offset, 3);
  EXPECT_EQ(graph.stores[1].tensor.alignment, 4);
  auto crossing = [](const Array& y, const Array& x) {
    stiletto::assign(stiletto::slice(y, {Slice{}, Slice{0, 3}}), x);
    stiletto::assign(stiletto::slice(y, {Slice{}, Slice{2, 5}}), x);
  };
  EXPECT_THROW(lower(crossing, on_cpu({4, 6}), on_cpu({4, 3})), stiletto::AliasError);
}

TEST(CanonicalStores, broadcast_and_keep_the_destinations_dtype) {
  auto f = [](const Array& y, const Array& x) { stiletto::assign(y, x + 1); };
  const auto graph = lower(f, on_cpu({3, 4}, DType::float16), on_cpu({4})).graph;
  EXPECT_EQ(graph.stores[0].tensor.dtype, DType::float16);
  EXPECT_EQ(graph.stores[0].tensor.axes, 3U);
  EXPECT_EQ(graph.values[graph.stores[0].value].axes, 2U);
  EXPECT_EQ(graph.values[graph.stores[0].value].dtype, f32);
  EXPECT_EQ(graph.stores[0].tensor.name, "arg0");
}

TEST(CanonicalStores, reading_where_one_writes) {
  auto own_index = [](auto f, const auto&... examples) {
    const auto graph = lower(f, examples...).graph;
    for (std::size_t t = 0; t < graph.tensors.size(); ++t)
      if (graph.tensors[t].name == "arg0") return detail::reads_at_own_index(graph, t, 0);
    ADD_FAILURE() << "arg0 is not read";
    return false;
  };
  const auto y = on_cpu({4, 4});
  EXPECT_TRUE(own_index([](const Array& d, const Array& x) { stiletto::assign(d, d * 2 + x); }, y, y));
  EXPECT_TRUE(own_index([](const Array& d, const Array& x) { stiletto::matmul_into(d, x, x, 1, 1); }, y, y));
  EXPECT_FALSE(own_index([](const Array& d, const Array& x) { stiletto::matmul_into(d, d, x); }, y, y));
  EXPECT_TRUE(own_index([](const Array& d) { stiletto::assign(d, stiletto::transpose(d)); }, y))
      << "the axes are the same: strides are compared at the call";
  EXPECT_FALSE(own_index([](const Array& d) { stiletto::assign(d, d / stiletto::sum(d, 1, true)); }, y));
  EXPECT_FALSE(own_index([](const Array& d) { stiletto::assign(d, stiletto::softmax(d)); }, y));
}

// ---- reductions of nothing ------------------------------------------------------------------------------

TEST(CanonicalConstants, empty_reductions_fold) {
  auto folded = [](auto f) {
    const auto lowered = lower(f, on_cpu({3, 0}));
    EXPECT_EQ(operations(lowered.graph), 0);
    EXPECT_TRUE(lowered.graph.tensors.empty());
    EXPECT_EQ(lowered.graph.extents, Extents{3});
    return numbers(lowered).at(0);
  };
  EXPECT_EQ(folded([](const Array& x) { return stiletto::sum(x, 1); }), 0);
  EXPECT_EQ(folded([](const Array& x) { return stiletto::norm1(x, 1); }), 0);
  EXPECT_EQ(folded([](const Array& x) { return stiletto::norm2(x, 1); }), 0);
  EXPECT_EQ(folded([](const Array& x) { return stiletto::prod(x, 1); }), 1);
  EXPECT_TRUE(std::isnan(folded([](const Array& x) { return stiletto::mean(x, 1); })));
  EXPECT_EQ(folded([](const Array& x) { return stiletto::logsumexp(x, 1); }),
            -std::numeric_limits<double>::infinity());
}

TEST(CanonicalConstants, empty_products_fold) {
  auto product = [](const Array& a, const Array& b) { return stiletto::matmul(a, b); };
  const auto lowered = lower(product, on_cpu({2, 0}), on_cpu({0, 3}));
  EXPECT_EQ(operations(lowered.graph), 0);
  EXPECT_EQ(numbers(lowered), std::vector<double>{0});
  auto into = [](const Array& c, const Array& a, const Array& b) { stiletto::matmul_into(c, a, b, 3, 0.5); };
  const auto scaled = lower(into, on_cpu({2, 3}), on_cpu({2, 0}), on_cpu({0, 3}));
  EXPECT_EQ(count(scaled.graph, Op::matmul), 0);
  EXPECT_EQ(count(scaled.graph, Op::multiply), 1) << "beta · c";
  EXPECT_EQ(numbers(scaled), std::vector<double>{0.5});
  auto cleared = [](const Array& c, const Array& a, const Array& b) { stiletto::matmul_into(c, a, b); };
  EXPECT_TRUE(lower(cleared, on_cpu({2, 3}), on_cpu({2, 0}), on_cpu({0, 3})).graph.tensors.empty())
      << "with beta 0 the old c is not read";
}

// ---- numbers --------------------------------------------------------------------------------------------

TEST(CanonicalNumbers, arithmetic_among_numbers_moves_to_the_host) {
  auto f = [](const Array& x, const Array& s) { return x * ((s + 1) * 2) - s; };
  const auto lowered = lower(f, on_cpu({4}), Array(3.0));
  EXPECT_EQ(operations(lowered.graph), 2) << "one product and one difference of arrays";
  EXPECT_EQ(lowered.graph.scalars.size(), 2U);
  using detail::ScalarValue;
  // In order of the trace: s, 1, 2.
  EXPECT_EQ(numbers(lowered, {ScalarValue::of(3.0), ScalarValue::of(std::int64_t{1}),
                              ScalarValue::of(std::int64_t{2})}),
            (std::vector<double>{8, 3}));
  EXPECT_EQ(numbers(lowered, {ScalarValue::of(5.0), ScalarValue::of(std::int64_t{1}),
                              ScalarValue::of(std::int64_t{2})}),
            (std::vector<double>{12, 5}));
}

TEST(CanonicalNumbers, a_number_used_twice_is_one_slot) {
  auto f = [](const Array& x, const Array& s) { return (x * s + s) * s; };
  EXPECT_EQ(lower(f, on_cpu({4}), Array(3.0)).graph.scalars.size(), 1U);
}

TEST(CanonicalNumbers, a_returned_number_is_an_output) {
  auto f = [](const Array& x, const Array& s) { return std::vector<Array>{s * 2, x + s}; };
  const auto lowered = lower(f, on_cpu({4}), Array(3.0));
  EXPECT_EQ(lowered.outputs.size(), 2U);
  EXPECT_EQ(lowered.outputs[0].shape, Shape());
}

TEST(CanonicalNumbers, are_checked_against_integer_arrays_at_every_call) {
  auto f = [](const Array& x, const Array& s) { return x + s; };
  const auto lowered = lower(f, on_cpu({4}, DType::int8), Array(3));
  using detail::ScalarValue;
  EXPECT_NO_THROW(numbers(lowered, {ScalarValue::of(std::int64_t{127})}));
  EXPECT_EQ(unit::error_of([&] { numbers(lowered, {ScalarValue::of(std::int64_t{128})}); }),
            "DTypeError: operation 2, add: the number 128 does not fit the array's dtype int8; cast the "
            "array first");
}

TEST(CanonicalNumbers, are_checked_against_integer_destinations_at_every_call) {
  auto f = [](const Array& y, const Array& s) { stiletto::assign(y, s + 1); };
  const auto lowered = lower(f, on_cpu({4}, DType::int8), Array(3));
  using detail::ScalarValue;
  const std::vector<ScalarValue> fits{ScalarValue::of(std::int64_t{126}), ScalarValue::of(std::int64_t{1})},
      does_not{ScalarValue::of(std::int64_t{127}), ScalarValue::of(std::int64_t{1})};
  EXPECT_NO_THROW(numbers(lowered, fits));
  EXPECT_THROW(numbers(lowered, does_not), stiletto::DTypeError) << "as assign(y, 128) is refused";
}

// ---- dtypes of outputs ----------------------------------------------------------------------------------

TEST(CanonicalOptions, io_dtype) {
  auto f = [](const Array& x) {
    return std::vector<Array>{x * 2,
                              stiletto::cast(x * 2, f32),
                              x > 0,
                              stiletto::sum(x > 0),
                              stiletto::sum(x),
                              stiletto::reshape(stiletto::cast(stiletto::exp(x), f32), {4}),
                              stiletto::transpose(stiletto::exp(x))};
  };
  const auto lowered = lower({.io_dtype = DType::bfloat16}, f, on_cpu({2, 2}));
  ASSERT_EQ(lowered.outputs.size(), 7U);
  EXPECT_EQ(lowered.outputs[0].dtype, DType::bfloat16);
  EXPECT_EQ(lowered.outputs[1].dtype, f32) << "a cast says what it wants";
  EXPECT_EQ(lowered.outputs[2].dtype, DType::boolean);
  EXPECT_EQ(lowered.outputs[3].dtype, DType::int32);
  EXPECT_EQ(lowered.outputs[4].dtype, DType::bfloat16);
  EXPECT_EQ(lowered.outputs[5].dtype, f32) << "through a reshape";
  EXPECT_EQ(lowered.outputs[6].dtype, DType::bfloat16);
  EXPECT_EQ(lower(f, on_cpu({2, 2})).outputs[0].dtype, f32);
}

TEST(CanonicalOptions, do_not_touch_stores) {
  auto f = [](const Array& y, const Array& x) { stiletto::assign(y, x * 2); };
  EXPECT_EQ(lower({.io_dtype = DType::bfloat16}, f, on_cpu({2}), on_cpu({2})).graph.stores[0].tensor.dtype,
            f32);
}

TEST(CanonicalOptions, intermediate_and_compute_dtype_are_the_graphs) {
  auto f = [](const Array& x) { return x * 2; };
  const auto graph =
      lower({.intermediate_dtype = DType::float16, .compute_dtype = DType::float64}, f, on_cpu({2})).graph;
  EXPECT_EQ(graph.intermediate_dtype, DType::float16);
  EXPECT_EQ(graph.compute_dtype, DType::float64);
  EXPECT_NE(graph.to_string().find("  intermediate float16\n  compute float64\n"), std::string::npos);
}

}  // namespace
