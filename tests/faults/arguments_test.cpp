// SPDX-License-Identifier: Apache-2.0
// Calls of a compiled function with arguments other than those it was compiled for: each kind of difference
// is refused with its type of error, the argument is named, nothing is written, and the next good call is
// right.
#include <gtest/gtest.h>

#include "support/compare.hpp"
#include "support/errors.hpp"

namespace {

using namespace support;
using stiletto::ArgumentError;
using stiletto::Device;
using stiletto::Dims;
using stiletto::DTypeError;
using stiletto::ShapeError;

const DType float32 = DType::float32;
const std::vector<Real> sevens(12, 7);

class CompiledCall : public testing::Test {
 protected:
  static void f(const Array& y, const Array& x, const Array& row) { stiletto::assign(y, x * 2 + row); }
  Array y = stiletto::full({3, 4}, 7), x = stiletto::ones({3, 4}), row = stiletto::ones({4});
  stiletto::Compiled<void(Array, Array, Array)> compiled = stiletto::compile(f, y, x, row);

  void TearDown() override {
    EXPECT_TRUE(equals(y, float32, {3, 4}, sevens)) << "a refused call wrote";
    compiled(y, x, row);
    EXPECT_TRUE(equals(y, float32, {3, 4}, std::vector<Real>(12, 3)));
  }
};

TEST_F(CompiledCall, another_shape) {
  EXPECT_TRUE(throws<ShapeError>([&] { compiled(y, stiletto::ones({3, 5}), row); },
                                 {"argument 1", "(3, 4)", "(3, 5)"}));
  EXPECT_TRUE(
      throws<ShapeError>([&] { compiled(y, x, stiletto::ones({1, 4})); }, {"argument 2", "(4)", "(1, 4)"}));
  EXPECT_TRUE(
      throws<ShapeError>([&] { compiled(stiletto::ones({4, 3}), x, row); }, {"argument 0", "(4, 3)"}));
  EXPECT_TRUE(throws<ShapeError>([&] { compiled(y, x, stiletto::ones({0})); }, {"argument 2"}));
  EXPECT_TRUE(throws<ShapeError>([&] { compiled(y, stiletto::ones({}), row); }, {"argument 1"}));
}

TEST_F(CompiledCall, another_dtype) {
  for (DType dtype : {DType::float16, DType::float64, DType::int32, DType::boolean})
    EXPECT_TRUE(throws<DTypeError>([&] { compiled(y, stiletto::ones({3, 4}, dtype), row); },
                                   {"argument 1", "float32", stiletto::to_string(dtype)}));
}

TEST_F(CompiledCall, other_strides) {
  const Array turned = stiletto::transpose(stiletto::ones({4, 3}));
  EXPECT_TRUE(throws<ArgumentError>([&] { compiled(y, turned, row); }, {"argument 1", "(4, 1)", "(1, 3)"}));
  const Array stepped = stiletto::slice(stiletto::ones({8}), {stiletto::Slice{0, 8, 2}});
  EXPECT_TRUE(throws<ArgumentError>([&] { compiled(y, x, stepped); }, {"argument 2", "(2)"}));
  const Array constant = stiletto::broadcast_to(stiletto::ones({1, 4}), {3, 4});
  EXPECT_TRUE(throws<ArgumentError>([&] { compiled(y, constant, row); }, {"argument 1"}));
}

TEST_F(CompiledCall, strides_of_extents_of_1_do_not_count) {
  auto g = [](const Array& a) { return a + 1; };
  const Array storage = stiletto::zeros({12});
  const auto c = stiletto::compile(g, stiletto::as_strided(storage, {1, 3, 1, 2}, {77, 2, 0, 1}));
  const Array other = stiletto::as_strided(storage, {1, 3, 1, 2}, {-5, 2, 99, 1});
  EXPECT_TRUE(equals(c(other), float32, {1, 3, 1, 2}, {1, 1, 1, 1, 1, 1}));
}

TEST_F(CompiledCall, lower_alignment) {
  alignas(64) static float memory[16] = {};
  const Array low = stiletto::wrap(memory + 1, {3, 4}, float32, Device::cpu());
  EXPECT_TRUE(throws<ArgumentError>([&] { compiled(y, low, row); }, {"argument 1", "16"}));
}

TEST_F(CompiledCall, empty_handles_specs_and_symbols) {
  EXPECT_TRUE(throws<ArgumentError>([&] { compiled(y, Array(), row); }, {"argument 1"}));
  EXPECT_TRUE(throws<stiletto::TraceError>(
      [&] { compiled(y, stiletto::spec({3, 4}, float32, {}, Device::cpu()), row); }, {"argument 1"}));
  EXPECT_TRUE(throws<stiletto::TraceError>([&] {
    stiletto::jit(
        [&](const Array& a) {
          compiled(y, a, row);
          return a + 1;
        },
        x);
  }));
}

TEST_F(CompiledCall, a_number_for_an_array_and_the_reverse) {
  EXPECT_TRUE(throws<stiletto::Error>([&] { compiled(y, 1.0F, row); }, {"argument 1"}));
  const auto c = stiletto::compile([](const Array& a, const Array& s) { return a * s; }, x, 2.0F);
  EXPECT_TRUE(throws<ArgumentError>([&] { c(x, x); }, {"argument 1"}));
  EXPECT_TRUE(equals(c(x, 3.0F), float32, {3, 4}, std::vector<Real>(12, 3)));
}

TEST_F(CompiledCall, arrays_do_not_slide_between_containers) {
  using Arrays = std::vector<Array>;
  auto g = [](const Arrays& v, const Arrays& w) { return v.back() - w.back(); };
  const auto c = stiletto::compile(g, Arrays{x, x}, Arrays{x});
  EXPECT_TRUE(throws<ArgumentError>([&] { c(Arrays{x}, Arrays{x, x}); }, {"argument 0", "2", "1"}));
  auto h = [](const std::vector<Arrays>& v) { return v[0].back() * v[1].back(); };
  const auto d = stiletto::compile(h, std::vector<Arrays>{{x, x}, {x}});
  EXPECT_TRUE(
      throws<ArgumentError>([&] { d(std::vector<Arrays>{{x}, {x, x}}); }, {"argument 0", "other sizes"}));
}

TEST_F(CompiledCall, another_number_of_arrays) {
  auto g = [](const std::vector<Array>& v) {
    Array total = v[0];
    for (std::size_t i = 1; i < v.size(); ++i) total = total + v[i];
    return total;
  };
  const auto c = stiletto::compile(g, std::vector<Array>{x, x, x});
  EXPECT_TRUE(equals(c(std::vector<Array>{x, x, x}), float32, {3, 4}, std::vector<Real>(12, 3)));
  EXPECT_TRUE(throws<ArgumentError>([&] { c(std::vector<Array>{x, x}); }, {"3", "2"}));
  EXPECT_TRUE(throws<ArgumentError>([&] { c(std::vector<Array>{x, x, x, x}); }, {"3", "4"}));
  EXPECT_TRUE(throws<ArgumentError>([&] { c(std::vector<Array>{}); }));
}

struct Pair {
  Array first, second;
  auto fields() { return std::tie(first, second); }
};

TEST_F(CompiledCall, a_member_of_a_composite_argument_is_named) {
  const auto c = stiletto::compile([](const Array& a, const Pair& p) { return a + p.first * p.second; }, x,
                                   Pair{x, row});
  EXPECT_TRUE(throws<ShapeError>([&] { c(x, Pair{x, stiletto::ones({5})}); }, {"argument 1", "1.1"}));
  EXPECT_TRUE(throws<DTypeError>([&] { c(x, Pair{stiletto::ones({3, 4}, DType::int8), row}); },
                                 {"argument 1", "1.0"}));
}

TEST_F(CompiledCall, compiled_for_a_spec) {
  const auto c = stiletto::compile([](const Array& a) { return a + 1; },
                                   stiletto::spec({3, 4}, float32, {}, Device::cpu()));
  EXPECT_TRUE(equals(c(x), float32, {3, 4}, std::vector<Real>(12, 2)));
  EXPECT_TRUE(throws<ShapeError>([&] { c(row); }, {"argument 0"}));
}

// ---- arrays ----

TEST(BadArrays, sizes) {
  EXPECT_THROW(stiletto::zeros({2, -3}), ShapeError);
  EXPECT_THROW(stiletto::empty({std::int64_t{1} << 32, std::int64_t{1} << 32}), ShapeError);
  EXPECT_THROW(stiletto::empty({std::int64_t{1} << 61}, DType::float64), ShapeError);
  EXPECT_THROW(stiletto::spec({std::int64_t{1} << 40, std::int64_t{1} << 40}, DType::int8), ShapeError);
  EXPECT_EQ(stiletto::zeros({std::int64_t{1} << 60, 0}).size(), 0);
  EXPECT_THROW(stiletto::broadcast_to(stiletto::ones({1}), {std::int64_t{1} << 32, std::int64_t{1} << 32}),
               ShapeError);
  EXPECT_THROW(stiletto::from_data(std::vector<float>{1, 2, 3}, {2, 2}), ShapeError);
  EXPECT_THROW(stiletto::full({2}, stiletto::ones({2})), ShapeError);
  const Array row = stiletto::as_strided(stiletto::ones({1}), {std::int64_t{1} << 31}, {0});
  const Array column = stiletto::expand_dims(row, 1);
  EXPECT_THROW(stiletto::jit(
                   [](const Array& a, const Array& b) {
                     return stiletto::expand_dims(a, 0) * b * stiletto::expand_dims(b, 0);
                   },
                   row, column),
               ShapeError);
}

TEST(BadArrays, element_types) {
  const Array x = stiletto::ones({2}), one = stiletto::ones({});
  EXPECT_THROW(x.to_vector<double>(), DTypeError);
  EXPECT_THROW(x.to_vector<int>(), DTypeError);
  EXPECT_THROW(x.data<std::int64_t>(), DTypeError);
  EXPECT_THROW(one.item<stiletto::half>(), DTypeError);
  EXPECT_THROW(x.at<bool>({0}), DTypeError);
  EXPECT_THROW(x.item<float>(), ShapeError);
  EXPECT_THROW(x.at<float>({2}), ShapeError);
  EXPECT_THROW(x.at<float>({0, 0}), ShapeError);
  EXPECT_THROW(x.dim(1), ShapeError);
  EXPECT_THROW(x.dim(-2), ShapeError);
  EXPECT_EQ(x.at<float>({-1}), 1.0F);
}

TEST(BadArrays, wrap) {
  float memory[4] = {1, 2, 3, 4};
  EXPECT_THROW(stiletto::wrap(nullptr, {2}, float32, Device::cpu()), ArgumentError);
  EXPECT_THROW(stiletto::wrap(memory, {2, 2}, float32, Device::cpu(), {1}), ShapeError);
  EXPECT_THROW(stiletto::wrap(memory, {-2}, float32, Device::cpu()), ShapeError);
  EXPECT_TRUE(equals(stiletto::wrap(memory + 3, {2, 2}, float32, Device::cpu(), {-2, -1}), float32, {2, 2},
                     {4, 3, 2, 1}));
  auto owner = std::make_shared<std::vector<float>>(4, 5.0F);
  const std::weak_ptr<void> alive = owner;
  Array x = stiletto::wrap(owner->data(), {4}, float32, Device::cpu(), {}, owner);
  owner.reset();
  Array view = stiletto::slice(x, {stiletto::Slice{1, 3}});
  x = Array();
  EXPECT_FALSE(alive.expired());
  EXPECT_TRUE(equals(view, float32, {2}, {5, 5}));
  view = Array();
  EXPECT_TRUE(alive.expired());
}

TEST(BadArrays, cuda_is_not_there) {
  const Device gpu = Device::cuda(63);  // nowhere, with a backend for GPUs or without
  const Array x = stiletto::ones({2});
  EXPECT_THROW(Device::cuda(-1), stiletto::DeviceError);
  EXPECT_THROW(stiletto::zeros({2}, float32, gpu), stiletto::DeviceError);
  EXPECT_THROW(stiletto::ones({2}, float32, gpu), stiletto::DeviceError);
  EXPECT_THROW(stiletto::empty({2}, float32, gpu), stiletto::DeviceError);
  EXPECT_THROW(stiletto::full({2}, 1, float32, gpu), stiletto::DeviceError);
  EXPECT_THROW(stiletto::from_data(std::vector<float>{1, 2}, {2}, gpu), stiletto::DeviceError);
  EXPECT_THROW(x.to(gpu), stiletto::DeviceError);
#ifndef STILETTO_HAS_CUDNN
  EXPECT_THROW(stiletto::compile([](const Array& a) { return a + 1; }, stiletto::spec({2}, float32)),
               stiletto::DeviceError);
#endif
  float memory[2] = {};
  EXPECT_THROW(stiletto::jit([](const Array& a) { return a + 1; }, stiletto::wrap(memory, {2}, float32, gpu)),
               stiletto::DeviceError);
}

}  // namespace
