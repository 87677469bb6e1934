// SPDX-License-Identifier: Apache-2.0
// The complete text of InternalErrors: bugs, which no program through the public interface can provoke. Here
// they are provoked from inside, so that what a bug report will hold is known. Not here are those of the CPU
// backend (program_builder.cpp, matmul_planner.cpp, onednn.cpp, onednn_matmul.cpp): they need a broken
// backend.
#include <gtest/gtest.h>

#include <vector>

#include "core/array_body.hpp"
#include "graph/host_scalars.hpp"
#include "ops/apply.hpp"
#include "unit/error_text.hpp"
#include "unit/trace_support.hpp"

namespace {

using stiletto::Array;
using stiletto::DType;
using unit::expect_text;
using unit::Recording;
namespace detail = stiletto::detail;
using detail::Node;
using detail::Op;
using detail::ScalarValue;

Node exp_of(std::uint32_t input) {
  Node node;
  node.op = Op::exp;
  node.arity = 1;
  node.inputs[0] = input;
  node.shape = {2};
  node.strides = {1};
  return node;
}

// core/array.cpp
TEST(InternalErrorTexts, numbers_of_a_type_that_numbers_never_have) {
  expect_text([] { detail::make_number(ScalarValue::of(1.0), DType::float8_e4m3, false); },
              "InternalError: a number of dtype float8_e4m3; please report this");
}

// graph/host_scalars.cpp
TEST(InternalErrorTexts, operations_without_a_form_for_numbers) {
  const ScalarValue one[] = {ScalarValue::of(1.0), ScalarValue::of(1.0)},
                    integer[] = {ScalarValue::of(std::int64_t{1}), ScalarValue::of(std::int64_t{1})};
  Node node;
  node.op = Op::sum;
  expect_text([&] { detail::evaluate_scalar(node, {one, 1}); },
              "InternalError: no host form of sum; please report this");
  expect_text([&] { detail::evaluate_scalar(node, {one, 2}); },
              "InternalError: no host form of sum; please report this");
  node.operand = DType::int32;
  expect_text([&] { detail::evaluate_scalar(node, {integer, 1}); },
              "InternalError: no host form of sum on integers; please report this");
}

// ops/shape_rules.cpp
TEST(InternalErrorTexts, operations_without_a_shape_rule) {
  const Array x = stiletto::ones({2});
  expect_text([&] { detail::apply(Op::reshape, {&x}); },
              "InternalError: no shape rule for reshape; please report this");
}

// graph/print.cpp
TEST(InternalErrorTexts, traces_that_break_a_rule) {
  auto broken = [](auto change) {
    return [change] {
      Recording r;
      r.argument({2});
      Node node = exp_of(0);
      change(node);
      r.trace.record(node, "exp");
      r.trace.verify();
    };
  };
  expect_text(broken([](Node& n) { n.strides = {2, 1}; }),
              "InternalError: the trace breaks a rule at node 1 (one stride per axis); please report this "
              "with\ntrace\n  %0 = arg0: float32(2)\n  %1 = exp(%0): float32(2) strides (2, 1)\n");
  expect_text(broken([](Node& n) { n.inputs[0] = 1; }),
              "InternalError: the trace breaks a rule at node 1 (operands come first); please report this "
              "with\ntrace\n  %0 = arg0: float32(2)\n  %1 = exp(%1): float32(2)\n");
  expect_text(broken([](Node& n) { n.shape = {-2}; }),
              "InternalError: the trace breaks a rule at node 1 (no negative extent); please report this "
              "with\ntrace\n  %0 = arg0: float32(2)\n  %1 = exp(%0): float32(-2)\n");
  expect_text(broken([](Node& n) { n.scalar = true; }),
              "InternalError: the trace breaks a rule at node 1 (numbers have rank 0); please report this "
              "with\ntrace\n  %0 = arg0: float32(2)\n  %1 = exp(%0): float32\n");
  expect_text(
      [] {
        Recording r;
        const Array x = r.argument({2});
        const Array y = stiletto::exp(x);
        Node node = exp_of(1);
        node.op = Op::view;
        node.attributes = detail::ViewAttributes{};
        r.trace.record(node, "exp");
        r.trace.verify();
      },
      "InternalError: the trace breaks a rule at node 2 (views are of leaves); please report this "
      "with\ntrace\n  %0 = arg0: float32(2)\n  %1 = exp(%0): float32(2)\n  %2 = view(%1, offset=0): "
      "float32(2)\n");
  expect_text(
      [] {
        Recording r;
        r.argument({2});
        r.trace.record_store(7, 0);
        r.trace.verify();
      },
      "InternalError: the trace breaks a rule at node 7 (stores name nodes); please report this "
      "with\ntrace\n  %0 = arg0: float32(2)\n  store %0 -> %7\n");
  expect_text(
      [] {
        Recording r;
        const Array x = r.argument({2});
        const Array y = stiletto::exp(x);
        r.trace.record_store(1, 0);
        r.trace.verify();
      },
      "InternalError: the trace breaks a rule at node 1 (stores go to arguments, captures and their views); "
      "please report this with\ntrace\n  %0 = arg0: float32(2)\n  %1 = exp(%0): float32(2)\n  store %0 -> "
      "%1\n");
}

// compiler/canonicalize.cpp
TEST(InternalErrorTexts, outputs_without_a_layout) {
  expect_text(
      [] {
        Recording r;
        const Array x = r.argument({6});
        const Array y = stiletto::exp(x);
        Node node = exp_of(1);
        node.op = Op::reshape;
        node.shape = {2, 3};
        node.strides = {1, 2};
        r.trace.add_result(r.trace.record(node, "exp"));
        r.trace.end();
        detail::canonicalize(r.trace, {});
      },
      "InternalError: output %2 has no layout; please report this with\ntrace\n  %0 = arg0: float32(6)\n  %1 "
      "= exp(%0): float32(6)\n  %2 = reshape(%1): float32(2, 3) strides (1, 2)\n  return %2\n");
}

}  // namespace
