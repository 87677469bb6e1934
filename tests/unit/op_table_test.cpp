// SPDX-License-Identifier: Apache-2.0
// The operation table against everything that has to follow a row: a lowering on the CPU for every register
// that the row's type rule can give, a host form for numbers, and a public function that records it. A new
// row without one of them fails here.
#include "graph/op_table.hpp"

#include <gtest/gtest.h>

#include <set>
#include <span>
#include <string>
#include <vector>

#include "backends/cpu/expression.hpp"
#include "backends/cpu/kernels.hpp"
#include "backends/cpu/structured.hpp"
#include "core/dtype_info.hpp"
#include "support/operation_examples.hpp"
#include "unit/trace_support.hpp"

namespace {

using unit::Array;
using unit::DType;
using unit::Recording;
namespace detail = stiletto::detail;
namespace cpu = stiletto::detail::cpu;
using detail::Family;
using detail::Op;
using detail::OpRow;
using detail::TypeRule;
using support::Example;

constexpr DType plain[] = {DType::boolean, DType::int8,     DType::uint8,   DType::int32,  DType::int64,
                           DType::float16, DType::bfloat16, DType::float32, DType::float64};

constexpr DType float8[] = {DType::float8_e4m3, DType::float8_e5m2};

constexpr DType float4[] = {DType::float4_e2m1};

std::span<const DType> dtypes_of(const OpRow& row) {
  if (row.op == Op::dequantize || row.op == Op::attention_blockscaled) return float4;
  return row.op == Op::attention_float8 ? std::span<const DType>(float8) : std::span<const DType>(plain);
}

std::vector<const Example*> examples_of(Op op) {
  std::vector<const Example*> result;
  for (const Example& example : support::operation_examples())
    if (example.op == op) result.push_back(&example);
  return result;
}

void record(Recording& r, const Example& example, DType dtype) {
  std::vector<Array> arguments;
  for (const support::ExampleOperand& operand : example.operands(dtype))
    arguments.push_back(r.argument(operand.shape, operand.dtype, operand.strides));
  example.call(arguments);
}

/// Whether the row's type rule refuses this dtype.
bool refuses(const OpRow& row, DType dtype) {
  const bool boolean = dtype == DType::boolean;
  if (row.op == Op::dequantize || row.op == Op::attention_blockscaled) return dtype != DType::float4_e2m1;
  if (row.op == Op::attention_float8) return !detail::is_float8(dtype);
  const bool wide = dtype == DType::int32 || dtype == DType::int64;
  if (row.op == Op::max_pool) return boolean;
  if (row.op == Op::conv) return boolean || wide;
  if (row.family == Family::structured || row.family == Family::part) return !detail::is_floating(dtype);
  return boolean && (row.rule == TypeRule::numeric || row.family == Family::matmul);
}

TEST(OpTable, has_one_row_per_operation_in_order) {
  const auto rows = detail::op_table();
  ASSERT_EQ(rows.size(), detail::op_count);
  std::set<std::string> names;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(static_cast<std::size_t>(rows[i].op), i);
    EXPECT_EQ(&detail::row_of(rows[i].op), &rows[i]);
    EXPECT_TRUE(names.insert(rows[i].name).second) << rows[i].name << " is the name of two";
    EXPECT_LE(rows[i].arity, rows[i].family == Family::structured ? detail::max_operands : 3) << rows[i].name;
    const bool has_rule = rows[i].rule != TypeRule::none;
    const bool needs_rule = rows[i].family == Family::pointwise || rows[i].family == Family::reduction ||
                            rows[i].family == Family::softmax;
    EXPECT_EQ(has_rule, needs_rule) << rows[i].name;
  }
}

void expect_recorded(const OpRow& row, const Example& example, DType dtype) {
  SCOPED_TRACE(example.name() + " of " + stiletto::to_string(dtype));
  Recording r;
  record(r, example, dtype);
  bool recorded = false;
  for (const detail::Node& node : r.trace.nodes()) {
    if (node.op != row.op) continue;
    recorded = true;
    if (row.family == Family::structured) {
      EXPECT_GE(node.arity, row.arity);
    } else {
      EXPECT_EQ(node.arity, row.arity);
    }
  }
  EXPECT_TRUE(recorded);
  EXPECT_NO_THROW(r.trace.verify());
}

/// But captures: examples are made for devices that may be absent, whose memory cannot be captured.
TEST(OpTable, every_row_is_recorded_by_a_public_function) {
  for (const OpRow& row : detail::op_table()) {
    if (row.op == Op::capture) continue;
    const std::vector<const Example*> examples = examples_of(row.op);
    EXPECT_FALSE(examples.empty()) << row.name
                                   << " has no graph in tests/support/operation_examples.cpp, which "
                                      "docs/support.md is made of, too";
    for (const Example* example : examples)
      for (const DType dtype : dtypes_of(row))
        if (!refuses(row, dtype)) expect_recorded(row, *example, dtype);
  }
  Recording r;
  const Array x = r.argument({2});
  x + detail::allocate_array(x.device(), {}, x.dtype(), "f");
  EXPECT_EQ(r.trace.nodes()[1].op, Op::capture);
}

