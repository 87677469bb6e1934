// SPDX-License-Identifier: Apache-2.0
// The operation table against everything that has to follow a row: a lowering on the CPU for every register
// that the row's type rule can give, a host form for numbers, and a public function that records it. A new
// row without one of them fails here.
#include "graph/op_table.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "backends/cpu/expression.hpp"
#include "backends/cpu/kernels.hpp"
#include "backends/cpu/structured.hpp"
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

constexpr DType plain[] = {DType::boolean, DType::int8,     DType::uint8,   DType::int32,  DType::int64,
                           DType::float16, DType::bfloat16, DType::float32, DType::float64};

DType statistics_of(const Array& x) { return x.dtype() == DType::float64 ? x.dtype() : DType::float32; }

/// The public function of each operation, on operands of one dtype.
const std::map<Op, std::function<void(Recording&, const Array&)>>& public_functions() {
  using F = std::function<void(Recording&, const Array&)>;
  auto unary = [](Array (*f)(const Array&)) { return F([f](Recording&, const Array& x) { f(x); }); };
  auto binary = [](Array (*f)(const Array&, const Array&)) {
    return F([f](Recording&, const Array& x) { f(x, x); });
  };
  auto reduction = [](Array (*f)(const Array&, stiletto::Axes, bool)) {
    return F([f](Recording&, const Array& x) { f(x, 0, false); });
  };
  static const std::map<Op, F> functions{
      {Op::argument, [](Recording& r, const Array&) { r.argument({2}); }},
      {Op::capture,
       [](Recording&, const Array& x) {
         x + stiletto::detail::allocate_array(x.device(), {}, x.dtype(), "f");
       }},
      {Op::scalar, [](Recording&, const Array& x) { x + true; }},
      {Op::view, [](Recording&, const Array& x) { stiletto::slice(x, {stiletto::Slice{0, 1}}); }},
      {Op::negate, unary([](const Array& x) { return -x; })},
      {Op::logical_not, unary(stiletto::logical_not)},
      {Op::cast, unary([](const Array& x) { return stiletto::cast(x, DType::float32); })},
      {Op::copy, unary([](const Array& x) { return x.copy(); })},
      {Op::abs, unary(stiletto::abs)},
      {Op::exp, unary(stiletto::exp)},
      {Op::log, unary(stiletto::log)},
      {Op::sqrt, unary(stiletto::sqrt)},
      {Op::rsqrt, unary(stiletto::rsqrt)},
      {Op::square, unary(stiletto::square)},
      {Op::reciprocal, unary(stiletto::reciprocal)},
      {Op::sin, unary(stiletto::sin)},
      {Op::cos, unary(stiletto::cos)},
      {Op::tan, unary(stiletto::tan)},
      {Op::tanh, unary(stiletto::tanh)},
      {Op::erf, unary(stiletto::erf)},
      {Op::ceil, unary(stiletto::ceil)},
      {Op::floor, unary(stiletto::floor)},
      {Op::relu, unary(stiletto::relu)},
      {Op::leaky_relu, unary([](const Array& x) { return stiletto::leaky_relu(x); })},
      {Op::clipped_relu, unary([](const Array& x) { return stiletto::clipped_relu(x, 6); })},
      {Op::sigmoid, unary(stiletto::sigmoid)},
      {Op::silu, unary(stiletto::silu)},
      {Op::softplus, unary(stiletto::softplus)},
      {Op::elu, unary([](const Array& x) { return stiletto::elu(x); })},
      {Op::gelu, unary(stiletto::gelu)},
      {Op::gelu_tanh, unary(stiletto::gelu_tanh)},
      {Op::add, binary([](const Array& x, const Array& y) { return x + y; })},
      {Op::subtract, binary([](const Array& x, const Array& y) { return x - y; })},
      {Op::multiply, binary([](const Array& x, const Array& y) { return x * y; })},
      {Op::divide, binary([](const Array& x, const Array& y) { return x / y; })},
      {Op::less, binary([](const Array& x, const Array& y) { return x < y; })},
      {Op::less_equal, binary([](const Array& x, const Array& y) { return x <= y; })},
      {Op::greater, binary([](const Array& x, const Array& y) { return x > y; })},
      {Op::greater_equal, binary([](const Array& x, const Array& y) { return x >= y; })},
      {Op::equal, binary([](const Array& x, const Array& y) { return x == y; })},
      {Op::not_equal, binary([](const Array& x, const Array& y) { return x != y; })},
      {Op::logical_and, binary(stiletto::logical_and)},
      {Op::logical_or, binary(stiletto::logical_or)},
      {Op::maximum, binary(stiletto::maximum)},
      {Op::minimum, binary(stiletto::minimum)},
      {Op::pow, binary(stiletto::pow)},
      {Op::fmod, binary(stiletto::fmod)},
      {Op::atan2, binary(stiletto::atan2)},
      {Op::where,
       [](Recording& r, const Array& x) { stiletto::where(r.argument({2, 2}, DType::boolean), x, x); }},
      {Op::clamp, [](Recording&, const Array& x) { stiletto::clamp(x, x, x); }},
      {Op::sum, reduction(stiletto::sum)},
      {Op::mean, reduction(stiletto::mean)},
      {Op::max, reduction(stiletto::max)},
      {Op::min, reduction(stiletto::min)},
      {Op::abs_max, reduction(stiletto::abs_max)},
      {Op::prod, reduction(stiletto::prod)},
      {Op::norm1, reduction(stiletto::norm1)},
      {Op::norm2, reduction(stiletto::norm2)},
      {Op::logsumexp, reduction(stiletto::logsumexp)},
      {Op::softmax, unary([](const Array& x) { return stiletto::softmax(x); })},
      {Op::matmul, binary(stiletto::matmul)},
      {Op::attention,
       [](Recording& r, const Array& x) {
         const Array q = r.argument({1, 2, 2, 4}, x.dtype());
         stiletto::attention(q, q, q);
       }},
      {Op::attention_backward,
       [](Recording& r, const Array& x) {
         const Array q = r.argument({1, 2, 2, 4}, x.dtype());
         stiletto::attention_backward(q, q, q, q, q, r.argument({1, 2, 2, 1}));
       }},
      {Op::attention_float8,
       [](Recording& r, const Array&) {
         const Array q = r.argument({1, 2, 2, 4}, DType::float8_e4m3), factor = r.argument({1});
         stiletto::attention_float8(q, q, q, {factor, factor, factor, factor, factor, factor});
       }},
      {Op::attention_blockscaled,
       [](Recording& r, const Array&) {
         const auto blocks = [&](const stiletto::Shape& shape, int axis) {
           return stiletto::quantize(r.argument(shape), stiletto::BlockFormat::mxfp8_e4m3, axis);
         };
         stiletto::attention(blocks({1, 2, 2, 32}, -1), blocks({1, 2, 32, 32}, -1), blocks({1, 2, 32, 4}, -2));
       }},
      {Op::quantize,
       [](Recording& r, const Array&) {
         stiletto::quantize(r.argument({2, 32}), stiletto::BlockFormat::mxfp4, -1);
       }},
      {Op::dequantize,
       [](Recording& r, const Array&) {
         stiletto::dequantize(stiletto::quantize(r.argument({2, 32}), stiletto::BlockFormat::nvfp4, -1));
       }},
      {Op::rms_norm, [](Recording& r, const Array& x) { stiletto::rms_norm(x, r.argument({2}, x.dtype())); }},
      {Op::rms_norm_backward,
       [](Recording& r, const Array& x) {
         stiletto::rms_norm_backward(x, x, r.argument({2}, x.dtype()), r.argument({2, 1}, statistics_of(x)));
       }},
      {Op::layer_norm,
       [](Recording& r, const Array& x) {
         const Array scale = r.argument({2}, x.dtype());
         stiletto::layer_norm(x, scale, scale);
       }},
      {Op::layer_norm_backward,
       [](Recording& r, const Array& x) {
         const Array mean = r.argument({2, 1}, statistics_of(x));
         stiletto::layer_norm_backward(x, x, r.argument({2}, x.dtype()), mean, mean);
       }},
      {Op::batch_norm_training,
       [](Recording& r, const Array& x) {
         const Array vector = r.argument({3}, x.dtype());
         stiletto::batch_norm_training(r.argument({2, 3, 4}, x.dtype()), vector, vector, vector, vector);
       }},
      {Op::batch_norm_backward,
       [](Recording& r, const Array& x) {
         const Array y = r.argument({2, 3, 4}, x.dtype()), vector = r.argument({3}, statistics_of(x));
         stiletto::batch_norm_backward(y, y, vector, vector, vector);
       }},
      {Op::conv,
       [](Recording& r, const Array& x) {
         stiletto::conv(r.argument({1, 2, 5}, x.dtype()), r.argument({3, 2, 3}, x.dtype()));
       }},
      {Op::conv_backward_data,
       [](Recording& r, const Array& x) {
         stiletto::conv_backward_data(r.argument({1, 3, 3}, x.dtype()), r.argument({3, 2, 3}, x.dtype()),
                                      {1, 2, 5});
       }},
      {Op::conv_backward_filter,
       [](Recording& r, const Array& x) {
         stiletto::conv_backward_filter(r.argument({1, 3, 3}, x.dtype()), r.argument({1, 2, 5}, x.dtype()),
                                        {3, 2, 3});
       }},
      {Op::max_pool, [](Recording& r, const Array& x) { stiletto::max_pool(r.argument({1, 2, 5}, x.dtype()), 2); }},
      {Op::avg_pool, [](Recording& r, const Array& x) { stiletto::avg_pool(r.argument({1, 2, 5}, x.dtype()), 2); }},
      {Op::part,
       [](Recording& r, const Array& x) { stiletto::rms_norm_with_stats(x, r.argument({2}, x.dtype())); }},
      {Op::fill, [](Recording&, const Array& x) { stiletto::zeros({2}, x.dtype()); }},
      {Op::permute, unary([](const Array& x) { return stiletto::transpose(x + x); })},
      {Op::reshape, unary([](const Array& x) { return stiletto::reshape(x + x, {4}); })}};
  return functions;
}

