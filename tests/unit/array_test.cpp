// SPDX-License-Identifier: Apache-2.0
// Arrays as values: making, asking and reading them, memory that is wrapped, handles that share it, C++
// numbers, specs and empty handles. Views have a file of their own, and so has printing.
#include "stiletto/array.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <span>
#include <vector>

#include "core/array_body.hpp"
#include "stiletto/stiletto.hpp"

/// Another library's float, as its users would opt it in.
struct ForeignFloat {
  float value;
};
template <>
struct stiletto::dtype_of<ForeignFloat> {
  static constexpr DType value = DType::float32;
};

namespace {

using stiletto::Array;
using stiletto::bfloat16;
using stiletto::Device;
using stiletto::Dims;
using stiletto::DType;
using stiletto::float8_e4m3;
using stiletto::float8_e5m2;
using stiletto::half;
using stiletto::Slice;

Array iota(const stiletto::Shape& shape) {
  std::vector<float> values(static_cast<std::size_t>(stiletto::detail::element_count(shape, "iota")));
  std::iota(values.begin(), values.end(), 0.0F);
  return stiletto::from_data(values, shape);
}
using Floats = std::vector<float>;

// ---- making ---------------------------------------------------------------------------------------------

TEST(ArrayMaking, zeros_ones_full_empty) {
  const Array zeros = stiletto::zeros({2, 3}), ones = stiletto::ones({3}, DType::int32),
              full = stiletto::full({2}, 2.5, DType::float64), empty = stiletto::empty({2, 0, 3});
  EXPECT_EQ(zeros.dtype(), DType::float32) << "the default";
  EXPECT_EQ(zeros.to_vector<float>(), Floats(6, 0));
  EXPECT_EQ(ones.to_vector<int>(), std::vector<int>(3, 1));
  EXPECT_EQ(full.to_vector<double>(), std::vector<double>(2, 2.5));
  EXPECT_EQ(empty.shape(), (Dims{2, 0, 3}));
  EXPECT_EQ(empty.size(), 0);
  EXPECT_EQ(stiletto::full({2, 2}, true, DType::boolean).to_vector<bool>(), std::vector<bool>(4, true));
  EXPECT_EQ(static_cast<float>(stiletto::full({}, 1.5, DType::float16).item<half>()), 1.5F);
  EXPECT_EQ(stiletto::full({2}, stiletto::full({}, 3.0F), DType::int8).to_vector<std::int8_t>(),
            (std::vector<std::int8_t>{3, 3}))
      << "the value may be an array of rank 0";
}

TEST(ArrayMaking, fresh_memory_is_aligned_and_row_major) {
  for (std::int64_t n : {1, 3, 17}) {
    const Array x = stiletto::empty({n, 5});
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(x.raw_data()) % 64, 0U);
    EXPECT_EQ(x.strides(), (Dims{5, 1}));
    EXPECT_TRUE(x.is_contiguous());
    EXPECT_TRUE(x.has_memory());
    EXPECT_FALSE(x.is_traced());
    EXPECT_TRUE(x.device().is_cpu());
  }
}

TEST(ArrayMaking, from_data_copies) {
  std::vector<double> values{1, 2, 3, 4, 5, 6};
  const Array x = stiletto::from_data(values, {2, 3});
  const Array y = stiletto::from_data(std::span<const double>(values.data(), 2), {2});
  values.assign(6, 0);
  EXPECT_EQ(x.dtype(), DType::float64);
  EXPECT_EQ(x.at<double>({1, 2}), 6);
  EXPECT_EQ(y.to_vector<double>(), (std::vector<double>{1, 2}));
  EXPECT_EQ(stiletto::from_data(std::vector<bool>{true, false, true}, {3}).to_vector<bool>(),
            (std::vector<bool>{true, false, true}));
  EXPECT_EQ(stiletto::from_data(std::vector<float>{}, {0, 4}).shape(), (Dims{0, 4}));
  EXPECT_EQ(stiletto::from_data(std::vector<float>{7}, {}).item<float>(), 7);
  EXPECT_EQ(stiletto::from_data(std::vector<long>{7}, {1}).dtype(), DType::int64);
  EXPECT_EQ(stiletto::from_data(std::vector<long long>{7}, {1}).dtype(), DType::int64);
}

