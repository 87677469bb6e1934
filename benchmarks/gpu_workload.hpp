// SPDX-License-Identifier: Apache-2.0
// What is measured on the GPU.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include <stiletto/stiletto.hpp>

struct Workload {
  enum class Kind { tanh_product, gelu_product, gated_product, multiply_add };
  std::string name;
  Kind kind;
  stiletto::DType dtype;
  std::int64_t m, n, k;  // (m, k) by (k, n); of multiply_add rows m and columns n

  /// In the order in which both sides take them.
  std::vector<stiletto::Shape> operands() const {
    switch (kind) {
      case Kind::tanh_product:
        return {{m, k}, {k, n}};
      case Kind::gelu_product:
        return {{m, k}, {k, n}, {n}};
      case Kind::gated_product:
        return {{m, k}, {k, n}, {k, n}};
      case Kind::multiply_add:
        break;
    }
    return {{m, n}, {m, n}, {m, n}};
  }
  stiletto::Shape result() const { return {m, n}; }

  /// With Stiletto.
  stiletto::Array operator()(const std::vector<stiletto::Array>& a) const {
    using namespace stiletto;
    switch (kind) {
      case Kind::tanh_product:
        return tanh(matmul(a[0], a[1]) / 20);
      case Kind::gelu_product:
        return gelu_tanh(matmul(a[0], a[1]) + a[2]);
      case Kind::gated_product:
        return silu(matmul(a[0], a[1])) * matmul(a[0], a[2]);
      case Kind::multiply_add:
        break;
    }
    return a[0] * a[1] + a[2];
  }
};

inline std::vector<Workload> gpu_workloads() {
  using Kind = Workload::Kind;
  const auto float32 = stiletto::DType::float32, bfloat16 = stiletto::DType::bfloat16;
  return {{"W1 tanh(x·w / 20)", Kind::tanh_product, float32, 64, 32, 48},
          {"W2 gelu_tanh(x·w + b), n = 1024", Kind::gelu_product, bfloat16, 1024, 1024, 1024},
          {"W2 gelu_tanh(x·w + b), n = 4096", Kind::gelu_product, bfloat16, 4096, 4096, 4096},
          {"W2 gelu_tanh(x·w + b), n = 8192", Kind::gelu_product, bfloat16, 8192, 8192, 8192},
          {"W6 silu(x·w)·(x·v)", Kind::gated_product, bfloat16, 4096, 11008, 4096},
          {"W9 x·y + z", Kind::multiply_add, bfloat16, 8192, 8192, 0}};
}

/// Work that waits for memory alone: its bandwidth is what counts.
struct MemoryBound {
  std::string name;
  stiletto::Shape shape;  // of one bfloat16 operand
  stiletto::Array (*function)(const stiletto::Array&);
};

inline std::vector<MemoryBound> memory_bound() {
  using stiletto::Array;
  const auto first = [](const Array& x) { return stiletto::sum(x, 0); };
  const auto last = [](const Array& x) { return stiletto::sum(x, -1); };
  const auto middle = [](const Array& x) { return stiletto::sum(x, 1); };
  const auto outer = [](const Array& x) { return stiletto::sum(x, {0, 2}); };
  const auto all = [](const Array& x) { return stiletto::sum(x); };
  const auto pointwise = [](const Array& x) { return stiletto::cast(x * x + x, stiletto::DType::bfloat16); };
  const stiletto::Shape matrix{16384, 4096}, cube{128, 128, 4096};
  return {{"sum over the first axis of 16384 × 4096", matrix, first},
          {"sum over the last axis of 16384 × 4096", matrix, last},
          {"sum of 16384 × 4096", matrix, all},
          {"sum over the middle axis of 128 × 128 × 4096", cube, middle},
          {"sum over the first and last axis of 128 × 128 × 4096", cube, outer},
          {"sum of 1000003, a prime", {1000003}, all},
          {"sum of 67108859, a prime", {67108859}, all},
          {"x·x + x of 2²⁰", {1 << 20}, pointwise},
          {"x·x + x of 1000003, a prime", {1000003}, pointwise},
          {"x·x + x of 2²⁶", {1 << 26}, pointwise},
          {"x·x + x of 67108856 = 8·47·178481", {67108856}, pointwise},
          {"x·x + x of 67108859, a prime", {67108859}, pointwise}};
}
