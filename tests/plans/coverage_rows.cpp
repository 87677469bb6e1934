// SPDX-License-Identifier: Apache-2.0
// The graphs that an H200 refuses when they are given to cuDNN as they are, written in Stiletto: the rows of
// docs/coverage.md but for convolutions and block scaling.
#include "plans/table.hpp"

namespace plans {
namespace {

using stiletto::matmul;
using stiletto::sum;

Array product(const Arrays& a) { return matmul(a[0], a[1]); }
Array sum_of_two(const Arrays& a) { return a[0] + a[1]; }

Group of_dtype(DType dtype) {
  const bool rounds = dtype == DType::float32;  // as an operand of a product
  auto b2b = [](const Arrays& a) { return matmul(matmul(a[0], a[1]), a[2]); };
  auto batch_norm = [](const Arrays& a) { return (a[0] - a[1]) * a[2] * a[3] + a[4]; };
  const Operand square{{32, 32}, dtype}, channel{{8, 1, 1}, DType::float32};
  return {std::string("refused_as_they_are_") + stiletto::to_string(dtype),
          {{"matmul rank4", product, {{{3, 5, 64, 48}, dtype}, {{3, 5, 48, 32}, dtype}}},
           {"matmul rank4 bcast",
            product,
            {{{3, 1, 64, 48}, dtype}, {{1, 5, 48, 32}, dtype}},
            "broadcast along some of the axes"},
           {"b2b matmul", b2b, {square, square, square}, "a product of a product"},
           {"pointwise rank4", sum_of_two, {{{2, 3, 8, 9}, dtype}, {{2, 3, 8, 9}, dtype}}},
           {"pointwise rank5", sum_of_two, {{{2, 3, 4, 8, 9}, dtype}, {{2, 3, 4, 8, 9}, dtype}}},
           {"pointwise transposed in",
            sum_of_two,
            {{{32, 48}, dtype, {1, 32}}, {{32, 48}, dtype}},
            rounds ? "the strides of arg0.0" : ""},
           {"reduce max all", [](const Arrays& a) { return stiletto::max(a[0]); }, {square}, "drops NaN"},
           {"reduce sum rows", [](const Arrays& a) { return sum(a[0], 1); }, {square}},
           {"reduce sum(x^2) rows", [](const Arrays& a) { return sum(a[0] * a[0], 1); }, {square}},
           {"reduce avg rows", [](const Arrays& a) { return stiletto::mean(a[0], 1); }, {square}},
           {"softmax primitives",
            [](const Arrays& a) {
              const Array e = stiletto::exp(a[0] - stiletto::max(a[0], 1, true));
              return e / sum(e, 1, true);
            },
            {square},
            "drops NaN"},
           {"batchnorm inf nchw", batch_norm, {{{3, 8, 5, 6}, dtype}, channel, channel, channel, channel}},
           {"batchnorm inf nhwc",
            batch_norm,
            {{{3, 8, 5, 6}, dtype, {240, 1, 48, 8}}, channel, channel, channel, channel}}}};
}

Group exact() {
  const Operand f64{{32, 32}, DType::float64}, i32{{32, 32}, DType::int32};
  return {"refused_as_they_are",
          {{"f64 add", sum_of_two, {f64, f64}, "float64 in products only"},
           {"i32 add", sum_of_two, {i32, i32}, "not exact"}}};
}

}  // namespace

std::vector<Group> coverage_groups() {
  return {of_dtype(DType::float32), of_dtype(DType::float16), of_dtype(DType::bfloat16), exact()};
}

}  // namespace plans
