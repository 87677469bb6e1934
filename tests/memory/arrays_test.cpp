// SPDX-License-Identifier: Apache-2.0
// Array's functions on a GPU, every dtype and layout: what arrives is what the CPU's arrays hold.
#include <sstream>

#include "support/cuda_api.hpp"
#include "support/errors.hpp"
#include "support/raw_arrays.hpp"

namespace {

using namespace support;
using stiletto::Device;
using stiletto::Shape;
using stiletto::Slice;

const Device gpu = Device::cuda(0);
const Extents shapes[] = {{},        {1},       {8},          {3, 4},    {6, 10},
                          {2, 3, 4}, {4, 1, 6}, {2, 3, 2, 4}, {5, 0, 2}, {100, 34}};

std::string text(const Array& x) {
  std::ostringstream out;
  out << x;
  return out.str();
}

/// Every dtype, shape and layout that can be made.
template <class Check>
void for_each_view(Check check) {
  Random random(7);
  for (DType dtype : all_dtypes)
    for (const Extents& shape : shapes)
      for (Layout layout : layouts) {
        const Placement placement = place(layout, shape);
        if (!packs(dtype, shape, placement)) continue;
        std::ostringstream name;
        name << dtype << describe(shape) << ' ' << to_string(layout);
        const testing::ScopedTrace trace(__FILE__, __LINE__, name.str());
        check(make_pair(random, dtype, shape, placement, gpu));
      }
}

TEST(GpuArrays, are_read) {
  for_each_view([](const Pair& x) {
    EXPECT_EQ(x.device.device(), gpu);
    EXPECT_EQ(elements_of(x.device), elements_of(x.host));
  });
}

TEST(GpuArrays, go_to_the_gpu_and_back) {
  for_each_view([](const Pair& x) {
    const bool whole = x.host.dtype() != DType::float4_e2m1 || x.host.size() == 0 || x.host.rank() == 0 ||
                       x.host.dim(-1) % 2 == 0;
    if (!whole) return;  // its copy would not be packed
    const Array there = x.host.to(gpu);
    EXPECT_TRUE(there.is_contiguous());
    EXPECT_EQ(there.shape(), x.host.shape());
    EXPECT_EQ(elements_of(there), elements_of(x.host));
    const Array back = x.device.to(Device::cpu());
    EXPECT_TRUE(back.is_contiguous());
    EXPECT_EQ(back.device(), Device::cpu());
    EXPECT_EQ(elements_of(back), elements_of(x.host));
  });
}

TEST(GpuArrays, are_copied) {
  for_each_view([](const Pair& x) {
    std::size_t last = x.host.shape().size();
    while (last > 0 && x.host.shape()[last - 1] == 1) --last;
    if (x.host.dtype() == DType::float4_e2m1 && last > 0 && x.host.strides()[last - 1] != 1) {
      EXPECT_TRUE(throws<stiletto::DeviceError>(
          [&] { x.device.copy(); }, {"copy", "float4_e2m1", "cuda:0", "x.to(Device::cpu()).copy()"}));
      return;
    }
    const Array copy = x.device.copy();
    EXPECT_TRUE(copy.is_contiguous());
    EXPECT_EQ(copy.device(), gpu);
    EXPECT_TRUE(copy.size() == 0 || copy.raw_data() != x.device.raw_data());
    EXPECT_EQ(elements_of(copy), elements_of(x.host));
  });
}

TEST(GpuArrays, single_elements) {
  for_each_view([](const Pair& x) {
    if (x.host.size() == 0) return;
    with_element_type(x.host.dtype(), [&]<class T>(T) {
      if (x.host.size() == 1) {
        const T here = x.host.template item<T>(), there = x.device.template item<T>();
        EXPECT_EQ(std::memcmp(&here, &there, sizeof(T)), 0);
      }
      if (x.host.rank() != 2) return;
      const std::int64_t rows = x.host.dim(0), columns = x.host.dim(1);
      for (const std::int64_t column : {std::int64_t{0}, columns / 2, std::int64_t{-1}}) {
        const T here = x.host.template at<T>({rows - 1, column});
        const T there = x.device.template at<T>({rows - 1, column});
        EXPECT_EQ(std::memcmp(&here, &there, sizeof(T)), 0);
      }
    });
  });
}

TEST(GpuArrays, print_like_the_cpus) {
  for_each_view([](const Pair& x) { EXPECT_EQ(text(x.device), text(x.host)); });
  std::vector<float> values(1 << 19);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  const Array large = stiletto::from_data(values, {1 << 10, 1 << 9});
  EXPECT_EQ(text(large.to(gpu)), text(large));
  EXPECT_EQ(text(stiletto::transpose(large.to(gpu))), text(stiletto::transpose(large)));
}

TEST(GpuArrays, are_filled) {
  for (DType dtype : all_dtypes) {
    if (dtype == DType::float8_e8m0) continue;  // refused everywhere
    for (const Shape& shape : {Shape{}, Shape{0}, Shape{2}, Shape{10}, Shape{30, 1002}, Shape{1 << 19}}) {
      if (dtype == DType::float4_e2m1 && shape.size() == 0) continue;
      std::ostringstream name;
      name << dtype << shape;
      const testing::ScopedTrace trace(__FILE__, __LINE__, name.str());
      EXPECT_EQ(elements_of(stiletto::zeros(shape, dtype, gpu)), elements_of(stiletto::zeros(shape, dtype)));
      EXPECT_EQ(elements_of(stiletto::ones(shape, dtype, gpu)), elements_of(stiletto::ones(shape, dtype)));
      const Array value = dtype == DType::boolean ? Array(true) : is_exact(dtype) ? Array(93) : Array(-0.37);
      EXPECT_EQ(elements_of(stiletto::full(shape, value, dtype, gpu)),
                elements_of(stiletto::full(shape, value, dtype)));
    }
  }
  const Array number = stiletto::full({}, 2.5, DType::float32, gpu);
  EXPECT_EQ(stiletto::full({3}, number, DType::float32, gpu).to_vector<float>(), std::vector<float>(3, 2.5F));
  EXPECT_EQ(stiletto::full({3}, number).to_vector<float>(), std::vector<float>(3, 2.5F));
  // 8 bytes with equal halves, and with different ones beyond what the first rows take
  EXPECT_EQ(stiletto::full({70001}, (std::int64_t{5} << 32) + 5, DType::int64, gpu).to_vector<std::int64_t>(),
            std::vector<std::int64_t>(70001, (std::int64_t{5} << 32) + 5));
  EXPECT_EQ(stiletto::full({70001}, std::int64_t{5} << 32, DType::int64, gpu).to_vector<std::int64_t>(),
            std::vector<std::int64_t>(70001, std::int64_t{5} << 32));
}

TEST(GpuArrays, from_data_leaves_the_vector_alone) {
  std::vector<int> values(100000);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<int>(i);
  const std::vector<int> kept = values;
  const Array x = stiletto::from_data(values, {100, 1000}, gpu);
  std::fill(values.begin(), values.end(), -1);
  EXPECT_EQ(x.to_vector<int>(), kept);
  EXPECT_EQ(stiletto::from_data(std::vector<int>{}, {0}, gpu).size(), 0);
}

TEST(GpuArrays, wrap_the_callers_memory) {
  const DeviceBuffer buffer(64 * sizeof(float));
  const Array source = stiletto::from_data(std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7}, {8});
  auto owner = std::make_shared<int>(1);
  Array x = stiletto::wrap(buffer.get(), {8}, DType::float32, gpu, {}, owner);
  EXPECT_EQ(x.data<float>(), buffer.get());
  cuda_call("cudaMemcpyAsync", buffer.get(), source.raw_data(), source.nbytes(), 1,
            static_cast<CUstream_st*>(nullptr));
  EXPECT_EQ(x.to_vector<float>(), source.to_vector<float>());
  auto* last = static_cast<float*>(buffer.get()) + 7;
  const Array backwards = stiletto::wrap(last, {4}, DType::float32, gpu, {-2}, owner);
  EXPECT_EQ(backwards.to_vector<float>(), (std::vector<float>{7, 5, 3, 1}));
  EXPECT_EQ(owner.use_count(), 3);
  x = {};
  EXPECT_EQ(owner.use_count(), 2);
}

