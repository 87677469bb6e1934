// SPDX-License-Identifier: Apache-2.0
// Allocators that fail or return the wrong memory: the error is the caller's to see, stores of the same call
// have written nothing, and the library goes on working.
#include <gtest/gtest.h>

#include "support/compare.hpp"
#include "support/errors.hpp"

namespace {

using namespace support;
using stiletto::ArgumentError;
using stiletto::CompileOptions;
using stiletto::Device;
using stiletto::Dims;

const DType float32 = DType::float32;

/// Stores to y and returns two fresh arrays.
std::pair<Array, Array> work(const Array& y, const Array& x) {
  const Array z = stiletto::exp(x) * 0 + 2;
  stiletto::assign(y, z * 5);
  return {z, stiletto::sum(x, 1)};
}

struct Bad {
  const char* name;
  stiletto::Allocator allocator;
};

std::vector<Bad> bad_allocators() {
  static float memory[1024];
  return {
      {"empty handle", [](Device, const Dims&, DType) { return Array(); }},
      {"number", [](Device, const Dims&, DType) { return Array(1.0F); }},
      {"other shape", [](Device, const Dims&, DType dtype) { return stiletto::zeros({1, 1}, dtype); }},
      {"other dtype", [](Device, const Dims& shape, DType) { return stiletto::zeros(shape, DType::int32); }},
      {"wider dtype",
       [](Device, const Dims& shape, DType) { return stiletto::zeros(shape, DType::float64); }},
      {"spec", [](Device, const Dims& shape,
                  DType dtype) { return stiletto::spec(shape, dtype, {}, Device::cpu()); }},
      {"strided", [](Device, const Dims& shape,
                     DType dtype) { return stiletto::broadcast_to(stiletto::zeros({}, dtype), shape); }},
      {"misaligned", [](Device device, const Dims& shape,
                        DType dtype) { return stiletto::wrap(memory + 1, shape, dtype, device); }},
  };
}

TEST(Allocators, wrong_memory_is_refused) {
  const Array x = stiletto::ones({3, 4});
  for (const Bad& bad : bad_allocators()) {
    const Array y = stiletto::full({3, 4}, 7);
    const CompileOptions options{.allocator = bad.allocator};
    EXPECT_TRUE(throws<ArgumentError>([&] { stiletto::jit(options, work, y, x); })) << bad.name;
    const auto compiled = stiletto::compile(options, work, y, x);
    EXPECT_TRUE(throws<ArgumentError>([&] { compiled(y, x); })) << bad.name;
    EXPECT_TRUE(throws<ArgumentError>([&] { compiled.bindings(y, x); })) << bad.name;
    EXPECT_TRUE(equals(y, float32, {3, 4}, std::vector<Real>(12, 7))) << bad.name;
    const auto [z, sums] = stiletto::jit(work, y, x);
    EXPECT_TRUE(equals(sums, float32, {3}, {4, 4, 4})) << bad.name;
    EXPECT_TRUE(equals(y, float32, {3, 4}, std::vector<Real>(12, 10))) << bad.name;
  }
}

TEST(Allocators, a_failure_reaches_the_caller) {
  const Array x = stiletto::ones({3, 4});
  for (int good = 0; good < 2; ++good) {  // how many allocations succeed before
    int left = good;
    bool failing = true;
    const CompileOptions options{.allocator = [&](Device, const Dims& shape, DType dtype) {
      if (failing && left-- == 0) throw std::bad_alloc();
      return stiletto::empty(shape, dtype);
    }};
    const Array y = stiletto::full({3, 4}, 7);
    const auto compiled = stiletto::compile(options, work, y, x);
    for (int round = 0; round < 10; ++round) {
      left = good;
      EXPECT_THROW(compiled(y, x), std::bad_alloc);
      left = good;
      EXPECT_THROW(stiletto::jit(options, work, y, x), std::bad_alloc);
      EXPECT_TRUE(equals(y, float32, {3, 4}, std::vector<Real>(12, 7)));
    }
    failing = false;
    EXPECT_TRUE(equals(compiled(y, x).second, float32, {3}, {4, 4, 4}));
    EXPECT_TRUE(equals(y, float32, {3, 4}, std::vector<Real>(12, 10)));
  }
}

TEST(Allocators, are_asked_for_what_the_outputs_need) {
  std::vector<std::pair<Dims, DType>> asked;
  const CompileOptions options{.allocator = [&](Device device, const Dims& shape, DType dtype) {
    EXPECT_TRUE(device.is_cpu());
    asked.emplace_back(shape, dtype);
    return stiletto::empty(shape, dtype);
  }};
  const Array y = stiletto::zeros({3, 4}), x = stiletto::ones({3, 4});
  stiletto::jit(options, work, y, x);
  ASSERT_EQ(asked.size(), 2U);
  EXPECT_EQ(asked[0], std::pair(Dims({3, 4}), float32));
  EXPECT_EQ(asked[1], std::pair(Dims({3}), float32));
  asked.clear();
  // The output's strides are laid over the allocator's contiguous memory.
  const Array turned = stiletto::jit(options, [](const Array& a) { return a * 2; }, stiletto::transpose(x));
  EXPECT_EQ(turned.strides(), Dims({1, 4}));
  ASSERT_EQ(asked.size(), 1U);
  asked.clear();
  // Neither a store nor a returned argument asks for memory.
  stiletto::jit(
      options,
      [](const Array& d, const Array& a) {
        stiletto::assign(d, a);
        return d;
      },
      y, x);
  EXPECT_TRUE(asked.empty());
}

TEST(Allocators, are_not_part_of_the_key) {
  const Array x = stiletto::ones({5, 3});
  auto f = [](const Array& a) { return a * 41; };
  stiletto::jit(f, x);
  const std::size_t misses = stiletto::plan_cache().misses();
  int calls = 0;
  const CompileOptions options{.allocator = [&](Device, const Dims& shape, DType dtype) {
    ++calls;
    return stiletto::empty(shape, dtype);
  }};
  stiletto::jit(options, f, x);
  EXPECT_EQ(calls, 1);
  stiletto::jit(f, x);
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(stiletto::plan_cache().misses(), misses);
}

TEST(Allocators, may_use_the_library_themselves) {
  const CompileOptions options{.allocator = [](Device, const Dims& shape, DType dtype) {
    return stiletto::jit([](const Array& a) { return a + 0; }, stiletto::zeros(shape, dtype));
  }};
  const Array x = stiletto::ones({6});
  EXPECT_TRUE(equals(
      stiletto::jit(options, [](const Array& a) { return a * 3; }, x), float32, {6}, {3, 3, 3, 3, 3, 3}));
}

}  // namespace
