// SPDX-License-Identifier: Apache-2.0
// The destructor of a static object, which runs when oneDNN's own static objects are gone: a product that has
// a plan is computed, one that would need a new plan is refused in words, and so is a convolution.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <stiletto/nn.hpp>
#include <stiletto/stiletto.hpp>

namespace {

namespace st = stiletto;

st::Array square(const st::Array& x) { return st::matmul(x, x); }

template <class F>
bool is_refused(const F& f) {
  constexpr const char* text =
      "compile: the process is ending, and oneDNN, with which products and convolutions are planned, is "
      "gone; "
      "compile before main returns and call the plan";
  try {
    f();
  } catch (const st::ArgumentError& error) {
    if (std::strcmp(error.what(), text) == 0) return true;
    std::printf("another text: %s\n", error.what());
    return false;
  }
  std::printf("no refusal\n");
  return false;
}

struct Late {
  std::optional<st::Array> x, image, filter;
  ~Late() {
    const bool computed = st::jit(square, *x).to_vector<float>()[0] == 32;
    if (!computed) std::printf("the plan that is there computes something else\n");
    const bool product = is_refused([&] { st::jit(square, st::ones({48, 48})); });
    const bool convolution = is_refused([&] {
      st::jit([](const st::Array& a, const st::Array& w) { return st::conv(a, w); }, *image, *filter);
    });
    std::fflush(stdout);
    std::_Exit(computed && product && convolution ? 0 : 1);
  }
};
Late late;

}  // namespace

int main() {
  late.x = st::ones({32, 32});
  late.image = st::ones({1, 8, 16, 16});
  late.filter = st::ones({8, 8, 3, 3});
  st::jit(square, *late.x);
  return 1;  // unless the destructor says otherwise
}
