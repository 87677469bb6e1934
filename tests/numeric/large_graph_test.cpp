// SPDX-License-Identifier: Apache-2.0
// Functions with hundreds of separate parts, and so with hundreds of loop axes: an optimiser's step over many
// matrices, a long chain of products.
#include <gtest/gtest.h>

#include <vector>

#include "stiletto/stiletto.hpp"

namespace {

using stiletto::Array;

/// Elements first, first + 1, ….
Array counting(const stiletto::Shape& shape, float first) {
  std::vector<float> values(static_cast<std::size_t>(shape[0] * shape[1]));
  for (float& value : values) value = first++;
  return stiletto::from_data(values, shape);
}

TEST(LargeGraphs, a_step_over_300_matrices) {
  constexpr std::size_t matrices = 300;
  std::vector<Array> weights, slopes;
  for (std::size_t i = 0; i < matrices; ++i) {
    // Transposed slopes keep the two axes of a matrix from being walked as one.
    const auto rows = static_cast<std::int64_t>(2 + i % 3), columns = static_cast<std::int64_t>(3 + i % 5);
    weights.push_back(counting({rows, columns}, static_cast<float>(i)));
    slopes.push_back(stiletto::transpose(counting({columns, rows}, 1)));
  }
  auto step = [](const std::vector<Array>& w, const std::vector<Array>& g, const Array& rate) {
    for (std::size_t i = 0; i < w.size(); ++i) stiletto::assign(w[i], w[i] - rate * g[i]);
  };
  stiletto::jit(step, weights, slopes, 0.5F);
  for (std::size_t i = 0; i < matrices; ++i) {
    const std::vector<float> slope = slopes[i].to_vector<float>(), weight = weights[i].to_vector<float>();
    for (std::size_t k = 0; k < weight.size(); ++k)
      ASSERT_EQ(weight[k], static_cast<float>(i + k) - 0.5F * slope[k])
          << "matrix " << i << ", element " << k;
  }
}

TEST(LargeGraphs, a_chain_of_521_products) {
  const Array turn = stiletto::from_data(std::vector<float>{0, -1, 1, 0}, {2, 2});
  std::vector<Array> turns(521);
  for (Array& m : turns) m = turn.copy();
  auto chain = [](Array x, const std::vector<Array>& list) {
    for (const Array& m : list) x = stiletto::matmul(x, m);
    return x;
  };
  const Array x = counting({3, 2}, 1);
  const Array once = stiletto::matmul(x, turn);  // four turns are none
  EXPECT_EQ(stiletto::jit(chain, x, turns).to_vector<float>(), once.to_vector<float>());
}

/// Every axis number from one word of a mask on is used by reductions, too.
TEST(LargeGraphs, sums_of_100_matrices) {
  std::vector<Array> inputs(100);
  for (std::size_t i = 0; i < inputs.size(); ++i) inputs[i] = counting({3, 4}, static_cast<float>(i));
  auto sums = [](const std::vector<Array>& list) {
    std::vector<Array> results = list;
    for (Array& x : results) x = stiletto::sum(stiletto::transpose(x) * 2, 0);
    return results;
  };
  const std::vector<Array> results = stiletto::jit(sums, inputs);
  for (std::size_t i = 0; i < results.size(); ++i) {
    const float four = 4 * static_cast<float>(i);  // first elements of four columns
    EXPECT_EQ(results[i].to_vector<float>(),
              (std::vector<float>{2 * (four + 6), 2 * (four + 22), 2 * (four + 38)}))
        << i;
  }
}

}  // namespace