TEST(ArrayMaking, every_host_element_type) {
  auto round_trip = []<class T>(std::vector<T> values, DType dtype) {
    const Array x = stiletto::from_data(values, {static_cast<std::int64_t>(values.size())});
    EXPECT_EQ(x.dtype(), dtype);
    EXPECT_EQ(x.nbytes(), values.size() * sizeof(T));
    const std::vector<T> back = x.to_vector<T>();
    EXPECT_EQ(std::memcmp(back.data(), values.data(), sizeof(T) * values.size()), 0) << dtype;
    EXPECT_EQ(std::memcmp(x.data<T>(), values.data(), sizeof(T) * values.size()), 0) << dtype;
  };
  round_trip(std::vector<std::int8_t>{-128, 0, 127}, DType::int8);
  round_trip(std::vector<std::uint8_t>{0, 255}, DType::uint8);
  round_trip(std::vector<std::int32_t>{std::numeric_limits<std::int32_t>::min(), 5}, DType::int32);
  round_trip(std::vector<std::int64_t>{std::numeric_limits<std::int64_t>::max(), -1}, DType::int64);
  round_trip(std::vector<half>{half(1.5F), half(-0.0F)}, DType::float16);
  round_trip(std::vector<bfloat16>{bfloat16(1.5F), bfloat16(3.0F)}, DType::bfloat16);
  round_trip(std::vector<float>{1.5F, -0.0F}, DType::float32);
  round_trip(std::vector<double>{1e300, -0.0}, DType::float64);
  round_trip(std::vector<float8_e4m3>{float8_e4m3(448), float8_e4m3(-1)}, DType::float8_e4m3);
  round_trip(std::vector<float8_e5m2>{float8_e5m2(57344), float8_e5m2(0.5F)}, DType::float8_e5m2);
}

TEST(ArrayMaking, another_librarys_element_type) {
  const Array x = stiletto::from_data(std::vector<ForeignFloat>{{1.5F}, {2.5F}}, {2});
  EXPECT_EQ(x.dtype(), DType::float32);
  EXPECT_EQ(x.to_vector<float>(), (Floats{1.5F, 2.5F}));
  EXPECT_EQ(x.data<ForeignFloat>()[1].value, 2.5F);
  EXPECT_EQ(x.at<ForeignFloat>({0}).value, 1.5F);
}

// ---- wrapped memory -------------------------------------------------------------------------------------

TEST(ArrayWrap, shares_the_callers_memory) {
  float memory[6] = {0, 1, 2, 3, 4, 5};
  const Array x = stiletto::wrap(memory, {2, 3}, DType::float32, Device::cpu());
  EXPECT_EQ(x.raw_data(), memory);
  EXPECT_EQ(x.strides(), (Dims{3, 1}));
  memory[4] = 40;
  EXPECT_EQ(x.at<float>({1, 1}), 40);
  stiletto::assign(x, 7);
  EXPECT_EQ(memory[5], 7);
}

