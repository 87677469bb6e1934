// SPDX-License-Identifier: Apache-2.0
// A compiled in-place call allocates nothing: operator new is counted while compiled functions that only
// store run after a warm-up. Pointwise, with a reduction, and a product with bias and activation. What oneDNN
// allocates inside its own execute (a table of arguments per call) is not ours to avoid: it is counted apart,
// by the caller's address, and printed.
#include <dlfcn.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <stiletto/stiletto.hpp>

namespace {
std::atomic<long> allocations{0}, inside_onednn{0};
std::atomic<bool> counting{false};

void* counted(std::size_t size, std::size_t alignment, void* caller) {
  if (counting) {
    Dl_info object;
    const bool onednn = dladdr(caller, &object) != 0 && std::strstr(object.dli_fname, "dnnl") != nullptr;
    ++(onednn ? inside_onednn : allocations);
  }
  void* memory = alignment > alignof(std::max_align_t)
                     ? std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment)
                     : std::malloc(size == 0 ? 1 : size);
  if (!memory) throw std::bad_alloc();
  return memory;
}
}  // namespace

void* operator new(std::size_t size) { return counted(size, 1, __builtin_return_address(0)); }
void* operator new[](std::size_t size) { return counted(size, 1, __builtin_return_address(0)); }
void* operator new(std::size_t size, std::align_val_t alignment) {
  return counted(size, static_cast<std::size_t>(alignment), __builtin_return_address(0));
}
void* operator new[](std::size_t size, std::align_val_t alignment) {
  return counted(size, static_cast<std::size_t>(alignment), __builtin_return_address(0));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

namespace {
namespace st = stiletto;

template <class F, class... Args>
bool allocates_nothing(const char* name, F f, const Args&... args) {
  const auto compiled = st::compile(f, args...);
  for (int i = 0; i < 5; ++i) compiled(args...);
  allocations = inside_onednn = 0;
  counting = true;
  for (int i = 0; i < 100; ++i) compiled(args...);
  counting = false;
  std::printf("%-40s %ld allocations in 100 calls", name, allocations.load());
  if (inside_onednn > 0) std::printf(", and %ld inside oneDNN", inside_onednn.load());
  std::printf("\n");
  return allocations == 0;
}
}  // namespace

int main() {
  const st::Array y = st::zeros({64, 48}), x = st::ones({64, 48}), row = st::ones({48}),
                  sums = st::zeros({64});
  const st::Array w = st::ones({48, 48}), scalar = st::full({}, 2), big = st::zeros({1 << 20}),
                  more = st::ones({1 << 20});
  bool good = true;
  good &= allocates_nothing(
      "pointwise",
      [](const st::Array& d, const st::Array& a, const st::Array& b) { st::assign(d, st::tanh(a) * 2 + b); },
      y, x, row);
  good &= allocates_nothing(
      "pointwise, long",
      [](const st::Array& d, const st::Array& a) { st::assign(d, st::exp(-a) + d * 0.5F); }, big, more);
  good &= allocates_nothing(
      "with a rank-0 array",
      [](const st::Array& d, const st::Array& a, const st::Array& s) { st::assign(d, a * s); }, y, x, scalar);
  good &= allocates_nothing(
      "reduction", [](const st::Array& d, const st::Array& a) { st::assign(d, st::sum(st::square(a), 1)); },
      sums, x);
  good &= allocates_nothing(
      "softmax", [](const st::Array& d, const st::Array& a) { st::assign(d, st::softmax(a, 1)); }, y, x);
  good &= allocates_nothing(
      "transposed destination",
      [](const st::Array& d, const st::Array& a) { st::assign(st::transpose(d), st::transpose(a) * 3); }, y,
      x);
  good &= allocates_nothing(
      "matmul_into",
      [](const st::Array& d, const st::Array& a, const st::Array& b) { st::matmul_into(d, a, b, 1, 1); }, y,
      x, w);
  good &= allocates_nothing(
      "matmul_into, float64",
      [](const st::Array& d, const st::Array& a, const st::Array& b) { st::matmul_into(d, a, b, 1, 1); },
      st::zeros({64, 48}, st::DType::float64), st::ones({64, 48}, st::DType::float64),
      st::ones({48, 48}, st::DType::float64));
  good &= allocates_nothing(
      "matmul, bias, gelu",
      [](const st::Array& d, const st::Array& a, const st::Array& b, const st::Array& c) {
        st::assign(d, st::gelu(st::matmul(a, b) + c));
      },
      y, x, w, row);
  good &= allocates_nothing(
      "stored and returned", [](const st::Array& d, const st::Array& a) { st::assign(d, a + 1); }, y, x);
  return good ? 0 : 1;
}
