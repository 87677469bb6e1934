// SPDX-License-Identifier: Apache-2.0
// The complete text of every error of src/core: arrays and their reading, layouts, devices. Each case names
// the file that throws.
#include <gtest/gtest.h>

#include <limits>
#include <source_location>
#include <string>
#include <vector>

#include "unit/error_text.hpp"
#include "unit/trace_support.hpp"

namespace {

using stiletto::Array;
using stiletto::Device;
using stiletto::DType;
using stiletto::Slice;
using unit::expect_text;

[[maybe_unused]] const Device gpu = Device::cuda(1);
constexpr DType packed = DType::float4_e2m1;

// array.cpp: what has no values to read
TEST(CoreErrorTexts, reading_a_traced_array) {
  unit::Recording r;
  const Array x = r.argument({2, 3}, DType::float16);
  auto refused = [](auto f, const std::string& name,
                    std::source_location where = std::source_location::current()) {
    expect_text(
        f,
        "TraceError: operation 1, " + name +
            ": a traced array (float16(2, 3)) has no values while its function is being recorded; branch "
            "with "
            "where(), pass the value as an argument, or read it from what the compiled function returns",
        where);
  };
  refused([&] { x.item<float>(); }, "item");
  refused([&] { x.to_vector<float>(); }, "to_vector");
  refused([&] { x.at<float>({0, 0}); }, "at");
  refused([&] { x.data<float>(); }, "data");
  refused([&] { x.raw_data(); }, "raw_data");
  refused([&] { x.to(Device::cpu()); }, "to");
}
TEST(CoreErrorTexts, reading_a_spec) {
  const Array x = stiletto::spec({2}, DType::int8);
  auto refused = [](auto f, const std::string& name,
                    std::source_location where = std::source_location::current()) {
    expect_text(f,
                "TraceError: " + name +
                    ": a spec (int8(2)) has no memory; make the array with zeros, empty, from_data or wrap",
                where);
  };
  refused([&] { x.item<std::int8_t>(); }, "item");
  refused([&] { x.to_vector<std::int8_t>(); }, "to_vector");
  refused([&] { x.at<std::int8_t>({0}); }, "at");
  refused([&] { x.data<std::int8_t>(); }, "data");
  refused([&] { x.raw_data(); }, "raw_data");
  refused([&] { x.to(Device::cpu()); }, "to");
}

// array.cpp: element types, counts and indices
TEST(CoreErrorTexts, reading_as_another_type) {
  const Array x = stiletto::ones({2}), raw = stiletto::empty({2}, DType::float8_e8m0);
  expect_text([&] { x.to_vector<double>(); },
              "DTypeError: to_vector: the array is float32, the element type asked for is float64; cast(x, "
              "dtype) first");
  expect_text(
      [&] { x.data<int>(); },
      "DTypeError: data: the array is float32, the element type asked for is int32; cast(x, dtype) first");
  expect_text(
      [&] { x.at<bool>({0}); },
      "DTypeError: at: the array is float32, the element type asked for is boolean; cast(x, dtype) first");
  expect_text(
      [&] { stiletto::ones({}).item<stiletto::half>(); },
      "DTypeError: item: the array is float32, the element type asked for is float16; cast(x, dtype) first");
  expect_text([&] { raw.to_vector<float>(); },
              "DTypeError: to_vector: the array is float8_e8m0, the element type asked for is float32; its "
              "raw codes are read as uint8");
}
TEST(CoreErrorTexts, reading_elements_that_are_not_there) {
  const Array x = stiletto::ones({2, 3});
  expect_text([&] { x.item<float>(); },
              "ShapeError: item: shape (2, 3) has 6 elements, not one; use at or to_vector");
  expect_text([&] { stiletto::ones({0}).item<float>(); },
              "ShapeError: item: shape (0) has 0 elements, not one; use at or to_vector");
  expect_text([&] { x.at<float>({1}); }, "ShapeError: at: 1 index for shape (2, 3); give one for each axis");
  expect_text([&] { x.at<float>({1, 3}); },
              "ShapeError: at: index 3 is out of range for axis 1 of shape (2, 3); indices here are -3 to 2");
  expect_text(
      [&] { x.at<float>({-3, 0}); },
      "ShapeError: at: index -3 is out of range for axis 0 of shape (2, 3); indices here are -2 to 1");
}

// array.cpp: empty handles, named by what was asked of them
TEST(CoreErrorTexts, empty_handles) {
  const Array none, x = stiletto::ones({2, 2});
  auto refused = [](auto f, const std::string& name,
                    std::source_location where = std::source_location::current()) {
    expect_text(f,
                "ArgumentError: " + name +
                    ": the array is an empty handle; make it with zeros, empty, from_data or wrap",
                where);
  };
  refused([&] { (void)none.dtype(); }, "dtype");
  refused([&] { (void)none.shape(); }, "shape");
  refused([&] { (void)none.strides(); }, "strides");
  refused([&] { (void)none.rank(); }, "rank");
  refused([&] { (void)none.dim(0); }, "dim");
  refused([&] { (void)none.size(); }, "size");
  refused([&] { (void)none.nbytes(); }, "nbytes");
  refused([&] { (void)none.device(); }, "device");
  refused([&] { (void)none.is_traced(); }, "is_traced");
  refused([&] { (void)none.has_memory(); }, "has_memory");
  refused([&] { (void)none.is_contiguous(); }, "is_contiguous");
  refused([&] { none.item<float>(); }, "item");
  refused([&] { none.copy(); }, "copy");
  refused([&] { none.to(Device::cpu()); }, "to");
  refused([&] { none + x; }, "add");
  refused([&] { stiletto::where(x > 0, none, x); }, "where");
  refused([&] { stiletto::sum(none); }, "sum");
  refused([&] { stiletto::cast(none, DType::int8); }, "cast");
  refused([&] { stiletto::matmul(x, none); }, "matmul");
  refused([&] { stiletto::matmul_into(none, x, x); }, "matmul_into");
  refused([&] { stiletto::matmul_into(x, none, x); }, "matmul_into");
  refused([&] { stiletto::assign(none, x); }, "assign");
  refused([&] { stiletto::assign(x, none); }, "assign");
  refused([&] { stiletto::transpose(none); }, "transpose");
  refused([&] { stiletto::full({2}, none); }, "full");
  expect_text([&] { stiletto::compile([](const Array& a) { return a; }, none); },
              "ArgumentError: argument 0 (arg0) is an empty handle; make the array with zeros, empty, "
              "from_data or wrap");
  expect_text([&] { stiletto::jit([](const Array&) { return Array(); }, x); },
              "ArgumentError: return: result 0 is an empty handle; assign an array to it, or leave it out");
}

// array.cpp: numbers and packed elements
TEST(CoreErrorTexts, numbers) {
  expect_text([] { (void)Array{std::numeric_limits<std::uint64_t>::max()}; },
              "DTypeError: Array: the number 18446744073709551615 does not fit int64, the widest integer "
              "type; write it as a double");
}
TEST(CoreErrorTexts, packed_elements) {
  const Array x = stiletto::empty({2, 4}, packed);
  expect_text([] { stiletto::empty({2, 3}, packed); },
              "ShapeError: empty: float4_e2m1 is packed two to a byte: offset 0, shape (2, 3), strides (3, "
              "1) would split one; offsets and strides have to be even, and the extent along stride 1 too");
  expect_text([] { stiletto::zeros({3}, packed); },
              "ShapeError: zeros: float4_e2m1 is packed two to a byte: offset 0, shape (3), strides (1) "
              "would split one; offsets and strides have to be even, and the extent along stride 1 too");
  expect_text([&] { stiletto::slice(x, {Slice{}, Slice{1, 3}}); },
              "ShapeError: slice: float4_e2m1 is packed two to a byte: offset 1, shape (2, 2), strides (4, "
              "1) would split one; offsets and strides have to be even, and the extent along stride 1 too");
  expect_text([&] { stiletto::as_strided(x, {3}, {2}, 1); },
              "ShapeError: as_strided: float4_e2m1 is packed two to a byte: offset 1, shape (3), strides (2) "
              "would split one; offsets and strides have to be even, and the extent along stride 1 too");
  expect_text([&] { stiletto::wrap(x.raw_data(), {2, 2}, packed, Device::cpu(), {3, 1}); },
              "ShapeError: wrap: float4_e2m1 is packed two to a byte: offset 0, shape (2, 2), strides (3, 1) "
              "would split one; offsets and strides have to be even, and the extent along stride 1 too");
}

// device_memory.cpp: devices. With the cuDNN backend the texts depend on the machine.
#ifndef STILETTO_HAS_CUDNN
TEST(CoreErrorTexts, devices_without_a_backend) {
  const Array x = stiletto::ones({2});
  expect_text([] { stiletto::empty({2}, DType::float32, gpu); },
              "DeviceError: empty: this build of Stiletto has no backend for cuda:1; use Device::cpu(), or a "
              "build with the cuDNN backend");
  expect_text([] { stiletto::zeros({2}, DType::float32, gpu); },
              "DeviceError: zeros: this build of Stiletto has no backend for cuda:1; use Device::cpu(), or a "
              "build with the cuDNN backend");
  expect_text([&] { stiletto::wrap(x.raw_data(), {2}, DType::float32, gpu); },
              "DeviceError: wrap: this build of Stiletto has no backend for cuda:1; use Device::cpu(), or a "
              "build with the cuDNN backend");
  expect_text([] { stiletto::from_data(std::vector<float>{1}, {1}, gpu); },
              "DeviceError: from_data: this build of Stiletto has no backend for cuda:1; use Device::cpu(), "
              "or a build with the cuDNN backend");
  expect_text(
      [] { stiletto::compile([](const Array& a) { return a + 1; }, stiletto::spec({2}, DType::float32)); },
      "DeviceError: compile: this build of Stiletto has no backend for cuda:0; use Device::cpu(), or a build "
      "with the cuDNN backend");
  expect_text([&] { x.to(gpu); },
              "DeviceError: to: this build of Stiletto has no backend for cuda:1; use Device::cpu(), or a "
              "build with the cuDNN backend");
}
#endif

// device.cpp
TEST(CoreErrorTexts, devices) {
  expect_text([] { Device::cuda(-2); }, "DeviceError: Device::cuda(-2): GPUs are numbered from 0");
}

// array.cpp: more memory than there is. Sanitizers end the program instead of failing the allocation.
TEST(CoreErrorTexts, allocations_that_fail) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "under a sanitizer";
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
  GTEST_SKIP() << "under a sanitizer";
#endif
#endif
  expect_text([] { stiletto::empty({std::int64_t{1} << 58}); },
              "DeviceError: empty: allocating 1152921504606846976 bytes on cpu failed; nothing was written: "
              "free memory, or use smaller arrays");
  expect_text([] { stiletto::broadcast_to(stiletto::ones({1}), {std::int64_t{1} << 58}) * 2; },
              "DeviceError: output: allocating 1152921504606846976 bytes on cpu failed; nothing was written: "
              "free memory, or use smaller arrays");
}