TEST(GpuArrays, are_aligned) {
  for (const std::int64_t size : {1, 2, 3, 17, 255, 256, 257, 5000, 1 << 20})
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(stiletto::empty({size}, DType::uint8, gpu).raw_data()) % 256,
              0U);
}

/// Long reads whose elements lie far apart go through a copy on the GPU, all others come over as they lie.
TEST(GpuArrays, columns_of_large_arrays) {
  Random random(3);
  const Array host = random_storage(random, DType::float32, 1 << 20);
  const Array there = host.to(gpu);
  for (const Extents& strides :
       {Extents{1024, 1}, Extents{2048, 64}, Extents{-1024, -128}, Extents{0, 512}}) {
    const std::int64_t offset = strides[0] < 0 ? (1 << 20) - 1 : 0;
    auto view = [&](const Array& x) { return stiletto::as_strided(x, {512, 3}, dims(strides), offset); };
    EXPECT_EQ(elements_of(view(there)), elements_of(view(host)));
    EXPECT_EQ(elements_of(view(there).copy()), elements_of(view(host)));
  }
}

TEST(GpuArrays, move_between_gpus) {
  if (cuda_device_count() < 2) GTEST_SKIP() << "this machine has one GPU";
  const Device second = Device::cuda(1);
  for_each_view([&](const Pair& x) {
    if (x.host.dtype() == DType::float4_e2m1 && !x.host.is_contiguous()) return;
    const Array moved = x.device.to(second);
    EXPECT_EQ(moved.device(), second);
    EXPECT_EQ(elements_of(moved), elements_of(x.host));
    EXPECT_EQ(elements_of(moved.to(gpu)), elements_of(x.host));
  });
}

