// SPDX-License-Identifier: Apache-2.0
// Golden texts of cuDNN graphs: casts, and the sizes of contiguous arrays.
#ifdef STILETTO_HAS_CUDNN
#include "golden/engine_golden.hpp"

namespace {

using golden::engine_text;
using golden::expect_text;
using stiletto::Array;
using stiletto::DType;
using unit::on_cpu;

constexpr DType f16 = DType::float16, f32 = DType::float32, i8 = DType::int8, i32 = DType::int32,
                boolean = DType::boolean;

TEST(EngineCast, to_float8_e4m3) {
  auto f = [](const Array& x) { return stiletto::cast(x, DType::float8_e4m3); };
  expect_text(engine_text(f, on_cpu({64})), R"(
cudnn graph, 1 x 1 x 64
  t0 = tensor0: float32(1, 1, 64) strides (64, 64, 1)
  t1 = 448: float32 constant
  t2 = -448: float32 constant
  t3 = less(t0, t2) in float32: boolean(1, 1, 64)
  t4 = where(t2, t0, t3) in float32: float32(1, 1, 64)
  t5 = greater(t4, t1) in float32: boolean(1, 1, 64)
  t6 = where(t1, t4, t5) in float32: float32(1, 1, 64)
  t7 = identity(t6) in float32: store0: float8_e4m3(1, 1, 64) strides (64, 64, 1)
else 1 x 64 x 1
)");
}

TEST(EngineCast, to_float8_e5m2) {
  auto f = [](const Array& x) { return stiletto::cast(x, DType::float8_e5m2); };
  expect_text(engine_text(f, on_cpu({64}, f16)), R"(
cudnn graph, 1 x 1 x 64
  t0 = tensor0: float16(1, 1, 64) strides (64, 64, 1)
  t1 = 57344: float32 constant
  t2 = -57344: float32 constant
  t3 = less(t0, t2) in float32: boolean(1, 1, 64)
  t4 = where(t2, t0, t3) in float32: float32(1, 1, 64)
  t5 = greater(t4, t1) in float32: boolean(1, 1, 64)
  t6 = where(t1, t4, t5) in float32: float32(1, 1, 64)
  t7 = identity(t6) in float32: store0: float8_e5m2(1, 1, 64) strides (64, 64, 1)
else 1 x 64 x 1
)");
}

TEST(EngineCast, from_float8) {
  auto f = [](const Array& x) { return stiletto::cast(x, DType::float16); };
  expect_text(engine_text(f, on_cpu({64}, DType::float8_e4m3)), R"(
cudnn graph, 1 x 1 x 64
  t0 = tensor0: float8_e4m3(1, 1, 64) strides (64, 64, 1)
  t1 = identity(t0) in float32: store0: float16(1, 1, 64) strides (64, 64, 1)
else 1 x 64 x 1
)");
}

TEST(EngineCast, to_int8) {
  auto f = [](const Array& x) { return stiletto::cast(x, DType::int8); };
  expect_text(engine_text(f, on_cpu({64})), R"(
cudnn graph, 1 x 1 x 64
  t0 = tensor0: float32(1, 1, 64) strides (64, 64, 1)
  t1 = 0: float32 constant
  t2 = less(t0, t1) in float32: boolean(1, 1, 64)
  t3 = floor(t0) in float32: float32(1, 1, 64)
  t4 = ceil(t0) in float32: float32(1, 1, 64)
  t5 = where(t4, t3, t2) in float32: float32(1, 1, 64)
  t6 = identity(t5) in float32: store0: int8(1, 1, 64) strides (64, 64, 1)
else 1 x 64 x 1
)");
}

TEST(EngineCast, to_int32) {
  auto f = [](const Array& x) { return stiletto::cast(x, DType::int32); };
  expect_text(engine_text(f, on_cpu({64}, f16)), R"(
cudnn graph, 1 x 1 x 64
  t0 = tensor0: float16(1, 1, 64) strides (64, 64, 1)
  t1 = 0: float32 constant
  t2 = less(t0, t1) in float32: boolean(1, 1, 64)
  t3 = floor(t0) in float32: float32(1, 1, 64)
  t4 = ceil(t0) in float32: float32(1, 1, 64)
  t5 = where(t4, t3, t2) in float32: float32(1, 1, 64)
  t6 = identity(t5) in float32: store0: int32(1, 1, 64) strides (64, 64, 1)
else 1 x 64 x 1
)");
}

TEST(EngineCast, to_boolean) {
  auto f = [](const Array& x) { return stiletto::cast(x, DType::boolean); };
  expect_text(engine_text(f, on_cpu({64}, f16)), R"(
cudnn graph, 1 x 1 x 64
  t0 = tensor0: float16(1, 1, 64) strides (64, 64, 1)
  t1 = 0: float32 constant
  t2 = not_equal(t0, t1) in float32: store0: boolean(1, 1, 64) strides (64, 64, 1)
else 1 x 64 x 1
)");
}

TEST(EngineCast, from_boolean) {
  auto f = [](const Array& x) { return stiletto::cast(x, DType::float16); };
  expect_text(engine_text(f, on_cpu({64}, boolean)), R"(
cudnn graph, 1 x 1 x 64
  t0 = tensor0: boolean(1, 1, 64) strides (64, 64, 1)
  t1 = identity(t0) in float32: store0: float16(1, 1, 64) strides (64, 64, 1)
else 1 x 64 x 1
)");
}

TEST(EngineCast, int8_to_int32) {
  auto f = [](const Array& x) { return stiletto::cast(x, DType::int32); };
  expect_text(engine_text(f, on_cpu({64}, i8)), R"(
cudnn graph, 1 x 1 x 64
  t0 = tensor0: int8(1, 1, 64) strides (64, 64, 1)
  t1 = identity(t0) in float32: store0: int32(1, 1, 64) strides (64, 64, 1)
else 1 x 64 x 1
)");
}

TEST(EngineCast, int32_to_int8) {
  auto f = [](const Array& x) { return stiletto::cast(x, DType::int8); };
  expect_text(engine_text(f, on_cpu({64}, i32)), R"(
not 1 x 1 x 64: a cast from int32 to int8 wraps, and cuDNN's saturates
not 1 x 64 x 1: a cast from int32 to int8 wraps, and cuDNN's saturates
)");
}

TEST(EngineCast, to_float4) {
  auto f = [](const Array& x) { return stiletto::cast(x, DType::float4_e2m1); };
  expect_text(engine_text(f, on_cpu({64})), R"(
not 1 x 1 x 64: cuDNN writes float4_e2m1 only as part of block scaling
not 1 x 64 x 1: cuDNN writes float4_e2m1 only as part of block scaling
)");
}

TEST(EngineCast, size_1) {
  auto f = [](const Array& x) { return -x; };
  expect_text(engine_text(f, on_cpu({1}, f16)), R"(
cudnn graph, 1 x 1 x 1
  t0 = tensor0: float16(1, 1, 1) strides (1, 1, 1)
  t1 = negate(t0) in float32: store0: float16(1, 1, 1) strides (1, 1, 1)
)");
}

TEST(EngineCast, size_7) {
  auto f = [](const Array& x) { return -x; };
  expect_text(engine_text(f, on_cpu({7}, f16)), R"(
cudnn graph, 1 x 1 x 7
  t0 = tensor0: float16(1, 1, 7) strides (7, 7, 1)
  t1 = negate(t0) in float32: store0: float16(1, 1, 7) strides (7, 7, 1)
else 1 x 7 x 1
)");
}

TEST(EngineCast, size_1000) {
  auto f = [](const Array& x) { return -x; };
  expect_text(engine_text(f, on_cpu({1000}, f16)), R"(
cudnn graph, 1 x 1 x 1000
  t0 = tensor0: float16(1, 1, 1000) strides (1000, 1000, 1)
  t1 = negate(t0) in float32: store0: float16(1, 1, 1000) strides (1000, 1000, 1)
else 1 x 1000 x 1
)");
}

TEST(EngineCast, size_65536) {
  auto f = [](const Array& x) { return -x; };
  expect_text(engine_text(f, on_cpu({65536}, f16)), R"(
cudnn graph, 1 x 1024 x 64
  t0 = tensor0: float16(1, 1024, 64) strides (65536, 64, 1)
  t1 = negate(t0) in float32: store0: float16(1, 1024, 64) strides (65536, 64, 1)
else 1 x 64 x 1024
else 1 x 1 x 65536
else 1 x 65536 x 1
)");
}

TEST(EngineCast, size_1000003) {
  auto f = [](const Array& x) { return -x; };
  expect_text(engine_text(f, on_cpu({1000003}, f16)), R"(
cudnn graph, 1 x 125 x 8003
  t0 = tensor0: float16(1, 125, 8003) strides (1000000, 8000, 1)
  t1 = negate(t0) in float32: store0: float16(1, 125, 8003) strides (1000000, 8000, 1)
else 1 x 1000003 x 1
)");
}

TEST(EngineCast, size_1048576) {
  auto f = [](const Array& x) { return -x; };
  expect_text(engine_text(f, on_cpu({1048576}, f16)), R"(
cudnn graph, 16 x 1024 x 64
  t0 = tensor0: float16(16, 1024, 64) strides (65536, 64, 1)
  t1 = negate(t0) in float32: store0: float16(16, 1024, 64) strides (65536, 64, 1)
else 1 x 1024 x 1024
else 1 x 1048576 x 1
)");
}

TEST(EngineCast, size_2_to_26) {
  auto f = [](const Array& x) { return -x; };
  expect_text(engine_text(f, on_cpu({std::int64_t{1} << 26}, f16)), R"(
cudnn graph, 1024 x 1024 x 64
  t0 = tensor0: float16(1024, 1024, 64) strides (65536, 64, 1)
  t1 = negate(t0) in float32: store0: float16(1024, 1024, 64) strides (65536, 64, 1)
else 1 x 65536 x 1024
else 1 x 67108864 x 1
)");
}

TEST(EngineCast, size_2_to_31) {
  auto f = [](const Array& x) { return -x; };
  expect_text(engine_text(f, on_cpu({std::int64_t{1} << 31}, f16)), R"(
cudnn graph, 32768 x 1024 x 64
  t0 = tensor0: float16(32768, 1024, 64) strides (65536, 64, 1)
  t1 = negate(t0) in float32: store0: float16(32768, 1024, 64) strides (65536, 64, 1)
else 1 x 2097152 x 1024
else 1 x 2147483648 x 1
)");
}

TEST(EngineCast, size_2_to_33) {
  auto f = [](const Array& x) { return -x; };
  expect_text(engine_text(f, on_cpu({std::int64_t{1} << 33}, f16)), R"(
cudnn graph, 1 x 8388608 x 1024
  t0 = tensor0: float16(1, 8388608, 1024) strides (8589934592, 1024, 1)
  t1 = negate(t0) in float32: store0: float16(1, 8388608, 1024) strides (8589934592, 1024, 1)
else 1 x 8589934592 x 1
)");
}

TEST(EngineCast, size_2147483647) {
  auto f = [](const Array& x) { return -x; };
  expect_text(engine_text(f, on_cpu({2147483647}, f16)), R"(
cudnn graph, 1 x 262657 x 8191
  t0 = tensor0: float16(1, 262657, 8191) strides (2147483632, 8176, 1)
  t1 = negate(t0) in float32: store0: float16(1, 262657, 8191) strides (2147483632, 8176, 1)
else 1 x 2147483647 x 1
)");
}

TEST(EngineCast, size_1000003_in_place) {
  auto f = [](const Array& x) { stiletto::assign(x, -x); };
  expect_text(engine_text(f, on_cpu({1000003}, f16)), R"(
cudnn graph, 1 x 1000003 x 1
  t0 = tensor0: float16(1, 1000003, 1) strides (1000003, 1, 1)
  t1 = negate(t0) in float32: store0: float16(1, 1000003, 1) strides (1000003, 1, 1)
)");
}

TEST(EngineCast, size_of_two_primes_in_place) {
  auto f = [](const Array& x) { stiletto::assign(x, -x); };
  expect_text(engine_text(f, on_cpu({6007 * 1009}, f16)), R"(
cudnn graph, 1 x 1009 x 6007
  t0 = tensor0: float16(1, 1009, 6007) strides (6061063, 6007, 1)
  t1 = negate(t0) in float32: store0: float16(1, 1009, 6007) strides (6061063, 6007, 1)
else 1 x 6061063 x 1
)");
}

TEST(EngineCast, rows_too_wide) {
  auto f = [](const Array& x, const Array& y) { return x + y; };
  expect_text(engine_text(f, on_cpu({4, 1000003}, f16), on_cpu({4, 1}, f16)), R"(
not 4 x 125 x 8003: arg1 spans some of several axes that do not merge, or has gaps there, and cuDNN reads it at wrong places
cudnn graph, 1 x 4 x 1000003
  t0 = tensor0: float16(1, 4, 1000003) strides (4000012, 1000003, 1)
  t1 = tensor1: float16(1, 4, 1) strides (4, 1, 1)
  t2 = add(t0, t1) in float32: store0: float16(1, 4, 1000003) strides (4000012, 1000003, 1)
not 1 x 1000003 x 4: arg0 has gaps between its elements along every axis that cuDNN could walk innermost; pass a copy of it made outside the function, in the order of the result
not 4 x 1000003 x 1: arg1 spans some of several axes that do not merge, or has gaps there, and cuDNN reads it at wrong places
)");
}

TEST(EngineCast, many_batches) {
  auto f = [](const Array& x, const Array& y) { return x + y; };
  expect_text(engine_text(f, on_cpu({65536, 3, 5}), on_cpu({65536, 1, 5})), R"(
cudnn graph, 3 x 65536 x 5
  t0 = tensor0: float32(3, 65536, 5) strides (5, 15, 1)
  t1 = tensor1: float32(1, 65536, 5) strides (327680, 5, 1)
  t2 = add(t0, t1) in float32: store0: float32(3, 65536, 5) strides (5, 15, 1)
else 65536 x 3 x 5
)");
}

TEST(EngineCast, a_long_row) {
  auto f = [](const Array& x, const Array& y) { return x + y; };
  expect_text(engine_text(f, on_cpu({4, 1 << 21}), on_cpu({4, 1})), R"(
not 4 x 2048 x 1024: arg1 spans some of several axes that do not merge, or has gaps there, and cuDNN reads it at wrong places
cudnn graph, 1 x 4 x 2097152
  t0 = tensor0: float32(1, 4, 2097152) strides (8388608, 2097152, 1)
  t1 = tensor1: float32(1, 4, 1) strides (4, 1, 1)
  t2 = add(t0, t1) in float32: store0: float32(1, 4, 2097152) strides (8388608, 2097152, 1)
not 1 x 2097152 x 4: arg0 has gaps between its elements along every axis that cuDNN could walk innermost; pass a copy of it made outside the function, in the order of the result
not 4 x 2097152 x 1: arg1 spans some of several axes that do not merge, or has gaps there, and cuDNN reads it at wrong places
)");
}

}  // namespace
#endif