// layout.cpp
TEST(CoreErrorTexts, ranks_and_sizes) {
  const std::int64_t huge = std::int64_t{1} << 61;
  expect_text([] { stiletto::Dims{1, 1, 1, 1, 1, 1, 1, 1, 1}; },
              "ShapeError: rank 9 is beyond Stiletto's limit of 8 axes; merge axes with reshape");
  expect_text([] { stiletto::zeros({2, -1}); },
              "ShapeError: zeros: shape (2, -1) has a negative extent; extents start at 0");
  expect_text([&] { stiletto::empty({huge}); },
              "ShapeError: empty: shape (2305843009213693952) has more elements than 64 bits can address in "
              "bytes; use smaller extents");
  expect_text([&] { stiletto::ones({huge, 8}); },
              "ShapeError: ones: shape (2305843009213693952, 8) has more elements than 64 bits can address "
              "in bytes; use smaller extents");
  expect_text([] { stiletto::full({-1}, 2); },
              "ShapeError: full: shape (-1) has a negative extent; extents start at 0");
  expect_text([] { stiletto::from_data(std::vector<float>{1}, {-1}); },
              "ShapeError: from_data: shape (-1) has a negative extent; extents start at 0");
  expect_text([&] { stiletto::spec({huge, 4}, DType::int8); },
              "ShapeError: spec: shape (2305843009213693952, 4) has more elements than 64 bits can address "
              "in bytes; use smaller extents");
  expect_text([] { stiletto::wrap(nullptr, {-3}, DType::int8, Device::cpu()); },
              "ShapeError: wrap: shape (-3) has a negative extent; extents start at 0");
  expect_text([&] { stiletto::spec({4, 4}, DType::int8, {huge * 2, 1}); },
              "ShapeError: spec: shape (4, 4) with strides (4611686018427387904, 1) reaches beyond 64 bits; "
              "use smaller strides");
  expect_text([&] { stiletto::broadcast_to(stiletto::ones({1}), {huge, huge}); },
              "ShapeError: broadcast_to: shape (2305843009213693952, 2305843009213693952) has more elements "
              "than 64 bits can address in bytes; use smaller extents");
  expect_text([&] { stiletto::ones({1 << 20, 1}) + stiletto::broadcast_to(stiletto::ones({1}), {huge / 4}); },
              "ShapeError: add: shape (1048576, 576460752303423488) has more elements than 64 bits can "
              "address in bytes; use smaller extents");
}
TEST(CoreErrorTexts, axes) {
  const Array x = stiletto::ones({2, 3});
  expect_text([&] { (void)x.dim(2); },
              "ShapeError: dim: axis 2 is out of range for shape (2, 3); axes here are -2 to 1");
  expect_text([&] { stiletto::sum(x, -3); },
              "ShapeError: sum: axis -3 is out of range for shape (2, 3); axes here are -2 to 1");
  expect_text([&] { stiletto::softmax(x, 2); },
              "ShapeError: softmax: axis 2 is out of range for shape (2, 3); axes here are -2 to 1");
  expect_text([&] { stiletto::transpose(x, {0, 2}); },
              "ShapeError: transpose: axis 2 is out of range for shape (2, 3); axes here are -2 to 1");
  expect_text([&] { stiletto::squeeze(x, 5); },
              "ShapeError: squeeze: axis 5 is out of range for shape (2, 3); axes here are -2 to 1");
  expect_text([&] { stiletto::expand_dims(x, 3); },
              "ShapeError: expand_dims: axis 3 is out of range for shape (2, 3); axes here are -3 to 2");
}

}  // namespace