TEST(GpuArrays, say_which_gpus_there_are) {
  const std::string count = std::to_string(cuda_device_count());
  EXPECT_TRUE(throws<stiletto::DeviceError>([] { stiletto::zeros({2}, DType::float32, Device::cuda(63)); },
                                            {"cuda:63 is not there", "this process sees " + count + " GPU"}));
  EXPECT_TRUE(throws<stiletto::DeviceError>([] { stiletto::ones({2}).to(Device::cuda(63)); }, {"cuda:63"}));
  float value = 0;
  EXPECT_TRUE(throws<stiletto::DeviceError>(
      [&] { stiletto::wrap(&value, {1}, DType::float32, Device::cuda(63)); }, {"cuda:63"}));
  EXPECT_TRUE(throws<stiletto::DeviceError>([] { stiletto::empty({0}, DType::float32, Device::cuda(63)); },
                                            {"cuda:63"}));
}

TEST(GpuArrays, more_memory_than_there_is) {
  const std::int64_t huge = std::int64_t{1} << 50;
  EXPECT_TRUE(throws<stiletto::DeviceError>(
      [&] { stiletto::empty({huge}, DType::uint8, gpu); },
      {"allocating " + std::to_string(huge) + " bytes on cuda:0 failed", "bytes are free"}));
  EXPECT_EQ(stiletto::ones({3}, DType::int32, gpu).to_vector<int>(), std::vector<int>(3, 1));
}

TEST(GpuArrays, types_are_checked_as_on_the_cpu) {
  const Array x = stiletto::ones({2}, DType::float32, gpu);
  EXPECT_TRUE(throws<stiletto::DTypeError>([&] { x.to_vector<int>(); }, {"to_vector", "float32", "int32"}));
  EXPECT_TRUE(throws<stiletto::ShapeError>([&] { x.item<float>(); }, {"item", "(2)"}));
  EXPECT_TRUE(throws<stiletto::ShapeError>([&] { x.at<float>({2}); }, {"at", "index 2"}));
}

}  // namespace