/// Whether the row's type rule refuses this dtype.
bool refuses(const OpRow& row, DType dtype) {
  const bool boolean = dtype == DType::boolean;
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

TEST(OpTable, every_row_is_recorded_by_a_public_function) {
  for (const OpRow& row : detail::op_table()) {
    const auto function = public_functions().find(row.op);
    ASSERT_NE(function, public_functions().end())
        << row.name << " has no public function in this test's list";
    for (DType dtype : plain) {
      if (refuses(row, dtype)) continue;
      Recording r;
      const Array x = r.argument({2, 2}, dtype);
      function->second(r, x);
      bool recorded = false;
      for (const detail::Node& node : r.trace.nodes()) recorded = recorded || node.op == row.op;
      EXPECT_TRUE(recorded) << row.name << " of " << dtype;
      EXPECT_NO_THROW(r.trace.verify());
      for (const detail::Node& node : r.trace.nodes()) {
        if (node.op == row.op && row.op != Op::matmul) {
          EXPECT_EQ(node.arity, row.arity) << row.name;
        }
      }
    }
  }
}

/// The registers that hold the operands of an operation's maps, for arrays of one dtype.
std::set<cpu::Register> operand_registers(const OpRow& row, DType dtype) {
  Recording r;
  const Array x = r.argument({2, 2}, dtype);
  public_functions().at(row.op)(r, x);
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
  const Array x = r.argument({2, 2}, dtype);
  public_functions().at(row.op)(r, x);
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
