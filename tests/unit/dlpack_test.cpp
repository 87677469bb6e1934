// SPDX-License-Identifier: Apache-2.0
// Arrays handed to and taken from other libraries, whose part the test plays.
#include <gtest/gtest.h>

#include <numeric>

#include "core/dlpack_abi.hpp"
#include "stiletto/dlpack.hpp"
#include "stiletto/stiletto.hpp"
#include "support/errors.hpp"
#include "unit/error_text.hpp"

namespace {

using stiletto::Array;
using stiletto::Device;
using stiletto::DType;
using stiletto::from_dlpack;
using stiletto::to_dlpack;
using unit::expect_text;

/// A tensor of floats 0, 1, 2, … of which the test sees the end.
template <class Managed>
struct Producer {
  std::vector<float> memory = std::vector<float>(24);
  std::vector<std::int64_t> shape{2, 3}, strides{3, 1};
  int deleted = 0;
  Managed tensor{};

  Producer() {
    std::iota(memory.begin(), memory.end(), 0.0F);
    DLTensor& t = tensor.dl_tensor;
    t = {memory.data(), {1, 0}, 2, {2, 32, 1}, shape.data(), strides.data(), 0};
    tensor.manager_ctx = &deleted;
    tensor.deleter = [](Managed* self) { ++*static_cast<int*>(self->manager_ctx); };
    if constexpr (requires { tensor.version; }) tensor.version = {1, 0};
  }
};

std::vector<float> floats(const Array& x) { return x.to_vector<float>(); }

template <class Managed>
class DlpackIn : public testing::Test {};
using Forms = testing::Types<DLManagedTensor, DLManagedTensorVersioned>;
TYPED_TEST_SUITE(DlpackIn, Forms);

TYPED_TEST(DlpackIn, shares_the_memory_and_gives_it_back) {
  Producer<TypeParam> from;
  {
    const Array x = from_dlpack(&from.tensor);
    EXPECT_EQ(x.raw_data(), from.memory.data());
    EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{0, 1, 2, 3, 4, 5}));
    const Array row = stiletto::slice(x, {stiletto::Slice{1, 2}});
    stiletto::assign(row, -row);
    EXPECT_EQ(from.deleted, 0);
  }
  EXPECT_EQ(from.deleted, 1);
  EXPECT_EQ(from.memory[4], -4);
}

TYPED_TEST(DlpackIn, takes_every_layout) {
  Producer<TypeParam> from;
  DLTensor& t = from.tensor.dl_tensor;
  from.strides = {1, 2};
  EXPECT_EQ(floats(from_dlpack(&from.tensor)), (std::vector<float>{0, 2, 4, 1, 3, 5}));
  t.strides = nullptr;
  EXPECT_EQ(floats(from_dlpack(&from.tensor)), (std::vector<float>{0, 1, 2, 3, 4, 5}));
  t.byte_offset = 20;
  t.strides = from.strides.data();
  from.strides = {-3, -1};
  EXPECT_EQ(floats(from_dlpack(&from.tensor)), (std::vector<float>{5, 4, 3, 2, 1, 0}));
  from.strides = {0, 1};
  EXPECT_EQ(floats(from_dlpack(&from.tensor)), (std::vector<float>{5, 6, 7, 5, 6, 7}));
  t.ndim = 0;
  EXPECT_EQ(floats(from_dlpack(&from.tensor)), std::vector<float>{5});
  t.ndim = 2;
  t.data = nullptr;
  t.byte_offset = 0;
  from.shape = {0, 3};
  EXPECT_EQ(from_dlpack(&from.tensor).size(), 0);
  EXPECT_EQ(from.deleted, 6);
}

TYPED_TEST(DlpackIn, pinned_memory_is_the_hosts) {
  Producer<TypeParam> from;
  from.tensor.dl_tensor.device = {3, 0};
  EXPECT_EQ(from_dlpack(&from.tensor).device(), Device::cpu());
}