TEST(ArrayWrap, strides_of_any_sign) {
  float memory[6] = {0, 1, 2, 3, 4, 5};
  auto wrapped = [&](int first, const stiletto::Shape& shape, const stiletto::Strides& strides) {
    const Array x = stiletto::wrap(memory + first, shape, DType::float32, Device::cpu(), strides);
    EXPECT_EQ(x.raw_data(), memory + first) << "the pointer is the first element's";
    return x.to_vector<float>();
  };
  EXPECT_EQ(wrapped(0, {3, 2}, {1, 3}), (Floats{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(wrapped(5, {6}, {-1}), (Floats{5, 4, 3, 2, 1, 0}));
  EXPECT_EQ(wrapped(2, {2, 3}, {3, -1}), (Floats{2, 1, 0, 5, 4, 3}));
  EXPECT_EQ(wrapped(1, {4}, {0}), (Floats{1, 1, 1, 1}));
  EXPECT_EQ(wrapped(0, {3}, {2}), (Floats{0, 2, 4}));
}

TEST(ArrayWrap, keeps_the_owner_as_long_as_any_array) {
  auto owner = std::make_shared<std::vector<float>>(6, 5.0F);
  const std::weak_ptr<void> alive = owner;
  Array x = stiletto::wrap(owner->data(), {2, 3}, DType::float32, Device::cpu(), {}, owner);
  owner.reset();
  Array view = stiletto::transpose(x);
  x = Array();
  EXPECT_FALSE(alive.expired());
  EXPECT_EQ(view.to_vector<float>(), Floats(6, 5));
  view = Array();
  EXPECT_TRUE(alive.expired());
}

TEST(ArrayWrap, nothing_to_point_to) {
  const Array x = stiletto::wrap(nullptr, {0, 3}, DType::float32, Device::cpu());
  EXPECT_EQ(x.size(), 0);
  EXPECT_EQ(x.to_vector<float>(), Floats());
}

// ---- asking ---------------------------------------------------------------------------------------------

TEST(ArrayAsking, sizes) {
  const Array x = stiletto::empty({2, 3, 4}, DType::float16);
  EXPECT_EQ(x.rank(), 3);
  EXPECT_EQ(x.size(), 24);
  EXPECT_EQ(x.nbytes(), 48U);
  EXPECT_EQ(x.dim(0), 2);
  EXPECT_EQ(x.dim(-1), 4);
  EXPECT_EQ(x.dim(-3), 2);
  EXPECT_EQ(stiletto::empty({}).rank(), 0);
  EXPECT_EQ(stiletto::empty({}).size(), 1);
  EXPECT_EQ(stiletto::empty({3, 6}, DType::float4_e2m1).nbytes(), 9U);
  const Array column = stiletto::slice(stiletto::empty({4, 4}), {Slice{}, Slice{0, 1}});
  EXPECT_EQ(column.nbytes(), 16U) << "without the gaps";
}

TEST(ArrayAsking, contiguity) {
  const Array x = iota({4, 6});
  EXPECT_TRUE(x.is_contiguous());
  EXPECT_FALSE(stiletto::transpose(x).is_contiguous());
  EXPECT_TRUE(stiletto::slice(x, {Slice{1, 3}}).is_contiguous());
  EXPECT_FALSE(stiletto::slice(x, {Slice{}, Slice{0, 3}}).is_contiguous());
  EXPECT_TRUE(stiletto::slice(x, {Slice{2, 3}, Slice{1, 4}}).is_contiguous()) << "one row";
  EXPECT_TRUE(stiletto::slice(x, {Slice{}, Slice{3, 3}}).is_contiguous()) << "no elements";
  EXPECT_FALSE(stiletto::broadcast_to(stiletto::ones({1, 3}), {2, 3}).is_contiguous());
}

// ---- reading --------------------------------------------------------------------------------------------

TEST(ArrayReading, strides_do_not_show) {
  const Array x = iota({2, 3});
  EXPECT_EQ(stiletto::transpose(x).to_vector<float>(), (Floats{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(stiletto::slice(x, {Slice{{}, {}, -1}, Slice{{}, {}, -1}}).to_vector<float>(),
            (Floats{5, 4, 3, 2, 1, 0}));
  EXPECT_EQ(stiletto::broadcast_to(stiletto::slice(x, {Slice{0, 1}}), {2, 3}).to_vector<float>(),
            (Floats{0, 1, 2, 0, 1, 2}));
  const Array t = stiletto::transpose(x);
  for (std::int64_t i = 0; i < 3; ++i)
    for (std::int64_t j = 0; j < 2; ++j) {
      EXPECT_EQ(t.at<float>({i, j}), static_cast<float>(3 * j + i));
      EXPECT_EQ(t.at<float>({i - 3, j - 2}), t.at<float>({i, j})) << "negative indices count from the end";
    }
  EXPECT_EQ(stiletto::slice(x, {Slice{1, 2}, Slice{1, 2}}).item<float>(), 4);
  EXPECT_EQ(stiletto::slice(x, {Slice{1, 2}}).data<float>(), x.data<float>() + 3);
}

TEST(ArrayReading, copies_and_devices) {
  const Array t = stiletto::transpose(iota({2, 3})), c = t.copy();
  EXPECT_TRUE(c.is_contiguous());
  EXPECT_EQ(c.to_vector<float>(), t.to_vector<float>());
  EXPECT_NE(c.raw_data(), t.raw_data());
  EXPECT_EQ(t.to(Device::cpu()).raw_data(), t.raw_data()) << "the same device: the same memory";
  EXPECT_EQ(t.to(Device::cpu()).strides(), t.strides());
}

TEST(ArrayReading, handles_share) {
  const Array x = stiletto::zeros({3});
  const Array same = x;  // NOLINT(performance-unnecessary-copy-initialization)
  stiletto::assign(same, 4);
  EXPECT_EQ(x.to_vector<float>(), Floats(3, 4));
  Array rebound = x;
  rebound = rebound + 1;
  EXPECT_EQ(x.to_vector<float>(), Floats(3, 4)) << "x = x + 1 rebinds the handle";
  EXPECT_EQ(rebound.to_vector<float>(), Floats(3, 5));
}

// ---- packed and raw codes -------------------------------------------------------------------------------

TEST(ArrayCodes, float4_is_packed_two_to_a_byte) {
  const Array x = stiletto::empty({2, 4}, DType::float4_e2m1);
  const unsigned char bytes[4] = {0x10, 0x32, 0x54, 0x76};  // the even element in the low half
  std::memcpy(x.raw_data(), bytes, 4);
  using Codes = std::vector<std::uint8_t>;
  EXPECT_EQ(x.to_vector<std::uint8_t>(), (Codes{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(x.at<std::uint8_t>({1, -1}), 7);
  EXPECT_EQ(*x.data<std::uint8_t>(), 0x10);
  EXPECT_EQ(stiletto::transpose(x).to_vector<std::uint8_t>(), (Codes{0, 4, 1, 5, 2, 6, 3, 7}));
  EXPECT_EQ(stiletto::slice(x, {Slice{}, Slice{2, 4}}).to_vector<std::uint8_t>(), (Codes{2, 3, 6, 7}));
  EXPECT_EQ(stiletto::slice(x, {Slice{}, Slice{0, 4, 2}}).to_vector<std::uint8_t>(), (Codes{0, 2, 4, 6}));
  EXPECT_EQ(stiletto::slice(x, {Slice{1, 2}}).raw_data(), static_cast<std::byte*>(x.raw_data()) + 2);
  const Array backwards = stiletto::slice(x, {Slice{{}, {}, -1}});
  EXPECT_EQ(backwards.to_vector<std::uint8_t>(), (Codes{4, 5, 6, 7, 0, 1, 2, 3}));
  EXPECT_EQ(backwards.copy().to_vector<std::uint8_t>(), (Codes{4, 5, 6, 7, 0, 1, 2, 3}));
  const Array one = stiletto::slice(x, {Slice{1, 2}, Slice{2, 3}});
  EXPECT_EQ(one.item<std::uint8_t>(), 6);
  EXPECT_EQ(stiletto::cast(x, DType::float32).to_vector<float>(), (Floats{0, 0.5, 1, 1.5, 2, 3, 4, 6}));
}

TEST(ArrayCodes, float8_e8m0_is_read_as_its_code) {
  const Array x = stiletto::empty({3}, DType::float8_e8m0);
  const unsigned char bytes[3] = {127, 128, 126};
  std::memcpy(x.raw_data(), bytes, 3);
  EXPECT_EQ(x.to_vector<std::uint8_t>(), (std::vector<std::uint8_t>{127, 128, 126}));
  EXPECT_EQ(x.data<std::uint8_t>()[1], 128);
  EXPECT_EQ(stiletto::cast(x, DType::float32).to_vector<float>(), (Floats{1, 2, 0.5}));
}

// ---- numbers --------------------------------------------------------------------------------------------

TEST(ArrayNumbers, dtype_of_each_scalar_type) {
  auto dtype = [](const Array& x) {
    EXPECT_EQ(x.rank(), 0);
    EXPECT_EQ(x.size(), 1);
    EXPECT_TRUE(x.has_memory());
    return x.dtype();
  };
  EXPECT_EQ(dtype(true), DType::boolean);
  EXPECT_EQ(dtype('a'), DType::int32);
  EXPECT_EQ(dtype(std::int8_t{1}), DType::int32);
  EXPECT_EQ(dtype(std::uint16_t{1}), DType::int32);
  EXPECT_EQ(dtype(1), DType::int32);
  EXPECT_EQ(dtype(1U), DType::int64) << "not every unsigned fits int32";
  EXPECT_EQ(dtype(1L), DType::int64);
  EXPECT_EQ(dtype(1LL), DType::int64);
  EXPECT_EQ(dtype(std::size_t{1}), DType::int64);
  EXPECT_EQ(dtype(1.0F), DType::float32);
  EXPECT_EQ(dtype(1.0), DType::float32);
  EXPECT_EQ(dtype(1.0L), DType::float32);
  EXPECT_EQ(dtype(half(1)), DType::float16);
  EXPECT_EQ(dtype(bfloat16(1)), DType::bfloat16);
}

TEST(ArrayNumbers, can_be_read) {
  EXPECT_TRUE(Array(true).item<bool>());
  EXPECT_EQ(Array(-5).item<int>(), -5);
  EXPECT_EQ(Array(1LL << 40).item<std::int64_t>(), std::int64_t{1} << 40);
  EXPECT_EQ(Array(0.1).item<float>(), 0.1F);
  EXPECT_EQ(static_cast<float>(Array(half(2.5F)).item<half>()), 2.5F);
  EXPECT_EQ(Array(3).to_vector<int>(), std::vector<int>{3});
  EXPECT_EQ(Array(3).at<int>({}), 3);
  EXPECT_EQ(*Array(3).data<int>(), 3);
  EXPECT_EQ(Array(3).copy().item<int>(), 3);
  EXPECT_EQ(Array(std::numeric_limits<std::int64_t>::max()).item<std::int64_t>(),
            std::numeric_limits<std::int64_t>::max());
}

TEST(ArrayNumbers, arithmetic_among_numbers_is_exact_on_the_host) {
  EXPECT_EQ((Array(2) + 3).item<int>(), 5);
  EXPECT_EQ((Array(7) / 2).item<float>(), 3.5F);
  EXPECT_EQ((Array(1) < 2).item<bool>(), true);
  EXPECT_EQ((Array(1) + 0.5).item<float>(), 1.5F);
  EXPECT_EQ((Array(1LL << 40) * 2).item<std::int64_t>(), std::int64_t{1} << 41);
  EXPECT_EQ(stiletto::where(Array(true), 1, 2).item<int>(), 1);
  EXPECT_EQ(stiletto::cast(Array(300), DType::float64).item<double>(), 300);
  EXPECT_EQ(stiletto::maximum(Array(2), 3).item<int>(), 3);
  // 1/3 stays a double until it meets an array of float64.
  const Array third = Array(1.0) / 3.0;
  EXPECT_EQ((stiletto::zeros({}, DType::float64) + third).item<double>(), 1.0 / 3.0);
  EXPECT_EQ((stiletto::zeros({}, DType::float32) + third).item<float>(), static_cast<float>(1.0 / 3.0));
}

TEST(ArrayNumbers, can_be_viewed) {
  EXPECT_EQ(stiletto::reshape(Array(4), {1, 1}).to_vector<int>(), std::vector<int>{4});
  EXPECT_EQ(stiletto::broadcast_to(Array(2.5), {2, 2}).to_vector<float>(), Floats(4, 2.5F));
  EXPECT_EQ(stiletto::expand_dims(Array(true), 0).to_vector<bool>(), std::vector<bool>{true});
}

// ---- specs and empty handles ----------------------------------------------------------------------------

TEST(ArraySpec, describes_memory_that_is_not_there) {
  const Array x = stiletto::spec({2, 3}, DType::bfloat16),
              y = stiletto::spec({2, 3}, DType::int8, {1, 2}, Device::cpu());
  EXPECT_FALSE(x.has_memory());
  EXPECT_FALSE(x.is_traced());
  EXPECT_EQ(x.dtype(), DType::bfloat16);
  EXPECT_EQ(x.strides(), (Dims{3, 1}));
  EXPECT_EQ(x.nbytes(), 12U);
  EXPECT_EQ(x.device(), Device::cuda(0)) << "without a target";
  EXPECT_EQ(y.device(), Device::cpu());
  EXPECT_EQ(y.strides(), (Dims{1, 2}));
  EXPECT_FALSE(y.is_contiguous());
  const Array t = stiletto::transpose(y);
  EXPECT_FALSE(t.has_memory());
  EXPECT_EQ(t.shape(), (Dims{3, 2}));
  EXPECT_EQ(t.strides(), (Dims{2, 1})) << "a spec can be viewed";
}

TEST(ArraySpec, huge_ones_cost_nothing) {
  const Array x = stiletto::spec({std::int64_t{1} << 30, std::int64_t{1} << 20}, DType::float32);
  EXPECT_EQ(x.size(), std::int64_t{1} << 50);
  EXPECT_EQ(x.nbytes(), std::size_t{1} << 52);
}

TEST(ArrayDevices, compare_by_kind_and_number) {
  EXPECT_EQ(Device::cpu(), Device::cpu());
  EXPECT_EQ(Device::cuda(), Device::cuda(0));
  EXPECT_NE(Device::cuda(1), Device::cuda(0));
  EXPECT_NE(Device::cuda(0), Device::cpu());
  EXPECT_TRUE(Device::cuda(3).is_cuda());
  EXPECT_FALSE(Device::cuda(3).is_cpu());
  EXPECT_EQ(Device::cuda(3).index(), 3);
  EXPECT_EQ(Device::cpu().index(), 0);
}

TEST(ArrayAlignment, is_a_power_of_two_up_to_16) {
  alignas(64) static char memory[64];
  for (int offset = 0; offset < 40; ++offset) {
    int expected = 16;
    while (offset % expected != 0) expected /= 2;
    EXPECT_EQ(stiletto::detail::alignment_of(memory + offset), expected) << offset;
  }
}

}  // namespace
