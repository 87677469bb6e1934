// SPDX-License-Identifier: Apache-2.0
// Rows with matrix products: what may stand before and behind them, batch axes, orders in memory, dtypes.
#include "plans/table.hpp"
#include "support/cudnn_modes.hpp"
#include "support/operations.hpp"

namespace plans {
namespace {

using stiletto::matmul;
using stiletto::transpose;

constexpr DType f16 = DType::float16, bf16 = DType::bfloat16, f32 = DType::float32, f64 = DType::float64;

Array product(const Arrays& a) { return matmul(a[0], a[1]); }

Operand matrix(std::int64_t rows, std::int64_t columns, DType dtype = f16) {
  return {{rows, columns}, dtype};
}
const Operand left = matrix(64, 128), right = matrix(128, 96), square = matrix(64, 96);

/// An operation of which the first floating-point operand is a product.
Row behind(const support::Operation& operation, DType dtype) {
  auto function = [operation](const Arrays& a) {
    Arrays operands(a.begin() + 2, a.end());
    operands.insert(operands.begin() + (operation.has_condition ? 1 : 0), matmul(a[0], a[1]));
    return operation.call(operands);
  };
  Row row{operation.name, function, {matrix(64, 128, dtype), matrix(128, 96, dtype)}};
  for (std::size_t i = 0; i + 1 < operation.arity; ++i)
    row.operands.push_back(matrix(64, 96, operation.operand_dtype(i, dtype)));
  row.refusal = support::missing_mode(operation.name);
  return row;
}

std::vector<Group> every_epilogue() {
  std::vector<Group> groups;
  constexpr std::size_t per_group = 7;
  const DType dtypes[] = {f32, bf16, f16};
  for (std::size_t i = 0; i < support::operations().size(); ++i) {
    if (i % per_group == 0) groups.push_back({"behind_products_" + std::to_string(i / per_group), {}});
    groups.back().rows.push_back(behind(support::operations()[i], dtypes[i % 3]));
  }
  return groups;
}

Group products() {
  Group group{"products", {}};
  for (const DType dtype : {f16, bf16, f32}) {
    const std::string of = " of " + std::string(dtype == f16    ? "float16"
                                                : dtype == bf16 ? "bfloat16"
                                                                : "float32");
    group.rows.push_back({"matrices" + of, product, {matrix(64, 128, dtype), matrix(128, 96, dtype)}});
    group.rows.push_back({"odd sizes" + of, product, {matrix(7, 3, dtype), matrix(3, 5, dtype)}});
    group.rows.push_back({"a matrix and a vector" + of, product, {matrix(64, 128, dtype), {{128}, dtype}}});
  }
  group.rows.push_back({"a vector and a matrix", product, {{{128}}, right}});
  group.rows.push_back({"two vectors", product, {{{128}}, {{128}}}});
  group.rows.push_back({"large", product, {matrix(4096, 4096, bf16), matrix(4096, 4096, bf16)}});
  group.rows.push_back({"an inner axis of 1", product, {matrix(64, 1), matrix(1, 96)}});
  return group;
}

Group orders() {
  auto left_transposed = [](const Arrays& a) { return matmul(transpose(a[0]), a[1]); };
  auto right_transposed = [](const Arrays& a) { return matmul(a[0], transpose(a[1])); };
  auto result_transposed = [](const Arrays& a) { return transpose(matmul(a[0], a[1])); };
  auto relu_transposed = [](const Arrays& a) { return transpose(stiletto::relu(matmul(a[0], a[1]))); };
  auto batch_last = [](const Arrays& a) { return transpose(matmul(a[0], a[1]), {1, 2, 0}); };
  auto rows_of_heads = [](const Arrays& a) { return transpose(matmul(a[0], a[1]), {1, 0, 2}); };
  return {"product_orders",
          {{"left transposed", left_transposed, {matrix(128, 64), right}},
           {"right transposed", right_transposed, {left, matrix(96, 128)}},
           {"float32 right transposed", right_transposed, {matrix(64, 128, f32), matrix(96, 128, f32)}},
           {"result transposed", result_transposed, {left, right}},
           {"relu, then transposed", relu_transposed, {left, right}},
           {"rows of heads", rows_of_heads, {{{4, 64, 128}}, {{4, 128, 96}}}},
           {"gaps between rows", product, {{{64, 128}, f16, {256, 1}}, right}},
           {"batch innermost", batch_last, {{{4, 64, 128}}, {{4, 128, 96}}}, "gaps between its elements"}}};
}

Group batches() {
  return {
      "batches",
      {{"one batch axis", product, {{{8, 64, 128}}, {{8, 128, 96}}}},
       {"one batch axis of float32", product, {{{8, 64, 128}, f32}, {{8, 128, 96}, f32}}},
       {"a right operand for all", product, {{{8, 64, 128}}, right}},
       {"a left operand for all", product, {left, {{8, 128, 96}}}},
       {"two batch axes that merge", product, {{{2, 3, 64, 128}}, {{2, 3, 128, 96}}}},
       {"three batch axes that merge", product, {{{2, 3, 4, 16, 32}}, {{2, 3, 4, 32, 16}}}},
       {"two batch axes, a right operand for all", product, {{{2, 3, 64, 128}}, right}},
       {"two batch axes apart, a right operand for all",
        [](const Arrays& a) { return matmul(transpose(a[0], {0, 2, 1, 3}), a[1]); },
        {{{2, 64, 4, 32}}, matrix(32, 48)},
        "the strides of arg0.0 (float16[2,4,64,1,32], strides [8192,32,128,0,1]) keep its axes from merging"},
       {"two batch axes apart, a transposed float32 right operand for all",
        [](const Arrays& a) { return matmul(transpose(a[0], {0, 2, 1, 3}), transpose(a[1])) + a[2]; },
        {{{2, 64, 4, 32}, f32}, matrix(48, 32, f32), {{48}, f32}},
        "the strides of arg0.0 (float32[2,4,64,1,32], strides [8192,32,128,0,1]) keep its axes from merging"},
       {"three batch axes apart, a right operand for all",
        [](const Arrays& a) { return matmul(transpose(a[0], {1, 2, 0, 3, 4}), a[1]); },
        {{{2, 3, 4, 16, 32}}, matrix(32, 48)},
        "the strides of arg0.0 (float16[12,2,16,1,32], strides [512,6144,32,0,1]) keep its axes from "
        "merging"},
       {"four batch axes apart",
        [](const Arrays& a) { return matmul(transpose(a[0], {3, 2, 1, 0, 4, 5}), a[1]); },
        {{{2, 3, 2, 3, 16, 32}}, matrix(32, 48)},
        "the strides of arg0.0 (float16[3,2,3,2,16,1,32], strides [512,1536,3072,9216,32,0,1]) keep its axes "
        "from merging: pass a copy made outside the function, contiguous in the order of the result"},
       {"six batch axes that merge", product, {{{2, 1, 2, 3, 1, 2, 16, 32}}, {{2, 1, 2, 3, 1, 2, 32, 16}}}},
       {"two batch axes, one shared on either side",
        product,
        {{{2, 1, 64, 128}}, {{1, 3, 128, 96}}},
        "arg0.0 (float16[2,1,64,1,128], strides [8192,0,128,0,1]) and arg0.1 (float16[1,3,1,96,128], strides "
        "[0,12288,0,1,96]) are broadcast along some of the axes and keep them from merging: pass a copy of "
        "it made outside the function, of the shape that broadcast_to gives"},
       {"two batch axes, one of them shared",
        product,
        {{{2, 3, 64, 128}}, {{3, 128, 96}}},
        "arg0.1 (float16[1,3,1,96,128], strides [0,12288,0,1,96]) is broadcast along some of the axes and "
        "keeps them from merging: pass a copy of it made outside the function, of the shape that "
        "broadcast_to gives"},
       {"heads beside rows",
        [](const Arrays& a) { return matmul(transpose(a[0], {0, 2, 1, 3}), transpose(a[1], {0, 2, 3, 1})); },
        {{{2, 64, 4, 32}}, {{2, 64, 4, 32}}},
        "pass copies made outside the function, contiguous in the order of the result"}}};
}

Group around() {
  auto bias_relu = [](const Arrays& a) { return stiletto::relu(matmul(a[0], a[1]) + a[2]); };
  auto gelu_both = [](const Arrays& a) {
    const Array z = matmul(a[0], a[1]) + a[2];
    return Arrays{z, stiletto::gelu(z)};
  };
  auto swiglu = [](const Arrays& a) { return stiletto::silu(matmul(a[0], a[1])) * matmul(a[0], a[2]); };
  auto prologue = [](const Arrays& a) { return matmul(stiletto::relu(a[0]), a[1]); };
  auto scaled = [](const Arrays& a) { return matmul(a[0] * a[2], a[1]); };
  auto read_twice = [](const Arrays& a) {
    const Array y = stiletto::exp(a[0]);
    return matmul(y + stiletto::relu(y), a[1]);
  };
  auto update = [](const Arrays& a) { stiletto::matmul_into(a[2], a[0], a[1], 0.5, 2); };
  auto overwrite = [](const Arrays& a) { stiletto::matmul_into(a[2], a[0], a[1]); };
  auto residual = [](const Arrays& a) { return a[0] + matmul(a[0], a[1]); };
  auto two_layers = [](const Arrays& a) { return matmul(stiletto::relu(matmul(a[0], a[1])), a[2]); };
  auto twice = [](const Arrays& a) { return matmul(a[0], a[1]) + matmul(a[0], a[2]); };
  return {
      "around_products",
      {{"bias and relu", bias_relu, {left, right, {{96}}}},
       {"bias and relu, bfloat16", bias_relu, {matrix(64, 128, bf16), matrix(128, 96, bf16), {{96}, bf16}}},
       {"float32 bias and relu", bias_relu, {left, right, {{96}, f32}}},
       {"a column of biases", bias_relu, {left, right, {{64, 1}}}},
       {"two outputs", gelu_both, {left, right, {{96}}}},
       {"SwiGLU", swiglu, {left, right, right}},
       {"SwiGLU of bfloat16", swiglu, {matrix(64, 128, bf16), matrix(128, 96, bf16), matrix(128, 96, bf16)}},
       {"SwiGLU of float32", swiglu, {matrix(64, 128, f32), matrix(128, 96, f32), matrix(128, 96, f32)}},
       {"a sum of two products", twice, {left, right, right}},
       {"a sum of two multiples of a product",
        [](const Arrays& a) {
          const Array y = matmul(a[0], a[1]);
          return y * a[2] + y * 2.0f;
        },
        {left, right, {{96}}}},
       {"relu before", prologue, {left, right}},
       {"relu before, float32", prologue, {matrix(64, 128, f32), matrix(128, 96, f32)}},
       {"rows scaled before", scaled, {left, right, {{64, 1}}}},
       {"inner axis scaled before", scaled, {left, right, {{128}}}},
       {"a value read twice before", read_twice, {left, right}},
       {"a float32 value read twice before",
        read_twice,
        {matrix(64, 128, f32), matrix(128, 96, f32)},
        "read twice before a product"},
       {"alpha and beta in place", update, {left, right, square}},
       {"alpha and beta in place, float32",
        update,
        {matrix(64, 128, f32), matrix(128, 96, f32), matrix(64, 96, f32)}},
       {"in place", overwrite, {left, right, square}},
       {"a + a b", residual, {matrix(64, 64), matrix(64, 64)}},
       {"a product feeding a product", two_layers, {left, right, matrix(96, 32)}, "product"},
       {"two products of different sizes",
        [](const Arrays& a) { return Arrays{matmul(a[0], a[1]), matmul(a[0], a[2])}; },
        {left, right, matrix(128, 32)},
        "product"}}};
}

Group operand_dtypes() {
  auto wide = [](const Arrays& a) { return stiletto::cast(matmul(a[0], a[1]), f32); };
  auto cast_left = [](const Arrays& a) { return matmul(stiletto::cast(a[0], f16), a[1]); };
  auto dequantised = [](const Arrays& a) { return stiletto::cast(matmul(a[0], a[1]) * a[2] * a[3], bf16); };
  auto rescaled = [](const Arrays& a) { return stiletto::cast(matmul(a[0], a[1]), f32) * a[2]; };
  const DType i8 = DType::int8, e4m3 = DType::float8_e4m3, e5m2 = DType::float8_e5m2;
  auto columns = [](std::int64_t rows, std::int64_t count, DType dtype) {
    return Operand{{rows, count}, dtype, {1, rows}};
  };
  return {
      "product_dtypes",
      {{"float16 to float32", wide, {left, right}},
       {"float16 and bfloat16", product, {left, matrix(128, 96, bf16)}},
       {"float16 and float32", product, {left, matrix(128, 96, f32)}},
       {"float32 cast to float16", cast_left, {matrix(64, 128, f32), right}},
       {"int8 cast to float16", cast_left, {matrix(64, 128, i8), right}},
       {"int8", product, {matrix(64, 128, i8), columns(128, 96, i8)}},
       {"int8, row-major", product, {matrix(64, 128, i8), matrix(128, 96, i8)}},
       {"int8, cast and scaled", rescaled, {matrix(64, 128, i8), columns(128, 96, i8), {{96}, f32}}},
       {"uint8", product, {matrix(64, 128, DType::uint8), columns(128, 96, DType::uint8)}, no_engine},
       {"int32", product, {matrix(64, 128, DType::int32), matrix(128, 96, DType::int32)}, "int32"},
       {"float8_e4m3", product, {matrix(64, 128, e4m3), columns(128, 96, e4m3)}},
       {"float8_e4m3 by scales",
        dequantised,
        {matrix(64, 128, e4m3), columns(128, 96, e4m3), {{1}, f32}, {{1}, f32}}},
       {"float8_e4m3, row-major", product, {matrix(64, 128, e4m3), matrix(128, 96, e4m3)}},
       {"float8_e5m2 and float8_e4m3", product, {matrix(64, 128, e5m2), columns(128, 96, e4m3)}},
       {"float64", product, {matrix(32, 32, f64), matrix(32, 32, f64)}, no_engine, {}, Elsewhere::differs},
       {"float64 and relu",
        [](const Arrays& a) { return stiletto::relu(matmul(a[0], a[1])); },
        {matrix(32, 32, f64), matrix(32, 32, f64)},
        "float64 in products only"}}};
}

}  // namespace

std::vector<Group> product_groups() {
  std::vector<Group> groups = every_epilogue();
  for (Group group : {products(), orders(), batches(), around(), operand_dtypes()})
    groups.push_back(std::move(group));
  return groups;
}

}  // namespace plans