TYPED_TEST(DlpackIn, what_is_refused_stays_the_callers) {
  Producer<TypeParam> from;
  DLTensor& t = from.tensor.dl_tensor;
  expect_text([] { from_dlpack(static_cast<TypeParam*>(nullptr)); },
              "ArgumentError: from_dlpack: a null pointer; a capsule gives its tensor only once");
  t.dtype = {5, 64, 1};
  expect_text(
      [&] { from_dlpack(&from.tensor); },
      "DTypeError: from_dlpack: an element of code 5, 64 bits and 1 lanes has no dtype here; convert it "
      "where it comes from");
  t.dtype = {2, 32, 4};
  expect_text(
      [&] { from_dlpack(&from.tensor); },
      "DTypeError: from_dlpack: an element of code 2, 32 bits and 4 lanes has no dtype here; convert it "
      "where it comes from");
  t.dtype = {2, 32, 1};
  t.device = {8, 0};
  expect_text(
      [&] { from_dlpack(&from.tensor); },
      "DeviceError: from_dlpack: memory of device type 8 cannot be used here; move it to the CPU or an "
      "NVIDIA GPU where it comes from");
  t.device = {1, 0};
  t.ndim = 9;
  expect_text([&] { from_dlpack(&from.tensor); },
              "ShapeError: from_dlpack: a tensor of 9 axes; arrays have at most 8");
  if constexpr (requires { from.tensor.version; }) {
    from.tensor.version = {2, 0};
    expect_text([&] { from_dlpack(&from.tensor); },
                "ArgumentError: from_dlpack: a tensor of DLPack 2.0; versions 1.x are understood");
  }
  EXPECT_EQ(from.deleted, 0);
}

TEST(DlpackOut, describes_the_array_and_keeps_it) {
  Array x = stiletto::from_data(std::vector<float>{1, 2, 3, 4, 5, 6}, {2, 3});
  DLManagedTensor* const tensor = to_dlpack(stiletto::transpose(x));
  DLManagedTensorVersioned* const versioned = stiletto::to_dlpack_versioned(x);
  const void* const memory = x.raw_data();
  x = {};
  EXPECT_EQ(versioned->version.major, 1U);
  EXPECT_EQ(versioned->flags, 0U);
  const DLTensor& t = tensor->dl_tensor;
  EXPECT_EQ(t.data, memory);
  EXPECT_EQ(t.device.device_type, 1);
  EXPECT_EQ(std::vector<std::int64_t>(t.shape, t.shape + t.ndim), (std::vector<std::int64_t>{3, 2}));
  EXPECT_EQ(std::vector<std::int64_t>(t.strides, t.strides + t.ndim), (std::vector<std::int64_t>{1, 3}));
  EXPECT_EQ(static_cast<float*>(t.data)[5], 6);
  tensor->deleter(tensor);
  EXPECT_EQ(static_cast<float*>(versioned->dl_tensor.data)[5], 6);
  versioned->deleter(versioned);
}

TEST(DlpackOut, every_dtype_comes_back) {
  for (const DType dtype : {DType::boolean, DType::int8, DType::uint8, DType::int32, DType::int64,
                            DType::float16, DType::bfloat16, DType::float32, DType::float64,
                            DType::float8_e4m3, DType::float8_e5m2, DType::float8_e8m0}) {
    const Array x = stiletto::empty({3}, dtype);
    const Array y = from_dlpack(to_dlpack(x));
    EXPECT_EQ(y.dtype(), dtype);
    EXPECT_EQ(y.raw_data(), x.raw_data());
  }
}

TEST(DlpackOut, a_number_is_copied) {
  const Array number = 2.5F, again = from_dlpack(to_dlpack(number));
  EXPECT_EQ(again.item<float>(), 2.5F);
  EXPECT_EQ(again.dtype(), DType::float32);
}

TEST(DlpackOut, refusals) {
  expect_text([] { to_dlpack(stiletto::spec({2}, DType::float32)); },
              "ArgumentError: to_dlpack: a spec has no memory; hand out an array");
  expect_text(
      [] { to_dlpack(stiletto::empty({2}, DType::float4_e2m1)); },
      "ArgumentError: to_dlpack: float4_e2m1 lies two to a byte, which other libraries read in different "
      "ways; cast it");
  auto traced = [](const Array& x) {
    to_dlpack(x);
    return x;
  };
  expect_text(
      [&] { stiletto::compile(traced, stiletto::ones({2})); },
      "TraceError: to_dlpack: a traced array has no memory; hand out what the compiled function returns");
}

}  // namespace
