// SPDX-License-Identifier: Apache-2.0
// Random graphs with fixed seeds, each traced by the library and interpreted by the reference: pointwise
// chains, reductions broadcast back, products with computed operands and epilogues, several outputs.
#include <gtest/gtest.h>

#include "support/cases.hpp"
#include "support/random_graph.hpp"

namespace {

using namespace support;

void run_graphs(std::uint64_t first, int count, const RandomGraph::Settings& settings) {
  Failures failures;
  for (std::uint64_t seed = first; seed < first + static_cast<std::uint64_t>(count); ++seed) {
    const RandomGraph graph(seed, settings);
    const std::vector<Array> inputs = graph.input_arrays();
    testing::AssertionResult result = testing::AssertionSuccess();
    try {
      result = graph.check(seed % 3 == 0 ? stiletto::compile(graph, inputs)(inputs)
                                         : stiletto::jit(graph, inputs));
    } catch (const std::exception& error) {
      result = testing::AssertionFailure() << "threw: " << error.what() << graph.describe();
    }
    if (!failures.expect(result << "\n  seed " << seed)) return;
  }
}

TEST(RandomGraphs, pointwise) { run_graphs(1000, 200, {.reductions = false, .products = 0}); }

TEST(RandomGraphs, pointwise_of_mixed_types) {
  run_graphs(2000, 200,
             {.dtypes = {DType::float32, DType::float16, DType::bfloat16, DType::int32},
              .reductions = false,
              .products = 0});
}

TEST(RandomGraphs, with_reductions) { run_graphs(3000, 300, {.products = 0}); }

TEST(RandomGraphs, with_reductions_of_mixed_types) {
  run_graphs(4000, 200, {.dtypes = {DType::float32, DType::float16, DType::bfloat16}, .products = 0});
}

TEST(RandomGraphs, with_a_product) { run_graphs(5000, 300, {}); }

TEST(RandomGraphs, with_two_products) { run_graphs(6000, 200, {.nodes = 20, .products = 2}); }

TEST(RandomGraphs, with_a_product_in_bfloat16) {
  run_graphs(7000, 150, {.dtypes = {DType::bfloat16}, .reductions = false});
}

TEST(RandomGraphs, with_a_product_in_float64) { run_graphs(8000, 200, {.dtypes = {DType::float64}}); }

TEST(RandomGraphs, long_ones) { run_graphs(9000, 60, {.nodes = 60, .products = 3}); }

TEST(RandomGraphs, of_other_shapes) {
  for (const Extents& shape : {Extents{9}, Extents{33, 17}, Extents{2, 1, 3, 2, 5}, Extents{1, 1},
                               Extents{0, 3}, Extents{2, 1, 2, 1, 2, 3, 1, 4}, Extents{3, 4001}})
    run_graphs(10000, shape.back() > 1000 ? 6 : 40,
               {.shape = shape, .products = shape.back() > 1000 ? 0 : 1});
}

}  // namespace