/// The registers that hold the operands of an operation's maps, for arrays of one dtype.
std::set<cpu::Register> operand_registers(const OpRow& row, DType dtype) {
  Recording r;
  record(r, *examples_of(row.op).front(), dtype);
  std::set<cpu::Register> result;
  for (const detail::Node& node : r.trace.nodes())
    if (node.op == row.op) {
      const cpu::Register exact = cpu::register_of(node.operand);
      result.insert(exact);
      if (exact == cpu::Register::f32) result.insert(cpu::Register::f64);  // intermediate_dtype = float64
    }
  return result;
}

TEST(OpTable, every_pointwise_row_has_kernels_for_what_its_type_rule_gives) {
  int kernels = 0;
  for (const OpRow& row : detail::op_table()) {
    if (row.family != Family::pointwise || row.rule == TypeRule::cast) continue;  // casts are conversions
    for (DType dtype : plain) {
      if (refuses(row, dtype)) continue;
      for (cpu::Register reg : operand_registers(row, dtype)) {
        ++kernels;
        for (const char* set : {"baseline", "avx2", "avx512"}) {
          const cpu::Kernels* table = cpu::kernels_for(set);
          if (table == nullptr) continue;  // not on this processor
          EXPECT_NE(table->map[static_cast<std::size_t>(row.op)][static_cast<std::size_t>(reg)], nullptr)
              << row.name << " of " << dtype << " in register " << static_cast<int>(reg) << " for " << set;
        }
      }
    }
  }
  EXPECT_GT(kernels, 300);
}

TEST(OpTable, every_conversion_has_a_kernel) {
  const cpu::Kernels& table = cpu::kernels();
  for (std::size_t from = 0; from < cpu::register_count; ++from)
    for (std::size_t to = 0; to < cpu::register_count; ++to)
      if (from != to) {
        EXPECT_NE(table.convert[from][to], nullptr) << from << " to " << to;
      }
  for (std::size_t dtype = 0; dtype < 13; ++dtype) {
    const auto held = static_cast<std::size_t>(cpu::register_of(static_cast<DType>(dtype)));
    EXPECT_NE(table.load[dtype][held], nullptr) << static_cast<DType>(dtype);
    for (std::size_t reg = 0; reg < cpu::register_count; ++reg)
      if (static_cast<DType>(dtype) != DType::float8_e8m0) {
        EXPECT_NE(table.store[reg][dtype], nullptr) << reg << " to " << static_cast<DType>(dtype);
      }
  }
}

/// Every map of what an operation is spelled out in, for operands of one dtype.
void expect_lowering(const OpRow& row, DType dtype, DType intermediate) {
  Recording r;
  record(r, *examples_of(row.op).front(), dtype);
  const auto last = static_cast<std::uint32_t>(r.trace.nodes().size() - 1);
  ASSERT_EQ(r.trace.nodes()[last].op, row.op);
  detail::ArrayBody body;  // the handle of the last node, as an operation would return it
  const detail::Node& node = r.trace.nodes()[last];
  body.kind = detail::ArrayBody::Kind::traced;
  body.dtype = node.dtype;
  body.shape = node.shape;
  body.strides = node.strides;
  body.trace = r.trace.id();
  body.node = last;
  r.trace.add_result(detail::ArrayAccess::make(body));
  r.trace.end();
  const auto graph = detail::canonicalize(r.trace, {.intermediate_dtype = intermediate}).graph;
  const cpu::Expressions expressions = cpu::expand(graph);
  EXPECT_EQ(expressions.of_value.size(), graph.values.size()) << row.name;
  for (const cpu::Expression& e : expressions.list) {
    if (e.kind != cpu::Expression::Kind::map) continue;
    const auto reg = static_cast<std::size_t>(expressions.hold(e.operand));
    EXPECT_NE(cpu::kernels().map[static_cast<std::size_t>(e.op)][reg], nullptr)
        << row.name << " of " << dtype << " needs " << detail::name_of(e.op) << " of " << e.operand;
  }
  for (const cpu::Expression& e : expressions.list) {
    if (e.kind != cpu::Expression::Kind::reduce) continue;
    const auto reg = static_cast<std::size_t>(expressions.list[e.inputs[0]].held);
    EXPECT_NE(cpu::kernels().reduce[static_cast<std::size_t>(e.combine)][reg], nullptr)
        << row.name << " of " << dtype;
  }
}

TEST(OpTable, every_row_is_spelled_out_in_kernels_or_handled_by_the_schedule) {
  for (const OpRow& row : detail::op_table()) {
    switch (row.family) {
      case Family::leaf:    // memory and numbers
      case Family::layout:  // axes of the canonical graph
      case Family::matmul:  // a product of the backend's own
      case Family::part:    // a result of one of those below
        break;
      case Family::structured:
        EXPECT_NE(cpu::structured_kernel(row.op), nullptr) << row.name;
        break;
      case Family::pointwise:
      case Family::reduction:
      case Family::softmax:
        for (DType dtype : plain)
          for (DType intermediate : {DType::float32, DType::float16, DType::bfloat16, DType::float64})
            if (!refuses(row, dtype)) expect_lowering(row, dtype, intermediate);
    }
  }
}

}  // namespace
