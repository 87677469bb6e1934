// SPDX-License-Identifier: Apache-2.0
// An outside program: compiles a function, runs it, and catches an error of the library by its type,
// which works only if the error classes' type information is exported. Exits with 0 when all is right.
#include <cstdio>
#include <stiletto/stiletto.hpp>
#include <vector>

namespace st = stiletto;

int main() {
  const auto layer = [](const st::Array& x, const st::Array& w, const st::Array& b) {
    return st::relu(st::matmul(x, w) + b);
  };
  const st::Array x = st::from_data(std::vector<float>{1, 2, 3, 4}, {2, 2});
  const st::Array w = st::from_data(std::vector<float>{1, -1, 1, -1}, {2, 2});
  const st::Array b = st::from_data(std::vector<float>{0.5f, 4}, {2});
  const auto compiled = st::compile(layer, x, w, b);
  const std::vector<float> expected = {3.5f, 1, 7.5f, 0};
  if (compiled(x, w, b).to_vector<float>() != expected) {
    std::puts("compile: wrong result");
    return 1;
  }
  if (st::jit(layer, x, w, b).to_vector<float>() != expected) {
    std::puts("jit: wrong result");
    return 1;
  }
  try {
    st::matmul(x, st::ones({3, 3}));
  } catch (const st::ShapeError& error) {
    std::printf("as expected: %s\n", error.what());
    return 0;
  }
  std::puts("matmul of (2, 2) and (3, 3) did not throw ShapeError");
  return 1;
}
