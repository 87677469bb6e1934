// SPDX-License-Identifier: Apache-2.0
// Rows with reductions: behind products, alone as products with ones, and what no engine takes.
#include "plans/table.hpp"

namespace plans {
namespace {

using stiletto::matmul;
using stiletto::mean;
using stiletto::sum;

constexpr DType f16 = DType::float16, bf16 = DType::bfloat16, f32 = DType::float32;

const Operand left{{64, 128}}, right{{128, 96}}, wide{{256, 512}}, cube{{8, 32, 64}};

auto total(stiletto::Axes axes) {
  return [axes](const Arrays& a) { return sum(a[0], axes); };
}
auto average(stiletto::Axes axes) {
  return [axes](const Arrays& a) { return mean(a[0], axes); };
}
auto behind_product(stiletto::Axes axes) {
  return [axes](const Arrays& a) { return sum(matmul(a[0], a[1]), axes); };
}

Group terminal() {
  auto with_output = [](const Arrays& a) {
    const Array y = matmul(a[0], a[1]);
    return Arrays{y, stiletto::abs_max(y)};
  };
  auto norm = [](const Arrays& a) { return stiletto::norm2(matmul(a[0], a[1]), -1); };
  auto rounded = [](const Arrays& a) { return stiletto::cast(sum(matmul(a[0], a[1]), -1), f16); };
  return {"reductions_behind_products",
          {{"column sums", behind_product(0), {left, right}},
           {"row sums", behind_product(1), {left, right}},
           {"the sum of all", behind_product({}), {left, right}},
           {"row sums of float32", behind_product(1), {{{64, 128}, f32}, {{128, 96}, f32}}},
           {"row sums of a batch", behind_product(2), {{{4, 64, 128}}, {{4, 128, 96}}}},
           {"sums over the batch", behind_product(0), {{{4, 64, 128}}, {{4, 128, 96}}}},
           {"row means", [](const Arrays& a) { return mean(matmul(a[0], a[1]), 1); }, {left, right}},
           {"column sums of tanh",
            [](const Arrays& a) { return sum(stiletto::tanh(matmul(a[0], a[1]) * 0.5f), 0); },
            {left, right}},
           {"abs_max",
            [](const Arrays& a) { return stiletto::abs_max(matmul(a[0], a[1])); },
            {left, right},
            "drops NaN"},
           {"output and abs_max", with_output, {left, right}, "drops NaN"},
           {"norm1 of rows",
            [](const Arrays& a) { return stiletto::norm1(matmul(a[0], a[1]), 1); },
            {left, right}},
           {"norm2 of rows", norm, {left, right}, no_engine},
           {"row maxima",
            [](const Arrays& a) { return stiletto::max(matmul(a[0], a[1]), 1); },
            {left, right},
            "drops NaN"},
           {"row minima",
            [](const Arrays& a) { return stiletto::min(matmul(a[0], a[1]), 1); },
            {left, right},
            "drops NaN"},
           {"a sum rounded to float16", rounded, {left, right}, no_engine},
           {"softmax",
            [](const Arrays& a) { return stiletto::softmax(matmul(a[0], a[1])); },
            {left, right},
            no_engine},
           {"subtracting row means",
            [](const Arrays& a) {
              const Array y = matmul(a[0], a[1]);
              return y - mean(y, -1, true);
            },
            {left, right},
            no_engine}}};
}

/// As docs/nn.md has it.
Group float8_products() {
  constexpr DType e4m3 = DType::float8_e4m3, e5m2 = DType::float8_e5m2;
  auto size = [](const Array& y) { return stiletto::abs_max(stiletto::where(y == y, y, 0)); };
  auto recipe = [size](const Arrays& a) {
    const Array y = matmul(a[0], a[1]) * (a[2] * a[3]);
    return Arrays{stiletto::cast(y * a[4], e4m3), size(y)};
  };
  auto numbers = [size](const Arrays& a) {
    const Array y = matmul(a[0], a[1]) * (0.5f * 0.25f);
    return Arrays{stiletto::cast(y * 3.0f, e4m3), size(y)};
  };
  auto biased = [size](const Arrays& a) {
    const Array y = stiletto::gelu(matmul(a[0], a[1]) * (a[2] * a[3]) + a[4]);
    return Arrays{stiletto::cast(y * a[3], e5m2), size(y)};
  };
  auto wide_result = [size](const Arrays& a) {
    const Array y = matmul(a[0], a[1]) * a[2];
    return Arrays{stiletto::cast(y, bf16), size(y)};
  };
  auto rows = [](const Arrays& a) {
    const Array y = matmul(a[0], a[1]);
    return Arrays{y, stiletto::abs_max(stiletto::where(y != y, 0, y), 1)};
  };
  auto by_number = [](const Arrays& a) {
    const Array y = matmul(a[0], a[1]);
    return stiletto::abs_max(stiletto::where(y == y, y, 0.5f));
  };
  auto other = [](const Arrays& a) {
    const Array y = matmul(a[0], a[1]), z = y * 0.5f;
    return stiletto::abs_max(stiletto::where(y == y, z, 0));
  };
  const Operand x{{64, 128}, e4m3}, w{{128, 96}, e4m3, {1, 128}}, number{{}, f32}, one{{1}, f32};
  return {"float8_products",
          {{"factors of rank 0", recipe, {x, w, number, number, number}},
           {"factors of one element", recipe, {x, w, one, one, one}},
           {"factors that are numbers", numbers, {x, w}},
           {"e5m2 by e4m3", recipe, {{{64, 128}, e5m2}, w, number, number, number}},
           {"row-major", recipe, {x, {{128, 96}, e4m3}, number, number, number}},
           {"of a batch", recipe, {{{4, 64, 128}, e4m3}, {{4, 128, 96}, e4m3}, number, number, number}},
           {"bias and gelu", biased, {x, w, number, number, {{96}, bf16}}},
           {"a bfloat16 result", wide_result, {x, w, number}},
           {"rows, of float16", rows, {left, right}},
           {"a number that may be NaN", by_number, {left, right}, "drops NaN; take it out first"},
           {"NaN taken out of another value", other, {left, right}, "drops NaN; take it out first"}}};
}

Group as_products() {
  auto of = [](Array (*f)(const Array&)) { return [f](const Arrays& a) { return sum(f(a[0]), 0); }; };
  return {"sums_as_products",
          {{"column sums", total(0), {wide}},
           {"row sums", total(1), {wide}},
           {"row sums of bfloat16", total(1), {{{16384, 4096}, bf16}}},
           {"column sums of bfloat16", total(0), {{{16384, 4096}, bf16}}},
           {"column means", average(0), {wide}},
           {"row means", average(-1), {wide}},
           {"the sum of all", total({}), {wide}},
           {"the mean of all", average({}), {{{1 << 20}, bf16}}},
           {"the sum of a prime number", total({}), {{{10007}}}},
           {"the sum of 2^26", total({}), {{{1 << 26}}}},
           {"first axis of three", total(0), {cube}},
           {"middle axis of three", total(1), {cube}},
           {"last axis of three", total(2), {cube}},
           {"outer axes of three", total({0, 2}), {cube}},
           {"last two axes", total({1, 2}), {cube}},
           {"channels of images", average({2, 3}), {{{2, 16, 8, 8}}}},
           {"biases of images", total({0, 2, 3}), {{{2, 16, 8, 8}}}},
           {"of absolute values", of(stiletto::abs), {wide}},
           {"of relu", of(stiletto::relu), {wide}},
           {"of a select",
            [](const Arrays& a) { return sum(stiletto::where(a[1], a[0], a[2]), 0); },
            {wide, {{256, 512}, DType::boolean}, wide}},
           {"of values cast to float16",
            [](const Arrays& a) { return sum(stiletto::cast(a[0], f16), 0); },
            {{{256, 512}, f32}}}}};
}

/// Where a product with ones would round, what follows a product of ones does not.
Group behind_ones() {
  const Operand f32_wide{{256, 512}, f32}, f32_cube{{8, 32, 64}, f32};
  auto of = [](Array (*f)(const Array&)) { return [f](const Arrays& a) { return sum(f(a[0]), 0); }; };
  auto norm = [](const Arrays& a) { return stiletto::norm1(a[0], 1); };
  return {"sums_behind_ones",
          {{"float32 column sums", total(0), {f32_wide}},
           {"float32 row sums", total(1), {f32_wide}},
           {"float32 means", average(0), {f32_wide}},
           {"large float32 row sums", total(1), {{{16384, 4096}, f32}}},
           {"the float32 sum of all", total({}), {f32_wide}},
           {"the float32 sum of a prime number", total({}), {{{10007}, f32}}},
           {"the float32 sum of 2^26", total({}), {{{1 << 26}, f32}}},
           {"first axis of three", total(0), {f32_cube}},
           {"middle axis of three", total(1), {f32_cube}},
           {"last axis of three", total(2), {f32_cube}},
           {"outer axes of three", total({0, 2}), {f32_cube}},
           {"channels of images", average({2, 3}), {{{2, 16, 8, 8}, f32}}},
           {"biases of images", total({0, 2, 3}), {{{2, 16, 8, 8}, f32}}},
           {"of a select of computed values",
            [](const Arrays& a) { return sum(stiletto::where(a[1], a[0], 0.0f * a[0]), 0); },
            {wide, {{256, 512}, DType::boolean}}},
           {"of a product", [](const Arrays& a) { return sum(a[0] * a[1], 0); }, {wide, wide}},
           {"of absolute values of a product",
            [](const Arrays& a) { return sum(stiletto::abs(a[0] * a[1]), 0); },
            {wide, wide}},
           {"of squares", of(stiletto::square), {wide}},
           {"of float32 squares", of(stiletto::square), {f32_wide}},
           {"of exponentials", of(stiletto::exp), {wide}},
           {"norm1", norm, {wide}},
           {"float32 norm1", norm, {f32_wide}},
           {"of squares of differences from a row",
            [](const Arrays& a) { return mean(stiletto::square(a[0] - a[1]), 0); },
            {f32_wide, {{512}, f32}}},
           {"two sums",
            [](const Arrays& a) { return Arrays{sum(a[0], 1), sum(stiletto::square(a[0]), 1)}; },
            {f32_wide}}}};
}

Group refused() {
  auto of = [](auto f) { return [f](const Arrays& a) { return f(a[0], -1, false); }; };
  return {"reductions_alone",
          {{"max", of(stiletto::max), {wide}, "drops NaN"},
           {"min", of(stiletto::min), {wide}, "drops NaN"},
           {"abs_max", of(stiletto::abs_max), {wide}, "drops NaN"},
           {"prod", of(stiletto::prod), {wide}, no_engine},
           {"norm2", of(stiletto::norm2), {wide}, no_engine},
           {"logsumexp", of(stiletto::logsumexp), {wide}, no_engine},
           {"softmax", [](const Arrays& a) { return stiletto::softmax(a[0]); }, {wide}, no_engine},
           {"rms norm",
            [](const Arrays& a) {
              return a[0] * stiletto::rsqrt(mean(stiletto::square(a[0]), -1, true) + 1e-5f) * a[1];
            },
            {wide, {{512}}},
            no_engine},
           {"int32 sums", total(0), {{{256, 512}, DType::int32}}, "not exact"},
           {"int8 sums", total(0), {{{256, 512}, DType::int8}}, "not exact"},
           {"boolean counts", total(0), {{{256, 512}, DType::boolean}}, "not exact"},
           {"float64 sums", total(0), {{{256, 512}, DType::float64}}, "would round float64"}}};
}

/// Reductions that Blackwell has engines for from cuDNN 9.27 on.
Group blackwell() {
  const Operand f32_wide{{256, 512}, f32};
  auto softmax = [](const Arrays& a) { return stiletto::softmax(a[0]); };
  Group group{"reductions_on_b200",
              {{"softmax", softmax, {wide}},
               {"softmax of float32", softmax, {f32_wide}},
               {"norm2", [](const Arrays& a) { return stiletto::norm2(a[0], 1); }, {wide}}},
              "b200"};
  for (Row& row : group.rows) {
    row.refusal = no_engine;
    row.plan_since = 92700;
  }
  group.rows.push_back({"max", [](const Arrays& a) { return stiletto::max(a[0]); }, {wide}, "drops NaN"});
  group.rows.push_back({"float32 row sums", total(1), {f32_wide}});
  group.rows.push_back(
      {"sums of squares", [](const Arrays& a) { return sum(stiletto::square(a[0]), 1); }, {wide}});
  group.rows.push_back({"bfloat16 row sums", total(1), {{{256, 512}, bf16}}});
  return group;
}

}  // namespace

std::vector<Group> reduction_groups() {
  return {terminal(), float8_products(), as_products(), behind_ones(), refused(), blackwell()};
}

}  // namespace plans
