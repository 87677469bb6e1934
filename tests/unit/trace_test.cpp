// SPDX-License-Identifier: Apache-2.0
// What a trace records: arguments, captures by identity, numbers, composed views, stores and results, the
// hazards between stores and reads, and traces inside traces.
#include "graph/trace.hpp"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "unit/error_text.hpp"
#include "unit/trace_support.hpp"

namespace {

using stiletto::Dims;
using stiletto::Slice;
using stiletto::TraceError;
using unit::Array;
using unit::DType;
using unit::error_of;
using unit::Recording;
namespace detail = stiletto::detail;

std::size_t nodes(const Recording& r) { return r.trace.nodes().size(); }

TEST(Recorded, arguments_operations_results) {
  Recording r;
  const Array x = r.argument({2, 3}), y = r.argument({3}, DType::float16);
  r.trace.add_result(stiletto::exp(x) * y);
  EXPECT_EQ(r.trace.to_string(),
            "trace\n"
            "  %0 = arg0: float32(2, 3)\n"
            "  %1 = arg1: float16(3)\n"
            "  %2 = exp(%0): float32(2, 3)\n"
            "  %3 = multiply(%2, %1): float32(2, 3)\n"
            "  return %3\n");
  EXPECT_NO_THROW(r.trace.verify());
}

TEST(Recorded, attributes) {
  Recording r;
  const Array x = r.argument({4, 4});
  stiletto::leaky_relu(x, 0.25);
  stiletto::sum(x, {-1, 0}, true);
  stiletto::softmax(x);
  stiletto::matmul(x, x);
  stiletto::matmul_into(r.argument({4, 4}), x, x, 2, 0.5);
  stiletto::transpose(stiletto::exp(x));
  EXPECT_EQ(r.trace.to_string(),
            "trace\n"
            "  %0 = arg0: float32(4, 4)\n"
            "  %1 = leaky_relu(%0, 0.25): float32(4, 4)\n"
            "  %2 = sum(%0, axes=(0, 1), keep_dims): float32(1, 1)\n"
            "  %3 = softmax(%0, axis=1): float32(4, 4)\n"
            "  %4 = matmul(%0, %0): float32(4, 4)\n"
            "  %5 = arg1: float32(4, 4)\n"
            "  %6 = matmul(%0, %0, %5, alpha=2, beta=0.5): float32(4, 4)\n"
            "  store %6 -> %5\n"
            "  %7 = exp(%0): float32(4, 4)\n"
            "  %8 = permute(%7, axes=(1, 0)): float32(4, 4)\n");
}

TEST(Recorded, a_member_of_a_composite_argument_is_named_by_its_place) {
  Recording r;
  r.trace.add_argument(unit::on_cpu({2}), 1, 0);
  r.trace.add_argument(unit::on_cpu({3}), 1, 1);
  EXPECT_EQ(r.trace.arguments()[0].name(), "arg1.0");
  EXPECT_EQ(r.trace.arguments()[1].name(), "arg1.1");
}

TEST(Recorded, alignment_of_arguments) {
  alignas(64) float memory[8] = {};
  const stiletto::Device cpu = stiletto::Device::cpu();
  for (auto [offset, alignment] : {std::pair(0, 16), {1, 4}, {2, 8}, {4, 16}}) {
    const Array x = stiletto::wrap(memory + offset, {2}, DType::float32, cpu);
    Recording r;
    r.like(x);
    EXPECT_EQ(r.trace.arguments()[0].alignment, alignment);
  }
}

// ---- captures -------------------------------------------------------------------------------------------

TEST(Recorded, captures_are_known_by_identity) {
  const Array w = stiletto::ones({3, 4}), other = stiletto::ones({3, 4});
  Array same;
  same = w;
  Recording r;
  const Array x = r.argument({3, 4});
  x + w;
  x* w;
  x - same;
  EXPECT_EQ(r.trace.captures().size(), 1U) << "the same storage, offset and view";
  x + other;
  EXPECT_EQ(r.trace.captures().size(), 2U) << "equal contents are not identity";
}

TEST(Recorded, a_view_made_outside_is_a_capture_of_its_own) {
  const Array w = stiletto::ones({3, 4});
  const Array row = stiletto::slice(w, {Slice{0, 1}}), again = stiletto::slice(w, {Slice{0, 1}}),
              next = stiletto::slice(w, {Slice{1, 2}}), turned = stiletto::transpose(w);
  Recording r;
  const Array x = r.argument({1, 4});
  x + row;
  x* again;
  EXPECT_EQ(r.trace.captures().size(), 1U) << "the same view twice";
  x + next;
  EXPECT_EQ(r.trace.captures().size(), 2U);
  stiletto::exp(w);
  stiletto::exp(turned);
  EXPECT_EQ(r.trace.captures().size(), 4U);
  stiletto::exp(stiletto::transpose(w));
  EXPECT_EQ(r.trace.captures().size(), 4U) << "a view made inside is a node";
}

TEST(Recorded, operations_on_captures_alone_are_nodes) {
  const Array w = stiletto::ones({3});
  Recording r;
  const Array y = stiletto::exp(w);
  EXPECT_TRUE(y.is_traced());
  EXPECT_EQ(nodes(r), 2U);
  EXPECT_TRUE(w.copy().is_traced());
}

TEST(Recorded, constants_are_nodes) {
  Recording r;
  const Array x = r.argument({3});
  r.trace.add_result(x + stiletto::full({2, 1}, 0.5, DType::float16));
  EXPECT_EQ(r.trace.to_string(),
            "trace\n"
            "  %0 = arg0: float32(3)\n"
            "  %1 = number0: float32\n"
            "  %2 = fill(%1): float16(2, 1)\n"
            "  %3 = add(%0, %2): float32(2, 3)\n"
            "  return %3\n");
}

// ---- numbers --------------------------------------------------------------------------------------------

TEST(Recorded, numbers_are_leaves_and_their_arithmetic_is_scalar) {
  Recording r;
  const Array x = r.argument({3}), s = r.like(Array(2));
  const Array t = s * 3 + 1;
  EXPECT_EQ(t.dtype(), DType::int32);
  EXPECT_EQ(t.rank(), 0);
  r.trace.add_result(x * t);
  EXPECT_EQ(r.trace.to_string(),
            "trace\n"
            "  %0 = arg0: float32(3)\n"
            "  %1 = number0: int32\n"
            "  %2 = number1: int32\n"
            "  %3 = multiply(%1, %2): int32\n"
            "  %4 = number2: int32\n"
            "  %5 = add(%3, %4): int32\n"
            "  %6 = multiply(%0, %5): float32(3)\n"
            "  return %6\n");
  EXPECT_EQ(r.trace.scalars().size(), 3U);
  EXPECT_TRUE(r.trace.arguments()[1].number);
  for (std::uint32_t i : {1U, 2U, 3U, 4U, 5U}) EXPECT_TRUE(r.trace.nodes()[i].scalar) << i;
  EXPECT_FALSE(r.trace.nodes()[6].scalar);
}

TEST(Recorded, an_array_of_rank_0_is_not_a_number) {
  Recording r;
  const Array x = r.argument({});
  EXPECT_FALSE(r.trace.nodes()[0].scalar);
  x + 1;
  EXPECT_FALSE(r.trace.nodes().back().scalar);
  EXPECT_EQ((x + r.argument({2}, DType::float16)).dtype(), DType::float32) << "its dtype counts";
}

// ---- views ----------------------------------------------------------------------------------------------

TEST(Recorded, views_compose_into_one_node) {
  Recording r;
  const Array x = r.argument({4, 6});
  const Array rows = stiletto::slice(x, {Slice{1, 4}});
  const Array part = stiletto::slice(stiletto::transpose(rows), {Slice{{}, {}, -2}});
  const detail::Node& node = r.trace.nodes().back();
  EXPECT_EQ(node.op, detail::Op::view);
  EXPECT_EQ(node.inputs[0], 0U) << "a view is of its root";
  EXPECT_EQ(std::get<detail::ViewAttributes>(node.attributes).offset, 6 + 5);
  EXPECT_EQ(part.shape(), (Dims{3, 3}));
  EXPECT_EQ(part.strides(), (Dims{-2, 6}));
  EXPECT_EQ(r.trace.root_of(static_cast<std::uint32_t>(nodes(r) - 1)), 0U);
}

TEST(Recorded, views_of_computed_values) {
  Recording r;
  const Array x = stiletto::exp(r.argument({2, 1, 3}));
  EXPECT_EQ(stiletto::squeeze(x).shape(), (Dims{2, 3}));
  EXPECT_NO_THROW(stiletto::squeeze(x) + 1) << "extents of 1 change freely";
  EXPECT_NO_THROW(stiletto::expand_dims(x, 0) * 2);
  EXPECT_NO_THROW(stiletto::transpose(x, {1, 0, 2}) * 2) << "only an extent of 1 moved";
  EXPECT_NO_THROW(stiletto::reshape(x, {1, 2, 3}) * 2);
  EXPECT_EQ(stiletto::slice(x, {}).shape(), x.shape()) << "all of it";
  EXPECT_NO_THROW(stiletto::slice(x, {Slice{0, 2}}) * 2);
  const Array turned = stiletto::transpose(x), flat = stiletto::reshape(x, {6});
  EXPECT_EQ(turned.shape(), (Dims{3, 1, 2}));
  EXPECT_EQ(flat.shape(), (Dims{6}));
  EXPECT_THROW(turned + 1, TraceError);
  EXPECT_THROW(stiletto::exp(flat), TraceError);
  EXPECT_THROW(stiletto::sum(turned), TraceError);
  EXPECT_THROW(stiletto::matmul(turned, r.argument({3, 2, 4})), TraceError);
  EXPECT_THROW(stiletto::slice(x, {Slice{0, 1}}), TraceError);
  EXPECT_THROW(stiletto::as_strided(x, {6}, {1}), TraceError);
  EXPECT_THROW(stiletto::broadcast_to(x, {2, 4, 3}), TraceError);
  EXPECT_THROW(stiletto::transpose(stiletto::reshape(x, {3, 2})), TraceError) << "permute of a reshape";
  EXPECT_NO_THROW(stiletto::transpose(turned, {2, 0, 1})) << "permutes compose";
  EXPECT_NO_THROW(r.trace.add_result(turned));
  EXPECT_NO_THROW(r.trace.add_result(flat));
  EXPECT_NO_THROW(stiletto::assign(r.argument({3, 1, 2}), turned));
}

TEST(Recorded, a_scalar_is_broadcast_by_filling) {
  Recording r;
  const Array s = r.like(Array(2.0));
  EXPECT_EQ(stiletto::broadcast_to(s, {2, 3}).shape(), (Dims{2, 3}));
  const Array total = stiletto::sum(r.argument({4}));
  EXPECT_EQ(stiletto::broadcast_to(total, {2, 3}).shape(), (Dims{2, 3}));
}

// ---- stores ---------------------------------------------------------------------------------------------

TEST(Recorded, reading_after_a_store_is_refused) {
  Recording r;
  const Array y = r.argument({4}), x = r.argument({4});
  const Array before = y * 2;
  stiletto::assign(y, x);
  EXPECT_THROW(y + 1, TraceError);
  EXPECT_THROW(stiletto::exp(stiletto::slice(y, {Slice{0, 2}})), TraceError);
  EXPECT_THROW(stiletto::sum(y), TraceError);
  EXPECT_THROW(stiletto::matmul(y, x), TraceError);
  EXPECT_THROW(stiletto::assign(x, y), TraceError);
  EXPECT_NO_THROW(before + x) << "what was computed before stays usable";
  EXPECT_NO_THROW(x + 1) << "another argument";
  EXPECT_NO_THROW(r.trace.add_result(y)) << "returning it returns the buffer";
  EXPECT_NO_THROW(stiletto::assign(y, before)) << "storing again";
}

TEST(Recorded, a_store_to_a_view_counts_for_its_buffer) {
  const Array w = stiletto::zeros({4}), half = stiletto::slice(w, {Slice{0, 2}});
  {
    Recording r;
    const Array y = r.argument({4});
    stiletto::assign(stiletto::slice(y, {Slice{0, 2}}), 1);
    EXPECT_THROW(stiletto::exp(stiletto::slice(y, {Slice{2, 4}})), TraceError);
  }
  Recording r;
  stiletto::assign(half, 1);
  EXPECT_THROW(stiletto::exp(w), TraceError) << "a capture on the same storage";
  EXPECT_NO_THROW(stiletto::exp(stiletto::zeros({2})));
}

TEST(Recorded, destinations_are_memory) {
  Recording r;
  const Array x = r.argument({4}), s = r.like(Array(1.0));
  EXPECT_THROW(stiletto::assign(stiletto::exp(x), x), TraceError);
  EXPECT_THROW(stiletto::assign(stiletto::zeros({4}), x), TraceError);
  EXPECT_THROW(stiletto::assign(s, 2), TraceError);
  EXPECT_THROW(stiletto::matmul_into(stiletto::exp(x), x, r.argument({4, 4})), TraceError);
  EXPECT_NO_THROW(stiletto::assign(x, 1));
  EXPECT_EQ(r.trace.stores().size(), 1U);
}

TEST(Recorded, self_overlapping_destinations) {
  Recording r;
  const Array x = r.argument({4});
  EXPECT_THROW(stiletto::assign(stiletto::as_strided(x, {3, 2}, {1, 1}), 0), stiletto::AliasError);
  EXPECT_THROW(stiletto::assign(stiletto::broadcast_to(x, {2, 4}), 0), stiletto::AliasError);
  EXPECT_NO_THROW(stiletto::assign(stiletto::as_strided(x, {1, 2}, {0, 1}), 0)) << "an extent of 1";
  EXPECT_NO_THROW(stiletto::assign(stiletto::as_strided(x, {0, 2}, {0, 0}), 0)) << "no elements";
}

// ---- traces and threads ---------------------------------------------------------------------------------

TEST(Recorded, traces_nest) {
  EXPECT_FALSE(detail::tracing());
  Recording outer;
  const Array x = outer.argument({2});
  {
    Recording inner;
    EXPECT_EQ(detail::Trace::current(), &inner.trace);
    const Array y = inner.argument({2});
    EXPECT_NO_THROW(y + 1);
    EXPECT_THROW(y + x, TraceError) << "an array of the outer trace";
    EXPECT_THROW(inner.like(x), TraceError);
  }
  EXPECT_EQ(detail::Trace::current(), &outer.trace);
  EXPECT_NO_THROW(x + 1);
  std::thread([] { EXPECT_FALSE(detail::tracing()) << "tracing is per thread"; }).join();
}

TEST(Recorded, an_array_of_a_trace_that_ended) {
  Array kept;
  {
    Recording r;
    kept = r.argument({2}) * 2;
  }
  EXPECT_THROW(kept + 1, TraceError);
  EXPECT_THROW(stiletto::transpose(kept), TraceError);
  EXPECT_THROW(stiletto::sum(kept), TraceError);
  EXPECT_THROW(stiletto::assign(kept, 1), TraceError);
  EXPECT_THROW(stiletto::assign(stiletto::zeros({2}), kept), TraceError);
  EXPECT_THROW(stiletto::matmul(kept, kept), TraceError);
  EXPECT_THROW(kept.copy(), TraceError);
  EXPECT_EQ(kept.shape(), Dims{2}) << "its type can still be asked";
  Recording other;
  EXPECT_THROW(other.argument({2}) + kept, TraceError);
  EXPECT_THROW(other.trace.add_result(kept), TraceError);
}

TEST(Recorded, device_of_what_is_recorded) {
  Recording r;
  EXPECT_EQ((r.argument({2}) + 1).device(), stiletto::Device::cpu());
  Recording gpu;
  gpu.like(Array(2.0));
  const Array x = gpu.like(stiletto::spec({2}, DType::float32));
  EXPECT_EQ((x + 1).device(), stiletto::Device::cuda(0));
}

}  // namespace
